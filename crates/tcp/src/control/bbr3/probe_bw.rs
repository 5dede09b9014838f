//! ProbeBW: the cycle of probes for bandwidth (draft-ietf-ccwg-bbr, section 5.3.3).

use super::loss::LossRound;
use super::{Bbr3, State};
use crate::control::{Ack, RateSample, Window};
use units::{Duration, Instant};

const HEADROOM: f64 = 0.15;
/// Rounds after which a probe comes at the latest, so that Reno and CUBIC on a short path get their share.
const MAX_ROUNDS: f64 = 63.0;

/// What acknowledgements show of a probe for bandwidth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AckPhase {
    Init,
    Refilling,
    Starting,
    Feedback,
    Stopping,
}

/// The cycle of probes for bandwidth.
#[derive(Debug, Clone, Copy)]
pub(super) struct Probe {
    pub(super) ack_phase: AckPhase,
    /// Rate samples are of data sent while probing, and no loss has been answered yet.
    pub(super) is_sample: bool,
    pub(super) start: Instant,
    pub(super) wait: Duration,
    pub(super) rounds_since_up: f64,
    pub(super) up_rounds: u32,
    pub(super) up_acked: f64,
    pub(super) acked_for_segment: f64,
    pub(super) was_too_high: bool,
    pub(super) was_precautionary: bool,
}

impl Bbr3 {
    pub(super) fn update_cycle(&mut self, ack: &Ack, sample: &RateSample, rate: f64, window: &Window) {
        if self.adapt_long_term(ack, sample, window) {
            return;
        }
        match self.state {
            State::Down | State::Cruise if self.is_time_to_probe(ack.now, window) => self.refill(),
            State::Down if self.is_time_to_cruise(ack) => self.state = State::Cruise,
            State::Refill if self.rounds.is_start => {
                self.probe.is_sample = true;
                self.go_up(rate, window);
            }
            State::Up => self.check_up(ack, rate, window),
            _ => {}
        }
    }

    pub(super) fn go_down(&mut self, now: Instant) {
        self.loss = LossRound { has_loss: false, bandwidth: 0.0, volume: 0.0, ..self.loss };
        self.probe.acked_for_segment = f64::INFINITY;
        self.probe.rounds_since_up = (self.random.next_u64() & 1) as f64;
        self.probe.wait = Duration::from_nanos(2_000_000_000 + self.random.next_u64() % 1_000_000_000);
        self.probe.start = now;
        self.probe.ack_phase = AckPhase::Stopping;
        self.rounds.restart();
        self.state = State::Down;
    }

    pub(super) fn refill(&mut self) {
        self.bounds.forget_short_term();
        self.probe.up_rounds = 0;
        self.probe.up_acked = 0.0;
        self.probe.was_precautionary = false;
        self.probe.ack_phase = AckPhase::Refilling;
        self.rounds.restart();
        self.state = State::Refill;
    }

    pub(super) fn go_up(&mut self, rate: f64, window: &Window) {
        self.probe.ack_phase = AckPhase::Starting;
        self.rounds.restart();
        self.full_pipe.restart(rate);
        self.state = State::Up;
        self.raise_slope(window);
    }

    /// The long-term bound grows by 1, 2, 4… segments in successive rounds.
    fn raise_slope(&mut self, window: &Window) {
        let growth = f64::from(1_u32 << self.probe.up_rounds);
        self.probe.up_rounds = (self.probe.up_rounds + 1).min(30);
        self.probe.acked_for_segment = (window.cwnd * self.mss / growth).max(self.mss);
    }

    pub(super) fn is_time_to_probe(&self, now: Instant, window: &Window) -> bool {
        let rounds = (self.target(window) / self.mss).min(MAX_ROUNDS);
        now > self.probe.start + self.probe.wait || self.probe.rounds_since_up >= rounds
    }

    fn is_time_to_cruise(&self, ack: &Ack) -> bool {
        let in_flight = ack.in_flight as f64;
        in_flight <= self.with_headroom() && in_flight <= self.with_batches(self.products(1.0, self.max_bandwidth()))
    }

    /// Ends the probe: a cautious one at the long-term bound, another when the bandwidth no longer grows though that bound
    /// does not limit it.
    pub(super) fn check_up(&mut self, ack: &Ack, rate: f64, window: &Window) {
        let bound = self.bounds.long_term;
        let is_risky = self.probe.was_too_high && ack.in_flight as f64 >= bound;
        self.probe.was_precautionary |= is_risky;
        let is_bounded = !is_risky && ack.is_window_limited && window.cwnd * self.mss >= bound;
        if is_bounded {
            self.full_pipe.restart(rate);
        } else if is_risky || self.full_pipe.is_now {
            self.probe.was_too_high = false;
            self.go_down(ack.now);
        }
    }

    /// Follows what the acknowledgements of a probe say; whether that changed the state.
    pub(super) fn adapt_long_term(&mut self, ack: &Ack, sample: &RateSample, window: &Window) -> bool {
        if self.rounds.is_start && self.probe.ack_phase == AckPhase::Starting {
            self.probe.ack_phase = AckPhase::Feedback;
        }
        if self.rounds.is_start && self.probe.ack_phase == AckPhase::Stopping && self.end_of_feedback(sample) {
            return true;
        }
        if self.is_inflight_too_high(sample.into()) || self.bounds.long_term.is_infinite() {
            return false;
        }
        self.bounds.long_term = self.bounds.long_term.max(sample.in_flight_at_send as f64);
        if self.state == State::Up {
            self.raise_long_term(ack, window);
        }
        false
    }

    /// A round after a probe: its samples are in. A cautious probe that lost nothing is followed by a full one.
    fn end_of_feedback(&mut self, sample: &RateSample) -> bool {
        self.probe.is_sample = false;
        self.probe.ack_phase = AckPhase::Init;
        if !self.state.is_probe_bandwidth() {
            return false;
        }
        if !self.is_app_limited(sample) && self.cycle_max[0] > 0.0 {
            self.cycle_max = [0.0, self.cycle_max[0]];
        }
        let goes_on = self.probe.was_precautionary && !self.probe.was_too_high;
        if goes_on {
            self.refill();
        }
        goes_on
    }

    pub(super) fn raise_long_term(&mut self, ack: &Ack, window: &Window) {
        if !ack.is_window_limited || window.cwnd * self.mss < self.bounds.long_term {
            return;
        }
        self.probe.up_acked += ack.delivered as f64;
        let segments = (self.probe.up_acked / self.probe.acked_for_segment).floor();
        if segments > 0.0 {
            self.probe.up_acked -= segments * self.probe.acked_for_segment;
            self.bounds.long_term += segments * self.mss;
        }
        if self.rounds.is_start {
            self.raise_slope(window);
        }
    }

    pub(super) fn with_headroom(&self) -> f64 {
        let bound = self.bounds.long_term;
        if bound.is_infinite() {
            return bound;
        }
        (bound - self.mss.max(HEADROOM * bound)).max(self.least_pipe())
    }

    /// The volume wanted in flight, unless losses cut the window.
    pub(super) fn target(&self, window: &Window) -> f64 {
        self.products(1.0, self.bandwidth).min(window.cwnd * self.mss)
    }
}
