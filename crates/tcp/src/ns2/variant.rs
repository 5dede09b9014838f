//! The differences between ns-2's agents.

use super::state::{Ack, State};
use std::fmt::Debug;
use units::Instant;

/// The differences between the agents.
pub(super) trait Variant: Debug + Send {
    /// An acknowledgement arrived, old and duplicate ones included.
    fn on_ack(&mut self, state: &mut State, ack: &Ack);

    /// The retransmission timer expired.
    fn on_timeout(&mut self, state: &mut State, now: Instant) {
        state.time_out(now);
    }

    /// The next packet to leave; called until there is none.
    fn next(&mut self, state: &mut State) -> Option<u64> {
        state.next()
    }

    /// The packet leaves.
    fn on_sent(&mut self, state: &mut State, packet: u64, now: Instant) {
        state.on_sent(packet, now);
    }
}
