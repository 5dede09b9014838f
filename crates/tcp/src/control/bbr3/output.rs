//! What the model means for the sender: pacing rate and window (draft-ietf-ccwg-bbr, section 5.6).

use super::{Bbr3, State};
use crate::control::{Ack, Window};

impl Bbr3 {
    pub(super) fn set_pacing(&mut self, ack: &Ack, window: &Window) {
        self.pacing.on_srtt(State::Startup.pacing_gain() * window.cwnd * self.mss, ack.srtt);
        self.set_pacing_rate(self.state.pacing_gain());
    }

    /// `SetPacingRateWithGain`.
    pub(super) fn set_pacing_rate(&mut self, gain: f64) {
        self.pacing.follow(gain, self.bandwidth, self.full_pipe.is_reached);
    }

    pub(super) fn set_window(&mut self, ack: &Ack, window: &mut Window) {
        let products = self.products(self.state.window_gain(), self.bandwidth);
        let most = self.with_batches(products + self.aggregation.excess.get());
        let grown = window.cwnd * self.mss + ack.delivered as f64;
        let mut volume = window.cwnd * self.mss;
        if self.full_pipe.is_reached {
            volume = grown.min(most);
        } else if volume < most || (self.rounds.delivered as f64) < self.initial_window {
            volume = grown;
        }
        volume = volume.max(self.least_pipe());
        if self.state == State::ProbeRtt {
            volume = volume.min(self.probe_rtt_window());
        }
        window.cwnd = volume.min(self.volume_bound()) / self.mss;
    }

    fn volume_bound(&self) -> f64 {
        let bound = match self.state {
            State::Startup | State::Drain => f64::INFINITY,
            State::Cruise | State::ProbeRtt => self.with_headroom(),
            State::Down | State::Refill | State::Up => self.bounds.long_term,
        };
        bound.min(self.bounds.short_term).max(self.least_pipe())
    }
}
