//! How fast the simulator is: `cargo bench -p sim [-- NAME…]` prints, for each scenario whose name contains one of the
//! NAMEs, the CPU time that it takes, the data packets per second and the nanoseconds for each, and the peak of memory.
//! Each runs in a process of its own, so that the memory is its own, too. With `--peers` it also runs them in ns-2 and ns-3,
//! where those are installed (`peers/run.py`; some minutes), and prints how many times as much user CPU they take.

use link::{LinkConfig, QueueLimit};
use sim::{
    Application, FlowConfig, Network, NodeId, Record, Report, Settings, Simulation, Start, Stop, Traffic, Transfer,
};
use std::sync::Arc;
use tcp::{Config, Profile, ReceiveBuffer};
use units::{Bytes, Duration, Instant, Rate};

/// A simulation to measure.
struct Case {
    name: String,
    /// What `peers/run.py` calls it, if other simulators can run it.
    peer: Option<&'static str>,
    network: Network,
    flows: Vec<FlowConfig>,
    seconds: u64,
    record: Record,
}

fn main() {
    let names: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let with_peers = std::env::args().any(|arg| arg == "--peers");
    println!(
        "{:32} {:>9} {:>9} {:>11} {:>8} {:>8} {:>9}",
        "", "CPU", "packets", "packets/s", "ns each", "events", "memory"
    );
    for case in cases() {
        if names.is_empty() || names.iter().any(|name| case.name.contains(name.as_str())) {
            let peer = case.peer.filter(|_| with_peers);
            let cpu = measure(case);
            if let Some(scenario) = peer {
                compare(scenario, cpu);
            }
        }
    }
}

fn cases() -> Vec<Case> {
    vec![single(), paper002(Record::default()), many(100, 400), many(1000, 40)]
}

/// Runs it and prints what it took; returns the seconds of CPU.
fn measure(case: Case) -> f64 {
    let stop = Stop { at: Some(seconds(case.seconds)), when_complete: false };
    let settings = Settings { stop, record: case.record, ..Settings::default() };
    let mut simulation = Simulation::new(case.network, case.flows, settings).expect("a valid case");
    let start = cpu_s();
    simulation.run();
    let cpu = cpu_s() - start;
    let report = simulation.report();
    let packets = report.data_packets as f64;
    println!(
        "{:32} {:>7.2} s {:>7.2} M {:>9.2} M {:>8.0} {:>8.1} {:>6} MB  {}",
        case.name,
        cpu,
        packets / 1e6,
        packets / cpu / 1e6,
        cpu * 1e9 / packets,
        report.events as f64 / packets,
        peak_kb() / 1000,
        summary(&report),
    );
    cpu
}

/// Runs the scenario in other simulators and prints how much more user CPU they take than `ours`, in seconds.
fn compare(scenario: &str, ours: f64) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/peers/run.py");
    let output = std::process::Command::new(script).arg(scenario).output();
    let output = match output {
        Ok(output) if output.status.success() => output,
        problem => return println!("  no comparison: {script} did not run: {problem:?}"),
    };
    for line in String::from_utf8_lossy(&output.stdout).lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [name, _, packets, user_s, peak_kb] = fields[..] else { continue };
        let (packets, user_s, peak_kb): (f64, f64, u64) = match (packets.parse(), user_s.parse(), peak_kb.parse()) {
            (Ok(packets), Ok(user_s), Ok(peak_kb)) => (packets, user_s, peak_kb),
            _ => continue,
        };
        let name = format!("  {name}: {:.1} times as much", user_s / ours);
        println!("{name:32} {user_s:>7.2} s {:>7.2} M {:>41} MB", packets / 1e6, peak_kb / 1000);
    }
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
}

/// What the case was about, to see that it did what it should.
fn summary(report: &Report) -> String {
    let bytes: u64 = report.flows.iter().map(|flow| flow.bytes).sum();
    let sum = |count: fn(&sim::FlowReport) -> u64| report.flows.iter().map(count).sum::<u64>();
    format!(
        "{:.1} Mbit/s, {} retransmissions, {} timeouts",
        bytes as f64 * 8.0 / report.end_s / 1e6,
        sum(|flow| flow.retransmissions),
        sum(|flow| flow.rtos)
    )
}

/// One flow that fills a geostationary link of 50 Mbit/s for 100 s.
fn single() -> Case {
    let mut network = Network::new();
    let nodes = chain(&mut network, 4);
    let satellite = LinkConfig::new(mbit(50), ms(275));
    let access = LinkConfig::new(mbit(100), ms(1));
    for (i, (name, config)) in [("a", access.clone()), ("satellite", satellite), ("b", access)].into_iter().enumerate()
    {
        network.add_link(name, nodes[i], nodes[i + 1], config.clone(), config).expect("new");
    }
    let window = 3_450_000;
    Case {
        name: "one 50 Mbit/s flow, 100 s".to_owned(),
        peer: Some("single"),
        network,
        flows: vec![bulk("flow", nodes[0], nodes[3], config(1460, window), Duration::ZERO, Duration::ZERO)],
        seconds: 100,
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
    let flow = |i: u64, from, to, at| bulk(&format!("{i}"), from, to, config(960, 20 * 960), at, ms(100));
    let mut flows: Vec<_> = (0..15).map(|i| flow(i, a, s, Duration::ZERO)).collect();
    flows.extend((15..30).map(|i| flow(i, b, t, Duration::from_secs(2000))));
    flows.push(FlowConfig {
        traffic: Traffic::Udp { rate: mbit(1), packet_size: Bytes::new(1000), on_off: None },
        ..flow(30, b, t, Duration::from_secs(4000))
    });
    Case { name: "paper 002, 6000 s".to_owned(), peer: Some("shares"), network, flows, seconds: 6000, record }
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
    let flow = |i| {
        bulk(&format!("{i}"), nodes[0], nodes[3], config(1460, window * 1460), Duration::ZERO, Duration::from_secs(1))
    };
    Case {
        name: format!("{flows} flows over 1 Gbit/s, 60 s"),
        peer: if flows == 100 { Some("flows-100") } else { Some("flows-1000") },
        network,
        flows: (0..flows).map(flow).collect(),
        seconds: 60,
        record: Record::default(),
    }
}

fn chain(network: &mut Network, nodes: usize) -> Vec<NodeId> {
    (0..nodes).map(|i| network.add_node(&format!("node {i}")).expect("new")).collect()
}

/// ns-2's SACK agents, for a comparison of like with like.
fn config(mss: u32, window: u64) -> Config {
    let mut config = Config::new(Profile::Ns2);
    config.mss = mss;
    config.receive_buffer = ReceiveBuffer::plain(Bytes::new(window));
    config.initial_ssthresh = window as f64 / f64::from(mss);
    config
}

fn bulk(name: &str, from: NodeId, to: NodeId, config: Config, at: Duration, spread: Duration) -> FlowConfig {
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

const fn mbit(n: u64) -> Rate {
    Rate::from_bps(n * 1_000_000)
}

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn seconds(n: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(n)
}

/// The CPU time of this process in seconds.
fn cpu_s() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("Linux");
    text.split(' ').next().and_then(|nanos| nanos.parse::<f64>().ok()).expect("a number") / 1e9
}

/// The most memory that this process has used, in kB.
fn peak_kb() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line on peak memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
