//! Tasks that make runs, side by side: while the last runs of one go on, those of others keep the processors busy.

use crate::Pool;
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// How many tasks are begun at a time: enough that the runs of some keep the processors busy while those of another are
/// evaluated, and few enough that their results fit into memory.
const AT_ONCE: usize = 4;

impl Pool {
    /// Does the tasks 0 to `count`, each with a pool that shares this one's jobs, and gives their results in that order.
    /// After one has failed no other is begun. `title` stands before a bar of the tasks.
    ///
    /// # Errors
    /// The first, in their order, of those that failed.
    pub fn tasks<T: Send, E: Send>(
        &self,
        title: &str,
        count: usize,
        task: impl Fn(usize, Pool) -> Result<T, E> + Sync,
    ) -> Result<Vec<T>, E> {
        let quiet = Pool { shows_progress: false, ..self.clone() };
        self.side_by_side(title, count, AT_ONCE, |number| task(number, quiet.clone()))
    }

    /// Makes the runs 0 to `count`, as many side by side as the pool has jobs, and gives their results in that order. After one has
    /// failed no other is begun. `title` stands before a bar of the runs.
    ///
    /// # Errors
    /// The first, in their order, of those that failed.
    pub fn runs<T: Send, E: Send>(
        &self,
        title: &str,
        count: usize,
        run: impl Fn(usize) -> Result<T, E> + Sync,
    ) -> Result<Vec<T>, E> {
        self.side_by_side(title, count, self.jobs.count(), |number| {
            let _place = self.jobs.place();
            run(number)
        })
    }

    fn side_by_side<T: Send, E: Send>(
        &self,
        title: &str,
        count: usize,
        threads: usize,
        task: impl Fn(usize) -> Result<T, E> + Sync,
    ) -> Result<Vec<T>, E> {
        let bar = self.task_bar(title, count);
        let (next, failed, results) = (AtomicUsize::new(0), AtomicBool::new(false), Mutex::new(BTreeMap::new()));
        let work = || {
            while !failed.load(Ordering::Relaxed) {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return;
                }
                let result = task(number);
                failed.fetch_or(result.is_err(), Ordering::Relaxed);
                results.lock().expect("no thread fails while it holds the lock").insert(number, result);
                bar.inc(1);
            }
        };
        thread::scope(|scope| {
            for _ in 0..threads.min(count) {
                scope.spawn(work);
            }
        });
        bar.finish_and_clear();
        results.into_inner().expect("no thread failed while it held the lock").into_values().collect()
    }

    fn task_bar(&self, title: &str, count: usize) -> ProgressBar {
        if !self.shows_progress {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::new(count as u64).with_message(title.to_owned());
        let style = ProgressStyle::with_template("{msg}  {wide_bar} {pos} of {len}  {elapsed}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.tick();
        bar
    }
}

#[cfg(test)]
mod tests {
    use crate::{Interrupt, Jobs, Pool};
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn results_come_in_the_order_of_the_tasks_and_a_failure_ends_it() {
        let pool =
            Pool { jobs: Jobs::new(2), interrupt: Interrupt::default(), shows_progress: false, huge_pages: false };
        let squares = pool.tasks("squares", 50, |number, _| Ok::<_, String>(number * number)).expect("none fails");
        assert_eq!(squares, (0..50).map(|number| number * number).collect::<Vec<_>>());
        let begun = AtomicUsize::new(0);
        let failed = pool.tasks("failing", 10_000, |number, _| {
            begun.fetch_add(1, Ordering::Relaxed);
            if number == 3 { Err("the third") } else { Ok(number) }
        });
        assert_eq!(failed, Err("the third"));
        assert!(begun.into_inner() < 10_000);
        assert_eq!(pool.runs("doubles", 3, |number| Ok::<_, String>(number * 2)), Ok(vec![0, 2, 4]));
    }
}
