//! Tahoe: the third duplicate starts slow start from the first unacknowledged byte.

use super::Recovery;
use super::fast::FastRecovery;
use crate::control::{Ack, LossState};
use crate::outstanding::Outstanding;
use crate::scoreboard::Change;
use units::Instant;

/// Fast retransmit without fast recovery (Jacobson, SIGCOMM 1988).
#[derive(Debug)]
pub(super) struct Tahoe(FastRecovery);

impl Tahoe {
    pub(super) fn new() -> Self {
        Self(FastRecovery::new())
    }
}

impl Recovery for Tahoe {
    fn on_ack(&mut self, ack: &Ack, _: &Change, out: &mut Outstanding) -> bool {
        if self.0.may_begin(out) && ack.is_duplicate {
            self.0.begin(ack.now, out);
            out.set_cwnd(1.0);
            out.board.mark_all_lost();
            self.0.state = LossState::Timeout;
            return true;
        }
        self.0.leave_timeout(out);
        out.grow(ack);
        ack.acked > 0
    }

    fn on_timeout(&mut self, now: Instant, out: &mut Outstanding) {
        self.0.on_timeout(now, out);
    }

    fn retransmission(&mut self, _: Instant, out: &Outstanding) -> Option<(u64, u32)> {
        self.0.retransmission(out)
    }

    fn may_send_new(&self, bytes: u64, out: &Outstanding) -> bool {
        self.0.may_send_new(bytes, out)
    }

    fn state(&self) -> LossState {
        self.0.state
    }
}
