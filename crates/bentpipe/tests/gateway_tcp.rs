//! Two gateways around a wire whose satellite transport is the kernel's own TCP: what is left when a gateway
//! dies. Where the machine may not create network namespaces, the tests say so and pass.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: real processes, sockets and waiting")]

mod pair;

use lab::Family;
use pair::{CLEAR, End, Pair, TLS, assert_reset, echo_all, echoes, pattern};

/// Without gateways yet.
fn clear() -> Option<Pair> {
    Pair::with_tcp_transport(CLEAR)
}

#[test]
fn connections_bypass_a_dead_peer_and_acceleration_comes_back() {
    for settings in [CLEAR, TLS] {
        let Some(pair) = Pair::with_tcp_transport(settings) else { return };
        bypasses_a_dead_peer(pair.start_both(""));
    }
}

/// A hub that cannot call its terminals has nothing to intercept.
#[test]
fn a_hub_logs_that_its_terminal_is_accelerated_and_not_that_connections_go_end_to_end() {
    let Some(mut pair) = Pair::with_tcp_transport(TLS) else { return };
    pair.hub_initiates = false;
    pair.runner.logged = Some("info");
    pair.start(End::Hub, "");
    pair.start(End::Terminal, "");
    pair.wait_until(End::Terminal, true);
    let server = pair.serve(Family::V4, 7, echo_all);
    echoes(&mut pair.connect(server), b"accelerated");
    pair.stop(End::Terminal);
    pair.stop(End::Hub);
    let [hub, terminal] = [End::Hub, End::Terminal].map(|end| std::fs::read_to_string(pair.log(end)).unwrap());
    assert!(hub.contains("the peer has begun a session: its connections are accelerated"), "{hub}");
    assert!(!hub.contains("go end to end"), "{hub}");
    assert!(terminal.contains("new connections are accelerated"), "{terminal}");
}

fn bypasses_a_dead_peer(mut pair: Pair) {
    let server = pair.serve(Family::V4, 7, echo_all);
    let mut relayed = pair.connect(server);
    echoes(&mut relayed, b"accelerated");
    pair.kill(End::Hub);
    pair.wait_until(End::Terminal, false);
    assert_reset(&mut relayed);
    echoes(&mut pair.connect(server), b"end to end");
    assert_eq!(pair.count(End::Terminal, "accepted"), 1);
    pair.start(End::Hub, "");
    pair.wait_until(End::Terminal, true);
    pair.wait_until(End::Hub, true);
    echoes(&mut pair.connect(server), b"accelerated again");
    assert_eq!(pair.count(End::Terminal, "accepted"), 2);
}

#[test]
fn the_cross_layer_control_carries_what_is_reported_and_goes_with_the_gateway() {
    let Some(mut pair) = clear() else { return };
    pair.terminal_link = "min_rate = \"1Mbit/s\"\n[updates]\nhttp = \"127.0.0.1:9091\"";
    pair.start(End::Hub, "");
    pair.sections = "[tcp]\ncongestion_control = \"bp_cross\"";
    pair.start(End::Terminal, "");
    if pair.lacks_something(End::Terminal) {
        return;
    }
    pair.wait_until(End::Hub, true);
    pair.wait_until(End::Terminal, true);
    let server = pair.serve(Family::V4, 7, echo_all);
    echoes(&mut pair.connect(server), &pattern(8, 1_000_000));
    assert!(pair.http(End::Terminal, 9091, "PUT /link", r#"{"rate": "50Mbit/s"}"#).starts_with("HTTP/1.1 200"));
    echoes(&mut pair.connect(server), &pattern(9, 1_000_000));
    assert_eq!(pair.status(End::Terminal)["rate_bps"], 50_000_000);
    let control = pair.status(End::Terminal)["satellite"]["cross_layer"]["control"].as_str().unwrap().to_owned();
    let is_there = || kernel::sysctl::congestion_controls().unwrap().contains(&control);
    assert!(is_there(), "{control}");
    pair.stop(End::Terminal);
    assert!(!is_there(), "{control}");
}
