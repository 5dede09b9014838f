//! Simulations side by side: each replica on a thread. Results come in the order of the replicas, whatever order they finish in, so
//! that they are the same for any number of threads, or as they finish.
#![allow(clippy::disallowed_methods, reason = "an IO shell: it reads clocks and starts threads")]

mod backlog;
mod captures;
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

use backlog::{Backlog, InOrder, MOST_WAITING};
use indicatif::{ProgressBar, ProgressStyle};
use results::Run;
use scenario::Scenario;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};
use worker::{EndOnPanic, Shared, WHOLE};

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
    /// Whether runs of many flows gather the memory of the process into huge pages: only for a process that does nothing else.
    pub huge_pages: bool,
}

impl Pool {
    /// Makes all runs and gives each to `finish`, in the order of `replicas`. After an interrupt those that were not
    /// finished are missing. `title` stands before the progress bar.
    ///
    /// # Errors
    /// If the simulator refuses a scenario, or `finish` fails.
    pub fn run<E: From<Error>>(
        &self,
        title: &str,
        replicas: &[Replica],
        recording: &Recording,
        mut finish: impl FnMut(Run) -> Result<(), E>,
    ) -> Result<Cost, E> {
        let backlog = Backlog::new(MOST_WAITING);
        let mut in_order = InOrder::new(&backlog);
        let shared = Shared::new(replicas, recording, self, &backlog);
        let cost = self.make(title, &shared, |number, run| in_order.put(number, run, &mut finish))?;
        in_order.rest().try_for_each(finish)?;
        Ok(cost)
    }

    /// Makes all runs and gives each with its place in `replicas` to `finish`, as they finish: none waits for a slow one. After an
    /// interrupt those that were not finished are missing. `title` stands before the progress bar.
    ///
    /// # Errors
    /// As [`Pool::run`].
    pub fn run_unordered<E: From<Error>>(
        &self,
        title: &str,
        replicas: &[Replica],
        recording: &Recording,
        mut finish: impl FnMut(usize, Run) -> Result<(), E>,
    ) -> Result<Cost, E> {
        let backlog = Backlog::new(MOST_WAITING);
        self.make(title, &Shared::new(replicas, recording, self, &backlog), |number, run| {
            backlog.remove(&run);
            finish(number, run)
        })
    }

    fn make<E: From<Error>>(
        &self,
        title: &str,
        shared: &Shared<'_>,
        finish: impl FnMut(usize, Run) -> Result<(), E>,
    ) -> Result<Cost, E> {
        let started = Instant::now();
        let bar = self.progress_bar(title, shared.replicas.len());
        thread::scope(|scope| {
            // Else those that wait for runs before theirs to be handed on would wait for ever.
            let _end = EndOnPanic(&shared.failed);
            let (sender, receiver) = mpsc::channel();
            for _ in 0..self.jobs.count().min(shared.replicas.len()) {
                let sender = sender.clone();
                scope.spawn(move || shared.work(&sender));
            }
            drop(sender);
            let collected = collect(&receiver, shared, &bar, finish);
            if collected.is_err() {
                shared.failed.store(true, Ordering::Relaxed);
            }
            collected
        })?;
        bar.finish_and_clear();
        let cpu = units::Duration::from_nanos(shared.cpu.load(Ordering::Relaxed));
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

/// Hands on runs as they come in.
fn collect<E: From<Error>>(
    receiver: &mpsc::Receiver<(usize, Result<Run, Error>)>,
    shared: &Shared<'_>,
    bar: &ProgressBar,
    mut finish: impl FnMut(usize, Run) -> Result<(), E>,
) -> Result<(), E> {
    loop {
        match receiver.recv_timeout(Duration::from_millis(100)) {
            Ok((number, run)) => finish(number, run?)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        bar.set_position(shared.progress.load(Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    const TEXT: &str = r#"
        version = 1
        nodes = ["earth", "moon"]
        link = [{ name = "laser", between = ["earth", "moon"], rate = "100Mbit/s", delay = "20ms", queue = "1BDP" }]
        flow = [{ name = "photos", from = "moon", to = "earth", tcp = "cubic", bulk = { size = "10kB" } }]
    "#;

    /// A long run, of as many bytes as `size` says, and 19 short ones.
    pub(crate) fn replicas(size: &str) -> Vec<Replica> {
        let scenario = |size: &str| {
            let settings = [format!("flow.photos.bulk.size={size}")];
            let mut loaded = scenario::load(TEXT, "moon.toml", &settings, &|_| Err("none".into())).expect("sound");
            Arc::new(loaded.scenarios.remove(0))
        };
        let short = scenario("10kB");
        let shorts = (1..20).map(|seed| Replica { scenario: Arc::clone(&short), seed });
        std::iter::once(Replica { scenario: scenario(size), seed: 0 }).chain(shorts).collect()
    }

    fn pool() -> Pool {
        Pool { jobs: Jobs::new(2), interrupt: Interrupt::default(), shows_progress: false, huge_pages: false }
    }

    #[test]
    fn runs_come_in_the_order_of_the_replicas() {
        let (replicas, mut seeds) = (replicas("100MB"), Vec::new());
        let ordered = pool().run("", &replicas, &Recording::Nothing, |run| {
            seeds.push(run.label.seed);
            Ok::<_, Error>(())
        });
        ordered.expect("all are made");
        assert_eq!(seeds, (0..20).collect::<Vec<_>>());
    }

    #[test]
    fn unordered_runs_come_while_one_before_them_goes_on() {
        // The first would take hours: it ends when all others have come.
        let (pool, replicas, mut numbers) = (pool(), replicas("1000GB"), Vec::new());
        let made = pool.run_unordered("", &replicas, &Recording::Nothing, |number, run| {
            assert_eq!(replicas[number].seed, run.label.seed);
            numbers.push(number);
            if numbers.len() == 19 {
                pool.interrupt.set();
            }
            Ok::<_, Error>(())
        });
        made.expect("what was wanted was made");
        numbers.sort_unstable();
        assert_eq!(numbers, (1..20).collect::<Vec<_>>());
    }

    #[test]
    fn a_run_that_waits_holds_back_those_after_it() {
        let (pool, replicas, backlog) = (pool(), replicas("100MB"), Backlog::new(0));
        let (mut in_order, mut ahead, mut seeds) = (InOrder::new(&backlog), 0, Vec::new());
        let shared = Shared::new(&replicas, &Recording::Nothing, &pool, &backlog);
        let made = pool.make("", &shared, |number, run| {
            ahead += usize::from(number > 0 && seeds.is_empty());
            in_order.put(number, run, |run| {
                seeds.push(run.label.seed);
                Ok::<_, Error>(())
            })
        });
        made.expect("all are made");
        assert!(ahead <= 1, "{ahead} runs were made while the first was under way");
        assert_eq!(seeds, (0..20).collect::<Vec<_>>());
    }

    #[test]
    fn a_panic_of_the_one_that_takes_the_runs_ends_those_that_wait() {
        let (pool, replicas, backlog) = (pool(), replicas("100MB"), Backlog::new(0));
        let shared = Shared::new(&replicas, &Recording::Nothing, &pool, &backlog);
        let made = catch_unwind(AssertUnwindSafe(|| {
            pool.make("", &shared, |_, _| -> Result<(), Error> { panic!("it takes none") })
        }));
        assert!(made.is_err());
    }
}
