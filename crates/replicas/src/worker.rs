//! What each thread does: one run after the other.

use crate::backlog::Backlog;
use crate::{Error, Pool, Recording, Replica, single};
use results::Run;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;

/// Progress of one run, in parts.
pub const WHOLE: u64 = 1000;

/// From so many flows on a run takes so much memory that huge pages make it faster.
const MANY_FLOWS: usize = 1000;
/// The first of the steps after which memory is gathered into them: that takes some tenths of a second, which a short run never gets back.
const FIRST_GATHERING: u64 = 256;

/// What the threads share.
pub struct Shared<'a> {
    pub replicas: &'a [Replica],
    recording: &'a Recording,
    /// The next run that nobody has begun.
    next: AtomicUsize,
    /// Parts of runs that are done.
    pub progress: AtomicU64,
    /// Nanoseconds of processor time.
    pub cpu: AtomicU64,
    pool: &'a Pool,
    backlog: &'a Backlog,
    /// Whether the results of the runs that are left are of no use.
    pub failed: AtomicBool,
}

impl<'a> Shared<'a> {
    pub fn new(replicas: &'a [Replica], recording: &'a Recording, pool: &'a Pool, backlog: &'a Backlog) -> Self {
        Self {
            replicas,
            recording,
            next: AtomicUsize::new(0),
            progress: AtomicU64::new(0),
            cpu: AtomicU64::new(0),
            pool,
            backlog,
            failed: AtomicBool::new(false),
        }
    }

    /// Makes runs until there are no more. If one panics, those that wait for it end, too.
    pub fn work(&self, sender: &mpsc::Sender<(usize, Result<Run, Error>)>) {
        let _end = EndOnPanic(&self.failed);
        self.make_runs(sender);
        self.cpu.fetch_add(kernel::clock::thread_cpu_time().as_nanos(), Ordering::Relaxed);
    }

    fn make_runs(&self, sender: &mpsc::Sender<(usize, Result<Run, Error>)>) {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(replica) = self.replicas.get(number) else { return };
            self.backlog.admit(number, || self.is_over());
            let _place = self.pool.jobs.place();
            // A run may be over before its first look at the interrupt.
            if self.is_over() {
                return;
            }
            let run = match self.one(replica) {
                Ok(Some(run)) => {
                    self.backlog.add(&run);
                    Ok(run)
                }
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
        self.pool.interrupt.is_set() || self.failed.load(Ordering::Relaxed)
    }

    /// One run, or nothing if the user interrupted.
    fn one(&self, replica: &Replica) -> Result<Option<Run>, Error> {
        let (mut done, mut steps) = (0, 0_u64);
        let has_many_flows = replica.scenario.flows.len() >= MANY_FLOWS;
        let run = single(
            replica,
            self.recording,
            |_| Ok(()),
            |share| {
                steps += 1;
                // What has come since the last time follows.
                let is_time = steps >= FIRST_GATHERING && steps.is_power_of_two();
                if self.pool.huge_pages && has_many_flows && is_time {
                    kernel::memory::gather_into_huge_pages();
                }
                let parts = ((share * WHOLE as f64) as u64).min(WHOLE);
                self.progress.fetch_add(parts.saturating_sub(done), Ordering::Relaxed);
                done = done.max(parts);
                !self.is_over()
            },
        )?;
        self.progress.fetch_add(WHOLE - done, Ordering::Relaxed);
        Ok(run)
    }
}

/// Sets the flag if its thread panics.
pub struct EndOnPanic<'a>(pub &'a AtomicBool);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        self.0.fetch_or(std::thread::panicking(), Ordering::Relaxed);
    }
}
