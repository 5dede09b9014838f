//! When a session that has come up begins with a start probe.

use super::Endpoint;
use crate::capacity::Capacity;
use crate::event::PeerId;
use crate::payload::Payload;
use units::{Duration, Instant};

impl<P: Payload> Endpoint<P> {
    /// The least time between two start probes to one peer, however often it comes up.
    pub(super) const START_PROBE_INTERVAL: Duration = Duration::from_secs(60);

    /// A peer has come up: if it is sent nothing and what is believed of the capacity is a guess, a train finds out.
    pub(super) fn consider_start_probe(&mut self, now: Instant, id: PeerId) {
        // One at a time: the answer of the first may settle it.
        if !self.capacity.wants_start_probe() || now < self.start_probe_until {
            return;
        }
        let peer = &mut self.peers[id.index()];
        let is_early = peer.start_probe_at.is_some_and(|at| now < at + Self::START_PROBE_INTERVAL);
        let Some(session) = peer.session.as_mut().filter(|_| !is_early && peer.leaves_at.is_none()) else { return };
        if !session.has_waiting(1) {
            session.start_probe.begin(Capacity::START_PROBE);
            (peer.start_probe_at, peer.awaits_start_probe) = (Some(now), true);
            self.start_probe_until = now + session.rtt() * 2;
        }
    }

    /// A peer has reported: if all of its start probe arrived at once, a longer one follows.
    pub(super) fn consider_longer_start_probe(&mut self, now: Instant, id: PeerId) {
        let Some(packets) = self.capacity.longer_start_probe() else { return };
        let peer = &mut self.peers[id.index()];
        let is_recent = peer.start_probe_at.is_some_and(|at| now < at + Self::START_PROBE_INTERVAL);
        let is_probed = std::mem::take(&mut peer.awaits_start_probe) && is_recent;
        let Some(session) = peer.session.as_mut().filter(|_| is_probed && peer.leaves_at.is_none()) else { return };
        if !session.has_waiting(1) {
            session.start_probe.begin(packets);
            self.start_probe_until = now + session.rtt() * 2;
        }
    }
}
