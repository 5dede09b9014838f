//! Transfers in the background: LEDBAT (RFC 6817) and LEDBAT++ give way to CUBIC, and share a link among themselves.

use link::{LinkConfig, QueueLimit};
use sim::{Application, FlowConfig, Network, Record, Settings, Simulation, Start, Stop, Traffic, Transfer};
use std::sync::Arc;
use tcp::{Config, ControlKind, Profile, RecoveryKind};
use units::{Duration, Instant, Rate};

const RATE: f64 = 10e6;

/// Flows of these controls that begin at these times (in s), over 10 Mbit/s, 50 ms and a queue of 200 ms: the rate of each in the time from
/// `from` to `to`, as parts of the link's, and the mean queueing delay that the first met, in ms.
fn shares(flows: &[(&str, u64)], from: u64, to: u64) -> (Vec<f64>, f64) {
    let mut network = Network::new();
    let nodes = ["client", "server"].map(|name| network.add_node(name).expect("new"));
    let queue = QueueLimit::bandwidth_delay_product(Rate::from_bps(RATE as u64), Duration::from_millis(200));
    let there = LinkConfig { queue, ..LinkConfig::new(Rate::from_bps(RATE as u64), Duration::from_millis(25)) };
    network
        .add_link("bottleneck", nodes[0], nodes[1], there.clone(), LinkConfig { stream: 1, ..there })
        .expect("valid");
    let configs = flows.iter().enumerate().map(|(number, (control, start))| {
        let config = Arc::new(Config {
            control: ControlKind::by_name(control).expect("known"),
            recovery: RecoveryKind::by_name("rack").expect("known"),
            ..Config::new(Profile::Rfc)
        });
        FlowConfig {
            name: format!("{control}-{number}"),
            from: nodes[0],
            to: nodes[1],
            start: Start { at: Instant::ZERO + Duration::from_secs(*start), spread: Duration::ZERO },
            stop: None,
            traffic: Traffic::Tcp {
                client: config.clone(),
                server: config,
                application: Application::Bulk { size: None, transfer: Transfer::Upload },
            },
            record: true,
        }
    });
    let stop = Stop { at: Some(Instant::ZERO + Duration::from_secs(to)), when_complete: false };
    let record = Record { flow_interval: Some(Duration::from_millis(100)), ..Record::default() };
    let settings = Settings { stop, record, ..Settings::default() };
    let mut simulation = Simulation::new(network, configs.collect(), settings).expect("valid");
    simulation.run();
    let samples = simulation.take_flow_samples();
    let late = |flow: usize| {
        samples.iter().filter(move |sample| sample.flow == flow as u32 && sample.at.as_secs_f64() >= from as f64)
    };
    let share = |flow: usize| {
        let delivered: Vec<_> = late(flow).map(|sample| sample.delivered.as_u64()).collect();
        (delivered[delivered.len() - 1] - delivered[0]) as f64 * 8.0 / (to - from) as f64 / RATE
    };
    let srtts: Vec<_> = late(0).filter_map(|sample| sample.srtt).map(|srtt| srtt.as_millis_f64() - 50.0).collect();
    ((0..flows.len()).map(share).collect(), srtts.iter().sum::<f64>() / srtts.len() as f64)
}

#[test]
fn alone_they_use_the_link_behind_a_queue_of_their_target_at_most() {
    // Slowdowns cost LEDBAT++ a tenth of the time.
    for (control, least, most_delay) in [("ledbat", 0.9, 105.0), ("ledbat-plus-plus", 0.75, 62.0)] {
        let (share, delay) = shares(&[(control, 0)], 30, 120);
        assert!(share[0] > least, "{control}: {share:?}");
        assert!(delay < most_delay, "{control}: {delay} ms");
    }
}

#[test]
fn they_give_way_to_cubic() {
    for control in ["ledbat", "ledbat-plus-plus"] {
        let (share, _) = shares(&[(control, 0), ("cubic", 20)], 60, 180);
        assert!(share[0] < 0.15 && share[1] > 0.75, "{control}: {share:?}");
    }
}

#[test]
fn a_latecomer_gets_its_share_of_ledbat_plus_plus() {
    let (share, _) = shares(&[("ledbat-plus-plus", 0), ("ledbat-plus-plus", 40)], 200, 500);
    let ratio = share[1] / share[0];
    assert!((0.4..=2.5).contains(&ratio), "{share:?}");
}

#[test]
fn a_latecomer_takes_the_link_from_ledbat() {
    // It sees the queue of the first as the path's own delay (section 4.4 of RFC 6817): the reason for slowdowns.
    let (share, _) = shares(&[("ledbat", 0), ("ledbat", 40)], 100, 160);
    assert!(share[1] > 2.0 * share[0], "{share:?}");
}
