//! Hybla: on a long path the window grows as that of a reference connection with a short one (Caini and Firrincieli,
//! IJSCN 22(5), 2004).

use super::reno::Growth;
use super::{Ack, Control, Loss, LossState, Start, Window};
use crate::config::Config;
use crate::profile::Reading;
use units::{Duration, Instant, Rate};

/// The window of Hybla.
///
/// With `rho`, the round-trip time over the reference one, an acknowledged segment adds `2^rho - 1` in slow start and
/// `rho^2 / cwnd` after it. At 550 ms the former is four million segments, so slow start needs an end: `ssthresh` comes
/// from the configuration (a finite one, or the capacity), or, as the paper proposes, from the spacing of the first
/// acknowledgements (Hoe, SIGCOMM 1996), until which the window doubles. Later growth is paced.
///
/// In the profile of Linux (`tcp_hybla.c`) `rho` is a multiple of 1/8, an acknowledgement counts once however many
/// segments it covers, nothing is paced or estimated, and the growth is Reno's while anything is being repaired.
#[derive(Debug)]
pub(crate) struct Hybla {
    growth: Growth,
    reading: Reading,
    mss: f64,
    rtt0: f64,
    rho: f64,
    /// `2^rho - 1`.
    slow_start_gain: f64,
    /// The smoothed round-trip time of which `rho` was made.
    min_srtt: Duration,
    /// Bytes that fill the path, where the configuration knows.
    path: Option<f64>,
    train: Option<AckTrain>,
}

/// Acknowledgements of the first flight, which left back to back: their spacing is that of the bottleneck.
#[derive(Debug, Clone, Copy)]
struct AckTrain {
    start: Instant,
    bytes: u64,
    acks: u32,
}

impl Hybla {
    /// Larger exponents are cut off, as in Linux, and so are larger windows.
    const MAX_EXPONENT: f64 = 16.0;
    const MAX_WINDOW: f64 = 65_535.0;
    /// Acknowledgements whose spacing gives the bottleneck's rate.
    const TRAIN: u32 = 4;

    pub(crate) fn new(config: &Config) -> Self {
        Self {
            growth: Growth::new(config),
            reading: config.rules().reading,
            mss: f64::from(config.mss),
            rtt0: config.tuning.hybla_rtt0.as_secs_f64(),
            rho: 1.0,
            slow_start_gain: 1.0,
            min_srtt: Duration::MAX,
            path: config.capacity.map(|path| path.allocation.rate.bytes_in(path.rtt).as_u64() as f64),
            train: None,
        }
    }

    /// `rho` follows the smallest smoothed round-trip time.
    fn update_rho(&mut self, srtt: Duration) {
        if srtt.is_zero() || srtt >= self.min_srtt {
            return;
        }
        self.min_srtt = srtt;
        let rho = (srtt.as_secs_f64() / self.rtt0).max(1.0);
        self.rho = if self.reading == Reading::Linux { (rho * 8.0).floor() / 8.0 } else { rho };
        self.slow_start_gain = (self.rho.floor().min(Self::MAX_EXPONENT) + self.rho.fract()).exp2() - 1.0;
    }

    fn needs_train(&self, window: &Window) -> bool {
        self.reading == Reading::Specification && self.rho > 1.0 && window.ssthresh.is_infinite()
    }

    /// Sets `ssthresh` when the acknowledgements of the first flight have shown the bottleneck's rate.
    fn follow_train(&mut self, ack: &Ack, window: &mut Window) {
        let train = self.train.get_or_insert(AckTrain { start: ack.now, bytes: 0, acks: 0 });
        train.acks += 1;
        if train.acks > 1 {
            train.bytes += ack.acked;
        }
        let elapsed = ack.now.since(train.start).as_secs_f64();
        if train.acks >= Self::TRAIN && elapsed > 0.0 {
            let path = train.bytes as f64 / elapsed * ack.min_rtt.as_secs_f64();
            window.ssthresh = (path / f64::from(ack.mss)).max(2.0);
        }
    }
}

impl Control for Hybla {
    fn on_connected(&mut self, start: &Start, window: &mut Window) {
        let Some(rtt) = start.rtt else { return };
        self.update_rho(rtt);
        if self.reading == Reading::Linux {
            // `hybla_init` leaves `ssthresh` as a route or the metrics of earlier connections set it.
            window.cwnd = self.rho.floor();
            return;
        }
        window.cwnd = self.rho.max(window.cwnd);
        if window.ssthresh.is_finite() {
            window.ssthresh *= self.rho;
        } else if let Some(path) = self.path {
            window.ssthresh = (path / f64::from(start.mss)).max(2.0);
        }
    }

    fn on_ack(&mut self, ack: &Ack, window: &mut Window) {
        self.growth.on_ack(ack, window);
        self.update_rho(ack.srtt);
        if ack.acked > 0 && ack.state == LossState::Open && self.needs_train(window) {
            self.follow_train(ack, window);
        }
    }

    fn grow(&mut self, ack: &Ack, window: &mut Window) {
        if self.needs_train(window) || self.reading == Reading::Linux && ack.state != LossState::Open {
            let beyond = self.growth.slow_start(ack, window);
            self.growth.avoid_congestion(beyond, window);
            return;
        }
        let acked = if self.reading == Reading::Linux { 1.0 } else { self.growth.acked(ack) };
        if !window.in_slow_start() {
            // In fractions of a segment in Linux, too.
            window.cwnd += self.rho * self.rho * acked / window.cwnd;
        } else if self.rho > 1.0 {
            window.cwnd = (window.cwnd + acked * self.slow_start_gain).min(window.ssthresh);
        } else {
            let beyond = self.growth.slow_start(ack, window);
            self.growth.avoid_congestion(beyond, window);
        }
        window.cwnd = window.cwnd.min(Self::MAX_WINDOW);
    }

    fn on_loss(&mut self, loss: &Loss, window: &mut Window) {
        self.growth.halve(loss, window);
    }

    fn on_timeout(&mut self, timeout: &Loss, window: &mut Window) {
        self.growth.collapse(timeout, window);
    }

    /// A quarter above the window's own rate, so that pacing spreads bursts and does not limit.
    fn pacing_rate(&self, window: &Window) -> Option<Rate> {
        if self.reading == Reading::Linux || self.rho <= 1.0 || window.ssthresh.is_infinite() {
            return None;
        }
        let segments_per_second = 1.25 * window.cwnd / self.min_srtt.as_secs_f64();
        Some(Rate::from_bps((segments_per_second * 8.0 * self.mss) as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::reno::Reno;
    use crate::control::testing::{MSS, Path, ack};
    use crate::profile::Profile;

    fn config(ssthresh: f64) -> Config {
        Config { initial_ssthresh: ssthresh, mss: MSS, ..Config::new(Profile::Rfc) }
    }

    /// A path whose queue never fills.
    fn path(control: Box<dyn Control>, window: f64, ssthresh: f64, rtt: u64) -> Path {
        let mut path = Path::new(control, window, Duration::from_millis(rtt), 1e7);
        path.window = Window { cwnd: window, ssthresh };
        path
    }

    #[test]
    fn rho_is_22_at_550_ms_and_1_below_the_reference() {
        let mut control = Hybla::new(&config(100.0));
        control.update_rho(Duration::from_millis(550));
        assert!((control.rho - 22.0).abs() < 1e-9);
        control.update_rho(Duration::from_millis(10));
        assert_eq!((control.rho, control.slow_start_gain), (1.0, 1.0));
    }

    #[test]
    fn a_congestion_avoidance_round_at_550_ms_adds_484_segments() {
        let mut path = path(Box::new(Hybla::new(&config(10.0))), 20_000.0, 10.0, 550);
        path.round();
        let before = path.window.cwnd;
        let gain = path.round().cwnd - before;
        assert!((gain / 484.0 - 1.0).abs() < 0.03, "{gain}");
    }

    #[test]
    fn at_the_reference_round_trip_time_it_is_reno() {
        let mut hybla = path(Box::new(Hybla::new(&config(64.0))), 10.0, 64.0, 25);
        let mut reno = path(Box::new(Reno::new(&config(64.0))), 10.0, 64.0, 25);
        for round in 0..20 {
            assert!((hybla.round().cwnd - reno.round().cwnd).abs() < 0.5, "{round}");
        }
    }

    #[test]
    fn the_rate_rises_as_fast_at_550_ms_as_at_25_ms() {
        let slope = |rtt| {
            let seconds = rtt as f64 / 1e3;
            let mut path = path(Box::new(Hybla::new(&config(2.0))), 10_000.0 * seconds, 2.0, rtt);
            path.run(Duration::from_secs(2));
            let from = path.window.cwnd / seconds;
            path.run(Duration::from_secs(8));
            (path.window.cwnd / seconds - from) / 8.0
        };
        let (short, long) = (slope(25), slope(550));
        assert!((short / 1600.0 - 1.0).abs() < 0.05 && (long / short - 1.0).abs() < 0.05, "{short} {long}");
    }

    #[test]
    fn the_first_acknowledgements_give_the_end_of_slow_start() {
        let mut path = Path::new(Box::new(Hybla::new(&config(f64::INFINITY))), 10.0, Duration::from_millis(550), 500.0);
        path.round();
        assert!((path.window.ssthresh / 276.0 - 1.0).abs() < 0.05, "{:?}", path.window);
        path.round();
        path.round();
        assert!(path.window.cwnd >= path.window.ssthresh, "{:?}", path.window);
    }

    fn start(millis: u64) -> Start {
        let rtt = Some(Duration::from_millis(millis));
        Start { now: Instant::ZERO, mss: MSS, rtt, receive_window: 1 << 20, has_sack: true }
    }

    #[test]
    fn a_configured_ssthresh_is_that_of_the_reference_and_in_linux_stays() {
        for (profile, expected) in [(Profile::Rfc, 220.0), (Profile::Linux, 10.0)] {
            let mut window = Window { cwnd: 10.0, ssthresh: 10.0 };
            Hybla::new(&Config { profile, ..config(10.0) }).on_connected(&start(550), &mut window);
            assert_eq!((window.cwnd, window.ssthresh), (22.0, expected));
        }
    }

    #[test]
    fn linux_counts_an_acknowledgement_once_and_starts_at_rho_rounded_down() {
        let mut control = Hybla::new(&Config::new(Profile::Linux));
        let mut window = Window { cwnd: 10.0, ssthresh: 1.0 };
        control.on_connected(&start(60), &mut window);
        assert_eq!((window.cwnd, control.rho), (2.0, 2.375));
        window.cwnd = 100.0;
        control.grow(&ack(2), &mut window);
        assert!((window.cwnd - 100.0 - 2.375 * 2.375 / 100.0).abs() < 1e-9);
    }
}
