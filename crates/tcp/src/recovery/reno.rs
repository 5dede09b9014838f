//! Reno: fast retransmit and fast recovery, which any acknowledgement of new data ends.

use super::Recovery;
use super::fast::FastRecovery;
use crate::control::{Ack, LossState};
use crate::outstanding::Outstanding;
use crate::scoreboard::Change;
use units::Instant;

/// Fast recovery of RFC 2581.
#[derive(Debug)]
pub(super) struct Reno(FastRecovery);

impl Reno {
    pub(super) fn new() -> Self {
        Self(FastRecovery::new())
    }
}

impl Recovery for Reno {
    fn on_ack(&mut self, ack: &Ack, _: &Change, out: &mut Outstanding) -> bool {
        let fast = &mut self.0;
        if ack.acked > 0 {
            if fast.state == LossState::Recovery {
                fast.end();
                out.recovered(ack);
            } else {
                fast.leave_timeout(out);
                out.grow(ack);
            }
        } else if ack.is_duplicate {
            if fast.state == LossState::Recovery {
                fast.inflation += 1.0;
            } else if fast.may_begin(out) {
                fast.begin(ack.now, out);
                return true;
            }
        }
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

    fn in_flight(&self, out: &Outstanding) -> u64 {
        self.0.in_flight(out)
    }

    fn state(&self) -> LossState {
        self.0.state
    }
}
