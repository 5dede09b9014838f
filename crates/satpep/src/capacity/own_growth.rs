//! A queue that grew as one of several peers saw it.

/// A queue that grew as one peer alone saw it, while others shared the link.
#[derive(Debug, Clone, Copy)]
pub(super) struct OwnGrowth {
    /// By whose clock.
    pub(super) clock: usize,
    /// When the last that saw it was sent.
    pub(super) sent: f64,
    /// Bytes per second of this peer, and of all.
    pub(super) own: f64,
    pub(super) all: f64,
}

impl OwnGrowth {
    /// Seconds for which a path is taken to carry what it did.
    const LASTS: f64 = 5.0;
    /// What differs by less than this share is as much.
    const AS_MUCH: f64 = 0.9;

    /// Whether the queue is of the peer's own path: as much of the peer's left it as before, and less of all. A link that is full carries
    /// more for one peer when others are sent less.
    pub(super) fn is_of_path(&self, before: &Self) -> bool {
        self.clock == before.clock
            && self.sent - before.sent < Self::LASTS
            && self.own >= Self::AS_MUCH * before.own
            && self.all < Self::AS_MUCH * before.all
    }
}
