//! `bentpipe bench`: experiments whose figures stand in the documentation, each with the claim that it checks.

mod connections;
mod echo;
mod hub;
mod limit;
mod proxies;
mod relay;
mod stalled;
mod throughput;

use super::demo::{family, gateway_options, start_in_private, this_program};
use crate::output::{Failure, Output};
use clap::{Args as ClapArgs, ValueEnum};
use comfy_table::{Table, presets};
use lab::transfer::Checksum;
use lab::{Direction, Experiment, LinkParameters, Workload};
use serde::Serialize;
use serde_json::Value;
use std::fmt::{self, Display};
use std::path::PathBuf;
use units::{Bytes, Duration, Probability, Rate};

const EXAMPLES: &str = "\
Examples:
  bentpipe bench proxies                     the rows in which other proxies were measured, best of them beside ours
  bentpipe bench hub stalled echo           fairness over a shared link, isolation, latency of a new connection
  bentpipe bench throughput --repeats 3     gateways without a satellite: Gbit/s, and processor time for each GB
  bentpipe bench relay                      the same for each satellite transport: the kernel's TCP in clear and in TLS, and satpep
  bentpipe bench relay --pepsal ./pepsal    and beside them PEPsal, wherever you have built it (IPv4)
  bentpipe bench limit --only '1 MB'        the transport's targets, simulated with 50 seeds and for real
  bentpipe bench connections                as many open connections as the machine allows, up to 19,000, then 5,000 new ones a second
  bentpipe bench connections --open 500 --new-per-second 200 --seconds 2    the same, small

Figures are medians. Use a release build on a quiet machine; where it is allowed to (nice), the measurement runs before
other load. Everything happens in private namespaces and ends with the command.";

/// Measure what the documentation claims
#[derive(ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Which experiments, in this order
    #[arg(value_name = "NAME", value_enum, required = true)]
    names: Vec<Name>,
    /// How often each figure is measured
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    repeats: u16,
    /// limit: how many seeds are simulated; 0 for none
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(0..=10_000))]
    simulated: u16,
    /// limit: simulate, and measure nothing for real
    #[arg(long)]
    simulate_only: bool,
    /// limit: simulate without this mechanism, to see what it brings
    #[arg(long, value_name = "MECHANISM")]
    without: Option<limit::Mechanism>,
    /// limit, connections: only the rows whose names contain this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Seed of the first repeat's losses; each further repeat takes the next
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Use IPv6 instead of IPv4
    #[arg(short = '6', long)]
    ipv6: bool,
    /// proxies: measure cubic and bbr from end to end here, too, instead of only quoting them
    #[arg(long)]
    measure_kernel: bool,
    /// throughput: authenticate only, as if encryption were forbidden
    #[arg(long)]
    clear: bool,
    /// relay: beside the transports, measure this PEPsal program in the gateways' place
    #[arg(long, value_name = "FILE", value_parser = relay::program, conflicts_with = "ipv6")]
    pepsal: Option<PathBuf>,
    /// connections: how many are open at once [default: 19000, or as many as the limit on open files lets a gateway have]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    open: Option<u64>,
    /// connections: how many new ones are opened in a second, each closed when it has its answer
    #[arg(long = "new-per-second", value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    per_second: u32,
    /// connections: for so long
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=3_600))]
    seconds: u32,
    /// Show the gateways' logs on stderr
    #[arg(long)]
    gateway_logs: bool,
}

/// An experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    /// The rows in which other proxies were measured
    Proxies,
    /// The transport's targets: shares of the physical limit, simulated and for real
    Limit,
    /// Ten terminals with two streams each over one shared forward link
    Hub,
    /// One reader that has stopped reading beside 100 streams
    Stalled,
    /// One byte and its echo on a new connection over an idle link
    Echo,
    /// A gateway pair without a satellite between
    Throughput,
    /// Both satellite transports side by side, without a satellite between
    Relay,
    /// Thousands of open connections, then thousands of new ones a second
    Connections,
}

/// The result of an experiment.
struct Findings {
    /// What is claimed, in one line.
    claim: &'static str,
    /// For people.
    table: Table,
    /// For programs.
    rows: Value,
}

/// Runs the experiments one after the other and prints their results.
///
/// # Errors
/// If the machine lacks something or a transfer fails or does not verify.
pub fn run(args: &Args, output: &Output) -> Result<(), Failure> {
    start_in_private()?;
    kernel::process::raise_open_files()?;
    let mut report = Report { machine: Machine::this(), repeats: args.repeats, seed: args.seed, benches: Vec::new() };
    for name in &args.names {
        let findings = match name {
            Name::Proxies => proxies::run(args),
            Name::Limit => limit::run(args),
            Name::Hub => hub::run(args),
            Name::Stalled => stalled::run(args),
            Name::Echo => echo::run(args),
            Name::Throughput => throughput::run(args),
            Name::Relay => relay::run(args),
            Name::Connections => connections::run(args),
        }?;
        let name = name.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
        tracing::info!(bench = name, "done");
        report.benches.push(Bench { name, claim: findings.claim, rows: findings.rows, table: findings.table });
    }
    output.result(&report, || &report)
}

impl Args {
    /// An experiment over a GEO link with one terminal and one flow that the server sends, to be adapted.
    fn experiment(&self) -> Result<Experiment, Failure> {
        Ok(Experiment {
            link: LinkParameters {
                rate: Rate::from_bps(6_000_000),
                rtt: Duration::from_millis(550),
                loss: loss(1e-3)?,
                reorder: Probability::ZERO,
                duplicate: Probability::ZERO,
                seed: self.seed,
            },
            satellite: None,
            terminals: 1,
            flows: 1,
            workload: Workload {
                direction: Direction::Down,
                size: Bytes::new(1_000_000),
                checksum: Checksum::Xxh3,
                family: family(self.ipv6),
                congestion_control: None,
                send_buffer: None,
                receive_buffer: None,
                timeout: Duration::from_secs(120),
                seed: self.seed,
            },
            program: this_program()?,
            gateways: gateway_options(self.ipv6, self.gateway_logs),
        })
    }

    /// The seeds of the repeats.
    fn seeds(&self) -> impl Iterator<Item = u64> {
        let first = self.seed;
        (0..u64::from(self.repeats)).map(move |repeat| first.wrapping_add(repeat))
    }
}

fn loss(probability: f64) -> Result<Probability, Failure> {
    Probability::new(probability).map_err(Failure::failed)
}

/// The median of figures of which there is at least one.
fn median(figures: &[f64]) -> f64 {
    lab::measure::median(figures).unwrap_or(f64::NAN)
}

/// Rows as JSON.
fn json(rows: &impl Serialize) -> Result<Value, Failure> {
    serde_json::to_value(rows).map_err(|error| Failure::failed(format!("the result as JSON: {error}")))
}

/// An empty table with a header.
fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN).set_header(header);
    table
}

/// All that was measured, and on what.
#[derive(Serialize)]
struct Report {
    machine: Machine,
    repeats: u16,
    seed: u64,
    benches: Vec<Bench>,
}

#[derive(Serialize)]
struct Bench {
    name: String,
    claim: &'static str,
    rows: Value,
    #[serde(skip)]
    table: Table,
}

#[derive(Serialize)]
struct Machine {
    kernel: String,
    processors: usize,
    build: &'static str,
    version: &'static str,
}

impl Machine {
    fn this() -> Self {
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
        Self {
            kernel,
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            build: if cfg!(debug_assertions) { "debug" } else { "release" },
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { kernel, processors, build, version } = &self.machine;
        writeln!(
            f,
            "bentpipe {version} ({build} build), Linux {kernel}, {processors} processors; medians of {}, seeds from {}",
            self.repeats, self.seed
        )?;
        for bench in &self.benches {
            writeln!(f, "\n{}: {}\n\n{}", bench.name, bench.claim, bench.table)?;
        }
        Ok(())
    }
}
