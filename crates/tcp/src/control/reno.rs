//! Reno's window: slow start and congestion avoidance (RFC 5681), halved at a loss.

use super::slow_start::Exit;
use super::{Ack, Control, ControlKind, Loss, Window};
use crate::config::{Config, SlowStartExit};

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
    /// What ends slow start before a loss does.
    exit: Exit,
}

impl Growth {
    pub(crate) fn new(config: &Config) -> Self {
        Self::with_exit(config, SlowStartExit::None)
    }

    /// Growth whose slow start ends by `exit` unless the configuration says otherwise.
    pub(crate) fn with_exit(config: &Config, exit: SlowStartExit) -> Self {
        let exit = Exit::new(config.tuning.slow_start_exit.unwrap_or(exit));
        Self {
            slow_start_limit: exit.slow_start_limit(config.slow_start_limit),
            counts_acks: config.growth_counts_acks,
            exit,
        }
    }

    /// For each acknowledgement: whether slow start is to end.
    pub(crate) fn on_ack(&mut self, ack: &Ack, window: &mut Window) {
        self.exit.on_ack(ack, window);
    }

    /// A loss was found.
    pub(crate) fn on_loss(&mut self) {
        self.exit.on_loss();
    }

    /// The retransmission timer expired.
    pub(crate) fn on_timeout(&mut self) {
        self.exit.on_timeout();
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
        let wanted = acked.min(self.slow_start_limit) * self.exit.growth();
        if self.counts_acks {
            window.cwnd += wanted;
            return 0.0;
        }
        let taken = wanted.min(window.ssthresh - window.cwnd);
        window.cwnd += taken;
        wanted - taken
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
    fn on_ack(&mut self, ack: &Ack, window: &mut Window) {
        self.growth.on_ack(ack, window);
    }

    fn grow(&mut self, ack: &Ack, window: &mut Window) {
        let beyond = self.growth.slow_start(ack, window);
        if beyond > 0.0 {
            self.growth.avoid_congestion(beyond, 1.0, window);
        }
    }

    fn on_loss(&mut self, loss: &Loss, window: &mut Window) {
        self.growth.on_loss();
        window.ssthresh = halved(loss);
    }

    fn on_timeout(&mut self, timeout: &Loss, window: &mut Window) {
        self.growth.on_timeout();
        if timeout.expiries == 1 {
            window.ssthresh = halved(timeout);
        }
        window.cwnd = 1.0;
    }
}
