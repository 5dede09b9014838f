//! A sender of ns-2, packet by packet.

use super::state::{Ack, Parameters, State};
use super::variant::Variant;
use super::{newreno, reno, sack, tahoe, vegas};
use crate::kinds::Ns2Agent;
use units::Instant;

/// A sender that knows packets only, numbered from 0.
#[derive(Debug)]
pub(super) struct Agent {
    pub(super) state: State,
    variant: Box<dyn Variant>,
}

impl Agent {
    /// An agent with nothing to send yet.
    pub(super) fn new(kind: Ns2Agent, parameters: &Parameters) -> Self {
        let variant: Box<dyn Variant> = match kind {
            Ns2Agent::Tahoe => Box::new(tahoe::Tahoe),
            Ns2Agent::Reno => Box::new(reno::Reno),
            Ns2Agent::NewReno => Box::new(newreno::NewReno::default()),
            Ns2Agent::Sack => Box::new(sack::Sack::default()),
            Ns2Agent::Vegas => Box::new(vegas::Vegas::new(parameters)),
        };
        Self { state: State::new(parameters), variant }
    }

    /// An acknowledgement arrived.
    pub(super) fn handle_ack(&mut self, ack: &Ack) {
        self.variant.on_ack(&mut self.state, ack);
    }

    /// The retransmission timer expired.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.variant.on_timeout(&mut self.state, now);
    }

    /// The next packet to leave now.
    #[inline]
    pub(super) fn poll_transmit(&mut self, now: Instant) -> Option<u64> {
        let packet = self.variant.next(&mut self.state)?;
        self.variant.on_sent(&mut self.state, packet, now);
        Some(packet)
    }
}
