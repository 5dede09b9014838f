//! BBR version 3: like version 1, with bounds on rate and volume that losses lower, short probes for more, and probes of
//! the round-trip time at half the window (draft-ietf-ccwg-bbr, repository head of 2026-08-03).

mod loss;
mod model;
mod output;
mod probe_bw;
mod probe_rtt;
mod startup;
#[cfg(test)]
mod tests;

use super::pacing::Pacing;
use super::{Ack, Control, Loss, LossState, LostSegment, RateSample, Start, Window};
use crate::config::Config;
use crate::filter::WindowedMax;
use loss::{Bounds, LossRound, Undo};
use model::{Aggregation, Rounds};
use probe_bw::{AckPhase, Probe};
use probe_rtt::{MinRtt, ProbeRtt};
use startup::FullPipe;
use units::{CounterRandom, Duration, Instant, Rate};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

impl State {
    fn pacing_gain(self) -> f64 {
        match self {
            // 4 ln 2.
            Self::Startup => 2.77,
            Self::Drain => 0.5,
            Self::Down => 0.9,
            Self::Cruise | Self::Refill | Self::ProbeRtt => 1.0,
            Self::Up => 1.25,
        }
    }

    fn window_gain(self) -> f64 {
        match self {
            Self::Up => 2.25,
            Self::ProbeRtt => 0.5,
            _ => 2.0,
        }
    }

    fn is_probe_bandwidth(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }

    fn accelerates(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }
}

/// The model. Volumes are in bytes, rates in bytes per second, bounds infinite while unknown.
#[derive(Debug)]
pub(crate) struct Bbr3 {
    mss: f64,
    initial_window: f64,
    has_sack: bool,
    state: State,
    rounds: Rounds,
    /// The largest rates of the current and of the former cycle.
    cycle_max: [f64; 2],
    bandwidth: f64,
    min_rtt: MinRtt,
    full_pipe: FullPipe,
    drain_start: u64,
    probe: Probe,
    loss: LossRound,
    bounds: Bounds,
    undo: Undo,
    probe_rtt: ProbeRtt,
    aggregation: Aggregation,
    pacing: Pacing,
    restarts_from_idle: bool,
    recovery: LossState,
    /// Bytes that had been delivered when fast recovery began.
    recovery_start: u64,
    /// The window before the losses, in segments.
    prior_window: f64,
    random: CounterRandom,
}

impl Bbr3 {
    pub(crate) fn new(config: &Config) -> Self {
        let mss = f64::from(config.mss);
        Self {
            mss,
            initial_window: config.initial_window * mss,
            has_sack: true,
            state: State::Startup,
            rounds: Rounds::default(),
            cycle_max: [0.0; 2],
            bandwidth: 0.0,
            min_rtt: MinRtt {
                value: f64::INFINITY,
                at: Instant::ZERO,
                probe_value: f64::INFINITY,
                probe_at: Instant::ZERO,
                is_expired: false,
            },
            full_pipe: FullPipe::default(),
            drain_start: 0,
            probe: Probe {
                ack_phase: AckPhase::Init,
                is_sample: false,
                start: Instant::ZERO,
                wait: Duration::ZERO,
                rounds_since_up: 0.0,
                up_rounds: 0,
                up_acked: 0.0,
                acked_for_segment: f64::INFINITY,
                was_too_high: false,
                was_precautionary: false,
            },
            loss: LossRound::default(),
            bounds: Bounds::NONE,
            undo: Undo { state: None, bounds: Bounds::NONE },
            probe_rtt: ProbeRtt::default(),
            aggregation: Aggregation { start: Instant::ZERO, delivered: 0.0, excess: WindowedMax::new(0, 0.0) },
            pacing: Pacing::default(),
            restarts_from_idle: false,
            recovery: LossState::Open,
            recovery_start: 0,
            prior_window: 0.0,
            random: CounterRandom::new(config.seed, 0xbb3),
        }
    }

    fn update_model(&mut self, ack: &Ack, sample: &RateSample, window: &mut Window) {
        self.rounds.delivered = sample.total_delivered;
        let rate = sample.reliable_rate().unwrap_or(0.0);
        self.update_latest(sample, rate);
        self.update_max_bandwidth(sample, rate);
        if self.loss.is_start {
            self.adapt_to_losses(window);
        }
        self.update_aggregation(ack, window);
        self.check_full_pipe(sample, rate);
        self.check_startup(ack, sample);
        self.check_drain(ack);
        if self.full_pipe.is_reached {
            self.update_cycle(ack, sample, rate, window);
        }
    }
}

impl Control for Bbr3 {
    fn on_connected(&mut self, start: &Start, window: &mut Window) {
        self.pacing.start(State::Startup.pacing_gain() * window.cwnd * self.mss, start.rtt);
        self.has_sack = start.has_sack;
        self.aggregation.start = start.now;
        let rtt = start.rtt.map_or(f64::INFINITY, Duration::as_secs_f64);
        self.min_rtt = MinRtt { value: rtt, at: start.now, probe_value: rtt, probe_at: start.now, ..self.min_rtt };
    }

    fn on_ack(&mut self, ack: &Ack, window: &mut Window) {
        self.rounds.is_start = false;
        self.follow_recovery(ack, window);
        if let Some(sample) = &ack.rate {
            self.update_model(ack, sample, window);
        }
        self.update_min_rtt(ack);
        self.check_probe_rtt(ack, window);
        if let Some(sample) = ack.rate.filter(|_| self.loss.is_start) {
            self.loss.bandwidth = sample.reliable_rate().unwrap_or(0.0);
            self.loss.volume = sample.delivered as f64;
        }
        self.bandwidth = self.max_bandwidth().min(self.bounds.bandwidth);
        self.set_pacing(ack, window);
        self.set_window(ack, window);
    }

    fn grow(&mut self, _ack: &Ack, _window: &mut Window) {}

    fn on_loss(&mut self, _loss: &Loss, window: &mut Window) {
        self.save_before_loss(window);
    }

    fn on_timeout(&mut self, _timeout: &Loss, window: &mut Window) {
        self.save_before_loss(window);
        self.recovery = LossState::Timeout;
        window.cwnd = 1.0;
    }

    fn follows_losses(&self) -> bool {
        true
    }

    fn on_segment_lost(&mut self, now: Instant, lost: &LostSegment, window: &mut Window) {
        self.handle_lost(now, lost, window);
    }

    fn on_spurious(&mut self, _now: Instant, window: &mut Window) {
        self.undo_losses(window);
    }

    /// `HandleRestartFromIdle`.
    fn on_restart(&mut self, now: Instant, is_app_limited: bool, window: &mut Window) {
        if !is_app_limited {
            return;
        }
        self.restarts_from_idle = true;
        self.aggregation.start = now;
        if self.state.is_probe_bandwidth() {
            self.set_pacing_rate(1.0);
        } else if self.state == State::ProbeRtt {
            self.check_probe_rtt_done(now, window);
        }
    }

    fn pacing_rate(&self, _window: &Window) -> Option<Rate> {
        self.pacing.rate()
    }

    fn governs_window(&self) -> bool {
        true
    }

    fn phase(&self, _window: &Window) -> &'static str {
        match self.state {
            State::Startup => "startup",
            State::Drain => "drain",
            State::Down => "probe-bw-down",
            State::Cruise => "probe-bw-cruise",
            State::Refill => "probe-bw-refill",
            State::Up => "probe-bw-up",
            State::ProbeRtt => "probe-rtt",
        }
    }
}
