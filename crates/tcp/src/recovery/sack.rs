//! Recovery by selective acknowledgements (RFC 6675).

use super::Recovery;
use super::fast::DUPLICATES;
use super::prr::{Bound, RateReduction};
use crate::config::Config;
use crate::control::{Ack, LossState};
use crate::outstanding::Outstanding;
use crate::scoreboard::Change;
use units::Instant;

/// The scoreboard, the pipe and the rules of what to send next.
#[derive(Debug)]
pub(super) struct Sack {
    state: LossState,
    /// The end of what was sent when the recovery or timeout began (RecoveryPoint).
    recovery_point: u64,
    /// The highest byte sent again in this recovery (HighRxt).
    highest_retransmitted: u64,
    /// The one retransmission of rule 4 is still to be had.
    may_rescue: bool,
    /// The first retransmission leaves whatever the window says.
    is_due: bool,
    proportional: Option<RateReduction>,
    wants_proportional: bool,
}

impl Sack {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            state: LossState::Open,
            recovery_point: 0,
            highest_retransmitted: 0,
            may_rescue: false,
            is_due: false,
            proportional: None,
            wants_proportional: config.proportional_rate_reduction,
        }
    }

    fn begin(&mut self, ack: &Ack, out: &mut Outstanding) {
        let flight = out.flight_without_limited_transmit();
        if out.board.lost() == 0 {
            out.board.mark_first_lost();
        }
        out.reduce(ack.now, flight);
        self.state = LossState::Recovery;
        self.recovery_point = out.board.nxt();
        self.highest_retransmitted = out.board.una();
        (self.may_rescue, self.is_due) = (true, true);
        if self.wants_proportional {
            self.proportional = Some(RateReduction::new(out.board.flight(), Bound::SlowStart, out.mss()));
        } else {
            out.set_cwnd(out.window.ssthresh);
        }
    }

    fn end(&mut self, ack: &Ack, out: &mut Outstanding) {
        if self.state == LossState::Recovery {
            out.recovered(ack);
        }
        self.state = LossState::Open;
        self.proportional = None;
        self.is_due = false;
    }
}

impl Recovery for Sack {
    fn on_ack(&mut self, ack: &Ack, change: &Change, out: &mut Outstanding) -> bool {
        let was_recovering = self.state == LossState::Recovery;
        if self.state != LossState::Open && ack.una >= self.recovery_point {
            self.end(ack, out);
        }
        if change.sacked > 0 {
            out.board.mark_lost_by_position(out.config.mss, DUPLICATES);
        }
        match self.state {
            LossState::Open if out.board.lost() > 0 || out.duplicates >= DUPLICATES => self.begin(ack, out),
            LossState::Open if was_recovering => {}
            LossState::Open | LossState::Timeout => out.grow(ack),
            LossState::Recovery => {}
        }
        if let Some(proportional) = &mut self.proportional {
            proportional.on_ack(ack, ack.lost, out);
        }
        // The first retransmission restarts the timer, too: it is what the timer now waits for.
        ack.acked > 0 || self.is_due
    }

    fn on_timeout(&mut self, now: Instant, out: &mut Outstanding) {
        out.collapse(now, self.state);
        self.state = LossState::Timeout;
        self.recovery_point = out.board.nxt();
        self.proportional = None;
        self.is_due = false;
    }

    fn retransmission(&mut self, _: Instant, out: &Outstanding) -> Option<(u64, u32)> {
        let (seq, span) = out.board.first_lost()?;
        let fits = out.may_send_again(span);
        let leaves = std::mem::take(&mut self.is_due) || fits;
        leaves.then(|| {
            self.highest_retransmitted = self.highest_retransmitted.max(seq + u64::from(span));
            (seq, span)
        })
    }

    /// Each segment reported to have arrived makes room for one: that is limited transmit.
    fn may_send_new(&self, bytes: u64, out: &Outstanding) -> bool {
        let holds_back = self.state == LossState::Open && !out.config.limited_transmit;
        let pipe = if holds_back { out.board.flight() } else { out.board.pipe() };
        pipe + bytes <= out.cwnd_bytes()
    }

    /// Rules 3 and 4 of NextSeg: a hole that is not known to be lost, and once the last segment.
    fn last_resort(&mut self, out: &Outstanding) -> Option<(u64, u32)> {
        if self.state != LossState::Recovery || out.board.pipe() + out.mss() > out.cwnd_bytes() {
            return None;
        }
        let from = self.highest_retransmitted.max(out.board.una());
        let hole = out.board.holes(from..out.board.highest_sacked()).next();
        if let Some((seq, span, false)) = hole.and_then(|hole| out.board.segment_at(hole.start)) {
            self.highest_retransmitted = seq + u64::from(span);
            return Some((seq, span));
        }
        let rescue = if std::mem::take(&mut self.may_rescue) { out.board.last_outstanding() } else { None };
        rescue.filter(|(seq, _)| out.board.segment_at(*seq).is_some_and(|(.., is_retransmitted)| !is_retransmitted))
    }

    fn on_sent(&mut self, _: Instant, bytes: u64, _: bool, _: &Outstanding) {
        if let Some(proportional) = &mut self.proportional {
            proportional.on_sent(bytes);
        }
    }

    fn state(&self) -> LossState {
        self.state
    }
}
