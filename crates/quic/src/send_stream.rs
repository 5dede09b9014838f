//! The sending half of the stream: what was written, what the peer has, and what is to be sent again.

use crate::packet::{Limits, StreamFrame};
use std::ops::Range;
use units::RangeSet;

/// Bytes on their way out. The end of the stream counts as one more byte.
#[derive(Debug)]
pub(crate) struct SendStream {
    /// The end of what the application wrote.
    end: u64,
    is_finished: bool,
    /// The end of what was ever sent.
    next: u64,
    lost: RangeSet,
    acked: RangeSet,
    /// The peer takes bytes below this.
    edge: u64,
}

/// A part of the stream that leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) frame: StreamFrame,
    pub(crate) range: Range<u64>,
    pub(crate) is_retransmission: bool,
}

impl SendStream {
    pub(crate) fn new() -> Self {
        Self { end: 0, is_finished: false, next: 0, lost: RangeSet::new(), acked: RangeSet::new(), edge: 0 }
    }

    /// Takes up to `bytes` of the application's data, of which at most `buffer` wait.
    pub(crate) fn write(&mut self, bytes: u64, buffer: u64) -> u64 {
        let taken = bytes.min(self.space(buffer));
        self.end += taken;
        taken
    }

    /// Bytes that the application may write.
    pub(crate) fn space(&self, buffer: u64) -> u64 {
        if self.is_finished { 0 } else { buffer.saturating_sub(self.end - self.acknowledged()) }
    }

    /// No more data: the end of the stream follows.
    pub(crate) fn finish(&mut self) {
        self.is_finished = true;
    }

    /// Bytes acknowledged from the beginning on.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.acked.first().filter(|first| first.start == 0).map_or(0, |first| first.end).min(self.end)
    }

    fn last(&self) -> u64 {
        self.end + u64::from(self.is_finished)
    }

    /// Whether everything, the end included, is acknowledged.
    pub(crate) fn is_done(&self) -> bool {
        self.is_finished && self.acked.covers(&(0..self.last()))
    }

    /// The peer's limits: a later packet may say less than an earlier one.
    pub(crate) fn take_limits(&mut self, limits: Limits) {
        self.edge = self.edge.max(limits.stream.min(limits.connection));
    }

    /// Bytes beyond what was sent that the peer has room for.
    pub(crate) fn room(&self) -> u64 {
        self.edge.saturating_sub(self.next)
    }

    /// The end of new data that may be sent.
    fn sendable(&self) -> u64 {
        if self.edge >= self.end { self.last() } else { self.edge }
    }

    /// Whether there is something to send.
    pub(crate) fn has_work(&self) -> bool {
        !self.lost.is_empty() || self.has_new()
    }

    /// Whether there is something to send that was never sent.
    pub(crate) fn has_new(&self) -> bool {
        self.next < self.sendable()
    }

    /// What leaves next, of at most `most` bytes: what was lost, then what is new.
    pub(crate) fn take(&mut self, most: u32) -> Option<Chunk> {
        let most = u64::from(most);
        let (within, is_retransmission) = match self.lost.first() {
            Some(lost) => (lost, true),
            None => (self.next..self.sendable(), false),
        };
        let mut stop = within.end.min(within.start + most);
        // The end of the stream takes no room.
        if stop == self.end && within.end > self.end {
            stop = within.end;
        }
        let range = within.start..stop;
        if range.is_empty() {
            return None;
        }
        if is_retransmission {
            self.lost.remove(range.clone());
        } else {
            self.next = range.end;
        }
        let len = range.end.min(self.end) - range.start;
        let frame = StreamFrame { offset: range.start, len: len as u32, fin: range.end > self.end };
        Some(Chunk { frame, range, is_retransmission })
    }

    /// A part has arrived.
    pub(crate) fn on_acked(&mut self, range: Range<u64>) {
        self.lost.remove(range.clone());
        self.acked.insert(range);
    }

    /// A part is to be sent again, as far as it is not known to have arrived.
    pub(crate) fn send_again(&mut self, range: Range<u64>) {
        let missing: Vec<_> = self.acked.gaps(range).collect();
        missing.into_iter().for_each(|gap| {
            self.lost.insert(gap);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(edge: u64) -> Limits {
        Limits { stream: edge, connection: edge }
    }

    fn stream(bytes: u64, edge: u64) -> SendStream {
        let mut stream = SendStream::new();
        assert_eq!(stream.write(bytes, u64::MAX / 4), bytes);
        stream.take_limits(limits(edge));
        stream
    }

    fn frames(stream: &mut SendStream) -> Vec<(u64, u32, bool)> {
        std::iter::from_fn(|| stream.take(1000))
            .map(|chunk| (chunk.frame.offset, chunk.frame.len, chunk.frame.fin))
            .collect()
    }

    #[test]
    fn the_end_goes_with_the_last_bytes_or_alone() {
        let mut together = stream(2_000, 10_000);
        together.finish();
        assert_eq!(frames(&mut together), [(0, 1000, false), (1000, 1000, true)]);
        let mut alone = stream(1_000, 1_000);
        assert_eq!(frames(&mut alone), [(0, 1000, false)]);
        alone.finish();
        assert_eq!(frames(&mut alone), [(1000, 0, true)]);
        assert!(!alone.is_done());
        alone.on_acked(1000..1001);
        alone.on_acked(0..1000);
        assert!(alone.is_done());
    }

    #[test]
    fn nothing_leaves_beyond_the_smaller_limit_and_limits_never_fall() {
        let mut limited = stream(5_000, 2_500);
        limited.take_limits(Limits { stream: 9_000, connection: 2_500 });
        assert_eq!(frames(&mut limited), [(0, 1000, false), (1000, 1000, false), (2000, 500, false)]);
        limited.take_limits(limits(1_000));
        assert!(!limited.has_work());
        limited.take_limits(limits(3_000));
        assert_eq!(frames(&mut limited), [(2500, 500, false)]);
    }

    #[test]
    fn what_was_lost_leaves_first_and_not_what_arrived_after_all() {
        let mut lossy = stream(4_000, 10_000);
        (0..3).for_each(|_| assert!(lossy.take(1000).is_some()));
        lossy.send_again(0..1000);
        lossy.send_again(1000..2000);
        lossy.on_acked(1000..2000);
        let chunk = lossy.take(1000).unwrap();
        assert!(chunk.is_retransmission && chunk.range == (0..1000));
        assert_eq!(frames(&mut lossy), [(3000, 1000, false)]);
        // A probe's copy of what has arrived is none.
        lossy.send_again(1000..2000);
        assert!(!lossy.has_work());
    }
}
