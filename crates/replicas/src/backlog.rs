//! Runs that are finished and wait for one before them: how far the others may be ahead of it.

use results::Run;
use sim::{CarrierReport, GatewayReport};
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// About as many bytes of finished runs may wait for a slow one before them; then no other begins until it is finished.
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

/// Bytes that a run occupies, without what the allocator adds. What it shares with its scenario is no part of it.
fn memory(run: &Run) -> usize {
    let report = &run.report;
    let samples = room(&run.flow_samples) + room(&run.queue_samples) + room(&run.capacity_samples);
    let of_lists = room(&report.flows) + room(&report.links) + room(&report.carriers) + room(&report.gateways);
    let of_flows =
        report.flows.iter().map(|flow| flow.name.capacity() + flow.failure.as_ref().map_or(0, String::capacity));
    let of_links = report.links.iter().map(|link| texts([&link.name, &link.from, &link.to]));
    let of_carriers = report.carriers.iter().map(of_carrier);
    let of_gateways = report.gateways.iter().map(of_gateways);
    let of_items: usize = of_flows.chain(of_links).chain(of_carriers).chain(of_gateways).sum();
    let of_problem = run.not_captured.as_ref().map_or(0, String::capacity);
    size_of_val(run) + samples + of_lists + of_items + of_problem
}

/// What the report of a carrier holds.
fn of_carrier(carrier: &CarrierReport) -> usize {
    let of_terminals = carrier.terminals.iter().map(|terminal| texts([&terminal.link, &terminal.from, &terminal.to]));
    carrier.name.capacity() + room(&carrier.terminals) + of_terminals.sum::<usize>()
}

/// What the report of a pair of gateways holds.
fn of_gateways(pair: &GatewayReport) -> usize {
    let of_lists = room(&pair.streams) + room(&pair.sessions) + room(&pair.transitions);
    let of_streams = pair.streams.iter().map(|stream| stream.flow.capacity() + texts(stream.states.each_ref()));
    let of_sessions = pair.sessions.iter().map(|session| session.node.capacity());
    let of_transitions = pair.transitions.iter().map(|transition| {
        texts([&transition.node, &transition.flow, &transition.from, &transition.event, &transition.to])
    });
    pair.name.capacity() + of_lists + of_streams.chain(of_sessions).chain(of_transitions).sum::<usize>()
}

/// The elements of a list, and the room for more that it has.
fn room<T>(list: &Vec<T>) -> usize {
    list.capacity() * size_of::<T>()
}

fn texts<const COUNT: usize>(texts: [&String; COUNT]) -> usize {
    texts.map(String::capacity).iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::{StreamReport, TransitionReport};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;
    use std::thread;

    #[test]
    fn all_that_a_run_holds_counts() {
        let replica = &crate::tests::replicas("10kB")[0];
        let made = crate::single(replica, &crate::Recording::Nothing, |_| Ok(()), |_| true);
        let mut run = made.expect("sound").expect("made");
        let before = memory(&run);
        run.flow_samples.reserve_exact(1_000);
        let with_room = memory(&run);
        assert_eq!(with_room - before, 1_000 * size_of::<sim::FlowSample>());
        let text = || "a name of 20 letters".to_owned();
        let transition =
            TransitionReport { at_s: 0.0, node: text(), flow: text(), from: text(), event: text(), to: text() };
        let stream = StreamReport { flow: text(), ..StreamReport::default() };
        let pair = GatewayReport {
            name: text(),
            streams: vec![stream; 2],
            sessions: Vec::new(),
            transport: None,
            transitions: vec![transition; 1_000],
        };
        run.report.gateways = vec![pair];
        let lists = size_of::<GatewayReport>() + 2 * size_of::<StreamReport>() + 1_000 * size_of::<TransitionReport>();
        assert_eq!(memory(&run) - with_room, lists + 20 * (1 + 2 + 5 * 1_000));
    }

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
