//! What is known of the path: round trips, the largest bandwidth, and how far acknowledgements run ahead of it
//! (draft-ietf-ccwg-bbr, section 5.5).

use super::{Bbr3, State};
use crate::control::{Ack, RateSample, Window};
use crate::filter::WindowedMax;
use units::Instant;

const EXTRA_ACKED_ROUNDS: u64 = 10;
const MIN_PIPE_SEGMENTS: f64 = 4.0;

/// Round trips counted by data.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rounds {
    pub(super) count: u64,
    pub(super) next_delivered: u64,
    pub(super) is_start: bool,
    pub(super) delivered: u64,
}

impl Rounds {
    pub(super) fn restart(&mut self) {
        self.next_delivered = self.delivered;
    }
}

/// By how much acknowledgements run ahead of the bandwidth at times.
#[derive(Debug, Clone, Copy)]
pub(super) struct Aggregation {
    pub(super) start: Instant,
    pub(super) delivered: f64,
    pub(super) excess: WindowedMax,
}

impl Bbr3 {
    pub(super) fn max_bandwidth(&self) -> f64 {
        self.cycle_max[0].max(self.cycle_max[1])
    }

    pub(super) fn least_pipe(&self) -> f64 {
        MIN_PIPE_SEGMENTS * self.mss
    }

    /// So many bandwidth-delay products; the initial window before the first round-trip time (`BDPMultiple`).
    pub(super) fn products(&self, gain: f64, bandwidth: f64) -> f64 {
        if self.min_rtt.value.is_finite() { gain * bandwidth * self.min_rtt.value } else { self.initial_window }
    }

    /// At least what batches of segments need (`QuantizationBudget`).
    pub(super) fn with_batches(&self, volume: f64) -> f64 {
        let quantum = (self.pacing.rate * 1e-3).min(65_536.0).max(2.0 * self.mss);
        let probe = if self.state == State::Up { 2.0 * self.mss } else { 0.0 };
        volume.max(3.0 * quantum).max(self.least_pipe()) + probe
    }

    pub(super) fn is_app_limited(&self, sample: &RateSample) -> bool {
        let is_slow = |(from, to)| (from..=to).contains(&sample.prior_delivered);
        sample.is_app_limited || self.probe_rtt.slow.is_some_and(is_slow)
    }

    pub(super) fn update_max_bandwidth(&mut self, sample: &RateSample, rate: f64) {
        self.rounds.is_start = sample.prior_delivered >= self.rounds.next_delivered;
        if self.rounds.is_start {
            self.rounds.restart();
            self.rounds.count += 1;
            self.probe.rounds_since_up += 1.0;
        }
        if rate > 0.0 && (rate >= self.max_bandwidth() || !self.is_app_limited(sample)) {
            self.cycle_max[0] = self.cycle_max[0].max(rate);
        }
    }

    pub(super) fn update_aggregation(&mut self, ack: &Ack, window: &Window) {
        let now = &mut self.aggregation;
        let mut expected = self.bandwidth * ack.now.since(now.start).as_secs_f64();
        if now.delivered <= expected {
            (now.start, now.delivered, expected) = (ack.now, 0.0, 0.0);
        }
        now.delivered += ack.delivered as f64;
        let excess = (now.delivered - expected).min(window.cwnd * self.mss);
        let rounds = if self.full_pipe.is_reached { EXTRA_ACKED_ROUNDS } else { 1 };
        now.excess.update(self.rounds.count, excess, rounds);
    }
}
