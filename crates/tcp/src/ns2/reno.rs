//! `Agent/TCP/Reno`: fast retransmit and fast recovery; any acknowledgement of new packets ends the recovery.

use super::state::{Ack, Action, DUPLICATES, State};
use super::variant::Variant;
use units::Instant;

#[derive(Debug)]
pub(super) struct Reno;

impl Variant for Reno {
    fn on_ack(&mut self, state: &mut State, ack: &Ack) {
        if ack.una > state.una {
            if state.action == Action::Duplicates {
                state.action = Action::Recovered;
            }
            state.inflation = 0;
            state.on_new_ack(ack);
        } else if ack.una == state.una {
            let may_begin = state.may_retransmit_fast() || state.action == Action::Duplicates;
            on_duplicate(state, ack.now, may_begin);
        }
        if state.duplicates == 0 || state.duplicates >= DUPLICATES {
            state.may_send(u64::MAX);
        }
    }

    fn on_timeout(&mut self, state: &mut State, now: Instant) {
        time_out(state, now);
    }
}

/// The third duplicate begins a fast recovery, if one may begin; those before let new packets leave, and those after stand for packets
/// that have left the network.
pub(super) fn on_duplicate(state: &mut State, now: Instant, may_begin: bool) {
    state.duplicates += 1;
    if state.duplicates < DUPLICATES {
        state.send_one();
    } else if state.duplicates > DUPLICATES {
        state.inflation += u64::from(state.action == Action::Duplicates);
    } else if may_begin {
        state.halve_and_retransmit(now);
        state.inflation = DUPLICATES;
    }
}

pub(super) fn time_out(state: &mut State, now: Instant) {
    state.inflation = 0;
    state.duplicates = 0;
    state.time_out(now);
}
