//! The relay engine under any sequence of what its two sides may report: whatever happens, each TCP connection is closed or aborted
//! once and not touched afterwards, each held SYN is answered once, each stream is forgotten once, bytes are counted once, no
//! deadline keeps a driver spinning, and nothing is left when the gateway stops.

use crate::script::{FakeHosts, FakeTransport, Heard, peer};
use peering::ResetReason;
use proptest::prelude::*;
use relay::connect::ConnectRequest;
use relay::connection::State;
use relay::engine::{ConnectError, ConnectReply, Engine, Notice, Progress, ReceivedRequest, Settings, StreamEvent};
use relay::routes::Routes;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use units::{Duration, Instant};

/// What may happen next. Numbers choose among what there is.
#[derive(Debug, Clone)]
enum Step {
    /// A client connects.
    Accept {
        client: u8,
        routed: bool,
    },
    /// A client's SYN is held, where SYNs are.
    Hold {
        client: u8,
        routed: bool,
    },
    /// The peer opens a stream, and its connect request arrives, or something else.
    Open(Option<Request>),
    /// The far gateway's next answer.
    Reply(ConnectReply),
    /// What the next turns move, from TCP and to TCP.
    Send(u16, Progress),
    Receive(u16, Progress),
    /// Reports about a connection in the table.
    StreamReady(u8),
    StreamReset(u8, ResetReason),
    TcpReady(u8),
    TcpFailed(u8),
    Connected(u8),
    ConnectFailed(u8, ResetReason),
    /// A host vanishes.
    Gone(u8),
    /// What the next connection to a host comes to.
    Fails(ConnectError),
    /// How many connections the host has room for.
    Room(u8),
    /// Streams that are left towards the peer.
    Streams(u8),
    PeerIsUp(bool),
    Elapse(u32),
}

#[derive(Debug, Clone, Copy)]
enum Request {
    Valid,
    Denied,
    NoConnection,
    Ended,
}

fn reason() -> impl Strategy<Value = ResetReason> {
    prop::sample::select(vec![
        ResetReason::Refused,
        ResetReason::Unreachable,
        ResetReason::TimedOut,
        ResetReason::Denied,
    ])
}

fn progress() -> impl Strategy<Value = Progress> {
    prop_oneof![
        4 => Just(Progress::More),
        4 => Just(Progress::Blocked),
        3 => Just(Progress::Ended),
        1 => Just(Progress::TcpFailed),
        1 => reason().prop_map(Progress::StreamFailed),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let reply = prop_oneof![
        4 => Just(ConnectReply::Connected),
        1 => reason().prop_map(ConnectReply::Failed),
        1 => Just(ConnectReply::Ended),
        1 => Just(ConnectReply::Malformed),
    ];
    let request = prop::option::of(prop::sample::select(vec![
        Request::Valid,
        Request::Valid,
        Request::Denied,
        Request::NoConnection,
        Request::Ended,
    ]));
    let failure = prop_oneof![Just(ConnectError::NoRoom), reason().prop_map(ConnectError::Failed)];
    prop_oneof![
        4 => (0u8..6, prop::bool::weighted(0.9)).prop_map(|(client, routed)| Step::Accept { client, routed }),
        2 => (0u8..6, prop::bool::weighted(0.9)).prop_map(|(client, routed)| Step::Hold { client, routed }),
        4 => request.prop_map(Step::Open),
        4 => reply.prop_map(Step::Reply),
        4 => (any::<u16>(), progress()).prop_map(|(count, progress)| Step::Send(count, progress)),
        4 => (any::<u16>(), progress()).prop_map(|(count, progress)| Step::Receive(count, progress)),
        6 => any::<u8>().prop_map(Step::StreamReady),
        1 => (any::<u8>(), reason()).prop_map(|(at, reason)| Step::StreamReset(at, reason)),
        3 => any::<u8>().prop_map(Step::TcpReady),
        1 => any::<u8>().prop_map(Step::TcpFailed),
        3 => any::<u8>().prop_map(Step::Connected),
        1 => (any::<u8>(), reason()).prop_map(|(at, reason)| Step::ConnectFailed(at, reason)),
        1 => any::<u8>().prop_map(Step::Gone),
        1 => failure.prop_map(Step::Fails),
        1 => (1u8..8).prop_map(Step::Room),
        1 => (0u8..8).prop_map(Step::Streams),
        1 => prop::bool::weighted(0.7).prop_map(Step::PeerIsUp),
        3 => (0u32..40_000).prop_map(Step::Elapse),
    ]
}

/// The engine, and what the test has given it.
struct World {
    engine: Engine<FakeTransport, FakeHosts>,
    now: Instant,
    /// TCP connections of clients.
    clients: Vec<u32>,
    syns: Vec<&'static str>,
    streams: u32,
    holds_syns: bool,
    /// Bytes of turns that were scripted.
    scripted: [u64; 2],
}

impl World {
    fn new(holds_syns: bool) -> Self {
        let peer = peer("far", &["203.0.113.0/24"]);
        let settings = Settings {
            routes: Routes::new(peer.routes.iter().map(|route| (*route, 0))).unwrap(),
            classes: Vec::new(),
            bypass: Vec::new(),
            connect_timeout: Duration::from_secs(20),
            user_timeout: Duration::from_secs(60),
        };
        let mut engine = Engine::new(FakeTransport::up(1), FakeHosts::default(), settings, [peer], &[]);
        engine.set_holds_syns(holds_syns);
        let now = Instant::from_nanos(1_000_000_000);
        Self { engine, now, clients: Vec::new(), syns: Vec::new(), streams: 1_000_000, holds_syns, scripted: [0; 2] }
    }

    fn request(client: u8, routed: bool) -> ConnectRequest {
        let server: SocketAddr = if routed { "203.0.113.5:80" } else { "192.0.2.1:80" }.parse().unwrap();
        ConnectRequest::new(SocketAddr::from(([10, 0, 0, client], 1_000)), server)
    }

    /// The key of some connection for which `is_meant` holds.
    fn pick(&self, at: u8, is_meant: impl Fn(State, bool) -> bool) -> Option<usize> {
        let meant = self.engine.connections().filter(|(_, one)| is_meant(one.state(), one.tcp().is_some()));
        let keys: Vec<_> = meant.map(|(key, _)| key).collect();
        keys.get(usize::from(at) % keys.len().max(1)).copied()
    }

    fn open_stream(&mut self, request: Option<Request>) {
        let stream = self.streams;
        self.streams += 1;
        let received = request.map(|request| match request {
            Request::Valid => ReceivedRequest::Complete(Self::request(9, true)),
            Request::Denied => ReceivedRequest::Complete(Self::request(9, false)),
            Request::NoConnection => ReceivedRequest::NoConnection,
            Request::Ended => ReceivedRequest::Ended,
        });
        self.engine.transport.requests.extend(received.map(|received| (stream, received)));
        self.engine.on_stream_event(self.now, StreamEvent::Opened(stream, 0));
    }

    fn take(&mut self, step: Step) {
        let (now, engine) = (self.now, &mut self.engine);
        match step {
            Step::Accept { client, routed } => {
                let tcp = self.clients.len() as u32;
                self.clients.push(tcp);
                engine.accept(now, tcp, Self::request(client, routed));
            }
            Step::Hold { client, routed } if self.holds_syns => {
                let syn: &'static str = Box::leak(format!("syn {}", self.syns.len()).into_boxed_str());
                self.syns.push(syn);
                engine.hold(now, syn, Self::request(client, routed));
            }
            Step::Hold { .. } => {}
            Step::Open(request) => self.open_stream(request),
            Step::Reply(reply) => engine.transport.replies.push(reply),
            Step::Send(count, progress) => {
                self.scripted[0] += u64::from(count);
                engine.transport.to_send.push((count.into(), progress));
            }
            Step::Receive(count, progress) => {
                self.scripted[1] += u64::from(count);
                engine.transport.to_receive.push((count.into(), progress));
            }
            Step::StreamReady(at) => {
                if let Some(key) = self.pick(at, |_, _| true) {
                    let stream = self.engine.connection(key).unwrap().stream();
                    self.engine.on_stream_event(now, StreamEvent::Ready(stream));
                }
            }
            Step::StreamReset(at, reason) => {
                if let Some(key) = self.pick(at, |_, _| true) {
                    let stream = self.engine.connection(key).unwrap().stream();
                    self.engine.on_stream_event(now, StreamEvent::Reset(stream, reason));
                }
            }
            Step::TcpReady(at) => {
                self.pick(at, |_, has_tcp| has_tcp).into_iter().for_each(|key| self.engine.on_ready(key))
            }
            Step::TcpFailed(at) => {
                if let Some(key) = self.pick(at, |state, has_tcp| has_tcp && state != State::Connecting) {
                    self.engine.on_tcp_failed(now, key);
                }
            }
            Step::Connected(at) => {
                if let Some(key) = self.pick(at, |state, has_tcp| has_tcp && state == State::Connecting) {
                    self.engine.on_connected(now, key);
                }
            }
            Step::ConnectFailed(at, reason) => {
                if let Some(key) = self.pick(at, |state, has_tcp| has_tcp && state == State::Connecting) {
                    self.engine.on_connect_failed(now, key, reason);
                }
            }
            Step::Gone(at) => {
                let tcp =
                    self.pick(at, |_, has_tcp| has_tcp).and_then(|key| self.engine.connection(key)?.tcp().copied());
                self.engine.hosts.gone.extend(tcp);
            }
            Step::Fails(error) => engine.hosts.failures.push(error),
            Step::Room(most) => engine.hosts.most = most.into(),
            Step::Streams(free) => engine.transport.peers[0].free = free.into(),
            Step::PeerIsUp(is_up) => {
                engine.transport.peers[0].is_up = is_up;
                engine.on_stream_event(now, StreamEvent::PeersChanged);
            }
            Step::Elapse(millis) => self.now = now + Duration::from_millis(millis.into()),
        }
        self.turn();
    }

    /// One wake of a driver.
    fn turn(&mut self) {
        self.engine.handle_timeout(self.now);
        self.engine.sweep(self.now);
        self.engine.look_at_limits(self.now);
        self.engine.serve_waiting(self.now);
        while self.engine.has_work() {
            self.engine.run(self.now, 8);
        }
    }

    /// How often each TCP connection ended; it panics at one that is touched after its end.
    fn ends(&self) -> BTreeMap<u32, usize> {
        let mut ended = BTreeMap::<u32, usize>::new();
        for heard in &self.engine.hosts.heard {
            match heard {
                Heard::Closed(tcp) | Heard::Aborted(tcp) => *ended.entry(*tcp).or_default() += 1,
                Heard::Adopted(_, tcp) | Heard::Finished(tcp) => assert!(!ended.contains_key(tcp), "{tcp} has ended"),
                _ => {}
            }
        }
        ended
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_and_nothing_happens_twice(
        holds_syns: bool,
        steps in proptest::collection::vec(step(), 1..150),
    ) {
        let mut world = World::new(holds_syns);
        for step in steps {
            world.take(step);
            if let Some(at) = world.engine.next_timeout() {
                prop_assert!(at > world.now, "a driver would spin");
            }
            let engine = &world.engine;
            let is_queued: BTreeSet<_> = engine.connections().map(|(_, one)| one.stream()).collect();
            prop_assert_eq!(is_queued.len(), engine.connections().len(), "a stream carries one connection");
            prop_assert!(engine.connections().all(|(_, one)| one.state() != State::Closed));
        }
        let opened = world.engine.counters.clone();
        world.engine.shut_down(world.now);
        world.engine.remove_peer(world.now, 0);
        world.turn();
        let engine = &mut world.engine;
        prop_assert_eq!((engine.connections().len(), engine.next_timeout(), engine.has_work()), (0, None, false));

        let counters = engine.counters.clone();
        prop_assert_eq!(counters.finished + counters.reset, counters.accepted + counters.connected);
        let unopened = engine.transport.forgotten.len() as u64 - counters.finished - counters.reset;
        let failed = counters.denied + counters.refused + counters.unreachable + counters.protocol_errors;
        prop_assert!(counters.abandoned <= unopened && unopened <= counters.abandoned + failed, "{counters:?}");
        prop_assert!(counters.finished >= opened.finished && counters.reset >= opened.reset);
        let once: BTreeSet<_> = engine.transport.forgotten.iter().collect();
        prop_assert_eq!(once.len(), engine.transport.forgotten.len(), "each stream is forgotten once");
        let left = |turns: &[(u64, Progress)]| turns.iter().map(|(count, _)| count).sum::<u64>();
        let moved = [
            world.scripted[0] - left(&engine.transport.to_send),
            world.scripted[1] - left(&engine.transport.to_receive),
        ];
        prop_assert_eq!([counters.bytes_from_tcp, counters.bytes_to_tcp], moved);

        let defects: Vec<_> = std::iter::from_fn(|| engine.poll_notice())
            .filter(|notice| matches!(notice, Notice::Defect(_)))
            .collect();
        prop_assert!(defects.is_empty(), "{defects:?}");

        let ends = world.ends();
        prop_assert!(ends.values().all(|times| *times == 1), "{ends:?}");
        let made = (1_001..).take_while(|tcp| ends.contains_key(tcp)).count();
        prop_assert_eq!(made + world.clients.len(), ends.len(), "each client's and each that was made");
        prop_assert!(world.clients.iter().all(|tcp| ends.contains_key(tcp)), "{ends:?}");
        let mut answered: Vec<_> = world
            .engine
            .hosts
            .heard
            .iter()
            .filter_map(|heard| match heard {
                Heard::Released(syn) | Heard::Refused(syn) | Heard::Forgotten(syn) => Some(*syn),
                _ => None,
            })
            .collect();
        answered.sort_unstable();
        world.syns.sort_unstable();
        prop_assert_eq!(answered, world.syns, "each held SYN is answered once");
    }
}
