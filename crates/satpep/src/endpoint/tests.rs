//! Tests of what needs the keys: a peer that misbehaves, and keys that were used enough.

use super::*;
use crate::capacity::{EstimateSource, EstimatorState};
use crate::packet_number::PacketNumber;
use crate::seal::Sealing as _;
use crate::stream::{StreamNumber, StreamOffset};
use crate::wire::arrivals::Counters;
use crate::wire::frame::Writer;
use crate::wire::packet::{DATA_HEADER, DataHeader, INIT, RESPONSE, TAG};
use crate::{PeerConfig, PrivateKey, ResetReason, Run};

/// Two endpoints without a link between them.
struct Pair {
    now: Instant,
    ends: [Endpoint; 2],
}

fn address(index: usize) -> SocketAddr {
    SocketAddr::from(([198, 18, 0, index as u8 + 1], 4500))
}

fn private_key(index: usize) -> PrivateKey {
    PrivateKey::from_random([index as u8 + 1; 32])
}

impl Pair {
    /// A connected pair; the second is the initiator.
    fn new() -> Self {
        Self::with(|_| {})
    }

    /// The same of ends whose configuration `adjust` has changed.
    fn with(adjust: impl Fn(&mut EndpointConfig)) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let rate = Rate::from_bps(100_000_000);
        let ends = [0, 1].map(|index| {
            let mut config = EndpointConfig::new(private_key(index), rate, rate, Duration::from_millis(20));
            config.keepalive = Duration::from_secs(2);
            adjust(&mut config);
            let mut end = Endpoint::new(config, now, 1 << 60, [index as u8; 32]);
            let address_of_peer = (index == 1).then(|| address(0));
            end.add_peer(now, PeerConfig::new(private_key(1 - index).public_key(), address_of_peer)).expect("peer");
            end
        });
        let mut pair = Self { now, ends };
        pair.run(50);
        assert!(pair.ends.iter().all(|end| end.peer_state(PeerId(0)) == PeerState::Up));
        pair
    }

    /// Lets `millis` milliseconds pass.
    fn run(&mut self, millis: u32) {
        self.run_through(millis, |_, _| true);
    }

    /// The same where of the datagrams of each end those pass for which `passes` says yes.
    fn run_through(&mut self, millis: u32, mut passes: impl FnMut(usize, &[u8]) -> bool) {
        let mut buffer = vec![0; 65_536];
        for _ in 0..millis {
            self.now += Duration::from_millis(1);
            for from in 0..2 {
                self.ends[from].handle_timeout(self.now);
                while let Some(transmit) = self.ends[from].poll_transmit(self.now, &mut buffer) {
                    for datagram in buffer[..transmit.size].chunks_mut(transmit.segment_size) {
                        if passes(from, datagram) {
                            self.ends[1 - from].handle_datagram(self.now, address(from), datagram);
                        }
                    }
                }
            }
        }
    }

    /// Nothing passes until both ends miss the other.
    fn cut(&mut self) {
        self.run_through(12_000, |_, _| false);
        assert!(self.ends.iter().all(|end| end.peer_state(PeerId(0)) == PeerState::Unresponsive));
    }

    /// The process of end 1 begins again; if it is to wait, it knows no address of the other.
    fn restart(&mut self, address_of_peer: Option<SocketAddr>) {
        let config = self.ends[1].config.clone();
        let unix_time = self.ends[1].unix_time(self.now);
        let mut end = Endpoint::new(config, self.now, unix_time, [7; 32]);
        end.add_peer(self.now, PeerConfig::new(private_key(0).public_key(), address_of_peer)).expect("peer");
        self.ends[1] = end;
    }

    /// End 0 has a session with the process that began again, and a stream. Returns what it reports of `late`, which arrives now.
    fn news_of_late(&mut self, mut late: Vec<u8>) -> Vec<Event> {
        self.run(8000);
        assert!(self.ends.iter().all(|end| end.peer_state(PeerId(0)) == PeerState::Up));
        assert!(events(&mut self.ends[0]).contains(&Event::PeerRestarted(PeerId(0))));
        let id = self.ends[0].open(self.now, PeerId(0)).expect("open");
        self.ends[0].write(self.now, id, b"hello");
        self.run(100);
        self.ends[0].handle_datagram(self.now, address(1), &mut late);
        self.run(8000);
        events(&mut self.ends[0])
    }

    /// A datagram of end 1 that carries what `write` writes, sealed with its keys under its next number.
    fn sealed(&mut self, write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
        let peer = &mut self.ends[1].peers[0];
        let keys = peer.keys.current.as_ref().expect("connected");
        let session = peer.session.as_mut().expect("connected");
        let number = session.recovery.sent_packets.next_number();
        session.recovery.sent_packets.record(self.now, 0, 100, Default::default(), Default::default());
        let mut datagram = vec![0; 400];
        let mut writer = Writer::new(&mut datagram[DATA_HEADER..384]);
        write(&mut writer);
        let length = DATA_HEADER + writer.len() + TAG;
        datagram.truncate(length);
        DataHeader { receiver: keys.peer_index, number_low: number.low_half() }.write(&mut datagram);
        keys.send.seal(number, &mut datagram, length);
        datagram
    }
}

fn events(end: &mut Endpoint) -> Vec<Event> {
    std::iter::from_fn(|| end.poll_event()).collect()
}

#[test]
fn a_peer_that_breaks_the_protocol_loses_its_session_and_may_begin_anew() {
    let violations: [fn(&mut Writer<'_>); 3] = [
        |writer| assert!(writer.ack(std::iter::once(PacketNumber::range(0..1 << 40)), 0, PacketNumber::new(0))),
        |writer| writer.stream::<Stored>(StreamNumber::new(0), StreamOffset::new(1 << 50), 5, false).fill(1),
        |writer| {
            writer.stream::<Stored>(StreamNumber::new(0), StreamOffset::new(0), 5, true).fill(1);
            writer.stream::<Stored>(StreamNumber::new(0), StreamOffset::new(0), 6, true).fill(1);
        },
    ];
    for violation in violations {
        let mut pair = Pair::new();
        let id = pair.ends[0].open(pair.now, PeerId(0)).expect("open");
        pair.ends[0].write(pair.now, id, b"hello");
        pair.run(30);
        let before = [0, 1].map(|index| events(&mut pair.ends[index]).len());
        assert!(before.iter().all(|count| *count > 0));
        // Streams of the right parity for whichever end opens the even ones.
        let even = pair.ends[1].public_key() < pair.ends[0].public_key();
        let mut datagram = pair.sealed(|writer| {
            violation(writer);
            if !even {
                assert!(writer.ack(std::iter::once(PacketNumber::range(0..1 << 40)), 0, PacketNumber::new(0)));
            }
        });
        pair.ends[0].handle_datagram(pair.now, address(1), &mut datagram);
        let news = events(&mut pair.ends[0]);
        assert!(news.contains(&Event::Reset(id, ResetReason::Protocol)), "{news:?}");
        assert!(news.iter().any(|event| matches!(event, Event::PeerBroke(PeerId(0), _))), "{news:?}");
        assert!(!news.contains(&Event::PeerUnresponsive(PeerId(0))), "it has spoken: {news:?}");
        assert_eq!(pair.ends[0].stats().violations, 1);
        assert_eq!(pair.ends[0].peer_state(PeerId(0)), PeerState::Connecting);
        assert_eq!(pair.ends[0].open(pair.now, PeerId(0)), Err(OpenError::NotConnected));
        // The other end finds out by the silence, and begins again.
        pair.run(12_000);
        assert!(pair.ends.iter().all(|end| end.peer_state(PeerId(0)) == PeerState::Up));
        let id = pair.ends[0].open(pair.now, PeerId(0)).expect("open");
        assert_eq!(pair.ends[0].write(pair.now, id, b"again"), 5);
        pair.run(30);
        let opened = events(&mut pair.ends[1]).into_iter().any(|event| matches!(event, Event::Opened(_)));
        assert!(opened);
    }
}

#[test]
fn a_report_of_more_than_was_sent_is_counted_and_the_session_goes_on() {
    let mut pair = Pair::new();
    for packets in [1 << 29, 5] {
        let counters = Counters { packets, bytes: 1 << 29, ce: None };
        let mut datagram =
            pair.sealed(|writer| assert!(writer.arrivals(&counters, &[(PacketNumber::new(1 << 40), 7)])));
        pair.ends[0].handle_datagram(pair.now, address(1), &mut datagram);
    }
    let stats = pair.ends[0].peer_stats(pair.now, PeerId(0));
    assert_eq!((stats.implausible_reports, stats.congestion_reported), (2, 0));
    pair.run(30);
    assert_eq!(pair.ends[0].stats().violations, 0);
    assert!(pair.ends.iter().all(|end| end.peer_state(PeerId(0)) == PeerState::Up));
    assert_eq!(
        pair.ends[0].peer_stats(pair.now, PeerId(0)).implausible_reports,
        2,
        "what the peer says itself is true"
    );
}

/// Has the end send `count` datagrams that nobody sees.
fn use_up(end: &mut Endpoint, now: Instant, count: u64) {
    let session = end.peers[0].session.as_mut().expect("connected");
    for _ in 0..count {
        session.recovery.sent_packets.record(now, 0, 100, Default::default(), Default::default());
    }
}

#[test]
fn keys_are_renewed_after_so_many_datagrams() {
    let mut pair = Pair::new();
    let before = pair.ends[1].stats().handshakes;
    use_up(&mut pair.ends[1], pair.now, (1 << 22) + 1);
    let id = pair.ends[1].open(pair.now, PeerId(0)).expect("open");
    pair.ends[1].write(pair.now, id, b"more");
    pair.run(1500);
    assert_eq!(pair.ends[1].stats().handshakes, before + 1);
    assert_eq!(pair.ends[0].stats().dropped.replayed, 0);
    let opened = events(&mut pair.ends[0]).into_iter().filter(|event| matches!(event, Event::Opened(_))).count();
    assert_eq!(opened, 1, "numbers go on after a jump, and so does the session");
}

#[test]
fn who_sends_most_renews_the_keys_whoever_began_and_data_never_waits() {
    // 200,000 datagrams a second of the responder's at a round trip of 600 ms, in small: its limits and the rate are a
    // thousandth of what they are. The initiator sends few, and its limits are far away.
    let mut pair = Pair::new();
    pair.ends[0].peers[0].limits = super::peer::KeyLimits { renew: 4_194, most: 16_777 };
    assert!(!pair.ends[0].peers[0].keys.current.as_ref().expect("connected").ours);
    let before = pair.ends[0].stats().handshakes;
    let id = pair.ends[0].open(pair.now, PeerId(0)).expect("open");
    let (mut sent, mut late) = (0, std::collections::VecDeque::new());
    let mut buffer = vec![0; 65_536];
    for step in 0..200_000u64 {
        pair.now += Duration::from_millis(1);
        if step.is_multiple_of(5) {
            use_up(&mut pair.ends[0], pair.now, 1);
            sent += pair.ends[0].write(pair.now, id, b"more");
        }
        for from in 0..2 {
            pair.ends[from].handle_timeout(pair.now);
            while let Some(transmit) = pair.ends[from].poll_transmit(pair.now, &mut buffer) {
                for datagram in buffer[..transmit.size].chunks(transmit.segment_size) {
                    late.push_back((pair.now + Duration::from_millis(300), from, datagram.to_vec()));
                }
            }
        }
        while late.front().is_some_and(|(at, ..)| *at <= pair.now) {
            let (_, from, mut datagram) = late.pop_front().expect("just seen");
            pair.ends[1 - from].handle_datagram(pair.now, address(from), &mut datagram);
        }
        assert!(!pair.ends[0].peers[0].is_spent(), "the keys were used up after {step} ms");
    }
    let handshakes = pair.ends[0].stats().handshakes - before;
    assert!(handshakes > 5, "{handshakes} handshakes");
    let news = events(&mut pair.ends[1]);
    let opened = news.iter().find_map(|event| if let Event::Opened(id) = event { Some(*id) } else { None });
    let received = pair.ends[1].readable_len(opened.expect("opened")) as usize;
    assert!(sent > 100_000 && received + 4 * 200 > sent, "{received} of {sent}");
    assert!(!news.iter().any(|event| matches!(event, Event::PeerUnresponsive(_))));
    assert_eq!(pair.ends[1].stats().dropped.unknown_session, 0);
}

#[test]
fn keys_that_may_not_be_used_any_more_seal_nothing() {
    let mut pair = Pair::new();
    // Nothing of end 0 arrives, so the keys can't be renewed.
    use_up(&mut pair.ends[1], pair.now, 1 << 24);
    let (now, mut buffer) = (pair.now, vec![0; 1500]);
    let id = pair.ends[1].open(now, PeerId(0)).expect("open");
    pair.ends[1].write(now, id, b"secret");
    for step in 0..4000u64 {
        let now = now + Duration::from_millis(step);
        pair.ends[1].handle_timeout(now);
        while let Some(transmit) = pair.ends[1].poll_transmit(now, &mut buffer) {
            assert_ne!(buffer[0], crate::wire::packet::DATA, "{} bytes", transmit.size);
        }
    }
}

#[test]
fn another_configured_rate_or_bound_is_where_the_estimate_begins_anew() {
    let mut pair = Pair::new();
    let (now, end) = (pair.now, &mut pair.ends[0]);
    let rate = |mbit: u64| Rate::from_bps(mbit * 1_000_000);
    let believed = |end: &Endpoint| {
        let estimate = end.capacity_estimate(now);
        (estimate.rate, estimate.why)
    };
    end.set_capacity(now, rate(50));
    end.configure_capacity(now, rate(10), Prior::Configured(rate(10)));
    assert_eq!(believed(end), (rate(10), EstimateSource::Prior));
    end.set_capacity(now, rate(50));
    assert_eq!(
        believed(end),
        (rate(50), EstimateSource::Reported),
        "the report that was in force before is news again"
    );
    end.set_capacity_ceiling(now, Some(rate(20)));
    assert_eq!(believed(end).0, rate(20));
    end.configure_capacity(now, rate(30), Prior::Configured(rate(30)));
    assert_eq!(believed(end).0, rate(20));
    end.set_capacity_ceiling(now, None);
    assert_eq!(believed(end).0, rate(20), "it may rise now, but nobody says that it has");
    end.configure_capacity(now, rate(30), Prior::Configured(rate(30)));
    assert_eq!(believed(end).0, rate(30));
}

#[test]
fn nothing_is_measured_once_an_outage_has_ended_the_session() {
    let mut pair = Pair::new();
    let state = |pair: &Pair| pair.ends[0].capacity_estimate(pair.now).state;
    assert_eq!(state(&pair), EstimatorState::Guess);
    let stream = pair.ends[0].open(pair.now, PeerId(0)).expect("connected");
    for _ in 0..100 {
        pair.ends[0].write(pair.now, stream, &[7; 20_000]);
        pair.run(10);
    }
    assert!(!matches!(state(&pair), EstimatorState::Guess | EstimatorState::Silent));
    pair.cut();
    for _ in 0..60 {
        pair.run_through(10_000, |_, _| false);
    }
    assert_eq!(pair.ends[0].capacity.known_paths(), 0);
    assert_eq!(state(&pair), EstimatorState::Silent);
    pair.run(60_000);
    assert_eq!(pair.ends[0].peer_state(PeerId(0)), PeerState::Up);
    assert_ne!(state(&pair), EstimatorState::Silent);
}

#[test]
fn the_path_to_a_peer_that_was_removed_is_forgotten() {
    let mut pair = Pair::new();
    let stream = pair.ends[0].open(pair.now, PeerId(0)).expect("connected");
    pair.ends[0].write(pair.now, stream, &[7; 100_000]);
    pair.run(500);
    assert_eq!(pair.ends[0].capacity.known_paths(), 1);
    pair.ends[0].remove_peer(pair.now, PeerId(0));
    pair.run(3000);
    assert_eq!(pair.ends[0].capacity.known_paths(), 0);
}

#[test]
fn a_response_of_a_process_that_has_ended_does_not_end_the_session_with_the_next_one() {
    let mut pair = Pair::new();
    pair.cut();
    // Someone on the path lets an init of end 0 pass, and holds the response back.
    let mut held = None;
    while held.is_none() {
        pair.run_through(1, |from, datagram| match datagram[0] {
            RESPONSE => {
                held = Some(datagram.to_vec());
                false
            }
            kind => (from, kind) == (0, INIT),
        });
    }
    // The other end's packets bring the session back, and the other end renews its keys.
    pair.run_through(8000, |from, datagram| (from, datagram[0]) != (0, INIT));
    assert!(pair.ends.iter().all(|end| end.peer_state(PeerId(0)) == PeerState::Up));
    pair.restart(Some(address(0)));
    let news = pair.news_of_late(held.expect("a response"));
    assert!(news.is_empty(), "{news:?}");
}

#[test]
fn a_packet_of_a_process_that_has_ended_does_not_end_the_session_with_the_next_one() {
    let mut pair = Pair::new();
    pair.cut();
    // Someone on the path lets a handshake of end 1 pass, and holds back the first packet under its keys.
    let (mut held, mut has_answered) = (None, false);
    pair.run_through(8000, |from, datagram| match (from, datagram[0]) {
        (1, INIT) => held.is_none(),
        (0, RESPONSE) => {
            has_answered = true;
            true
        }
        (1, DATA) if has_answered && held.is_none() => {
            held = Some(datagram.to_vec());
            false
        }
        _ => false,
    });
    pair.restart(None);
    let news = pair.news_of_late(held.expect("a packet"));
    assert!(news.is_empty(), "{news:?}");
}

/// The datagrams that `end` sends now.
fn sent(end: &mut Endpoint, now: Instant) -> Vec<Vec<u8>> {
    let (mut buffer, mut datagrams) = (vec![0; 65_536], Vec::new());
    end.handle_timeout(now);
    while let Some(transmit) = end.poll_transmit(now, &mut buffer) {
        datagrams.extend(buffer[..transmit.size].chunks(transmit.segment_size).map(<[u8]>::to_vec));
    }
    datagrams
}

#[test]
fn after_a_restart_here_both_processes_of_a_peer_that_is_being_upgraded_are_answered() {
    let old_first = [1, 2];
    // Later, what was answered may be with a process that has ended. What the old one has begun would end the session with the new one.
    for (order, millis, are_up) in
        [(old_first, 20, [true, true]), (old_first, 3000, [true, false]), ([2, 1], 20, [false, true])]
    {
        let mut now = Instant::from_nanos(1_000_000_000);
        let rate = Rate::from_bps(100_000_000);
        let mut ends = [(0, Run::Fresh), (1, Run::Fresh), (1, Run::Beside { generation: 1 })].map(|(index, run)| {
            let mut config = EndpointConfig::new(private_key(index), rate, rate, Duration::from_millis(20));
            config.run = run;
            let generation = run.generation();
            let mut end = Endpoint::new(config, now, (1 << 60) + u64::from(generation), [index as u8 + 5; 32]);
            let address_of_peer = (index == 1).then(|| address(0));
            end.add_peer(now, PeerConfig::new(private_key(1 - index).public_key(), address_of_peer)).expect("peer");
            end
        });
        for process in [1, 2] {
            for mut init in sent(&mut ends[process], now) {
                ends[0].handle_datagram(now, address(process), &mut init);
            }
            for mut response in sent(&mut ends[0], now) {
                ends[process].handle_datagram(now, address(0), &mut response);
            }
        }
        let mut packets = [1, 2].map(|process| sent(&mut ends[process], now));
        now += Duration::from_millis(millis);
        for process in order {
            for packet in &mut packets[process - 1] {
                ends[0].handle_datagram(now, address(process), packet);
            }
        }
        let entries = [PeerId(0), PeerId(0).sibling()];
        let sessions = entries.map(|id| ends[0].peers.get(id.index()).is_some_and(|peer| peer.session.is_some()));
        assert_eq!(sessions, are_up, "{order:?} {millis}");
    }
}

#[test]
fn an_index_of_keys_or_of_a_handshake_that_there_are_is_not_given_again() {
    let mut pair = Pair::new();
    pair.cut();
    let end = &mut pair.ends[1];
    let peer = &end.peers[0];
    let current = peer.keys.current.as_ref().expect("connected").local_index;
    let (pending, _) = peer.attempt.as_ref().expect("it calls again");
    let used = [current, pending.local_index];
    // Each has a chance of one in 32,768 to be one of these.
    assert!((0..400_000).all(|_| !used.contains(&end.new_index(PeerId(0)))));
}

/// A pair of which end 0 has `length` bytes to read of a session that is over, and a new session with the peer; with the stream's name.
fn pair_with_unread(length: usize) -> (Pair, StreamId) {
    let mut pair = Pair::with(|config| config.memory = Some(Bytes::from(2 << 20)));
    let id = pair.ends[1].open(pair.now, PeerId(0)).expect("open");
    let mut written = 0;
    while written < length {
        written += pair.ends[1].write(pair.now, id, &vec![1; length - written]);
        pair.run(10);
    }
    pair.ends[1].finish(pair.now, id);
    pair.run(50);
    let opened = |event| if let Event::Opened(name) = event { Some(name) } else { None };
    let name = events(&mut pair.ends[0]).into_iter().find_map(opened).expect("a stream");
    pair.ends[0].finish(pair.now, name);
    pair.run(200);
    assert!(pair.ends[0].peers[0].session.as_ref().is_some_and(|session| session.repair_memory() > 0));
    pair.restart(Some(address(0)));
    pair.run(8000);
    assert_eq!((pair.ends[0].peer_state(PeerId(0)), pair.ends[0].readable_len(name)), (PeerState::Up, length as u64));
    (pair, name)
}

#[test]
fn what_is_left_to_read_of_a_session_that_is_over_counts_as_memory_of_the_peer() {
    const LEFT: usize = 200_000;
    let (mut pair, name) = pair_with_unread(LEFT);
    let granted = |pair: &Pair| {
        let session = pair.ends[0].peers[0].session.as_ref().expect("connected").credit.granted();
        (session, pair.ends[0].memory_stats().granted - session)
    };
    let send = |pair: &mut Pair| {
        let id = pair.ends[1].open(pair.now, PeerId(0)).expect("open");
        pair.ends[1].write(pair.now, id, b"news");
        pair.run(100);
    };
    // Half of the memory is for what is received: half of that is reserved, and who is alone may have half of the rest.
    let allowed = (3 << 20) / 4;
    let left = LEFT as u64;
    send(&mut pair);
    assert_eq!(granted(&pair), (allowed - left, left));
    pair.ends[0].consume(pair.now, name, LEFT / 2);
    assert_eq!(granted(&pair), (allowed - left, left / 2));
    pair.ends[0].consume(pair.now, name, LEFT / 2);
    assert!(pair.ends[0].peers[0].unread.is_none());
    send(&mut pair);
    assert_eq!(granted(&pair), (allowed, 0));
}

#[test]
fn a_session_that_is_over_keeps_no_packets_for_repair() {
    let (pair, _) = pair_with_unread(100_000);
    assert_eq!(pair.ends[0].peers[0].unread.as_ref().map(|unread| unread.repair_memory()), Some(0));
}

#[test]
fn a_peer_that_is_removed_leaves_no_memory_in_use() {
    let (mut pair, _) = pair_with_unread(100_000);
    pair.ends[0].remove_peer(pair.now, PeerId(0));
    pair.run(8000);
    assert_eq!(pair.ends[0].memory_stats().granted, 0);
}
