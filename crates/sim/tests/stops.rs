//! Flows whose traffic stops before they are complete.
#![allow(clippy::unwrap_used, reason = "a test")]

use scenario::load;
use sim::{Report, Simulation, Stopped};

/// A flow with `keys` that stops at 2 s, beside one without end, on a path with or without gateways.
fn run(keys: &str, gateways: &str) -> Report {
    let text = format!(
        r#"
version = 1
nodes = ["a", "near", "far", "b"]
[[link]]
name = "lan"
between = ["a", "near"]
delay = "1ms"
[[link]]
name = "sat"
between = ["near", "far"]
rate = "10Mbit/s"
delay = "50ms"
queue = "1BDP"
[[link]]
name = "isp"
between = ["far", "b"]
delay = "1ms"
[[flow]]
name = "stops"
from = "a"
to = "b"
stop = "2s"
{keys}
[[flow]]
name = "goes-on"
from = "a"
to = "b"
udp = {{ rate = "10kbit/s" }}
[stop]
time = "60s"
{gateways}
"#
    );
    let scenario = load(&text, "stops.toml", &[], &|_| Err(String::new())).unwrap();
    let mut simulation = Simulation::of(&scenario.scenarios[0], 1, false).unwrap();
    simulation.run();
    simulation.report()
}

#[test]
fn a_flow_that_is_given_up_has_ended() {
    let pair = "[[gateway]]\nname = \"pair\"\nnodes = [\"near\", \"far\"]\n";
    let applications = [
        "bulk = { size = \"100MB\" }",
        "bulk = { size = \"100MB\", direction = \"down\" }",
        "request_response = { requests = 1000, response = \"1kB\", think = \"100ms\" }",
        "request_response = { requests = 1000, response = \"300kB\" }",
        "request_response = { requests = 1000, response = \"1kB\", think = \"1h\" }",
    ];
    let over = |protocol: &str| applications.map(|application| format!("{protocol} = \"cubic\"\n{application}"));
    let pings = ["100ms", "1h"].map(|every| format!("ping = {{ interval = \"{every}\", requests = 100 }}"));
    for keys in over("tcp").into_iter().chain(over("quic")).chain(pings) {
        // Gateways split TCP only.
        let split = keys.starts_with("tcp").then_some(pair);
        for gateways in [""].into_iter().chain(split) {
            let report = run(&keys, gateways);
            assert_eq!(report.stopped, Stopped::Complete, "{keys} {gateways}");
            assert!((2.0..2.7).contains(&report.end_s), "{keys} {gateways}: {}", report.end_s);
            let flow = &report.flows[0];
            assert!(!flow.complete && flow.failure.is_none(), "{flow:?}");
            let is_ping = keys.starts_with("ping");
            assert!(
                !is_ping || flow.received_packets == flow.data_packets,
                "answers on their way are waited for: {flow:?}"
            );
        }
    }
}

#[test]
fn pings_without_end_that_stop_are_none_that_a_run_waits_for() {
    let pings = "ping = { interval = \"100ms\" }\n[[flow]]\nname = \"file\"\nfrom = \"a\"\nto = \"b\"\nstart = \"5s\"\n\
                 tcp = \"cubic\"\nbulk = { size = \"10kB\" }";
    let report = run(pings, "");
    assert_eq!(report.stopped, Stopped::Complete);
    assert!((5.0..6.0).contains(&report.end_s), "{}", report.end_s);
}

/// The buffers of senders are of no influence on what is still delivered after a stop.
#[test]
fn what_is_under_way_at_a_stop_comes_whole_whatever_the_buffers_hold() {
    // Requests and responses of 2 MB take more than the two seconds until the stop.
    let applications = ["{ request = \"100B\", response = \"2MB\" }", "{ request = \"2MB\", response = \"1kB\" }"];
    for protocol in ["tcp", "quic"] {
        for (application, bytes) in applications.into_iter().zip([2_000_000, 1_000]) {
            for buffer in ["", "send_buffer = \"64KiB\"\n"] {
                let keys = format!("{protocol} = \"small\"\nrequest_response = {application}");
                let preset = if protocol == "tcp" { "preset" } else { "control" };
                let table = format!("[{protocol}.small]\n{preset} = \"cubic\"\n{buffer}");
                let flow = &run(&keys, &table).flows[0];
                assert_eq!((flow.responses, flow.bytes), (1, bytes), "{keys} {table}");
            }
        }
    }
}

#[test]
fn answers_to_pings_are_awaited_however_long_the_way_is() {
    let ways = [("50ms", "1Mbit/s", 84), ("6s", "1Mbit/s", 84), ("6min", "1Mbit/s", 84)];
    // The first answer comes after 27 s, or each 3.3 s after the one before it.
    let slow_ways = [("50ms", "600bit/s", 1000), ("50ms", "2400bit/s", 1000)];
    for (delay, rate, size) in ways.into_iter().chain(slow_ways) {
        let text = format!(
            "version = 1\nnodes = [\"earth\", \"mars\"]\n[[link]]\nname = \"space\"\nbetween = [\"earth\", \"mars\"]\n\
             rate = \"{rate}\"\ndelay = \"{delay}\"\nqueue = \"100packets\"\n[[flow]]\nname = \"ping\"\nfrom = \"earth\"\n\
             to = \"mars\"\nping = {{ interval = \"1s\", requests = 10, packet_size = \"{size}B\" }}\n"
        );
        let scenario = load(&text, "ping.toml", &[], &|_| Err(String::new())).unwrap();
        let mut simulation = Simulation::of(&scenario.scenarios[0], 1, false).unwrap();
        assert_eq!(simulation.run(), Stopped::Complete);
        let flow = &simulation.report().flows[0];
        assert_eq!((flow.received_packets, flow.complete), (10, true), "{delay}, {rate}");
    }
}
