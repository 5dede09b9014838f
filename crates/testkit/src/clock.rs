//! Virtual time, and clocks that differ from it.

use units::{Duration, Instant};

/// The time of a run. It moves from event to event.
#[derive(Debug, Clone)]
pub struct VirtualTime {
    now: Instant,
    /// Events since it last moved.
    rounds: u32,
}

/// Events at one time after which nodes only keep each other busy.
const MAX_ROUNDS: u32 = 10_000;

impl VirtualTime {
    /// The time of a run that begins at `now`.
    pub const fn starting_at(now: Instant) -> Self {
        Self { now, rounds: 0 }
    }

    /// The time.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Moves on to `next`, the time of the next event. A time that has passed means now.
    ///
    /// # Panics
    /// If 10,000 events follow one another at one time: the nodes keep each other busy.
    pub fn advance(&mut self, next: Instant) {
        self.rounds = if next > self.now { 0 } else { self.rounds + 1 };
        assert!(self.rounds < MAX_ROUNDS, "the nodes keep each other busy and time stands still at {:?}", self.now);
        self.now = self.now.max(next);
    }

    /// Moves on by `time` with nothing happening in between.
    pub fn skip(&mut self, time: Duration) {
        self.now += time;
    }
}

/// The clock of a node, which may be ahead of the run's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LocalClock {
    ahead: Duration,
}

impl LocalClock {
    /// What the clock shows at `now`.
    pub fn read(&self, now: Instant) -> Instant {
        now + self.ahead
    }

    /// The run's time at which the clock shows `local`.
    pub fn time_of(&self, local: Instant) -> Instant {
        local.before(self.ahead)
    }

    /// Sets the clock forward.
    pub fn jump(&mut self, by: Duration) {
        self.ahead += by;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_moves_to_what_comes_next_and_never_back() {
        let mut time = VirtualTime::starting_at(Instant::from_nanos(50));
        time.advance(Instant::from_nanos(80));
        time.advance(Instant::from_nanos(20));
        assert_eq!(time.now(), Instant::from_nanos(80));
        time.skip(Duration::from_nanos(5));
        assert_eq!(time.now(), Instant::from_nanos(85));
    }

    #[test]
    #[should_panic(expected = "time stands still")]
    fn nodes_that_keep_each_other_busy_are_told() {
        let mut time = VirtualTime::starting_at(Instant::ZERO);
        (0..10_000).for_each(|_| time.advance(Instant::ZERO));
    }

    #[test]
    fn a_clock_that_jumped_is_ahead_and_its_times_are_found_again() {
        let mut clock = LocalClock::default();
        let now = Instant::from_nanos(1_000);
        assert_eq!(clock.read(now), now);
        clock.jump(Duration::from_nanos(300));
        clock.jump(Duration::from_nanos(4));
        assert_eq!(clock.read(now), Instant::from_nanos(1_304));
        assert_eq!(clock.time_of(clock.read(now)), now);
    }
}
