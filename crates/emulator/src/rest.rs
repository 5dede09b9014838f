//! How much sleep the thread owes when it spins.

use units::{Duration, Instant};

/// The kernel stops a thread with a real-time priority for up to 50 ms once others have waited for its processor for a second
/// (sched-rt-group, "fair server"). A thread that spins sleeps before that: this share of the time that it is awake.
const AWAKE_PER_SLEEP: u64 = 4;
/// How much sleep may be put off, and how much is remembered.
const OWED: Duration = Duration::from_millis(1);
const OWED_MAX: Duration = Duration::from_millis(2);

/// The sleep that a thread owes.
#[derive(Debug)]
pub(crate) struct Rest {
    owed: Duration,
    awake_since: Instant,
}

impl Rest {
    pub(crate) fn new(now: Instant) -> Self {
        Self { owed: Duration::ZERO, awake_since: now }
    }

    /// Whether the thread should sleep where it could spin.
    pub(crate) fn is_overdue(&self) -> bool {
        self.owed >= OWED
    }

    /// The thread slept from `start` to `end`.
    pub(crate) fn slept(&mut self, start: Instant, end: Instant) {
        let owed = self.owed + start.since(self.awake_since) / AWAKE_PER_SLEEP;
        self.owed = owed.min(OWED_MAX).saturating_sub(end.since(start));
        self.awake_since = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_spins_whenever_it_may_sleeps_a_fifth_of_the_time() {
        let (span, sleep) = (Duration::from_secs(1), Duration::from_micros(20));
        let mut now = Instant::ZERO;
        let (mut rest, mut slept) = (Rest::new(now), Duration::ZERO);
        while now.since(Instant::ZERO) < span {
            now += Duration::from_micros(30);
            let end = if rest.is_overdue() { now + sleep } else { now };
            slept += end.since(now);
            rest.slept(now, end);
            now = end;
        }
        let share = slept.as_secs_f64() / span.as_secs_f64();
        assert!((0.19..0.21).contains(&share), "{share}");
    }

    #[test]
    fn sleep_is_not_saved_up_and_an_overload_is_soon_forgotten() {
        let after = |millis| Instant::ZERO + Duration::from_millis(millis);
        let mut rest = Rest::new(after(0));
        rest.slept(after(0), after(1000));
        rest.slept(after(1004), after(1004));
        assert!(rest.is_overdue(), "a second of sleep does not count for later");
        rest.slept(after(9000), after(9000));
        rest.slept(after(9000), after(9002));
        assert!(!rest.is_overdue());
    }
}
