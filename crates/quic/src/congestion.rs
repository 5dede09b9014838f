//! The congestion window (RFC 9002, section 7), sized by a control of the crate `tcp`.

use crate::config::Config;
use tcp::Window;
use tcp::control::{Ack, Control, Loss, LossState};
use units::{Duration, Instant, Rate};

/// The least window, in packets (kMinimumWindow).
const LEAST: f64 = 2.0;
/// How much faster than the window in a round trip packets leave (N of section 7.7).
const PACING_GAIN: f64 = 1.25;

/// The window, and what governs it.
#[derive(Debug)]
pub(crate) struct Congestion {
    pub(crate) control: Box<dyn Control>,
    pub(crate) window: Window,
    mss: u32,
    /// The number that was next when the window was last reduced: packets below are of the same event (a recovery period). In virtual
    /// time, numbers tell more than times do.
    pub(crate) reduced_at: u64,
    /// The same of a reduction for marks by a control that answers to their share, which has no recovery period.
    marked_at: u64,
    reads_share: bool,
    is_recovering: bool,
    /// The number that was next when persistent congestion was found, until a packet from there on is acknowledged.
    collapsed_at: Option<u64>,
}

/// What is known when something is lost or marked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts {
    pub(crate) now: Instant,
    /// Bytes sent in all.
    pub(crate) sent: u64,
    /// The number of the next packet.
    pub(crate) next: u64,
    pub(crate) srtt: Duration,
    pub(crate) min_rtt: Duration,
}

impl Congestion {
    pub(crate) fn new(config: &Config) -> Self {
        let for_control = config.for_control();
        Self {
            control: config.control.build(&for_control),
            window: Window { cwnd: config.initial_window, ssthresh: f64::INFINITY },
            mss: for_control.mss,
            reduced_at: 0,
            marked_at: 0,
            reads_share: config.control.reads_share_of_marks(),
            is_recovering: false,
            collapsed_at: None,
        }
    }

    /// The window in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        (self.window.cwnd * f64::from(self.mss) + 1e-3) as u64
    }

    /// What the window is doing.
    pub(crate) fn state(&self) -> LossState {
        if self.collapsed_at.is_some() && self.control.governs_window() {
            // Such a control takes the window of before back when this is over.
            LossState::Timeout
        } else if self.is_recovering {
            LossState::Recovery
        } else {
            LossState::Open
        }
    }

    /// Bytes of payload and headers a second, over a smoothed round-trip time of `srtt`.
    pub(crate) fn pacing_rate(&self, srtt: Duration, paces: bool) -> Option<Rate> {
        let rate = || {
            let bits = PACING_GAIN * self.window.cwnd * f64::from(self.mss) * 8.0;
            Rate::from_bps((bits / srtt.as_secs_f64().max(1e-6)).max(1.0) as u64)
        };
        self.control.pacing_rate(&self.window).or_else(|| paces.then(rate))
    }

    /// An acknowledgement, before losses are looked for: to measure.
    pub(crate) fn measure(&mut self, ack: &Ack) {
        if !self.control.governs_window() {
            self.control.on_ack(ack, &mut self.window);
        }
    }

    /// The same acknowledgement, up to packet `newest`, after that; of its bytes, `after_reduction` were sent since the window was last
    /// reduced: those end the recovery period, and let the window grow (section 7.3).
    pub(crate) fn on_ack(&mut self, ack: &Ack, newest: u64, after_reduction: u64) {
        self.collapsed_at = self.collapsed_at.filter(|next| newest < *next);
        if after_reduction > 0 && std::mem::take(&mut self.is_recovering) {
            self.control.on_recovered(ack, &mut self.window);
        }
        let ack = Ack { state: self.state(), ..*ack };
        if self.control.governs_window() {
            self.control.on_ack(&ack, &mut self.window);
        } else if after_reduction > ack.marked
            && ack.is_window_limited
            && (ack.marked == 0 || self.control.grows_beside_marks())
        {
            self.control.grow(&Ack { acked: after_reduction - ack.marked, ..ack }, &mut self.window);
        }
    }

    fn loss(&self, facts: Facts, expiries: u32) -> Loss {
        Loss {
            now: facts.now,
            mss: self.mss,
            // Section 7.3.2 reduces the window, not what is in flight.
            flight: self.bytes(),
            nxt: facts.sent,
            srtt: facts.srtt,
            min_rtt: facts.min_rtt,
            expiries,
            state: self.state(),
        }
    }

    /// The packet `number` was lost. Returns whether the window is reduced: once for each recovery period.
    pub(crate) fn on_lost(&mut self, facts: Facts, number: u64) -> bool {
        if number < self.reduced_at {
            return false;
        }
        let loss = self.loss(facts, 0);
        self.control.on_loss(&loss, &mut self.window);
        if !self.control.governs_window() {
            self.window.ssthresh = self.window.ssthresh.max(LEAST);
            self.window.cwnd = self.window.ssthresh;
        }
        self.begin_recovery(facts);
        true
    }

    /// The packet `number` arrived marked. Returns whether the window is reduced.
    pub(crate) fn on_marked(&mut self, facts: Facts, number: u64) -> bool {
        if number < self.reduced_at.max(self.marked_at) || !self.control.answers_marks(facts.now) {
            return false;
        }
        let loss = self.loss(facts, 0);
        self.control.on_marks(&loss, &mut self.window);
        if self.control.governs_window() {
            // Marks lower no such window, so that they begin no recovery period.
            return false;
        }
        self.window.cwnd = self.window.cwnd.max(LEAST);
        if self.reads_share {
            self.marked_at = facts.next;
        } else {
            self.begin_recovery(facts);
        }
        true
    }

    fn begin_recovery(&mut self, facts: Facts) {
        self.reduced_at = facts.next;
        self.is_recovering = true;
    }

    /// Everything was lost for a long time: the window is the least (section 7.6.2). The loss has lowered `ssthresh` before.
    pub(crate) fn on_persistent_congestion(&mut self, facts: Facts) {
        let timeout = Loss { state: LossState::Timeout, ..self.loss(facts, 2) };
        self.control.forget_min_rtt();
        self.control.on_timeout(&timeout, &mut self.window);
        self.window.cwnd = if self.control.governs_window() { self.window.cwnd.max(LEAST) } else { LEAST };
        self.reduced_at = 0;
        self.is_recovering = false;
        self.collapsed_at = Some(facts.next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Ecn;

    /// Every packet of a round trip of 20 ms arrives marked. Prague declines marks for 25 ms, and not until the next round trip has ended.
    #[test]
    fn prague_answers_marks_every_25_ms_over_a_shorter_round_trip() {
        let control = tcp::ControlKind::by_name("prague").expect("known");
        let mut congestion = Congestion::new(&Config { control, ecn: Ecn::Ect1, ..Config::default() });
        let rtt = Duration::from_millis(20);
        let mut is_answered = |number: &u64| {
            let now = Instant::ZERO + Duration::from_millis(*number);
            let facts = Facts { now, sent: 0, next: number + 20, srtt: rtt, min_rtt: rtt };
            congestion.on_marked(facts, *number)
        };
        assert_eq!((0..90).filter(&mut is_answered).collect::<Vec<_>>(), [0, 25, 50, 75]);
    }
}
