//! Writes frames, and counts the bytes that they take.

use super::super::arrivals::{self, Counters};
use super::super::varint;
use super::{
    ACK, ARRIVALS, CLOSE, DRAIN, MAX_ACK_RANGES, MAX_DATA, MAX_NEW_STREAM_DATA, MAX_OLDER_RANGES, MAX_RECOVERED_RANGES,
    MAX_STREAM_DATA, OLDER_RANGES, OPENED, PADDING, PATH_CHALLENGE, PATH_RESPONSE, PATH_TOO_SMALL, PING, PathFrame,
    RECOVERED, REPAIR, RESET, RepairFrame, STOP_WAITING, STREAM, STREAM_FIN, STREAM_LENGTH, STREAM_READ, TRAIN,
    WATCH_STREAM,
};
use crate::credit::Credit;
use crate::packet_number::PacketNumber;
use crate::payload::Payload;
use crate::repair::SymbolLength;
use crate::stream::{StreamNumber, StreamOffset};
use peering::ResetReason;
use std::ops::Range;

/// The integers of a frame that names ranges.
type Fields = smallvec::SmallVec<[u64; 2 * MAX_ACK_RANGES + 3]>;

/// The ranges that a frame names.
struct WrittenRanges {
    largest: PacketNumber,
    lowest: PacketNumber,
    count: u64,
    /// Whether none was left out.
    all: bool,
}

/// Writes frames into a fixed space. Bytes that are left out take up space without being written.
pub(crate) struct Writer<'a> {
    out: &'a mut [u8],
    /// What may be written, bytes left out included.
    limit: usize,
    at: usize,
    elided: usize,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(out: &'a mut [u8]) -> Self {
        Self { limit: out.len(), out, at: 0, elided: 0 }
    }

    /// A writer of a symbol, of which what is left out takes up no space.
    pub(crate) fn of_symbol(out: &'a mut [u8]) -> Self {
        Self { limit: usize::MAX, out, at: 0, elided: 0 }
    }

    /// Bytes so far, those left out included.
    pub(crate) fn len(&self) -> usize {
        self.at + self.elided
    }

    /// Bytes left out so far.
    pub(crate) fn elided(&self) -> usize {
        self.elided
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes left.
    pub(crate) fn room(&self) -> usize {
        self.limit - self.len()
    }

    /// Leaves `bytes` at the end free.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.limit = self.limit.saturating_sub(bytes).max(self.len());
    }

    /// Whether there is space for `bytes` that are not left out.
    fn has_space(&self, bytes: usize) -> bool {
        bytes <= self.out.len() - self.at
    }

    /// Writes bytes that are a symbol already.
    pub(crate) fn bytes(&mut self, symbol: &[u8]) {
        let kept = symbol.len().min(self.out.len() - self.at);
        self.out[self.at..self.at + kept].copy_from_slice(&symbol[..kept]);
        self.at += kept;
    }

    /// Writes a frame without stream data; `false`, and nothing written, if it does not fit.
    fn put(&mut self, kind: u8, fields: &[u64]) -> bool {
        let length = 1 + fields.iter().map(|field| varint::len(*field)).sum::<usize>();
        if length > self.room() || !self.has_space(length) {
            return false;
        }
        self.out[self.at] = kind;
        self.at += 1;
        for field in fields {
            self.at += varint::write(*field, &mut self.out[self.at..]);
        }
        true
    }

    pub(crate) fn ping(&mut self) -> bool {
        self.put(PING, &[])
    }

    /// Says that the packet belongs to a train.
    pub(crate) fn train(&mut self) -> bool {
        self.put(TRAIN, &[])
    }

    /// Writes what has arrived: packets and the microseconds of their arrival, which do not fall. It takes at most half of the space
    /// that is left, so that the acknowledgement it goes with always follows.
    pub(crate) fn arrivals(&mut self, counters: &Counters, stamps: &[(PacketNumber, u64)]) -> bool {
        let fields = arrivals::fields(counters, stamps);
        let length = 1 + fields.iter().map(|field| varint::len(*field)).sum::<usize>();
        length <= self.room() / 2 && self.put(ARRIVALS, &fields)
    }

    pub(crate) fn stop_waiting(&mut self, lowest: PacketNumber) -> bool {
        self.put(STOP_WAITING, &[lowest.get()])
    }

    pub(crate) fn max_data(&mut self, limit: Credit) -> bool {
        self.put(MAX_DATA, &[limit.bytes()])
    }

    pub(crate) fn max_stream_data(&mut self, stream: StreamNumber, limit: StreamOffset) -> bool {
        self.put(MAX_STREAM_DATA, &[stream.get(), limit.get()])
    }

    pub(crate) fn max_new_stream_data(&mut self, limit: Credit) -> bool {
        self.put_skippable(MAX_NEW_STREAM_DATA, &[limit.bytes()])
    }

    pub(crate) fn path_too_small(&mut self) -> bool {
        self.put_skippable(PATH_TOO_SMALL, &[])
    }

    pub(crate) fn watch_stream(&mut self, stream: StreamNumber, to: StreamOffset) -> bool {
        self.put_skippable(WATCH_STREAM, &[stream.get(), to.get()])
    }

    pub(crate) fn stream_read(&mut self, stream: StreamNumber, to: StreamOffset) -> bool {
        self.put_skippable(STREAM_READ, &[stream.get(), to.get()])
    }

    /// Writes a frame with its length; `false`, and nothing written, if it does not fit.
    fn put_skippable(&mut self, kind: u64, fields: &[u64]) -> bool {
        let length = fields.iter().map(|field| varint::len(*field)).sum::<usize>();
        let size = varint::len(kind) + varint::len(length as u64) + length;
        if size > self.room() || !self.has_space(size) {
            return false;
        }
        for field in [kind, length as u64].iter().chain(fields) {
            self.at += varint::write(*field, &mut self.out[self.at..]);
        }
        true
    }

    pub(crate) fn reset(&mut self, stream: StreamNumber, reason: ResetReason, final_size: StreamOffset) -> bool {
        self.put(RESET, &[stream.get(), reason.code(), final_size.get()])
    }

    pub(crate) fn close(&mut self) -> bool {
        self.put(CLOSE, &[])
    }

    pub(crate) fn drain(&mut self) -> bool {
        self.put(DRAIN, &[])
    }

    pub(crate) fn opened(&mut self, count: u64) -> bool {
        self.put(OPENED, &[count])
    }

    pub(crate) fn path(&mut self, frame: PathFrame) -> bool {
        let (kind, token) = match frame {
            PathFrame::Challenge(token) => (PATH_CHALLENGE, token),
            PathFrame::Response(token) => (PATH_RESPONSE, token),
        };
        let token = token.to_be_bytes();
        if !self.put_within(token.len(), kind, &[]) {
            return false;
        }
        self.out[self.at..self.at + token.len()].copy_from_slice(&token);
        self.at += token.len();
        true
    }

    /// Writes a repair symbol, which ends the packet, and leaves out the `elided` bytes that follow it.
    pub(crate) fn repair(&mut self, frame: &RepairFrame<'_>) -> bool {
        let &RepairFrame { back, count, stride, repair_symbols, index, symbol, elided } = frame;
        if !self.put_within(symbol.len() + elided, REPAIR, &[back, count, stride, repair_symbols, index]) {
            return false;
        }
        self.out[self.at..self.at + symbol.len()].copy_from_slice(symbol);
        self.at += symbol.len();
        self.elided += elided;
        true
    }

    /// Writes a frame's head if it and `body` bytes after it fit.
    fn put_within(&mut self, body: usize, kind: u8, fields: &[u64]) -> bool {
        let head = 1 + fields.iter().map(|field| varint::len(*field)).sum::<usize>();
        head + body <= self.room() && self.put(kind, fields)
    }

    /// Begins a stream frame with its length spelt out and lends the space for the data that are not left out; `None` if
    /// it does not fit.
    pub(crate) fn stream_with_length<P: Payload>(
        &mut self,
        stream: StreamNumber,
        offset: StreamOffset,
        length: usize,
        fin: bool,
    ) -> Option<&mut [u8]> {
        let kind = STREAM | STREAM_LENGTH | if fin { STREAM_FIN } else { 0 };
        let size = stream_with_length_size::<P>(stream, offset, length);
        if !self.has_space(size.kept) || size.kept + size.elided > self.room() {
            return None;
        }
        self.put(kind, &[stream.get(), offset.get(), length as u64]);
        Some(self.lend(P::kept(offset, length), length))
    }

    /// Lends the space for `kept` bytes, and leaves out what is missing to `length`.
    fn lend(&mut self, kept: usize, length: usize) -> &mut [u8] {
        self.at += kept;
        self.elided += length - kept;
        &mut self.out[self.at - kept..self.at]
    }

    /// Fills what is left with padding, which is left out where that is done with what lies far into a stream.
    pub(crate) fn pad<P: Payload>(&mut self) {
        let room = self.room();
        self.lend(P::kept(StreamOffset::new(varint::MAX), room), room).fill(PADDING);
    }

    /// Writes an acknowledgement of `ranges` (newest first, at least one), as many of them as fit and are allowed. If
    /// all do, it covers every number from `floor` on.
    pub(crate) fn ack(
        &mut self,
        ranges: impl Iterator<Item = Range<PacketNumber>>,
        delay_us: u64,
        floor: PacketNumber,
    ) -> bool {
        let mut fields = Fields::from_slice(&[0, delay_us, 0, 0]);
        let Some(written) = self.fit_ranges(ranges, MAX_ACK_RANGES, self.room(), &mut fields) else { return false };
        (fields[0], fields[2]) = (written.largest.get(), written.count);
        fields[3] = if written.all { written.lowest - floor.min(written.lowest) } else { 0 };
        self.put(ACK, &fields)
    }

    /// Writes which packets were recovered: of `ranges` (newest first) as many as are allowed and fit into half of the space that is
    /// left, so that the acknowledgement they go with always follows.
    pub(crate) fn recovered(&mut self, ranges: impl Iterator<Item = Range<PacketNumber>>) -> bool {
        let mut fields = Fields::from_slice(&[0, 0]);
        let Some(written) = self.fit_ranges(ranges, MAX_RECOVERED_RANGES, self.room() / 2, &mut fields) else {
            return false;
        };
        (fields[0], fields[1]) = (written.largest.get(), written.count);
        self.put(RECOVERED, &fields)
    }

    /// Writes which packets arrived that the acknowledgement does not reach: of `ranges` (newest first) as many as are allowed and fit into
    /// half of the space that is left. Returns the numbers from the lowest to the highest of them.
    pub(crate) fn older_ranges(
        &mut self,
        ranges: impl Iterator<Item = Range<PacketNumber>>,
    ) -> Option<Range<PacketNumber>> {
        /// The type and the length.
        const HEAD: usize = 2 + 2;
        let mut fields = Fields::from_slice(&[0, 0]);
        let space = (self.room() / 2).checked_sub(HEAD)?;
        let written = self.fit_ranges(ranges, MAX_OLDER_RANGES, space, &mut fields)?;
        (fields[0], fields[1]) = (written.largest.get(), written.count);
        let length = fields.iter().map(|field| varint::len(*field)).sum::<usize>() as u64;
        for field in [OLDER_RANGES, length].iter().chain(&fields) {
            self.at += varint::write(*field, &mut self.out[self.at..]);
        }
        Some(written.lowest..written.largest.next())
    }

    /// Adds as many of `ranges` to `fields` as fit into `space` bytes after those, at most `most`; `None` if none does.
    fn fit_ranges(
        &self,
        mut ranges: impl Iterator<Item = Range<PacketNumber>>,
        most: usize,
        space: usize,
        fields: &mut Fields,
    ) -> Option<WrittenRanges> {
        /// The kind, a count of two bytes, and what may become of fields that are not known yet.
        const FIXED: usize = 1 + 2 + 8 + 8;
        let mut length = FIXED + fields.iter().map(|field| varint::len(*field)).sum::<usize>();
        let mut written =
            WrittenRanges { largest: PacketNumber::ZERO, lowest: PacketNumber::ZERO, count: 0, all: true };
        written.all = ranges
            .find(|range| {
                let run = range.end - range.start - 1;
                let gap = written.lowest.saturating_since(range.end.next());
                let added: &[u64] = if written.count == 0 { &[run] } else { &[gap, run] };
                length += added.iter().map(|field| varint::len(*field)).sum::<usize>();
                if written.count == most as u64 || length > space {
                    return true;
                }
                fields.extend_from_slice(added);
                if written.count == 0 {
                    written.largest = range.end.saturating_before(1);
                }
                (written.lowest, written.count) = (range.start, written.count + 1);
                false
            })
            .is_none();
        (written.count > 0).then_some(written)
    }

    /// How much stream data fits into one more frame; `None` if none does, nor a bare end.
    pub(crate) fn stream_room(&self, stream: StreamNumber, offset: StreamOffset) -> Option<usize> {
        self.room().checked_sub(1 + varint::len(stream.get()) + varint::len(offset.get()))
    }

    /// Begins a stream frame of `length` bytes (which fit, by [`Writer::stream_room`]) and lends the space for those that
    /// are not left out. The length is not written where the frame fills the packet.
    pub(crate) fn stream<P: Payload>(
        &mut self,
        stream: StreamNumber,
        offset: StreamOffset,
        length: usize,
        fin: bool,
    ) -> &mut [u8] {
        let header = 1 + varint::len(stream.get()) + varint::len(offset.get());
        let fills = header + length == self.room();
        let with_length = header + varint::len(length as u64) + length;
        // Where the frame would fit but for its length field, padding in front lets it fill the packet exactly.
        if !fills && with_length > self.room() {
            let padding = self.room() - header - length;
            self.out[self.at..self.at + padding].fill(PADDING);
            self.at += padding;
        }
        let kind = STREAM | if fin { STREAM_FIN } else { 0 };
        if header + length == self.room() {
            self.put(kind, &[stream.get(), offset.get()]);
        } else {
            self.put(kind | STREAM_LENGTH, &[stream.get(), offset.get(), length as u64]);
        }
        self.lend(P::kept(offset, length), length)
    }
}

/// The size of a stream frame with its length spelt out.
pub(crate) fn stream_with_length_size<P: Payload>(
    stream: StreamNumber,
    offset: StreamOffset,
    length: usize,
) -> SymbolLength {
    let head = 1 + varint::len(stream.get()) + varint::len(offset.get()) + varint::len(length as u64);
    let kept = P::kept(offset, length);
    SymbolLength { kept: head + kept, elided: length - kept }
}
