//! NewReno: a partial acknowledgement names the next loss (RFC 6582).

use super::Recovery;
use super::fast::FastRecovery;
use crate::control::{Ack, LossState};
use crate::outstanding::Outstanding;
use crate::scoreboard::Change;
use units::Instant;

/// The NewReno modification of fast recovery.
#[derive(Debug)]
pub(super) struct NewReno {
    fast: FastRecovery,
    /// A partial acknowledgement has come in this recovery: only the first restarts the timer ("impatient").
    had_partial: bool,
}

impl NewReno {
    pub(super) fn new() -> Self {
        Self { fast: FastRecovery::new(), had_partial: false }
    }

    fn on_new_data(&mut self, ack: &Ack, out: &mut Outstanding) -> bool {
        let is_full = self.fast.recover.is_none_or(|recover| ack.una > recover);
        if self.fast.state != LossState::Recovery {
            self.fast.leave_timeout(out);
            out.grow(ack);
            return true;
        }
        if is_full {
            self.fast.end();
            let flight = (out.board.flight() as f64 / out.mss() as f64).max(1.0);
            out.set_cwnd(out.window.ssthresh.min(flight + 1.0));
            out.control.on_recovered(ack, &mut out.window);
            return true;
        }
        self.fast.inflation += if ack.acked >= out.mss() { 1.0 } else { 0.0 } - ack.acked_segments();
        out.board.mark_first_lost();
        self.fast.is_due = true;
        !std::mem::replace(&mut self.had_partial, true)
    }
}

impl Recovery for NewReno {
    fn on_ack(&mut self, ack: &Ack, _: &Change, out: &mut Outstanding) -> bool {
        if ack.acked > 0 {
            return self.on_new_data(ack, out);
        }
        if ack.is_duplicate && self.fast.state == LossState::Recovery {
            self.fast.inflation += 1.0;
        } else if ack.is_duplicate && self.fast.may_begin(out) {
            self.fast.begin(ack.now, out);
            self.had_partial = false;
            return true;
        }
        false
    }

    fn on_timeout(&mut self, now: Instant, out: &mut Outstanding) {
        self.fast.on_timeout(now, out);
    }

    fn retransmission(&mut self, _: Instant, out: &Outstanding) -> Option<(u64, u32)> {
        self.fast.retransmission(out)
    }

    fn may_send_new(&self, bytes: u64, out: &Outstanding) -> bool {
        self.fast.may_send_new(bytes, out)
    }

    fn in_flight(&self, out: &Outstanding) -> u64 {
        self.fast.in_flight(out)
    }

    fn state(&self) -> LossState {
        self.fast.state
    }
}
