//! What the engine reports of connections that are over.

use crate::engine::{engine, notices, one, open, settle};
use crate::script::{FakeHosts, FakeTransport};
use peering::ResetReason;
use relay::connect::ConnectRequest;
use relay::engine::{ConnectReply, EndCause, Ended, Engine, Notice, Progress, ReceivedRequest, StreamEvent};
use units::{Duration, Instant};

const START: Instant = Instant::from_nanos(1_000_000_000);

fn later(seconds: u64) -> Instant {
    START + Duration::from_secs(seconds)
}

type Fake = Engine<FakeTransport, FakeHosts>;

/// The only connection that has ended.
fn ended(engine: &mut Fake) -> Ended {
    let mut all: Vec<Ended> = notices(engine)
        .into_iter()
        .filter_map(|notice| if let Notice::Closed(ended) = notice { Some(ended) } else { None })
        .collect();
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

/// A client's connection, whose server has not answered.
fn requested() -> Fake {
    let mut engine = engine();
    engine.accept(START, 7, one());
    settle(&mut engine, START);
    engine
}

/// A client's connection whose server answered after a second.
fn established() -> Fake {
    let mut engine = requested();
    engine.transport.replies.push(ConnectReply::Connected);
    engine.on_stream_event(later(1), StreamEvent::Ready(0));
    settle(&mut engine, later(1));
    engine
}

/// A peer's stream that asks for `request`.
fn asked_for(request: ConnectRequest) -> Fake {
    let mut engine = engine();
    engine.transport.requests.insert(3, ReceivedRequest::Complete(request));
    engine.on_stream_event(START, StreamEvent::Opened(3, 0));
    settle(&mut engine, START);
    engine
}

#[test]
fn an_orderly_end_has_times_bytes_and_ends() {
    let mut engine = requested();
    engine.transport.replies.push(ConnectReply::Connected);
    engine.transport.to_send.push((5, Progress::Blocked));
    engine.transport.to_receive.push((9, Progress::Ended));
    engine.on_stream_event(later(1), StreamEvent::Ready(0));
    settle(&mut engine, later(1));
    engine.transport.to_send.push((0, Progress::Ended));
    engine.on_ready(0);
    settle(&mut engine, later(4));
    let expected = Ended {
        request: one(),
        peer: 0,
        stream: 0,
        is_near: true,
        class: 0,
        asked: START,
        opened_after: Some(Duration::from_secs(1)),
        at: later(4),
        from_tcp: 5,
        to_tcp: 9,
        cause: EndCause::Finished,
    };
    let found = ended(&mut engine);
    assert!(found.is_orderly());
    assert_eq!(found, expected);
}

#[test]
fn the_cause_is_that_of_the_first_event_that_ended_it() {
    let ended_by = |mut engine: Fake, by: &dyn Fn(&mut Fake)| {
        by(&mut engine);
        settle(&mut engine, later(2));
        ended(&mut engine).cause
    };
    let stream_reset = |engine: &mut Fake| {
        engine.on_stream_event(later(2), StreamEvent::Reset(0, ResetReason::Outage));
    };
    assert_eq!(ended_by(established(), &stream_reset), EndCause::StreamReset(ResetReason::Outage));
    assert_eq!(ended_by(requested(), &stream_reset), EndCause::NotConnected(ResetReason::Outage));
    let stream_fails = |engine: &mut Fake| {
        engine.transport.to_send.push((0, Progress::StreamFailed(ResetReason::PeerRestarted)));
        engine.on_ready(0);
    };
    assert_eq!(ended_by(established(), &stream_fails), EndCause::StreamReset(ResetReason::PeerRestarted));
    let refuses = |engine: &mut Fake| {
        engine.transport.replies.push(ConnectReply::Failed(ResetReason::Refused));
        engine.on_stream_event(later(2), StreamEvent::Ready(0));
    };
    assert_eq!(ended_by(requested(), &refuses), EndCause::NotConnected(ResetReason::Refused));
    assert_eq!(ended_by(established(), &|engine| engine.on_tcp_failed(later(2), 0)), EndCause::HostReset);
    let vanishes = |engine: &mut Fake| {
        engine.hosts.gone.push(7);
        engine.sweep(later(2));
    };
    assert_eq!(ended_by(established(), &vanishes), EndCause::HostVanished);
    assert_eq!(ended_by(established(), &|engine| engine.shut_down(later(2))), EndCause::Shutdown);
    let malformed = |engine: &mut Fake| {
        engine.transport.replies.push(ConnectReply::Malformed);
        engine.on_stream_event(later(2), StreamEvent::Ready(0));
    };
    assert_eq!(ended_by(requested(), &malformed), EndCause::ProtocolError);
}

#[test]
fn at_the_far_gateway_the_server_and_the_policy_are_causes() {
    let mut refused = asked_for(one());
    refused.on_connect_failed(later(1), 0, ResetReason::Refused);
    let found = ended(&mut refused);
    assert_eq!((found.cause, found.opened_after), (EndCause::NotConnected(ResetReason::Refused), None));
    assert_eq!((found.is_near, found.stream, found.at), (false, 3, later(1)));

    let mut denied = asked_for(open("10.0.0.1:1000", "198.51.100.1:80"));
    assert_eq!(ended(&mut denied).cause, EndCause::Denied);

    let mut unanswered = asked_for(one());
    unanswered.handle_timeout(later(20));
    assert_eq!(ended(&mut unanswered).cause, EndCause::TimedOut);

    let mut connected = asked_for(one());
    connected.on_connected(later(2), 0);
    connected.on_tcp_failed(later(5), 0);
    let found = ended(&mut connected);
    assert_eq!((found.cause, found.opened_after), (EndCause::HostReset, Some(Duration::from_secs(2))));
}
