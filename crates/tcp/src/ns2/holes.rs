//! What selective acknowledgements say is missing; each hole is offered once.

use units::RangeSet;

/// Packets that have arrived out of order, and how far the holes between them have been sent again.
#[derive(Debug, Default)]
pub(super) struct Holes {
    arrived: RangeSet,
    /// Holes before it were sent again.
    pointer: u64,
    /// Packets before it have arrived in order, as of the last update.
    una: u64,
}

impl Holes {
    /// Takes in an acknowledgement. Returns whether it says anything new.
    pub(super) fn update(&mut self, una: u64, sacked: &[(u64, u64)]) -> bool {
        let mut has_news = false;
        if self.una < una {
            has_news = !self.arrived.is_empty();
            self.arrived.remove(0..una);
            self.una = una;
        }
        for &(start, end) in sacked {
            has_news |= self.arrived.insert(start.max(una)..end) > 0;
        }
        has_news
    }

    /// The first hole not sent again that has something beyond it.
    pub(super) fn next(&mut self) -> Option<u64> {
        if self.arrived.is_empty() {
            return None;
        }
        self.pointer = self.pointer.max(self.una);
        let hole = self.arrived.range_of(self.pointer).map_or(self.pointer, |run| run.end);
        self.arrived.last().filter(|last| last.start > hole)?;
        self.pointer = hole;
        Some(hole)
    }

    /// A hole was sent again.
    pub(super) fn sent_again(&mut self, packet: u64) {
        self.pointer = self.pointer.max(packet + 1);
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        if !self.arrived.is_empty() {
            self.arrived = RangeSet::new();
        }
        self.pointer = 0;
    }
}
