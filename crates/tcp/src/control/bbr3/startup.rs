//! Startup and Drain: the rate doubles each round until the bandwidth no longer grows or too much is lost; then the queue
//! is drained (draft-ietf-ccwg-bbr, sections 5.3.1 and 5.3.2).

use super::{Bbr3, State};
use crate::control::{Ack, LossState, RateSample};

/// Ranges of sequence numbers lost in a round that end Startup (`BBRStartupFullLossCnt`).
const STARTUP_LOSS_RANGES: u32 = 6;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FullPipe {
    pub(super) bandwidth: f64,
    pub(super) rounds: u32,
    pub(super) is_now: bool,
    pub(super) is_reached: bool,
}

impl FullPipe {
    /// Starts to look again, from a baseline.
    pub(super) fn restart(&mut self, bandwidth: f64) {
        *self = Self { bandwidth, rounds: 0, is_now: false, ..*self };
    }
}

impl Bbr3 {
    pub(super) fn check_full_pipe(&mut self, sample: &RateSample, rate: f64) {
        if self.full_pipe.is_now || !self.rounds.is_start || self.is_app_limited(sample) {
            return;
        }
        if rate >= 1.25 * self.full_pipe.bandwidth {
            self.full_pipe.restart(rate);
            return;
        }
        self.full_pipe.rounds += 1;
        self.full_pipe.is_now = self.full_pipe.rounds >= 3;
        self.full_pipe.is_reached |= self.full_pipe.is_now;
    }

    pub(super) fn check_startup(&mut self, ack: &Ack, sample: &RateSample) {
        if !self.full_pipe.is_reached && self.is_startup_lossy(ack, sample) {
            self.undo.state = Some(State::Startup);
            self.full_pipe.is_reached = true;
            self.bounds.long_term = self.products(1.0, self.max_bandwidth()).max(self.loss.volume);
        }
        if self.loss.is_start {
            self.loss.ranges = 0;
        }
        if self.state == State::Startup && self.full_pipe.is_reached {
            self.state = State::Drain;
            self.drain_start = self.rounds.count;
        }
    }

    /// `CheckStartupHighLoss`: too much is lost, in several ranges of a whole round of fast recovery; without SACK one loss
    /// a round is all that can be seen.
    fn is_startup_lossy(&self, ack: &Ack, sample: &RateSample) -> bool {
        if ack.state != LossState::Recovery || !self.is_inflight_too_high(sample.into()) {
            return false;
        }
        let is_whole_round = self.loss.is_start && sample.prior_delivered >= self.recovery_start;
        !self.has_sack || (is_whole_round && self.loss.ranges >= STARTUP_LOSS_RANGES)
    }

    pub(super) fn check_drain(&mut self, ack: &Ack) {
        if self.state != State::Drain {
            return;
        }
        let is_drained = ack.in_flight as f64 <= self.with_batches(self.products(1.0, self.bandwidth));
        if is_drained || self.rounds.count > self.drain_start + 3 {
            self.go_down(ack.now);
        }
    }
}
