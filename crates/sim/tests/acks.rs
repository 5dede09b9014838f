//! Transfers whose acknowledgements a narrow return link filters or thins out.

use link::{Acks, LinkConfig, QueueLimit};
use sim::{Application, FlowConfig, Network, Report, Settings, Simulation, Start, Stop, Stopped, Traffic, Transfer};
use std::sync::Arc;
use tcp::{Config, ControlKind, Profile, RecoveryKind};
use units::{Bytes, Duration, Ecn, Instant, Rate};

/// AccECN of the ends.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Counters {
    None,
    /// Of packets, three bits of which are in each acknowledgement.
    Packets,
    /// Of bytes, too.
    PacketsAndBytes,
}

/// 10 MB up at 20 Mbit/s, with acknowledgements over 50 kbit/s: for each two segments there would be 0.35 Mbit/s of them. Unfiltered, they fill
/// the queue of 40, which makes the round-trip time longer by a third of a second, and most are refused.
fn run(acks: Acks, recovery: &str) -> Report {
    run_with(acks, recovery, Counters::None)
}

/// The same, with AccECN or without.
fn run_with(acks: Acks, recovery: &str, counters: Counters) -> Report {
    let accurate_ecn = counters != Counters::None;
    let mut network = Network::new();
    let nodes = ["client", "server"].map(|name| network.add_node(name).expect("new"));
    let delay = Duration::from_millis(20);
    let there = LinkConfig { queue: QueueLimit::Packets(200), ..LinkConfig::new(Rate::from_bps(20_000_000), delay) };
    let back = LinkConfig {
        queue: QueueLimit::Packets(40),
        stream: 1,
        acks,
        ..LinkConfig::new(Rate::from_bps(50_000), delay)
    };
    network.add_link("asymmetric", nodes[0], nodes[1], there, back).expect("valid");
    let config = Arc::new(Config {
        recovery: RecoveryKind::by_name(recovery).expect("known"),
        control: ControlKind::by_name("cubic").expect("known"),
        ecn: if accurate_ecn { Ecn::Ect0 } else { Ecn::NotCapable },
        accurate_ecn,
        accurate_ecn_option: counters == Counters::PacketsAndBytes,
        ..Config::new(Profile::Rfc)
    });
    let application = Application::Bulk { size: Some(Bytes::new(10_000_000)), transfer: Transfer::Upload };
    let traffic = Traffic::Tcp { client: config.clone(), server: config, application };
    let flow = FlowConfig {
        name: "file".to_owned(),
        from: nodes[0],
        to: nodes[1],
        start: Start::default(),
        stop: None,
        traffic,
        record: true,
    };
    let stop = Stop { at: Some(Instant::ZERO + Duration::from_secs(600)), when_complete: true };
    let settings = Settings { stop, ..Settings::default() };
    let mut simulation = Simulation::new(network, vec![flow], settings).expect("valid");
    assert_eq!(simulation.run(), Stopped::Complete, "{acks:?} {recovery}");
    simulation.report()
}

fn goodput(report: &Report) -> f64 {
    report.flows[0].goodput_bps.expect("complete")
}

#[test]
fn filtering_frees_a_transfer_from_the_limit_of_its_return_link() {
    for recovery in ["newreno", "sack", "rack"] {
        let [kept, filtered] = [Acks::Keep, Acks::Filter].map(|acks| run(acks, recovery));
        let gain = goodput(&filtered) / goodput(&kept);
        assert!(gain > 1.4, "{recovery}: {gain:.2} of {:.0} bit/s", goodput(&kept));
        let back = filtered.links[1].counters;
        assert!(back.dropped_acks.packets > 1_000, "{recovery}: {:?}", back.dropped_acks);
        let refused = [kept.links[1].counters, back].map(|counters| counters.dropped_queue_full.packets);
        assert!(2 * refused[1] < refused[0], "{recovery}: only duplicates wait behind others: {refused:?}");
    }
}

#[test]
fn thinning_frees_a_transfer_by_its_factor_at_most() {
    let [kept, thinned] = [Acks::Keep, Acks::Thin(4)].map(|acks| run(acks, "sack"));
    let gain = goodput(&thinned) / goodput(&kept);
    assert!((1.5..=4.5).contains(&gain), "{gain:.2}");
}

/// The control bits of AccECN's acknowledgements are a counter (RFC 9768): those with one value take the place of one another.
#[test]
fn filtering_frees_a_transfer_with_accurate_ecn_too() {
    for counters in [Counters::Packets, Counters::PacketsAndBytes] {
        let [kept, filtered] = [Acks::Keep, Acks::Filter].map(|acks| run_with(acks, "rack", counters));
        let gain = goodput(&filtered) / goodput(&kept);
        assert!(gain > 1.4, "{counters:?}: {gain:.2} of {:.0} bit/s", goodput(&kept));
        assert!(filtered.links[1].counters.dropped_acks.packets > 1_000);
    }
}

/// No link marks: that acknowledgements are filtered, thinned or lost is no mark.
#[test]
fn missing_acknowledgements_are_not_taken_for_marks_on_a_path_that_does_not_mark() {
    for acks in [Acks::Keep, Acks::Filter, Acks::Thin(4)] {
        let [none, packets] = [Counters::None, Counters::Packets].map(|counters| run_with(acks, "rack", counters));
        let share = goodput(&packets) / goodput(&none);
        assert!(share > 0.95, "{acks:?}: {share:.2} of {:.0} bit/s", goodput(&none));
    }
}
