//! Which bytes each packet carries.

use std::collections::VecDeque;
use std::ops::Range;

/// The packets in flight, by number.
#[derive(Debug)]
pub(super) struct Packets {
    /// The number of the first one not acknowledged in order, and where it begins.
    first: u64,
    start: u64,
    /// Where the last one ends.
    nxt: u64,
    /// Where each packet from `first` on ends.
    ends: VecDeque<u64>,
}

impl Packets {
    /// None yet: the next packet is number `first` and begins at `start`.
    pub(super) fn new(first: u64, start: u64) -> Self {
        Self { first, start, nxt: start, ends: VecDeque::new() }
    }

    /// Packets cut so far.
    pub(super) fn count(&self) -> u64 {
        self.first + self.ends.len() as u64
    }

    /// All before it is acknowledged.
    pub(super) fn una(&self) -> u64 {
        self.start
    }

    /// The end of the last packet.
    pub(super) fn nxt(&self) -> u64 {
        self.nxt
    }

    /// The next packet ends at `end`.
    pub(super) fn cut(&mut self, end: u64) {
        self.nxt = end;
        self.ends.push_back(end);
    }

    /// The bytes of a packet in flight; of one acknowledged, none.
    pub(super) fn bytes_of(&self, packet: u64) -> Range<u64> {
        let Some(index) = packet.checked_sub(self.first) else { return self.start..self.start };
        let index = index as usize;
        let start = if index == 0 { self.start } else { self.ends[index - 1] };
        start..self.ends[index]
    }

    /// All before `ack` has arrived. Returns how many packets that makes.
    pub(super) fn acknowledge(&mut self, ack: u64) -> u64 {
        while let Some(end) = self.ends.front().copied().filter(|end| *end <= ack) {
            self.ends.pop_front();
            self.start = end;
            self.first += 1;
        }
        self.first
    }

    /// The packet that holds the byte `at`, or the one after the last.
    pub(super) fn number_of(&self, at: u64) -> u64 {
        self.first + self.ends.partition_point(|end| *end <= at) as u64
    }

    /// How many packets there will be when all before `end` is sent in packets of `size`.
    pub(super) fn number_after(&self, end: u64, size: u64) -> u64 {
        let bytes = end.saturating_sub(self.nxt());
        // With a full window each acknowledgement makes room for one packet: that takes no division.
        self.count() + if bytes <= size { u64::from(bytes > 0) } else { bytes.div_ceil(size) }
    }
}
