//! `bentpipe lab --compare`: random links, the kernel's TCP and the simulator's side by side.

use crate::commands::demo::start_in_private;
use crate::output::{Failure, Output};
use ::lab::Error;
use ::lab::compare::{CONTROLS, Comparison, RandomLink, median};
use comfy_table::{CellAlignment, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use replicas::Interrupt;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Instant;

/// Deviations that are small, and those that are not to be.
const SMALL: f64 = 0.05;
const LARGE: f64 = 0.15;
/// This share of the links is to deviate little.
const GOAL: f64 = 0.95;
/// Links side by side for each processor: more of them disturb each other.
const JOBS_PER_PROCESSOR: usize = 2;

/// What is asked for.
pub struct Request<'a> {
    pub links: u64,
    pub seed: u64,
    pub jobs: Option<u16>,
    pub keep: Option<&'a Path>,
}

/// The JSON document.
#[derive(Serialize)]
struct Document {
    seed: u64,
    /// In the order of their seeds; after an interrupt only those that were done.
    links: Vec<Comparison>,
    /// Links that could not be measured, by their seeds.
    failures: BTreeMap<u64, String>,
    within_5_percent: usize,
    beyond_15_percent: usize,
    median_deviation: Option<f64>,
    worst_deviation: Option<f64>,
    wall_s: f64,
}

/// Compares and prints.
///
/// # Errors
/// If fewer than 95 in 100 links are close, one is far off or fails, or the user interrupts (1), or a privilege is missing (3).
pub fn run(request: &Request<'_>, output: &Output) -> Result<(), Failure> {
    let interrupt = Interrupt::on_signals()?;
    start_in_private()?;
    let start = Instant::now();
    let done = measure(request, &interrupt, output)?;
    let document = Document::new(request.seed, done, start.elapsed().as_secs_f64());
    output.result(&document, || Text(&document))?;
    document.verdict(request.links)
}

fn measure(
    request: &Request<'_>,
    interrupt: &Interrupt,
    output: &Output,
) -> Result<BTreeMap<u64, Result<Comparison, Error>>, Failure> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = request.jobs.map_or(JOBS_PER_PROCESSOR * processors, usize::from);
    let next = AtomicU64::new(0);
    let bar = progress_bar(request.links, output);
    let (sender, receiver) = mpsc::channel();
    let mut done = BTreeMap::new();
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                while !interrupt.is_set() {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let seed = request.seed + number;
                    let link = RandomLink::draw(seed, CONTROLS).filter(|_| number < request.links);
                    let Some(link) = link else { return };
                    if sender.send((seed, Comparison::run(link))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for (seed, outcome) in receiver {
            bar.inc(1);
            match &outcome {
                Ok(comparison) if !comparison.is_within(SMALL) => keep(request.keep, comparison)?,
                Err(Error::Missing(problem)) => {
                    interrupt.set();
                    return Err(Failure::missing(problem));
                }
                _ => {}
            }
            done.insert(seed, outcome);
        }
        bar.finish_and_clear();
        Ok(done)
    })
}

/// Writes what a link that deviates is, for a closer look.
fn keep(directory: Option<&Path>, comparison: &Comparison) -> Result<(), Failure> {
    let Some(directory) = directory else { return Ok(()) };
    let write = |suffix: &str, text: String| {
        let path = directory.join(format!("link-{}.{suffix}", comparison.link.seed));
        std::fs::write(&path, text).map_err(|error| Failure::failed(format!("{}: {error}", path.display())))
    };
    std::fs::create_dir_all(directory).map_err(|error| Failure::failed(format!("{}: {error}", directory.display())))?;
    write("toml", comparison.link.text())?;
    write("json", serde_json::to_string_pretty(comparison).map_err(Failure::failed)?)
}

fn progress_bar(links: u64, output: &Output) -> ProgressBar {
    if !output.shows_progress() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("links  {wide_bar} {pos} of {len}  {elapsed} of about {duration}");
    ProgressBar::new(links).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

impl Document {
    fn new(seed: u64, done: BTreeMap<u64, Result<Comparison, Error>>, wall_s: f64) -> Self {
        let (mut links, mut failures) = (Vec::new(), BTreeMap::new());
        for (seed, outcome) in done {
            match outcome {
                Ok(comparison) => links.push(comparison),
                Err(error) => drop(failures.insert(seed, error.to_string())),
            }
        }
        let deviations: Vec<_> = links.iter().map(|link| link.deviation.map_or(f64::INFINITY, f64::abs)).collect();
        Self {
            seed,
            within_5_percent: links.iter().filter(|link| link.is_within(SMALL)).count(),
            beyond_15_percent: links.iter().filter(|link| !link.is_within(LARGE)).count(),
            median_deviation: median(&deviations),
            worst_deviation: deviations.iter().copied().max_by(f64::total_cmp),
            links,
            failures,
            wall_s,
        }
    }

    fn verdict(&self, asked: u64) -> Result<(), Failure> {
        if let Some((seed, problem)) = self.failures.iter().next() {
            return Err(Failure::failed(format!("the link of seed {seed}: {problem}")));
        }
        if (self.links.len() as u64) < asked {
            return Err(Failure::failed("interrupted before all links were measured"));
        }
        if self.beyond_15_percent > 0 {
            return Err(Failure::failed(format!("{} links deviate by more than 15 %", self.beyond_15_percent)));
        }
        if (self.within_5_percent as f64) < GOAL * self.links.len() as f64 {
            return Err(Failure::failed("fewer than 95 in 100 links are within 5 %"));
        }
        Ok(())
    }
}

/// The document for people: what deviates, and the summary.
struct Text<'a>(&'a Document);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Document { links, within_5_percent, beyond_15_percent, .. } = self.0;
        let far: Vec<_> = links.iter().filter(|link| !link.is_within(SMALL)).collect();
        if !far.is_empty() {
            writeln!(f, "{}\n", table(&far))?;
        }
        let percent =
            |deviation: Option<f64>| deviation.map_or("-".to_owned(), |share| format!("{:.2} %", share * 100.0));
        writeln!(
            f,
            "{} links: {within_5_percent} within 5 %, {beyond_15_percent} beyond 15 %; median {}, worst {}; {:.0} s",
            links.len(),
            percent(self.0.median_deviation),
            percent(self.0.worst_deviation),
            self.0.wall_s,
        )
    }
}

fn table(links: &[&Comparison]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_header([
        "seed",
        "control",
        "rate",
        "RTT",
        "queue",
        "loss",
        "size",
        "kernel",
        "simulated",
        "off by",
        "again",
        "windows part",
    ]);
    for comparison in links {
        let Comparison { link, kernel_median_s, simulated_s, deviation, parts, .. } = comparison;
        table.add_row([
            link.seed.to_string(),
            link.control.to_owned(),
            link.rate.to_string(),
            link.rtt.to_string(),
            link.queue_packets.to_string(),
            link.loss.to_string(),
            units::Bytes::new(link.size_bytes).to_string(),
            format!("{kernel_median_s:.3} s"),
            simulated_s.map_or("no end".to_owned(), |time| format!("{time:.3} s")),
            deviation.map_or("-".to_owned(), |deviation| format!("{:+.1} %", deviation * 100.0)),
            format!("{}/{}", comparison.kernel_retransmissions, comparison.simulated_retransmissions),
            parts.map_or("-".to_owned(), |parts| {
                format!("{:.2} s: {}/{}", parts.kernel.time_s, parts.kernel.cwnd, parts.simulated.cwnd)
            }),
        ]);
    }
    table.column_iter_mut().skip(2).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}
