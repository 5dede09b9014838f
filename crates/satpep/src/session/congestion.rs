//! Congestion marks (RFC 3168) that the peer reports.

/// Packets with a congestion mark, by the peer's reports.
#[derive(Debug, Default)]
pub(crate) struct Congestion {
    reported: u64,
    /// It reported more since this was last asked.
    news: bool,
}

impl Congestion {
    /// The peer has had `count` marked packets.
    pub(super) fn on_report(&mut self, count: u64) {
        self.news |= count > self.reported;
        self.reported = self.reported.max(count);
    }

    /// Whether the peer has reported more since this was last asked.
    pub(crate) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }

    /// Packets that the peer reported.
    pub(crate) fn reported(&self) -> u64 {
        self.reported
    }
}
