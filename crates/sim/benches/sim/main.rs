//! How fast the simulator is: `cargo bench -p bentpipe-sim [-- NAME…]` prints, for each scenario whose name contains one of the
//! NAMEs, the CPU time that it takes, the data packets per second and the nanoseconds for each, and the peak of memory;
//! then, unless NAMEs are given that leave `curves` out, how the cost of a packet depends on flows, packets in flight and
//! losses. Each figure comes from a process of its own. With `--peers` the scenarios also run in ns-2 and ns-3, where
//! those are installed (`peers/run.py`; some minutes): how many times as much user CPU they take is printed.

mod cases;
mod curves;
mod process;

use sim::{FlowConfig, Network, Record, Report, Settings, Simulation, Stop};
use units::{Duration, Instant};

/// A simulation to measure.
struct Case {
    network: Network,
    flows: Vec<FlowConfig>,
    length: Duration,
    record: Record,
}

/// What a process of its own is asked to do: everything it needs to know is in its arguments.
const RUN_CASE: &str = "--run-case";
const RUN_CELL: &str = "--run-cell";

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [RUN_CASE, name] => print_case(name, None),
        [RUN_CASE, name, seconds] => print_case(name, Some(seconds.parse().expect("a number of seconds"))),
        [RUN_CELL, flows, window, loss] => curves::print_cell(flows, window, loss),
        _ => print_all(&args),
    }
}

fn print_all(args: &[String]) {
    let names: Vec<&String> = args.iter().filter(|arg| !arg.starts_with("--")).collect();
    let wanted = |name: &str| names.is_empty() || names.iter().any(|part| name.contains(part.as_str()));
    let with_peers = args.iter().any(|arg| arg == "--peers");
    println!(
        "{:32} {:>9} {:>9} {:>11} {:>8} {:>8} {:>9}",
        "", "CPU", "packets", "packets/s", "ns each", "events", "memory"
    );
    for case in cases::ALL.iter().filter(|case| wanted(case.name)) {
        let line = process::output_of_self(&[RUN_CASE, case.name]);
        print!("{line}");
        if let Some(scenario) = case.peer.filter(|_| with_peers) {
            // The name may have blanks: the first figure follows the column of names.
            let cpu = line.get(32..).and_then(|rest| rest.split_whitespace().next()).and_then(|cpu| cpu.parse().ok());
            compare(scenario, cpu.unwrap_or(f64::NAN));
        }
    }
    if wanted("curves") {
        curves::print();
    }
}

/// Runs a case, or its first seconds, and prints what it took.
fn print_case(name: &str, seconds: Option<u64>) {
    let case = cases::ALL.iter().find(|case| case.name == name).expect("the name of a case");
    let case = (case.new)();
    let length = seconds.map_or(case.length, Duration::from_secs);
    let (report, cpu) = run(Case { length, ..case });
    let packets = report.data_packets as f64;
    println!(
        "{name:32} {cpu:>7.2} s {:>7.2} M {:>9.2} M {:>8.0} {:>8.1} {:>6} MB  {}",
        packets / 1e6,
        packets / cpu / 1e6,
        cpu * 1e9 / packets,
        report.events as f64 / packets,
        process::peak_kb() / 1000,
        summary(&report),
    );
}

/// Runs a case; returns what it found and the CPU time that it took, in seconds.
fn run(case: Case) -> (Report, f64) {
    let stop = Stop { at: Some(Instant::ZERO + case.length), when_complete: false };
    let settings = Settings { stop, record: case.record, ..Settings::default() };
    let mut simulation = Simulation::new(case.network, case.flows, settings).expect("a valid case");
    let start = process::cpu_s();
    simulation.run();
    let cpu = process::cpu_s() - start;
    (simulation.report(), cpu)
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
