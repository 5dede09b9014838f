//! A view of a running emulator for other threads, and what they may ask of it.

use crate::Report;
use crate::direction::{Direction, Facts};
use kernel::clock;
use link::dama::Sample;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use units::{Duration, Instant, Rate};

/// A view of a running emulator, at most 50 ms old. Clones show the same emulator.
#[derive(Clone)]
pub struct Monitor {
    start: Instant,
    names: Arc<[String; 2]>,
    restart: Arc<Mutex<Restart>>,
    samples: Arc<Mutex<[Vec<Sample>; 2]>>,
    snapshot: Arc<Mutex<Snapshot>>,
}

/// The latest restart that was asked for.
#[derive(Default)]
struct Restart {
    at: Option<Instant>,
    /// Whether the emulator has yet to hear of it.
    is_pending: bool,
}

impl Monitor {
    /// Of an emulator made at `start` between the interfaces `names`, of which `snapshot` is known.
    pub(crate) fn new(start: Instant, names: [String; 2], snapshot: Snapshot) -> Self {
        Self {
            start,
            names: names.into(),
            restart: Arc::default(),
            samples: Arc::default(),
            snapshot: Arc::new(Mutex::new(snapshot)),
        }
    }

    /// What has happened so far; after the end of the run, what happened in it.
    pub fn report(&self) -> Report {
        let snapshot = self.lock().clone();
        let [first, second] = self.names.as_ref();
        Report {
            wall_s: snapshot.wall.as_secs_f64(),
            cpu_s: snapshot.cpu.as_secs_f64(),
            has_priority: snapshot.has_priority,
            up: snapshot.directions[0].report(first, second),
            down: snapshot.directions[1].report(second, first),
        }
    }

    /// The rates of the links (or carriers) up and down, as a modem knows them; `None` where packets take no time, or leave at
    /// recorded opportunities, or where each terminal has a link of its own.
    pub fn rates(&self) -> [Option<Rate>; 2] {
        self.lock().rates
    }

    /// How long the paths of the links up and down are: one each, or one for each terminal if they are distinguished.
    pub fn delays(&self) -> [Vec<Duration>; 2] {
        self.lock().delays.clone()
    }

    /// The smaller of both interfaces' MTUs; zero if the kernel does not say.
    pub fn mtu(&self) -> usize {
        self.lock().mtu
    }

    /// What the latest plan gives terminal number `terminal` of the carrier that goes up; `None` if there is none.
    pub fn allocated(&self, terminal: usize) -> Option<Rate> {
        self.lock().directions[0].terminals.get(terminal).map(|terminal| terminal.allocated)
    }

    /// What the terminals of the carriers up and down were given in superframes that are over, since it was last asked.
    pub fn take_samples(&self) -> [Vec<Sample>; 2] {
        std::mem::take(&mut *self.samples.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How long before it happens a restart is to be asked for.
    pub const RESTART_NOTICE: Duration = Duration::from_millis(150);

    /// Has the links begin again at `at`, which is at least [`Monitor::RESTART_NOTICE`] ahead: from then on schedules, random numbers,
    /// counters and samples are as if the emulator had been made at that time; `wall_s` and `cpu_s` of the report go on. What is then on
    /// its way arrives as it would have, and counts nowhere. A log of arrivals goes on: its replay does not know of restarts.
    pub fn restart(&self, at: Instant) {
        *self.restart.lock().unwrap_or_else(PoisonError::into_inner) = Restart { at: Some(at), is_pending: true };
    }

    /// When the links began again for the last time, or are to: the time 0 of schedules and superframes. `None` if they never did.
    pub fn latest_restart(&self) -> Option<Instant> {
        self.restart.lock().unwrap_or_else(PoisonError::into_inner).at
    }

    /// When the links are to begin again, if that was asked for since the last call.
    pub(crate) fn take_restart(&self) -> Option<Instant> {
        let mut restart = self.restart.lock().unwrap_or_else(PoisonError::into_inner);
        restart.at.filter(|_| std::mem::take(&mut restart.is_pending))
    }

    /// When the emulator was made: the samples' times count from the same clock.
    pub fn start(&self) -> Instant {
        self.start
    }

    /// Replaces the counters.
    pub(crate) fn publish(&self, snapshot: Snapshot) {
        *self.lock() = snapshot;
    }

    /// Updates what a modem reports, but not the counters.
    pub(crate) fn follow(&self, directions: &[Direction; 2]) {
        self.lock().follow(directions);
    }

    /// Moves the samples of the carriers here.
    pub(crate) fn collect_samples(&self, directions: &mut [Direction; 2]) {
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        for (direction, samples) in directions.iter_mut().zip(samples.iter_mut()) {
            direction.take_samples(samples);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Snapshot> {
        // Parts of a snapshot are replaced as a whole, so one that a panicking thread left is sound.
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The counters at one moment. Percentiles are computed by the reader, not by the loop.
#[derive(Clone)]
pub(crate) struct Snapshot {
    has_priority: bool,
    wall: Duration,
    cpu: Duration,
    directions: [Facts; 2],
    rates: [Option<Rate>; 2],
    delays: [Vec<Duration>; 2],
    mtu: usize,
}

impl Snapshot {
    pub(crate) fn take(directions: &[Direction; 2], has_priority: bool, wall: Duration, cpu: Duration) -> Self {
        let facts = directions.each_ref().map(Direction::facts);
        let (rates, delays) = Self::rates_and_delays(directions);
        let [up, down] = directions.each_ref().map(Direction::mtu);
        Self { has_priority, wall, cpu, directions: facts, rates, delays, mtu: up.min(down) }
    }

    /// Brings up to date what a modem reports, and leaves the counters.
    fn follow(&mut self, directions: &[Direction; 2]) {
        (self.rates, self.delays) = Self::rates_and_delays(directions);
        for (facts, direction) in self.directions.iter_mut().zip(directions) {
            facts.terminals = direction.terminals();
        }
    }

    fn rates_and_delays(directions: &[Direction; 2]) -> ([Option<Rate>; 2], [Vec<Duration>; 2]) {
        let now = clock::now();
        let rates = directions.each_ref().map(|direction| direction.rate(now).map(|(rate, _)| rate));
        (rates, directions.each_ref().map(|direction| direction.delays(now)))
    }
}
