//! QUIC beside quinn: the same files over the same link with the same drop lists. quinn's times were measured over the emulator, which runs
//! the simulator's own link: see `data/quinn`.

use link::{LinkConfig, LossModel, QueueLimit};
use quic::Config;
use sim::{Application, FlowConfig, FlowReport, Network, Settings, Simulation, Start, Traffic, Transfer};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tcp::ControlKind;
use testkit::table;
use units::{Bytes, Duration, Rate};

/// The transfer of `quic.py`, with these packets lost on the client's way.
fn transfer(control: &str, drops: Vec<u64>) -> FlowReport {
    let mut network = Network::new();
    let [client, server] = ["client", "server"].map(|name| network.add_node(name).expect("new"));
    let (rate, rtt) = (Rate::from_bps(10_000_000), Duration::from_millis(100));
    let queue = QueueLimit::bandwidth_delay_product(rate, rtt);
    let back = LinkConfig { queue, ..LinkConfig::new(rate, rtt / 2) };
    let there = LinkConfig { loss: LossModel::DropList(drops), stream: 1, ..back.clone() };
    network.add_link("link", client, server, there, back).expect("valid");
    let config = Arc::new(Config { control: ControlKind::by_name(control).expect("known"), ..Config::default() });
    let flow = FlowConfig {
        name: "file".to_owned(),
        from: client,
        to: server,
        start: Start::default(),
        stop: None,
        traffic: Traffic::Quic {
            ends: config,
            application: Application::Bulk { size: Some(Bytes::new(5_000_000)), transfer: Transfer::Upload },
        },
        record: true,
    };
    let mut simulation = Simulation::new(network, vec![flow], Settings::default()).expect("valid");
    simulation.run();
    simulation.report().flows[0].clone()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn transfers_take_about_as_long_as_with_quinn() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/quinn/transfers.csv");
    // Times and lost packets, ours and quinn's.
    let mut cases: BTreeMap<[String; 2], [Vec<f64>; 4]> = BTreeMap::new();
    for row in table::rows(&path) {
        let number = |name: &str| row[name].parse::<f64>().expect("a number");
        let drops = row["drops"].split_whitespace().map(|drop| drop.parse().expect("a number")).collect();
        let control = &row["control"];
        let flow = transfer(if control == "newreno" { "reno" } else { control }, drops);
        assert!(flow.complete, "{flow:?}");
        let time = flow.end_s.expect("ended") - flow.start_s.expect("started");
        let figures = [time, number("time_s"), flow.retransmissions as f64, number("lost")];
        let case = cases.entry([control.clone(), row["loss"].clone()]).or_default();
        case.iter_mut().zip(figures).for_each(|(all, figure)| all.push(figure));
    }
    for (case, figures) in cases {
        let [ours, theirs, again, lost] = figures.map(median);
        println!("| {} | {} | {ours:.2} | {theirs:.2} | {again:.0} | {lost:.0} |", case[0], case[1]);
        assert!((ours / theirs - 1.0).abs() < 0.15, "{case:?}: {ours:.2} s, quinn {theirs:.2} s");
    }
}
