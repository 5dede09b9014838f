//! What the driver does with streams.

use super::Session;
use crate::event::{Event, OpenError, StreamId};
use crate::payload::{Elided, Payload, Stored};
use crate::scheduler::Place;
use crate::sent_packets::StreamKey;
use crate::stats::StreamStats;
use crate::stream::{Sent, Stream, StreamOffset};
use peering::Class;
use peering::ResetReason;
use peering::dscp::Dscp;
use std::io::{IoSlice, IoSliceMut};
use units::Instant;

impl<P: Payload> Session<P> {
    pub(crate) fn open(&mut self) -> Result<StreamId, OpenError> {
        if self.peer_drains() {
            return Err(OpenError::Draining);
        }
        let (send, receive) = (self.credit.peer_stream_credit, self.credit.own_stream_credit);
        let key = self.streams.open(|number| Stream::new(number, send, receive)).ok_or(OpenError::TooManyStreams)?;
        Ok(self.id(key))
    }

    /// The stream is of `class` from now on.
    pub(crate) fn set_class(&mut self, now: Instant, id: StreamId, class: &Class) {
        let Some(key) = self.key(id).filter(|key| self.stream(*key).is_some()) else { return };
        let at = self.classes.define(now, class);
        let stream = &mut self.streams[key];
        if stream.class != at {
            // The queue of the old class does not find it any more.
            (stream.class, stream.place) = (at, Place::default());
            self.activate(key);
        }
    }

    /// Packets with data of the stream are marked so from now on.
    pub(crate) fn set_dscp(&mut self, id: StreamId, dscp: Dscp) {
        if let Some(stream) = self.key(id).and_then(|key| self.stream_mut(key)) {
            stream.dscp = dscp;
            self.dscps.on_stream(dscp);
        }
    }

    /// How many more streams can be opened here, and how many may be open.
    pub(crate) fn room(&self) -> (u64, u64) {
        self.streams.room()
    }

    pub(crate) fn write_space(&self, id: StreamId) -> usize {
        let stream = self.key(id).and_then(|key| self.stream(key));
        match stream.filter(|stream| stream.is_writable()) {
            Some(stream) => self.credit.write_space(stream.send.unsent()),
            None => 0,
        }
    }

    pub(crate) fn write(&mut self, id: StreamId, data: &[u8]) -> usize {
        let Some(key) = self.key(id) else { return 0 };
        let length = data.len().min(self.write_space(id));
        if length < data.len() {
            self.queue_writer(key);
        }
        if length > 0 {
            let stream = &mut self.streams[key];
            stream.send.write(&mut self.pool, &data[..length]);
            self.credit.on_written(length as u64);
            self.activate(key);
        }
        length
    }

    /// Tells the writer of a stream of which everything has been sent, if it waits: it waits for no turn, since those before it may be many
    /// whose readers stall.
    pub(super) fn wake_writer_of_sent(&mut self, key: StreamKey) {
        let send = &mut self.streams[key].send;
        if send.unsent() == 0 && std::mem::take(&mut send.writer_waits) {
            self.events.push_back(Event::Writable(self.id(key)));
        }
    }

    /// Tells writers that wait of space worth a read, a few at a time and in turn.
    pub(super) fn wake_waiting_writers(&mut self) {
        let Self { streams, credit, events, peer, tag, .. } = self;
        let most = credit.most_unsent_worth_a_read();
        streams.serve_writers(
            16,
            |stream| stream.send.unsent() <= most,
            |StreamKey { slot, number }| {
                events.push_back(Event::Writable(StreamId { peer: *peer, session: *tag, slot, number }));
            },
        );
    }

    pub(crate) fn finish(&mut self, id: StreamId) {
        let Some(key) = self.key(id) else { return };
        if let Some(stream) = self.stream_mut(key) {
            stream.send.finish();
            self.activate(key);
        }
    }

    pub(crate) fn reset(&mut self, id: StreamId, reason: ResetReason) {
        let Some(key) = self.key(id) else { return };
        let Some(stream) = self.stream_mut(key) else { return };
        let was_aborted = stream.is_aborted();
        if was_aborted && stream.abort.held.take().is_none() {
            return;
        }
        if !was_aborted {
            self.queue_reset(key, reason);
        }
        self.discard(key);
        self.close_if_done(key);
    }

    /// Resets the stream as soon as everything written is acknowledged.
    pub(crate) fn reset_behind_data(&mut self, id: StreamId, reason: ResetReason) {
        let Some(key) = self.key(id) else { return };
        let Some(stream) = self.stream_mut(key) else { return };
        if stream.is_aborted() || stream.send.is_settled() {
            return self.reset(id, reason);
        }
        stream.abort.behind_data = Some(reason);
        self.discard_received(key);
    }

    /// How much of what was written is not acknowledged, of a stream that is to be reset once all is.
    pub(crate) fn undelivered(&self, id: StreamId) -> Option<u64> {
        let stream = self.stream(self.key(id)?)?;
        let waits = stream.abort.behind_data.is_some() && !stream.is_aborted();
        // The end counts as a byte.
        waits.then(|| stream.send.buffered() + 1)
    }

    /// How much of what was written is not acknowledged in order.
    pub(crate) fn unacknowledged(&self, id: StreamId) -> u64 {
        self.key(id).and_then(|key| self.stream(key)).map_or(0, |stream| stream.send.buffered())
    }

    /// Whether the peer reads the stream, as far as is known here.
    pub(crate) fn takes_data(&self, id: StreamId) -> bool {
        !self.key(id).and_then(|key| self.stream(key)).is_some_and(Stream::is_held)
    }

    /// The writer is to hear of space, unless there will be none.
    fn queue_writer(&mut self, key: StreamKey) {
        if self.stream(key).is_some_and(Stream::is_writable) {
            self.streams.queue_writer(key);
        }
    }

    /// Resets the stream if a reset waits for the acknowledgement of everything written, and that has come.
    pub(super) fn reset_if_settled(&mut self, key: StreamKey) {
        let waits = |stream: &&Stream<P>| !stream.is_aborted() && stream.send.is_settled();
        if let Some(reason) = self.stream(key).filter(waits).and_then(|stream| stream.abort.behind_data) {
            self.queue_reset(key, reason);
            self.discard(key);
        }
    }

    /// The reader has taken everything that came before the peer's reset.
    fn end_by_reset(&mut self, key: StreamKey) {
        let Some(stream) = self.stream_mut(key).filter(|stream| stream.receive.is_finished()) else { return };
        if let Some(reason) = stream.abort.held.take() {
            self.report_reset(key, reason);
        }
    }

    /// Reports the peer's reset, behind the end of the stream if that has come.
    pub(super) fn report_reset(&mut self, key: StreamKey, reason: ResetReason) {
        let id = self.id(key);
        let received = &self.streams[key].receive;
        if received.has_fin() && received.is_finished() {
            self.events.push_back(Event::EndedBeforeReset(id));
        }
        self.events.push_back(Event::Reset(id, reason));
    }

    pub(super) fn queue_reset(&mut self, key: StreamKey, reason: ResetReason) {
        if let Some(stream) = self.stream_mut(key) {
            stream.abort.ours = Some((reason, Sent::Queued));
            self.streams.queue_control(key);
        }
    }

    /// Drops what a stream that was given up holds, in both directions.
    pub(super) fn discard(&mut self, key: StreamKey) {
        self.discard_received(key);
        self.discard_written(key);
    }

    /// Drops what nobody is to read any more.
    pub(super) fn discard_received(&mut self, key: StreamKey) {
        let stream = &mut self.streams[key];
        let pieces = stream.receive.pieces();
        let dropped = stream.receive.discard(&mut self.pool);
        self.credit.on_unread(&mut stream.unread, 0);
        self.credit.on_consumed(dropped);
        self.streams.recount_pieces(key, pieces);
    }

    /// Drops what is not to be sent any more.
    pub(super) fn discard_written(&mut self, key: StreamKey) {
        let freed = self.streams[key].send.discard(&mut self.pool);
        self.credit.on_send_freed(freed);
    }

    pub(crate) fn has_no_streams(&self) -> bool {
        self.streams.is_empty()
    }

    pub(crate) fn readable<'a>(&'a self, id: StreamId, slices: &mut [IoSlice<'a>]) -> usize {
        let stream = self.key(id).and_then(|key| self.stream(key)).filter(|stream| !stream.discards());
        stream.map_or(0, |stream| stream.receive.slices(slices))
    }

    /// How much can be read.
    pub(crate) fn readable_len(&self, id: StreamId) -> u64 {
        let stream = self.key(id).and_then(|key| self.stream(key)).filter(|stream| !stream.discards());
        stream.map_or(0, |stream| stream.receive.readable())
    }

    pub(crate) fn consume(&mut self, now: Instant, id: StreamId, bytes: usize) {
        let Some(key) = self.key(id) else { return };
        let Some(stream) = self.streams.get_mut(key) else {
            return;
        };
        let before = stream.receive.read();
        self.credit.on_consumed(stream.receive.consume(&mut self.pool, bytes));
        self.count_unread(key);
        self.extend_stream(key);
        self.on_stream_consumed(now, key, before);
        self.end_by_reset(key);
        self.close_if_done(key);
    }

    pub(crate) fn is_read_finished(&self, id: StreamId) -> bool {
        let stream = self.key(id).and_then(|key| self.stream(key)).filter(|stream| !stream.discards());
        stream.is_some_and(|stream| stream.receive.is_finished())
    }

    pub(crate) fn stream_stats(&self, id: StreamId) -> Option<StreamStats> {
        let stream = self.stream(self.key(id)?)?;
        Some(StreamStats {
            written: stream.send.acked() + stream.send.buffered(),
            sent: stream.send.sent(),
            acked: stream.send.acked(),
            read: stream.receive.read() - StreamOffset::ZERO,
            receive_buffered: stream.receive.held(),
        })
    }

    /// Puts a stream with something to send into the schedule.
    pub(super) fn activate(&mut self, key: StreamKey) {
        let available = self.credit.available();
        if let Some(stream) = self.streams.get_mut(key)
            && stream.has_data(available)
        {
            self.classes.activate(key, stream, available);
            if stream.send.fresh(available) > 0 {
                self.repairs.postpone();
            }
        }
    }

    /// Counts a stream of the peer's as closed that has ended, of which the reader has not taken all: the peer has no part in that.
    fn hold_if_ended(&mut self, key: StreamKey) {
        if !self.streams.is_own(key.number) && self.stream(key).is_some_and(Stream::has_ended) {
            self.streams.hold(key);
        }
    }

    /// Forgets a stream when nothing more will come of it.
    pub(super) fn close_if_done(&mut self, key: StreamKey) {
        let Some(stream) = self.stream(key).filter(|stream| stream.is_closed()) else {
            return self.hold_if_ended(key);
        };
        let in_order = !stream.is_aborted();
        let buffered = stream.send.buffered();
        let id = self.id(key);
        self.discard(key);
        debug_assert_eq!(buffered, if in_order { 0 } else { buffered });
        self.streams.remove(key);
        if in_order {
            self.events.push_back(Event::Closed(id));
        }
    }
}

impl Session<Stored> {
    pub(crate) fn write_with<E>(
        &mut self,
        id: StreamId,
        read: impl FnOnce(&mut [IoSliceMut<'_>]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let space = self.write_space(id);
        let Some(key) = self.key(id).filter(|_| space > 0) else {
            if let Some(key) = self.key(id) {
                self.queue_writer(key);
            }
            return read(&mut []);
        };
        let stream = &mut self.streams[key];
        let mut spaces = stream.send.spaces(&mut self.pool, space);
        let lent = spaces.iter().map(|space| space.len()).sum();
        let length = read(&mut spaces).map(|length| length.min(lent));
        let written = *length.as_ref().unwrap_or(&0);
        drop(spaces);
        stream.send.filled(&mut self.pool, written, written == lent);
        if written > 0 {
            self.credit.on_written(written as u64);
            self.activate(key);
        }
        length
    }
}

impl Session<Elided> {
    /// Writes `length` bytes of which only the number counts.
    pub(crate) fn write_elided(&mut self, id: StreamId, length: usize) -> usize {
        let Some(key) = self.key(id) else { return 0 };
        let taken = length.min(self.write_space(id));
        if taken < length {
            self.queue_writer(key);
        }
        if taken > 0 {
            self.streams[key].send.written(taken);
            self.credit.on_written(taken as u64);
            self.activate(key);
        }
        taken
    }
}
