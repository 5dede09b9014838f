//! The streams of a session: by number and by place, which may be opened, and which wait for something.
//!
//! Contract: a number is opened once and never again; [`StreamKey`]s of streams that are gone find nothing; the streams open at once
//! stay within the limits of both sides.

use crate::event::Violation;
use crate::payload::Payload;
use crate::sent_packets::StreamKey;
use crate::stream::{Stream, StreamNumber};
use slab::Slab;
use std::collections::{BTreeMap, VecDeque};
use std::ops::{Index, IndexMut};
use units::RangeTree;

/// What a frame of the peer says about the stream with its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Accepted {
    /// The stream is open.
    Open(StreamKey),
    /// The peer opens it with this frame.
    Opened(StreamKey),
    /// The same, and the peer has too many open: it is to be reset.
    Refused(StreamKey),
    /// It was open once.
    Closed,
}

pub(super) struct StreamTable<P> {
    streams: Slab<Stream<P>>,
    slots: BTreeMap<StreamNumber, u32>,
    /// The number of the next stream that we open.
    next_own: StreamNumber,
    own_open: u32,
    own_limit: u32,
    /// Streams that the peer has opened so far, by index.
    seen: RangeTree,
    peer_open: u32,
    peer_limit: u32,
    /// Streams that are kept for their readers alone.
    held: u32,
    /// Pieces of all streams that wait for what precedes them.
    pieces: usize,
    /// Streams with control frames to send.
    control: VecDeque<StreamKey>,
    /// Streams whose writers wait for send memory, or waited: their place in the queue is theirs until their turn.
    writers: VecDeque<StreamKey>,
    /// The place of the stream that [`StreamTable::next_places`] names next.
    next_place: usize,
}

impl<P: Payload> StreamTable<P> {
    /// Losses leave at most so many pieces apart, of all streams together: each takes up 16 to 50 bytes, of which no credit tells the
    /// peer. A flight of 1 Gbit/s and 600 ms has 54,000 packets.
    pub(super) const MOST_PIECES: usize = 1 << 18;

    /// The peer counts a stream as closed a little before we do, so it may seem to exceed the limit for a while: up to so many times the
    /// limit its streams are accepted. It may not know why we count more of them still: up to so many times they are refused.
    const ACCEPTED: u32 = 2;
    const REFUSED: u32 = 3;

    /// No streams. `even` says whether those that we open have even numbers; at most `own_limit` of these may be open, and
    /// `peer_limit` of the peer's.
    pub(super) fn new(even: bool, own_limit: u32, peer_limit: u32) -> Self {
        Self {
            streams: Slab::new(),
            slots: BTreeMap::new(),
            next_own: StreamNumber::first(even),
            own_open: 0,
            own_limit,
            seen: RangeTree::new(),
            peer_open: 0,
            held: 0,
            pieces: 0,
            peer_limit,
            control: VecDeque::new(),
            writers: VecDeque::new(),
            next_place: 0,
        }
    }

    /// Opens a stream that `stream` makes of its number; `None` if the peer takes no more.
    pub(super) fn open(&mut self, stream: impl FnOnce(StreamNumber) -> Stream<P>) -> Option<StreamKey> {
        if self.own_open >= self.own_limit {
            return None;
        }
        let number = self.next_own;
        self.next_own = number.next();
        self.own_open += 1;
        Some(self.insert(stream(number)))
    }

    /// Finds the stream that a frame of the peer is about, or has it opened by `stream`.
    pub(super) fn accept(
        &mut self,
        number: StreamNumber,
        stream: impl FnOnce(StreamNumber) -> Stream<P>,
    ) -> Result<Accepted, Violation> {
        if let Some(key) = self.find(number) {
            return Ok(Accepted::Open(key));
        }
        if self.is_own(number) {
            return if number < self.next_own { Ok(Accepted::Closed) } else { Err(Violation::UnopenedStream) };
        }
        if self.seen.contains(number.index()) {
            return Ok(Accepted::Closed);
        }
        // Numbers come in order but for losses, so the record of those seen stays short unless someone wants it long.
        if self.seen.len() > 1024 + 4 * self.peer_limit as usize {
            return Err(Violation::Scattered);
        }
        let is_within = |times: u32| self.peer_open < self.peer_limit.saturating_mul(times);
        let (is_accepted, is_refused) = (is_within(Self::ACCEPTED), is_within(Self::REFUSED));
        if !is_accepted && !is_refused {
            return Err(Violation::TooManyStreams);
        }
        self.seen.insert(number.index()..number.index() + 1);
        self.peer_open += 1;
        let key = self.insert(stream(number));
        Ok(if is_accepted { Accepted::Opened(key) } else { Accepted::Refused(key) })
    }

    fn insert(&mut self, stream: Stream<P>) -> StreamKey {
        let number = stream.number;
        let slot = self.streams.insert(stream) as u32;
        self.slots.insert(number, slot);
        StreamKey { slot, number }
    }

    /// Takes a change of the pieces of a stream into account, of which there were `before`.
    pub(super) fn recount_pieces(&mut self, key: StreamKey, before: usize) {
        self.pieces = self.pieces - before + self.get(key).map_or(0, |stream| stream.receive.pieces());
    }

    /// Whether all streams together have more pieces than losses explain.
    pub(super) fn is_scattered(&self) -> bool {
        self.pieces > Self::MOST_PIECES
    }

    /// Keeps a stream, which has ended or which both sides have reset, for its reader alone: for the peer it is closed, and counts as such.
    /// `false` if as many are held as the peer may have open: that is this side's choice, and the other limit is not.
    pub(super) fn hold(&mut self, key: StreamKey) -> bool {
        let has_room = self.held < self.peer_limit;
        let Some(stream) = self.get_mut(key) else { return false };
        if stream.was_held {
            return true;
        }
        stream.was_held = has_room;
        if has_room {
            self.held += 1;
            self.uncount(key.number);
        }
        has_room
    }

    /// Removes a stream that is closed.
    pub(super) fn remove(&mut self, key: StreamKey) -> Option<Stream<P>> {
        self.get(key)?;
        self.slots.remove(&key.number);
        let stream = self.streams.remove(key.slot as usize);
        self.pieces -= stream.receive.pieces();
        if stream.was_held {
            self.held -= 1;
        } else {
            self.uncount(key.number);
        }
        Some(stream)
    }

    fn uncount(&mut self, number: StreamNumber) {
        if self.is_own(number) {
            self.own_open -= 1;
        } else {
            self.peer_open -= 1;
        }
    }

    pub(super) fn is_own(&self, number: StreamNumber) -> bool {
        number.is_of_side(self.next_own)
    }

    #[inline]
    pub(super) fn find(&self, number: StreamNumber) -> Option<StreamKey> {
        self.slots.get(&number).map(|&slot| StreamKey { slot, number })
    }

    #[inline]
    pub(super) fn get(&self, key: StreamKey) -> Option<&Stream<P>> {
        self.streams.get(key.slot as usize).filter(|stream| stream.number == key.number)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, key: StreamKey) -> Option<&mut Stream<P>> {
        self.streams.get_mut(key.slot as usize).filter(|stream| stream.number == key.number)
    }

    /// The streams in the order of their numbers.
    pub(super) fn keys(&self) -> Vec<StreamKey> {
        self.slots.iter().map(|(&number, &slot)| StreamKey { slot, number }).collect()
    }

    /// Hands the streams of the next `count` places to `visit`, one call after the other, up to the last place, whereupon the next
    /// call begins with the first. Returns how many places that were, and whether the last one was reached.
    pub(super) fn visit_next(&mut self, count: usize, mut visit: impl FnMut(&mut Stream<P>)) -> (usize, bool) {
        let places = self.next_place..self.streams.capacity().min(self.next_place + count);
        self.next_place = if places.end == self.streams.capacity() { 0 } else { places.end };
        let visited = places.len();
        for place in places {
            if let Some(stream) = self.streams.get_mut(place) {
                visit(stream);
            }
        }
        (visited, self.next_place == 0)
    }

    /// The streams in the order of their places.
    pub(super) fn iter(&self) -> impl Iterator<Item = (StreamKey, &Stream<P>)> {
        self.streams.iter().map(|(slot, stream)| (StreamKey { slot: slot as u32, number: stream.number }, stream))
    }

    pub(super) fn len(&self) -> usize {
        self.streams.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// How many streams this side has opened.
    pub(super) fn opened(&self) -> u64 {
        self.next_own.index()
    }

    /// Whether the first `count` streams of the peer have arrived.
    pub(super) fn has_seen(&self, count: u64) -> bool {
        self.seen.covers(&(0..count))
    }

    /// How many more streams can be opened here, and how many may be open.
    pub(super) fn room(&self) -> (u64, u64) {
        (self.own_limit.saturating_sub(self.own_open).into(), self.own_limit.into())
    }

    /// The stream has a control frame to send.
    pub(super) fn queue_control(&mut self, key: StreamKey) {
        if let Some(stream) = self.get_mut(key)
            && !std::mem::replace(&mut stream.control_queued, true)
        {
            self.control.push_back(key);
        }
    }

    /// The first stream with a control frame to send.
    #[inline]
    pub(super) fn next_control(&self) -> Option<StreamKey> {
        self.control.front().copied()
    }

    /// The control frame of the first stream was written.
    pub(super) fn on_control_sent(&mut self) {
        self.control.pop_front();
    }

    /// The stream's writer waits for send memory.
    pub(super) fn queue_writer(&mut self, key: StreamKey) {
        let Some(stream) = self.get_mut(key) else { return };
        stream.send.writer_waits = true;
        if !std::mem::replace(&mut stream.send.is_in_writers, true) {
            self.writers.push_back(key);
        }
    }

    /// Looks at the first `count` of the writers that wait. Those for which `is_served` says yes wait no longer and are handed to
    /// `on_served`; the others wait on, behind the rest.
    #[inline]
    pub(super) fn serve_writers(
        &mut self,
        count: usize,
        is_served: impl Fn(&Stream<P>) -> bool,
        mut on_served: impl FnMut(StreamKey),
    ) {
        for _ in 0..self.writers.len().min(count) {
            let Some(key) = self.writers.pop_front() else { return };
            let Some(stream) = self.get_mut(key) else { continue };
            if stream.send.writer_waits && !is_served(stream) {
                self.writers.push_back(key);
                continue;
            }
            stream.send.is_in_writers = false;
            if std::mem::take(&mut stream.send.writer_waits) {
                on_served(key);
            }
        }
    }
}

impl<P: Payload> Index<StreamKey> for StreamTable<P> {
    type Output = Stream<P>;

    #[inline]
    fn index(&self, key: StreamKey) -> &Stream<P> {
        &self.streams[key.slot as usize]
    }
}

impl<P: Payload> IndexMut<StreamKey> for StreamTable<P> {
    #[inline]
    fn index_mut(&mut self, key: StreamKey) -> &mut Stream<P> {
        &mut self.streams[key.slot as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credit::Credit;
    use crate::payload::Stored;
    use crate::stream::StreamOffset;
    use crate::stream::pages::PagePool;

    fn stream(number: StreamNumber) -> Stream<Stored> {
        Stream::new(number, Credit::new(1000), Credit::new(1000))
    }

    fn accept(table: &mut StreamTable<Stored>, number: u64) -> Result<Accepted, Violation> {
        table.accept(StreamNumber::new(number), stream)
    }

    #[test]
    fn visits_go_on_where_the_last_one_ended_and_begin_again_behind_the_last_stream() {
        let mut table = StreamTable::new(true, 9, 9);
        let keys: Vec<_> = (0..7).map(|_| table.open(stream).expect("within the limit")).collect();
        table.remove(keys[2]);
        let mut visited = Vec::new();
        let mut visit = |table: &mut StreamTable<Stored>| table.visit_next(3, |stream| visited.push(stream.number));
        let mut places = 0;
        while places < 2 * table.streams.capacity() {
            let (visited, is_last) = visit(&mut table);
            places += visited;
            assert_eq!(is_last, places % table.streams.capacity() == 0);
        }
        let left = [0, 1, 3, 4, 5, 6].map(|at: usize| keys[at].number);
        assert_eq!(visited, [left, left].concat());
    }

    #[test]
    fn own_streams_have_one_parity_and_stay_within_the_peers_limit() {
        for (even, expected) in [(true, [0, 2, 4]), (false, [1, 3, 5])] {
            let mut table = StreamTable::new(even, 2, 9);
            let first = table.open(stream).expect("within the limit");
            let second = table.open(stream).expect("within the limit");
            assert_eq!([first.number.get(), second.number.get()], expected[..2]);
            assert_eq!((table.open(stream), table.room()), (None, (0, 2)));
            assert!(table.remove(first).is_some() && table.remove(first).is_none());
            assert_eq!(table.open(stream).map(|key| key.number.get()), Some(expected[2]), "a number is not used again");
            assert_eq!((table.opened(), table.len()), (3, 2));
        }
    }

    #[test]
    fn streams_that_are_held_for_their_readers_count_as_closed_and_are_bounded() {
        let mut table = StreamTable::new(true, 2, 3);
        let number = |at: u64| StreamNumber::new(2 * at + 1);
        for at in 0..3 {
            let Ok(Accepted::Opened(key)) = accept(&mut table, number(at).get()) else { panic!("within the limit") };
            assert!(table.hold(key) && table.hold(key), "once");
        }
        let held: Vec<_> = table.keys();
        for at in 3..9 {
            assert!(matches!(accept(&mut table, number(at).get()), Ok(Accepted::Opened(_))), "stream {at}");
        }
        assert!(matches!(accept(&mut table, number(9).get()), Ok(Accepted::Refused(_))));
        let open = table.keys()[3];
        assert!(!table.hold(open), "as many as may be open are held");
        held.into_iter().for_each(|key| drop(table.remove(key)));
        assert!(table.hold(open));
        assert_eq!((table.len(), table.peer_open, table.held), (7, 6, 1));
    }

    #[test]
    fn pieces_of_all_streams_together_are_bounded() {
        let mut table = StreamTable::new(true, 1, 2048);
        let mut pool = PagePool::default();
        let pieces = 256;
        let mut open = |table: &mut StreamTable<Stored>, number: u64| {
            let Ok(Accepted::Opened(key)) = accept(table, number) else { panic!("within the limit") };
            let half = &mut table.get_mut(key).expect("a stream").receive;
            for piece in 1..=pieces {
                half.receive(&mut pool, StreamOffset::new(2 * piece), b"p", 0, false).expect("within credit");
            }
            table.recount_pieces(key, 0);
            key
        };
        let most = (1 << 18) / pieces;
        let keys: Vec<_> = (0..most).map(|at| open(&mut table, 2 * at + 1)).collect();
        assert!(!table.is_scattered());
        let last = open(&mut table, 2 * most + 1);
        assert!(table.is_scattered());
        keys.into_iter().chain([last]).for_each(|key| drop(table.remove(key)));
        assert_eq!((table.pieces, table.is_scattered()), (0, false));
    }

    #[test]
    fn the_number_of_streams_that_are_held_is_not_the_peers_choice() {
        let mut table = StreamTable::new(true, u32::MAX, 4);
        for at in 0..5 {
            let Ok(Accepted::Opened(key)) = accept(&mut table, 2 * at + 1) else { panic!("within the limit") };
            assert_eq!(table.hold(key), at < 4, "stream {at}");
            assert_eq!(table.get(key).expect("a stream").was_held, at < 4);
        }
    }

    #[test]
    fn a_key_finds_its_stream_only_even_if_another_takes_its_place() {
        let mut table = StreamTable::new(true, 9, 9);
        let first = table.open(stream).expect("a stream");
        table.remove(first);
        let second = table.open(stream).expect("a stream");
        assert_eq!(first.slot, second.slot);
        assert!(table.get(first).is_none() && table.get_mut(second).is_some());
        assert_eq!((table.find(first.number), table.find(second.number)), (None, Some(second)));
    }

    #[test]
    fn the_peer_opens_streams_of_its_parity_once() {
        let mut table = StreamTable::new(true, 9, 3);
        assert_eq!(accept(&mut table, 0), Err(Violation::UnopenedStream));
        let Ok(Accepted::Opened(key)) = accept(&mut table, 5) else { panic!("the peer may open 5") };
        assert_eq!(accept(&mut table, 5), Ok(Accepted::Open(key)));
        assert!(!table.has_seen(3));
        table.remove(key);
        assert_eq!(accept(&mut table, 5), Ok(Accepted::Closed));
        let own = table.open(stream).expect("a stream");
        table.remove(own);
        assert_eq!(table.accept(own.number, stream), Ok(Accepted::Closed));
        for number in [1, 3, 7, 9, 11, 13] {
            assert!(matches!(accept(&mut table, number), Ok(Accepted::Opened(_))), "{number}");
        }
        for number in [15, 17, 19] {
            assert!(
                matches!(accept(&mut table, number), Ok(Accepted::Refused(_))),
                "{number} is beyond twice the limit"
            );
        }
        assert_eq!(accept(&mut table, 21), Err(Violation::TooManyStreams), "three times the limit");
        assert!(table.has_seen(10) && !table.has_seen(11));
    }

    #[test]
    fn numbers_scattered_on_purpose_are_refused() {
        let mut table = StreamTable::new(true, 1, 1);
        let refused = (0..2000u64).map(|k| 4 * k + 1).find_map(|number| match accept(&mut table, number) {
            Ok(Accepted::Opened(key)) => table.remove(key).and(None),
            other => Some(other),
        });
        assert_eq!(refused, Some(Err(Violation::Scattered)));
    }

    #[test]
    fn a_stream_queues_once_for_control_frames_and_once_for_memory() {
        let mut table = StreamTable::new(true, 9, 9);
        let [a, b] = [(); 2].map(|()| table.open(stream).expect("a stream"));
        for key in [a, a, b] {
            table.queue_control(key);
            table.queue_writer(key);
        }
        assert_eq!(table.next_control(), Some(a));
        table.on_control_sent();
        assert_eq!(table.next_control(), Some(b));
        let mut served = |number: Option<StreamNumber>| {
            let mut keys = Vec::new();
            table.serve_writers(16, |stream| number.is_none_or(|number| stream.number == number), |key| keys.push(key));
            keys
        };
        assert_eq!(served(Some(b.number)), [b]);
        assert_eq!(served(None), [a], "it has waited on");
        assert!(served(None).is_empty());
    }
}
