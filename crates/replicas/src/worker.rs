//! What each thread does: one run after the other.

use crate::{Error, Interrupt, Jobs, Recording, Replica};
use results::{Capture, Label, Run};
use scenario::Scenario;
use sim::{NodeId, Simulation};
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;

/// Events between two looks at the interrupt: less than a tenth of a second, where each sends a gateway's datagrams, too.
const EVENTS_AT_ONCE: u64 = 1 << 13;
/// Progress of one run, in parts.
pub const WHOLE: u64 = 1000;

/// What the threads share.
pub struct Shared<'a> {
    replicas: &'a [Replica],
    recording: &'a Recording,
    /// The next run that nobody has begun.
    next: AtomicUsize,
    /// Parts of runs that are done.
    pub progress: AtomicU64,
    /// Nanoseconds of processor time.
    pub cpu: AtomicU64,
    interrupt: &'a Interrupt,
    jobs: &'a Jobs,
    /// Whether the results of the runs that are left are of no use.
    pub failed: AtomicBool,
}

impl<'a> Shared<'a> {
    pub fn new(replicas: &'a [Replica], recording: &'a Recording, interrupt: &'a Interrupt, jobs: &'a Jobs) -> Self {
        Self {
            replicas,
            recording,
            next: AtomicUsize::new(0),
            progress: AtomicU64::new(0),
            cpu: AtomicU64::new(0),
            interrupt,
            jobs,
            failed: AtomicBool::new(false),
        }
    }

    /// Makes runs until there are no more.
    pub fn work(&self, sender: &mpsc::Sender<(usize, Result<Run, Error>)>) {
        self.make_runs(sender);
        self.cpu.fetch_add(kernel::clock::thread_cpu_time().as_nanos(), Ordering::Relaxed);
    }

    fn make_runs(&self, sender: &mpsc::Sender<(usize, Result<Run, Error>)>) {
        // A run may be over before its first look at the interrupt.
        loop {
            let _place = self.jobs.place();
            if self.is_over() {
                return;
            }
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(replica) = self.replicas.get(number) else { return };
            let run = match self.one(replica) {
                Ok(Some(run)) => Ok(run),
                Ok(None) => return,
                Err(error) => Err(error),
            };
            if sender.send((number, run)).is_err() {
                return;
            }
        }
    }

    /// Whether no run is wanted any more.
    fn is_over(&self) -> bool {
        self.interrupt.is_set() || self.failed.load(Ordering::Relaxed)
    }

    /// One run, or nothing if the user interrupted.
    fn one(&self, replica: &Replica) -> Result<Option<Run>, Error> {
        let scenario = &replica.scenario;
        let label = Label { variant: scenario.variant.as_deref().map(Arc::from), seed: replica.seed };
        let mut simulation = Simulation::of(scenario, replica.seed, *self.recording != Recording::Nothing)
            .map_err(|error| Error::Scenario(format!("run {}: {error}", label.file_stem())))?;
        let mut captures = self.captures(&label, &simulation, scenario)?;
        let mut done = 0;
        let mut run = Run {
            label,
            report: simulation.report(),
            groups: scenario.groups.clone(),
            network: Arc::clone(&scenario.network),
            flow_samples: Vec::new(),
            queue_samples: Vec::new(),
            capacity_samples: Vec::new(),
        };
        loop {
            let stopped = simulation.run_for(EVENTS_AT_ONCE);
            run.flow_samples.append(&mut simulation.take_flow_samples());
            run.queue_samples.append(&mut simulation.take_queue_samples());
            run.capacity_samples.append(&mut simulation.take_capacity_samples());
            append(&mut captures, &mut simulation)?;
            if stopped.is_some() {
                break;
            }
            if self.is_over() {
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
        // A conversation ends with the FINs of both sides, which may come after the last byte.
        while !captures.is_empty() && simulation.close_for(EVENTS_AT_ONCE) && !self.is_over() {
            append(&mut captures, &mut simulation)?;
        }
        append(&mut captures, &mut simulation)?;
        for (capture, path) in captures {
            let file = capture.into_inner().into_inner();
            file.map_err(|error| Error::failed(format!("{}: {}", path.display(), error.error())))?;
        }
        Ok(Some(run))
    }

    /// A file for each node whose packets are recorded: one conversation seen from two places looks like retransmissions.
    fn captures(&self, label: &Label, simulation: &Simulation, scenario: &Scenario) -> Result<Vec<CaptureFile>, Error> {
        let Recording::Packets(directory) = self.recording else { return Ok(Vec::new()) };
        let begin = |node: &NodeId| {
            let name = simulation.network().node_name(*node);
            let path = directory.join(format!("packets-{}-{name}.pcapng", label.file_stem()));
            let file = File::create(&path).map_err(|error| Error::failed(format!("{}: {error}", path.display())))?;
            let capture = Capture::new(BufWriter::new(file), simulation, &scenario.gateways, &[*node]);
            Ok((capture.map_err(Error::failed)?, path))
        };
        scenario.settings.record.packets_at.iter().map(begin).collect()
    }
}

/// Writes the packets recorded since the last call.
fn append(captures: &mut [CaptureFile], simulation: &mut Simulation) -> Result<(), Error> {
    let packets = simulation.take_packets();
    for (capture, _) in captures {
        packets.iter().try_for_each(|packet| capture.append(packet)).map_err(Error::failed)?;
    }
    Ok(())
}

/// A capture and where it is written.
type CaptureFile = (Capture<BufWriter<File>>, PathBuf);
