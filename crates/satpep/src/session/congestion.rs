//! Congestion marks (RFC 3168): those that came here are reported with acknowledgements, and those that the peer reports
//! are counted.

use crate::wire::frame::Writer;

/// Packets with a congestion mark, each way.
#[derive(Debug, Default)]
pub(crate) struct Congestion {
    /// How many arrived, and in how many acknowledgements that is still to be said.
    received: u64,
    reports: u32,
    /// How many the peer has reported.
    reported: u64,
    /// It reported more since this was last asked.
    news: bool,
}

impl Congestion {
    /// Acknowledgements that say the same, since any of them may be lost.
    pub(super) const REPORTS: u32 = 4;

    /// A packet arrived with a mark.
    pub(crate) fn on_marked(&mut self) {
        self.received += 1;
        self.reports = Self::REPORTS;
    }

    /// Says beside an acknowledgement how many came, if that is news.
    pub(super) fn report(&mut self, writer: &mut Writer<'_>) {
        if self.reports > 0 && writer.ce_count(self.received) {
            self.reports -= 1;
        }
    }

    /// The peer has had `count` marked packets, of `sent` at most.
    pub(super) fn on_report(&mut self, count: u64, sent: u64) {
        let count = count.min(sent);
        self.news |= count > self.reported;
        self.reported = self.reported.max(count);
    }

    /// Whether the peer has reported more since this was last asked.
    pub(crate) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }

    /// Packets that arrived here with a mark, and those that the peer reported.
    pub(crate) fn counts(&self) -> [u64; 2] {
        [self.received, self.reported]
    }
}
