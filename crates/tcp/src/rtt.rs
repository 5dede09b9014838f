//! Round-trip times and the retransmission timeout (RFC 6298).

use crate::filter::WindowedMax;
use std::cmp::Reverse;
use units::{Duration, Instant};

/// The constants of the estimator and of the timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RttRules {
    /// The timeout before the first sample.
    pub initial_rto: Duration,
    /// The least timeout.
    pub min_rto: MinRto,
    /// The longest timeout, backed off or not.
    pub max_rto: Duration,
    /// The clock's granularity: samples are rounded up to it where it is not zero, and the variance term is at least it.
    pub granularity: Duration,
    /// Where samples come from.
    pub sampling: Sampling,
    /// For how long the smallest round-trip time counts: over a path that has become longer, a larger one takes its place then.
    pub min_window: Duration,
}

/// What the lower bound of the timeout applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MinRto {
    /// The timeout as a whole (RFC 6298, ns-2).
    Total(Duration),
    /// The variance term, so that the timeout is at least the smoothed round-trip time and this (Linux).
    VarianceTerm(Duration),
}

/// Which segments are timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampling {
    /// Every acknowledgement of a segment that was sent once.
    EverySegment,
    /// One segment at a time, in ticks (ns-2 without timestamps).
    OneAtATime,
}

impl RttRules {
    /// RFC 6298.
    pub fn rfc() -> Self {
        Self {
            initial_rto: Duration::from_secs(1),
            min_rto: MinRto::Total(Duration::from_secs(1)),
            max_rto: Duration::from_secs(60),
            granularity: Duration::ZERO,
            sampling: Sampling::EverySegment,
            // A window is asked for by RFC 8985 (section 6.2, step 1), and this is Linux's (`tcp_min_rtt_wlen`).
            min_window: Duration::from_secs(300),
        }
    }

    /// Linux 6.x: 200 ms at least on the variance term.
    pub fn linux() -> Self {
        Self {
            min_rto: MinRto::VarianceTerm(Duration::from_millis(200)),
            max_rto: Duration::from_secs(120),
            ..Self::rfc()
        }
    }

    /// ns-2 2.35: ticks of 10 ms, 3 s before the first sample, 200 ms at least.
    pub fn ns2() -> Self {
        Self {
            initial_rto: Duration::from_secs(3),
            min_rto: MinRto::Total(Duration::from_millis(200)),
            max_rto: Duration::from_secs(60),
            granularity: Duration::from_millis(10),
            sampling: Sampling::OneAtATime,
            min_window: Duration::MAX,
        }
    }

    /// A sample in seconds, in whole ticks.
    fn in_ticks(&self, rtt: Duration) -> f64 {
        let tick = self.granularity.as_nanos();
        if tick == 0 { rtt.as_secs_f64() } else { (rtt.as_nanos().div_ceil(tick) * tick) as f64 / 1e9 }
    }
}

/// The smoothed round-trip time, its variance and the timeout that follows. The rules, which connections share, are an
/// argument: each connection's own memory is small.
#[derive(Debug, Clone)]
pub struct RttEstimator {
    /// In seconds; not a number before the first sample.
    smoothed: f64,
    variance: f64,
    /// The variance that Linux uses.
    held: HeldVariance,
    /// `smoothed` as a duration, which is asked for more often than it changes; zero before the first sample.
    srtt: Duration,
    /// [`Duration::MAX`] before the first sample. Times are in milliseconds.
    min: WindowedMax<Reverse<Duration>, u32>,
    backoff: u32,
    rto: Duration,
}

/// Four times the variance, in seconds, as Linux keeps it for its timeout: it rises with the largest of a round trip at once
/// and falls by a quarter of the way each round trip (`tcp_rtt_estimator` of Linux 6.x).
#[derive(Debug, Clone, Copy)]
struct HeldVariance {
    term: f64,
    /// The largest of this round trip.
    largest: f64,
    /// The round trip ends when this is acknowledged.
    until: u64,
}

impl HeldVariance {
    /// `term` is the latest one and `least` the least timeout above the smoothed round-trip time.
    fn take(&mut self, term: f64, least: f64, una: u64, nxt: u64) {
        self.largest = self.largest.max(term);
        self.term = self.term.max(self.largest);
        if una > self.until {
            self.term -= (self.term - self.largest) / 4.0;
            *self = Self { term: self.term, largest: least, until: nxt };
        }
    }
}

impl RttEstimator {
    /// No sample yet.
    pub fn new(rules: &RttRules) -> Self {
        Self {
            smoothed: f64::NAN,
            variance: 0.0,
            held: HeldVariance { term: 0.0, largest: 0.0, until: 0 },
            srtt: Duration::ZERO,
            min: WindowedMax::new(0, Reverse(Duration::MAX)),
            backoff: 0,
            rto: rules.initial_rto,
        }
    }

    /// A segment's round trip took `rtt`, found by an acknowledgement of all before `una` when all before `nxt` was sent:
    /// updates the estimate (section 2 of RFC 6298) and ends any backoff.
    pub fn sample(&mut self, rules: &RttRules, rtt: Duration, una: u64, nxt: u64) {
        let rtt = rules.in_ticks(rtt);
        if self.smoothed.is_nan() {
            self.smoothed = rtt;
            self.variance = rtt / 2.0;
            self.held.until = nxt;
        } else {
            let error = ((self.smoothed - rtt).abs() - self.variance) / 4.0;
            // A round trip that has become much shorter is no reason to wait longer (the Eifel timer, in Linux).
            let is_gain = matches!(rules.min_rto, MinRto::VarianceTerm(_)) && rtt < self.smoothed && error > 0.0;
            self.variance += if is_gain { error / 8.0 } else { error };
            self.smoothed += (rtt - self.smoothed) / 8.0;
        }
        if let MinRto::VarianceTerm(least) = rules.min_rto {
            let least = least.as_secs_f64();
            self.held.take((4.0 * self.variance).max(least), least, una, nxt);
        }
        self.backoff = 0;
        self.update_rto(rules);
    }

    /// A round trip of `rtt` ended at `now`: it may be the smallest of [`RttRules::min_window`].
    pub fn sample_min(&mut self, rules: &RttRules, now: Instant, rtt: Duration) {
        let millis = |nanos: u64| nanos / 1_000_000;
        let now = u32::try_from(millis(now.as_nanos())).unwrap_or(u32::MAX);
        self.min.update(now, Reverse(rtt), millis(rules.min_window.as_nanos()));
    }

    fn update_rto(&mut self, rules: &RttRules) {
        let term = Duration::from_secs_f64(4.0 * self.variance).max(rules.granularity);
        self.srtt = Duration::from_secs_f64(self.smoothed);
        self.rto = match rules.min_rto {
            MinRto::Total(least) => (self.srtt + term).max(least),
            MinRto::VarianceTerm(_) => self.srtt + Duration::from_secs_f64(self.held.term),
        }
        .min(rules.max_rto);
    }

    /// The timer expired: twice the timeout from now on.
    pub fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(30);
    }

    /// The expiry was needless: the timeout is no longer backed off (RFC 4015, section 3.3).
    pub fn end_backoff(&mut self) {
        self.backoff = 0;
    }

    /// The handshake's segment was lost: data start from a longer timeout (RFC 6298, 5.7).
    pub fn restart_after_handshake_loss(&mut self, rto: Duration) {
        self.backoff = 0;
        if self.smoothed.is_nan() {
            self.rto = rto;
        }
    }

    /// How often in a row the timer has expired.
    pub fn backoff(&self) -> u32 {
        self.backoff
    }

    /// The timeout, backed off.
    pub fn rto(&self, rules: &RttRules) -> Duration {
        (self.rto * (1 << self.backoff)).min(rules.max_rto)
    }

    /// The smoothed round-trip time; zero before the first sample.
    pub fn srtt(&self) -> Duration {
        self.srtt
    }

    /// The variance; zero before the first sample.
    pub fn rttvar(&self) -> Duration {
        Duration::from_secs_f64(self.variance)
    }

    /// The smallest sample of [`RttRules::min_window`]; zero before the first.
    pub fn min_rtt(&self) -> Duration {
        let Reverse(min) = self.min.get();
        if min == Duration::MAX { Duration::ZERO } else { min }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The timeouts after so many samples, one each round trip.
    fn rtos(rules: RttRules, samples: u64) -> Vec<f64> {
        let mut rtt = RttEstimator::new(&rules);
        (0..samples)
            .map(|sent| {
                rtt.sample(&rules, Duration::from_millis(550), sent, sent + 1);
                rtt.rto(&rules).as_secs_f64()
            })
            .collect()
    }

    #[test]
    fn a_constant_round_trip_time_gives_the_timeouts_of_rfc_6298() {
        for (found, expected) in rtos(RttRules::rfc(), 4).into_iter().zip([1.650, 1.375, 1.168_75, 1.014_062_5]) {
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
        assert_eq!(rtos(RttRules::rfc(), 12)[11], 1.0);
    }

    #[test]
    fn linux_keeps_200_ms_above_the_smoothed_round_trip_time() {
        let rtos = rtos(RttRules::linux(), 120);
        assert!((rtos[119] - 0.75).abs() < 1e-4, "{rtos:?}");
    }

    /// From 1.65 s (three round trips) by a quarter of what is above 0.75 s, however many samples a round trip brings: over
    /// 550 ms Linux 6.18 still waited 1.25 s when 313 segments had been acknowledged.
    #[test]
    fn linux_lets_the_variance_fall_by_a_quarter_each_round_trip() {
        let rules = RttRules::linux();
        let mut rtt = RttEstimator::new(&rules);
        let mut found = Vec::new();
        for round in 0..6 {
            for segment in 0..20 {
                rtt.sample(&rules, Duration::from_millis(550), 20 * round + segment, 20 * (round + 1));
            }
            found.push((rtt.rto(&rules).as_secs_f64() * 1e3).round());
        }
        assert_eq!(found, [1650.0, 1650.0, 1425.0, 1256.0, 1130.0, 1035.0]);
    }

    #[test]
    fn ns2_comes_close_to_the_round_trip_time() {
        assert!((rtos(RttRules::ns2(), 12)[11] - 0.5965).abs() < 1e-3);
    }

    #[test]
    fn the_timeout_doubles_up_to_its_limit_and_a_sample_ends_that() {
        let rules = RttRules::rfc();
        let mut rtt = RttEstimator::new(&rules);
        rtt.back_off();
        assert_eq!(rtt.rto(&rules), Duration::from_secs(2));
        rtt.back_off();
        assert_eq!(rtt.rto(&rules), Duration::from_secs(4));
        for _ in 0..40 {
            rtt.back_off();
        }
        assert_eq!(rtt.rto(&rules), Duration::from_secs(60));
        rtt.sample(&rules, Duration::from_millis(550), 1, 2);
        assert_eq!(rtt.rto(&rules), Duration::from_millis(1650));
    }

    /// The smallest of samples once a second, of which those from 100 s on are three times as long, at so many seconds.
    fn min_at(rules: &RttRules, seconds: u64) -> Duration {
        let mut rtt = RttEstimator::new(rules);
        for second in 0..=seconds {
            let millis = if second < 100 { 40 } else { 120 };
            rtt.sample_min(rules, Instant::ZERO + Duration::from_secs(second), Duration::from_millis(millis));
        }
        rtt.min_rtt()
    }

    #[test]
    fn a_path_that_has_become_longer_is_believed_after_five_minutes() {
        let ms = Duration::from_millis;
        for rules in [RttRules::rfc(), RttRules::linux()] {
            assert_eq!([399, 400].map(|seconds| min_at(&rules, seconds)), [ms(40), ms(120)]);
        }
        assert_eq!(min_at(&RttRules::ns2(), 10_000), ms(40));
    }
}
