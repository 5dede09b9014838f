//! The scenarios of the requirements.

use crate::Case;
use link::{LinkConfig, QueueLimit};
use sim::{Application, FlowConfig, Network, NodeId, Record, Start, Traffic, Transfer};
use std::sync::Arc;
use tcp::control::ControlKind;
use tcp::{Config, Profile, ReceiveBuffer};
use units::{Bytes, Duration, Instant, Rate};

/// A case by name.
pub struct Named {
    pub name: &'static str,
    /// What `peers/run.py` calls it, if other simulators can run it.
    pub peer: Option<&'static str>,
    pub new: fn() -> Case,
}

pub const ALL: &[Named] = &[
    Named { name: "one 50 Mbit/s flow, 100 s", peer: Some("single"), new: || single(ns2_sack(1460, 3_450_000)) },
    Named { name: "the same, rfc, sack, reno", peer: None, new: || single(Config::new(Profile::Rfc)) },
    Named { name: "the same, linux, rack, cubic", peer: None, new: || single(linux("cubic")) },
    Named { name: "the same, linux, rack, bbr3", peer: None, new: || single(linux("bbr3")) },
    Named { name: "paper 002, 6000 s", peer: Some("shares"), new: || paper002(Record::default()) },
    Named { name: "paper 002, windows traced", peer: None, new: || paper002(traced()) },
    Named { name: "100 flows over 1 Gbit/s, 60 s", peer: Some("flows-100"), new: || many(100, 400) },
    Named { name: "1000 flows over 1 Gbit/s, 60 s", peer: Some("flows-1000"), new: || many(1000, 40) },
];

fn traced() -> Record {
    Record { window_changes: true, ..Record::default() }
}

/// One flow that fills a geostationary link of 50 Mbit/s for 100 s.
fn single(config: Config) -> Case {
    let mut network = Network::new();
    let nodes = chain(&mut network, 4);
    let satellite = LinkConfig::new(mbit(50), ms(275));
    let access = LinkConfig::new(mbit(100), ms(1));
    for (i, (name, config)) in [("a", access.clone()), ("satellite", satellite), ("b", access)].into_iter().enumerate()
    {
        network.add_link(name, nodes[i], nodes[i + 1], config.clone(), config).expect("new");
    }
    Case {
        network,
        flows: vec![bulk("flow", nodes[0], nodes[3], config, Duration::ZERO, Duration::ZERO)],
        length: Duration::from_secs(100),
        record: Record::default(),
    }
}

/// The scenario of the paper on TCP variants over satellite: 15 flows over the satellite, 15 terrestrial ones from
/// 2000 s, UDP from 4000 s, all through 2 Mbit/s.
fn paper002(record: Record) -> Case {
    let mut network = Network::new();
    let nodes = chain(&mut network, 6);
    let [a, b, r1, r2, t, s] = nodes[..] else { unreachable!("six nodes") };
    let access = LinkConfig { queue: QueueLimit::Packets(50), ..LinkConfig::new(mbit(20), ms(10)) };
    let bottleneck = LinkConfig { queue: QueueLimit::Packets(50), ..LinkConfig::new(mbit(2), ms(10)) };
    let satellite = LinkConfig { delay: ms(260), ..access.clone() };
    for (name, from, to, config) in [
        ("a", a, r1, &access),
        ("b", b, r1, &access),
        ("bottleneck", r1, r2, &bottleneck),
        ("terrestrial", r2, t, &access),
        ("satellite", r2, s, &satellite),
    ] {
        network.add_link(name, from, to, config.clone(), config.clone()).expect("new");
    }
    let flow = |i: u64, from, to, at| bulk(&format!("{i}"), from, to, ns2_sack(960, 20 * 960), at, ms(100));
    let mut flows: Vec<_> = (0..15).map(|i| flow(i, a, s, Duration::ZERO)).collect();
    flows.extend((15..30).map(|i| flow(i, b, t, Duration::from_secs(2000))));
    flows.push(FlowConfig {
        traffic: Traffic::Udp { rate: mbit(1), packet_size: Bytes::new(1000), on_off: None },
        ..flow(30, b, t, Duration::from_secs(4000))
    });
    Case { network, flows, length: Duration::from_secs(6000), record }
}

/// Flows with a window of so many segments over 1 Gbit/s with 250 ms, 60 s.
fn many(flows: u64, window: u64) -> Case {
    let mut network = Network::new();
    let nodes = chain(&mut network, 4);
    let access = LinkConfig { queue: QueueLimit::Packets(100_000), ..LinkConfig::new(mbit(10_000), ms(1)) };
    let shared = LinkConfig { queue: QueueLimit::Packets(5_000), ..LinkConfig::new(mbit(1_000), ms(250)) };
    for (i, (name, config)) in [("a", access.clone()), ("shared", shared), ("b", access)].into_iter().enumerate() {
        network.add_link(name, nodes[i], nodes[i + 1], config.clone(), config).expect("new");
    }
    let config = ns2_sack(1460, window * 1460);
    let flow = |i| bulk(&format!("{i}"), nodes[0], nodes[3], config.clone(), Duration::ZERO, Duration::from_secs(1));
    Case { network, flows: (0..flows).map(flow).collect(), length: Duration::from_secs(60), record: Record::default() }
}

pub fn chain(network: &mut Network, nodes: usize) -> Vec<NodeId> {
    (0..nodes).map(|i| network.add_node(&format!("node {i}")).expect("new")).collect()
}

/// ns-2's SACK agents, for a comparison of like with like.
fn ns2_sack(mss: u32, window: u64) -> Config {
    Config {
        mss,
        receive_buffer: ReceiveBuffer::plain(Bytes::new(window)),
        initial_ssthresh: window as f64 / f64::from(mss),
        ..Config::new(Profile::Ns2)
    }
}

fn linux(control: &str) -> Config {
    Config { control: ControlKind::by_name(control).expect("its name"), ..Config::new(Profile::Linux) }
}

pub fn bulk(name: &str, from: NodeId, to: NodeId, config: Config, at: Duration, spread: Duration) -> FlowConfig {
    let config = Arc::new(config);
    FlowConfig {
        name: name.to_owned(),
        from,
        to,
        start: Start { at: Instant::ZERO + at, spread },
        stop: None,
        traffic: Traffic::Tcp {
            client: config.clone(),
            server: config,
            application: Application::Bulk { size: None, transfer: Transfer::Upload },
        },
        record: true,
    }
}

pub const fn mbit(n: u64) -> Rate {
    Rate::from_bps(n * 1_000_000)
}

pub const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}
