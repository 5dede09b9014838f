//! What a simulated pair of gateways costs: `cargo bench -p bentpipe-sim --bench gateways [-- ROW SECONDS]`, of which ROW counts from 0
//! and is then the only one, run for so long. Packets with data are counted once for each connection or session that carries them:
//! client to gateway, gateway to gateway, gateway to server.

use link::{LinkConfig, LossModel, QueueLimit};
use sim::{
    Application, FlowConfig, GatewayConfig, Network, SatpepSettings, Settings, Simulation, Start, Stop, Traffic,
    Transfer, Transport,
};
use std::sync::Arc;
use units::{Bytes, Duration, Instant, Probability, Rate};

/// `flows` files without end, from one client to one server, for `seconds`.
fn simulation(mbit: u64, rtt: Duration, loss: f64, flows: usize, seconds: u64) -> Simulation {
    let mut network = Network::new();
    let nodes = ["client", "near", "far", "server"].map(|name| network.add_node(name).expect("new"));
    let rate = Rate::from_bps(mbit * 1_000_000);
    let lan =
        LinkConfig { queue: QueueLimit::Unlimited, ..LinkConfig::new(rate.mul_f64(4.0), Duration::from_millis(1)) };
    let satellite = |stream| LinkConfig {
        loss: LossModel::Bernoulli(Probability::new(loss).expect("probability")),
        stream,
        ..LinkConfig::new(rate, rtt / 2)
    };
    network.add_link("left", nodes[0], nodes[1], lan.clone(), lan.clone()).expect("valid");
    network.add_link("satellite", nodes[1], nodes[2], satellite(1), satellite(2)).expect("valid");
    network.add_link("right", nodes[2], nodes[3], lan.clone(), lan).expect("valid");
    let host = Arc::new(tcp::Config {
        receive_buffer: tcp::ReceiveBuffer::plain(Bytes::new(4 << 20)),
        ..tcp::Config::new(tcp::Profile::Linux)
    });
    let flow = |number: usize| FlowConfig {
        name: format!("flow {number}"),
        from: nodes[0],
        to: nodes[3],
        start: Start { at: Instant::ZERO, spread: Duration::from_secs(1) },
        stop: None,
        traffic: Traffic::Tcp {
            client: host.clone(),
            server: host.clone(),
            application: Application::Bulk { size: None, transfer: Transfer::Upload },
        },
        record: false,
    };
    let pair = GatewayConfig::new("pep", [nodes[1], nodes[2]], Transport::Satpep(SatpepSettings::default()));
    let stop = Stop { at: Some(Instant::from_nanos(seconds * 1_000_000_000)), when_complete: false };
    let flows = (0..flows).map(flow).collect();
    Simulation::with_gateways(network, flows, vec![pair], Settings { stop, ..Settings::default() }).expect("valid")
}

/// What this thread has used of a processor.
fn processor_seconds() -> f64 {
    let used = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    used.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).expect("nanoseconds") / 1e9
}

fn main() {
    println!("flows  Mbit/s  loss   goodput  datagrams  CPU s  data packets/s  datagrams/s");
    let geo = Duration::from_millis(550);
    let numbers: Vec<usize> = std::env::args().filter_map(|arg| arg.parse().ok()).collect();
    let rows = [
        (1, 50, geo, 0.0, 100),
        (1, 50, geo, 1e-3, 100),
        (1, 50, geo, 1e-2, 100),
        (100, 1000, Duration::from_millis(250), 1e-3, 20),
        (1000, 1000, Duration::from_millis(250), 1e-3, 20),
        (1000, 1000, geo, 0.0, 20),
    ];
    for (row, (flows, mbit, rtt, loss, seconds)) in rows.into_iter().enumerate() {
        if numbers.first().is_some_and(|number| *number != row) {
            continue;
        }
        let seconds = numbers.get(1).map_or(seconds, |seconds| *seconds as u64);
        let mut simulation = simulation(mbit, rtt, loss, flows, seconds);
        let start = processor_seconds();
        simulation.run();
        let used = processor_seconds() - start;
        let report = simulation.report();
        let bytes: u64 = report.flows.iter().map(|flow| flow.bytes).sum();
        let share = bytes as f64 * 8.0 / (seconds * mbit * 1_000_000) as f64;
        let datagrams = report.gateways[0].sessions[0].sent_packets as f64;
        let packets = report.data_packets as f64 / used;
        println!(
            "{flows:>5}  {mbit:>6}  {loss:<5}  {share:>7.3}  {datagrams:>9}  {used:>5.2}  {packets:>14.0}  {:>11.0}",
            datagrams / used
        );
    }
}
