//! Distributions of times, counted in buckets.

use units::Duration;

/// How many times fell into each bucket, and their sum. Counting allocates nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    bounds: &'static [Duration],
    counts: Box<[u64]>,
    sum: Duration,
}

impl Histogram {
    /// An empty one. Bucket `i` holds times above `bounds[i - 1]` up to and including `bounds[i]`; one more bucket holds longer times.
    pub fn new(bounds: &'static [Duration]) -> Self {
        debug_assert!(bounds.is_sorted(), "bounds ascend");
        Self { bounds, counts: vec![0; bounds.len() + 1].into(), sum: Duration::ZERO }
    }

    /// Counts `time`.
    pub fn record(&mut self, time: Duration) {
        self.counts[self.bounds.partition_point(|bound| *bound < time)] += 1;
        self.sum += time;
    }

    /// The upper bound of each bucket with its count. The last has no bound.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<Duration>, u64)> {
        self.bounds.iter().copied().map(Some).chain([None]).zip(self.counts.iter().copied())
    }

    /// How many times were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of the times.
    pub fn sum(&self) -> Duration {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: &[Duration] = &[Duration::from_millis(500), Duration::from_secs(1)];

    #[test]
    fn each_time_is_counted_in_the_bucket_that_ends_at_or_above_it() {
        let mut histogram = Histogram::new(BOUNDS);
        for millis in [0, 500, 501, 1000, 1001, 60_000] {
            histogram.record(Duration::from_millis(millis));
        }
        let counts: Vec<u64> = histogram.buckets().map(|(_, count)| count).collect();
        assert_eq!(counts, [2, 2, 2]);
        assert_eq!((histogram.count(), histogram.sum()), (6, Duration::from_millis(63_002)));
        assert_eq!(histogram.buckets().last(), Some((None, 2)));
    }
}
