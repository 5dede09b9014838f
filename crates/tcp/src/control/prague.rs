//! Prague (draft-briscoe-iccrg-prague-congestion-control): DCTCP's answer to the share of marked packets, for queues that mark early
//! (RFC 9331), paced, and no faster for a round-trip time below 25 ms.

use super::reno::Growth;
use super::{Ack, Control, Loss, Window};
use crate::config::Config;
use units::{Duration, Instant, Rate};

/// The weight of a new share in the average (section 2.4.2).
const GAIN: f64 = 1.0 / 16.0;
/// Of a shorter round-trip time a flow behaves as if it were this (section 2.4.4).
const VIRTUAL_RTT: Duration = Duration::from_millis(25);
/// What a window is lowered to at least, in segments.
const LEAST: f64 = 2.0;
/// So many times the window leaves in a round trip of slow start; else once, since bursts would be marked.
const SLOW_START_RATIO: f64 = 2.0;

/// Prague's window.
#[derive(Debug)]
pub(super) struct Prague {
    growth: Growth,
    mss: f64,
    /// The average share of marked bytes. Begins at 1, so that the first mark halves the window.
    alpha: f64,
    delivered: u64,
    marked: u64,
    /// The share is taken of what arrives from here on until a virtual round trip has passed and this is acknowledged.
    since: Instant,
    round_end: u64,
    /// The latest answer to marks.
    reduced_at: Option<Instant>,
    srtt: Duration,
}

impl Prague {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            growth: Growth::new(config),
            mss: f64::from(config.mss),
            alpha: 1.0,
            delivered: 0,
            marked: 0,
            since: Instant::ZERO,
            round_end: 0,
            reduced_at: None,
            srtt: Duration::ZERO,
        }
    }

    /// Counts what was delivered, and takes the share of each virtual round trip into the average.
    fn count(&mut self, ack: &Ack) {
        self.delivered += ack.delivered;
        self.marked += ack.marked;
        if ack.una <= self.round_end || ack.now.since(self.since) < VIRTUAL_RTT {
            return;
        }
        // Before the first mark there is nothing to average: it is to find 1.
        if self.delivered > 0 && (self.reduced_at.is_some() || self.marked > 0) {
            self.alpha += GAIN * (self.marked as f64 / self.delivered as f64 - self.alpha);
        }
        (self.delivered, self.marked, self.since, self.round_end) = (0, 0, ack.now, ack.nxt);
    }

    /// What is left of a segment's growth in a round trip: as much for each second as a flow over [`VIRTUAL_RTT`] has for each of its own.
    fn scale(&self) -> f64 {
        if self.srtt.is_zero() {
            return 1.0;
        }
        let ratio = self.srtt.as_secs_f64() / VIRTUAL_RTT.as_secs_f64();
        ratio.min(1.0).powi(2)
    }
}

impl Control for Prague {
    fn on_ack(&mut self, ack: &Ack, window: &mut Window) {
        self.srtt = ack.srtt;
        self.count(ack);
        self.growth.on_ack(ack, window);
    }

    fn grow(&mut self, ack: &Ack, window: &mut Window) {
        let beyond = self.growth.slow_start(ack, window);
        if beyond > 0.0 {
            window.cwnd += beyond * self.scale() / window.cwnd;
        }
    }

    fn on_loss(&mut self, loss: &Loss, window: &mut Window) {
        self.growth.halve(loss, window);
    }

    /// Once in a virtual round trip, however many real ones that is.
    fn answers_marks(&self, now: Instant) -> bool {
        self.reduced_at.is_none_or(|at| now.since(at) >= VIRTUAL_RTT)
    }

    fn on_marks(&mut self, marks: &Loss, window: &mut Window) {
        self.reduced_at = Some(marks.now);
        self.growth.on_loss();
        window.cwnd = (window.cwnd * (1.0 - self.alpha / 2.0)).max(LEAST.min(window.cwnd));
        window.ssthresh = window.cwnd.max(LEAST);
    }

    /// A window lives with marks all the time: all that arrives unmarked lets it grow (`prague_update_cwnd` of TCP Prague for Linux).
    fn grows_beside_marks(&self) -> bool {
        true
    }

    fn on_timeout(&mut self, timeout: &Loss, window: &mut Window) {
        self.growth.collapse(timeout, window);
    }

    fn pacing_rate(&self, window: &Window) -> Option<Rate> {
        let srtt = self.srtt.as_secs_f64();
        let ratio = if window.cwnd < window.ssthresh / 2.0 { SLOW_START_RATIO } else { 1.0 };
        (srtt > 0.0).then(|| Rate::from_bps((ratio * window.cwnd * self.mss * 8.0 / srtt) as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::testing::{MSS, ack};
    use crate::profile::Profile;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn prague() -> Prague {
        Prague::new(&Config { mss: MSS, ..Config::new(Profile::Rfc) })
    }

    /// Acknowledges windows of ten segments over `rtt`, `marked` of each marked; every window that is, is answered.
    fn run(control: &mut Prague, window: &mut Window, windows: u64, marked: u64, rtt: Duration) {
        let (mut una, mut now) = (control.round_end, control.since);
        for segment in 0..10 * windows {
            (una, now) = (una + u64::from(MSS), now + rtt / 10);
            let is_marked = segment % 10 < marked;
            let marked = if is_marked { u64::from(MSS) } else { 0 };
            let ack = Ack { una, nxt: una + 10 * u64::from(MSS), marked, now, srtt: rtt, ..ack(1) };
            control.on_ack(&ack, window);
            if segment % 10 == 0 && is_marked {
                control.on_marks(&ack.loss(10), window);
                window.cwnd = 100.0;
            }
        }
    }

    #[test]
    fn the_first_mark_halves_the_window_however_long_there_was_none() {
        let (mut control, mut window) = (prague(), Window { cwnd: 20.0, ssthresh: f64::INFINITY });
        run(&mut control, &mut window, 50, 0, MS(50));
        control.on_marks(&ack(1).loss(20), &mut window);
        assert_eq!(window, Window { cwnd: 10.0, ssthresh: 10.0 });
    }

    #[test]
    fn the_window_falls_by_half_of_the_share_of_marks() {
        let (mut control, mut window) = (prague(), Window { cwnd: 100.0, ssthresh: 2.0 });
        run(&mut control, &mut window, 300, 2, MS(50));
        assert!((control.alpha - 0.2).abs() < 0.03, "{}", control.alpha);
        control.reduced_at = None;
        window.cwnd = 100.0;
        control.on_marks(&ack(1).at_millis(1e6).loss(100), &mut window);
        assert!((window.cwnd - 90.0).abs() < 1.5, "{window:?}");
    }

    #[test]
    fn a_short_round_trip_time_grows_and_falls_as_one_of_25_ms() {
        let mut control = prague();
        for (rtt, expected) in [(100, 1.0), (25, 1.0), (5, 0.04)] {
            control.srtt = MS(rtt);
            assert!((control.scale() - expected).abs() < 1e-9, "{rtt}");
        }
        let mut window = Window { cwnd: 100.0, ssthresh: 2.0 };
        control.on_marks(&ack(1).at_millis(100.0).loss(100), &mut window);
        let answers = [101, 124, 125].map(|millis| control.answers_marks(Instant::ZERO + MS(millis)));
        assert_eq!(answers, [false, false, true], "a virtual round trip must have passed");
    }

    #[test]
    fn a_loss_halves_whatever_the_share_was() {
        let (mut control, mut window) = (prague(), Window { cwnd: 20.0, ssthresh: 2.0 });
        control.alpha = 0.01;
        control.on_loss(&ack(1).loss(20), &mut window);
        assert_eq!(window.ssthresh, 10.0);
    }

    #[test]
    fn a_window_leaves_in_a_round_trip_and_twice_in_slow_start() {
        let mut control = prague();
        control.srtt = MS(100);
        let rate = |ssthresh| control.pacing_rate(&Window { cwnd: 10.0, ssthresh }).map(Rate::as_bps);
        assert_eq!((rate(10.0), rate(f64::INFINITY)), (Some(800_000), Some(1_600_000)));
    }
}
