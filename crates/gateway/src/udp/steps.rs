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
    /// A look may come when so much of its step has passed, and while there are bursts it comes no later than after so much. Without
    /// bursts, looks share out evenly what is left until the transport's next timer, which is a wake in any case.
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
    /// `burst`: while bursts leave, the next wake is theirs, and what they are answered with waits for it. The next timer is `due` then.
    pub(crate) fn on_read(
        &mut self,
        now: Instant,
        step: Duration,
        datagrams: usize,
        burst: Instant,
        due: Option<Instant>,
    ) {
        let at_arrivals = Mode::AtArrivals { since: now, count: datagrams };
        let in_steps = |poor| {
            let step = Self::shared_out(now, step, due);
            Mode::InSteps { early: now + step.mul_f64(Self::EARLY), next: now + step, poor }
        };
        let is_worth_it = datagrams > 0 || matches!(self.0, Mode::InSteps { .. });
        let joins_bursts = is_worth_it && step > Duration::ZERO && now.since(burst) <= step.mul_f64(Self::LATE);
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

    /// About a step, so that a look comes when the timer is `due`.
    fn shared_out(now: Instant, step: Duration, due: Option<Instant>) -> Duration {
        let left = due.map_or(Duration::ZERO, |due| due.since(now));
        let steps = (left.as_secs_f64() / step.as_secs_f64()).round();
        // What is due much earlier is not worth a look.
        if steps < 1.0 { step } else { left.mul_f64(1.0 / steps) }
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
            steps.on_read(at(micros), STEP, 1, LONG_AGO, None);
            assert_eq!(steps.next(), None);
        }
        steps.on_read(at(22_000), STEP, 1, LONG_AGO, None);
        assert_eq!(steps.next(), Some(at(26_000)), "three in two milliseconds");
        assert!(!steps.may_read(at(24_999)) && steps.may_read(at(25_000)));
        steps.on_read(at(26_000), STEP, 3, LONG_AGO, None);
        for look in 0..3 {
            steps.on_read(at(30_000 + look * 4_000), STEP, 1, LONG_AGO, None);
            assert_eq!(steps.next(), Some(at(34_000 + look * 4_000)));
        }
        steps.on_read(at(42_000), STEP, 1, LONG_AGO, None);
        assert_eq!(steps.next(), None, "four that were not worth it");
    }

    #[test]
    fn nothing_waits_where_round_trips_are_short() {
        let mut steps = Steps::new();
        for micros in 0..100 {
            steps.on_read(at(micros), Duration::ZERO, 10, LONG_AGO, None);
            assert_eq!(steps.next(), None);
        }
        steps.on_read(at(100), STEP, 10, LONG_AGO, None);
        assert_eq!(steps.next(), Some(at(4_100)));
        steps.on_read(at(4_100), Duration::ZERO, 10, LONG_AGO, None);
        assert_eq!(steps.next(), None, "a peer that is near has come");
    }

    #[test]
    fn answers_to_bursts_are_read_with_the_next_burst() {
        let mut steps = Steps::new();
        // A burst each 3.6 ms, as of three packets at 10 Mbit/s, and one answer to each.
        for burst in (0..10).map(|burst| burst * 3_600) {
            if steps.next().is_none_or(|next| next <= at(burst)) || steps.may_read(at(burst)) {
                steps.on_read(at(burst), STEP, 1, at(burst), None);
            }
            assert_eq!(steps.next(), Some(at(burst + 5_000)), "no look of its own between bursts");
        }
        // The bursts have ended.
        for now in (0..4).map(|look| 37_401 + look * 4_000) {
            assert!(steps.next() <= Some(at(now)));
            steps.on_read(at(now), STEP, 1, at(32_400), None);
        }
        assert_eq!(steps.next(), None);
        steps.on_read(at(100_000), Duration::ZERO, 1, at(100_000), None);
        assert_eq!(steps.next(), None, "nothing waits where round trips are short");
    }

    #[test]
    fn looks_that_find_nothing_still_come_with_the_bursts() {
        let mut steps = Steps::new();
        // A burst each 4.5 ms, which is later than a look without bursts, and an answer to every third.
        for (index, burst) in (0..30).map(|burst| burst * 4_500).enumerate() {
            assert!(steps.may_read(at(burst)));
            steps.on_read(at(burst), STEP, usize::from(index % 3 == 0), at(burst.saturating_sub(4_500)), None);
            assert_eq!(steps.next(), Some(at(burst + 5_000)));
        }
    }

    #[test]
    fn a_look_comes_with_the_timer_that_is_due() {
        // Looks of 4 ms while acknowledgements are due each 7.5 ms, or 13 ms.
        for (every, looks) in [(7_500, 2), (13_000, 3), (3_000, 1)] {
            let (mut steps, mut now, mut count) = (Steps::new(), 0, 0);
            steps.on_read(at(now), STEP, 1, LONG_AGO, None);
            while now < 10 * every {
                let due = (now / every + 1) * every;
                steps.on_read(at(now), STEP, 5, LONG_AGO, Some(at(due)));
                let next = steps.next().unwrap();
                assert!(next <= at(due), "no timer of its own between looks");
                // Rounding may leave a little.
                now += next.since(at(now)).as_nanos().div_ceil(10_000) * 10;
                count += 1;
            }
            assert_eq!(count, 10 * looks);
        }
    }
}
