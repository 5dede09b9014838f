//! Pairs of gateways around a satellite link, between simulated hosts.

use link::{LinkConfig, LossModel, QueueLimit};
use sim::{
    Application, FlowConfig, GatewayConfig, Network, NodeId, Protocol, Record, Report, Settings, Simulation, Start,
    Stop, Stopped, Traffic, Transfer, Transport,
};
use std::sync::Arc;
use units::{Bytes, Duration, Instant, Probability, Rate};

/// client - near - far - server, with the satellite in the middle.
#[derive(Clone, Copy)]
struct Hop {
    bps: u64,
    loss: f64,
    seed: u64,
}

const RTT: Duration = Duration::from_millis(550);
/// Each terrestrial link, one way: next to nothing, as in the transport's own tests.
const TERRESTRIAL: Duration = Duration::from_micros(50);

impl Hop {
    fn network(self) -> (Network, [NodeId; 4]) {
        let mut network = Network::new();
        let nodes = ["client", "near", "far", "server"].map(|name| network.add_node(name).expect("new"));
        let lan =
            LinkConfig { queue: QueueLimit::Unlimited, ..LinkConfig::new(Rate::from_bps(1_000_000_000), TERRESTRIAL) };
        let rate = Rate::from_bps(self.bps);
        let satellite = |stream| LinkConfig {
            loss: LossModel::Bernoulli(Probability::new(self.loss).expect("probability")),
            queue: QueueLimit::bandwidth_delay_product(rate, RTT),
            seed: self.seed,
            stream,
            ..LinkConfig::new(rate, RTT / 2)
        };
        network.add_link("left", nodes[0], nodes[1], lan.clone(), lan.clone()).expect("valid");
        network.add_link("satellite", nodes[1], nodes[2], satellite(1), satellite(2)).expect("valid");
        network.add_link("right", nodes[2], nodes[3], lan.clone(), lan).expect("valid");
        (network, nodes)
    }

    /// The design's limit: `rounds` round trips and the bytes in full packets.
    fn limit(self, rounds: f64, bytes: u64) -> f64 {
        rounds * RTT.as_secs_f64() + bytes as f64 * 8.0 / (self.bps as f64 * 1448.0 / 1500.0 * (1.0 - self.loss))
    }

    /// Runs `flows` flows of `bytes` each, all at once.
    fn run(self, protocol: Option<Protocol>, transfer: Transfer, flows: usize, bytes: u64) -> Report {
        let (network, [client, near, far, server]) = self.network();
        let host = host();
        let flow = |number: usize| FlowConfig {
            name: format!("flow {number}"),
            from: client,
            to: server,
            start: Start { at: Instant::from_nanos(1_000_000_000), spread: Duration::ZERO },
            stop: None,
            traffic: Traffic::Tcp {
                client: host.clone(),
                server: host.clone(),
                application: Application::Bulk { size: Some(Bytes::new(bytes)), transfer },
            },
            record: false,
        };
        let pairs = protocol.map(|protocol| GatewayConfig::new("pep", [near, far], protocol)).into_iter().collect();
        let settings = Settings {
            seed: self.seed,
            stop: Stop { at: Some(Instant::from_nanos(2_000_000_000_000)), when_complete: true },
            record: Record::default(),
            ..Settings::default()
        };
        let flows = (0..flows).map(flow).collect();
        let mut simulation = Simulation::with_gateways(network, flows, pairs, settings).expect("valid");
        assert_eq!(simulation.run(), Stopped::Complete);
        simulation.report()
    }
}

/// A host as Linux makes them.
fn host() -> Arc<tcp::Config> {
    Arc::new(tcp::Config {
        control: tcp::ControlKind::by_name("cubic").expect("CUBIC"),
        receive_buffer: tcp::ReceiveBuffer { size: Bytes::new(128 << 10), share: 1.0, most: Bytes::new(6 << 20) },
        ..tcp::Config::new(tcp::Profile::Linux)
    })
}

fn satpep() -> Option<Protocol> {
    Some(Protocol::Satpep(Transport::default()))
}

fn times(report: &Report) -> Vec<f64> {
    report.flows.iter().map(|flow| flow.end_s.expect("ended") - flow.start_s.expect("started")).collect()
}

fn median_share(loss: f64, transfer: Transfer, bytes: u64) -> f64 {
    let rounds = if transfer == Transfer::Upload { 0.5 } else { 1.0 };
    let share = |seed| {
        let hop = Hop { bps: 6_000_000, loss, seed };
        hop.limit(rounds, bytes) / times(&hop.run(satpep(), transfer, 1, bytes))[0]
    };
    let mut shares: Vec<f64> = (0..9).map(share).collect();
    shares.sort_by(f64::total_cmp);
    println!("{transfer:?} of {bytes} bytes at {loss}: {shares:.3?}");
    shares[4]
}

#[test]
fn one_megabyte_runs_near_the_limit_at_every_loss() {
    let download = Transfer::Download { request: Bytes::new(100) };
    for (loss, least) in [(0.0, 0.97), (1e-3, 0.97), (1e-2, 0.96)] {
        assert!(median_share(loss, Transfer::Upload, 1_000_000) >= least);
        assert!(median_share(loss, download, 1_000_000) >= least);
    }
}

#[test]
fn short_and_long_transfers_run_near_the_limit() {
    assert!(median_share(0.0, Transfer::Upload, 100_000) >= 0.96);
    assert!(median_share(1e-2, Transfer::Upload, 10_000_000) >= 0.97);
}

/// Jain's index of fairness: 1 if all are equal, 1/n if one has all.
fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    sum * sum / (shares.len() as f64 * shares.iter().map(|share| share * share).sum::<f64>())
}

#[test]
fn twenty_parallel_transfers_are_served_alike_and_fill_the_link() {
    let hop = Hop { bps: 6_000_000, loss: 1e-3, seed: 31 };
    let times = times(&hop.run(satpep(), Transfer::Upload, 20, 2_000_000));
    assert!(jain(&times) >= 0.99, "{times:?}");
    let last = times.iter().copied().fold(0.0, f64::max);
    assert!(last <= hop.limit(0.5, 40_000_000) / 0.96, "{last}");
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    let run = |seed| Hop { bps: 6_000_000, loss: 1e-2, seed }.run(satpep(), Transfer::Upload, 5, 300_000);
    assert_eq!(run(1), run(1));
    assert_ne!(times(&run(1)), times(&run(2)));
}
