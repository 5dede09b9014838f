//! When the socket is read: at each arrival, or, while datagrams keep coming or are sent in bursts, in steps that take many at once.
//! Each wake costs more than a datagram does, so a look joins a burst that leaves at about its time.

use units::{Duration, Instant};

/// How the socket is read now.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    /// At each arrival; how many datagrams there were since when.
    AtArrivals { since: Instant, count: usize },
    /// At `next`, or from `early` on with what else there is to do; how many looks in a row have found little.
    InSteps { early: Instant, next: Instant, poor: u32 },
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
    /// A look may come when so much of its step has passed, and while there are bursts it comes no later than after so much.
    const EARLY: f64 = 0.75;
    const LATE: f64 = 1.25;

    pub(crate) fn new() -> Self {
        Self(Mode::AtArrivals { since: Instant::ZERO, count: 0 })
    }

    /// Whether it is time to read, if there is something.
    pub(crate) fn may_read(&self, now: Instant) -> bool {
        match self.0 {
            Mode::AtArrivals { .. } => true,
            Mode::InSteps { early, .. } => early <= now,
        }
    }

    /// When to read next at the latest, unless at the next arrival.
    pub(crate) fn next(&self) -> Option<Instant> {
        match self.0 {
            Mode::AtArrivals { .. } => None,
            Mode::InSteps { next, .. } => Some(next),
        }
    }

    /// So many datagrams were read, and what has arrived may wait for `step`, which is zero if it may not. The latest burst was sent at
    /// `burst`: while bursts leave, the next wake is theirs, and what they are answered with waits for it.
    pub(crate) fn on_read(&mut self, now: Instant, step: Duration, datagrams: usize, burst: Instant) {
        let at_arrivals = Mode::AtArrivals { since: now, count: datagrams };
        let in_steps = |poor| Mode::InSteps { early: now + step.mul_f64(Self::EARLY), next: now + step, poor };
        let joins_bursts = datagrams > 0 && step > Duration::ZERO && now.since(burst) <= step;
        let with_bursts =
            Mode::InSteps { early: now + step.mul_f64(Self::EARLY), next: now + step.mul_f64(Self::LATE), poor: 0 };
        self.0 = match self.0 {
            _ if joins_bursts => with_bursts,
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
    const LONG_AGO: Instant = Instant::ZERO;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(1_000_000_000 + micros * 1000)
    }

    #[test]
    fn what_keeps_coming_is_read_in_steps_and_what_does_not_at_once() {
        let mut steps = Steps::new();
        for micros in [0, 10_000, 20_000, 21_000] {
            steps.on_read(at(micros), STEP, 1, LONG_AGO);
            assert_eq!(steps.next(), None);
        }
        steps.on_read(at(22_000), STEP, 1, LONG_AGO);
        assert_eq!(steps.next(), Some(at(26_000)), "three in two milliseconds");
        assert!(!steps.may_read(at(24_999)) && steps.may_read(at(25_000)));
        steps.on_read(at(26_000), STEP, 3, LONG_AGO);
        for look in 0..3 {
            steps.on_read(at(30_000 + look * 4_000), STEP, 1, LONG_AGO);
            assert_eq!(steps.next(), Some(at(34_000 + look * 4_000)));
        }
        steps.on_read(at(42_000), STEP, 1, LONG_AGO);
        assert_eq!(steps.next(), None, "four that were not worth it");
    }

    #[test]
    fn nothing_waits_where_round_trips_are_short() {
        let mut steps = Steps::new();
        for micros in 0..100 {
            steps.on_read(at(micros), Duration::ZERO, 10, LONG_AGO);
            assert_eq!(steps.next(), None);
        }
        steps.on_read(at(100), STEP, 10, LONG_AGO);
        assert_eq!(steps.next(), Some(at(4_100)));
        steps.on_read(at(4_100), Duration::ZERO, 10, LONG_AGO);
        assert_eq!(steps.next(), None, "a peer that is near has come");
    }

    #[test]
    fn answers_to_bursts_are_read_with_the_next_burst() {
        let mut steps = Steps::new();
        // A burst each 3.6 ms, as of three packets at 10 Mbit/s, and one answer to each.
        for burst in (0..10).map(|burst| burst * 3_600) {
            if steps.next().is_none_or(|next| next <= at(burst)) || steps.may_read(at(burst)) {
                steps.on_read(at(burst), STEP, 1, at(burst));
            }
            assert_eq!(steps.next(), Some(at(burst + 5_000)), "no look of its own between bursts");
        }
        // The bursts have ended.
        for look in 0..4 {
            assert_eq!(steps.next(), Some(at(37_400 + look * 4_000)));
            steps.on_read(at(37_400 + look * 4_000), STEP, 1, at(32_400));
        }
        assert_eq!(steps.next(), None);
        steps.on_read(at(100_000), Duration::ZERO, 1, at(100_000));
        assert_eq!(steps.next(), None, "nothing waits where round trips are short");
    }
}
