//! How fast the simulator is.
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use link::LinkConfig;
use sim::{FlowConfig, Network, Settings, Simulation, Start, Stop, Traffic};
use units::{Bytes, Duration, Instant, Rate};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    for (flows, delay_ms) in [(1u64, 1), (1, 100), (30, 250), (1000, 250), (1000, 1), (10_000, 1), (10_000, 250)] {
        if args.len() > 3 && args[1..3] != [flows.to_string(), delay_ms.to_string()] {
            continue;
        }
        let mut network = Network::new();
        let nodes: Vec<_> = (0..4).map(|i| network.add_node(&format!("n{i}")).expect("new")).collect();
        for i in 0..3 {
            let config = LinkConfig::new(Rate::from_bps(10_000_000_000), Duration::from_millis(delay_ms));
            network.add_link(&format!("l{i}"), nodes[i], nodes[i + 1], config.clone(), config).expect("valid");
        }
        let flows = (0..flows).map(|i| FlowConfig {
            name: format!("f{i}"),
            from: nodes[0],
            to: nodes[3],
            start: Start { at: Instant::ZERO, spread: Duration::from_millis(100) },
            stop: None,
            traffic: Traffic::Ping {
                interval: Duration::from_micros(10) * flows,
                packet_size: Bytes::new(1000),
                count: None,
            },
            record: false,
        });
        let stop = Stop { at: Some(Instant::ZERO + Duration::from_secs(20)), when_complete: false };
        let mut simulation =
            Simulation::new(network, flows.collect(), Settings { stop, ..Settings::default() }).expect("valid");
        let start = cpu_s();
        simulation.run();
        let s = cpu_s() - start;
        let report = simulation.report();
        println!(
            "{} flows {delay_ms} ms: {} events {} packets {:.1} ns/event {:.1} ns/packet",
            report.flows.len(),
            report.events,
            report.data_packets,
            s * 1e9 / report.events as f64,
            s * 1e9 / report.data_packets as f64
        );
    }
}

/// The CPU time of this process, in seconds.
fn cpu_s() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("Linux");
    text.split(' ').next().and_then(|nanos| nanos.parse::<f64>().ok()).expect("a number") / 1e9
}
