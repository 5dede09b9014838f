//! Simulations side by side: each replica on a thread, results in the order of the replicas, whatever order they finish
//! in, so that the results are the same for any number of threads.
#![allow(clippy::disallowed_methods, reason = "an IO shell: it reads clocks and starts threads")]

mod error;
mod interrupt;
mod jobs;
mod single;
mod tasks;
mod worker;

pub use error::Error;
pub use interrupt::Interrupt;
pub use jobs::Jobs;
pub use single::{check, single};

use indicatif::{ProgressBar, ProgressStyle};
use results::Run;
use scenario::Scenario;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};
use worker::{Shared, WHOLE};

/// One run that is to be made.
#[derive(Debug, Clone)]
pub struct Replica {
    /// The variant.
    pub scenario: Arc<Scenario>,
    /// The seed.
    pub seed: u64,
}

/// What runs keep of what their scenarios record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recording {
    /// Nothing but the outcome of flows and links.
    Nothing,
    /// The samples of flows and queues.
    Samples,
    /// The samples, and packets in capture files of this directory.
    Packets(PathBuf),
}

/// What a set of runs cost.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// From the first to the last.
    pub wall: Duration,
    /// Processor time of all together.
    pub cpu: units::Duration,
}

/// Makes runs.
#[derive(Debug, Clone)]
pub struct Pool {
    /// How many go on side by side, those of the pool's clones included.
    pub jobs: Jobs,
    /// Ends them early: runs that are finished are kept.
    pub interrupt: Interrupt,
    /// Whether a bar on stderr shows how far they are.
    pub shows_progress: bool,
}

impl Pool {
    /// Makes all runs and gives each to `finish`, in the order of `replicas`. After an interrupt those that were not
    /// finished are missing. `title` stands before the progress bar.
    ///
    /// # Errors
    /// If the simulator refuses a scenario, results cannot be written, or `finish` fails.
    pub fn run<E: From<Error>>(
        &self,
        title: &str,
        replicas: &[Replica],
        recording: &Recording,
        mut finish: impl FnMut(Run) -> Result<(), E>,
    ) -> Result<Cost, E> {
        let started = Instant::now();
        let shared = Shared::new(replicas, recording, &self.interrupt, &self.jobs);
        let bar = self.progress_bar(title, replicas.len());
        thread::scope(|scope| {
            let (sender, receiver) = mpsc::channel();
            for _ in 0..self.jobs.count().min(replicas.len()) {
                let (sender, shared) = (sender.clone(), &shared);
                scope.spawn(move || shared.work(&sender));
            }
            drop(sender);
            let collected = collect(&receiver, &shared, &bar, &mut finish);
            if collected.is_err() {
                shared.failed.store(true, Ordering::Relaxed);
            }
            collected
        })?;
        bar.finish_and_clear();
        let cpu = units::Duration::from_nanos(shared.cpu.into_inner());
        Ok(Cost { wall: started.elapsed(), cpu })
    }

    fn progress_bar(&self, title: &str, runs: usize) -> ProgressBar {
        if !self.shows_progress {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::new(runs as u64 * WHOLE).with_message(title.to_owned());
        let style = ProgressStyle::with_template("{msg}  {wide_bar} {percent:>3} %  {elapsed} of about {duration}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar
    }
}

/// Hands on runs in their order as they come in; at the end those, too, that wait for one that was not finished.
fn collect<E: From<Error>>(
    receiver: &mpsc::Receiver<(usize, Result<Run, Error>)>,
    shared: &Shared<'_>,
    bar: &ProgressBar,
    finish: &mut impl FnMut(Run) -> Result<(), E>,
) -> Result<(), E> {
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
