//! A sender of ns-2, packet by packet.

use super::state::State;
use super::{newreno, reno, sack, tahoe, vegas};
use std::fmt::Debug;
use units::Instant;

/// Which of ns-2's agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `Agent/TCP`.
    Tahoe,
    /// `Agent/TCP/Reno`.
    Reno,
    /// `Agent/TCP/Newreno`.
    NewReno,
    /// `Agent/TCP/Sack1`.
    Sack,
    /// `Agent/TCP/Vegas`.
    Vegas,
}

/// The parameters of an agent that are not always ns-2's defaults.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Parameters {
    /// The receiver's window in packets (`window_`).
    pub(super) window: u64,
    /// The slow-start threshold at the start, in packets; ns-2 takes the window.
    pub(super) ssthresh: u64,
    /// The congestion window after the first acknowledgement, in packets (`windowInit_`).
    pub(super) initial_window: f64,
    /// Vegas' alpha, beta and gamma in packets.
    pub(super) vegas: [f64; 3],
}

/// An acknowledgement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ack<'a> {
    pub(super) now: Instant,
    /// So many packets have arrived in order.
    pub(super) una: u64,
    /// Packets beyond: the first of each run, and the one after its last.
    pub(super) sacked: &'a [(u64, u64)],
}

/// What tells the agents apart.
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

/// A sender that knows packets only, numbered from 0.
#[derive(Debug)]
pub(super) struct Agent {
    pub(super) state: State,
    variant: Box<dyn Variant>,
}

impl Agent {
    /// An agent with nothing to send yet.
    pub(super) fn new(kind: Kind, parameters: &Parameters) -> Self {
        let variant: Box<dyn Variant> = match kind {
            Kind::Tahoe => Box::new(tahoe::Tahoe),
            Kind::Reno => Box::new(reno::Reno),
            Kind::NewReno => Box::new(newreno::NewReno::default()),
            Kind::Sack => Box::new(sack::Sack::default()),
            Kind::Vegas => Box::new(vegas::Vegas::new(parameters)),
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
    pub(super) fn poll_transmit(&mut self, now: Instant) -> Option<u64> {
        let packet = self.variant.next(&mut self.state)?;
        self.variant.on_sent(&mut self.state, packet, now);
        Some(packet)
    }
}
