//! What the engine counts of each class: connections, bytes, opening, stalls.

use crate::engine::{notices, one, open, settle};
use crate::script::{FakeHosts, FakeTransport, peer};
use relay::classes::{Class, Conditions};
use relay::connect::ConnectRequest;
use relay::engine::{ClassAccount, ConnectReply, Engine, Progress, ReceivedRequest, Settings, StallCause, StreamEvent};
use relay::routes::Routes;
use units::{Duration, Instant};

fn at(millis: u64) -> Instant {
    Instant::from_nanos(1_000_000_000) + Duration::from_millis(millis)
}

fn settings(names: &[&str]) -> Settings {
    let class = |name: &&str| Class {
        name: (*name).to_owned(),
        conditions: Conditions { ports: vec!["80".parse().unwrap()], ..Conditions::default() },
        settings: peering::Class::default(),
    };
    let routes = Routes::new(peer("far", &["203.0.113.0/24"]).routes.iter().map(|route| (*route, 0))).unwrap();
    Settings {
        routes,
        classes: names.iter().map(class).collect(),
        bypass: Vec::new(),
        connect_timeout: Duration::from_secs(20),
        user_timeout: Duration::from_secs(900),
    }
}

/// An engine with a class `web` of port 80.
fn engine() -> Engine<FakeTransport, FakeHosts> {
    let peers = [peer("far", &["203.0.113.0/24"])];
    Engine::new(FakeTransport::up(1), FakeHosts::default(), settings(&["web"]), peers, &[])
}

fn account<'a>(engine: &'a Engine<FakeTransport, FakeHosts>, name: &str) -> &'a ClassAccount {
    engine.class_accounts().iter().find(|account| account.name == name).unwrap()
}

/// Has the connection `request` made, whose server is connected after 600 ms.
fn connect(engine: &mut Engine<FakeTransport, FakeHosts>, request: ConnectRequest) {
    engine.accept(at(0), 7, request);
    settle(engine, at(0));
    engine.transport.replies.push(ConnectReply::Connected);
    engine.on_ready(0);
    settle(engine, at(600));
    notices(engine);
}

#[test]
fn connections_bytes_and_opening_count_for_the_class_of_the_request() {
    let mut engine = engine();
    engine.transport.to_send.push((5, Progress::Blocked));
    connect(&mut engine, one());
    engine.transport.requests.insert(9, ReceivedRequest::Complete(open("10.0.0.1:1000", "203.0.113.5:22")));
    engine.on_stream_event(at(600), StreamEvent::Opened(9, 0));
    settle(&mut engine, at(700));
    let (web, other) = (account(&engine, "web"), account(&engine, "default"));
    assert_eq!((web.connections, web.bytes_from_tcp, web.bytes_to_tcp), (1, 5, 0));
    assert_eq!((web.open_time.count(), web.open_time.sum()), (1, Duration::from_millis(600)));
    assert_eq!(
        (other.connections, other.bytes_from_tcp, other.open_time.count()),
        (1, 0, 0),
        "the far gateway opens none"
    );
}

#[test]
fn a_client_that_waits_for_a_stream_waits_for_its_connection() {
    let mut engine = engine();
    engine.transport.peers[0].free = 0;
    engine.accept(at(0), 7, one());
    settle(&mut engine, at(0));
    engine.transport.peers[0].free = 1;
    engine.on_stream_event(at(1500), StreamEvent::PeersChanged);
    settle(&mut engine, at(1500));
    engine.transport.replies.push(ConnectReply::Connected);
    engine.on_ready(0);
    settle(&mut engine, at(2000));
    assert_eq!(account(&engine, "web").open_time.sum(), Duration::from_secs(2));
}

#[test]
fn a_stall_is_the_wait_of_bytes_for_room_until_some_move() {
    let mut engine = engine();
    connect(&mut engine, one());
    // Bytes of the client wait for the stream from 1 s to 6 s, with turns between that move nothing.
    engine.hosts.with_data.push(7);
    for millis in [1000, 3000] {
        engine.on_ready(0);
        settle(&mut engine, at(millis));
    }
    let stall = |engine: &Engine<FakeTransport, FakeHosts>, millis| engine.connection(0).unwrap().stall(at(millis));
    assert_eq!(stall(&engine, 5000), Some((StallCause::Satellite, Duration::from_secs(4))));
    assert_eq!(stall(&engine, 1900), None, "a shorter wait is flow control at work");
    engine.transport.to_send.push((5, Progress::Blocked));
    engine.hosts.with_data.clear();
    engine.on_ready(0);
    settle(&mut engine, at(6000));
    assert_eq!(stall(&engine, 8000), None, "bytes have moved");
    let web = account(&engine, "web");
    assert_eq!((web.satellite_stalls.count(), web.satellite_stalls.sum()), (1, Duration::from_secs(5)));
    assert_eq!(web.host_stalls.count(), 0);
    // The server does not read for 2 s, and then the connection is reset.
    engine.hosts.full.push(7);
    engine.on_ready(0);
    settle(&mut engine, at(7000));
    assert_eq!(stall(&engine, 8500), Some((StallCause::Host, Duration::from_millis(1500))));
    engine.on_tcp_failed(at(9000), 0);
    let web = account(&engine, "web");
    assert_eq!((web.host_stalls.count(), web.host_stalls.sum()), (1, Duration::from_secs(2)));
    assert_eq!(web.satellite_stalls.count(), 1);
}

#[test]
fn idle_connections_and_short_waits_are_no_stalls() {
    let mut engine = engine();
    connect(&mut engine, one());
    engine.on_ready(0);
    settle(&mut engine, at(1000));
    engine.transport.to_send.push((5, Progress::Blocked));
    engine.on_ready(0);
    settle(&mut engine, at(60_000));
    engine.hosts.with_data.push(7);
    engine.on_ready(0);
    settle(&mut engine, at(61_000));
    engine.transport.to_send.push((5, Progress::Blocked));
    engine.on_ready(0);
    settle(&mut engine, at(61_900));
    assert_eq!(account(&engine, "web").satellite_stalls.count(), 0);
}

#[test]
fn classes_that_are_removed_keep_their_counts_and_others_begin_at_zero() {
    let mut engine = engine();
    connect(&mut engine, one());
    engine.reconfigure(at(1000), settings(&["pages", "web"]));
    engine.accept(at(1000), 8, open("10.0.0.1:1001", "203.0.113.5:80"));
    settle(&mut engine, at(1000));
    let counts: Vec<_> = engine.class_accounts().iter().map(|account| (&*account.name, account.connections)).collect();
    assert_eq!(counts, [("default", 0), ("web", 1), ("pages", 1)]);
}
