//! Runs side by side: each on a thread, results in the order of the runs, whatever order they finish in.

use crate::output::{Failure, Output};
use indicatif::{ProgressBar, ProgressStyle};
use results::{Capture, Format, Label, Run, Tables};
use sim::scenario::Scenario;
use sim::{NodeId, Simulation};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// One run that is to be made.
#[derive(Debug, Clone)]
pub struct Replica {
    /// The variant.
    pub scenario: Arc<Scenario>,
    /// The seed.
    pub seed: u64,
}

/// What runs came to.
#[derive(Debug)]
pub struct Outcome {
    /// The runs that ended, without their samples.
    pub runs: Vec<Run>,
    /// How long all took.
    pub wall: Duration,
    /// Processor time that the runs took together.
    pub cpu: units::Duration,
}

/// The files that results go to.
pub struct Traces {
    directory: PathBuf,
    tables: Tables,
}

impl Traces {
    /// In `directory`, which is made if it is not there.
    pub fn create(directory: &Path, format: Format) -> Result<Self, Failure> {
        fs::create_dir_all(directory)
            .map_err(|error| Failure::usage(format!("--out {}: {error}", directory.display())))?;
        let tables = Tables::create(directory, format).map_err(|error| Failure::usage(format!("--out {error}")))?;
        Ok(Self { directory: directory.to_owned(), tables })
    }
}

/// Events between two looks at the clock and the interrupt: some hundredths of a second.
const EVENTS_AT_ONCE: u64 = 1 << 18;
/// Progress of one run, in parts.
const WHOLE: u64 = 1000;

/// What the threads share.
struct Shared<'a> {
    replicas: &'a [Replica],
    /// The next run that nobody has begun.
    next: AtomicUsize,
    /// Parts of runs that are done.
    progress: AtomicU64,
    /// Nanoseconds of processor time.
    cpu: AtomicU64,
    interrupted: Arc<AtomicBool>,
    /// Where captures go.
    directory: Option<PathBuf>,
}

/// Makes all runs on `jobs` threads.
///
/// # Errors
/// If results cannot be written.
pub fn run(replicas: &[Replica], jobs: usize, traces: Option<Traces>, output: &Output) -> Result<Outcome, Failure> {
    let started = Instant::now();
    let directory = traces.as_ref().map(|traces| traces.directory.clone());
    let mut files = traces.map(|traces| (traces.directory, traces.tables));
    let shared = Shared {
        replicas,
        next: AtomicUsize::new(0),
        progress: AtomicU64::new(0),
        cpu: AtomicU64::new(0),
        interrupted: interrupt_flag()?,
        directory,
    };
    let bar = progress_bar(output, replicas.len());
    let mut runs = Vec::new();
    // Variants whose first run is drawn.
    let mut drawn = BTreeSet::new();
    let mut finish = |mut run: Run| -> Result<(), Failure> {
        if let Some((directory, tables)) = &mut files {
            tables.append(&run).map_err(Failure::failed)?;
            if drawn.insert(run.label.variant.clone()) {
                draw(directory, &run)?;
            }
        }
        // Written, or wanted by nobody.
        (run.flow_samples, run.queue_samples) = Default::default();
        runs.push(run);
        Ok(())
    };
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..jobs.min(replicas.len()) {
            let (sender, shared) = (sender.clone(), &shared);
            scope.spawn(move || shared.work(&sender));
        }
        drop(sender);
        let collected = collect(&receiver, &shared, &bar, &mut finish);
        if collected.is_err() {
            shared.interrupted.store(true, Ordering::Relaxed);
        }
        collected
    })?;
    bar.finish_and_clear();
    if let Some((_, tables)) = files {
        tables.finish().map_err(Failure::failed)?;
    }
    let cpu = units::Duration::from_nanos(shared.cpu.into_inner());
    Ok(Outcome { runs, wall: started.elapsed(), cpu })
}

/// Draws the traces of a run, if it has any.
fn draw(directory: &Path, run: &Run) -> Result<(), Failure> {
    let title = match &run.label.variant {
        Some(variant) => format!("{variant}, seed {}", run.label.seed),
        None => format!("seed {}", run.label.seed),
    };
    let Some(picture) = results::plot::traces(run, &title).map_err(Failure::failed)? else { return Ok(()) };
    let path = directory.join(format!("traces-{}.svg", run.label.file_stem()));
    fs::write(&path, picture).map_err(|error| Failure::failed(format!("{}: {error}", path.display())))
}

/// Hands on runs in their order as they come in; at the end those, too, that wait for one that was not finished.
fn collect(
    receiver: &mpsc::Receiver<(usize, Result<Run, Failure>)>,
    shared: &Shared<'_>,
    bar: &ProgressBar,
    finish: &mut impl FnMut(Run) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut waiting = BTreeMap::new();
    let mut next = 0;
    loop {
        match receiver.recv_timeout(Duration::from_millis(100)) {
            Ok((number, run)) => {
                waiting.insert(number, run?);
                while let Some(run) = waiting.remove(&next) {
                    finish(run)?;
                    next += 1;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        bar.set_position(shared.progress.load(Ordering::Relaxed));
    }
    waiting.into_values().try_for_each(finish)
}

impl Shared<'_> {
    /// Makes runs until there are no more.
    fn work(&self, sender: &mpsc::Sender<(usize, Result<Run, Failure>)>) {
        self.make_runs(sender);
        self.cpu.fetch_add(kernel::clock::thread_cpu_time().as_nanos(), Ordering::Relaxed);
    }

    fn make_runs(&self, sender: &mpsc::Sender<(usize, Result<Run, Failure>)>) {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(replica) = self.replicas.get(number) else { return };
            let run = match self.one(replica) {
                Ok(Some(run)) => Ok(run),
                Ok(None) => return,
                Err(failure) => Err(failure),
            };
            if sender.send((number, run)).is_err() {
                return;
            }
        }
    }

    /// One run, or nothing if the user interrupted.
    fn one(&self, replica: &Replica) -> Result<Option<Run>, Failure> {
        let scenario = &replica.scenario;
        let label = Label { variant: scenario.variant.as_deref().map(Arc::from), seed: replica.seed };
        let mut simulation = scenario
            .simulation(replica.seed, self.directory.is_some())
            .map_err(|error| Failure::usage(format!("run {}: {error}", label.file_stem())))?;
        let mut captures = self.captures(&label, &simulation, scenario)?;
        let mut done = 0;
        let mut run = Run {
            label,
            report: simulation.report(),
            groups: scenario.groups.clone(),
            network: Arc::clone(&scenario.network),
            flow_samples: Vec::new(),
            queue_samples: Vec::new(),
        };
        loop {
            let stopped = simulation.run_for(EVENTS_AT_ONCE);
            run.flow_samples.append(&mut simulation.take_flow_samples());
            run.queue_samples.append(&mut simulation.take_queue_samples());
            let packets = simulation.take_packets();
            for (capture, _) in &mut captures {
                packets.iter().try_for_each(|packet| capture.append(packet)).map_err(Failure::failed)?;
            }
            if stopped.is_some() {
                break;
            }
            if self.interrupted.load(Ordering::Relaxed) {
                // What it has written so far is no result.
                captures.into_iter().for_each(|(_, path)| drop(fs::remove_file(path)));
                return Ok(None);
            }
            let end = scenario.settings.stop.at.map_or(f64::INFINITY, |end| end.as_secs_f64());
            let parts = ((simulation.now().as_secs_f64() / end * WHOLE as f64) as u64).min(WHOLE);
            self.progress.fetch_add(parts.saturating_sub(done), Ordering::Relaxed);
            done = done.max(parts);
        }
        self.progress.fetch_add(WHOLE - done, Ordering::Relaxed);
        run.report = simulation.report();
        for (capture, path) in captures {
            let file = capture.into_inner().into_inner();
            file.map_err(|error| Failure::failed(format!("{}: {}", path.display(), error.error())))?;
        }
        Ok(Some(run))
    }

    /// A file for each node whose packets are recorded: one conversation seen from two places looks like retransmissions.
    fn captures(
        &self,
        label: &Label,
        simulation: &Simulation,
        scenario: &Scenario,
    ) -> Result<Vec<CaptureFile>, Failure> {
        let Some(directory) = &self.directory else { return Ok(Vec::new()) };
        let begin = |node: &NodeId| {
            let name = simulation.network().node_name(*node);
            let path = directory.join(format!("packets-{}-{name}.pcapng", label.file_stem()));
            let file = File::create(&path).map_err(|error| Failure::failed(format!("{}: {error}", path.display())))?;
            let capture = Capture::new(BufWriter::new(file), simulation, &scenario.gateways, &[*node]);
            Ok((capture.map_err(Failure::failed)?, path))
        };
        scenario.settings.record.packets_at.iter().map(begin).collect()
    }
}

/// A capture and where it is written.
type CaptureFile = (Capture<BufWriter<File>>, PathBuf);

/// Set when the user interrupts; a second interrupt ends the process at once.
fn interrupt_flag() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&flag)).map_err(Failure::failed)?;
        signal_hook::flag::register(signal, Arc::clone(&flag)).map_err(Failure::failed)?;
    }
    Ok(flag)
}

fn progress_bar(output: &Output, runs: usize) -> ProgressBar {
    if !output.shows_progress() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(runs as u64 * WHOLE).with_message(format!("{runs} runs"));
    let style = ProgressStyle::with_template("{msg}  {wide_bar} {percent:>3} %  {elapsed} of about {duration}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}
