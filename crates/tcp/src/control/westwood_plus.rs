//! Westwood+: Westwood with one bandwidth sample each round trip, which compressed acknowledgements cannot inflate
//! (Grieco and Mascolo, ACM CCR 34(2), 2004; Linux's `tcp_westwood.c`).

use super::reno::Growth;
use super::westwood::{AckCounter, bandwidth_window};
use super::{Ack, Control, Loss, Window};
use crate::config::Config;
use units::{Duration, Instant};

/// The window of Westwood+ as in Linux: Reno's half during a recovery, and the bandwidth's window after it.
#[derive(Debug)]
pub(crate) struct WestwoodPlus {
    growth: Growth,
    counter: AckCounter,
    filter: Cascade,
    /// When the current sample began; `None` before the first acknowledgement.
    sample_start: Option<Instant>,
    sample_bytes: u64,
    rtt: Duration,
    min_rtt: Duration,
    /// A timeout: the path may have become longer, so the next round-trip time is the smallest.
    forgets_min_rtt: bool,
}

/// Two first-order filters in series, each with a gain of 1/8.
#[derive(Debug, Clone, Copy, Default)]
struct Cascade {
    first: f64,
    estimate: f64,
}

impl Cascade {
    fn take(&mut self, sample: f64) {
        if self.first == 0.0 && self.estimate == 0.0 {
            *self = Self { first: sample, estimate: sample };
        } else {
            self.first = (7.0 * self.first + sample) / 8.0;
            self.estimate = (7.0 * self.estimate + self.first) / 8.0;
        }
    }
}

impl WestwoodPlus {
    /// A sample takes a round trip, and at least this.
    const MIN_SAMPLE: Duration = Duration::from_millis(50);
    /// The round-trip time before the first measurement.
    const INITIAL_RTT: Duration = Duration::from_secs(20);

    pub(crate) fn new(config: &Config) -> Self {
        Self {
            growth: Growth::new(config),
            counter: AckCounter::default(),
            filter: Cascade::default(),
            sample_start: None,
            sample_bytes: 0,
            rtt: Self::INITIAL_RTT,
            min_rtt: Self::INITIAL_RTT,
            forgets_min_rtt: false,
        }
    }

    /// The window that the bandwidth fills, in whole segments as in Linux.
    fn window(&self, loss: &Loss) -> f64 {
        bandwidth_window(self.filter.estimate, &Loss { min_rtt: self.min_rtt, ..*loss }).floor()
    }

    fn update_min_rtt(&mut self, rtt: Duration) {
        self.rtt = rtt;
        self.min_rtt = if std::mem::take(&mut self.forgets_min_rtt) { rtt } else { self.min_rtt.min(rtt) };
    }
}

impl Control for WestwoodPlus {
    fn on_ack(&mut self, ack: &Ack, window: &mut Window) {
        self.growth.on_ack(ack, window);
        // Linux learns it before it looks whether a sample is complete (`tcp_ack` since 6.15).
        if let Some(rtt) = ack.rtt {
            self.update_min_rtt(rtt);
        }
        let start = *self.sample_start.get_or_insert(ack.now);
        let elapsed = ack.now.since(start);
        if elapsed > self.rtt.max(Self::MIN_SAMPLE) {
            self.filter.take(self.sample_bytes as f64 / elapsed.as_secs_f64());
            self.sample_start = Some(ack.now);
            self.sample_bytes = 0;
        }
        self.sample_bytes += self.counter.count(ack);
    }

    fn grow(&mut self, ack: &Ack, window: &mut Window) {
        let beyond = self.growth.slow_start(ack, window);
        self.growth.avoid_congestion(beyond, window);
    }

    fn on_loss(&mut self, loss: &Loss, window: &mut Window) {
        self.growth.halve(loss, window);
    }

    /// The window falls at once to where Linux has it at the end of its reduction (`CA_EVENT_COMPLETE_CWR`).
    fn on_marks(&mut self, marks: &Loss, window: &mut Window) {
        self.growth.on_loss();
        window.ssthresh = self.window(marks);
        window.cwnd = window.ssthresh;
    }

    fn on_recovered(&mut self, ack: &Ack, window: &mut Window) {
        let estimate = self.filter.estimate * self.min_rtt.as_secs_f64() / f64::from(ack.mss);
        window.ssthresh = estimate.floor().max(2.0);
        window.cwnd = window.ssthresh;
    }

    fn forget_min_rtt(&mut self) {
        self.forgets_min_rtt = true;
    }

    fn on_timeout(&mut self, timeout: &Loss, window: &mut Window) {
        self.growth.on_timeout();
        if self.growth.lowers_at(timeout) {
            window.ssthresh = self.window(timeout);
            self.forgets_min_rtt = true;
        }
        window.cwnd = 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::LossState;
    use crate::control::testing::{MSS, Path, ack};
    use crate::profile::Profile;

    #[test]
    fn the_cascade_starts_at_its_first_sample_and_follows_a_step() {
        let mut filter = Cascade::default();
        filter.take(100.0);
        for _ in 0..8 {
            filter.take(200.0);
        }
        assert!((filter.first - 165.639).abs() < 1e-3 && (filter.estimate - 131.278).abs() < 1e-3, "{filter:?}");
    }

    #[test]
    fn the_window_after_a_recovery_is_the_bandwidth_delay_product() {
        let control = WestwoodPlus::new(&Config::new(Profile::Linux));
        let mut path = Path::new(Box::new(control), 110.0, Duration::from_millis(500), 200.0);
        path.window.ssthresh = 2.0;
        path.run(Duration::from_secs(60));
        let at = ack(1);
        path.control.on_loss(&at.loss(path.flight() / 1000), &mut path.window);
        path.control.on_recovered(&at, &mut path.window);
        assert!((path.window.cwnd / 101.0 - 1.0).abs() < 0.1, "{:?}", path.window);
        assert_eq!(path.window.cwnd, path.window.ssthresh);
        assert_eq!(path.window.cwnd.fract(), 0.0, "whole segments");
    }

    #[test]
    fn marks_leave_the_bandwidth_delay_product_too() {
        let control = WestwoodPlus::new(&Config::new(Profile::Linux));
        let mut path = Path::new(Box::new(control), 140.0, Duration::from_millis(500), 200.0);
        path.window.ssthresh = 2.0;
        path.run(Duration::from_secs(20));
        path.control.on_marks(&ack(1).loss(path.flight() / 1000), &mut path.window);
        assert!((path.window.cwnd / 101.0 - 1.0).abs() < 0.1, "{:?}", path.window);
        assert_eq!(path.window.cwnd, path.window.ssthresh);
    }

    /// Linux 6.18 over `bentpipe lab`, 258 ms: the second window's first acknowledgement ends the first sample, of the ten
    /// segments of the first, as the round-trip time that it tells is the shorter one.
    #[test]
    fn a_sample_ends_with_the_acknowledgement_whose_round_trip_time_it_exceeds() {
        let mut control = WestwoodPlus::new(&Config::new(Profile::Linux));
        let mut window = Window { cwnd: 10.0, ssthresh: f64::INFINITY };
        let mut at = |micros, rtt| {
            let now = Instant::ZERO + Duration::from_micros(micros);
            control.on_ack(&Ack { now, rtt: Some(Duration::from_micros(rtt)), ..ack(1) }, &mut window);
            control.filter.estimate
        };
        for number in 0..10 {
            assert_eq!(at(263_692 + 1_571 * number, 259_961 + 420 * number), 0.0);
        }
        let estimate = at(523_609, 259_892);
        assert!((estimate - 10.0 * f64::from(MSS) / 0.259_917).abs() < 1.0, "{estimate}");
    }

    #[test]
    fn after_a_timeout_a_longer_path_is_believed() {
        let mut control = WestwoodPlus::new(&Config::new(Profile::Linux));
        let mut window = Window { cwnd: 10.0, ssthresh: 5.0 };
        let with_rtt = |millis| Ack { rtt: Some(Duration::from_millis(millis)), ..ack(1) };
        control.on_ack(&with_rtt(100), &mut window);
        control.on_ack(&with_rtt(300), &mut window);
        assert_eq!(control.min_rtt, Duration::from_millis(100));
        control.on_timeout(&Loss { expiries: 1, ..ack(1).loss(10) }, &mut window);
        control.on_ack(&with_rtt(300), &mut window);
        assert_eq!(control.min_rtt, Duration::from_millis(300));
    }

    /// `tcp_enter_loss` raises `CA_EVENT_LOSS` where it lowers `ssthresh`: not during a recovery of the same data, nor again.
    #[test]
    fn a_timeout_that_lowers_nothing_changes_nothing_but_the_window() {
        for (expiries, state) in [(1, LossState::Recovery), (2, LossState::Timeout)] {
            let mut control = WestwoodPlus::new(&Config::new(Profile::Linux));
            let mut window = Window { cwnd: 10.0, ssthresh: 5.0 };
            let with_rtt = |millis| Ack { rtt: Some(Duration::from_millis(millis)), ..ack(1) };
            control.on_ack(&with_rtt(100), &mut window);
            control.on_timeout(&Loss { expiries, state, ..ack(1).loss(10) }, &mut window);
            control.on_ack(&with_rtt(300), &mut window);
            assert_eq!(window, Window { cwnd: 1.0, ssthresh: 5.0 }, "{state:?}");
            assert_eq!(control.min_rtt, Duration::from_millis(100), "{state:?}");
        }
    }
}
