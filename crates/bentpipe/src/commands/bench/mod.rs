//! `bentpipe bench`: experiments whose figures stand in the documentation, each with the claim that it checks.

mod plot;
mod program;
mod tables;
mod without;

use super::private_lab::{gateway_options, start_in_private, this_program};
use crate::destination::PictureArg;
use crate::named_files::open_directory;
use crate::output::{Failure, Output};
use crate::text::Text;
use clap::{Args as ClapArgs, ValueEnum};
use experiments::{Setup, capacity, connections, cost, echo, hub, limit, proxies, relay, stalled, throughput};
use kernel::directory::OpenDirectory;
use replicas::{Interrupt, Jobs, Pool};
use results::listing::Listing;
use serde::Serialize;
use serde_json::Value;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use without::WithoutArg;

const EXAMPLES: &str = "\
Examples:
  bentpipe bench proxies                    # transfers for which results of other proxies are published, beside these
  bentpipe bench hub stalled echo           # fairness over a shared link, isolation, latency of a new connection
  bentpipe bench throughput --repeats 3     # directly connected gateways: Gbit/s, and processor time for each GB
  bentpipe bench relay                      # the same for each transport: tcp in clear and with TLS, and satpep
  bentpipe bench relay --pepsal ./pepsal    # also for a PEPsal binary (IPv4)
  bentpipe bench limit --only '1 MB'        # shares of the physical limit, simulated with 50 seeds and measured
  bentpipe bench capacity --cases 'prior' --seeds 10    # the capacity's estimate, simulated on all processors
  bentpipe bench capacity --without trains              # the same without a part of the estimator
  bentpipe bench capacity --without estimation          # the same with the configured rate by force
  bentpipe bench capacity --cases outage --seeds 1 --plot out    # estimate, truth and queue over time
  bentpipe bench capacity --cases 'prior x 2' --real --repeats 3    # also by gateways over the emulated link
  bentpipe bench connections                # up to 19,000 open connections, then 5,000 new ones a second
  bentpipe bench cost --only 200Mbit/s      # processor time of each gateway, paced at 200 Mbit/s
  bentpipe bench cost --beside ./bentpipe   # the same for another build of the program, in turns with this one
  bentpipe bench connections --open 500 --new-per-second 200 --seconds 2    # the same, smaller

Figures are medians. Use a release build on an idle machine; if permitted (nice), the measurement has priority over
other processes. It runs in private namespaces, which end with the command.";

/// Measure the figures of the documentation
#[derive(ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Experiments to run, in this order
    #[arg(value_name = "NAME", value_enum, required = true)]
    names: Vec<Name>,
    /// Number of measurements of each figure
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    repeats: u16,
    /// capacity, limit: number of seeds to simulate; 0 for none (limit)
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(0..=10_000))]
    seeds: u16,
    /// capacity: number of simulations side by side [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = crate::jobs::parse)]
    jobs: Option<NonZeroUsize>,
    /// limit: simulate only, without measurements
    #[arg(long)]
    simulate_only: bool,
    /// capacity, limit: simulate without this mechanism, to show its contribution
    #[arg(long, value_name = "MECHANISM")]
    without: Option<WithoutArg>,
    /// capacity: also measure gateways over the emulated link, where a case allows that; medians of --repeats runs
    #[arg(long, conflicts_with = "without")]
    real: bool,
    /// capacity: draw the estimate, the link's rate and the queue of the first seed into this directory, a file for each row
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
    /// Format of pictures
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t, requires = "plot")]
    pictures: PictureArg,
    /// capacity, limit, connections, cost: only rows whose names contain this text
    #[arg(long, visible_alias = "cases", value_name = "TEXT", default_value = "")]
    only: String,
    /// Seed of the first repeat's losses; each further repeat takes the next
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Use IPv6 instead of IPv4
    #[arg(short = '6', long)]
    ipv6: bool,
    /// proxies: also measure cubic and bbr end to end, instead of quoting published figures
    #[arg(long)]
    measure_kernel: bool,
    /// throughput: mode clear: authenticate without encryption
    #[arg(long)]
    clear: bool,
    /// relay, cost: also measure this PEPsal binary in place of the gateways
    #[arg(long, value_name = "FILE", value_parser = program::executable, conflicts_with = "ipv6")]
    pepsal: Option<PathBuf>,
    /// cost: also measure the gateways of this build of bentpipe, in turns
    #[arg(long, value_name = "FILE", value_parser = program::executable)]
    beside: Option<PathBuf>,
    /// connections: number open at once [default: 19000, or fewer if the limit on open files requires it]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    open: Option<u64>,
    /// connections: number opened per second, each closed after its answer
    #[arg(long = "new-per-second", value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    per_second: u32,
    /// connections: seconds for which new ones are opened
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=3_600))]
    seconds: u32,
    /// Show the gateways' logs on stderr
    #[arg(long)]
    gateway_logs: bool,
}

/// An experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    /// Transfers for which results of other proxies are published
    Proxies,
    /// The transport's shares of the physical limit, simulated and measured
    Limit,
    /// Ten terminals with two streams each over one shared forward link
    Hub,
    /// One reader that stops, beside 100 streams
    Stalled,
    /// One byte and its echo on a new connection over an idle link
    Echo,
    /// Two directly connected gateways
    Throughput,
    /// Both satellite transports, between directly connected gateways
    Relay,
    /// The estimate of the link's capacity, from right, wrong and no priors, over links that change
    Capacity,
    /// Thousands of open connections, then thousands of new ones a second
    Connections,
    /// Processor time and memory of a gateway pair: directly connected, paced, and in connections
    Cost,
}

/// Runs the experiments one after the other and prints their results.
///
/// # Errors
/// If the machine lacks something or a transfer fails or does not verify.
pub fn run(args: &Args, output: &Output) -> Result<(), Failure> {
    let draws = args.plot.as_deref().filter(|_| args.names.contains(&Name::Capacity));
    // The private file system would hide a directory below it.
    let plot = draws.map(|directory| open_directory("--plot", directory)).transpose()?;
    // Simulations need no namespaces.
    if args.names.iter().any(|name| *name != Name::Capacity || args.real) {
        start_in_private()?;
    }
    kernel::process::raise_open_files()?;
    let setup = args.setup()?;
    let mut report = Report {
        machine: Machine::this(),
        repeats: args.repeats,
        seed: args.seed,
        benches: Vec::new(),
        rows: Vec::new(),
    };
    for name in &args.names {
        let bench = name.run(args, &setup, plot.as_ref(), output)?;
        report.benches.push(Bench { without: args.without.map(WithoutArg::name), ..bench });
        tracing::info!(bench = name.text(), "done");
    }
    report.rows = report.benches.iter().filter_map(|bench| bench.rows.as_array()).flatten().cloned().collect();
    output.result(&report, |columns| report.text(columns))
}

impl Name {
    fn text(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    fn run(self, args: &Args, setup: &Setup, plot: Option<&OpenDirectory>, output: &Output) -> Result<Bench, Failure> {
        match self {
            Name::Proxies => self.bench(proxies::CLAIM, &proxies::run(setup, args.measure_kernel)?, tables::proxies),
            Name::Limit => self.bench(limit::CLAIM, &args.limit(setup)?, tables::limit),
            Name::Hub => self.bench(hub::CLAIM, &[hub::run(setup)?], tables::hub),
            Name::Stalled => self.bench(stalled::CLAIM, &[stalled::run(setup)?], tables::stalled),
            Name::Echo => self.bench(echo::CLAIM, &echo::run(setup)?, tables::echo),
            Name::Throughput => {
                let mut setup = setup.clone();
                setup.gateways.clear = args.clear;
                let claim = if args.clear { "authenticated only" } else { throughput::CLAIM };
                self.bench(claim, &throughput::run(&setup)?, tables::throughput)
            }
            Name::Relay => self.bench(relay::CLAIM, &relay::run(setup, args.pepsal.as_deref())?, tables::relay),
            Name::Capacity => self.bench(capacity::CLAIM, &args.capacity(setup, plot, output)?, tables::capacity),
            Name::Connections => self.bench(connections::CLAIM, &args.connections(setup)?, tables::connections),
            Name::Cost => self.bench(cost::CLAIM, &args.cost(setup)?, tables::cost),
        }
    }

    /// The rows for people and for programs.
    fn bench<R: Serialize>(
        self,
        claim: &'static str,
        rows: &[R],
        table: impl Fn(&[R]) -> Listing,
    ) -> Result<Bench, Failure> {
        let json = serde_json::to_value(rows);
        let json = json.map_err(|error| Failure::failed(format!("the result as JSON: {error}")))?;
        Ok(Bench { name: self.text(), claim, rows: json, table: table(rows), without: None })
    }
}

impl Args {
    fn setup(&self) -> Result<Setup, Failure> {
        let gateways = gateway_options(self.ipv6, self.gateway_logs);
        Ok(Setup { program: this_program()?, gateways, repeats: self.repeats, seed: self.seed })
    }

    fn limit(&self, setup: &Setup) -> Result<Vec<limit::Row>, Failure> {
        if self.without.is_some() && !self.simulate_only {
            return Err(Failure::usage("--without needs --simulate-only: gateways run with all of the transport"));
        }
        if self.simulate_only && self.seeds == 0 {
            return Err(Failure::usage("--simulate-only --seeds 0: nothing is measured; give at least one seed"));
        }
        self.check_only(limit::names())?;
        let without = self.without.map(WithoutArg::of_limit).transpose()?;
        let (simulated, real) = (self.seeds, !self.simulate_only);
        Ok(limit::run(setup, &limit::Runs { simulated, real, without }, &self.only)?)
    }

    fn capacity(
        &self,
        setup: &Setup,
        plot: Option<&OpenDirectory>,
        output: &Output,
    ) -> Result<Vec<capacity::Row>, Failure> {
        let without = self.without.map(WithoutArg::of_capacity).transpose()?;
        if self.seeds == 0 {
            return Err(Failure::usage("--seeds 0: capacity simulates at least one"));
        }
        let names: Vec<_> = capacity::names().collect();
        self.check_only(names.iter().map(String::as_str))?;
        let jobs = crate::jobs::or_processors(self.jobs);
        let interrupt = Interrupt::default();
        let pool = Pool { jobs: Jobs::new(jobs), interrupt, shows_progress: output.shows_progress(), huge_pages: true };
        let runs = capacity::Runs { seeds: self.seeds, without, real: self.real };
        let rows = capacity::run(setup, &runs, &self.only, &pool)?;
        if let Some(directory) = plot {
            let traces = capacity::traces(setup, &runs, &self.only)?;
            let files = plot::write(directory, &traces, self.pictures.into())?;
            output.wrote(&files.iter().map(PathBuf::as_path).collect::<Vec<_>>());
        }
        Ok(rows)
    }

    fn connections(&self, setup: &Setup) -> Result<Vec<connections::Row>, Failure> {
        self.check_only(connections::names())?;
        let load = connections::Load { open: self.open, per_second: self.per_second, seconds: self.seconds };
        let rows = connections::run(setup, &load, &self.only)?;
        match rows.iter().all(connections::Row::is_complete) {
            true => Ok(rows),
            false => {
                let table = tables::connections(&rows).render(None);
                Err(Failure::failed(format!("not every connection was relayed and answered\n{table}")))
            }
        }
    }

    fn cost(&self, setup: &Setup) -> Result<Vec<cost::Row>, Failure> {
        self.check_only(cost::names().iter().map(String::as_str))?;
        let beside = cost::Beside { other: self.beside.clone(), pepsal: self.pepsal.clone() };
        Ok(cost::run(setup, &beside, &self.only)?)
    }

    /// Refuses `--only` if it selects none of these rows.
    fn check_only<'n>(&self, names: impl Iterator<Item = &'n str>) -> Result<(), Failure> {
        let names: Vec<_> = names.collect();
        match names.iter().any(|name| name.contains(&self.only)) {
            true => Ok(()),
            false => {
                let names = names.join("; ");
                Err(Failure::usage(format!("--only {:?} names no row; there are: {names}", self.only)))
            }
        }
    }
}

/// All that was measured, and on what.
#[derive(Serialize)]
struct Report {
    machine: Machine,
    repeats: u16,
    seed: u64,
    benches: Vec<Bench>,
    /// Those of all benches, one after the other.
    rows: Vec<Value>,
}

#[derive(Serialize)]
struct Bench {
    name: String,
    claim: &'static str,
    rows: Value,
    #[serde(skip)]
    table: Listing,
    /// What the simulations lacked; rows say so, too.
    #[serde(skip)]
    without: Option<&'static str>,
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

impl Report {
    /// For people.
    fn text(&self, columns: Option<usize>) -> Text {
        let Machine { kernel, processors, build, version } = &self.machine;
        let mut text = Text::new(columns);
        text.lines(format!(
            "bentpipe {version} ({build} build), Linux {kernel}, {processors} processors; medians of {}, seeds from {}",
            self.repeats, self.seed
        ));
        for bench in &self.benches {
            let without = bench.without.map_or_else(String::new, |name| format!(", without {name}"));
            text.blank().lines(format!("{}{without}: {}", bench.name, bench.claim)).blank().listing(&bench.table);
        }
        text
    }
}
