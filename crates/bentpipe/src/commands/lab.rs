//! `bentpipe lab`: runs a scenario file for real, or random links for real and simulated.

mod compare;

use super::simulate::scenario_name;
use crate::named_files;
use crate::output::{Failure, Output};
use ::lab::scenario::{MeasuredFlow, MeasuredRun, RealScenario};
use clap::Args as ClapArgs;
use replicas::Interrupt;
use results::listing::{Listing, count, figure, text};
use scenario::Scenario;
use serde::Serialize;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;
use units::Quantity;

const LONG_ABOUT: &str = "\
Runs a scenario file with the kernel's TCP over an emulated link, in real time, in private network namespaces that are
removed afterwards. The congestion controls are those of this kernel (reno, cubic, bbr) and, for root, those that
bentpipe loads into it (hybla, westwood-plus, vegas, tibet, cross-layer). The link is that of the simulator, packet
for packet, with the same drop lists and random losses. Variants and seeds run one after the other.

A lab scenario is a chain: one link with a rate, a delay or losses, while the other links are plain veth pairs; and
flows of one file each (`bulk`), or unlimited uploads until `stop.time`, over TCP across that link, with `sack` or
`rack` recovery. Several links may meet at one node if they share a carrier there (`dama`); with `record.capacity` the
JSON document has the capacity that each terminal requested, received and used. Gateways may be at the two ends of the
only link, with `transport = \"tcp\"`. Initial windows and segment sizes are set on the route, buffers on the socket.
After Ctrl-C, the run that has begun is finished, and the results so far are printed; a second one ends at once.
Needs root, or unprivileged user namespaces.

With --compare there is no scenario: files are transferred over N random links (2 to 40 Mbit/s, 40 to 550 ms, short
and long queues, with and without losses) by the kernel's TCP and by the simulator's, with seven congestion controls
in turn, and the links whose times differ are listed. The simulator runs each link nine times, with random host delays
of up to 0.1 ms, and the median counts. After Ctrl-C, links that have begun are finished, and the results so far are
printed.";

const EXAMPLES: &str = "\
Examples:
  bentpipe lab scenarios/geo-bulk.toml --variants cubic,bbr
  bentpipe lab scenarios/papers/kim/lab.toml --variants split-hybla,cross-layer
  bentpipe lab scenarios/geo-bulk.toml --variants cubic --set link.sat.loss=0 --set flow.file.bulk.size=2MB --json
  bentpipe lab --compare 100            # 100 random links
  bentpipe lab --compare 1 --seed 17    # only the link of seed 17
  bentpipe lab --compare 500 --keep far --json

Exit code with --compare: 1 if fewer than 95 in 100 links are within 5 %, or one is beyond 15 %.";

/// Run a scenario file with the kernel's TCP over the emulated link
#[derive(ClapArgs)]
#[command(long_about = LONG_ABOUT, after_help = EXAMPLES)]
pub struct Args {
    /// The scenario (TOML)
    #[arg(required_unless_present = "compare", conflicts_with = "compare")]
    file: Option<PathBuf>,
    /// Run only these variants of the scenario [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    variants: Option<Vec<String>>,
    /// Replace a setting of the scenario; links, flows and gateways are named in the key, as in link.sat.loss=1e-3
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Instead of a scenario, compare the kernel with the simulator over N random links
    #[arg(long, value_name = "N", conflicts_with_all = ["variants", "set"], value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    compare: Option<u64>,
    /// With --compare, the seed of the first link; each further link takes the next seed
    #[arg(long, value_name = "N", conflicts_with = "file", default_value_t = 1, value_parser = clap::value_parser!(u64).range(..1 << 32))]
    seed: u64,
    /// With --compare, the number of links side by side [default: 2 for each processor]
    #[arg(long, value_name = "N", conflicts_with = "file", value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: Option<u16>,
    /// With --compare, write the scenario and the results of each link that deviates below this directory
    #[arg(long, value_name = "DIR", conflicts_with = "file")]
    keep: Option<PathBuf>,
}

/// The JSON document, with the names of `bentpipe simulate`.
#[derive(Serialize)]
struct Document {
    scenario: String,
    measured: bool,
    runs: Vec<MeasuredRun>,
    wall_s: f64,
}

/// Runs every variant with every seed.
///
/// # Errors
/// If the file or what it asks for is wrong (2), a privilege is missing (3), or a flow fails (1).
pub fn run(args: &Args, output: &Output) -> Result<(), Failure> {
    if let Some(links) = args.compare {
        let request = compare::Request { links, seed: args.seed, jobs: args.jobs, keep: args.keep.as_deref() };
        return compare::run(&request, output);
    }
    let file = args.file.as_deref().unwrap_or(Path::new(""));
    let name = file.display().to_string();
    let text = named_files::read(file)?;
    let experiment = scenario::load(&text, &name, &args.set, &named_files::beside(file)).map_err(Failure::usage)?;
    let called = scenario_name(&experiment, file);
    let mut scenarios = experiment.scenarios;
    for wanted in args.variants.iter().flatten() {
        if !scenarios.iter().any(|scenario| scenario.variant.as_ref() == Some(wanted)) {
            return Err(Failure::usage(format!("--variants: {name} has no variant {wanted}")));
        }
    }
    scenarios.retain(|scenario| match (&args.variants, &scenario.variant) {
        (Some(wanted), Some(variant)) => wanted.contains(variant),
        _ => true,
    });
    // Everything is checked before anything runs.
    let mut prepared = Vec::new();
    for scenario in scenarios {
        let real = RealScenario::new(&scenario).map_err(|error| match &scenario.variant {
            Some(variant) => Failure::from(error).preceded_by(format!("{name}: variant {variant}")),
            None => Failure::from(error).preceded_by(&name),
        })?;
        prepared.push((scenario, real));
    }
    kernel::namespace::enter_private()?;
    let start = Instant::now();
    let (runs, end) = measure(prepared)?;
    let document = Document { scenario: called, measured: true, runs, wall_s: start.elapsed().as_secs_f64() };
    if !document.runs.is_empty() {
        output.result(&document, |columns| table(&document).render(columns))?;
    }
    end?;
    let is_wrong = |flow: &&MeasuredFlow| !flow.complete && !flow.is_cut_off;
    match document.runs.iter().flat_map(|run| &run.flows).find(is_wrong) {
        Some(flow) => Err(Failure::failed(format!("flow `{}`: what arrived is not what was sent", flow.name))),
        None => Ok(()),
    }
}

/// What to say after the first Ctrl-C.
const STOPPING: &str = "bentpipe: stopping after the current runs; Ctrl-C again stops at once";

/// What packets mean that the emulator dropped itself.
const NOT_THE_LINKS: &str = "the emulator dropped packets that the link would not: the results are not the link's (an idle machine, or a lower rate, helps)";

/// Says what happens after the first Ctrl-C, where stderr can be written.
fn say_stopping() {
    let _ = writeln!(std::io::stderr(), "{STOPPING}");
}

/// Runs one scenario after the other, until one fails or the user interrupts: that, and the runs that were finished.
fn measure(prepared: Vec<(Scenario, RealScenario)>) -> Result<(Vec<MeasuredRun>, Result<(), Failure>), Failure> {
    let interrupt = Interrupt::on_signals()?;
    interrupt.when_set(say_stopping);
    let count: usize = prepared.iter().map(|(scenario, _)| scenario.seeds.clone().count()).sum();
    let mut runs = Vec::new();
    for (scenario, real) in prepared {
        for seed in scenario.seeds {
            if interrupt.is_set() {
                let finished = runs.len();
                return Ok((
                    runs,
                    Err(Failure::failed(format!("interrupted: {finished} of {count} runs were finished"))),
                ));
            }
            tracing::info!("{} with seed {seed}", scenario.variant.as_deref().unwrap_or("the scenario"));
            match real.run(scenario.variant.clone(), seed) {
                Ok(run) => {
                    warn(&run);
                    runs.push(run);
                }
                Err(error) => return Ok((runs, Err(error.into()))),
            }
        }
    }
    Ok((runs, Ok(())))
}

/// Warns of flows that have not ended, and of packets that the emulator dropped though the link would not.
fn warn(run: &MeasuredRun) {
    for flow in run.flows.iter().filter(|flow| flow.is_cut_off) {
        tracing::warn!(flow = flow.name, bytes = flow.bytes, "the flow was cut off at `stop.time`: it is not complete");
    }
    for link in &run.links {
        for (reason, packets) in link.emulator_drops() {
            tracing::warn!(from = link.from, to = link.to, reason, packets, "{NOT_THE_LINKS}");
        }
    }
}

fn table(document: &Document) -> Listing {
    let figures = [figure("goodput", Quantity::Rate), figure("time", Quantity::Time), count("retransmitted")];
    let columns = [text("variant"), text("seed"), text("flow")];
    let mut listing = Listing::new(columns.into_iter().chain(figures));
    for run in &document.runs {
        for flow in &run.flows {
            listing.add([
                run.variant.clone().into(),
                run.seed.into(),
                flow.name.as_str().into(),
                flow.goodput_bps.into(),
                (!flow.is_cut_off).then_some(flow.end_s - flow.start_s).into(),
                u64::from(flow.retransmissions).into(),
            ]);
        }
    }
    listing
}
