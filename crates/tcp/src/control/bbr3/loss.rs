//! What losses say of the path, and what is taken back where they were none (draft-ietf-ccwg-bbr, sections 5.5.10 and
//! 5.5.11).

use super::{Bbr3, State};
use crate::control::{Ack, LossState, RateSample, Window};
use units::Instant;

const LOSS_THRESHOLD: f64 = 0.02;
const BETA: f64 = 0.7;

/// Losses and deliveries of the current round.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LossRound {
    pub(super) is_start: bool,
    pub(super) delivered: u64,
    pub(super) has_loss: bool,
    pub(super) events: u32,
    pub(super) bandwidth: f64,
    pub(super) volume: f64,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) bandwidth: f64,
    pub(super) short_term: f64,
    pub(super) long_term: f64,
}

/// What to go back to when a loss was none.
#[derive(Debug, Clone, Copy)]
pub(super) struct Undo {
    pub(super) state: Option<State>,
    pub(super) bounds: Bounds,
}

impl Bounds {
    pub(super) const NONE: Self =
        Self { bandwidth: f64::INFINITY, short_term: f64::INFINITY, long_term: f64::INFINITY };

    pub(super) fn forget_short_term(&mut self) {
        *self = Self { long_term: self.long_term, ..Self::NONE };
    }
}

impl Bbr3 {
    pub(super) fn update_latest(&mut self, sample: &RateSample, rate: f64) {
        let loss = &mut self.loss;
        loss.bandwidth = loss.bandwidth.max(rate);
        loss.volume = loss.volume.max(sample.delivered as f64);
        loss.is_start = sample.prior_delivered >= loss.delivered;
        if loss.is_start {
            loss.delivered = sample.total_delivered;
        }
    }

    /// Once a round with losses, unless it probes: down to what was delivered, by three tenths at most.
    pub(super) fn adapt_to_losses(&mut self, window: &Window) {
        if self.loss.has_loss && !self.state.accelerates() {
            let bounds = &mut self.bounds;
            if bounds.bandwidth.is_infinite() {
                bounds.bandwidth = self.cycle_max[0].max(self.cycle_max[1]);
            }
            if bounds.short_term.is_infinite() {
                bounds.short_term = window.cwnd * self.mss;
            }
            bounds.bandwidth = self.loss.bandwidth.max(BETA * bounds.bandwidth);
            bounds.short_term = self.loss.volume.max(BETA * bounds.short_term);
        }
        self.loss.has_loss = false;
    }

    pub(super) fn is_inflight_too_high(&self, sample: &RateSample) -> bool {
        sample.lost as f64 > sample.in_flight_at_send as f64 * LOSS_THRESHOLD || (sample.lost > 0 && !self.has_sack)
    }

    pub(super) fn note_loss(&mut self, ack: &Ack, sample: &RateSample, window: &Window) {
        if !self.loss.has_loss {
            self.loss.delivered = sample.total_delivered;
            self.save_before_loss(window);
        }
        self.loss.has_loss = true;
        self.loss.events += 1;
        if self.probe.is_sample && self.is_inflight_too_high(sample) {
            self.on_inflight_too_high(ack.now, sample, window);
        }
    }

    fn on_inflight_too_high(&mut self, now: Instant, sample: &RateSample, window: &Window) {
        self.probe.was_too_high = true;
        self.probe.is_sample = false;
        if !self.is_app_limited(sample) {
            self.bounds.long_term = (sample.in_flight_at_send as f64).max(self.target(window) * BETA);
        }
        if self.state == State::Up {
            self.undo.state = Some(State::Up);
            self.go_down(now);
        }
    }

    pub(super) fn save_before_loss(&mut self, window: &Window) {
        self.save_window(window);
        self.undo = Undo { state: None, bounds: self.bounds };
    }

    pub(super) fn save_window(&mut self, window: &Window) {
        let is_good = self.recovery == LossState::Open && self.state != State::ProbeRtt;
        self.prior_window = if is_good { window.cwnd } else { self.prior_window.max(window.cwnd) };
    }
}
