//! `Agent/TCP/Newreno`: a partial acknowledgement sends the next missing packet and keeps the recovery; only the first restarts the
//! timer (the impatient variant of RFC 6582), and the window is deflated by what it acknowledges.

use super::reno::{on_duplicate, time_out};
use super::state::{Ack, Action, DUPLICATES, State};
use super::variant::Variant;
use units::Instant;

/// Packets that may leave for one acknowledgement during the recovery.
const RECOVERY_BURST: u64 = 2;

#[derive(Debug, Default)]
pub(super) struct NewReno {
    /// A partial acknowledgement has restarted the timer.
    had_partial: bool,
}

impl Variant for NewReno {
    fn on_ack(&mut self, state: &mut State, ack: &Ack) {
        if ack.una > state.una {
            if ack.una >= state.recover || state.action != Action::Duplicates {
                if state.inflation > 0 && state.action == Action::Duplicates {
                    state.action = Action::Recovered;
                }
                state.inflation = 0;
                self.had_partial = false;
                state.on_new_ack(ack);
            } else {
                self.on_partial_ack(state, ack);
            }
        } else if ack.una == state.una {
            let may_begin = state.may_retransmit_fast();
            on_duplicate(state, ack.now, may_begin);
        }
        match state.duplicates {
            0 => state.may_send(u64::MAX),
            DUPLICATES.. => state.may_send(RECOVERY_BURST),
            _ => {}
        }
    }

    fn on_timeout(&mut self, state: &mut State, now: Instant) {
        time_out(state, now);
    }
}

impl NewReno {
    fn on_partial_ack(&mut self, state: &mut State, ack: &Ack) {
        if !self.had_partial {
            self.had_partial = true;
            state.clock.restart(ack.now);
        }
        let acked = ack.una - state.una;
        if state.inflation > acked {
            state.inflation -= acked - 1;
        } else {
            state.cwnd = (state.cwnd - (acked - state.inflation) as f64).max(1.0);
            state.inflation = 1;
        }
        state.una = ack.una;
        state.nxt = state.nxt.max(ack.una);
        state.clock.on_partial_ack(ack.una);
        state.force(ack.una);
    }
}
