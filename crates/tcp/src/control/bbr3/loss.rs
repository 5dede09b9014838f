//! What losses say of the path, and what is taken back where they were none (draft-ietf-ccwg-bbr, sections 5.5.10 and
//! 5.5.11).

use super::{Bbr3, State};
use crate::control::{Ack, LossState, LostSegment, RateSample, Window};
use units::Instant;

/// The share of the data in flight that may be lost in a round trip (`BBR.LossThresh`).
const LOSS_THRESHOLD: f64 = 0.02;
/// What a round with losses leaves of the short-term bounds at least (`BBR.Beta`).
const BETA: f64 = 0.7;

/// Losses and deliveries of the current round.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LossRound {
    pub(super) is_start: bool,
    pub(super) delivered: u64,
    pub(super) has_loss: bool,
    /// Ranges of sequence numbers that were lost, and where the latest of them ends.
    pub(super) ranges: u32,
    pub(super) range_end: u64,
    pub(super) bandwidth: f64,
    pub(super) volume: f64,
}

impl LossRound {
    /// Takes a lost segment: it lengthens the latest range or is one of its own.
    fn add(&mut self, lost: &LostSegment) {
        self.ranges += u32::from(self.ranges == 0 || lost.seq != self.range_end);
        self.range_end = lost.end;
        self.has_loss = true;
    }
}

/// The bounds that losses set.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// `BBR.bw_shortterm`.
    pub(super) bandwidth: f64,
    /// `BBR.inflight_shortterm`.
    pub(super) short_term: f64,
    /// `BBR.inflight_longterm`.
    pub(super) long_term: f64,
}

impl Bounds {
    pub(super) const NONE: Self =
        Self { bandwidth: f64::INFINITY, short_term: f64::INFINITY, long_term: f64::INFINITY };

    pub(super) fn forget_short_term(&mut self) {
        *self = Self { long_term: self.long_term, ..Self::NONE };
    }

    /// The larger of each bound.
    fn max(self, other: Self) -> Self {
        Self {
            bandwidth: self.bandwidth.max(other.bandwidth),
            short_term: self.short_term.max(other.short_term),
            long_term: self.long_term.max(other.long_term),
        }
    }
}

/// What to go back to when a loss was none.
#[derive(Debug, Clone, Copy)]
pub(super) struct Undo {
    pub(super) state: Option<State>,
    pub(super) bounds: Bounds,
}

/// What was lost of the data in flight when a segment was sent (`RS.lost` and `RS.tx_in_flight`).
#[derive(Debug, Clone, Copy)]
pub(super) struct LossRate {
    lost: f64,
    in_flight: f64,
}

impl From<&RateSample> for LossRate {
    fn from(sample: &RateSample) -> Self {
        Self { lost: sample.lost as f64, in_flight: sample.in_flight_at_send as f64 }
    }
}

impl From<&LostSegment> for LossRate {
    fn from(lost: &LostSegment) -> Self {
        Self { lost: lost.lost as f64, in_flight: lost.in_flight_at_send as f64 }
    }
}

impl LossRate {
    /// How much was in flight when the losses crossed the threshold, somewhere within a segment of `size` bytes
    /// (`InflightAtLoss`).
    fn in_flight_at_threshold(self, size: f64) -> f64 {
        let (in_flight_before, lost_before) = (self.in_flight - size, self.lost - size);
        in_flight_before + (LOSS_THRESHOLD * in_flight_before - lost_before) / (1.0 - LOSS_THRESHOLD)
    }
}

impl Bbr3 {
    /// `UpdateLatestDeliverySignals`.
    pub(super) fn update_latest(&mut self, sample: &RateSample, rate: f64) {
        let loss = &mut self.loss;
        loss.bandwidth = loss.bandwidth.max(rate);
        loss.volume = loss.volume.max(sample.delivered as f64);
        loss.is_start = sample.prior_delivered >= loss.delivered;
        if loss.is_start {
            loss.delivered = sample.total_delivered;
        }
    }

    /// Once a round with losses, unless it probes: down to what was delivered, by three tenths at most
    /// (`AdaptLowerBoundsFromCongestion`).
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

    /// `IsInflightTooHigh`.
    pub(super) fn is_inflight_too_high(&self, rate: LossRate) -> bool {
        rate.lost > rate.in_flight * LOSS_THRESHOLD || (rate.lost > 0.0 && !self.has_sack)
    }

    /// A segment was lost (`HandleLostPacket`): if it was sent while probing and too much is lost with it, what was in
    /// flight until then is the most that the path carries.
    pub(super) fn handle_lost(&mut self, now: Instant, lost: &LostSegment, window: &Window) {
        self.rounds.delivered = lost.total_delivered;
        if !self.loss.has_loss {
            self.loss.delivered = lost.total_delivered;
            self.save_before_loss(window);
        }
        self.loss.add(lost);
        let rate = LossRate::from(lost);
        if self.probe.is_sample && self.is_inflight_too_high(rate) {
            let in_flight = rate.in_flight_at_threshold((lost.end - lost.seq) as f64);
            self.on_inflight_too_high(now, in_flight, lost.is_app_limited, window);
        }
    }

    /// `HandleInflightTooHigh`.
    fn on_inflight_too_high(&mut self, now: Instant, in_flight: f64, is_app_limited: bool, window: &Window) {
        self.probe.was_too_high = true;
        self.probe.is_sample = false;
        if !is_app_limited {
            self.bounds.long_term = in_flight.max(self.target(window) * BETA);
        }
        if self.state == State::Up {
            self.undo.state = Some(State::Up);
            self.go_down(now);
        }
    }

    /// `SaveStateUponLoss`.
    pub(super) fn save_before_loss(&mut self, window: &Window) {
        self.save_window(window);
        self.undo = Undo { state: None, bounds: self.bounds };
    }

    /// `SaveCwnd`.
    pub(super) fn save_window(&mut self, window: &Window) {
        let is_good = self.recovery == LossState::Open && self.state != State::ProbeRtt;
        self.prior_window = if is_good { window.cwnd } else { self.prior_window.max(window.cwnd) };
    }

    /// Takes note of a recovery that begins or ends; at the end the window is what it was before.
    pub(super) fn follow_recovery(&mut self, ack: &Ack, window: &mut Window) {
        if self.recovery != LossState::Open && ack.state == LossState::Open {
            window.cwnd = window.cwnd.max(self.prior_window);
        }
        if self.recovery != LossState::Recovery && ack.state == LossState::Recovery {
            self.recovery_start = self.rounds.delivered;
        }
        self.recovery = ack.state;
    }

    /// The losses were none (`HandleSpuriousLossDetection`).
    pub(super) fn undo_losses(&mut self, window: &mut Window) {
        window.cwnd = window.cwnd.max(self.prior_window);
        self.loss.has_loss = false;
        self.full_pipe.restart(0.0);
        self.bounds = self.bounds.max(self.undo.bounds);
        match self.undo.state.take() {
            Some(State::Startup) if self.state != State::Startup => {
                self.full_pipe.is_reached = false;
                self.state = if self.state == State::ProbeRtt { State::ProbeRtt } else { State::Startup };
            }
            Some(State::Up) if !matches!(self.state, State::Up | State::ProbeRtt) => self.refill(),
            _ => {}
        }
    }
}
