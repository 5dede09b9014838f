//! Packets of which a link makes a copy, and a later link loses one of the two.
#![allow(clippy::unwrap_used, reason = "a test")]

use scenario::load;
use sim::{Report, Simulation};

/// A flow that both ways passes a link that duplicates every packet, and then one that loses those whose numbers `lost` has.
fn run(flow: &str, lost: impl Fn(u64) -> bool) -> Report {
    let lost: Vec<_> = (0..20_000).filter(|number| lost(*number)).collect();
    let text = format!(
        r#"
version = 1
nodes = ["client", "near", "middle", "far", "server"]
[[link]]
name = "lan"
between = ["client", "near"]
rate = "1Gbit/s"
delay = "1ms"
queue = "1000packets"
[[link]]
name = "first"
between = ["near", "middle"]
rate = "10Mbit/s"
delay = "50ms"
queue = "1000packets"
forward = {{ duplicate = 1.0 }}
reverse = {{ loss = {{ drop_list = {lost:?} }} }}
[[link]]
name = "second"
between = ["middle", "far"]
rate = "100Mbit/s"
delay = "1ms"
queue = "1000packets"
forward = {{ loss = {{ drop_list = {lost:?} }} }}
reverse = {{ duplicate = 1.0 }}
[[link]]
name = "isp"
between = ["far", "server"]
rate = "1Gbit/s"
delay = "1ms"
queue = "1000packets"
[[flow]]
name = "file"
from = "client"
to = "server"
{flow}
[stop]
time = "60s"
"#
    );
    let scenario = load(&text, "duplicates.toml", &[], &|_| Err(String::new())).unwrap().scenarios.remove(0);
    let mut simulation = Simulation::of(&scenario, 1, true).unwrap();
    simulation.run();
    let report = simulation.report();
    assert!(report.flows[0].complete && report.flows[0].failure.is_none(), "{:?}", report.flows[0]);
    report
}

/// Every second packet is lost: the first copies, or the second ones.
fn one_copy_of_two() -> [fn(u64) -> bool; 2] {
    [|number| number % 2 == 0, |number| number % 2 == 1]
}

#[test]
fn a_copy_of_a_quic_packet_arrives_where_the_other_was_lost() {
    let flow = "quic = \"newreno\"\nbulk = { size = \"500kB\" }";
    for lost in one_copy_of_two() {
        let report = run(flow, lost);
        let lossy = report.links.iter().filter(|link| link.counters.dropped_loss.packets > 50);
        assert_eq!(lossy.count(), 2, "{:?}", report.links);
        assert_eq!((report.flows[0].retransmissions, report.flows[0].rtos), (0, 0), "{:?}", report.flows[0]);
    }
    // Both copies of the hundredth packet.
    let report = run(flow, |number| number / 2 == 100);
    assert_eq!(report.flows[0].retransmissions, 1, "{:?}", report.flows[0]);
}

#[test]
fn a_copy_of_a_datagram_between_gateways_arrives_where_the_other_was_lost() {
    let flow =
        "tcp = \"cubic\"\nbulk = { size = \"500kB\" }\n[[gateway]]\nname = \"pair\"\nnodes = [\"near\", \"far\"]";
    for lost in one_copy_of_two() {
        let report = run(flow, lost);
        for session in &report.gateways[0].sessions {
            assert!(session.sent_packets > 50, "{session:?}");
            assert_eq!((session.lost_packets, session.retransmitted_bytes), (0, 0), "{session:?}");
        }
    }
}

#[test]
fn a_copy_of_an_answer_is_no_other_answer() {
    // Each request arrives twice, and of each answer there are four.
    let report = run("ping = { interval = \"10ms\", requests = 20 }", |_| false);
    let ping = &report.flows[0];
    assert_eq!((ping.data_packets, ping.received_packets, ping.complete), (20, 20, true), "{ping:?}");
}
