//! `Agent/TCP`: Tahoe. Three duplicates close the window to one packet and send everything again from the first one missing.

use super::state::{Ack, DUPLICATES, State};
use super::variant::Variant;

#[derive(Debug)]
pub(super) struct Tahoe;

impl Variant for Tahoe {
    fn on_ack(&mut self, state: &mut State, ack: &Ack) {
        if ack.una > state.una {
            state.on_new_ack(ack);
        } else if ack.una == state.una {
            state.duplicates += 1;
            if state.duplicates == DUPLICATES && state.may_retransmit_fast() {
                state.on_fast_retransmission();
                state.halve_threshold();
                state.cwnd = 1.0;
                state.go_back(ack.now);
            } else if state.duplicates < DUPLICATES {
                state.send_one();
            }
        }
        state.may_send(u64::MAX);
    }
}
