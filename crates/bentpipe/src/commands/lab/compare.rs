//! `bentpipe lab --compare`: random links, the kernel's TCP and the simulator's side by side.

use super::{NOT_THE_LINKS, say_stopping};
use crate::commands::private_lab::start_in_private;
use crate::output::{Failure, Output};
use crate::text::Text;
use ::lab::Error;
use ::lab::compare::{CONTROLS, Comparison, RandomLink};
use ::lab::measure::median;
use indicatif::{ProgressBar, ProgressStyle};
use kernel::directory::OpenDirectory;
use replicas::Interrupt;
use results::listing::{Cell, Listing, count, figure, text};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Instant;
use units::Quantity;

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
    // The private file system would hide a directory below it.
    let kept = request.keep.map(Kept::open).transpose()?;
    start_in_private()?;
    let start = Instant::now();
    let done = measure(request, kept.as_ref(), &interrupt, output)?;
    let document = Document::new(request.seed, done, start.elapsed().as_secs_f64());
    output.result(&document, |columns| document.text(columns))?;
    document.verdict(request.links)
}

fn measure(
    request: &Request<'_>,
    kept: Option<&Kept>,
    interrupt: &Interrupt,
    output: &Output,
) -> Result<BTreeMap<u64, Result<Comparison, Error>>, Failure> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = request.jobs.map_or(JOBS_PER_PROCESSOR * processors, usize::from);
    let next = AtomicU64::new(0);
    let bar = progress_bar(request.links, output);
    let shown = bar.clone();
    interrupt.when_set(move || shown.suspend(say_stopping));
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
            if let Some(packets) = outcome.as_ref().ok().map(|link| link.emulator_drops).filter(|packets| *packets > 0)
            {
                bar.suspend(|| tracing::warn!(seed, packets, "{NOT_THE_LINKS}"));
            }
            match &outcome {
                Ok(comparison) if !comparison.is_within(SMALL) => {
                    kept.map(|kept| kept.write(comparison)).transpose()?;
                }
                Err(Error::Missing(problem)) => return Err(Failure::missing(problem)),
                _ => {}
            }
            done.insert(seed, outcome);
        }
        bar.finish_and_clear();
        Ok(done)
    })
}

/// The directory for links that deviate.
struct Kept(OpenDirectory);

impl Kept {
    fn open(path: &Path) -> Result<Self, Failure> {
        let opened = OpenDirectory::create(path);
        opened.map(Self).map_err(|error| Failure::failed(format!("{}: {error}", path.display())))
    }

    /// Writes what a link that deviates is, for a closer look.
    fn write(&self, comparison: &Comparison) -> Result<(), Failure> {
        let seed = comparison.link.seed;
        self.write_file(&format!("link-{seed}.toml"), &comparison.link.text())?;
        let results = serde_json::to_string_pretty(comparison).map_err(Failure::failed)?;
        self.write_file(&format!("link-{seed}.json"), &results)
    }

    fn write_file(&self, name: &str, text: &str) -> Result<(), Failure> {
        let written = self.0.write(name, text);
        written.map_err(|error| Failure::failed(format!("{}: {error}", self.0.path().join(name).display())))
    }
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

    /// For people: what deviates, and the summary.
    fn text(&self, columns: Option<usize>) -> Text {
        let mut text = Text::new(columns);
        let far: Vec<_> = self.links.iter().filter(|link| !link.is_within(SMALL)).collect();
        if !far.is_empty() {
            text.listing(&table(&far)).blank();
        }
        let percent = |deviation: Option<f64>| deviation.map_or("-".to_owned(), |share| Quantity::Share.text(share));
        text.lines(format!(
            "{} links: {} within 5 %, {} beyond 15 %; median {}, worst {}; {}",
            self.links.len(),
            self.within_5_percent,
            self.beyond_15_percent,
            percent(self.median_deviation),
            percent(self.worst_deviation),
            Quantity::Time.text(self.wall_s),
        ));
        text
    }
}

fn table(links: &[&Comparison]) -> Listing {
    let mut listing = Listing::new([
        text("seed"),
        text("control"),
        figure("rate", Quantity::Rate),
        figure("RTT", Quantity::Time),
        count("queue"),
        count("loss"),
        figure("size", Quantity::Bytes),
        figure("kernel", Quantity::Time),
        figure("simulated", Quantity::Time),
        figure("off by", Quantity::Share),
        count("again"),
        figure("part at", Quantity::Time),
        count("windows then"),
    ]);
    for comparison in links {
        let Comparison { link, kernel_median_s, simulated_s, deviation, parts, .. } = comparison;
        let pair = |one: u64, other: u64| Cell::from(format!("{one}/{other}"));
        listing.add([
            link.seed.into(),
            link.control.into(),
            (link.rate.as_bps() as f64).into(),
            link.rtt.as_secs_f64().into(),
            link.queue_packets.into(),
            link.loss.to_string().into(),
            (link.size_bytes as f64).into(),
            (*kernel_median_s).into(),
            simulated_s.map_or_else(|| "no end".into(), Cell::from),
            (*deviation).into(),
            pair(comparison.kernel_retransmissions.into(), comparison.simulated_retransmissions),
            parts.as_ref().map(|parts| parts.kernel.time_s).into(),
            parts.as_ref().map_or(Cell::Missing, |parts| pair(parts.kernel.cwnd, parts.simulated.cwnd)),
        ]);
    }
    listing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_goes_to_the_directory_that_was_there_at_the_start() {
        let folder = tempfile::tempdir().expect("a folder");
        let [path, elsewhere] = ["kept", "elsewhere"].map(|name| folder.path().join(name));
        let kept = Kept::open(&path).expect("it is made");
        std::fs::rename(&path, &elsewhere).expect("it moves");
        std::fs::create_dir(&path).expect("another is in its place");
        kept.write_file("link-1.toml", "version = 1").expect("written");
        assert_eq!(std::fs::read_to_string(elsewhere.join("link-1.toml")).expect("it is there"), "version = 1");
    }
}
