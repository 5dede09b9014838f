//! The receiving half of a stream: reassembly, and what the reader has taken.

use super::offset::StreamOffset;
use crate::event::Violation;
use crate::payload::Payload;
use std::io::IoSlice;
use units::RangeTree;

/// Bytes from the peer, put in order.
#[derive(Default)]
pub(crate) struct ReceiveHalf<P> {
    bytes: P,
    /// The reader has consumed everything before.
    read: StreamOffset,
    /// Everything before has arrived.
    in_order_to: StreamOffset,
    /// Ranges that arrived above `in_order_to`.
    early: RangeTree<StreamOffset>,
    /// The end of the furthest byte that arrived.
    highest: StreamOffset,
    /// The peer may send bytes below this offset. It never falls.
    pub(crate) limit: StreamOffset,
    /// The peer wants to know when bytes before this offset have been read.
    watched_to: StreamOffset,
    /// Final size of the stream, once its end or its reset has shown it.
    final_size: Option<StreamOffset>,
    /// Whether its end has.
    has_fin: bool,
    /// The reader was notified of data and has not read to the end since.
    reader_knows: bool,
    /// The reader has seen the end.
    end_seen: bool,
}

impl<P: Payload> ReceiveHalf<P> {
    /// Losses leave at most so many pieces apart, and one more for so many bytes of the window: a peer that sends single
    /// bytes here and there would have us remember far more than bytes.
    pub(crate) const MANY_PIECES: u64 = 4096;
    pub(crate) const BYTES_PER_PIECE: u64 = 2048;

    pub(crate) fn new(limit: StreamOffset) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Bytes held or promised room: from the reader's position to the furthest byte.
    pub(crate) fn held(&self) -> u64 {
        self.highest - self.read
    }

    /// Pieces that wait for what precedes them.
    pub(crate) fn pieces(&self) -> usize {
        self.early.len()
    }

    /// How far the reader has consumed.
    pub(crate) fn read(&self) -> StreamOffset {
        self.read
    }

    /// The peer wants to know when bytes below `to` have been read. Whether it is to know at once how far that is: all that has arrived.
    pub(crate) fn watch(&mut self, to: StreamOffset) -> bool {
        self.watched_to = self.watched_to.max(to);
        !self.is_sized() && self.held() == 0
    }

    /// Whether the peer wants to know that what lies behind `before` has been read.
    pub(crate) fn is_watched(&self, before: StreamOffset) -> bool {
        !self.is_sized() && before < self.read.min(self.watched_to)
    }

    /// The peer sends up to `end`. It may know that each new stream may be sent up to `limit`, or something less: as far as it does, the
    /// stream may be.
    pub(crate) fn allow(&mut self, end: StreamOffset, limit: StreamOffset) {
        if end > self.limit && end <= limit {
            self.limit = end;
        }
    }

    /// Takes a piece in: `data`, and the count of the bytes after it that were elided. Returns by how many bytes the
    /// furthest point moved (they count against the session's credit).
    pub(crate) fn receive(
        &mut self,
        pool: &mut P::Pool,
        offset: StreamOffset,
        data: &[u8],
        elided: usize,
        fin: bool,
    ) -> Result<u64, Violation> {
        let end = offset + (data.len() + elided) as u64;
        let size_known = self.final_size.unwrap_or(StreamOffset::new(u64::MAX));
        if end > size_known || (fin && (end < self.highest || size_known.min(end) != end)) {
            return Err(Violation::FinalSize);
        }
        if end > self.limit {
            return Err(Violation::BeyondCredit);
        }
        if fin {
            self.final_size = Some(end);
            self.has_fin = true;
        }
        let moved = end.saturating_since(self.highest);
        self.highest = self.highest.max(end);
        let fresh = offset.max(self.in_order_to);
        if fresh < end {
            self.bytes.write(pool, fresh, data.get((fresh - offset) as usize..).unwrap_or_default());
            if fresh == self.in_order_to {
                self.in_order_to = end;
            } else {
                self.early.insert(fresh..end);
                if self.early.len() as u64 > Self::MANY_PIECES + (self.limit - self.read) / Self::BYTES_PER_PIECE {
                    return Err(Violation::Scattered);
                }
            }
            while let Some(first) = self.early.first().filter(|first| first.start <= self.in_order_to) {
                self.in_order_to = self.in_order_to.max(first.end);
                self.early.pop_first();
            }
        }
        Ok(moved)
    }

    /// Whether the reader has news since it last read to the end, asked once for each piece of news.
    pub(crate) fn take_news(&mut self) -> bool {
        let news = self.in_order_to > self.read || (self.at_end() && !self.end_seen);
        let tell = news && !self.reader_knows;
        self.reader_knows |= news;
        self.end_seen |= self.at_end();
        tell
    }

    /// How much can be read.
    pub(crate) fn readable(&self) -> u64 {
        self.in_order_to - self.read
    }

    /// Lends what can be read.
    pub(crate) fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        self.bytes.slices(self.read, self.in_order_to, slices)
    }

    /// The reader took `length` bytes; returns how many it could take.
    pub(crate) fn consume(&mut self, pool: &mut P::Pool, length: usize) -> u64 {
        let taken = (length as u64).min(self.in_order_to - self.read);
        self.read += taken;
        if self.read == self.in_order_to {
            self.reader_knows = false;
        }
        self.bytes.release(pool, self.read, self.highest);
        taken
    }

    /// Has what waits for its reader take up little more memory than it needs.
    pub(crate) fn compact(&mut self, pool: &mut P::Pool) {
        self.bytes.compact(pool, self.read, self.highest);
    }

    /// Whether the end was received and every byte before it consumed.
    pub(crate) fn is_finished(&self) -> bool {
        self.final_size == Some(self.read)
    }

    /// Whether the end was received and every byte before it.
    pub(crate) fn at_end(&self) -> bool {
        self.final_size == Some(self.in_order_to)
    }

    /// Whether the peer ended the stream in order.
    pub(crate) fn has_fin(&self) -> bool {
        self.has_fin
    }

    /// Whether the length of the stream is known.
    pub(crate) fn is_sized(&self) -> bool {
        self.final_size.is_some()
    }

    /// The peer gave up after `final_size` bytes. Returns how far the furthest point moved.
    pub(crate) fn on_reset(&mut self, final_size: StreamOffset) -> Result<u64, Violation> {
        if final_size < self.highest || self.final_size.is_some_and(|size| size != final_size) {
            return Err(Violation::FinalSize);
        }
        if final_size > self.limit {
            return Err(Violation::BeyondCredit);
        }
        self.final_size = Some(final_size);
        let moved = final_size - self.highest;
        self.highest = final_size;
        Ok(moved)
    }

    /// Drops everything that is held; returns how many bytes count as consumed by that.
    pub(crate) fn discard(&mut self, pool: &mut P::Pool) -> u64 {
        let dropped = self.held();
        self.read = self.highest;
        self.in_order_to = self.highest;
        self.early = RangeTree::new();
        self.bytes.release(pool, self.highest, self.highest);
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::pages::{PagePool, Stored};
    use proptest::prelude::*;

    fn read_all(half: &ReceiveHalf<Stored>) -> Vec<u8> {
        let mut slices = [IoSlice::new(&[]); 64];
        let filled = half.slices(&mut slices);
        slices[..filled].iter().flat_map(|slice| slice.iter().copied()).collect()
    }

    #[test]
    fn refuses_bytes_beyond_the_credit_and_a_second_end() {
        let mut pool = PagePool::default();
        let mut half = ReceiveHalf::<Stored>::new(StreamOffset::new(10));
        assert_eq!(half.receive(&mut pool, StreamOffset::new(5), &[0; 6], 0, false), Err(Violation::BeyondCredit));
        assert_eq!(half.receive(&mut pool, StreamOffset::new(2), &[0; 4], 0, true), Ok(6));
        assert_eq!(half.receive(&mut pool, StreamOffset::new(6), &[0; 1], 0, false), Err(Violation::FinalSize));
        assert_eq!(half.receive(&mut pool, StreamOffset::new(0), &[0; 2], 0, true), Err(Violation::FinalSize));
        assert_eq!(half.on_reset(StreamOffset::new(7)), Err(Violation::FinalSize));
        assert_eq!(half.on_reset(StreamOffset::new(6)), Ok(0));
    }

    #[test]
    fn single_bytes_here_and_there_are_refused_before_they_cost_much() {
        let mut pool = PagePool::default();
        let mut half = ReceiveHalf::<Stored>::new(StreamOffset::new(1 << 20));
        let mut pieces = (1..).map(|at| half.receive(&mut pool, StreamOffset::new(at * 2), &[7], 0, false));
        let accepted = pieces.by_ref().take_while(Result::is_ok).count() as u64;
        assert_eq!(accepted, 4096 + (1 << 20) / 2048);
    }

    #[test]
    fn the_end_is_news_even_without_data() {
        let mut pool = PagePool::default();
        let mut half = ReceiveHalf::<Stored>::new(StreamOffset::new(10));
        half.receive(&mut pool, StreamOffset::new(0), b"ab", 0, false).expect("within credit");
        assert!(half.take_news() && !half.take_news());
        half.consume(&mut pool, 2);
        half.receive(&mut pool, StreamOffset::new(2), b"", 0, true).expect("within credit");
        assert!(half.take_news() && !half.take_news());
        assert!(half.is_finished());
    }

    proptest! {
        #[test]
        fn pieces_in_any_order_with_overlaps_give_the_stream(
            order in proptest::collection::vec((0usize..90_000, 1usize..40_000), 1..40), seed in any::<u8>()
        ) {
            let bytes: Vec<u8> = (0..130_000u32).map(|at| (at.wrapping_mul(31) >> 3) as u8 ^ seed).collect();
            let mut pool = PagePool::default();
            let mut half = ReceiveHalf::<Stored>::new(StreamOffset::new(bytes.len() as u64));
            let mut got = Vec::new();
            for (start, length) in order.into_iter().chain([(0, bytes.len())]) {
                let end = (start + length).min(bytes.len());
                half.receive(&mut pool, StreamOffset::new(start as u64), &bytes[start..end], 0, end == bytes.len()).expect("within credit");
                let ready = read_all(&half);
                let take = ready.len() / 2 + 1;
                got.extend_from_slice(&ready[..take.min(ready.len())]);
                half.consume(&mut pool, take);
            }
            got.extend(read_all(&half));
            prop_assert_eq!(got, bytes);
        }
    }
}
