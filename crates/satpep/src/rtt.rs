//! Round-trip time (RFC 6298, section 2), and the waiting times that follow from it.

use units::Duration;

/// Smoothed round-trip time, its variation and its minimum.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RttEstimator {
    smoothed: Duration,
    variation: Duration,
    min: Duration,
    latest: Duration,
    measured: bool,
    /// No sample counts for more.
    most: Duration,
}

impl RttEstimator {
    /// The longest sample, or four times the expected round trip if that is longer: what takes longer is an outage, or held back by the peer.
    pub(crate) const LONGEST: Duration = Duration::from_secs(60);

    /// An estimator that trusts `expected` until the first sample.
    pub(crate) fn new(expected: Duration) -> Self {
        Self {
            smoothed: expected,
            variation: expected / 4,
            min: Duration::MAX,
            latest: expected,
            measured: false,
            most: Self::LONGEST.max(expected * 4),
        }
    }

    /// Takes a sample, the receiver's delay already taken off.
    pub(crate) fn sample(&mut self, rtt: Duration) {
        let rtt = rtt.min(self.most);
        self.min = self.min.min(rtt);
        self.latest = rtt;
        if self.measured {
            let deviation = self.smoothed.saturating_sub(rtt).max(rtt.saturating_sub(self.smoothed));
            self.variation = (self.variation * 3 + deviation) / 4;
            self.smoothed = (self.smoothed * 7 + rtt) / 8;
        } else {
            self.measured = true;
            self.smoothed = rtt;
            self.variation = rtt / 2;
        }
    }

    /// The smoothed round-trip time (the expected one before any sample).
    #[inline]
    pub(crate) fn smoothed(&self) -> Duration {
        self.smoothed
    }

    /// The least sample, if there was one.
    pub(crate) fn min(&self) -> Option<Duration> {
        self.measured.then_some(self.min)
    }

    /// The latest sample, if there was one.
    pub(crate) fn latest(&self) -> Option<Duration> {
        self.measured.then_some(self.latest)
    }

    /// How far samples vary.
    pub(crate) fn variation(&self) -> Duration {
        self.variation
    }

    /// How long an acknowledgement may take before it is overdue; `ack_delay` is what the receiver may wait.
    #[inline]
    pub(crate) fn probe_timeout(&self, ack_delay: Duration) -> Duration {
        self.smoothed + (self.variation * 4).max(Duration::from_millis(10)) + ack_delay
    }

    /// How long a receiver may hold an acknowledgement back: at most 32 in a round trip.
    #[inline]
    pub(crate) fn ack_delay(&self) -> Duration {
        (self.smoothed / 32).max(Duration::from_millis(1)).min(Duration::from_millis(25))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_rfc_6298() {
        let mut rtt = RttEstimator::new(Duration::from_millis(1));
        for expected_timeout in [1650, 1375, 1169, 1014] {
            rtt.sample(Duration::from_millis(550));
            let timeout = rtt.probe_timeout(Duration::ZERO).as_millis_f64();
            assert!((timeout - f64::from(expected_timeout)).abs() < 1.0, "{timeout}");
        }
    }

    #[test]
    fn an_acknowledgement_that_is_held_back_for_an_hour_counts_for_a_minute() {
        let mut rtt = RttEstimator::new(Duration::from_millis(600));
        rtt.sample(Duration::from_secs(3600));
        assert_eq!(rtt.smoothed(), RttEstimator::LONGEST);
        let mut rtt = RttEstimator::new(Duration::from_secs(30));
        rtt.sample(Duration::from_secs(3600));
        assert_eq!(rtt.smoothed(), Duration::from_secs(120));
    }

    #[test]
    fn acknowledgements_are_held_back_for_a_part_of_the_round_trip_within_bounds() {
        let delays = [1, 320, 600, 5000].map(|rtt| RttEstimator::new(Duration::from_millis(rtt)).ack_delay());
        assert_eq!(delays.map(|delay| delay.as_nanos() / 1000), [1000, 10_000, 18_750, 25_000]);
    }
}
