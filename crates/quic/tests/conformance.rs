//! The rules of RFC 9000, 9001 and 9002, by hand: each packet is given to a connection and taken from it.

use quic::{AckFrame, Config, Connection, Event, Failure, FlowWindow, Limits, Message, Packet, StreamFrame};
use std::sync::Arc;
use tcp::ControlKind;
use units::{Bytes, Duration, Ecn, Instant};

const RTT: Duration = Duration::from_millis(100);

/// A client whose peer is the test.
struct Client {
    connection: Connection,
    now: Instant,
    /// The number of the peer's next packet.
    number: u64,
    /// What the client has sent.
    log: Vec<Packet>,
}

impl Client {
    fn begun(config: Config) -> Self {
        assert_eq!(config.validate(), Ok(()));
        let connection = Connection::connect(Arc::new(config), Instant::ZERO);
        Self { connection, now: Instant::ZERO, number: 0, log: Vec::new() }
    }

    /// After a handshake over [`RTT`] that is confirmed, with nothing in flight and as much credit as there can be.
    fn connected(config: Config) -> Self {
        let mut client = Self::begun(config);
        client.drain();
        client.now += RTT;
        client.answer(1 << 40);
        client.drain();
        client.now += RTT;
        let done = Packet { message: Some(Message::Done), ..client.ack(&[0..2]) };
        client.take(done);
        client.drain();
        while client.connection.poll_event().is_some() {}
        client
    }

    /// The peer answers the client's first packet, with this credit.
    fn answer(&mut self, credit: u64) {
        let limits = Some(Limits { stream: credit, connection: credit });
        self.take(Packet { message: Some(Message::Answer), limits, ..self.ack(&[0..1]) });
    }

    /// A connected client with `packets` full packets in flight beyond the handshake's; the number of the first of them.
    fn with_flight(packets: u64, config: Config) -> (Self, u64) {
        let payload = u64::from(config.payload());
        let mut client = Self::connected(config);
        let first = client.next();
        client.connection.write(packets * payload);
        let sent = client.drain();
        assert_eq!(sent.len() as u64, packets, "{sent:?}");
        (client, first)
    }

    /// The number of the client's next packet.
    fn next(&self) -> u64 {
        self.log.len() as u64
    }

    /// What the client sends now.
    fn drain(&mut self) -> Vec<Packet> {
        let sent: Vec<_> = std::iter::from_fn(|| self.connection.poll_transmit(self.now)).collect();
        self.log.extend(sent.clone());
        let numbers: Vec<_> = self.log.iter().map(|packet| packet.number).collect();
        assert!(
            numbers.iter().copied().eq(0..numbers.len() as u64),
            "no number is left out or used twice: {numbers:?}"
        );
        sent
    }

    /// A packet of the peer with an acknowledgement of these numbers, in ascending order.
    fn ack(&self, ranges: &[std::ops::Range<u64>]) -> Packet {
        let ranges = ranges.iter().rev().cloned().collect();
        Packet {
            number: self.number,
            size: 60,
            is_early: false,
            message: None,
            stream: None,
            ack: Some(AckFrame { ranges, delay: Duration::ZERO, marked: None }),
            limits: None,
            has_ping: false,
            closes: false,
        }
    }

    fn take(&mut self, packet: Packet) {
        self.number += 1;
        self.connection.handle_packet(self.now, &packet, Ecn::NotCapable);
    }

    /// The peer acknowledges these now.
    fn acked(&mut self, ranges: &[std::ops::Range<u64>]) {
        self.take(self.ack(ranges));
    }

    /// Time moves on to the client's timer, which runs; how long that took, in milliseconds.
    fn run_timer(&mut self) -> f64 {
        let at = self.connection.next_at();
        let waited = at.since(self.now);
        self.now = at;
        self.connection.handle_timeout(at);
        waited.as_millis_f64()
    }

    fn cwnd(&self) -> f64 {
        self.connection.window().cwnd
    }
}

/// The offsets of the data that packets carry.
fn offsets(packets: &[Packet]) -> Vec<u64> {
    packets.iter().filter_map(|packet| packet.stream).map(|stream| stream.offset).collect()
}

#[test]
fn data_leave_a_round_trip_after_the_first_packet_and_at_once_with_0_rtt() {
    for zero_rtt in [false, true] {
        let mut client = Client::begun(Config { zero_rtt, ..Config::default() });
        client.connection.write(1_000);
        let first = client.drain();
        assert_eq!((first[0].message, first[0].size), (Some(Message::Hello), 1228));
        assert_eq!(first.len(), if zero_rtt { 2 } else { 1 });
        assert!(first.iter().all(|packet| packet.is_early));
        assert_eq!(client.connection.poll_event(), zero_rtt.then_some(Event::Connected));
        client.now += RTT;
        client.answer(1 << 40);
        let then = client.drain();
        assert_eq!(then[0].message, Some(Message::Finished));
        assert_eq!(offsets(&then), if zero_rtt { vec![] } else { vec![0] });
        assert_eq!(client.connection.metrics().srtt, RTT);
    }
}

#[test]
fn a_lost_first_packet_is_sent_again_after_a_second_and_then_after_two() {
    let mut client = Client::begun(Config::default());
    client.drain();
    for seconds in [1.0, 2.0, 4.0] {
        assert!((client.run_timer() - 999.0 * seconds).abs() < 1e-6);
        assert_eq!(client.drain()[0].message, Some(Message::Hello));
    }
    let mut failure = None;
    while failure.is_none() {
        client.run_timer();
        client.drain();
        failure = client.connection.poll_event();
    }
    assert_eq!(failure, Some(Event::Failed(Failure::HandshakeTimedOut)));
    assert!((30.0..32.0).contains(&client.now.as_secs_f64()), "{:?}", client.now);
}

#[test]
fn a_packet_is_lost_when_the_third_after_it_is_acknowledged() {
    let (mut client, first) = Client::with_flight(8, Config::default());
    client.now += RTT;
    client.acked(&[first + 1..first + 3]);
    assert_eq!((client.drain().len(), client.connection.metrics().counters.lost), (0, 0));
    client.acked(&[first + 1..first + 4]);
    let again = client.drain();
    assert_eq!(offsets(&again), [client.log[first as usize].stream.unwrap().offset]);
    assert_eq!(again[0].number, first + 8, "in a packet of its own number");
    let counters = client.connection.metrics().counters;
    assert_eq!((counters.lost, counters.retransmissions), (1, 1));
}

#[test]
fn a_packet_is_lost_nine_eighths_of_a_round_trip_after_it_left() {
    let (mut client, first) = Client::with_flight(3, Config::default());
    client.now += RTT;
    client.acked(&[first + 1..first + 2]);
    assert!(client.drain().is_empty());
    assert!((client.run_timer() - 12.5).abs() < 0.01, "{:?}", client.now);
    assert_eq!(client.drain().len(), 1);
    assert_eq!(
        client.connection.metrics().counters.lost,
        1,
        "the third left later than the second: nothing is known of it"
    );
}

#[test]
fn reordering_within_the_thresholds_is_no_loss_and_beyond_them_costs_one_copy_at_most() {
    let (mut client, first) = Client::with_flight(8, Config::default());
    client.now += RTT;
    client.acked(&[first + 1..first + 3]);
    client.acked(&[first..first + 3]);
    assert_eq!(client.connection.metrics().counters.lost, 0);
    let before = client.cwnd();
    client.acked(&[first..first + 3, first + 6..first + 7]);
    assert_eq!(client.connection.metrics().counters.lost, 1);
    assert!(client.cwnd() < before);
    // Before the copy leaves the original turns out to be there.
    client.acked(&[first..first + 8]);
    assert!(offsets(&client.drain()).is_empty());
    let counters = client.connection.metrics().counters;
    assert_eq!((counters.spurious_losses, counters.retransmissions), (1, 0));
}

#[test]
fn the_window_is_halved_once_for_what_was_in_flight_and_again_for_what_leaves_after() {
    let (mut client, first) = Client::with_flight(10, Config::default());
    client.now += RTT;
    client.acked(&[first + 3..first + 4]);
    assert_eq!(client.cwnd(), 5.0, "NewReno of RFC 9002 halves the window");
    client.acked(&[first + 3..first + 4, first + 8..first + 9]);
    assert_eq!((client.cwnd(), client.connection.metrics().counters.recoveries), (5.0, 1), "one recovery period");
    client.acked(&[first + 3..first + 4, first + 6..first + 10]);
    client.connection.write(100_000);
    assert_eq!(client.drain().len(), 5);
    client.now += RTT;
    let newest = client.next();
    client.acked(&[newest - 1..newest]);
    assert_eq!((client.cwnd(), client.connection.metrics().counters.recoveries), (2.5, 2));
}

#[test]
fn a_probe_timeout_sends_two_packets_backs_off_and_leaves_the_window_alone() {
    let (mut client, first) = Client::with_flight(4, Config::default());
    let window = client.cwnd();
    let metrics = client.connection.metrics();
    let pto = metrics.pto.as_millis_f64();
    // The handshake has given two samples of one round-trip time: a variance of 3/4 of a half.
    assert!((pto - (100.0 + 4.0 * 37.5 + 25.0)).abs() < 1e-6, "{pto}");
    for factor in [1.0, 2.0, 4.0] {
        assert!((client.run_timer() - factor * pto).abs() < 1e-6);
        let probes = client.drain();
        assert_eq!(offsets(&probes), offsets(&client.log[first as usize..first as usize + 2]), "what was sent first");
    }
    assert_eq!((client.cwnd(), client.connection.metrics().counters.ptos), (window, 3));
    client.now += RTT;
    let newest = client.next();
    client.acked(&[newest - 1..newest]);
    assert!(client.connection.metrics().pto < metrics.pto * 3, "an acknowledgement ends the backoff");
}

#[test]
fn a_probe_carries_new_data_where_there_are_some() {
    let (mut client, first) = Client::with_flight(10, Config::default());
    client.connection.write(100_000);
    assert!(client.drain().is_empty(), "the window is full");
    client.run_timer();
    let probes = client.drain();
    let payload = u64::from(Config::default().payload());
    assert_eq!(offsets(&probes), [10 * payload, 11 * payload], "{first}");
}

/// Nothing is acknowledged for longer than the time of persistent congestion, and then a round trip passes. The number after that of
/// the last probe.
fn loses_probes_for_three_ptos(client: &mut Client) -> u64 {
    let pto = client.connection.metrics().pto;
    let start = client.now;
    while client.now.since(start) <= pto * 3 {
        client.run_timer();
        client.drain();
    }
    client.run_timer();
    client.drain();
    client.now += RTT;
    client.next()
}

#[test]
fn a_long_time_in_which_everything_is_lost_leaves_two_packets_of_the_window() {
    let (mut client, _) = Client::with_flight(10, Config::default());
    let newest = loses_probes_for_three_ptos(&mut client);
    // The last probe comes through.
    client.acked(&[newest - 1..newest]);
    let metrics = client.connection.metrics();
    assert_eq!((metrics.window.cwnd, metrics.counters.persistent_congestions), (2.0, 1));
    assert_eq!(metrics.window.ssthresh, 5.0, "half of the window that was");
}

#[test]
fn the_window_of_a_control_that_models_the_path_stays_small_for_a_round_trip_after_that() {
    for control in ["bbr1", "bbr3"] {
        let control = ControlKind::by_name(control).expect("known");
        let (mut client, _) = Client::with_flight(8, Config { control, ..Config::default() });
        let newest = loses_probes_for_three_ptos(&mut client);
        client.acked(&[newest - 1..newest]);
        let metrics = client.connection.metrics();
        assert_eq!(metrics.counters.persistent_congestions, 1, "{control:?}");
        assert!((2.0..=4.0).contains(&client.cwnd()), "{control:?}: {}", client.cwnd());
    }
}

#[test]
fn losses_with_an_acknowledged_packet_between_them_are_no_persistent_congestion() {
    let (mut client, first) = Client::with_flight(10, Config::default());
    let newest = loses_probes_for_three_ptos(&mut client);
    // One of each two probes has arrived as well.
    let mut arrived: Vec<_> = (first + 10..newest - 1).step_by(2).map(|number| number..number + 1).collect();
    arrived.push(newest - 1..newest);
    client.acked(&arrived);
    let metrics = client.connection.metrics();
    assert_eq!(metrics.counters.persistent_congestions, 0);
    assert_eq!(metrics.window.cwnd, 5.0);
}

#[test]
fn slow_start_doubles_the_window_and_congestion_avoidance_adds_a_packet() {
    let config = Config { pacing: false, ..Config::default() };
    let (mut client, first) = Client::with_flight(10, config);
    client.connection.write(1 << 20);
    assert!(client.drain().is_empty());
    client.now += RTT;
    client.acked(&[first..first + 10]);
    assert_eq!(client.cwnd(), 20.0);
    assert_eq!(client.drain().len(), 20);
    client.now += RTT;
    // The first of the twenty is lost: ten packets in the next round trip, and the others let nothing grow.
    client.acked(&[first + 11..first + 30]);
    assert_eq!(client.cwnd(), 10.0);
    let from = client.next();
    assert_eq!(client.drain().len(), 10);
    client.now += RTT;
    client.acked(&[from..from + 10]);
    assert!((client.cwnd() - 11.0).abs() < 1e-9, "{}", client.cwnd());
}

#[test]
fn a_sender_that_does_not_use_its_window_keeps_it() {
    let (mut client, first) = Client::with_flight(3, Config::default());
    client.now += RTT;
    client.acked(&[first..first + 3]);
    assert_eq!(client.cwnd(), 10.0);
}

#[test]
fn data_beyond_a_burst_leave_at_five_quarters_of_the_window_in_a_round_trip() {
    let (mut client, first) = Client::with_flight(10, Config::default());
    client.connection.write(1 << 20);
    client.now += RTT;
    client.acked(&[first..first + 10]);
    // 20 packets in 100 ms at 1.25 times: one in 4 ms; ten of them at once.
    assert_eq!(client.drain().len(), 10);
    for _ in 0..3 {
        let waited = client.run_timer();
        assert!((waited - 4.0).abs() < 0.01, "{waited}");
        assert_eq!(client.drain().len(), 1);
    }
}

#[test]
fn a_peer_that_grants_no_more_is_sent_no_more() {
    let mut client = Client::begun(Config::default());
    client.drain();
    client.connection.write(10_000);
    client.now += RTT;
    client.answer(3_000);
    let sent = client.drain();
    assert_eq!(sent.iter().filter_map(|packet| packet.stream).map(|stream| stream.len).sum::<u32>(), 3_000);
    let limits = Some(Limits { stream: 3_500, connection: 9_000 });
    client.take(Packet { limits, ..client.ack(&[0..client.next()]) });
    assert_eq!(client.drain().iter().filter_map(|packet| packet.stream).map(|stream| stream.len).sum::<u32>(), 500);
}

#[test]
fn a_receiver_grants_what_was_read_and_repeats_a_grant_that_was_lost() {
    let window = FlowWindow::fixed(Bytes::new(4_000));
    let mut client = Client::connected(Config { stream_window: window, ..Config::default() });
    for k in 0..2 {
        let stream = Some(StreamFrame { offset: k * 1_000, len: 1_000, fin: false });
        client.take(Packet { stream, ..client.ack(&[0..client.next()]) });
    }
    assert_eq!(client.connection.read(u64::MAX), 2_000);
    let grant = client.drain();
    assert_eq!(grant[0].limits.map(|limits| limits.stream), Some(6_000));
    assert_eq!(grant[0].ack.as_ref().and_then(AckFrame::largest), Some(client.number - 1));
    // No answer: a probe, after which the grant counts as lost.
    client.run_timer();
    client.drain();
    client.now += RTT;
    let newest = client.next();
    client.acked(&[newest - 1..newest]);
    client.run_timer();
    assert_eq!(client.drain()[0].limits.map(|limits| limits.stream), Some(6_000));
}

#[test]
fn a_mark_lowers_the_window_once_in_a_round_trip() {
    let (mut client, first) = Client::with_flight(10, Config { ecn: Ecn::Ect0, ..Config::default() });
    client.now += RTT;
    for (acked, marked) in [(3, 1), (6, 2)] {
        let mut packet = client.ack(&[first..first + acked]);
        packet.ack.as_mut().unwrap().marked = Some(marked);
        client.take(packet);
        assert_eq!(client.cwnd(), 5.0, "{acked}");
    }
}

#[test]
fn marks_begin_no_recovery_of_a_control_that_models_the_path() {
    let control = ControlKind::by_name("bbr1").expect("known");
    let (mut client, first) = Client::with_flight(10, Config { ecn: Ecn::Ect0, control, ..Config::default() });
    client.now += RTT;
    let mut packet = client.ack(&[first..first + 3]);
    packet.ack.as_mut().unwrap().marked = Some(1);
    client.take(packet);
    assert_eq!(client.connection.metrics().counters.recoveries, 0);
    assert!(client.cwnd() >= 10.0, "{}", client.cwnd());
}

#[test]
fn what_left_before_the_round_trip_time_was_known_does_not_hold_up_what_follows() {
    let rtt = Duration::from_millis(40);
    let mut client = Client::begun(Config { zero_rtt: true, ..Config::default() });
    client.connection.write(1 << 20);
    let early = client.drain().len() as u64;
    assert!(early >= 9, "{early}");
    client.now += rtt;
    client.answer(1 << 40);
    client.acked(&[0..early]);
    let end = client.now + rtt / 2;
    let mut data = offsets(&client.drain()).len();
    while client.connection.next_at() <= end {
        client.run_timer();
        data += offsets(&client.drain()).len();
    }
    // The window of some twenty packets leaves within four fifths of a round trip.
    assert!(data >= 9, "{data}");
}

#[test]
fn cubic_does_not_grow_by_the_time_in_which_nothing_was_sent() {
    let control = ControlKind::by_name("cubic").expect("known");
    let (mut client, first) = Client::with_flight(10, Config { control, pacing: false, ..Config::default() });
    client.now += RTT;
    client.acked(&[first + 3..first + 10]);
    let round = |client: &mut Client, bytes| {
        client.connection.write(bytes);
        let (from, before) = (client.next(), client.cwnd());
        client.drain();
        client.now += RTT;
        client.acked(&[from..client.next()]);
        before
    };
    // The rest of the recovery, and growth after it.
    round(&mut client, 0);
    round(&mut client, 20 * u64::from(Config::default().payload()));
    while !client.drain().is_empty() {
        client.now += RTT;
        client.acked(&[0..client.next()]);
    }
    client.now += Duration::from_secs(100);
    let before = round(&mut client, 1 << 20);
    assert!(client.cwnd() < before + 1.5, "{before} {}", client.cwnd());
}

#[test]
fn who_gives_up_tells_the_peer() {
    let (mut client, _) = Client::with_flight(3, Config::default());
    client.connection.abort();
    let sent = client.drain();
    assert!(sent.len() == 1 && sent[0].closes && !sent[0].is_ack_eliciting());
    assert_eq!(client.connection.poll_event(), Some(Event::Failed(Failure::Aborted)));
    let (mut other, _) = Client::with_flight(3, Config::default());
    other.take(Packet { closes: true, ..other.ack(&[0..1]) });
    assert_eq!(other.connection.poll_event(), Some(Event::Failed(Failure::ClosedByPeer)));
    assert_eq!(other.connection.next_at(), Instant::FAR_FUTURE);
    assert_eq!(other.connection.next_timeout(), None);
}

#[test]
fn a_close_after_both_streams_have_ended_is_no_failure() {
    let (mut client, first) = Client::with_flight(1, Config::default());
    client.connection.finish();
    client.drain();
    client.now += RTT;
    let end = StreamFrame { offset: 0, len: 0, fin: true };
    client.take(Packet { stream: Some(end), ..client.ack(&[first..client.next()]) });
    client.connection.read(u64::MAX);
    let events: Vec<_> = std::iter::from_fn(|| client.connection.poll_event()).collect();
    assert!(events.contains(&Event::Closed), "{events:?}");
    client.take(Packet { closes: true, ..client.ack(&[0..1]) });
    assert_eq!(client.connection.poll_event(), None);
}

#[test]
fn a_peer_that_is_silent_for_too_long_is_gone_and_an_idle_one_is_not() {
    let (mut client, first) = Client::with_flight(1, Config::default());
    client.now += RTT;
    client.acked(&[first..first + 1]);
    assert_eq!(client.connection.next_at(), Instant::FAR_FUTURE);
    client.now += Duration::from_secs(1_000);
    client.connection.write(1_000);
    client.drain();
    let mut event = None;
    let start = client.now;
    while event.is_none() {
        client.run_timer();
        client.drain();
        event = client.connection.poll_event();
    }
    assert_eq!(event, Some(Event::Failed(Failure::IdleTimedOut)));
    let waited = client.now.since(start).as_secs_f64();
    assert!((30.0..60.0).contains(&waited), "{waited}");
}

#[test]
fn nonsense_of_a_peer_changes_nothing() {
    let (mut client, first) = Client::with_flight(5, Config::default());
    let before = client.connection.metrics();
    client.acked(&[first..first + 1_000_000]);
    let mut empty = client.ack(&[]);
    empty.limits = Some(Limits { stream: 0, connection: 0 });
    client.take(empty);
    client.take(Packet { message: Some(Message::Hello), ..client.ack(&[]) });
    assert_eq!(client.connection.metrics(), before);
    assert!(client.connection.poll_event().is_none());
}
