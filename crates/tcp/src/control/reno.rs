//! Reno's window: slow start and congestion avoidance (RFC 5681), halved at a loss.

use super::{Ack, Control, ControlKind, Loss, Window};
use crate::config::Config;

/// Additive increase, multiplicative decrease.
pub const KIND: ControlKind = ControlKind {
    name: "reno",
    about: "slow start, one segment more each round trip, half at a loss (RFC 5681)",
    new: |config| Box::new(Reno::new(config)),
};

/// The window of RFC 5681.
#[derive(Debug)]
pub(crate) struct Reno {
    growth: Growth,
}

/// How acknowledgements make the window grow; other controls share it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Growth {
    /// Segments by which one acknowledgement may open the window in slow start (the L of RFC 3465).
    slow_start_limit: f64,
    /// Whether congestion avoidance counts acknowledgements (ns-2) rather than bytes.
    counts_acks: bool,
}

impl Growth {
    pub(crate) fn new(config: &Config) -> Self {
        Self { slow_start_limit: config.slow_start_limit, counts_acks: config.growth_counts_acks }
    }

    /// What counts as acknowledged, in segments.
    pub(crate) fn acked(&self, ack: &Ack) -> f64 {
        if self.counts_acks { 1.0 } else { ack.acked_segments() }
    }

    /// Slow start below `ssthresh`; what an acknowledgement brings beyond it is returned for congestion avoidance.
    pub(crate) fn slow_start(&self, ack: &Ack, window: &mut Window) -> f64 {
        let acked = self.acked(ack);
        if !window.in_slow_start() {
            return acked;
        }
        let wanted = acked.min(self.slow_start_limit);
        if self.counts_acks {
            window.cwnd += wanted;
            return 0.0;
        }
        let taken = wanted.min(window.ssthresh - window.cwnd);
        window.cwnd += taken;
        acked.min(self.slow_start_limit) - taken
    }

    /// One segment more for each window acknowledged, `gain` times as fast.
    pub(crate) fn avoid_congestion(&self, acked: f64, gain: f64, window: &mut Window) {
        window.cwnd += gain * acked / window.cwnd;
    }
}

impl Reno {
    pub(crate) fn new(config: &Config) -> Self {
        Self { growth: Growth::new(config) }
    }
}

/// Half of what is in flight, at least two segments (equation 4 of RFC 5681).
pub(crate) fn halved(loss: &Loss) -> f64 {
    (loss.flight_segments() / 2.0).max(2.0)
}

impl Control for Reno {
    fn grow(&mut self, ack: &Ack, window: &mut Window) {
        let beyond = self.growth.slow_start(ack, window);
        if beyond > 0.0 {
            self.growth.avoid_congestion(beyond, 1.0, window);
        }
    }

    fn on_loss(&mut self, loss: &Loss, window: &mut Window) {
        window.ssthresh = halved(loss);
    }

    fn on_timeout(&mut self, timeout: &Loss, window: &mut Window) {
        if timeout.expiries == 1 {
            window.ssthresh = halved(timeout);
        }
        window.cwnd = 1.0;
    }
}
