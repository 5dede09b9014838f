//! The start probe: a train of packets that say nothing else, sent when a session comes up with nothing to send, so that the first
//! transfer begins with a known capacity.
//!
//! Contract: the endpoint decides when ([`StartProbe::begin`]). What is left of it counts as data that waits, and is dropped when there
//! is data, or when no train leaves.

/// Packets of the start probe that are still to be sent.
#[derive(Debug, Default)]
pub(crate) struct StartProbe {
    left: u32,
}

impl StartProbe {
    pub(crate) fn begin(&mut self, packets: u32) {
        self.left = packets;
    }

    pub(crate) fn is_due(&self) -> bool {
        self.left > 0
    }

    /// Bytes that wait, if packets are full ones.
    pub(super) fn waiting(&self) -> u64 {
        u64::from(self.left) * 1500
    }

    pub(super) fn on_sent(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    pub(crate) fn cancel(&mut self) {
        self.left = 0;
    }
}
