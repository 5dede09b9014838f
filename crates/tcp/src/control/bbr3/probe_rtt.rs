//! The round-trip time, and ProbeRTT, which measures it with half the window (draft-ietf-ccwg-bbr, sections 5.3.4 and
//! 5.5.7).

use super::probe_bw::AckPhase;
use super::{Bbr3, State};
use crate::control::{Ack, Window};
use units::{Duration, Instant};

const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);

/// The smallest round-trip time of ten seconds, in seconds, and that of five, which schedules its probes.
#[derive(Debug, Clone, Copy)]
pub(super) struct MinRtt {
    pub(super) value: f64,
    pub(super) at: Instant,
    pub(super) probe_value: f64,
    pub(super) probe_at: Instant,
    pub(super) is_expired: bool,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ProbeRtt {
    pub(super) done_at: Option<Instant>,
    pub(super) is_round_done: bool,
    /// Samples of data sent while this much, from and to, had been delivered are too low on purpose.
    pub(super) slow: Option<(u64, u64)>,
}

impl Bbr3 {
    pub(super) fn update_min_rtt(&mut self, ack: &Ack) {
        let min = &mut self.min_rtt;
        min.is_expired = ack.now > min.probe_at + PROBE_RTT_INTERVAL;
        if let Some(rtt) = ack.rtt.map(Duration::as_secs_f64)
            && (rtt < min.probe_value || min.is_expired)
        {
            (min.probe_value, min.probe_at) = (rtt, ack.now);
        }
        if min.probe_value < min.value || ack.now > min.at + MIN_RTT_WINDOW {
            (min.value, min.at) = (min.probe_value, min.probe_at);
        }
    }

    pub(super) fn check_probe_rtt(&mut self, ack: &Ack, window: &mut Window) {
        if self.state != State::ProbeRtt && self.min_rtt.is_expired && !self.restarts_from_idle {
            self.state = State::ProbeRtt;
            self.save_window(window);
            self.probe_rtt.done_at = None;
            self.probe_rtt.slow = Some((self.rounds.delivered, self.rounds.delivered));
            self.probe.ack_phase = AckPhase::Stopping;
            self.rounds.restart();
        }
        if self.state == State::ProbeRtt {
            self.follow_probe_rtt(ack, window);
        }
        if ack.delivered > 0 {
            self.restarts_from_idle = false;
        }
    }

    fn follow_probe_rtt(&mut self, ack: &Ack, window: &mut Window) {
        if let Some((_, to)) = &mut self.probe_rtt.slow {
            *to = self.rounds.delivered + ack.in_flight;
        }
        match self.probe_rtt.done_at {
            None if ack.in_flight as f64 <= self.probe_rtt_window() => {
                self.probe_rtt.done_at = Some(ack.now + PROBE_RTT_TIME);
                self.probe_rtt.is_round_done = false;
                self.rounds.restart();
            }
            None => {}
            Some(_) => {
                self.probe_rtt.is_round_done |= self.rounds.is_start;
                if self.probe_rtt.is_round_done {
                    self.check_probe_rtt_done(ack.now, window);
                }
            }
        }
    }

    /// `CheckProbeRTTDone`.
    pub(super) fn check_probe_rtt_done(&mut self, now: Instant, window: &mut Window) {
        if self.probe_rtt.done_at.is_some_and(|done_at| now > done_at) {
            self.leave_probe_rtt(now, window);
        }
    }

    fn leave_probe_rtt(&mut self, now: Instant, window: &mut Window) {
        self.min_rtt.probe_at = now;
        window.cwnd = window.cwnd.max(self.prior_window);
        self.bounds.forget_short_term();
        if self.full_pipe.is_reached {
            self.go_down(now);
            self.state = State::Cruise;
        } else {
            self.state = State::Startup;
        }
    }

    pub(super) fn probe_rtt_window(&self) -> f64 {
        self.products(State::ProbeRtt.window_gain(), self.bandwidth).max(self.least_pipe())
    }
}
