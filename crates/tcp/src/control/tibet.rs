//! TIBET: a window set after a loss by the bandwidth that the sender itself uses, as the ratio of the mean segment length
//! to the mean time between segments (Capone, Fratta and Martignon, IEEE TMC 3(2), 2004).

use super::reno::Growth;
use super::westwood::{LifetimeMin, bandwidth_window};
use super::{Ack, Control, Loss, Sent, Window};
use crate::config::Config;
use units::{Duration, Instant};

/// The window of TIBET, measuring departures, which compressed acknowledgements do not touch.
#[derive(Debug)]
pub(crate) struct Tibet {
    growth: Growth,
    bandwidth: UsedBandwidth,
    srtt: Duration,
    min_rtt: LifetimeMin,
}

/// The estimator. Length and interval are averaged apart: the mean of their ratios would be biased, and infinite for
/// segments that leave together.
#[derive(Debug, Clone, Copy)]
struct UsedBandwidth {
    /// The pole of the two averages.
    pole: f64,
    /// The time constant of the filter over their ratio, in seconds.
    time_constant: f64,
    last: Option<Instant>,
    /// Mean bytes and seconds; `None` before the second segment.
    means: Option<(f64, f64)>,
    /// Bytes per second.
    estimate: f64,
}

impl UsedBandwidth {
    fn new((pole, time_constant): (f64, Duration)) -> Self {
        Self { pole, time_constant: time_constant.as_secs_f64(), last: None, means: None, estimate: 0.0 }
    }

    fn on_sent(&mut self, now: Instant, bytes: u64) {
        let Some(last) = self.last.replace(now) else { return };
        let (length, interval) = (bytes as f64, now.since(last).as_secs_f64());
        let (mean_length, mean_interval) = match self.means {
            None => (length, interval),
            Some((mean_length, mean_interval)) => (
                self.pole * mean_length + (1.0 - self.pole) * length,
                self.pole * mean_interval + (1.0 - self.pole) * interval,
            ),
        };
        let is_first = self.means.replace((mean_length, mean_interval)).is_none_or(|(_, interval)| interval == 0.0);
        if mean_interval == 0.0 {
            return;
        }
        let ratio = mean_length / mean_interval;
        let memory = if is_first { 0.0 } else { (-interval / self.time_constant).exp() };
        self.estimate = (1.0 - memory) * ratio + memory * self.estimate;
    }
}

impl Tibet {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            growth: Growth::new(config),
            bandwidth: UsedBandwidth::new(config.tuning.tibet),
            srtt: Duration::ZERO,
            min_rtt: LifetimeMin::default(),
        }
    }
}

impl Control for Tibet {
    fn on_sent(&mut self, sent: &Sent) {
        self.bandwidth.on_sent(sent.now, sent.bytes);
    }

    /// A silence of the application counts as one round trip at most, so that it does not erase the estimate.
    fn on_idle(&mut self, _now: Instant, idle: Duration) {
        if let Some(last) = &mut self.bandwidth.last {
            *last += idle - self.srtt;
        }
    }

    fn on_ack(&mut self, ack: &Ack, window: &mut Window) {
        self.srtt = ack.srtt;
        self.min_rtt.update(ack.min_rtt);
        self.growth.on_ack(ack, window);
    }

    fn grow(&mut self, ack: &Ack, window: &mut Window) {
        let beyond = self.growth.slow_start(ack, window);
        self.growth.avoid_congestion(beyond, window);
    }

    /// A window that is smaller than the estimate stays as it is.
    fn on_loss(&mut self, loss: &Loss, window: &mut Window) {
        self.growth.on_loss();
        window.ssthresh = bandwidth_window(self.bandwidth.estimate, &self.min_rtt.of(loss)).min(window.cwnd).max(2.0);
    }

    fn forget_min_rtt(&mut self) {
        self.min_rtt.forget();
    }

    fn on_timeout(&mut self, timeout: &Loss, window: &mut Window) {
        self.growth.on_timeout();
        if timeout.expiries == 1 {
            window.ssthresh = bandwidth_window(self.bandwidth.estimate, &self.min_rtt.of(timeout));
        }
        window.cwnd = 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::testing::ack;
    use crate::profile::Profile;

    fn default_bandwidth() -> UsedBandwidth {
        UsedBandwidth::new(Config::new(Profile::Rfc).tuning.tibet)
    }

    fn at(millis: f64) -> Instant {
        Instant::from_nanos((millis * 1e6) as u64)
    }

    #[test]
    fn a_constant_stream_is_measured_exactly_from_its_second_segment() {
        let mut bandwidth = default_bandwidth();
        for k in 0..500 {
            bandwidth.on_sent(at(6.0 * f64::from(k)), 1500);
            if k > 0 {
                assert!((bandwidth.estimate * 8.0 - 2e6).abs() < 1.0, "{k} {}", bandwidth.estimate);
            }
        }
    }

    #[test]
    fn bursts_are_measured_at_their_mean_rate_and_twice_the_length_is_twice_the_rate() {
        let estimate = |length| {
            let mut bandwidth = default_bandwidth();
            let mut sum = 0.0;
            for burst in 0..200 {
                for _ in 0..10 {
                    bandwidth.on_sent(at(500.0 * f64::from(burst)), length);
                }
                sum += if burst >= 100 { bandwidth.estimate } else { 0.0 };
            }
            sum / 100.0 * 8.0
        };
        let mean = estimate(1500);
        let expected = 10.0 * 1500.0 * 8.0 / 0.5;
        // The ratio counts at the first segment of a burst, where the mean interval is at its longest: 4 % too low.
        assert!((mean / expected - 1.0).abs() < 0.05, "{mean} {expected}");
        assert!((estimate(3000) / mean - 2.0).abs() < 1e-9);
    }

    #[test]
    fn an_idle_application_does_not_erase_the_estimate() {
        let mut control = Tibet::new(&Config::new(Profile::Rfc));
        let mut window = Window { cwnd: 10.0, ssthresh: 10.0 };
        control.on_ack(&Ack { srtt: Duration::from_millis(500), ..ack(1) }, &mut window);
        let send = |control: &mut Tibet, millis| {
            control.bandwidth.on_sent(at(millis), 1500);
            control.bandwidth.estimate * 8.0
        };
        let before = (0..500).map(|k| send(&mut control, 6.0 * f64::from(k))).last().expect("some");
        control.on_idle(at(63_000.0), Duration::from_secs(60));
        let after = send(&mut control, 63_000.0);
        assert!(after > 0.6 * before, "{before} {after}");
    }
}
