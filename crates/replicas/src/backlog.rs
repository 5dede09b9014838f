//! Runs that are finished and wait for one before them: how far the others may be ahead of it.

use results::Run;
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// As many bytes of finished runs may wait for a slow one before them; then no other begins until it is finished.
pub const MOST_WAITING: usize = 256 << 20;
/// How often a thread that waits looks whether runs are still wanted.
const LOOK: Duration = Duration::from_millis(100);

/// What is finished and not handed on, for the threads that would begin further runs.
#[derive(Debug)]
pub struct Backlog {
    most: usize,
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    /// How many were handed on: in order, the number of the next.
    handed_on: usize,
    /// What the finished others occupy.
    bytes: usize,
}

impl Backlog {
    pub fn new(most: usize) -> Self {
        Self { most, waiting: Mutex::default(), changed: Condvar::new() }
    }

    /// Waits until the run `number` may begin, or `is_over`. The one that the others wait for always may.
    pub fn admit(&self, number: usize, is_over: impl Fn() -> bool) {
        let is_ahead = |waiting: &mut Waiting| waiting.bytes > self.most && waiting.handed_on != number;
        let mut waiting = self.waiting();
        while is_ahead(&mut waiting) && !is_over() {
            let woken = self.changed.wait_timeout_while(waiting, LOOK, is_ahead);
            (waiting, _) = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// `run` is finished.
    pub fn add(&self, run: &Run) {
        self.waiting().bytes += memory(run);
    }

    /// `run` is about to be handed on.
    pub fn remove(&self, run: &Run) {
        let mut waiting = self.waiting();
        waiting.handed_on += 1;
        waiting.bytes -= memory(run);
        drop(waiting);
        self.changed.notify_all();
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Two numbers are whole whatever became of the thread that changed them.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Hands runs on in the order of their numbers.
#[derive(Debug)]
pub struct InOrder<'a> {
    backlog: &'a Backlog,
    waiting: BTreeMap<usize, Run>,
    next: usize,
}

impl<'a> InOrder<'a> {
    pub fn new(backlog: &'a Backlog) -> Self {
        Self { backlog, waiting: BTreeMap::new(), next: 0 }
    }

    /// The run `number` is finished: gives `finish` those whose turn has come.
    pub fn put<E>(&mut self, number: usize, run: Run, mut finish: impl FnMut(Run) -> Result<(), E>) -> Result<(), E> {
        self.waiting.insert(number, run);
        while let Some(run) = self.waiting.remove(&self.next) {
            self.next += 1;
            self.backlog.remove(&run);
            finish(run)?;
        }
        Ok(())
    }

    /// Those that wait for one that was not finished.
    pub fn rest(self) -> impl Iterator<Item = Run> {
        self.waiting.into_values()
    }
}

/// Bytes that a run occupies, roughly.
fn memory(run: &Run) -> usize {
    size_of_val(run)
        + size_of_val(&run.report.flows[..])
        + size_of_val(&run.report.links[..])
        + size_of_val(&run.flow_samples[..])
        + size_of_val(&run.queue_samples[..])
        + size_of_val(&run.capacity_samples[..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;
    use std::thread;

    #[test]
    fn what_waits_holds_back_all_but_the_run_that_it_waits_for() {
        let set = |backlog: &Backlog, handed_on, bytes| {
            *backlog.waiting() = Waiting { handed_on, bytes };
            backlog.changed.notify_all();
        };
        let backlog = Backlog::new(100);
        backlog.admit(7, || false);
        set(&backlog, 3, 100);
        backlog.admit(7, || false);
        set(&backlog, 3, 101);
        backlog.admit(3, || false);
        // An interrupt ends it.
        backlog.admit(7, || true);
        let is_free = AtomicBool::new(false);
        let (looks, looked) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                backlog.admit(7, move || looks.send(()).is_err());
                assert!(is_free.load(Ordering::SeqCst), "it began while too much waited");
            });
            looked.recv().expect("it waits");
            set(&backlog, 4, 101);
            looked.recv().expect("it still waits");
            is_free.store(true, Ordering::SeqCst);
            set(&backlog, 5, 99);
        });
    }
}
