//! `bentpipe simulate`: runs a scenario file in virtual time, with every variant and seed, on all processors.

mod page;
mod replicas;
mod report;
mod sweep;

use super::shell::quoted;
use crate::destination::PictureArg;
use crate::named_files;
use crate::output::{Failure, Output};
use ::replicas::Replica;
use clap::{Args as ClapArgs, ValueEnum};
use page::Page;
use replicas::{Outcome, Traces};
use report::Document;
use scenario::{Experiment, Faults, Scenario};
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

const LONG_ABOUT: &str = "\
Simulates a scenario file: links, flows over them, and what is recorded (docs/scenarios.md).

Every variant of the file runs with every seed, each run on its own thread. The same scenario and seed give the same
results, byte for byte, for any number of threads. A run ends as its scenario says; a run that reaches a limit of its
scenario is reported, with exit code 1. An interrupt (Ctrl-C) keeps the finished runs.

With --out, the tables flows, links, samples, queues and capacity are written to files, the traces of each variant's
first run to pictures, and, if the scenario records packets, the packets of each run and node to pcapng files. Several
variants or seeds are compared in two more pictures: means over time in their 95 % confidence, and distributions as CDF
and boxes.

With --sweep, the scenario runs with each combination of the settings' values. --out then receives one table, one
picture of goodput with bands of 95 % confidence, and the results of each run: the same command begun again makes only
the runs that are missing there.";

const EXAMPLES: &str = "\
Examples:
  bentpipe simulate scenarios/geo-bulk.toml                          # each variant once
  bentpipe simulate scenarios/geo-bulk.toml --seeds 20 --json        # 20 seeds, as one JSON document
  bentpipe simulate scenarios/geo-bulk.toml --set link.sat.loss=1e-3 --set flow.file.bulk.size=10MB
  bentpipe simulate scenarios/fading.toml --variants cubic --out results --format parquet
  bentpipe simulate scenarios/geo-bulk.toml --seeds 20 --out results --pictures pdf
  bentpipe simulate scenarios/geo-bulk.toml --page run.html          # what each variant received against time
  bentpipe simulate scenarios/geo-bulk.toml --sweep link.sat.loss=1e-4,1e-3,1e-2 --seeds 20 --out sweep
  bentpipe simulate --schema > scenario.schema.json                  # for editors that check TOML";

/// Simulate a scenario file: TCP variants and links in virtual time
#[derive(ClapArgs)]
#[command(long_about = LONG_ABOUT, after_help = EXAMPLES)]
pub struct Args {
    /// The scenario (TOML)
    #[arg(required_unless_present = "schema")]
    file: Option<PathBuf>,
    /// Number of seeds, from the scenario's first on, or the seeds A..B, both included [default: as in the scenario]
    #[arg(long, value_name = "N | A..B")]
    seeds: Option<Seeds>,
    /// Run only these variants of the scenario [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    variants: Option<Vec<String>>,
    /// Replace a setting of the scenario; links, flows and gateways are named in the key, as in link.sat.loss=1e-3
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Run with each of these values of a setting; given several times, with each combination
    #[arg(long, value_name = "KEY=VALUE,VALUE", conflicts_with_all = ["page", "schema"])]
    sweep: Vec<sweeps::Axis>,
    /// Number of runs side by side [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = crate::jobs::parse)]
    jobs: Option<NonZeroUsize>,
    /// Write tables, traces and packets to files in this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write a page to this HTML file: bytes received and throughput of each variant's first run against time, and the tables
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Format of tables
    #[arg(long, value_enum, default_value_t = FormatArg::Csv, requires = "out")]
    format: FormatArg,
    /// Format of pictures
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t, requires = "out")]
    pictures: PictureArg,
    /// Check the scenario and run nothing
    #[arg(long)]
    check: bool,
    /// Print the JSON Schema of scenario files
    #[arg(long, conflicts_with_all = ["file", "check"])]
    schema: bool,
}

/// [`results::Format`] on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FormatArg {
    /// Comma-separated values
    Csv,
    /// Apache Parquet
    Parquet,
    /// One JSON object per line
    Jsonl,
}

impl From<FormatArg> for results::Format {
    fn from(format: FormatArg) -> Self {
        match format {
            FormatArg::Csv => Self::Csv,
            FormatArg::Parquet => Self::Parquet,
            FormatArg::Jsonl => Self::JsonLines,
        }
    }
}

/// Which seeds.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Seeds {
    /// So many, from the scenario's first on.
    Count(u64),
    These(RangeInclusive<u64>),
}

/// More runs than anyone waits for.
const MAX_SEEDS: u64 = 1_000_000;

impl FromStr for Seeds {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<u64>().map_err(|_| format!("`{text}` is not a whole number"));
        let seeds = match text.split_once("..") {
            None => Self::Count(number(text)?),
            Some((first, last)) => Self::These(number(first)?..=number(last)?),
        };
        let count = match &seeds {
            Self::Count(count) => *count,
            Self::These(seeds) if seeds.is_empty() => 0,
            Self::These(seeds) => (seeds.end() - seeds.start()).saturating_add(1),
        };
        if (1..=MAX_SEEDS).contains(&count) {
            Ok(seeds)
        } else {
            Err(format!("that is {count} seeds; from 1 to {MAX_SEEDS} can run, such as 20 or 1..20"))
        }
    }
}

impl Seeds {
    fn of(&self, scenario: &Scenario) -> RangeInclusive<u64> {
        let first = *scenario.seeds.start();
        match self {
            Self::Count(count) => first..=first.saturating_add(count - 1),
            Self::These(seeds) => seeds.clone(),
        }
    }
}

/// Runs the scenario and shows what was found.
///
/// # Errors
/// If the scenario or an argument is wrong (2), if results cannot be written, a run reached a limit, or the user
/// interrupted (1).
pub fn run(args: &Args, output: &Output) -> Result<(), Failure> {
    let Some(file) = args.file.as_deref() else {
        let schema = scenario::json_schema();
        return output.result(&schema, |_| serde_json::to_string_pretty(&schema).unwrap_or_default());
    };
    if !args.sweep.is_empty() {
        return sweep::run(args, file, output);
    }
    let mut experiment = ScenarioFile::read(file)?.load(&args.set).map_err(Failure::usage)?;
    let mut scenarios = std::mem::take(&mut experiment.scenarios);
    if args.page.is_some() {
        scenarios.iter_mut().for_each(|scenario| {
            scenario.settings.record.flow_interval.get_or_insert(page::INTERVAL);
        });
    }
    let variants = scenarios.len();
    let replicas = args.replicas(scenarios)?;
    // Before any run: what one variant lacks would otherwise end the others' runs.
    replicas::check(&replicas)?;
    if args.check {
        let runs = replicas.len();
        let checked =
            serde_json::json!({ "scenario": scenario_name(&experiment, file), "variants": variants, "runs": runs });
        return output.result(&checked, |_| format!("{} is sound: {runs} runs", file.display()));
    }
    let traces = args.out.as_deref().map(|out| Traces::create(out, args.format.into(), args.pictures.into()));
    let traces = traces.transpose()?;
    let jobs = args.jobs();
    let mut page = args.page.as_deref().map(Page::create).transpose()?;
    let mut take = page.as_mut().map(|page| |run: &results::Run| page.take(run));
    let watch = take.as_mut().map(|take| take as &mut dyn FnMut(&results::Run));
    let outcome = replicas::run(&replicas, jobs, traces, watch, output)?;
    let document = Document::new(scenario_name(&experiment, file), experiment.about.clone(), &outcome);
    let written = page.filter(|page| !page.is_empty()).map(|page| page.write(&document, args.command(file)));
    if let Some(Ok(())) = &written {
        output.wrote(args.page.as_slice());
    }
    // Though the disk is full.
    output.result(&document, |columns| document.text(columns))?;
    written.transpose()?;
    if let Some(failure) = outcome.unwritten {
        return Err(failure);
    }
    verdict(&outcome, replicas.len(), args.out.is_some())
}

/// What the scenario `experiment` of `file` is called: as it says, or else as the file is.
pub fn scenario_name(experiment: &Experiment, file: &Path) -> String {
    let printable = |letter: char| if letter.is_control() { char::REPLACEMENT_CHARACTER } else { letter };
    let stem =
        || file.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().chars().map(printable).collect());
    experiment.name.clone().unwrap_or_else(stem)
}

/// Reads a file that a scenario names.
type Read<'a> = dyn Fn(&str) -> Result<String, String> + 'a;

/// A scenario's file and those that it names, which lie beside it, each read once: they may be pipes.
struct ScenarioFile<'a> {
    file: &'a Path,
    text: String,
    read: Box<Read<'a>>,
}

impl<'a> ScenarioFile<'a> {
    fn read(file: &'a Path) -> Result<Self, Failure> {
        Ok(Self { file, text: named_files::read(file)?, read: Box::new(named_files::beside(file)) })
    }

    /// The scenario with `overrides`.
    fn load(&self, overrides: &[String]) -> Result<Experiment, Faults> {
        scenario::load(&self.text, &self.file.display().to_string(), overrides, &*self.read)
    }
}

impl Args {
    /// The command, as far as it decides what is found.
    fn command(&self, file: &Path) -> String {
        let mut command = format!("bentpipe simulate {}", quoted(&file.to_string_lossy()));
        if let Some(seeds) = &self.seeds {
            command.push_str(&match seeds {
                Seeds::Count(count) => format!(" --seeds {count}"),
                Seeds::These(seeds) => format!(" --seeds {}..{}", seeds.start(), seeds.end()),
            });
        }
        if let Some(variants) = &self.variants {
            command.push_str(&format!(" --variants {}", quoted(&variants.join(","))));
        }
        self.set.iter().for_each(|set| command.push_str(&format!(" --set {}", quoted(set))));
        for axis in &self.sweep {
            command.push_str(&format!(" --sweep {}", quoted(&format!("{}={}", axis.key, axis.values.join(",")))));
        }
        command
    }

    /// How many runs go on side by side.
    fn jobs(&self) -> usize {
        crate::jobs::or_processors(self.jobs)
    }

    /// Every run, in the order in which results are written.
    fn replicas(&self, scenarios: Vec<Scenario>) -> Result<Vec<Replica>, Failure> {
        let wanted = self.variants.as_ref().map(|names| names.iter().map(String::as_str).collect::<BTreeSet<_>>());
        if let Some(wanted) = &wanted {
            let names: BTreeSet<_> = scenarios.iter().filter_map(|scenario| scenario.variant.as_deref()).collect();
            if let Some(name) = wanted.difference(&names).next() {
                let known = if names.is_empty() { "it has none".to_owned() } else { shown(&names) };
                return Err(Failure::usage(format!("--variants {name}: the scenario has no such variant ({known})")));
            }
        }
        let is_wanted = |scenario: &Scenario| match (&wanted, scenario.variant.as_deref()) {
            (Some(wanted), Some(variant)) => wanted.contains(variant),
            _ => true,
        };
        let mut replicas = Vec::new();
        for scenario in scenarios.into_iter().filter(is_wanted).map(Arc::new) {
            let seeds = self.seeds.as_ref().map_or_else(|| scenario.seeds.clone(), |seeds| seeds.of(&scenario));
            replicas.extend(seeds.map(|seed| Replica { scenario: Arc::clone(&scenario), seed }));
        }
        Ok(replicas)
    }
}

/// Names in a row, as many as can be read.
fn shown(names: &BTreeSet<&str>) -> String {
    const MAX: usize = 24;
    let first = names.iter().take(MAX).copied().collect::<Vec<_>>().join(", ");
    if names.len() > MAX { format!("{first} and {} more", names.len() - MAX) } else { first }
}

/// What to say of an interrupt after `finished` of `runs` runs.
fn interrupted(finished: usize, runs: usize, are_kept: bool) -> Failure {
    let kept = if are_kept && finished > 0 { " and are kept" } else { "" };
    Failure::failed(format!("interrupted: {finished} of {runs} runs were finished{kept}"))
}

/// What to say at the end, if not all is well.
fn verdict(outcome: &Outcome, runs: usize, are_kept: bool) -> Result<(), Failure> {
    let mut problems = Vec::new();
    if outcome.runs.len() < runs {
        problems.push(interrupted(outcome.runs.len(), runs, are_kept).to_string());
    }
    let at_limit = |run: &results::Run| run.report.stopped.limit().map(|limit| (run.label.title(), limit));
    problems.extend(results::at_limits(outcome.runs.iter().filter_map(at_limit)));
    if problems.is_empty() { Ok(()) } else { Err(Failure::failed(problems.join("; "))) }
}

#[cfg(test)]
mod tests {
    use super::super::shell::tests::words;
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn a_shell_reads_the_command_as_it_was_given() {
        let given =
            ["simulate", "a b.toml", "--seeds", "3..5", "--set", "flow.a.x='1 s'", "--sweep", "link.a.loss=0,1e-3"];
        let args = Line::parse_from(given).args;
        assert_eq!(words(&args.command(Path::new("a b.toml")))[1..], given);
    }

    #[test]
    fn seeds_are_a_count_or_a_range() {
        assert_eq!("20".parse(), Ok(Seeds::Count(20)));
        assert_eq!("3..7".parse(), Ok(Seeds::These(3..=7)));
        for wrong in ["0", "7..3", "x", "1..", "0..18446744073709551615"] {
            assert!(wrong.parse::<Seeds>().is_err(), "{wrong}");
        }
    }
}
