//! Packets that go through links without an event at each: what they do is what they do with one.
#![allow(clippy::unwrap_used, reason = "a test")]

use scenario::load;
use sim::{Report, Simulation};

/// The run of `text` with `record`, without what depends on the number of its events.
fn run(text: &str, record: &str) -> Report {
    let scenario = load(&format!("{text}{record}"), "fused.toml", &[], &|_| Err(String::new())).unwrap();
    let mut simulation = Simulation::of(&scenario.scenarios[0], 1, true).unwrap();
    simulation.run();
    Report { events: 0, ..simulation.report() }
}

/// Asserts that recording queues, for which every arrival has its event, changes nothing; returns the report.
fn assert_recording_changes_nothing(text: &str) -> Report {
    let report = run(text, "");
    assert_eq!(report, run(text, "[record]\nqueue_interval = \"1s\"\n"));
    report
}

/// Cross traffic leaves the satellite link by a link that nothing else uses, so that its packets pass the end of the satellite link
/// without an event.
#[test]
fn an_allocator_measures_what_passes_the_link_that_it_divides() {
    let report = assert_recording_changes_nothing(
        r#"
version = 1
nodes = ["client", "t", "hub", "server", "other"]
[[link]]
name = "lan"
between = ["client", "t"]
rate = "100Mbit/s"
delay = "1ms"
queue = "1000packets"
[[link]]
name = "sat"
between = ["t", "hub"]
rate = "6Mbit/s"
delay = "275ms"
queue = "1BDP"
[[link]]
name = "net"
between = ["hub", "server"]
rate = "100Mbit/s"
delay = "5ms"
queue = "1000packets"
[[link]]
name = "other-net"
between = ["hub", "other"]
rate = "100Mbit/s"
delay = "5ms"
queue = "1000packets"
[[flow]]
name = "up"
from = "client"
to = "server"
start = "5s"
tcp = "cubic"
bulk = { size = "4MB" }
[[flow]]
name = "cross"
from = "client"
to = "other"
udp = { rate = "3Mbit/s" }
[[gateway]]
name = "pair"
nodes = ["t", "hub"]
transport = "satpep-2003"
[stop]
time = "40s"
"#,
    );
    let goodput = report.flows[0].goodput_bps.unwrap();
    assert!((2.4e6..3.0e6).contains(&goodput), "what UDP leaves, less headers and the opening: {goodput}");
    assert_eq!(report.gateways[0].transport.unwrap().retransmissions, 0);
}

#[test]
fn what_a_policer_will_drop_is_in_transit_until_then() {
    let report = assert_recording_changes_nothing(
        r#"
version = 1
nodes = ["a", "b", "c", "d"]
[[link]]
name = "first"
between = ["a", "b"]
delay = "100ms"
[[link]]
name = "policed"
between = ["b", "c"]
delay = "100ms"
policer = { rate = "100kbit/s", burst = "1500B" }
[[link]]
name = "last"
between = ["c", "d"]
delay = "10ms"
[[flow]]
name = "u"
from = "a"
to = "d"
udp = { rate = "1Mbit/s" }
[stop]
time = "1s"
"#,
    );
    let [first, policed, last] = ["a", "b", "c"].map(|from| {
        let link = report.links.iter().find(|link| link.from == from && link.to > link.from);
        link.unwrap().counters
    });
    assert_eq!((first.delivered, policed.delivered), (policed.offered, last.offered));
    assert_eq!(policed.dropped_queue_full.packets, 0);
    assert!(policed.dropped_policed.packets > 50, "{policed:?}");
    // A packet each 12 ms: those of the last 100 ms, and the one that the policer let pass in the 100 ms before.
    assert_eq!([first, policed, last].map(|counters| counters.in_transit().packets), [8, 1, 0]);
}
