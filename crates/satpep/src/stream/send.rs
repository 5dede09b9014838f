//! The sending half of a stream: what was written, sent, acknowledged and lost.

use super::offset::StreamOffset;
use super::pages::{MOST_LENT, PagePool, Spaces, Stored};
use crate::credit::SessionCredit;
use crate::payload::Payload;
use std::ops::Range;
use units::RangeSet;

/// Bytes from the application to the peer, with the end that follows them.
#[derive(Default)]
pub(crate) struct SendHalf<P> {
    bytes: P,
    /// Everything before is acknowledged and forgotten.
    acked_to: StreamOffset,
    /// Acknowledged ranges above `acked_to`.
    acked: RangeSet<StreamOffset>,
    /// Ranges to send again, before anything new.
    lost: RangeSet<StreamOffset>,
    /// Ranges of which one more copy is to be sent after those.
    twice: RangeSet<StreamOffset>,
    /// The next byte never sent.
    next: StreamOffset,
    /// The end of what was written.
    end: StreamOffset,
    /// The receiver takes bytes below this offset.
    limit: StreamOffset,
    /// The receiver has raised the limit: it reads, and shares its memory out by what it grants.
    was_granted: bool,
    /// The receiver has reported that it has read everything before, and was asked to report what it reads before.
    read_to: StreamOffset,
    watched_to: StreamOffset,
    fin: Fin,
    /// A write found no space, so the writer wants to hear of it.
    pub(crate) writer_waits: bool,
    /// The stream is in the queue of those whose writers wait, or waited.
    pub(crate) is_in_writers: bool,
    /// Pages that the last read was lent, twice as many if it filled them.
    lent_pages: u8,
}

/// The end of the stream, after the last byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Fin {
    /// More may be written.
    #[default]
    Open,
    /// To be sent, for the first time or again.
    Queued,
    Sent,
    Acked,
}

/// A piece of the stream to put into a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) offset: StreamOffset,
    pub(crate) length: usize,
    pub(crate) fin: bool,
    /// Bytes never sent before: they use up the session's credit.
    pub(crate) fresh: usize,
}

impl<P: Payload> SendHalf<P> {
    pub(crate) fn new(limit: StreamOffset) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Bytes that a stream may send on the session's credit alone, before any grant of its own.
    const ALWAYS: u64 = 4096;
    /// How far ahead of what is sent the receiver is asked to report what it reads.
    const WATCHED: u64 = 256 * 1024;

    /// The receiver takes bytes below `limit` from now on.
    pub(crate) fn raise_limit(&mut self, limit: StreamOffset) {
        self.limit = self.limit.max(limit);
        self.was_granted = true;
    }

    /// Everything before `to` has been read.
    pub(crate) fn on_read(&mut self, to: StreamOffset) {
        self.read_to = self.read_to.max(to.min(self.next));
    }

    /// What the stream may take of the session's credit, read or not. As long as nobody is known to read it, a stream leaves
    /// the others as much as it takes (the dynamic threshold of Choudhury and Hahne, IEEE/ACM Trans. Networking 6(2),
    /// 1998), so that any number of stalled readers leave some.
    fn share(&self, session_credit: SessionCredit) -> u64 {
        let free = session_credit.free();
        if self.was_granted {
            return free;
        }
        let left = session_credit.left.beyond(self.sent()) / 2;
        left.max(Self::ALWAYS.saturating_sub(self.sent())).min(free)
    }

    /// What it may take because of what it has been read, of credit that is kept back for that: a ration, and no more than
    /// was read before, so that those of which little has been read, which may stall, take little.
    fn ration(&self, session_credit: SessionCredit) -> u64 {
        let most = session_credit.ration().min(Self::ALWAYS + self.read_to.get());
        most.saturating_sub(self.next - self.read_to)
    }

    /// New bytes that the stream's own limit allows.
    fn allowed(&self) -> u64 {
        self.end.min(self.limit).saturating_since(self.next)
    }

    /// New bytes that may be sent.
    pub(crate) fn fresh(&self, session_credit: SessionCredit) -> u64 {
        let (allowed, share) = (self.allowed(), self.share(session_credit));
        if share >= allowed { allowed } else { allowed.min(self.ration(session_credit).max(share)) }
    }

    /// Up to where the receiver is to be asked to report what it reads, if it is: only such reports let the stream send on.
    pub(crate) fn to_watch(&self, session_credit: SessionCredit) -> Option<StreamOffset> {
        let is_rationed = session_credit.kept_back > 0 && self.allowed() > 0 && self.share(session_credit) == 0;
        let is_due = is_rationed && self.watched_to < self.next + Self::WATCHED / 2;
        is_due.then(|| self.next + Self::WATCHED)
    }

    /// The receiver is asked to report what it reads below `to`; [`StreamOffset::ZERO`] if that was lost.
    pub(crate) fn set_watched(&mut self, to: StreamOffset) {
        self.watched_to = to;
    }

    /// Bytes kept: written and not yet acknowledged in order.
    pub(crate) fn buffered(&self) -> u64 {
        self.end - self.acked_to
    }

    /// Bytes written and never sent.
    pub(crate) fn unsent(&self) -> u64 {
        self.end - self.next
    }

    /// Bytes sent so far, each counted once.
    pub(crate) fn sent(&self) -> u64 {
        self.next.get()
    }

    /// The same, if it has no credit of its own.
    pub(crate) fn ungranted(&self) -> Option<u64> {
        (!self.was_granted).then_some(self.sent())
    }

    /// The stream's final size if nothing more is sent.
    pub(crate) fn final_size(&self) -> StreamOffset {
        self.next
    }

    /// Bytes acknowledged in order.
    pub(crate) fn acked(&self) -> u64 {
        self.acked_to.get()
    }

    /// Whether something has been written.
    pub(crate) fn has_begun(&self) -> bool {
        self.end > StreamOffset::ZERO
    }

    /// Whether more may be written.
    pub(crate) fn is_open(&self) -> bool {
        self.fin == Fin::Open
    }

    /// Whether everything, the end included, is acknowledged.
    pub(crate) fn is_finished(&self) -> bool {
        self.fin == Fin::Acked && self.acked_to == self.end
    }

    /// Whether everything written, and the end if it is, has been acknowledged.
    pub(crate) fn is_settled(&self) -> bool {
        self.acked_to == self.end && matches!(self.fin, Fin::Open | Fin::Acked)
    }

    /// Appends `data`.
    pub(crate) fn write(&mut self, pool: &mut P::Pool, data: &[u8]) {
        self.bytes.write(pool, self.end, data);
        self.end += data.len() as u64;
    }

    /// Appends `length` bytes: what [`SendHalf::space`] lent, or none that are kept.
    pub(crate) fn written(&mut self, length: usize) {
        self.end += length as u64;
    }

    pub(crate) fn finish(&mut self) {
        if self.fin == Fin::Open {
            self.fin = Fin::Queued;
        }
    }

    /// Whether there is something to send, given how many new bytes the session's credit allows.
    pub(crate) fn has_data(&self, session_credit: SessionCredit) -> bool {
        let new_bytes = self.fresh(session_credit) > 0 || self.to_watch(session_credit).is_some();
        !self.lost.is_empty()
            || !self.twice.is_empty()
            || new_bytes
            || (self.fin == Fin::Queued && self.next == self.end)
    }

    /// Where the next piece begins.
    pub(crate) fn next_offset(&self) -> StreamOffset {
        self.lost.first().or_else(|| self.twice.first()).map_or(self.next, |lost| lost.start)
    }

    /// Takes the next piece of at most `room` bytes: lost ranges first, then new bytes within both credits.
    pub(crate) fn next_piece(&mut self, room: usize, session_credit: SessionCredit) -> Option<Piece> {
        let repeats = if self.lost.is_empty() { &mut self.twice } else { &mut self.lost };
        if let Some(lost) = repeats.first() {
            if room == 0 {
                return None;
            }
            let taken = lost.start..lost.end.min(lost.start + room as u64);
            repeats.remove(taken.clone());
            return Some(self.piece(taken, 0));
        }
        let length = self.fresh(session_credit).min(room as u64);
        let ends = self.fin == Fin::Queued && self.next + length == self.end;
        if length == 0 && !ends {
            return None;
        }
        let taken = self.next..self.next + length;
        self.next += length;
        Some(self.piece(taken, length as usize))
    }

    fn piece(&mut self, taken: Range<StreamOffset>, fresh: usize) -> Piece {
        let fin = self.fin != Fin::Open && taken.end == self.end && self.lost.is_empty() && self.next == self.end;
        if fin && self.fin == Fin::Queued {
            self.fin = Fin::Sent;
        }
        Piece { offset: taken.start, length: (taken.end - taken.start) as usize, fin, fresh }
    }

    /// Copies the bytes of a piece into a packet.
    pub(crate) fn copy(&self, offset: StreamOffset, out: &mut [u8]) {
        self.bytes.read(offset, out);
    }

    /// A piece arrived. Returns how many buffered bytes that freed.
    pub(crate) fn on_acked(&mut self, pool: &mut P::Pool, range: Range<StreamOffset>, fin: bool) -> u64 {
        if fin {
            self.fin = Fin::Acked;
        }
        self.lost.remove(range.clone());
        self.twice.remove(range.clone());
        let before = self.acked_to;
        if range.start <= self.acked_to {
            self.acked_to = self.acked_to.max(range.end);
        } else {
            self.acked.insert(range);
        }
        while let Some(first) = self.acked.first().filter(|first| first.start <= self.acked_to) {
            self.acked_to = self.acked_to.max(first.end);
            self.acked.pop_first();
        }
        if self.acked_to > before {
            self.bytes.release(pool, self.acked_to, self.end);
        }
        self.acked_to - before
    }

    /// A piece was lost: what of it has not arrived by another copy is sent again, twice if it was a repeat, since for
    /// each further round trip that it takes all that follows has to wait.
    pub(crate) fn on_lost(&mut self, range: Range<StreamOffset>, fin: bool, repeat: bool) {
        let range = range.start.max(self.acked_to)..range.end.max(self.acked_to);
        for gap in self.acked.gaps(range).collect::<smallvec::SmallVec<[_; 4]>>() {
            self.lost.insert(gap.clone());
            if repeat {
                self.twice.insert(gap);
            }
        }
        if fin && self.fin == Fin::Sent {
            self.fin = Fin::Queued;
        }
    }

    /// Whether the bytes of a piece are still kept.
    pub(crate) fn keeps(&self, offset: StreamOffset, length: u16) -> bool {
        length == 0 || offset >= self.acked_to
    }

    /// Has what waits for its acknowledgement take up little more memory than it needs.
    pub(crate) fn compact(&mut self, pool: &mut P::Pool) {
        self.bytes.compact(pool, self.acked_to, self.end);
    }

    /// Forgets all data; returns how many bytes that freed.
    pub(crate) fn discard(&mut self, pool: &mut P::Pool) -> u64 {
        let freed = self.buffered();
        self.bytes.release(pool, self.end, self.end);
        self.acked_to = self.end;
        self.acked = RangeSet::new();
        (self.lost, self.twice) = (RangeSet::new(), RangeSet::new());
        freed
    }
}

impl SendHalf<Stored> {
    /// Space for `most` bytes at most after the last one: the rest of a page, or more where reads have filled what was lent.
    /// [`SendHalf::filled`] takes how much of it was filled.
    pub(crate) fn spaces(&mut self, pool: &mut PagePool, most: usize) -> Spaces<'_> {
        self.bytes.spaces(pool, self.end, most, usize::from(self.lent_pages.max(1)))
    }

    /// Takes what was filled of the space that [`SendHalf::spaces`] lent, which was `all` of it or not, and gives back the rest.
    pub(crate) fn filled(&mut self, pool: &mut PagePool, length: usize, all: bool) {
        self.written(length);
        self.lent_pages = if all { (self.lent_pages.max(1) * 2).min(MOST_LENT as u8) } else { 1 };
        self.bytes.cut(pool, self.end);
        self.bytes.release(pool, self.acked_to, self.end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credit::Credit;
    use crate::payload::Elided;
    use proptest::prelude::*;

    fn credit(bytes: u64) -> SessionCredit {
        SessionCredit { left: Credit::new(bytes), kept_back: 0 }
    }

    fn piece(offset: u64, length: usize, fin: bool, fresh: usize) -> Piece {
        Piece { offset: StreamOffset::new(offset), length, fin, fresh }
    }

    #[test]
    fn lost_ranges_go_first_and_credit_binds_only_new_bytes() {
        let mut pool = PagePool::default();
        let mut half = SendHalf::<Stored>::new(StreamOffset::new(1000));
        half.write(&mut pool, &[1; 3000]);
        assert_eq!(half.next_piece(600, credit(5000)), Some(piece(0, 600, false, 600)));
        assert_eq!(half.next_piece(600, credit(5000)), Some(piece(600, 400, false, 400)));
        assert_eq!(half.next_piece(600, credit(5000)), None);
        half.on_lost(StreamOffset::range(0..600), false, false);
        assert!(half.has_data(credit(0)));
        assert_eq!(half.next_piece(600, credit(0)), Some(piece(0, 600, false, 0)));
        half.raise_limit(StreamOffset::new(3000));
        assert!(!half.has_data(credit(0)));
        assert_eq!(half.next_piece(600, credit(10)), Some(piece(1000, 10, false, 10)));
    }

    #[test]
    fn a_stream_that_nobody_is_known_to_read_leaves_others_as_much_as_it_takes() {
        let mut pool = PagePool::default();
        let mut half = SendHalf::<Stored>::new(StreamOffset::new(1 << 20));
        half.write(&mut pool, &[1; 100_000]);
        let mut session_credit = 60_000;
        while let Some(piece) = half.next_piece(1400, credit(session_credit)) {
            session_credit -= piece.fresh as u64;
        }
        assert!(session_credit.abs_diff(30_000) < 10, "{session_credit} left");
        half.raise_limit(StreamOffset::new(1 << 20));
        assert!(half.has_data(credit(session_credit)));
    }

    #[test]
    fn the_end_is_sent_after_the_last_byte_and_again_if_lost() {
        let mut pool = PagePool::default();
        let mut half = SendHalf::<Stored>::new(StreamOffset::new(1000));
        half.write(&mut pool, b"abc");
        assert_eq!(half.next_piece(600, credit(100)).map(|piece| piece.fin), Some(false));
        half.finish();
        assert_eq!(half.next_piece(600, credit(100)), Some(piece(3, 0, true, 0)));
        assert!(!half.has_data(credit(100)));
        half.on_lost(StreamOffset::range(3..3), true, false);
        assert!(half.has_data(credit(0)));
        assert_eq!(half.next_piece(600, credit(0)), Some(piece(3, 0, true, 0)));
        half.on_acked(&mut pool, StreamOffset::range(3..3), true);
        assert!(!half.is_finished());
        assert_eq!(half.on_acked(&mut pool, StreamOffset::range(0..3), false), 3);
        assert!(half.is_finished());
    }

    #[test]
    fn what_was_lost_again_is_sent_twice_unless_the_first_copy_arrives_before() {
        let mut pool = PagePool::default();
        let mut half = SendHalf::<Stored>::new(StreamOffset::new(1000));
        half.write(&mut pool, &[0; 300]);
        while half.next_piece(100, credit(1000)).is_some() {}
        half.on_lost(StreamOffset::range(100..200), false, true);
        let repeats: Vec<_> =
            std::iter::from_fn(|| half.next_piece(600, credit(0))).map(|piece| piece.offset).collect();
        assert_eq!(repeats, [StreamOffset::new(100); 2]);
        half.on_lost(StreamOffset::range(100..200), false, true);
        assert_eq!(half.next_piece(600, credit(0)).map(|piece| piece.offset), Some(StreamOffset::new(100)));
        half.on_acked(&mut pool, StreamOffset::range(100..200), false);
        assert_eq!(half.next_piece(600, credit(0)), None);
    }

    #[test]
    fn what_arrived_by_another_copy_is_not_sent_again() {
        let mut pool = PagePool::default();
        let mut half = SendHalf::<Stored>::new(StreamOffset::new(1000));
        half.write(&mut pool, &[0; 300]);
        while half.next_piece(100, credit(1000)).is_some() {}
        half.on_acked(&mut pool, StreamOffset::range(100..200), false);
        half.on_lost(StreamOffset::range(0..300), false, false);
        assert_eq!(half.next_piece(600, credit(0)).map(|piece| (piece.offset.get(), piece.length)), Some((0, 100)));
        assert_eq!(half.next_piece(600, credit(0)).map(|piece| (piece.offset.get(), piece.length)), Some((200, 100)));
    }

    /// Streams of a session of which each is read, and reported as read, or not.
    struct Streams {
        halves: Vec<SendHalf<Elided>>,
        read: Vec<u64>,
        consumed: u64,
        sent: u64,
    }

    impl Streams {
        const POOL: u64 = 1 << 20;

        fn credit(&self) -> SessionCredit {
            let limit = Credit::new(self.consumed + Self::POOL);
            SessionCredit { left: limit.after(self.sent), kept_back: Self::POOL / 16 }
        }

        fn send(&mut self, at: usize, most: usize) {
            let mut sent = 0;
            while sent < most {
                let credit = self.credit();
                let to_watch = self.halves[at].to_watch(credit);
                to_watch.into_iter().for_each(|to| self.halves[at].set_watched(to));
                let Some(piece) = self.halves[at].next_piece(1400, credit) else { return };
                (sent, self.sent) = (sent + piece.fresh, self.sent + piece.fresh as u64);
            }
        }

        fn read(&mut self, at: usize) {
            let to = self.halves[at].next;
            self.consumed += to.get() - std::mem::replace(&mut self.read[at], to.get());
            self.halves[at].on_read(to);
        }
    }

    proptest! {
        #[test]
        fn credit_is_kept_within_and_streams_that_are_read_go_on(
            steps in proptest::collection::vec((0usize..12, 0usize..4, 1usize..100_000), 1..400)
        ) {
            let halves = (0..12).map(|_| SendHalf::new(StreamOffset::new(1 << 40))).collect();
            let mut streams = Streams { halves, read: vec![0; 12], consumed: 0, sent: 0 };
            for (at, what, amount) in steps {
                match what {
                    0 => streams.halves[at].written(amount),
                    1 => streams.send(at, amount),
                    2 => streams.read(at),
                    _ => streams.halves[at].raise_limit(StreamOffset::new(1 << 40)),
                }
                prop_assert!(streams.sent - streams.consumed <= Streams::POOL);
                prop_assert_eq!(streams.sent, streams.halves.iter().map(SendHalf::sent).sum::<u64>());
            }
            // All write what they can be sent; then one is read, and all others stall.
            (0..12).for_each(|at| streams.halves[at].written(2 << 20));
            (0..12).for_each(|at| streams.send(at, 2 << 20));
            for _ in 0..10_000 {
                streams.read(3);
                streams.send(3, 2 << 20);
            }
            prop_assert_eq!(streams.halves[3].unsent(), 0, "{:?}", streams.credit());
            while streams.halves.iter().any(|half| half.unsent() > 0) {
                let before = streams.sent;
                (0..12).for_each(|at| streams.read(at));
                (0..12).for_each(|at| streams.send(at, 2 << 20));
                prop_assert!(streams.sent > before, "{:?}", streams.credit());
            }
        }
    }
}
