//! Traces of the sessions, if they are asked for.

use super::Endpoint;
use crate::event::PeerId;
use crate::payload::Payload;
use crate::trace::TraceEvent;
use units::Instant;

/// Events that may wait for the driver, which takes them in each turn of its loop; later ones are left out.
const MAX_WAITING: usize = 1 << 16;

impl<P: Payload> Endpoint<P> {
    /// The next event of a session's trace, if [`crate::EndpointConfig::trace`] says that they are to be had. At most 65,536 wait; later
    /// ones are left out.
    pub fn poll_trace(&mut self) -> Option<TraceEvent> {
        self.trace.pop_front()
    }

    /// Takes what the session with a peer has recorded, and what is known of the link.
    pub(super) fn collect_trace(&mut self, now: Instant, id: PeerId) {
        let (pace, capacity) = (self.pacer.rate(), self.capacity.rate());
        if let Some(session) = self.peers[id.index()].session.as_mut() {
            session.measure_for_trace(now, pace, capacity);
        }
        self.take_trace(id);
    }

    /// Takes what the session with a peer has recorded.
    pub(super) fn take_trace(&mut self, id: PeerId) {
        let Some(session) = self.peers[id.index()].session.as_mut() else { return };
        while let Some(event) = session.poll_trace() {
            if self.trace.len() < MAX_WAITING {
                self.trace.push_back(event);
            }
        }
    }
}
