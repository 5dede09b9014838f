//! The relay engine between a scripted transport and scripted hosts.

use crate::script::{FakeHosts, FakeTransport, Heard, peer};
use ipnet::IpNet;
use peering::ResetReason;
use proptest::prelude::*;
use relay::classes::Conditions;
use relay::connect::ConnectRequest;
use relay::connection::{Event, State};
use relay::engine::{
    ConnectError, ConnectReply, EndCause, Engine, Notice, Progress, ReceivedRequest, Settings, StreamEvent,
};
use relay::reach::{Ranges, Reach};
use relay::routes::Routes;
use std::net::{IpAddr, SocketAddr};
use units::{Duration, Instant};

const START: Instant = Instant::from_nanos(1_000_000_000);

fn at(seconds: f64) -> Instant {
    START + Duration::from_secs_f64(seconds)
}

pub fn open(client: &str, server: &str) -> ConnectRequest {
    ConnectRequest::new(client.parse().unwrap(), server.parse().unwrap())
}

pub fn one() -> ConnectRequest {
    open("10.0.0.1:1000", "203.0.113.5:80")
}

/// An engine with the peer `far`, which is up and takes 203.0.113.0/24.
pub fn engine() -> Engine<FakeTransport, FakeHosts> {
    let peer = peer("far", &["203.0.113.0/24"]);
    let routes = Routes::new(peer.routes.iter().map(|route| (*route, 0))).unwrap();
    let settings = Settings {
        routes,
        classes: Vec::new(),
        bypass: Vec::new(),
        connect_timeout: Duration::from_secs(20),
        user_timeout: Duration::from_secs(900),
    };
    let mut engine = Engine::new(FakeTransport::up(1), FakeHosts::default(), settings, [peer], &[]);
    engine.report_transitions();
    engine
}

/// Runs until nothing is left to do.
pub fn settle(engine: &mut Engine<FakeTransport, FakeHosts>, now: Instant) {
    engine.serve_waiting(now);
    while engine.has_work() {
        engine.run(now, 64);
    }
}

pub fn notices(engine: &mut Engine<FakeTransport, FakeHosts>) -> Vec<Notice> {
    std::iter::from_fn(|| engine.poll_notice()).collect()
}

fn transitions(engine: &mut Engine<FakeTransport, FakeHosts>) -> Vec<(Event, State)> {
    let of = |notice| match notice {
        Notice::Transition { event, to, .. } => Some((event, to)),
        _ => None,
    };
    notices(engine).into_iter().filter_map(of).collect()
}

#[test]
fn a_client_is_relayed_and_both_ends_close_in_order() {
    let mut engine = engine();
    engine.accept(START, 7, one());
    engine.transport.to_send.push((5, Progress::Blocked));
    settle(&mut engine, START);
    engine.transport.replies.push(ConnectReply::Connected);
    engine.transport.to_receive.push((9, Progress::Ended));
    engine.on_stream_event(START, StreamEvent::Ready(0));
    settle(&mut engine, START);
    engine.transport.to_send.push((0, Progress::Ended));
    engine.on_ready(0);
    settle(&mut engine, START);
    let expected =
        [(Event::Answered, State::Established), (Event::StreamFin, State::StreamEnded), (Event::TcpFin, State::Closed)];
    assert_eq!(transitions(&mut engine), expected);
    assert_eq!(engine.hosts.heard, [Heard::Adopted(0, 7), Heard::Finished(7), Heard::Closed(7)]);
    let counters = &engine.counters;
    assert_eq!((counters.accepted, counters.finished, counters.reset), (1, 1, 0));
    assert_eq!((counters.bytes_from_tcp, counters.bytes_to_tcp), (5, 9));
    assert_eq!(engine.connections().len(), 0);
    assert_eq!(engine.next_timeout(), None);
}

#[test]
fn a_stream_of_the_peer_is_connected_to_its_server_under_the_policy() {
    let mut engine = engine();
    let (allowed, denied) = (one(), open("10.0.0.1:1000", "198.51.100.1:80"));
    for (stream, asked) in [(4, allowed), (5, denied)] {
        engine.transport.requests.insert(stream, ReceivedRequest::Complete(asked));
        engine.on_stream_event(START, StreamEvent::Opened(stream, 0));
    }
    settle(&mut engine, START);
    assert_eq!(engine.transport.resets, [(5, ResetReason::Denied)]);
    assert_eq!(engine.hosts.heard, [Heard::Connecting(0, allowed.destination)]);
    assert_eq!(engine.counters.denied, 1);
    engine.on_connected(START, 0);
    assert_eq!(engine.transport.replied, [4]);
    assert!(notices(&mut engine).iter().any(|notice| matches!(notice, Notice::Denied { peer: 0, .. })));
}

#[test]
fn a_server_that_does_not_answer_in_time_is_reported_to_the_near_gateway() {
    let mut engine = engine();
    engine.transport.requests.insert(3, ReceivedRequest::Complete(one()));
    engine.on_stream_event(START, StreamEvent::Opened(3, 0));
    settle(&mut engine, START);
    assert_eq!(engine.next_timeout(), Some(at(20.0)));
    engine.handle_timeout(at(19.9));
    assert_eq!(engine.transport.resets, []);
    engine.handle_timeout(at(20.0));
    assert_eq!(engine.transport.resets, [(3, ResetReason::TimedOut)]);
    assert_eq!((engine.counters.unreachable, engine.connections().len()), (1, 0));
}

#[test]
fn a_request_that_never_comes_costs_a_minute_at_most() {
    let mut engine = engine();
    engine.on_stream_event(START, StreamEvent::Opened(3, 0));
    settle(&mut engine, START);
    engine.handle_timeout(at(60.0));
    assert_eq!(engine.transport.resets, [(3, ResetReason::TimedOut)]);
}

/// The engine of [`engine`] with a connection at the far gateway whose server, `1001`, has accepted.
fn connected() -> Engine<FakeTransport, FakeHosts> {
    let mut engine = engine();
    engine.transport.requests.insert(3, ReceivedRequest::Complete(one()));
    engine.on_stream_event(START, StreamEvent::Opened(3, 0));
    settle(&mut engine, START);
    engine.on_connected(START, 0);
    settle(&mut engine, START);
    engine
}

#[test]
fn a_server_that_resets_is_read_to_the_end_even_if_a_write_meets_the_reset_first() {
    for is_finished in [false, true] {
        let mut engine = connected();
        engine.transport.to_receive.push((0, Progress::TcpFailed));
        // Read after that write: the room is taken, then there is some, then the kernel has no more.
        engine.transport.to_send =
            vec![(0, Progress::Ended), (9, Progress::More), (7, Progress::Blocked), (0, Progress::Blocked)];
        if !is_finished {
            engine.hosts.cut_off.push(1001);
        }
        engine.on_ready(0);
        settle(&mut engine, at(0.1));
        assert!(engine.transport.reset_behind.is_empty(), "the stream takes no more for now");
        engine.on_stream_event(at(0.2), StreamEvent::Ready(3));
        settle(&mut engine, at(0.2));
        assert_eq!((engine.counters.bytes_from_tcp, &engine.transport.reset_behind[..]), (16, &[3][..]));
        let fin = transitions(&mut engine).contains(&(Event::TcpFin, State::TcpEnded));
        assert_eq!(fin, is_finished, "a reset is no end in order");
        assert!(engine.transport.resets.is_empty() && engine.connections().len() == 0);
    }
}

/// How the connection has ended, if it has.
fn ended(engine: &mut Engine<FakeTransport, FakeHosts>) -> Option<(f64, EndCause)> {
    notices(engine).into_iter().find_map(|notice| match notice {
        Notice::Closed(ended) => Some((ended.at.since(START).as_secs_f64(), ended.cause)),
        _ => None,
    })
}

/// Handles all timeouts that are due by then; returns how many.
fn wait_until(engine: &mut Engine<FakeTransport, FakeHosts>, until: Instant) -> usize {
    let mut timeouts = 0;
    while let Some(due) = engine.next_timeout().filter(|due| *due <= until) {
        engine.handle_timeout(due);
        settle(engine, due);
        timeouts += 1;
    }
    timeouts
}

const BY_PEER: EndCause = EndCause::StreamReset(ResetReason::Aborted);

fn reset_by_peer_with_unacknowledged_bytes() -> Engine<FakeTransport, FakeHosts> {
    let mut engine = connected();
    notices(&mut engine);
    engine.hosts.unacknowledged.insert(1001, 5000);
    engine.on_stream_event(START, StreamEvent::Reset(3, ResetReason::Aborted));
    assert_eq!(transitions(&mut engine), [(Event::StreamResetUnacked, State::Resetting)]);
    // Late events change nothing.
    engine.on_stream_event(START, StreamEvent::Ready(3));
    engine.on_stream_event(START, StreamEvent::Reset(3, ResetReason::Outage));
    settle(&mut engine, START);
    assert!(notices(&mut engine).is_empty(), "nor are they logged");
    engine
}

#[test]
fn a_hosts_reset_waits_until_the_other_host_has_what_came_before() {
    let mut engine = reset_by_peer_with_unacknowledged_bytes();
    assert!(wait_until(&mut engine, at(0.5)) < 30);
    assert_eq!(ended(&mut engine), None);
    engine.hosts.unacknowledged.clear();
    wait_until(&mut engine, at(1.0));
    let (at_s, cause) = ended(&mut engine).expect("it is over");
    assert!((0.5..1.0).contains(&at_s) && cause == BY_PEER, "{at_s} {cause:?}");
    assert_eq!(engine.hosts.heard.last(), Some(&Heard::Aborted(1001)));
    assert!(engine.transport.resets.is_empty() && engine.transport.reset_behind.is_empty());
}

#[test]
fn a_host_that_acknowledges_slowly_has_time_and_one_that_does_not_has_none() {
    let mut engine = reset_by_peer_with_unacknowledged_bytes();
    for second in 1..200 {
        wait_until(&mut engine, at(f64::from(second)));
        *engine.hosts.unacknowledged.get_mut(&1001).unwrap() -= 10;
    }
    assert_eq!(ended(&mut engine), None, "it goes on");
    assert!(wait_until(&mut engine, at(300.0)) < 30);
    let (at_s, cause) = ended(&mut engine).expect("it is over");
    assert!((228.0..260.0).contains(&at_s) && cause == BY_PEER, "{at_s} {cause:?}");
}

#[test]
fn a_host_that_still_sends_is_read_and_may_reset_its_connection() {
    let mut engine = reset_by_peer_with_unacknowledged_bytes();
    engine.hosts.discarded = vec![Progress::TcpFailed, Progress::More, Progress::More];
    engine.on_ready(0);
    settle(&mut engine, at(0.1));
    assert_eq!(ended(&mut engine), Some((0.1, BY_PEER)));
    assert!(engine.hosts.discarded.is_empty());
}

#[test]
fn of_a_stream_that_its_peer_has_reset_behind_unread_bytes_the_host_is_read_for_nobody() {
    // The host resets its connection, too; or it reads nothing.
    for resets in [true, false] {
        let mut engine = connected();
        notices(&mut engine);
        engine.transport.held.push(3);
        engine.transport.to_receive = vec![(100, Progress::Blocked)];
        engine.hosts.discarded = vec![Progress::Blocked, Progress::More];
        engine.on_stream_event(START, StreamEvent::Ready(3));
        settle(&mut engine, START);
        assert_eq!((engine.counters.bytes_to_tcp, engine.counters.bytes_from_tcp), (100, 0));
        if resets {
            engine.hosts.discarded = vec![Progress::TcpFailed];
            engine.on_tcp_failing(at(1.0), 0);
            settle(&mut engine, at(1.0));
            assert_eq!(ended(&mut engine), Some((1.0, EndCause::HostReset)));
        } else {
            assert!(wait_until(&mut engine, at(100.0)) < 5);
            let (at_s, cause) = ended(&mut engine).expect("it is over");
            assert!((30.0..61.0).contains(&at_s) && cause == BY_PEER, "{at_s} {cause:?}");
        }
        assert_eq!(engine.transport.reset_behind, [3], "the transport drops what it holds");
    }
}

/// A socket takes more bytes only once a large part of its buffer is free: on a slow path that takes longer than the limit.
#[test]
fn what_came_before_a_hosts_reset_has_time_while_some_of_it_is_acknowledged() {
    for of_stream in [true, false] {
        let leave = |engine: &mut Engine<FakeTransport, FakeHosts>, bytes| {
            if of_stream {
                engine.transport.unacknowledged.insert(3, bytes);
            } else {
                engine.hosts.unacknowledged.insert(1001, bytes);
            }
        };
        let mut engine = connected();
        notices(&mut engine);
        leave(&mut engine, 1000);
        if of_stream {
            engine.on_tcp_failing(START, 0);
        } else {
            engine.transport.held.push(3);
            engine.on_stream_event(START, StreamEvent::Ready(3));
        }
        settle(&mut engine, START);
        for step in 1..=10u32 {
            wait_until(&mut engine, at(25.0 * f64::from(step)));
            leave(&mut engine, 1000 - 50 * u64::from(step));
        }
        assert_eq!(ended(&mut engine), None, "it goes on");
        assert!(wait_until(&mut engine, at(400.0)) < 5);
        let (at_s, _) = ended(&mut engine).expect("it is over");
        assert!((255.0..311.0).contains(&at_s), "{at_s}");
    }
}

#[test]
fn a_reset_that_waits_behind_data_is_passed_on_when_these_do_not_arrive() {
    let mut engine = connected();
    engine.transport.undelivered.insert(3, 1000);
    engine.on_tcp_failed(START, 0);
    assert_eq!(engine.transport.reset_behind, [3]);
    assert_eq!(engine.connections().len(), 0);
    wait_until(&mut engine, at(20.0));
    engine.transport.undelivered.insert(3, 900);
    wait_until(&mut engine, at(59.0));
    assert!(engine.transport.resets.is_empty(), "some have arrived");
    wait_until(&mut engine, at(61.0));
    assert_eq!(engine.transport.resets, [(3, ResetReason::Aborted)]);
    assert_eq!(engine.next_timeout(), None);
}

#[test]
fn streams_that_wait_to_be_reset_are_each_looked_at_when_they_are_due() {
    let mut engine = engine();
    for (key, stream) in [3, 4, 5].into_iter().enumerate() {
        engine.transport.requests.insert(stream, ReceivedRequest::Complete(one()));
        engine.on_stream_event(START, StreamEvent::Opened(stream, 0));
        settle(&mut engine, START);
        engine.on_connected(START, key);
        engine.transport.undelivered.insert(stream, 1000);
    }
    for (seconds, key) in [(0.0, 2), (10.0, 0), (20.0, 1)] {
        engine.on_tcp_failed(at(seconds), key);
    }
    assert_eq!(
        (engine.transport.reset_behind.as_slice(), engine.next_timeout()),
        ([5, 3, 4].as_slice(), Some(at(30.0)))
    );
    engine.transport.undelivered.extend([(5, 900), (4, 900)]);
    let looks: Vec<(Instant, usize)> = std::iter::from_fn(|| {
        let due = engine.next_timeout()?;
        engine.handle_timeout(due);
        Some((due, engine.transport.resets.len()))
    })
    .collect();
    assert_eq!(looks, [(30.0, 0), (40.0, 1), (50.0, 1), (60.0, 2), (80.0, 3)].map(|(due, resets)| (at(due), resets)));
    assert_eq!(engine.transport.resets, [3, 5, 4].map(|stream| (stream, ResetReason::Aborted)));
}

#[test]
fn a_reset_behind_the_fin_is_found_when_the_fin_is_read() {
    let mut engine = connected();
    engine.hosts.failed.push(1001);
    engine.transport.to_send.push((0, Progress::Ended));
    engine.on_tcp_failing(at(1.0), 0);
    settle(&mut engine, at(1.0));
    assert_eq!(ended(&mut engine), Some((1.0, EndCause::HostReset)));
    assert_eq!(engine.transport.reset_behind, [3]);
}

#[test]
fn failures_of_the_server_are_counted_and_named() {
    for (reason, refused) in [(ResetReason::Refused, 1), (ResetReason::Unreachable, 0), (ResetReason::TimedOut, 0)] {
        let mut engine = engine();
        engine.transport.requests.insert(3, ReceivedRequest::Complete(one()));
        engine.on_stream_event(START, StreamEvent::Opened(3, 0));
        settle(&mut engine, START);
        engine.on_connect_failed(START, 0, reason);
        assert_eq!(engine.transport.resets, [(3, reason)]);
        assert_eq!((engine.counters.refused, engine.counters.unreachable), (refused, 1 - refused));
        // A late event about a connection that is over changes nothing.
        engine.on_connected(START, 0);
        engine.on_tcp_failed(START, 0);
        engine.on_ready(0);
        assert!(!engine.has_work());
    }
}

/// How many connections were opened, finished, were reset, and ended before they were open.
fn outcomes(engine: &Engine<FakeTransport, FakeHosts>) -> [u64; 4] {
    let counters = &engine.counters;
    [counters.accepted + counters.connected, counters.finished, counters.reset, counters.abandoned]
}

#[test]
fn what_ends_before_the_server_has_accepted_is_no_reset_connection() {
    let mut engine = engine();
    let denied = open("10.0.0.1:1000", "198.51.100.1:80");
    for (stream, asked) in [(3, one()), (4, one()), (5, one()), (6, one()), (7, denied)] {
        engine.transport.requests.insert(stream, ReceivedRequest::Complete(asked));
        engine.on_stream_event(START, StreamEvent::Opened(stream, 0));
    }
    engine.transport.requests.insert(8, ReceivedRequest::Waiting);
    engine.on_stream_event(START, StreamEvent::Opened(8, 0));
    settle(&mut engine, START);
    assert_eq!((engine.counters.denied, outcomes(&engine)), (1, [0, 0, 0, 0]));
    // The client leaves, before and after the server has accepted; one server refuses, one never answers.
    engine.on_stream_event(START, StreamEvent::Reset(3, ResetReason::Aborted));
    engine.on_stream_event(START, StreamEvent::Reset(8, ResetReason::Aborted));
    assert_eq!(outcomes(&engine), [0, 0, 0, 2]);
    engine.on_connected(START, 1);
    engine.on_stream_event(START, StreamEvent::Reset(4, ResetReason::Aborted));
    settle(&mut engine, START);
    assert_eq!(outcomes(&engine), [1, 0, 1, 2]);
    engine.on_connect_failed(START, 2, ResetReason::Refused);
    engine.handle_timeout(at(60.0));
    assert_eq!((engine.counters.refused, engine.counters.unreachable), (1, 1));
    assert_eq!((engine.connections().len(), outcomes(&engine)), (0, [1, 0, 1, 2]));
}

#[test]
fn a_server_that_cannot_be_reached_at_once_is_reported_to_the_near_gateway() {
    let mut engine = engine();
    engine.hosts.failures.push(ConnectError::Failed(ResetReason::Unreachable));
    engine.transport.requests.insert(3, ReceivedRequest::Complete(one()));
    engine.on_stream_event(START, StreamEvent::Opened(3, 0));
    settle(&mut engine, START);
    assert_eq!(engine.transport.resets, [(3, ResetReason::Unreachable)]);
    assert_eq!((engine.counters.unreachable, engine.connections().len()), (1, 0));
}

#[test]
fn a_connection_for_which_the_host_has_no_room_waits_until_another_has_ended() {
    let mut engine = engine();
    engine.accept(START, 7, one());
    settle(&mut engine, START);
    engine.hosts.failures.push(ConnectError::NoRoom);
    engine.transport.requests.insert(3, ReceivedRequest::Complete(one()));
    engine.on_stream_event(START, StreamEvent::Opened(3, 0));
    settle(&mut engine, START);
    let has_host = |engine: &Engine<FakeTransport, FakeHosts>| {
        let waiting = engine.connections().find(|(_, connection)| connection.stream() == 3);
        waiting.expect("it is there").1.tcp().is_some()
    };
    assert!(engine.transport.resets.is_empty() && !has_host(&engine), "it waits");
    assert!(notices(&mut engine).contains(&Notice::RoomShort { is_host_wide: false }));
    assert!(!engine.intercepts(&one()), "new connections go end to end meanwhile");
    engine.on_tcp_failed(START, 0);
    settle(&mut engine, START);
    assert!(has_host(&engine));
    assert!(notices(&mut engine).contains(&Notice::RoomAgain));
    assert!(engine.intercepts(&one()));
}

#[test]
fn a_client_whose_socket_the_host_refuses_is_reset_and_so_is_its_stream() {
    let mut engine = engine();
    engine.hosts.failures.push(ConnectError::NoRoom);
    engine.accept(START, 7, one());
    settle(&mut engine, START);
    assert_eq!(engine.hosts.heard, [Heard::Adopted(0, 7), Heard::Aborted(7)]);
    assert_eq!(engine.transport.resets, [(0, ResetReason::Protocol)]);
    assert_eq!(engine.connections().len(), 0);
}

#[test]
fn clients_wait_for_streams_in_order_and_are_sent_away_in_the_end() {
    let mut engine = engine();
    engine.transport.peers[0].free = 0;
    for client in 1..=3 {
        engine.accept(at(f64::from(client)), client, open(&format!("10.0.0.{client}:1"), "203.0.113.5:80"));
    }
    assert_eq!(engine.connections().len(), 0);
    engine.transport.peers[0].free = 1;
    engine.look_at_limits(at(4.0));
    settle(&mut engine, at(4.0));
    assert_eq!(engine.hosts.heard, [Heard::Adopted(0, 1)]);
    // Their patience is that of a connection to a server.
    assert_eq!(engine.next_timeout(), Some(at(22.0)));
    engine.serve_waiting(at(22.0));
    engine.serve_waiting(at(23.0));
    assert_eq!(engine.hosts.heard[1..], [Heard::Aborted(2), Heard::Aborted(3)]);
    assert_eq!((engine.counters.unavailable, waited_in_vain(&mut engine)), (2, vec![20, 20]));
}

#[test]
fn a_client_that_no_peer_can_be_asked_for_is_reset_and_keeps_nobody_waiting() {
    let mut engine = engine();
    let port_zero = open("10.0.0.9:1", "203.0.113.5:0");
    assert!(!engine.intercepts(&port_zero));
    engine.accept(START, 1, port_zero);
    engine.accept(START, 2, one());
    settle(&mut engine, START);
    assert_eq!(engine.hosts.heard, [Heard::Aborted(1), Heard::Adopted(0, 2)]);
    assert_eq!((engine.counters.unavailable, engine.clients_waiting()), (1, 0));
    engine.set_holds_syns(true);
    engine.hold(START, "syn", port_zero);
    assert_eq!(engine.hosts.heard[2..], [Heard::Refused("syn")]);
}

/// How many seconds those clients have waited for the peer that got no stream.
fn waited_in_vain(engine: &mut Engine<FakeTransport, FakeHosts>) -> Vec<u64> {
    let waited = |notice| match notice {
        Notice::Unavailable { peer, waited, .. } => {
            assert_eq!(peer, Some(0));
            Some(waited.as_nanos() / 1_000_000_000)
        }
        _ => None,
    };
    notices(engine).into_iter().filter_map(waited).collect()
}

#[test]
fn clients_that_wait_when_their_peer_is_removed_or_the_gateway_stops_are_counted_and_reported() {
    for is_removed in [true, false] {
        let mut engine = engine();
        engine.transport.peers[0].free = 0;
        engine.accept(START, 1, one());
        if is_removed {
            engine.remove_peer(at(3.0), 0);
        } else {
            engine.shut_down(at(3.0));
        }
        assert_eq!(engine.hosts.heard, [Heard::Aborted(1)]);
        assert_eq!((engine.counters.unavailable, engine.clients_waiting()), (1, 0));
        assert_eq!(waited_in_vain(&mut engine), [3]);
    }
}

#[test]
fn new_connections_go_end_to_end_once_clients_wait_for_a_second() {
    let mut engine = engine();
    engine.transport.peers[0].is_up = false;
    engine.accept(START, 1, one());
    engine.transport.peers[0].is_up = true;
    engine.look_at_limits(at(0.9));
    assert!(engine.intercepts(&one()));
    engine.look_at_limits(at(1.0));
    assert!(engine.interception_changed());
    assert!(!engine.intercepts(&one()) && engine.intercepted().is_empty());
    engine.look_at_limits(at(2.0));
    settle(&mut engine, at(2.0));
    engine.look_at_limits(at(2.1));
    assert!(engine.intercepts(&one()));
    let said = notices(&mut engine);
    assert!(said.contains(&Notice::ClientsWait { peer: 0, waiting: 1 }) && said.contains(&Notice::ClientsServed(0)));
}

#[test]
fn streams_that_run_short_end_interception_until_twice_as_many_are_free() {
    let mut engine = engine();
    (engine.transport.peers[0].free, engine.transport.peers[0].most) = (3, 32);
    engine.accept(START, 1, one());
    assert!(!engine.intercepts(&one()), "two of 32 are kept back");
    let streams_short = Notice::StreamsShort { peer: 0, most: 32 };
    assert!(notices(&mut engine).contains(&streams_short));
    for (free, intercepts) in [(3, false), (4, false), (5, true), (3, true)] {
        engine.transport.peers[0].free = free;
        engine.look_at_limits(START);
        assert_eq!(engine.intercepts(&one()), intercepts, "{free} free");
    }
}

#[test]
fn streams_are_no_longer_short_once_the_session_has_ended() {
    let mut engine = engine();
    (engine.transport.peers[0].free, engine.transport.peers[0].most) = (1, 32);
    engine.accept(START, 1, one());
    assert!(!engine.intercepts(&one()));
    (engine.transport.peers[0].free, engine.transport.peers[0].most) = (0, 0);
    engine.look_at_limits(START);
    assert!(engine.intercepts(&one()));
    assert!(notices(&mut engine).contains(&Notice::StreamsAgain(0)));
}

#[test]
fn memory_that_stalled_readers_hold_ends_interception_here_and_there() {
    let mut engine = engine();
    engine.tell_reach(START);
    let told = |engine: &Engine<FakeTransport, FakeHosts>| engine.transport.peers[0].told.clone().unwrap();
    let all = told(&engine);
    assert_ne!(all, Reach::default());
    engine.transport.peers[0].memory = Some((120, 1000));
    for (seconds, reach) in [(0.0, &all), (0.9, &all), (1.0, &Reach::default())] {
        engine.look_at_limits(at(seconds));
        assert_eq!(told(&engine), *reach, "after {seconds} s");
    }
    assert!(!engine.intercepts(&one()));
    engine.transport.peers[0].memory = Some((240, 1000));
    engine.look_at_limits(at(2.0));
    assert_eq!(told(&engine), Reach::default(), "a quarter must be free");
    engine.transport.peers[0].memory = Some((250, 1000));
    engine.look_at_limits(at(3.0));
    assert_eq!(told(&engine), all);
    assert!(engine.intercepts(&one()));
}

#[test]
fn without_room_for_more_connections_new_ones_go_end_to_end_and_those_on_their_way_wait() {
    let mut engine = engine();
    engine.hosts.most = 8;
    for client in 0..8u8 {
        engine.accept(START, client.into(), open(&format!("10.0.0.{client}:1"), "203.0.113.5:80"));
    }
    assert!(!engine.intercepts(&one()));
    engine.look_at_limits(at(600.0));
    engine.tell_shortage(START);
    assert_eq!(engine.transport.peers[0].told, Some(Reach::default()), "descriptors that are in use stay so");
    engine.transport.requests.insert(99, ReceivedRequest::Complete(one()));
    engine.on_stream_event(START, StreamEvent::Opened(99, 0));
    settle(&mut engine, START);
    let far = engine.connections().find(|(_, connection)| connection.stream() == 99).map(|(key, _)| key).unwrap();
    assert_eq!(engine.connection(far).unwrap().state(), State::Connecting);
    assert!(engine.connection(far).unwrap().tcp().is_none(), "it waits for room");
    // An eighth of those that there were has to have ended.
    for key in 0..3 {
        engine.on_tcp_failed(START, key);
    }
    settle(&mut engine, START);
    engine.tell_shortage(START);
    assert!(engine.connection(far).unwrap().tcp().is_some());
    assert!(engine.intercepts(&one()));
    assert_ne!(engine.transport.peers[0].told, Some(Reach::default()));
    let said = notices(&mut engine);
    assert!(said.contains(&Notice::RoomShort { is_host_wide: false }) && said.contains(&Notice::RoomAgain));
}

#[test]
fn a_shortage_of_room_that_others_have_made_ends_when_they_have_left_plenty_for_a_second() {
    let mut engine = engine();
    engine.out_of_room(START);
    for (seconds, has_plenty) in [(1.0, true), (1.9, true), (1.95, false), (2.0, true), (2.9, true), (3.0, true)] {
        assert!(!engine.intercepts(&one()), "{seconds}");
        engine.hosts.has_plenty = has_plenty;
        engine.look_at_limits(at(seconds));
    }
    assert!(engine.intercepts(&one()) && notices(&mut engine).contains(&Notice::RoomAgain));
    // What is short is the host's: this process does not know when there is some again.
    engine.out_of_room(at(3.0));
    (4..8).for_each(|seconds| engine.look_at_limits(at(seconds.into())));
    assert!(!engine.intercepts(&one()));
}

#[test]
fn what_the_host_is_short_of_is_tried_again_after_a_while_and_less_often_if_it_stays_short() {
    let mut engine = engine();
    engine.accept(START, 7, one());
    engine.hosts.has_plenty = true;
    let mut now = START;
    let mut pass = |engine: &mut Engine<FakeTransport, FakeHosts>, seconds| {
        now += Duration::from_secs(seconds);
        engine.look_at_limits(now);
        now
    };
    let lasted = [(); 8].map(|()| {
        let begun = pass(&mut engine, 1);
        engine.out_of_room(begun);
        while !engine.intercepts(&one()) {
            assert!(pass(&mut engine, 1).since(begun) < Duration::from_secs(1000), "it does not end");
        }
        pass(&mut engine, 0).since(begun).as_secs_f64()
    });
    assert_eq!(lasted, [10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0, 300.0]);
    let said = notices(&mut engine);
    let begins = said.iter().filter(|notice| **notice == Notice::RoomShort { is_host_wide: true });
    assert_eq!((begins.count(), said.iter().filter(|notice| **notice == Notice::RoomAgain).count()), (8, 8));
    // One that comes later is another one; it lasts while connections are refused.
    pass(&mut engine, 301);
    for _ in 0..10 {
        let refused = pass(&mut engine, 9);
        engine.out_of_room(refused);
        pass(&mut engine, 0);
        assert!(!engine.intercepts(&one()));
    }
    pass(&mut engine, 10);
    assert!(engine.intercepts(&one()));
}

#[test]
fn what_the_host_was_short_of_first_and_this_process_then_ends_when_that_has_plenty() {
    let mut engine = engine();
    engine.hosts.has_plenty = true;
    engine.out_of_room(START);
    (engine.hosts.has_plenty, engine.hosts.most) = (false, 1);
    engine.accept(START, 7, one());
    engine.look_at_limits(at(60.0));
    assert!(!engine.intercepts(&one()), "time alone leaves no descriptors");
    engine.hosts.has_plenty = true;
    engine.look_at_limits(at(61.0));
    engine.look_at_limits(at(62.0));
    assert!(engine.intercepts(&one()));
}

#[test]
fn what_this_process_is_short_of_does_not_end_by_time_alone_even_if_it_has_shown_in_failures_only() {
    let mut engine = engine();
    engine.hosts.most = 0;
    engine.out_of_room(START);
    engine.look_at_limits(at(60.0));
    assert!(!engine.intercepts(&one()), "nothing is free");
    engine.hosts.most = 1;
    engine.look_at_limits(at(61.0));
    assert!(engine.intercepts(&one()));
}

#[test]
fn a_syn_is_held_until_the_server_has_answered() {
    let mut engine = engine();
    engine.set_holds_syns(true);
    engine.hold(START, "first", one());
    engine.hold(at(1.0), "repeated", one());
    assert_eq!(engine.hosts.heard, [Heard::Forgotten("repeated")]);
    engine.transport.replies.push(ConnectReply::Connected);
    engine.on_stream_event(at(1.5), StreamEvent::Ready(0));
    settle(&mut engine, at(1.5));
    assert_eq!(engine.hosts.heard[1..], [Heard::Released("first")]);
    engine.accept(at(1.6), 5, one());
    settle(&mut engine, at(1.6));
    assert_eq!(engine.hosts.heard[2..], [Heard::Adopted(0, 5)]);
    let expected = [(Event::Answered, State::Released), (Event::Accepted, State::Established)];
    assert_eq!(transitions(&mut engine), expected);
}

#[test]
fn a_held_syn_of_a_server_that_refuses_is_refused() {
    let mut engine = engine();
    engine.set_holds_syns(true);
    engine.hold(START, "syn", one());
    engine.on_stream_event(START, StreamEvent::Reset(0, ResetReason::Refused));
    assert_eq!(engine.hosts.heard, [Heard::Refused("syn")]);
    engine.hold(START, "nowhere", open("10.0.0.1:1", "192.0.2.1:80"));
    assert_eq!(engine.hosts.heard[1..], [Heard::Refused("nowhere")]);
    engine.transport.peers[0].is_up = false;
    engine.hold(START, "later", one());
    assert_eq!(engine.hosts.heard[2..], [Heard::Forgotten("later")], "the next SYN goes end to end");
}

#[test]
fn a_peer_that_is_removed_takes_its_connections_with_it() {
    let mut engine = engine();
    engine.transport.peers[0].free = 1;
    engine.accept(START, 1, one());
    engine.accept(START, 2, open("10.0.0.2:1", "203.0.113.5:80"));
    engine.remove_peer(START, 0);
    assert_eq!(engine.transport.resets, [(0, ResetReason::Shutdown)]);
    assert_eq!(engine.hosts.heard, [Heard::Adopted(0, 1), Heard::Aborted(1), Heard::Aborted(2)]);
    assert_eq!((engine.connections().len(), engine.peers().len(), engine.next_timeout()), (0, 0, None));
}

#[test]
fn a_wake_gives_each_connection_few_turns_and_never_more_than_asked_for() {
    let mut engine = engine();
    for client in 0..50u8 {
        engine.accept(START, client.into(), open(&format!("10.0.0.{client}:1"), "203.0.113.5:80"));
    }
    // Each of them always has more.
    engine.transport.always = Some((1, Progress::More));
    engine.run(START, 20);
    assert_eq!(engine.counters.bytes_from_tcp, 20);
    engine.run(START, 1000);
    let least = engine.connections().map(|(_, connection)| connection.from_tcp()).min();
    assert_eq!((engine.counters.bytes_from_tcp, least), (220, Some(4)));
}

#[test]
fn hosts_that_vanish_are_looked_for_from_time_to_time() {
    let mut engine = engine();
    engine.accept(START, 1, one());
    settle(&mut engine, START);
    engine.sweep(START);
    engine.hosts.gone = vec![1];
    engine.sweep(at(9.0));
    assert_eq!(engine.connections().len(), 1, "not looked at so soon");
    engine.sweep(at(10.0));
    assert_eq!((engine.connections().len(), engine.transport.resets.len()), (0, 1));
}

#[test]
fn what_cannot_happen_resets_the_connection_and_is_reported() {
    let mut engine = engine();
    engine.accept(START, 1, one());
    engine.on_connected(START, 0);
    assert_eq!(engine.transport.resets, [(0, ResetReason::Protocol)]);
    assert!(notices(&mut engine).iter().any(|notice| matches!(notice, Notice::Defect(_))));
}

/// Prefixes of a few bits, so that they meet.
fn prefix() -> impl Strategy<Value = IpNet> {
    (0u8..4, 0u8..4, 9u8..24)
        .prop_map(|(a, b, length)| IpNet::new([20 + a, b << 6, 0, 0].into(), length).unwrap().trunc())
}

fn ranges() -> impl Strategy<Value = Ranges> {
    proptest::collection::vec((prefix(), any::<bool>()), 0..5).prop_map(Ranges::new)
}

proptest! {
    #[test]
    fn a_connection_is_relayed_exactly_if_the_firewall_is_reported_to_intercept_it(
        routes in proptest::collection::btree_map(prefix(), 0usize..2, 1..6),
        reaches in proptest::collection::vec(proptest::option::of((ranges(), ranges())), 2),
        up in proptest::collection::vec(any::<bool>(), 2),
        (client, server) in ((0u8..4, 0u8..4, any::<u8>()), (0u8..4, 0u8..4, any::<u8>())),
    ) {
        let peers = ["a", "b"].map(|name| peer(name, &[]));
        let settings = Settings {
            routes: Routes::new(routes).unwrap(),
            classes: Vec::new(),
            bypass: Vec::new(),
            connect_timeout: Duration::from_secs(20),
            user_timeout: Duration::from_secs(900),
        };
        let mut transport = FakeTransport::up(2);
        for (at, reach) in reaches.into_iter().enumerate() {
            transport.peers[at].is_up = up[at];
            transport.peers[at].allows = reach.map(|(sources, destinations)| Reach { sources, destinations });
        }
        let mut engine = Engine::new(transport, FakeHosts::default(), settings, peers, &[]);
        let address = |(a, b, c): (u8, u8, u8)| IpAddr::from([20 + a, b << 6, c, 1]);
        let (client, server) = (address(client), address(server));
        let lies_in = |prefixes: &[IpNet], address: IpAddr| prefixes.iter().any(|prefix| prefix.contains(&address));
        let is_intercepted = engine.intercepted().iter().any(|group| {
            (group.clients.is_empty() || lies_in(&group.clients, client)) && lies_in(&group.servers, server)
        });
        let asked = ConnectRequest::new(SocketAddr::new(client, 1), SocketAddr::new(server, 80));
        prop_assert_eq!(engine.intercepts(&asked), is_intercepted);
    }
}

#[test]
fn a_bypass_rule_keeps_a_connection_end_to_end() {
    let mut engine = engine();
    let settings = Settings {
        routes: Routes::new([("203.0.113.0/24".parse().unwrap(), 0)]).unwrap(),
        classes: Vec::new(),
        bypass: vec![Conditions { ports: vec!["5060-5069".parse().unwrap()], ..Conditions::default() }],
        connect_timeout: Duration::from_secs(20),
        user_timeout: Duration::from_secs(900),
    };
    engine.reconfigure(START, settings);
    assert!(engine.intercepts(&one()));
    assert!(!engine.intercepts(&open("10.0.0.1:1", "203.0.113.5:5061")));
}
