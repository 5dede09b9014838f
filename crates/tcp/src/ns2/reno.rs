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
            state.duplicates += 1;
            if state.duplicates == DUPLICATES {
                if state.may_retransmit_fast() || state.action == Action::Duplicates {
                    state.halve_and_retransmit(ack.now);
                    state.inflation = DUPLICATES;
                }
            } else if state.duplicates > DUPLICATES {
                inflate(state);
            } else {
                state.send_one();
            }
        }
        if state.duplicates == 0 || state.duplicates >= DUPLICATES {
            state.may_send(u64::MAX);
        }
    }

    fn on_timeout(&mut self, state: &mut State, now: Instant) {
        time_out(state, now);
    }
}

/// A further duplicate in fast recovery stands for a packet that has left the network.
pub(super) fn inflate(state: &mut State) {
    if state.action == Action::Duplicates {
        state.inflation += 1;
    }
}

pub(super) fn time_out(state: &mut State, now: Instant) {
    state.inflation = 0;
    state.duplicates = 0;
    state.time_out(now);
}
