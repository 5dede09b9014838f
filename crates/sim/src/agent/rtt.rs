//! Round-trip times of a flow: mean, spread and percentiles as they come.

use crate::RttReport;
use std::collections::BTreeMap;
use units::Duration;

/// Mean and spread (Welford 1962), and a histogram for percentiles.
#[derive(Debug, Clone, Default)]
pub(crate) struct RttStatistics {
    n: u64,
    min: f64,
    max: f64,
    mean: f64,
    squares: f64,
    /// How many times lie in each class, by its lower end in nanoseconds.
    classes: BTreeMap<u64, u64>,
}

impl RttStatistics {
    /// Leading bits of a time that tell its class: percentiles are right to one part in 4,096, and memory is bounded.
    const BITS: u32 = 12;

    pub(crate) fn add(&mut self, rtt: Duration) {
        let class = rtt.as_nanos();
        let dropped = (u64::BITS - class.leading_zeros()).saturating_sub(Self::BITS);
        *self.classes.entry(class >> dropped << dropped).or_default() += 1;
        let rtt = rtt.as_secs_f64();
        self.n += 1;
        self.min = if self.n == 1 { rtt } else { self.min.min(rtt) };
        self.max = self.max.max(rtt);
        let deviation = rtt - self.mean;
        self.mean += deviation / self.n as f64;
        self.squares += deviation * (rtt - self.mean);
    }

    /// Zero if there is none yet.
    pub(crate) fn longest(&self) -> Duration {
        Duration::from_secs_f64(self.max)
    }

    /// The least time that `share` of all times do not exceed (the nearest rank).
    fn percentile(&self, share: f64) -> f64 {
        let rank = (share * self.n as f64).ceil() as u64;
        let mut seen = 0;
        let class = self.classes.iter().find(|(_, count)| {
            seen += **count;
            seen >= rank
        });
        let rtt = class.map_or(self.max, |(class, _)| Duration::from_nanos(*class).as_secs_f64());
        rtt.clamp(self.min, self.max)
    }

    pub(crate) fn report(&self) -> Option<RttReport> {
        (self.n > 0).then(|| RttReport {
            min_s: self.min,
            mean_s: self.mean,
            max_s: self.max,
            stddev_s: (self.squares / self.n as f64).sqrt(),
            median_s: self.percentile(0.5),
            p95_s: self.percentile(0.95),
            p99_s: self.percentile(0.99),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_the_nearest_ranks_to_one_part_in_4096() {
        let mut statistics = RttStatistics::default();
        assert!(statistics.report().is_none());
        for ms in (1..=1000u64).rev() {
            statistics.add(Duration::from_millis(ms));
        }
        let report = statistics.report().unwrap();
        for (found, exact) in [(report.median_s, 0.5), (report.p95_s, 0.95), (report.p99_s, 0.99)] {
            assert!(found <= exact && found > exact * (1.0 - 1.0 / 2048.0), "{found} {exact}");
        }
        let mut alike = RttStatistics::default();
        (0..3).for_each(|_| alike.add(Duration::from_nanos(123_456_789)));
        let report = alike.report().unwrap();
        assert_eq!((report.median_s, report.p99_s), (report.min_s, report.max_s));
    }
}
