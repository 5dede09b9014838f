//! Data Center TCP (RFC 8257): the window falls by the share of packets that the network marked.

use super::reno::Growth;
use super::{Ack, Control, Loss, Window};
use crate::config::Config;

/// The weight of a new share in the average (RFC 8257, section 4.2; `dctcp_shift_g` of Linux).
const GAIN: f64 = 1.0 / 16.0;
/// What a window is lowered to at least, in segments.
const LEAST: f64 = 2.0;

/// DCTCP's window: Reno's, but for its answer to marks.
#[derive(Debug)]
pub(super) struct Dctcp {
    growth: Growth,
    /// The average share of marked bytes. Begins at 1, so that the first mark halves the window (section 3.3).
    alpha: f64,
    acked: u64,
    marked: u64,
    /// What is counted is a window of data: that sent before this offset.
    window_end: u64,
}

impl Dctcp {
    pub(super) fn new(config: &Config) -> Self {
        Self { growth: Growth::new(config), alpha: 1.0, acked: 0, marked: 0, window_end: 0 }
    }

    /// Counts what was acknowledged, and takes the share of each window of data into the average (section 3.3).
    fn count(&mut self, ack: &Ack) {
        self.acked += ack.acked;
        self.marked += ack.marked;
        if ack.una <= self.window_end {
            return;
        }
        if self.acked > 0 {
            self.alpha += GAIN * (self.marked as f64 / self.acked as f64 - self.alpha);
        }
        (self.acked, self.marked, self.window_end) = (0, 0, ack.nxt);
    }
}

impl Control for Dctcp {
    fn on_ack(&mut self, ack: &Ack, window: &mut Window) {
        self.count(ack);
        self.growth.on_ack(ack, window);
    }

    fn grow(&mut self, ack: &Ack, window: &mut Window) {
        self.growth.grow(ack, window);
    }

    fn on_loss(&mut self, loss: &Loss, window: &mut Window) {
        self.growth.halve(loss, window);
    }

    fn on_marks(&mut self, _: &Loss, window: &mut Window) {
        self.growth.on_loss();
        window.cwnd = (window.cwnd * (1.0 - self.alpha / 2.0)).max(LEAST.min(window.cwnd));
        window.ssthresh = window.cwnd.max(LEAST);
    }

    fn on_timeout(&mut self, timeout: &Loss, window: &mut Window) {
        self.growth.collapse(timeout, window);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::testing::{MSS, ack};
    use crate::profile::Profile;

    fn dctcp() -> Dctcp {
        Dctcp::new(&Config::new(Profile::Rfc))
    }

    /// Acknowledges windows of ten segments, each of which `marked` arrived marked, and lowers the window where some did.
    fn run(control: &mut Dctcp, window: &mut Window, windows: u64, marked: u64) {
        let start = control.window_end;
        for segment in 0..10 * windows {
            let una = start + (segment + 1) * u64::from(MSS);
            let is_marked = segment % 10 < marked;
            let ack = Ack {
                una,
                nxt: una + 10 * u64::from(MSS),
                marked: if is_marked { u64::from(MSS) } else { 0 },
                ..ack(1)
            };
            control.on_ack(&ack, window);
        }
    }

    #[test]
    fn the_first_mark_halves_the_window() {
        let mut window = Window { cwnd: 20.0, ssthresh: f64::INFINITY };
        dctcp().on_marks(&ack(1).loss(20), &mut window);
        assert_eq!(window, Window { cwnd: 10.0, ssthresh: 10.0 });
    }

    #[test]
    fn the_window_falls_by_half_of_the_share_of_marks() {
        let mut control = dctcp();
        let mut window = Window { cwnd: 100.0, ssthresh: 1.0 };
        run(&mut control, &mut window, 200, 2);
        assert!((control.alpha - 0.2).abs() < 0.02, "{}", control.alpha);
        window = Window { cwnd: 100.0, ssthresh: 1.0 };
        control.on_marks(&ack(1).loss(100), &mut window);
        assert!((window.cwnd - 90.0).abs() < 1.0, "{window:?}");
        // Without marks the average dies away by 1/16 each window.
        let before = control.alpha;
        run(&mut control, &mut window, 16, 0);
        assert!((control.alpha / before - (15.0_f64 / 16.0).powi(16)).abs() < 0.06, "{}", control.alpha / before);
    }

    #[test]
    fn a_loss_halves_whatever_the_share_was() {
        let mut control = dctcp();
        let mut window = Window { cwnd: 20.0, ssthresh: 1.0 };
        run(&mut control, &mut window, 100, 0);
        window.cwnd = 20.0;
        control.on_loss(&ack(1).loss(20), &mut window);
        assert_eq!(window.ssthresh, 10.0);
    }

    #[test]
    fn the_window_does_not_fall_below_two_segments() {
        let mut window = Window { cwnd: 2.5, ssthresh: 1.0 };
        dctcp().on_marks(&ack(1).loss(2), &mut window);
        assert_eq!(window.cwnd, 2.0);
    }
}
