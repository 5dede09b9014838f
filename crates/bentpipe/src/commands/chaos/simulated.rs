//! Cases in virtual time, side by side.

use super::Args;
use crate::output::{Failure, Output};
use chaos::Report;
use indicatif::{ProgressBar, ProgressStyle};
use replicas::Interrupt;
use std::sync::{Mutex, mpsc};
use std::thread;

/// Which case comes next, and how many transfers the cases so far have.
struct Handout {
    next: u64,
    planned: u64,
    wanted: u64,
}

impl Handout {
    /// The next case's seed, unless there are enough.
    fn take(&mut self) -> Option<u64> {
        if self.planned >= self.wanted {
            return None;
        }
        let seed = self.next;
        self.planned += chaos::transfers(seed);
        self.next = seed.wrapping_add(1);
        Some(seed)
    }
}

/// Runs cases until they have as many transfers as wanted. What they come to does not depend on how many run side by
/// side. Also returns whether an interrupt ended it early.
pub(super) fn run(args: &Args, output: &Output) -> Result<(Report, bool), Failure> {
    let interrupt = Interrupt::on_signals()?;
    let handout = Mutex::new(Handout { next: args.seed, planned: 0, wanted: args.transfers });
    let jobs = args.jobs.map_or_else(|| thread::available_parallelism().map_or(1, usize::from), usize::from);
    let bar = progress_bar(output, args.transfers);
    let mut all = Report::new(args.seed);
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..jobs {
            let (sender, handout, interrupt) = (sender.clone(), &handout, &interrupt);
            scope.spawn(move || {
                let next = || handout.lock().map_or(None, |mut handout| handout.take());
                while let Some(seed) = (!interrupt.is_set()).then(next).flatten() {
                    if sender.send(chaos::run(seed)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for report in receiver {
            all.add(report);
            bar.set_position(all.transfers);
        }
    });
    bar.finish_and_clear();
    Ok((all, interrupt.is_set()))
}

fn progress_bar(output: &Output, transfers: u64) -> ProgressBar {
    if !output.shows_progress() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(transfers);
    let style = ProgressStyle::with_template("{wide_bar} {pos} of {len} transfers  {elapsed} of about {duration}");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
