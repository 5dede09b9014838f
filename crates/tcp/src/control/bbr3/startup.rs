//! Startup and Drain: the rate doubles each round until the bandwidth no longer grows or too much is lost; then the queue
//! is drained (draft-ietf-ccwg-bbr, sections 5.3.1 and 5.3.2).

use super::{Bbr3, State};
use crate::control::{Ack, LossState, RateSample};

/// Acknowledgements with losses in a round that end Startup (`BBRStartupFullLossCnt`, which counts ranges).
const STARTUP_LOSS_EVENTS: u32 = 6;

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
            self.bounds.long_term = self.product(self.max_bandwidth()).max(self.loss.volume);
        }
        if self.loss.is_start {
            self.loss.events = 0;
        }
        if self.state == State::Startup && self.full_pipe.is_reached {
            self.state = State::Drain;
            self.drain_start = self.rounds.count;
        }
    }

    fn is_startup_lossy(&self, ack: &Ack, sample: &RateSample) -> bool {
        if ack.state != LossState::Recovery || !self.is_inflight_too_high(sample) {
            return false;
        }
        !self.has_sack || (self.loss.is_start && self.loss.events >= STARTUP_LOSS_EVENTS)
    }

    pub(super) fn check_drain(&mut self, ack: &Ack) {
        if self.state != State::Drain {
            return;
        }
        let is_drained = ack.in_flight as f64 <= self.with_batches(self.product(self.bandwidth));
        if is_drained || self.rounds.count > self.drain_start + 3 {
            self.go_down(ack.now);
        }
    }
}
