//! What changes while a gateway runs: its addresses, its peers, its settings, who holds SYNs; and its end.

use crate::engine::{engine, notices, one, open, settle};
use crate::script::{FakeHosts, FakeTransport, Heard, peer};
use peering::ResetReason;
use relay::classes::Conditions;
use relay::connect::ConnectRequestError;
use relay::engine::{ConnectReply, Engine, Notice, ReceivedRequest, Settings, StreamEvent};
use relay::reach::{Ranges, Reach};
use relay::routes::Routes;
use std::net::IpAddr;
use units::{Duration, Instant};

const START: Instant = Instant::from_nanos(1_000_000_000);

/// Settings that differ from those of [`engine`] in the route, the rules and the patience.
fn other_settings() -> Settings {
    Settings {
        routes: Routes::new([("198.51.100.0/24".parse().unwrap(), 0)]).unwrap(),
        classes: Vec::new(),
        bypass: vec![Conditions { ports: vec!["22".parse().unwrap()], ..Conditions::default() }],
        connect_timeout: Duration::from_secs(3),
        user_timeout: Duration::from_secs(900),
    }
}

#[test]
fn other_settings_hold_for_new_connections_and_leave_open_ones_alone() {
    let mut engine = engine();
    engine.accept(START, 1, one());
    engine.reconfigure(START, other_settings());
    assert_eq!(engine.connections().len(), 1);
    assert!(!engine.intercepts(&one()), "its route is gone");
    assert!(engine.intercepts(&open("10.0.0.1:1", "198.51.100.1:80")));
    assert!(!engine.intercepts(&open("10.0.0.1:1", "198.51.100.1:22")), "a rule keeps it end to end");
    engine.accept(START, 2, one());
    assert_eq!((engine.counters.accepted, engine.counters.unavailable), (1, 1));
    let unavailable = Notice::Unavailable { request: one(), peer: None, waited: Duration::ZERO };
    assert!(notices(&mut engine).contains(&unavailable));
    assert_eq!(engine.hosts.heard, [Heard::Adopted(0, 1), Heard::Aborted(2)]);
    // The new patience.
    engine.transport.requests.insert(9, ReceivedRequest::Complete(one()));
    engine.on_stream_event(START, StreamEvent::Opened(9, 0));
    settle(&mut engine, START);
    assert_eq!(engine.next_timeout(), Some(START + Duration::from_secs(3)));
}

#[test]
fn an_address_that_the_gateway_gains_is_denied_to_its_peers_from_then_on() {
    let mut engine = engine();
    engine.tell_reach(START);
    let before = engine.transport.peers[0].told.clone().unwrap();
    let own: IpAddr = "203.0.113.5".parse().unwrap();
    assert!(before.destinations.permit(own));
    engine.set_own_addresses(START, &[own.into()]);
    let after = engine.transport.peers[0].told.clone().unwrap();
    assert!(!after.destinations.permit(own) && after.destinations.permit("203.0.113.6".parse().unwrap()));
    engine.transport.requests.insert(4, ReceivedRequest::Complete(one()));
    engine.on_stream_event(START, StreamEvent::Opened(4, 0));
    settle(&mut engine, START);
    assert_eq!(engine.transport.resets, [(4, ResetReason::Denied)], "a peer that asks all the same");
}

#[test]
fn a_peers_new_settings_hold_for_its_next_request_and_its_waiting_clients_go_on_waiting() {
    let mut engine = engine();
    engine.transport.peers[0].free = 0;
    engine.accept(START, 1, one());
    let mut settings = peer("far", &["203.0.113.0/24"]);
    settings.allow_destinations = vec!["198.51.100.0/24".parse().unwrap()];
    engine.change_peer(0, settings.clone());
    assert_eq!(engine.peers()[0].settings(), &settings);
    for (stream, destination, resets) in [(4, "203.0.113.5:80", 1), (5, "198.51.100.1:80", 1)] {
        engine.transport.requests.insert(stream, ReceivedRequest::Complete(open("10.0.0.1:1000", destination)));
        engine.on_stream_event(START, StreamEvent::Opened(stream, 0));
        settle(&mut engine, START);
        assert_eq!(engine.transport.resets.len(), resets, "{destination}");
    }
    engine.transport.peers[0].free = 10;
    engine.on_stream_event(START, StreamEvent::PeersChanged);
    settle(&mut engine, START);
    assert_eq!(engine.counters.accepted, 1, "the client that waited");
    assert_eq!(engine.add_peer(settings), 1, "a place of its own");
}

#[test]
fn clients_that_wait_follow_the_new_routes_and_hold_no_others_up() {
    let mut engine = engine();
    let net = |text: &str| text.parse().unwrap();
    engine.transport.peers.extend(FakeTransport::up(1).peers);
    let other = engine.add_peer(peer("other", &["192.0.2.0/24"]));
    let settings = |routes: &[(&str, usize)]| Settings {
        routes: Routes::new(routes.iter().map(|(route, at)| (net(route), *at))).unwrap(),
        ..other_settings()
    };
    engine.reconfigure(START, settings(&[("203.0.113.0/24", 0), ("198.51.100.0/24", 0), ("192.0.2.0/24", 0)]));
    engine.transport.peers[0].free = 0;
    let servers = ["203.0.113.5:80", "192.0.2.5:80", "198.51.100.5:80"];
    let requests = servers.map(|server| open("10.0.0.1:1000", server));
    for (client, request) in (1..).zip(requests) {
        engine.accept(START, client, request);
    }
    // The first server lies nowhere any more, the second behind a peer that is down.
    engine.transport.peers[other].is_up = false;
    let later = START + Duration::from_secs(1);
    engine.reconfigure(later, settings(&[("198.51.100.0/24", 0), ("192.0.2.0/24", other)]));
    let unavailable = Notice::Unavailable { request: requests[0], peer: None, waited: Duration::from_secs(1) };
    assert!(notices(&mut engine).contains(&unavailable));
    engine.transport.peers[0].free = 1;
    engine.look_at_limits(later);
    settle(&mut engine, later);
    assert_eq!(engine.hosts.heard, [Heard::Aborted(1), Heard::Adopted(0, 3)]);
    engine.transport.peers[other].is_up = true;
    engine.on_stream_event(later, StreamEvent::PeersChanged);
    settle(&mut engine, later);
    assert_eq!(engine.hosts.heard[2..], [Heard::Adopted(1, 2)]);
    assert_eq!((engine.clients_waiting(), engine.counters.unavailable), (0, 1));
}

#[test]
fn clients_that_wait_for_a_peer_that_is_removed_follow_the_new_routes_too() {
    let mut engine = engine();
    let other = engine.add_peer(peer("other", &["198.51.100.0/24"]));
    engine.transport.peers.extend(FakeTransport::up(1).peers);
    engine.transport.peers[0].free = 0;
    let elsewhere = open("10.0.0.2:1000", "203.0.113.200:80");
    engine.accept(START, 1, one());
    engine.accept(START, 2, elsewhere);
    engine.set_waiting_aside(0);
    engine.remove_peer(START, 0);
    assert_eq!((engine.clients_waiting(), engine.hosts.heard.len()), (2, 0));
    let routes = Routes::new([("203.0.113.0/25".parse().unwrap(), other)]).unwrap();
    engine.reconfigure(START, Settings { routes, ..other_settings() });
    settle(&mut engine, START);
    assert_eq!(engine.hosts.heard, [Heard::Aborted(2), Heard::Adopted(0, 1)]);
    let unavailable = Notice::Unavailable { request: elsewhere, peer: None, waited: Duration::ZERO };
    assert!(notices(&mut engine).contains(&unavailable));
    assert_eq!((engine.clients_waiting(), engine.counters.accepted, engine.counters.unavailable), (0, 1, 1));
}

/// A client's SYN is held, and that of another is released.
fn engine_with_held_and_released() -> Engine<FakeTransport, FakeHosts> {
    let mut engine = engine();
    engine.set_holds_syns(true);
    engine.hold(START, "held", one());
    engine.hold(START, "released", open("10.0.0.2:1", "203.0.113.5:80"));
    engine.transport.replies.push(ConnectReply::Connected);
    engine.on_stream_event(START, StreamEvent::Ready(1));
    settle(&mut engine, START);
    engine
}

#[test]
fn clients_whose_syn_is_held_are_left_to_another_process() {
    let mut engine = engine_with_held_and_released();
    engine.leave_held_syns(START);
    assert_eq!(engine.hosts.heard, [Heard::Released("released"), Heard::Forgotten("held")]);
    assert_eq!((engine.connections().len(), engine.next_timeout()), (0, None));
    let mut resets = engine.transport.resets.clone();
    resets.sort_by_key(|(stream, _)| *stream);
    assert_eq!(resets, [(0, ResetReason::Shutdown), (1, ResetReason::Shutdown)]);
    // From now on a client is accepted as it comes.
    engine.accept(START, 7, one());
    assert_eq!(engine.connections().len(), 1);
}

#[test]
fn clients_whose_syn_is_held_are_left_when_their_peer_takes_no_connections() {
    let mut engine = engine_with_held_and_released();
    engine.leave_unserved_syns(START);
    assert_eq!(engine.hosts.heard, [Heard::Released("released")], "the peer is up");
    engine.transport.peers[0].is_up = false;
    engine.leave_unserved_syns(START);
    assert_eq!(engine.hosts.heard, [Heard::Released("released"), Heard::Forgotten("held")]);
    assert_eq!(engine.transport.resets, [(0, ResetReason::Shutdown)]);
    // The client's next SYN is that of a new connection.
    engine.transport.peers[0].is_up = true;
    engine.hold(START, "next", one());
    assert_eq!(engine.connections().len(), 2);
    engine.decide_syns_again(START);
    assert_eq!(engine.hosts.heard[2..], [Heard::Forgotten("next")]);
}

/// Its SYN was held by another process, or by none: a firewall may have lost the rule that holds SYNs.
#[test]
fn a_client_whose_syn_was_not_held_here_is_relayed() {
    let mut engine = engine();
    engine.set_holds_syns(true);
    engine.accept(START, 1, one());
    assert_eq!((engine.counters.accepted, engine.counters.unavailable), (1, 0));
    assert_eq!(engine.hosts.heard, [Heard::Adopted(0, 1)]);
}

#[test]
fn a_client_whose_released_connection_failed_is_reset_once() {
    let mut engine = engine_with_held_and_released();
    let released = open("10.0.0.2:1", "203.0.113.5:80");
    engine.on_stream_event(START, StreamEvent::Reset(1, ResetReason::Shutdown));
    engine.accept(START, 7, released);
    assert_eq!(engine.hosts.heard.last(), Some(&Heard::Aborted(7)));
    assert_eq!((engine.counters.accepted, engine.counters.unavailable), (0, 1));
    let said = notices(&mut engine);
    assert!(said.iter().any(|notice| matches!(notice, Notice::Closed(_))), "{said:?}");
    assert!(!said.iter().any(|notice| matches!(notice, Notice::Unavailable { .. })), "why was said: {said:?}");
    // Later on, a client of the same addresses is another one.
    engine.accept(START, 8, released);
    assert_eq!(engine.counters.accepted, 1);
}

#[test]
fn a_gateway_that_stops_resets_everything_once() {
    let mut engine = engine();
    engine.accept(START, 1, one());
    engine.transport.requests.insert(9, ReceivedRequest::Complete(one()));
    engine.on_stream_event(START, StreamEvent::Opened(9, 0));
    settle(&mut engine, START);
    engine.on_connected(START, 1);
    engine.shut_down(START);
    engine.shut_down(START);
    assert_eq!(engine.transport.resets, [(0, ResetReason::Shutdown), (9, ResetReason::Shutdown)]);
    assert_eq!(engine.transport.forgotten, [0, 9]);
    assert_eq!((engine.counters.reset, engine.counters.finished), (2, 0));
    let aborted: Vec<_> = engine.hosts.heard.iter().filter(|heard| matches!(heard, Heard::Aborted(_))).collect();
    assert_eq!(aborted.len(), 2);
    // What comes afterwards finds nobody, and does no harm.
    engine.on_ready(0);
    engine.on_tcp_failed(START, 0);
    engine.on_connected(START, 1);
    engine.on_connect_failed(START, 1, ResetReason::Refused);
    engine.on_stream_event(START, StreamEvent::Reset(9, ResetReason::Aborted));
    settle(&mut engine, START);
    assert_eq!((engine.connections().len(), engine.has_work()), (0, false));
}

#[test]
fn what_a_peer_sends_instead_of_a_request_is_counted_and_told() {
    let mut engine = engine();
    let error = ConnectRequestError::Kind(77);
    engine.transport.requests.insert(3, ReceivedRequest::Malformed(error));
    engine.transport.requests.insert(4, ReceivedRequest::Ended);
    engine.transport.requests.insert(5, ReceivedRequest::NoConnection);
    (3..6).for_each(|stream| engine.on_stream_event(START, StreamEvent::Opened(stream, 0)));
    settle(&mut engine, START);
    assert_eq!(engine.counters.protocol_errors, 2);
    assert!(engine.transport.resets.contains(&(3, ResetReason::Protocol)), "{:?}", engine.transport.resets);
    assert!(!engine.transport.resets.iter().any(|(stream, _)| *stream == 5), "it is the transport's own");
    assert!(!engine.transport.forgotten.contains(&5));
    assert!(notices(&mut engine).contains(&Notice::BadRequest { peer: 0, error }));
    assert_eq!(engine.connections().len(), 0);
}

#[test]
fn a_peer_that_allows_nothing_is_reported_to_the_operator_once() {
    let mut engine = engine();
    engine.transport.peers[0].allows = Some(Reach::default());
    for _ in 0..2 {
        assert!(engine.intercepted().is_empty());
    }
    let said = notices(&mut engine);
    assert_eq!(said, [Notice::PeerTakesNone(0)]);
    assert!(!engine.intercepts(&one()));
    engine.transport.peers[0].allows = None;
    assert_eq!((engine.intercepted().len(), notices(&mut engine)), (1, Vec::new()));
    let everywhere = || Ranges::new(["0.0.0.0/0", "::/0"].map(|net| (net.parse().unwrap(), true)));
    engine.transport.peers[0].allows = Some(Reach { sources: everywhere(), destinations: everywhere() });
    assert_eq!((engine.intercepted().len(), notices(&mut engine)), (1, vec![Notice::RoutesOpen(0)]));
}

#[test]
fn other_routes_hold_for_what_a_peer_has_announced_before() {
    let mut engine = engine();
    let net = |text: &str| text.parse().unwrap();
    let ranges = |text: &str| Ranges::new([(net(text), true)]);
    engine.transport.peers[0].allows =
        Some(Reach { sources: ranges("0.0.0.0/0"), destinations: ranges("198.51.100.0/25") });
    engine.intercepted();
    engine.reconfigure(START, other_settings());
    let servers: Vec<_> = engine.intercepted().into_iter().flat_map(|group| group.servers).collect();
    assert_eq!(servers, [net("198.51.100.0/25")]);
}
