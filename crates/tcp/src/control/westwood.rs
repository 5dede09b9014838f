//! Westwood: after a loss, the window that the measured bandwidth fills (Mascolo, Casetti, Gerla, Sanadidi and Wang,
//! MobiCom 2001).

use super::reno::Growth;
use super::{Ack, Control, Loss, Window};
use crate::config::Config;
use units::{Duration, Instant};

/// The window of Westwood.
#[derive(Debug)]
pub(crate) struct Westwood {
    growth: Growth,
    filter: Bilinear,
    counter: AckCounter,
    min_rtt: LifetimeMin,
}

/// The smallest round-trip time of a whole connection: that of Westwood and TIBET.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct LifetimeMin(Option<Duration>);

impl LifetimeMin {
    /// Takes a round-trip time; zero is none.
    pub(crate) fn update(&mut self, rtt: Duration) {
        if !rtt.is_zero() {
            self.0 = Some(self.0.map_or(rtt, |min| min.min(rtt)));
        }
    }

    pub(crate) fn forget(&mut self) {
        self.0 = None;
    }

    /// `loss`, with this as its smallest round-trip time.
    pub(crate) fn of(&mut self, loss: &Loss) -> Loss {
        self.update(loss.min_rtt);
        Loss { min_rtt: self.0.unwrap_or(Duration::ZERO), ..*loss }
    }
}

/// Bytes that an acknowledgement accounts for: a duplicate stands for one segment, and the cumulative acknowledgement
/// that follows does not count those again.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct AckCounter {
    accounted: u64,
}

impl AckCounter {
    pub(crate) fn count(&mut self, ack: &Ack) -> u64 {
        let mss = u64::from(ack.mss);
        if ack.is_duplicate && ack.opens_window {
            return 0;
        }
        if ack.is_duplicate {
            self.accounted += mss;
            return mss;
        }
        if ack.acked <= mss {
            return ack.acked;
        }
        if self.accounted >= ack.acked {
            self.accounted -= ack.acked;
            return mss;
        }
        ack.acked - std::mem::take(&mut self.accounted)
    }
}

/// The low-pass filter: the bilinear transform of a first-order one, with a coefficient that follows the time between
/// acknowledgements. Where none come, it takes samples of zero each half of its time constant.
#[derive(Debug, Clone, Copy)]
struct Bilinear {
    tau: f64,
    last: Option<Instant>,
    /// Bytes of acknowledgements at the very instant of the last sample, to be counted in the next one.
    carried: u64,
    /// Bytes per second.
    sample: f64,
    estimate: f64,
}

impl Bilinear {
    /// Samples of zero come every `tau / VIRTUAL`.
    const VIRTUAL: f64 = 2.0;

    fn new(tau: Duration) -> Self {
        Self { tau: tau.as_secs_f64(), last: None, carried: 0, sample: 0.0, estimate: 0.0 }
    }

    fn coefficient(&self, interval: f64) -> f64 {
        (2.0 * self.tau - interval) / (2.0 * self.tau + interval)
    }

    fn take(&mut self, interval: f64, sample: f64) {
        let a = self.coefficient(interval);
        self.estimate = a * self.estimate + (1.0 - a) * (sample + self.sample) / 2.0;
        self.sample = sample;
    }

    fn on_bytes(&mut self, now: Instant, bytes: u64) {
        let interval = self.rest_after_virtual_samples(now);
        match interval {
            Some(interval) if interval > 0.0 => {
                self.take(interval, (self.carried + bytes) as f64 / interval);
                self.carried = 0;
                self.last = Some(now);
            }
            Some(_) => self.carried += bytes,
            None => self.last = Some(now),
        }
    }

    /// Takes the samples of zero that are due by `now`; gives the time since the last sample in seconds, if there is one.
    fn rest_after_virtual_samples(&mut self, now: Instant) -> Option<f64> {
        let last = self.last?;
        let interval = now.since(last).as_secs_f64();
        let step = self.tau / Self::VIRTUAL;
        let due = (interval / step).floor();
        if due < 1.0 {
            return Some(interval);
        }
        self.take(step, 0.0);
        self.estimate *= self.coefficient(step).powi(due.min(1e6) as i32 - 1);
        self.last = Some(last + Duration::from_secs_f64(due * step));
        Some(interval - due * step)
    }
}

/// The window that `bandwidth` (bytes per second) fills over the smallest round-trip time, at least two segments.
pub(crate) fn bandwidth_window(bandwidth: f64, loss: &Loss) -> f64 {
    (bandwidth * loss.min_rtt.as_secs_f64() / f64::from(loss.mss)).max(2.0)
}

impl Westwood {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            growth: Growth::new(config),
            filter: Bilinear::new(config.tuning.westwood_tau),
            counter: AckCounter::default(),
            min_rtt: LifetimeMin::default(),
        }
    }
}

impl Control for Westwood {
    fn on_ack(&mut self, ack: &Ack, window: &mut Window) {
        self.growth.on_ack(ack, window);
        self.min_rtt.update(ack.min_rtt);
        let bytes = self.counter.count(ack);
        if bytes > 0 {
            self.filter.on_bytes(ack.now, bytes);
        }
    }

    fn grow(&mut self, ack: &Ack, window: &mut Window) {
        let beyond = self.growth.slow_start(ack, window);
        self.growth.avoid_congestion(beyond, window);
    }

    /// A window that is smaller than the estimate stays as it is.
    fn on_loss(&mut self, loss: &Loss, window: &mut Window) {
        self.growth.on_loss();
        window.ssthresh = bandwidth_window(self.filter.estimate, &self.min_rtt.of(loss)).min(window.cwnd).max(2.0);
    }

    fn forget_min_rtt(&mut self) {
        self.min_rtt.forget();
    }

    fn on_timeout(&mut self, timeout: &Loss, window: &mut Window) {
        self.growth.on_timeout();
        self.filter.rest_after_virtual_samples(timeout.now);
        if timeout.expiries == 1 {
            window.ssthresh = bandwidth_window(self.filter.estimate, &self.min_rtt.of(timeout));
        }
        window.cwnd = 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::testing::{MSS, Path, ack, duplicate};
    use crate::profile::Profile;

    fn westwood() -> Westwood {
        Westwood::new(&Config::new(Profile::Rfc))
    }

    #[test]
    fn the_coefficient_follows_the_interval() {
        let filter = Bilinear::new(Duration::from_millis(500));
        assert!((filter.coefficient(0.006) - 0.988_071_6).abs() < 1e-6);
        assert!((filter.coefficient(0.1) - 0.818_181_8).abs() < 1e-6);
    }

    #[test]
    fn duplicates_count_one_segment_each_and_the_acknowledgement_after_them_the_rest() {
        let mut counter = AckCounter::default();
        for _ in 0..3 {
            assert_eq!(counter.count(&duplicate()), 1000);
        }
        // Five segments, three of which the duplicates stood for.
        assert_eq!(counter.count(&ack(5)), 2000);
        assert_eq!(counter.count(&ack(1)), 1000);
        for _ in 0..4 {
            counter.count(&duplicate());
        }
        assert_eq!(counter.count(&ack(2)), 1000);
        assert_eq!(counter.count(&ack(4)), 2000);
    }

    /// `CA_ACK_WIN_UPDATE` of Linux: a duplicate that opens the window is none.
    #[test]
    fn an_update_of_the_window_is_no_duplicate() {
        let mut counter = AckCounter::default();
        assert_eq!(counter.count(&Ack { opens_window: true, ..duplicate() }), 0);
        assert_eq!(counter.count(&ack(2)), 2000);
    }

    #[test]
    fn a_constant_stream_is_measured_at_its_rate_and_a_silence_lowers_the_estimate() {
        let mut control = westwood();
        let mut window = Window { cwnd: 10.0, ssthresh: 1.0 };
        for k in 0..1000 {
            control.on_ack(&ack(1).at_millis(f64::from(k) * 5.0), &mut window);
        }
        let rate = control.filter.estimate;
        assert!((rate / 200e3 - 1.0).abs() < 1e-3, "{rate}");
        control.filter.rest_after_virtual_samples(Instant::from_nanos(7_000_000_000));
        assert!(control.filter.estimate < 0.05 * rate, "{}", control.filter.estimate);
    }

    #[test]
    fn acknowledgements_at_one_instant_count_as_one_sample_and_the_estimate_stays_finite() {
        let mut control = westwood();
        let mut window = Window { cwnd: 10.0, ssthresh: 1.0 };
        for burst in 0..200 {
            for _ in 0..10 {
                control.on_ack(&ack(1).at_millis(f64::from(burst) * 100.0), &mut window);
            }
        }
        let rate = control.filter.estimate;
        assert!((rate / 100e3 - 1.0).abs() < 0.05, "{rate}");
    }

    #[test]
    fn a_random_loss_at_full_use_without_a_queue_leaves_the_window_at_the_bandwidth_delay_product() {
        let mut config = Config::new(Profile::Rfc);
        config.mss = MSS;
        let mut path = Path::new(Box::new(Westwood::new(&config)), 110.0, Duration::from_millis(500), 200.0);
        path.window.ssthresh = 2.0;
        path.run(Duration::from_secs(10));
        let loss = Loss { min_rtt: Duration::from_millis(505), now: path.now, ..ack(1).loss(path.flight() / 1000) };
        path.control.on_loss(&loss, &mut path.window);
        assert!((path.window.ssthresh / 101.0 - 1.0).abs() < 0.1, "{:?}", path.window);
    }

    /// "The smallest round-trip time observed over the duration of the connection" (Mascolo et al.), though the one of late is larger.
    #[test]
    fn the_smallest_round_trip_time_is_that_of_the_whole_connection() {
        let min_rtt = |millis| Duration::from_millis(millis);
        for timeout in [false, true] {
            let mut control = westwood();
            let mut window = Window { cwnd: 100.0, ssthresh: 2.0 };
            control.filter.estimate = 100.0 * f64::from(MSS);
            [100, 300].into_iter().for_each(|millis| {
                control.on_ack(&Ack { acked: 0, min_rtt: min_rtt(millis), ..ack(1) }, &mut window);
            });
            let loss = Loss { expiries: 1, min_rtt: min_rtt(300), ..ack(1).loss(100) };
            if timeout {
                control.on_timeout(&loss, &mut window)
            } else {
                control.on_loss(&loss, &mut window)
            }
            assert!((window.ssthresh - 10.0).abs() < 1e-9, "{timeout} {window:?}");
        }
    }
}
