//! A gateway whose processor is busy with something else at times.

use units::{CounterRandom, Duration, Instant};

/// Stalls at random, whatever the traffic: each lasts up to the longest, uniformly, and between two of them lies, exponentially,
/// the longest in the mean. The gateway is stalled for a third of the time.
#[derive(Debug)]
pub(super) struct Stalls {
    longest: Duration,
    random: CounterRandom,
    /// The latest stall that was drawn.
    begins: Instant,
    ends: Instant,
}

impl Stalls {
    /// None if `longest` is zero.
    pub(super) fn new(longest: Duration, random: CounterRandom) -> Self {
        Self { longest, random, begins: Instant::ZERO, ends: Instant::ZERO }
    }

    /// When the stall ends in which the gateway is at `now`, if it is in one. Times must not fall.
    pub(super) fn end(&mut self, now: Instant) -> Option<Instant> {
        if self.longest.is_zero() {
            return None;
        }
        while self.ends <= now {
            let [gap, length] = [(); 2].map(|()| self.random.next_u64() as f64 / 2f64.powi(64));
            self.begins = self.ends + self.longest.mul_f64(-(1.0 - gap).ln());
            // Above zero, so that time goes on.
            self.ends = self.begins + self.longest.mul_f64(length) + Duration::from_nanos(1);
        }
        (self.begins <= now).then_some(self.ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_take_a_third_of_the_time_and_none_is_longer_than_the_longest() {
        let longest = Duration::from_millis(10);
        let mut stalls = Stalls::new(longest, CounterRandom::new(1, 2));
        let times = (0..1_000_000).map(|step| Instant::ZERO + Duration::from_micros(step * 100));
        let left: Vec<_> = times.filter_map(|now| stalls.end(now).map(|end| end.since(now))).collect();
        assert!(left.iter().all(|left| *left <= longest + Duration::from_nanos(1)));
        let share = left.len() as f64 / 1e6;
        assert!((share - 1.0 / 3.0).abs() < 0.02, "{share}");
        assert_eq!(Stalls::new(Duration::ZERO, CounterRandom::new(1, 2)).end(Instant::FAR_FUTURE), None);
    }
}
