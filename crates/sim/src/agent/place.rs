//! Where an agent is in the network.

use crate::NodeId;
use crate::packet::{Address, Body, Parcel};
use crate::wire::{Path, Wire};
use units::{Bytes, Duration, Instant};

/// Where an agent's ends are, and which timers are its own: `timer` to `timer + TIMERS - 1`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) agent: u32,
    pub(crate) timer: u32,
    /// The nodes of client and server.
    pub(crate) nodes: [NodeId; 2],
    /// The paths that start at each.
    pub(crate) paths: [Path; 2],
    /// Who is at the end of each: the other end, or a gateway in its place.
    pub(crate) peers: [Address; 2],
}

/// Timers of an agent: one for each end, by its port, and one for the application.
pub(crate) const TIMERS: u32 = 3;
/// The application's timer.
pub(crate) const APPLICATION: u32 = 2;

impl Place {
    /// Sends a packet from the end `port` to its peer.
    #[inline(always)]
    pub(crate) fn send(&self, wire: &mut Wire, port: u32, size: u32, body: Body) {
        let to = self.peers[port as usize];
        let parcel = Parcel { agent: to.agent, port: to.port, body };
        wire.send(self.nodes[port as usize], self.paths[port as usize], size, parcel);
    }

    /// How long a packet of this size takes now from the end `port` to its peer, if no other is on the way.
    pub(crate) fn idle_time(&self, wire: &mut Wire, port: u32, size: Bytes) -> Duration {
        wire.idle_time_of(self.nodes[port as usize], self.paths[port as usize], size)
    }

    /// The application's timer goes off next at `at`.
    pub(crate) fn wake_application(&self, wire: &mut Wire, at: Instant) {
        wire.set_timer(self.timer + APPLICATION, at);
    }
}
