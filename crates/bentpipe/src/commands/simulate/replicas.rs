//! The runs of a scenario, and the files that their results go to.

use super::FormatArg;
use crate::output::{Failure, Output};
use ::replicas::{Interrupt, Jobs, Pool, Recording, Replica};
use clap::ValueEnum as _;
use results::{Comparison, Format, PartialFile, PictureFormat, Run, TABLES, Tables};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// What the table and the picture of a sweep are called.
pub const SWEEP: &str = "sweep";

/// The results of runs.
#[derive(Debug)]
pub struct Outcome {
    /// The runs that ended, without their samples.
    pub runs: Vec<Run>,
    /// How long all took.
    pub wall: Duration,
    /// Processor time that the runs took together.
    pub cpu: units::Duration,
    /// Why files are missing, if they are: a full disk costs no run.
    pub unwritten: Option<Failure>,
}

/// The files that results go to.
pub struct Traces {
    directory: PathBuf,
    /// Other commands leave the directory alone while this one has it.
    _claim: File,
    tables: Tables,
    pictures: Pictures,
    /// What the tables are called when they are whole.
    written: Vec<PathBuf>,
    /// No run has ended yet.
    is_empty: bool,
}

impl Traces {
    /// In `directory`, which is made if it is not there, and from which results of an earlier command are removed. One that another
    /// command writes to at this time is refused.
    pub fn create(directory: &Path, format: Format, pictures: PictureFormat) -> Result<Self, Failure> {
        crate::named_files::make_directory("--out", directory)?;
        let claim = claim(directory)?;
        remove_results(directory)?;
        let tables = Tables::create(directory, format).map_err(|error| Failure::usage(format!("--out {error}")))?;
        let written = TABLES.map(|table| directory.join(format!("{table}.{}", format.extension()))).to_vec();
        let pictures = Pictures::new(directory, pictures);
        Ok(Self { directory: directory.to_owned(), _claim: claim, tables, pictures, written, is_empty: true })
    }

    fn take(&mut self, run: &Run, is_first: bool) -> Result<(), Failure> {
        self.tables.append(run).map_err(Failure::failed)?;
        self.is_empty = false;
        self.pictures.take(run, is_first);
        Ok(())
    }

    /// Completes the tables, and then draws.
    fn finish(mut self, output: &Output) -> Result<(), Failure> {
        if self.is_empty {
            // A table without a row has no columns either.
            return Ok(());
        }
        self.tables.finish().map_err(Failure::failed)?;
        self.pictures.compare();
        self.written.append(&mut self.pictures.written);
        output.wrote(&self.written);
        self.pictures.missing.map_or(Ok(()), Err)
    }
}

/// The pictures beside the tables. One that cannot be drawn or written costs neither them nor other pictures.
struct Pictures {
    directory: PathBuf,
    format: PictureFormat,
    comparison: Comparison,
    written: Vec<PathBuf>,
    /// Why the first that is missing is.
    missing: Option<Failure>,
}

impl Pictures {
    fn new(directory: &Path, format: PictureFormat) -> Self {
        let comparison = Comparison::default();
        Self { directory: directory.to_owned(), format, comparison, written: Vec::new(), missing: None }
    }

    /// Takes a run, and draws its traces if it is the first of its variant.
    fn take(&mut self, run: &Run, is_first: bool) {
        self.comparison.take(run);
        if is_first && let Some(picture) = results::plot::traces(run, &run.label.title()).transpose() {
            self.draw(&format!("traces-{}", run.label.file_stem()), picture);
        }
    }

    /// Draws what compares the runs.
    fn compare(&mut self) {
        for (name, picture) in self.comparison.pictures() {
            self.draw(name, picture);
        }
    }

    fn draw(&mut self, name: &str, picture: Result<String, results::Error>) {
        let path = self.directory.join(format!("{name}.{}", self.format.extension()));
        let converted = picture.and_then(|picture| self.format.convert(picture)).map_err(|error| error.to_string());
        let written = converted.and_then(|bytes| fs::write(&path, bytes).map_err(|error| error.to_string()));
        match written {
            Ok(()) => self.written.push(path),
            Err(problem) => self.miss(&path, &problem),
        }
    }

    fn miss(&mut self, path: &Path, problem: &str) {
        // Half a picture would be taken for the whole. There may be none at all.
        let _ = fs::remove_file(path);
        let problem = format!("{}: {problem}", path.display());
        tracing::error!("{problem}");
        self.missing.get_or_insert_with(|| Failure::failed(problem));
    }
}

/// Sets up the first of the runs of each scenario.
///
/// # Errors
/// If the simulator refuses one.
pub fn check<'a>(replicas: impl IntoIterator<Item = &'a Replica>) -> Result<(), Failure> {
    let mut last: Option<&Replica> = None;
    for replica in replicas {
        if last.is_none_or(|last| !Arc::ptr_eq(&last.scenario, &replica.scenario)) {
            ::replicas::check(replica)?;
        }
        last = Some(replica);
    }
    Ok(())
}

/// Removes the files of `directory` that have names of results: beside new ones they would be taken for such. What another process
/// is writing stays.
pub fn remove_results(directory: &Path) -> Result<(), Failure> {
    for path in results_in(directory)? {
        if !PartialFile::is_being_written(&path) {
            remove_if_there(&path)?;
        }
    }
    Ok(())
}

/// Claims a directory for the results of this command, as long as what it returns is there: with two at once, half would be the one's
/// and half the other's.
fn claim(directory: &Path) -> Result<File, Failure> {
    let refused = |problem: &str| Failure::usage(format!("--out {}: {problem}", directory.display()));
    let opened = File::open(directory).map_err(|error| refused(&error.to_string()))?;
    // File systems without locks let everybody have them.
    if flock(&opened, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
        return Err(refused("another command is writing results there: wait for its end, or choose another directory"));
    }
    Ok(opened)
}

/// The files of `directory` that have names of results.
fn results_in(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let unreadable = |error| Failure::usage(format!("--out {}: {error}", directory.display()));
    let mut results = Vec::new();
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.file_name().and_then(OsStr::to_str).is_some_and(is_result) {
            results.push(path);
        }
    }
    Ok(results)
}

/// Whether `name` is that of a table, whole or partial, a picture or a capture that this command writes.
fn is_result(name: &str) -> bool {
    let Some((stem, extension)) = name.rsplit_once('.') else { return false };
    let is_partial = extension == "part" && stem.starts_with(".bentpipe-");
    let ends_with_seed = |run: &str| run.rsplit('-').next().is_some_and(|seed| seed.parse::<u64>().is_ok());
    let is_table = TABLES.iter().chain([&SWEEP]).any(|table| *table == stem)
        && FormatArg::value_variants().iter().any(|format| Format::from(*format).extension() == extension);
    let is_picture = PictureFormat::ALL.iter().any(|format| format.extension() == extension)
        && (["means", "distributions", SWEEP].contains(&stem)
            || stem.strip_prefix("traces-").is_some_and(ends_with_seed));
    let has_seed = |run_and_node: &str| run_and_node.split('-').any(|part| part.parse::<u64>().is_ok());
    let is_capture = extension == "pcapng" && stem.strip_prefix("packets-").is_some_and(has_seed);
    is_table || is_partial || is_picture || is_capture
}

/// Removes the file `path`, which need not be there.
pub fn remove_if_there(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            let problem = "a result of an earlier command cannot be removed";
            Err(Failure::failed(format!("{}: {problem}: {error}", path.display())))
        }
        _ => Ok(()),
    }
}

/// Makes all runs on `jobs` threads; `watch` sees each run, with its samples, when it has ended.
///
/// # Errors
/// If a run fails.
pub fn run(
    replicas: &[Replica],
    jobs: usize,
    mut traces: Option<Traces>,
    mut watch: Option<&mut dyn FnMut(&Run)>,
    output: &Output,
) -> Result<Outcome, Failure> {
    let pool = Pool {
        jobs: Jobs::new(jobs),
        interrupt: Interrupt::on_signals()?,
        shows_progress: output.shows_progress(),
        huge_pages: true,
    };
    let recording = match &traces {
        Some(traces) => Recording::Packets(traces.directory.clone()),
        None if watch.is_some() => Recording::Samples,
        None => Recording::Nothing,
    };
    let mut runs = Vec::new();
    // Variants whose first run is drawn.
    let mut drawn = BTreeSet::new();
    let mut unwritten = None;
    let finish = |mut run: Run| -> Result<(), Failure> {
        if let Some(problem) = run.not_captured.take() {
            tracing::error!("{problem}");
            unwritten.get_or_insert(Failure::failed(problem));
        }
        if let Some(taken) = traces.as_mut().map(|traces| traces.take(&run, drawn.insert(run.label.variant.clone())))
            && let Err(failure) = taken
        {
            tracing::error!("{failure}: no more is written");
            traces = None;
            unwritten.get_or_insert(failure);
        }
        if let Some(watch) = &mut watch {
            watch(&run);
        }
        // Written, or wanted by nobody.
        (run.flow_samples, run.queue_samples, run.capacity_samples) = Default::default();
        runs.push(run);
        Ok(())
    };
    let cost = pool.run(&format!("{} runs", replicas.len()), replicas, &recording, finish)?;
    if let Some(Err(failure)) = traces.map(|traces| traces.finish(output)) {
        unwritten.get_or_insert(failure);
    }
    Ok(Outcome { runs, wall: cost.wall, cpu: cost.cpu, unwritten })
}
