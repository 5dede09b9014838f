//! Leaving in good order: CLOSE is said a few times over a round trip, since nothing else notifies the peer, and until the
//! peer has answered with its own.

use super::Session;
use super::output::Filled;
use crate::payload::Payload;
use crate::sent_packets::SentFrames;
use crate::wire::frame::Writer;
use peering::dscp::Dscp;
use units::{Duration, Instant};

/// What is still to be said.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Farewell {
    left: u32,
    due: bool,
    /// When it is said again.
    next: Option<Instant>,
    /// The peer has said it.
    is_said_by_peer: bool,
}

impl Farewell {
    /// How often CLOSE is said without an answer.
    pub(super) const TIMES: u32 = 8;
    pub(super) const MIN_INTERVAL: Duration = Duration::from_millis(10);

    pub(super) fn is_due(&self) -> bool {
        self.due
    }

    /// The peer says CLOSE.
    pub(super) fn on_peer(&mut self) {
        self.is_said_by_peer = true;
    }

    pub(super) fn is_said_by_peer(&self) -> bool {
        self.is_said_by_peer
    }

    /// When CLOSE is sent again.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.next
    }

    pub(super) fn on_timeout(&mut self, now: Instant) {
        if self.next.is_some_and(|at| at <= now) {
            (self.due, self.next) = (true, None);
        }
    }

    /// It was said once; the rest is spread over a round trip, so that a burst of losses does not take all.
    pub(super) fn on_said(&mut self, now: Instant, rtt: Duration) {
        self.due = false;
        self.left = self.left.saturating_sub(1);
        self.next = (self.left > 0).then(|| now + (rtt / u64::from(Self::TIMES)).max(Self::MIN_INTERVAL));
    }
}

impl<P: Payload> Session<P> {
    /// Bytes of a packet's frames that say nothing but CLOSE.
    pub(crate) const CLOSE_LENGTH: usize = 1;

    /// Tells the peer that this gateway stops.
    pub(crate) fn close(&mut self) {
        self.farewell = Farewell { left: Farewell::TIMES, due: true, next: None, ..self.farewell };
    }

    /// Writes the answer to a CLOSE into `space`.
    pub(crate) fn fill_close(&mut self, now: Instant, space: &mut [u8], overhead: usize) -> Filled {
        let mut writer = Writer::new(space);
        writer.close();
        self.record((now, 0), &writer, overhead, Dscp::default(), SentFrames::new())
    }
}
