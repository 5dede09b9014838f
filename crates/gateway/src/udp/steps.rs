//! When the socket is read: at each arrival, or, while datagrams keep coming, in steps that take many at once. Each wake costs more
//! than a datagram does.

use units::{Duration, Instant};

/// How the socket is read now.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    /// At each arrival; how many datagrams there were since when.
    AtArrivals { since: Instant, count: usize },
    /// Not before this time; how many looks in a row have found little.
    InSteps { next: Instant, poor: u32 },
}

/// Chooses between the two ways.
#[derive(Debug)]
pub(crate) struct Steps(Mode);

impl Steps {
    /// Steps begin with so many datagrams in the time of one.
    const BEGIN: usize = 3;
    /// They end after so many in a row that have found fewer than this.
    const POOR: u32 = 4;
    const WORTH: usize = 2;

    pub(crate) fn new() -> Self {
        Self(Mode::AtArrivals { since: Instant::ZERO, count: 0 })
    }

    /// Whether it is time to read, if there is something.
    pub(crate) fn may_read(&self, now: Instant) -> bool {
        self.next().is_none_or(|next| next <= now)
    }

    /// When to read next, unless at the next arrival.
    pub(crate) fn next(&self) -> Option<Instant> {
        match self.0 {
            Mode::AtArrivals { .. } => None,
            Mode::InSteps { next, .. } => Some(next),
        }
    }

    /// So many datagrams were read, and what has arrived may wait for `step`, which is zero if it may not.
    pub(crate) fn on_read(&mut self, now: Instant, step: Duration, datagrams: usize) {
        let at_arrivals = Mode::AtArrivals { since: now, count: datagrams };
        let in_steps = |poor| Mode::InSteps { next: now + step, poor };
        self.0 = match self.0 {
            Mode::AtArrivals { since, .. } if now.since(since) > step => at_arrivals,
            Mode::AtArrivals { count, .. } if count + datagrams >= Self::BEGIN && step > Duration::ZERO => in_steps(0),
            Mode::AtArrivals { since, count } => Mode::AtArrivals { since, count: count + datagrams },
            Mode::InSteps { .. } if step == Duration::ZERO => at_arrivals,
            Mode::InSteps { .. } if datagrams >= Self::WORTH => in_steps(0),
            Mode::InSteps { poor, .. } if poor + 1 < Self::POOR => in_steps(poor + 1),
            Mode::InSteps { .. } => at_arrivals,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(4);

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(1_000_000_000 + micros * 1000)
    }

    #[test]
    fn what_keeps_coming_is_read_in_steps_and_what_does_not_at_once() {
        let mut steps = Steps::new();
        for micros in [0, 10_000, 20_000, 21_000] {
            steps.on_read(at(micros), STEP, 1);
            assert_eq!(steps.next(), None);
        }
        steps.on_read(at(22_000), STEP, 1);
        assert_eq!(steps.next(), Some(at(26_000)), "three in two milliseconds");
        assert!(!steps.may_read(at(25_999)) && steps.may_read(at(26_000)));
        steps.on_read(at(26_000), STEP, 3);
        for look in 0..3 {
            steps.on_read(at(30_000 + look * 4_000), STEP, 1);
            assert_eq!(steps.next(), Some(at(34_000 + look * 4_000)));
        }
        steps.on_read(at(42_000), STEP, 1);
        assert_eq!(steps.next(), None, "four that were not worth it");
    }

    #[test]
    fn nothing_waits_where_round_trips_are_short() {
        let mut steps = Steps::new();
        for micros in 0..100 {
            steps.on_read(at(micros), Duration::ZERO, 10);
            assert_eq!(steps.next(), None);
        }
        steps.on_read(at(100), STEP, 10);
        assert_eq!(steps.next(), Some(at(4_100)));
        steps.on_read(at(4_100), Duration::ZERO, 10);
        assert_eq!(steps.next(), None, "a peer that is near has come");
    }
}
