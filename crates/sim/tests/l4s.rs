//! Prague and CUBIC over one DualPI2 queue: low delay for one, and about the same rate for both (RFC 9332).

use link::{Discipline, DualPi2, LinkConfig, QueueLimit};
use sim::{Application, FlowConfig, Network, NodeId, Record, Settings, Simulation, Start, Stop, Traffic, Transfer};
use std::sync::Arc;
use tcp::{Config, ControlKind, Profile, RecoveryKind};
use units::{Duration, Ecn, Instant, Rate};

const RTT: Duration = Duration::from_millis(20);

fn endpoint(control: &str, profile: Profile) -> Arc<Config> {
    let is_prague = control == "prague";
    Arc::new(Config {
        control: ControlKind::by_name(control).expect("known"),
        recovery: RecoveryKind::by_name("rack").expect("known"),
        ecn: if is_prague { Ecn::Ect1 } else { Ecn::NotCapable },
        accurate_ecn: is_prague,
        ..Config::new(profile)
    })
}

/// So many flows of each kind over 40 Mbit/s and DualPI2, to run for a minute.
fn simulation(prague: u32, cubic: u32, profile: Profile, rtt: Duration) -> Simulation {
    recording(prague, cubic, profile, rtt, |_| Record {
        flow_interval: Some(Duration::from_millis(50)),
        ..Record::default()
    })
}

/// The same, with what is recorded of the two nodes.
fn recording(
    prague: u32,
    cubic: u32,
    profile: Profile,
    rtt: Duration,
    record: impl FnOnce([NodeId; 2]) -> Record,
) -> Simulation {
    let mut network = Network::new();
    let nodes = ["client", "server"].map(|name| network.add_node(name).expect("new"));
    let there = LinkConfig {
        discipline: Discipline::DualPi2(DualPi2::default()),
        queue: QueueLimit::Packets(2_000),
        ..LinkConfig::new(Rate::from_bps(40_000_000), rtt / 2)
    };
    let back = LinkConfig { discipline: Discipline::DropTail, stream: 1, ..there.clone() };
    network.add_link("bottleneck", nodes[0], nodes[1], there, back).expect("valid");
    let kinds = std::iter::repeat_n("prague", prague as usize).chain(std::iter::repeat_n("cubic", cubic as usize));
    let flows: Vec<_> = kinds
        .enumerate()
        .map(|(number, control)| FlowConfig {
            name: format!("{control}-{number}"),
            from: nodes[0],
            to: nodes[1],
            start: Start { at: Instant::ZERO + Duration::from_millis(100 * number as u64), spread: Duration::ZERO },
            stop: None,
            traffic: Traffic::Tcp {
                client: endpoint(control, profile),
                server: endpoint(control, profile),
                application: Application::Bulk { size: None, transfer: Transfer::Upload },
            },
            record: true,
        })
        .collect();
    let stop = Stop { at: Some(Instant::ZERO + Duration::from_secs(60)), when_complete: false };
    let settings = Settings { stop, record: record(nodes), ..Settings::default() };
    Simulation::new(network, flows, settings).expect("valid")
}

#[test]
fn packets_are_recorded_with_the_marks_that_they_carry_there() {
    let at_both = |nodes: [NodeId; 2]| Record { packets_at: nodes.to_vec(), ..Record::default() };
    let mut simulation = recording(1, 0, Profile::Linux, RTT, at_both);
    simulation.run();
    let marked = simulation.report().links[0].counters.marked.packets;
    let packets = simulation.take_packets();
    let with = |node: usize, ecn: Ecn| {
        let there = packets.iter().filter(|packet| packet.node.index() == node && packet.to_server);
        there.filter(|packet| packet.body.ecn() == ecn).count() as u64
    };
    assert_eq!(with(0, Ecn::CongestionExperienced), 0, "nobody has marked them yet");
    let arrived = with(1, Ecn::CongestionExperienced);
    assert!(marked > 1_000 && (marked - 20..=marked).contains(&arrived), "{arrived} of {marked}");
    assert!(with(1, Ecn::Ect1) > marked);
}

/// The mean rate of a flow of each kind in the second half of the minute, and the mean queueing delay of each, in ms, by the smoothed
/// round-trip times of its senders.
fn share(prague: u32, cubic: u32, rtt: Duration) -> ([f64; 2], [f64; 2]) {
    let mut simulation = simulation(prague, cubic, Profile::Linux, rtt);
    simulation.run();
    let samples = simulation.take_flow_samples();
    let late = |flow: u32| samples.iter().filter(move |sample| sample.flow == flow && sample.at.as_secs_f64() >= 30.0);
    let (mut rates, mut delays) = ([0.0; 2], [0.0; 2]);
    for (kind, numbers) in [0..prague, prague..prague + cubic].into_iter().enumerate() {
        let count = f64::from(numbers.end - numbers.start);
        for flow in numbers {
            let delivered: Vec<_> = late(flow).map(|sample| sample.delivered.as_u64()).collect();
            rates[kind] += (delivered[delivered.len() - 1] - delivered[0]) as f64 * 8.0 / 30.0 / count;
            let srtts: Vec<_> = late(flow).filter_map(|sample| sample.srtt).collect();
            let mean = srtts.iter().map(|srtt| srtt.as_millis_f64()).sum::<f64>() / srtts.len() as f64;
            delays[kind] += (mean - rtt.as_millis_f64()) / count;
        }
    }
    (rates, delays)
}

#[test]
fn prague_alone_waits_for_about_a_millisecond() {
    let ([rate, _], [delay, _]) = share(2, 0, RTT);
    assert!(delay < 2.0, "{delay:.2} ms");
    assert!(2.0 * rate > 0.8 * 40e6, "{rate}");
}

#[test]
fn prague_and_cubic_share_a_coupled_queue_each_with_its_own_delay() {
    for (prague, cubic) in [(1, 1), (2, 2), (1, 3), (3, 1)] {
        let ([low, classic], [low_delay, classic_delay]) = share(prague, cubic, RTT);
        let ratio = low / classic;
        assert!((0.5..=2.0).contains(&ratio), "{prague} and {cubic}: a ratio of {ratio:.2}");
        assert!(low_delay < 2.0, "{prague} and {cubic}: {low_delay:.2} ms");
        assert!((10.0..=25.0).contains(&classic_delay), "{prague} and {cubic}: {classic_delay:.2} ms");
        let used = (low * f64::from(prague) + classic * f64::from(cubic)) / 40e6;
        assert!(used > 0.93, "{prague} and {cubic}: {used:.2} of the link");
    }
}

/// The queues are coupled for equal windows (RFC 9332). Prague's round trip, with 1 ms of queue, counts as 25 ms at least, whether two of
/// them fit into that or not; CUBIC's has 16 ms of queue.
#[test]
fn shorter_round_trips_share_as_one_of_25_ms() {
    for millis in [16, 20, 22, 26] {
        let ([low, classic], _) = share(1, 1, Duration::from_millis(millis));
        let law = (millis as f64 + 16.0) / (millis as f64 + 1.0).max(25.0);
        let ratio = low / classic / law;
        assert!((0.9..1.3).contains(&ratio), "{millis} ms: {ratio:.2} times the law's {law:.2}");
    }
}

/// By RFC 5681 (section 4.3) a lost retransmission is a congestion of its own. Two flows that lowered their windows once for all of it flooded
/// this queue with 1.55 million retransmissions in the minute.
#[test]
fn lost_retransmissions_lower_the_window_again() {
    let mut simulation = simulation(0, 2, Profile::Rfc, RTT);
    simulation.run();
    let report = simulation.report();
    let sum = |count: fn(&sim::FlowReport) -> u64| report.flows.iter().map(count).sum::<u64>() as f64;
    let (sent, again) = (sum(|flow| flow.data_packets), sum(|flow| flow.retransmissions));
    assert!(again < 0.05 * sent, "{again} of {sent}");
    let used = sum(|flow| flow.bytes) * 8.0 / 60.0 / (40e6 * 1448.0 / 1500.0);
    assert!(used > 0.9, "{used}");
}
