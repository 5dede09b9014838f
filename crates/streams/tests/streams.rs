//! Two gateways whose relayed connections are streams of the satellite transport, over a path of 300 ms: connect requests, replies and
//! announcements of what each lets the other reach.
#![allow(clippy::unwrap_used, reason = "a test")]

use peering::dscp::Dscp;
use peering::{PrivateKey, ResetReason};
use relay::connect::{ConnectRequest, ConnectRequestError, MAX_LENGTH};
use relay::engine::{ConnectReply, ReceivedRequest, StreamEvent};
use relay::reach::{ANNOUNCEMENT, Ranges, Reach, ReachError};
use satpep::{Endpoint, EndpointConfig, Event, PeerConfig, Run, Stored, StreamId, routing};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::net::SocketAddr;
use streams::{Reported, Streams};
use testkit::{Channel, Datagram};
use units::{Bytes, Duration, Instant, Rate};

const NEAR: usize = 0;
const FAR: usize = 1;
/// The place of the other gateway.
const PEER: usize = 0;
const MAX_STREAMS: u32 = 8;

struct World {
    now: Instant,
    gateways: [Streams<Stored>; 2],
    /// The old process of the far gateway while that is upgraded.
    old: Option<Streams<Stored>>,
    /// What each has reported and no test has looked at.
    reported: [VecDeque<Reported>; 2],
    path: [Channel; 2],
}

fn address(index: usize) -> SocketAddr {
    SocketAddr::from(([198, 18, 0, index as u8 + 1], 4500))
}

/// Whether a datagram is for the process of generation 0, of two at one address.
fn is_for_old_process(datagram: &[u8]) -> bool {
    match datagram[0] {
        routing::INIT => datagram[routing::WANTED_AT] == routing::wanted(0),
        kind => datagram[routing::generation_at(kind)] & 1 == 0,
    }
}

fn key(index: usize) -> PrivateKey {
    PrivateKey::from_random([index as u8 + 1; 32])
}

fn gateway(now: Instant, index: usize, memory: Option<Bytes>) -> Streams<Stored> {
    process(now, index, memory, Run::Fresh)
}

fn process(now: Instant, index: usize, memory: Option<Bytes>, run: Run) -> Streams<Stored> {
    let rate = Rate::from_bps(20_000_000);
    let mut config = EndpointConfig::new(key(index), rate, rate, Duration::from_millis(300));
    config.max_streams = MAX_STREAMS;
    config.memory = memory;
    config.run = run;
    // A process that begins later has random numbers of its own.
    let mut seed = [index as u8; 32];
    seed[..8].copy_from_slice(&now.as_nanos().to_be_bytes());
    let mut endpoint = Endpoint::new(config, now, now.as_nanos(), seed);
    let call = (index == NEAR).then(|| address(FAR));
    let id = endpoint.add_peer(now, PeerConfig::new(key(1 - index).public_key(), call)).unwrap();
    Streams::new(endpoint, vec![id], true)
}

impl World {
    /// Two gateways with a session.
    fn new() -> Self {
        Self::with_memory(None)
    }

    /// The same, where all sessions of each gateway share so much memory.
    fn with_memory(memory: Option<Bytes>) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let path = [0, 1].map(|index| Channel::new(Duration::from_millis(150), 1, index));
        let gateways = [0, 1].map(|index| gateway(now, index, memory));
        let mut world = Self { now, gateways, old: None, reported: Default::default(), path };
        world.run();
        assert!(world.gateways.iter().all(|gateway| gateway.is_up(PEER)));
        world.reported = Default::default();
        world
    }

    /// Ten seconds pass.
    fn run(&mut self) {
        let end = self.now + Duration::from_secs(10);
        while self.now < end {
            (0..2).for_each(|index| self.drive(index));
            let processes = self.gateways.iter().chain(&self.old);
            let timeouts = processes.filter_map(|gateway| gateway.endpoint.next_timeout());
            let next = timeouts.chain(self.path.iter().filter_map(Channel::next_timeout)).min();
            self.now = next.unwrap_or(end).clamp(self.now, end);
        }
    }

    fn drive(&mut self, index: usize) {
        let now = self.now;
        while let Some(datagram) = self.path[1 - index].poll(now) {
            let old = self.old.as_mut().filter(|_| index == FAR && is_for_old_process(&datagram.bytes));
            let gateway = old.unwrap_or(&mut self.gateways[index]);
            gateway.endpoint.handle_datagram(now, datagram.from, &mut datagram.bytes.clone());
        }
        let old = self.old.as_mut().filter(|_| index == FAR);
        for gateway in [&mut self.gateways[index]].into_iter().chain(old) {
            gateway.endpoint.handle_timeout(now);
            while let Some(event) = gateway.poll_event(now) {
                self.reported[index].push_back(event);
            }
            let mut buffer = [0; 1500];
            while let Some(transmit) = gateway.endpoint.poll_transmit(now, &mut buffer) {
                for bytes in buffer[..transmit.size].chunks(transmit.segment_size) {
                    let (from, to) = (address(index), transmit.to);
                    self.path[index].send(now, Datagram { from, to, bytes: bytes.to_vec() });
                }
            }
        }
    }

    /// A new process takes over from the far gateway's.
    fn upgrade(&mut self) {
        let mut new = process(self.now, FAR, None, Run::Beside { generation: 1 });
        let peer = new.id(PEER);
        new.endpoint.initiate(self.now, peer, address(NEAR));
        self.old = Some(std::mem::replace(&mut self.gateways[FAR], new));
        self.run();
        assert!(self.gateways.iter().all(|gateway| gateway.is_up(PEER)));
    }

    /// Gateway `index` reads the announcements that have begun to arrive.
    fn read_announcements(&mut self, index: usize) {
        for event in self.for_engine(index) {
            if let StreamEvent::Opened(stream, _) = event {
                self.gateways[index].read_request(self.now, stream);
            }
        }
        self.run();
    }

    /// What gateway `index` has told its relay engine since the last call.
    fn for_engine(&mut self, index: usize) -> Vec<StreamEvent<StreamId>> {
        self.reported[index].drain(..).filter_map(|report| report.for_engine()).collect()
    }

    /// The streams that the far gateway's peer has opened.
    fn opened(&mut self) -> Vec<StreamId> {
        let events = self.for_engine(FAR);
        events
            .iter()
            .filter_map(|event| if let StreamEvent::Opened(id, PEER) = event { Some(*id) } else { None })
            .collect()
    }

    /// A stream on which the near gateway writes `bytes`, as the far one sees it.
    fn stream_of(&mut self, bytes: &[u8]) -> StreamId {
        let (now, near) = (self.now, &mut self.gateways[NEAR]);
        let id = near.endpoint.open(now, near.id(PEER)).unwrap();
        assert_eq!(near.endpoint.write(now, id, bytes), bytes.len());
        self.run();
        self.opened()[0]
    }
}

fn request() -> ConnectRequest {
    let [client, server] = ["10.0.0.1:256", "192.0.2.9:80"].map(|address| address.parse().unwrap());
    ConnectRequest { dscp: "ef".parse().unwrap(), ..ConnectRequest::new(client, server) }
}

fn reach(destination: &str) -> Reach {
    let destinations = Ranges::new([(destination.parse().unwrap(), true)]);
    Reach { sources: Ranges::default(), destinations }
}

/// The near gateway has opened a stream for a connection; its names at both ends.
fn connecting(world: &mut World) -> [StreamId; 2] {
    let near = world.gateways[NEAR].open(world.now, PEER, &request(), None).unwrap();
    world.run();
    let far = world.opened()[0];
    [near, far]
}

#[test]
fn a_connect_request_and_its_reply_cross_before_the_data() {
    let mut world = World::new();
    let [near, far] = connecting(&mut world);
    let now = world.now;
    assert!(matches!(world.gateways[NEAR].read_reply(now, near), ConnectReply::Waiting));
    let received = world.gateways[FAR].read_request(now, far);
    assert!(matches!(received, ReceivedRequest::Complete(received) if received == request()), "{received:?}");
    assert!(matches!(world.gateways[FAR].read_request(now, far), ReceivedRequest::Ended), "a request is read once");
    world.gateways[FAR].reply(now, far);
    assert_eq!(world.gateways[FAR].endpoint.write(now, far, b"welcome"), 7);
    world.run();
    assert!(world.for_engine(NEAR).contains(&StreamEvent::Ready(near)));
    let now = world.now;
    assert_eq!(world.gateways[NEAR].read_reply(now, near), ConnectReply::Connected);
    let mut slices = [IoSlice::new(&[])];
    assert_eq!(world.gateways[NEAR].endpoint.readable(near, &mut slices), 1);
    assert_eq!(&*slices[0], b"welcome", "the reply is one byte, and what follows it the connection's");
}

#[test]
fn a_request_that_comes_in_pieces_is_waited_for() {
    let mut world = World::new();
    let mut encoded = [0; MAX_LENGTH];
    let length = request().encode(&mut encoded).unwrap();
    let near = world.gateways[NEAR].endpoint.open(world.now, world.gateways[NEAR].id(PEER)).unwrap();
    let mut far = None;
    for piece in encoded[..length].chunks(5) {
        if let Some(far) = far {
            assert!(matches!(world.gateways[FAR].read_request(world.now, far), ReceivedRequest::Waiting));
        }
        world.gateways[NEAR].endpoint.write(world.now, near, piece);
        world.run();
        far = far.or_else(|| world.opened().first().copied());
    }
    let received = world.gateways[FAR].read_request(world.now, far.unwrap());
    assert!(matches!(received, ReceivedRequest::Complete(received) if received == request()), "{received:?}");
}

#[test]
fn what_is_no_request_or_no_reply_is_told_apart_from_one_that_ends() {
    let mut world = World::new();
    let far = world.stream_of(&[9, 9, 9]);
    let received = world.gateways[FAR].read_request(world.now, far);
    assert!(matches!(received, ReceivedRequest::Malformed(ConnectRequestError::Kind(9))), "{received:?}");

    let [near, far] = connecting(&mut world);
    world.gateways[FAR].endpoint.write(world.now, far, &[7]);
    world.run();
    assert_eq!(world.gateways[NEAR].read_reply(world.now, near), ConnectReply::Malformed);

    let [near, far] = connecting(&mut world);
    assert!(matches!(world.gateways[FAR].read_request(world.now, far), ReceivedRequest::Complete(_)));
    world.gateways[FAR].endpoint.finish(world.now, far);
    world.run();
    assert_eq!(world.gateways[NEAR].read_reply(world.now, near), ConnectReply::Ended);
    world.gateways[NEAR].endpoint.finish(world.now, near);
    world.run();
    assert!(world.for_engine(NEAR).contains(&StreamEvent::Closed(near)), "both directions have ended");
}

#[test]
fn a_reset_reaches_the_engine_with_its_reason() {
    let mut world = World::new();
    let [near, far] = connecting(&mut world);
    world.gateways[FAR].endpoint.reset(world.now, far, ResetReason::Refused);
    world.run();
    assert_eq!(world.for_engine(NEAR), [StreamEvent::Reset(near, ResetReason::Refused)]);
}

#[test]
fn packets_carry_the_dscp_of_the_client() {
    let mut world = World::new();
    let stream = world.gateways[NEAR].open(world.now, PEER, &request(), None);
    assert!(stream.is_some());
    let mut marked = Vec::new();
    let mut buffer = [0; 1500];
    while let Some(transmit) = world.gateways[NEAR].endpoint.poll_transmit(world.now, &mut buffer) {
        marked.push(transmit.dscp);
    }
    assert!(marked.contains(&"ef".parse::<Dscp>().unwrap()), "{marked:?}");
}

#[test]
fn no_stream_is_opened_beyond_the_limit_of_the_peer() {
    let mut world = World::new();
    assert_eq!(world.gateways[NEAR].room(PEER), (MAX_STREAMS.into(), MAX_STREAMS.into()));
    for _ in 0..MAX_STREAMS {
        assert!(world.gateways[NEAR].open(world.now, PEER, &request(), None).is_some());
    }
    assert!(world.gateways[NEAR].open(world.now, PEER, &request(), None).is_none());
    assert_eq!(world.gateways[NEAR].room(PEER).0, 0);
}

#[test]
fn what_a_gateway_allows_is_told_once_and_again_when_it_changes() {
    let mut world = World::new();
    assert!(world.gateways[NEAR].allows(PEER).is_none(), "nothing has been told");
    for destination in ["192.0.2.0/24", "203.0.113.0/24"] {
        let now = world.now;
        (0..2).for_each(|_| world.gateways[FAR].tell_reach(now, PEER, &reach(destination)));
        world.run();
        let events = world.for_engine(NEAR);
        let [StreamEvent::Opened(stream, PEER), StreamEvent::Ready(_)] = events[..] else { panic!("{events:?}") };
        assert!(matches!(world.gateways[NEAR].read_request(world.now, stream), ReceivedRequest::NoConnection));
        world.run();
        assert_eq!(world.gateways[NEAR].allows(PEER), Some(&reach(destination)));
        assert!(world.for_engine(NEAR).contains(&StreamEvent::PeersChanged));
    }
    world.run();
    assert_eq!(world.gateways[FAR].room(PEER).0, u64::from(MAX_STREAMS), "announcements leave no stream open");
}

#[test]
fn announcements_are_no_connections() {
    let mut world = World::new();
    let now = world.now;
    world.gateways[FAR].tell_reach(now, PEER, &reach("192.0.2.0/24"));
    assert_eq!(world.gateways[FAR].connections(now, PEER), 0);
    world.run();
    // The near gateway has not read it yet.
    assert_eq!(world.gateways[FAR].connections(world.now, PEER), 0);
    world.read_announcements(NEAR);
    world.gateways[NEAR].open(world.now, PEER, &request(), None).unwrap();
    assert_eq!(world.gateways[NEAR].connections(world.now, PEER), 1);
}

#[test]
fn an_announcement_waits_until_a_stream_is_free() {
    let mut world = World::new();
    let now = world.now;
    let far = &mut world.gateways[FAR];
    let held: Vec<_> = (0..MAX_STREAMS).map(|_| far.open(now, PEER, &request(), None).unwrap()).collect();
    far.tell_reach(now, PEER, &reach("192.0.2.0/24"));
    world.run();
    assert_eq!(
        world.for_engine(NEAR).iter().filter(|event| matches!(event, StreamEvent::Opened(..))).count(),
        held.len()
    );
    world.gateways[FAR].endpoint.reset(world.now, held[0], ResetReason::Aborted);
    world.run();
    world.gateways[FAR].tick(world.now);
    world.run();
    let events = world.for_engine(NEAR);
    let Some(StreamEvent::Opened(stream, _)) = events.iter().find(|event| matches!(event, StreamEvent::Opened(..)))
    else {
        panic!("{events:?}")
    };
    assert!(matches!(world.gateways[NEAR].read_request(world.now, *stream), ReceivedRequest::NoConnection));
    world.run();
    assert_eq!(world.gateways[NEAR].allows(PEER), Some(&reach("192.0.2.0/24")));
}

#[test]
fn an_announcement_that_changes_while_half_of_it_is_written_arrives_as_it_is_then() {
    // Where memory is short, a stream takes little at a time.
    let mut world = World::with_memory(Some(EndpointConfig::least_memory(1)));
    let now = world.now;
    let far = &mut world.gateways[FAR];
    let peer = far.id(PEER);
    let others: Vec<_> = (0..MAX_STREAMS - 1).map(|_| far.endpoint.open(now, peer).unwrap()).collect();
    for stream in &others {
        far.endpoint.write(now, *stream, &[7; 64 * 1024]);
    }
    let hosts = (0..800).map(|at| (format!("192.0.{}.{}/32", at / 200, at % 200).parse().unwrap(), true));
    let long = Reach { sources: Ranges::default(), destinations: Ranges::new(hosts) };
    far.tell_reach(now, PEER, &long);
    far.tell_reach(now, PEER, &Reach::default());
    others.into_iter().for_each(|stream| far.endpoint.reset(now, stream, ResetReason::Aborted));
    let mut heard = Vec::new();
    for _ in 0..2 {
        world.run();
        for event in world.for_engine(NEAR) {
            if let StreamEvent::Opened(stream, _) = event {
                world.gateways[NEAR].read_request(world.now, stream);
            }
        }
        world.run();
        heard.push(world.gateways[NEAR].allows(PEER).cloned());
    }
    assert_eq!(heard, [Some(long), Some(Reach::default())]);
}

#[test]
fn an_announcement_that_is_none_is_reported_and_its_stream_reset() {
    let mut world = World::new();
    // Two bytes of entries, of which an entry takes six at least.
    let far = world.stream_of(&[ANNOUNCEMENT, 0, 2, 1, 1]);
    assert!(matches!(world.gateways[FAR].read_request(world.now, far), ReceivedRequest::NoConnection));
    world.run();
    let reported = world.reported[FAR].iter();
    let faults: Vec<_> = reported
        .filter_map(|report| if let Reported::BadAnnouncement(at, error) = report { Some((*at, *error)) } else { None })
        .collect();
    assert_eq!(faults, [(PEER, ReachError::Entry)]);
    assert!(world.for_engine(NEAR).iter().any(|event| matches!(event, StreamEvent::Reset(_, ResetReason::Protocol))));
    assert!(world.gateways[FAR].allows(PEER).is_none());
}

#[test]
fn a_peer_that_restarts_is_told_again_and_what_it_allowed_is_forgotten() {
    let mut world = World::new();
    let now = world.now;
    for index in [NEAR, FAR] {
        world.gateways[index].tell_reach(now, PEER, &reach("192.0.2.0/24"));
    }
    world.run();
    (0..2).for_each(|index| world.read_announcements(index));
    assert!(world.gateways[FAR].allows(PEER).is_some());

    world.gateways[NEAR] = gateway(world.now, NEAR, None);
    world.run();
    assert!(world.gateways[FAR].allows(PEER).is_none(), "the new process has told nothing");
    let reported = world.reported[FAR].iter();
    assert!(reported.into_iter().any(|report| matches!(report, Reported::Session(Event::PeerRestarted(_)))));
    world.read_announcements(NEAR);
    assert_eq!(world.gateways[NEAR].allows(PEER), Some(&reach("192.0.2.0/24")), "and is told again");
}

#[test]
fn of_a_peer_that_is_upgraded_the_announcements_of_the_new_process_count() {
    let mut world = World::new();
    world.gateways[FAR].tell_reach(world.now, PEER, &reach("192.0.2.0/24"));
    world.run();
    world.read_announcements(NEAR);
    assert_eq!(world.gateways[NEAR].allows(PEER), Some(&reach("192.0.2.0/24")));
    world.upgrade();
    world.gateways[FAR].tell_reach(world.now, PEER, &reach("203.0.113.0/24"));
    world.run();
    world.read_announcements(NEAR);
    assert_eq!(world.gateways[NEAR].allows(PEER), Some(&reach("203.0.113.0/24")));

    // The old one is short of memory.
    let now = world.now;
    world.old.as_mut().unwrap().tell_reach(now, PEER, &Reach::default());
    world.run();
    world.read_announcements(NEAR);
    assert_eq!(world.gateways[NEAR].allows(PEER), Some(&reach("203.0.113.0/24")), "streams open with the new one");
    world.old = None;
    world.run();
    assert_eq!(world.gateways[NEAR].allows(PEER), Some(&reach("203.0.113.0/24")));
}

#[test]
fn a_process_that_has_left_announcements_to_another_makes_none() {
    let mut world = World::new();
    let (now, far) = (world.now, &mut world.gateways[FAR]);
    far.leave_announcements();
    far.tell_reach(now, PEER, &reach("192.0.2.0/24"));
    world.run();
    assert!(world.for_engine(NEAR).is_empty());
}

#[test]
fn a_peer_that_was_removed_opens_no_streams() {
    let mut world = World::new();
    let (now, id) = (world.now, world.gateways[FAR].id(PEER));
    assert_eq!(world.gateways[FAR].peers().collect::<Vec<_>>(), [(PEER, id)]);
    world.gateways[FAR].remove_peer(now, PEER);
    assert_eq!((world.gateways[FAR].place(id), world.gateways[FAR].peers().count()), (None, 0));
    let config = PeerConfig::new(key(NEAR).public_key(), None);
    let again = world.gateways[FAR].endpoint.add_peer(now, config).unwrap();
    world.gateways[FAR].put_peer(PEER, again);
    assert_eq!(world.gateways[FAR].place(again), Some(PEER));
    world.run();
    world.run();
    assert!(world.gateways[NEAR].is_up(PEER), "it is a peer again, in the same place");
    connecting(&mut world);
}

#[test]
fn the_engine_is_not_told_of_clocks() {
    let id = World::new().gateways[NEAR].id(PEER);
    assert_eq!(Reported::Session(Event::PeerUp(id)).for_engine(), Some(StreamEvent::PeersChanged));
    assert_eq!(Reported::BadAnnouncement(PEER, ReachError::Entry).for_engine(), None);
}
