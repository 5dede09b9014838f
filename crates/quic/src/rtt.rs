//! Round-trip times (RFC 9002, section 5).

use units::{Duration, Instant};

/// Before the first sample (kInitialRtt).
const INITIAL: Duration = Duration::from_millis(333);
/// The granularity of timers (kGranularity).
pub(crate) const GRANULARITY: Duration = Duration::from_millis(1);

/// The estimate of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Rtt {
    first_sample_at: Option<Instant>,
    latest: Duration,
    min: Duration,
    smoothed: Duration,
    variance: Duration,
}

impl Rtt {
    pub(crate) fn new() -> Self {
        Self {
            first_sample_at: None,
            latest: Duration::ZERO,
            min: Duration::ZERO,
            smoothed: INITIAL,
            variance: INITIAL / 2,
        }
    }

    /// A packet's round trip took `latest`, of which its acknowledgement was kept back for `ack_delay`. Returns the sample without
    /// that.
    pub(crate) fn sample(&mut self, now: Instant, latest: Duration, ack_delay: Duration) -> Duration {
        self.latest = latest;
        if self.first_sample_at.is_none() {
            self.first_sample_at = Some(now);
            (self.min, self.smoothed, self.variance) = (latest, latest, latest / 2);
            return latest;
        }
        self.min = self.min.min(latest);
        let adjusted = if latest >= self.min + ack_delay { latest - ack_delay } else { latest };
        let deviation = self.smoothed.saturating_sub(adjusted).max(adjusted.saturating_sub(self.smoothed));
        self.variance = (self.variance * 3 + deviation) / 4;
        self.smoothed = (self.smoothed * 7 + adjusted) / 8;
        adjusted
    }

    /// Persistent congestion: the path may have changed (section 5.2).
    pub(crate) fn forget_min(&mut self) {
        self.min = self.latest;
    }

    /// When the first sample was taken.
    pub(crate) fn first_sample_at(&self) -> Option<Instant> {
        self.first_sample_at
    }

    /// The smoothed round-trip time, before the first sample what is assumed.
    pub(crate) fn smoothed(&self) -> Duration {
        self.smoothed
    }

    /// The same; zero before the first sample.
    pub(crate) fn measured(&self) -> Duration {
        if self.first_sample_at.is_some() { self.smoothed } else { Duration::ZERO }
    }

    /// The smallest; zero before the first sample.
    pub(crate) fn min(&self) -> Duration {
        self.min
    }

    /// Bounds what a later packet has shown to be lost (section 6.1.2).
    pub(crate) fn loss_delay(&self, threshold: f64) -> Duration {
        self.latest.max(self.smoothed).mul_f64(threshold).max(GRANULARITY)
    }

    /// The probe timeout without backoff and without the peer's delay (section 6.2.1).
    pub(crate) fn pto(&self) -> Duration {
        self.smoothed + (self.variance * 4).max(GRANULARITY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn before_the_first_sample_a_probe_waits_for_a_second() {
        assert_eq!(Rtt::new().pto(), ms(999));
    }

    #[test]
    fn samples_are_smoothed_without_the_delay_that_the_peer_reports() {
        let mut rtt = Rtt::new();
        assert_eq!(rtt.sample(Instant::ZERO, ms(100), ms(20)), ms(100), "of the first nothing is taken");
        assert_eq!((rtt.smoothed(), rtt.variance, rtt.min()), (ms(100), ms(50), ms(100)));
        assert_eq!(rtt.sample(Instant::ZERO, ms(140), ms(20)), ms(120));
        assert_eq!((rtt.smoothed(), rtt.variance), (Duration::from_micros(102_500), Duration::from_micros(42_500)));
        // A delay that would leave less than the minimum is not believed.
        assert_eq!(rtt.sample(Instant::ZERO, ms(110), ms(20)), ms(110));
    }

    #[test]
    fn the_minimum_starts_anew_where_the_path_may_have_changed() {
        let mut rtt = Rtt::new();
        rtt.sample(Instant::ZERO, ms(50), ms(0));
        rtt.sample(Instant::ZERO, ms(80), ms(0));
        assert_eq!(rtt.min(), ms(50));
        rtt.forget_min();
        assert_eq!(rtt.min(), ms(80));
    }

    #[test]
    fn a_packet_is_late_after_nine_eighths_of_the_longer_round_trip_time() {
        let mut rtt = Rtt::new();
        rtt.sample(Instant::ZERO, ms(80), ms(0));
        assert_eq!(rtt.loss_delay(9.0 / 8.0), ms(90));
        rtt.sample(Instant::ZERO, ms(160), ms(0));
        assert_eq!(rtt.loss_delay(9.0 / 8.0), ms(180));
        let mut short = Rtt::new();
        short.sample(Instant::ZERO, Duration::from_micros(10), ms(0));
        assert_eq!(short.loss_delay(9.0 / 8.0), GRANULARITY);
    }
}
