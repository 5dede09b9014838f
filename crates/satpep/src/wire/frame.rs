//! Frames: what a sealed packet says.
//!
//! | types | |
//! | --- | --- |
//! | 0x00 to 0x1f | of the version; those that are not known are violations |
//! | 0x20 to 0x2f | reserved for several paths ([`Capabilities::PATHS`](crate::Capabilities::PATHS)) |
//! | 0x30 to 0x3f | reserved for datagrams ([`Capabilities::DATAGRAMS`](crate::Capabilities::DATAGRAMS)) |
//! | 0x40 to 0x3fff | a length follows the type; those that are not known are skipped and counted |
//!
//! A type is a variable-length integer in its shortest form, so that those below 0x40 take one byte.

use super::arrivals::{self, ArrivalsFrame, Counters};
use super::varint;
use crate::credit::Credit;
use crate::event::Violation;
use crate::packet_number::PacketNumber;
use crate::payload::Payload;
use crate::repair::SymbolLength;
use crate::stream::{StreamNumber, StreamOffset};
use peering::ResetReason;
use std::marker::PhantomData;
use std::ops::Range;

/// The lowest first byte of a type that takes more than one.
const LONG_TYPE: u8 = 0x40;

const PADDING: u8 = 0x00;
const PING: u8 = 0x01;
const ACK: u8 = 0x02;
const STOP_WAITING: u8 = 0x03;
const MAX_DATA: u8 = 0x04;
const MAX_STREAM_DATA: u8 = 0x05;
const RESET: u8 = 0x06;
const CLOSE: u8 = 0x07;
/// A stream frame; bit 0 says that it ends the stream, bit 1 that a length follows (else it fills the packet).
const STREAM: u8 = 0x08;
const STREAM_FIN: u8 = 0x01;
const STREAM_LENGTH: u8 = 0x02;
/// A repair symbol, which fills the rest of the packet.
const REPAIR: u8 = 0x0c;
/// Path validation: a token, and its repetition by the receiver. Neither is ack-eliciting.
/// Their numbers are QUIC's.
const PATH_CHALLENGE: u8 = 0x1a;
const PATH_RESPONSE: u8 = 0x1b;
/// The packet belongs to a train.
const TRAIN: u8 = 0x0d;
/// What has arrived, and when.
const ARRIVALS: u8 = 0x0e;
/// Packets that did not arrive and whose stream frames were recovered.
const RECOVERED: u8 = 0x12;
/// No more streams, please. It is sent to those only whose epoch says that they know it.
const DRAIN: u8 = 0x14;
/// How many streams the sender has opened: the answer to DRAIN.
const OPENED: u8 = 0x15;
/// What may be sent on a stream without further credit. A receiver that does not know it skips it.
const MAX_NEW_STREAM_DATA: u64 = 0x40;
/// The sender's packets of the least size do not arrive. A receiver that does not know it skips it.
const PATH_TOO_SMALL: u64 = 0x41;

/// Frames with a length, so that a receiver that does not know their type skips them.
pub(crate) const SKIPPABLE: std::ops::RangeInclusive<u64> = 0x40..=0x3fff;

/// The most ranges that one acknowledgement names: at 1 % loss they reach back over six thousand packets.
pub(crate) const MAX_ACK_RANGES: usize = 64;

/// The most ranges of recovered packets that one frame names.
pub(crate) const MAX_RECOVERED_RANGES: usize = 256;

/// One frame as read from a packet. Stream data borrows from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Frame<'a> {
    /// Asks for an acknowledgement and says nothing else.
    Ping,
    /// Which packets arrived, newest first, and so which did not.
    Ack(AckFrame<'a>),
    /// The sender needs no news of packets below the lowest number that it still tracks.
    StopWaiting { lowest: PacketNumber },
    /// The receiver takes this many stream bytes in all, over all streams.
    MaxData { limit: Credit },
    /// The receiver takes this many bytes on one stream.
    MaxStreamData { stream: StreamNumber, limit: StreamOffset },
    /// The receiver takes this many bytes on each stream that is opened from now on.
    MaxNewStreamData { limit: Credit },
    /// The sender gives up both directions of a stream; it had sent `final_size` bytes.
    Reset { stream: StreamNumber, reason: ResetReason, final_size: StreamOffset },
    /// The sender's gateway goes away in good order.
    Close,
    /// The sender finishes the streams that there are and takes no more.
    Drain,
    /// The sender has opened this many streams in the session, and opens no more.
    Opened { streams: u64 },
    /// The packet belongs to a train: asks when it arrives.
    Train,
    /// How much the receiver has accepted, and when some of it arrived.
    Arrivals(ArrivalsFrame<'a>),
    /// About the path that it came on.
    Path(PathFrame),
    /// The sender's packets of the least size do not arrive. An acknowledgement without it says that they do, or may.
    PathTooSmall,
    /// Which packets were lost, but for their stream frames, which repair symbols recovered; newest first.
    Recovered(RecoveredFrame<'a>),
    /// A repair symbol.
    Repair(RepairFrame<'a>),
    /// Bytes of a stream, and the count of those after them that were left out.
    Stream { stream: StreamNumber, offset: StreamOffset, data: &'a [u8], elided: usize, fin: bool },
}

impl Frame<'_> {
    /// Whether the packet that carries it wants to be acknowledged.
    pub(crate) fn is_ack_eliciting(&self) -> bool {
        use Frame::{Ack, Arrivals, Close, MaxNewStreamData, Path, PathTooSmall, Recovered, StopWaiting};
        !matches!(
            self,
            Ack(_)
                | Arrivals(_)
                | StopWaiting { .. }
                | Close
                | Path(_)
                | PathTooSmall
                | Recovered(_)
                | MaxNewStreamData { .. }
        )
    }
}

/// A repair symbol and the source block that it belongs to, as the peer says: nothing of it has been checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RepairFrame<'a> {
    /// By how much the number of the block's first packet is below that of the packet with this frame.
    pub(crate) back: u64,
    /// How many packets the block has.
    pub(crate) count: u64,
    /// How far apart their numbers are.
    pub(crate) stride: u64,
    /// How many repair symbols there are.
    pub(crate) repair_symbols: u64,
    /// Which of them this is.
    pub(crate) index: u64,
    pub(crate) symbol: &'a [u8],
    /// Bytes left out at the end of the symbol.
    pub(crate) elided: usize,
}

/// A frame about a path, which travels alone and goes to an address of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathFrame {
    /// Asks who gets it to repeat the token.
    Challenge(u64),
    /// Repeats a token.
    Response(u64),
}

impl PathFrame {
    /// Bytes that it takes.
    pub(crate) const LENGTH: usize = 1 + 8;
}

/// Ranges of packet numbers, newest first. They are decoded while iterating, so that reading some allocates nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct EncodedRanges<'a> {
    largest: PacketNumber,
    encoded: &'a [u8],
    count: u64,
}

impl EncodedRanges<'_> {
    /// The ranges, as far as they are well formed.
    fn iter(&self) -> impl Iterator<Item = Range<PacketNumber>> + use<'_> {
        let mut input = self.encoded;
        let mut end = self.largest.next();
        let mut first = true;
        (0..self.count).map_while(move |_| {
            if !first {
                end = end.checked_before(varint::read(&mut input)? + 1)?;
            }
            first = false;
            let start = end.checked_before(varint::read(&mut input)? + 1)?;
            let range = start..end;
            end = start;
            Some(range)
        })
    }
}

/// An acknowledgement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AckFrame<'a> {
    pub(crate) largest: PacketNumber,
    /// Microseconds between the arrival of `largest` and this report.
    pub(crate) delay_us: u64,
    /// The report covers numbers from here to `largest`: of those, what no range holds did not arrive.
    pub(crate) covered_from: PacketNumber,
    received: EncodedRanges<'a>,
}

impl AckFrame<'_> {
    /// The received ranges, newest first. [`Reader`] has checked that they are well formed.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<PacketNumber>> {
        self.received.iter()
    }
}

/// Lost packets whose stream frames were recovered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecoveredFrame<'a>(EncodedRanges<'a>);

impl RecoveredFrame<'_> {
    /// The recovered ranges, newest first. [`Reader`] has checked that they are well formed.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<PacketNumber>> {
        self.0.iter()
    }
}

/// A packet's plaintext that does not follow the grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// A frame's fields are none, or it is cut off.
    Fields,
    /// No frame has this type, and it is none that may be skipped.
    Type(u64),
}

impl From<Malformed> for Violation {
    fn from(malformed: Malformed) -> Self {
        match malformed {
            Malformed::Fields => Violation::Malformed,
            Malformed::Type(kind) => Violation::UnknownFrame(kind),
        }
    }
}

/// Reads frames one after the other.
pub(crate) struct Reader<'a, P> {
    input: &'a [u8],
    /// Bytes that were left out of what is still to be read.
    elided: usize,
    skipped: u64,
    payload: PhantomData<P>,
}

#[cfg(test)]
impl<'a> Reader<'a, crate::Stored> {
    /// Reads what was written whole.
    pub(crate) fn new(plaintext: &'a [u8]) -> Self {
        Self::with_elided(plaintext, 0)
    }
}

impl<'a, P: Payload> Reader<'a, P> {
    /// Reads what `elided` bytes were left out of.
    pub(crate) fn with_elided(plaintext: &'a [u8], elided: usize) -> Self {
        Self { input: plaintext, elided, skipped: 0, payload: PhantomData }
    }

    /// How many frames were skipped so far because their type is not known.
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped
    }

    /// The next frame of a known type, `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Frame<'a>>, Malformed> {
        while let Some((&kind, rest)) = self.input.split_first() {
            match kind {
                PADDING => self.input = rest,
                LONG_TYPE.. => {
                    if let Some(frame) = self.skippable()? {
                        return Ok(Some(frame));
                    }
                }
                _ => {
                    self.input = rest;
                    return self.body(kind).map(Some);
                }
            }
        }
        Ok(None)
    }

    /// A frame with a length; `None` if its type is not known, and it is passed over.
    fn skippable(&mut self) -> Result<Option<Frame<'a>>, Malformed> {
        let kind = self.integer()?;
        if !SKIPPABLE.contains(&kind) {
            // A type of this version in more bytes than it takes is none either.
            return Err(Malformed::Type(kind));
        }
        let length = usize::try_from(self.integer()?).map_err(|_| Malformed::Fields)?;
        let (mut body, rest) = self.input.split_at_checked(length).ok_or(Malformed::Fields)?;
        self.input = rest;
        // What follows the fields of a known frame may be what a later build adds.
        match kind {
            MAX_NEW_STREAM_DATA => {
                let limit = varint::read(&mut body).ok_or(Malformed::Fields)?;
                Ok(Some(Frame::MaxNewStreamData { limit: Credit::new(limit) }))
            }
            PATH_TOO_SMALL => Ok(Some(Frame::PathTooSmall)),
            _ => {
                self.skipped += 1;
                Ok(None)
            }
        }
    }

    fn body(&mut self, kind: u8) -> Result<Frame<'a>, Malformed> {
        Ok(match kind {
            PING => Frame::Ping,
            ACK => Frame::Ack(self.ack()?),
            RECOVERED => Frame::Recovered(self.recovered()?),
            STOP_WAITING => Frame::StopWaiting { lowest: self.packet_number()? },
            MAX_DATA => Frame::MaxData { limit: Credit::new(self.integer()?) },
            MAX_STREAM_DATA => Frame::MaxStreamData { stream: self.stream_number()?, limit: self.offset()? },
            RESET => Frame::Reset {
                stream: self.stream_number()?,
                reason: ResetReason::from_code(self.integer()?),
                final_size: self.offset()?,
            },
            CLOSE => Frame::Close,
            DRAIN => Frame::Drain,
            OPENED => Frame::Opened { streams: self.integer()? },
            TRAIN => Frame::Train,
            ARRIVALS => Frame::Arrivals(ArrivalsFrame::read(&mut self.input).ok_or(Malformed::Fields)?),
            REPAIR => Frame::Repair(RepairFrame {
                back: self.integer()?,
                count: self.integer()?,
                stride: self.integer()?,
                repair_symbols: self.integer()?,
                index: self.integer()?,
                symbol: std::mem::take(&mut self.input),
                elided: std::mem::take(&mut self.elided),
            }),
            PATH_CHALLENGE => Frame::Path(PathFrame::Challenge(self.token()?)),
            PATH_RESPONSE => Frame::Path(PathFrame::Response(self.token()?)),
            _ if kind & !(STREAM_FIN | STREAM_LENGTH) == STREAM => self.stream(kind)?,
            _ => return Err(Malformed::Type(u64::from(kind))),
        })
    }

    fn stream(&mut self, kind: u8) -> Result<Frame<'a>, Malformed> {
        let (stream, offset) = (self.stream_number()?, self.offset()?);
        let length = if kind & STREAM_LENGTH != 0 { self.integer()? } else { (self.input.len() + self.elided) as u64 };
        let length = usize::try_from(length).map_err(|_| Malformed::Fields)?;
        let kept = P::kept(offset, length);
        let (data, rest) = self.input.split_at_checked(kept).ok_or(Malformed::Fields)?;
        if (offset + length as u64).get() > varint::MAX {
            return Err(Malformed::Fields);
        }
        let elided = length - kept;
        self.input = rest;
        self.elided = self.elided.checked_sub(elided).ok_or(Malformed::Fields)?;
        Ok(Frame::Stream { stream, offset, data, elided, fin: kind & STREAM_FIN != 0 })
    }

    fn ack(&mut self) -> Result<AckFrame<'a>, Malformed> {
        let (largest, delay_us, range_count) = (self.packet_number()?, self.integer()?, self.integer()?);
        let missing_below = self.integer()?;
        let (received, lowest) = self.ranges(largest, range_count, MAX_ACK_RANGES)?;
        let covered_from = lowest.checked_before(missing_below).ok_or(Malformed::Fields)?;
        Ok(AckFrame { largest, delay_us, covered_from, received })
    }

    fn recovered(&mut self) -> Result<RecoveredFrame<'a>, Malformed> {
        let (largest, range_count) = (self.packet_number()?, self.integer()?);
        Ok(RecoveredFrame(self.ranges(largest, range_count, MAX_RECOVERED_RANGES)?.0))
    }

    /// Ranges up to `largest`, and where the last of them begins.
    fn ranges(
        &mut self,
        largest: PacketNumber,
        count: u64,
        most: usize,
    ) -> Result<(EncodedRanges<'a>, PacketNumber), Malformed> {
        if count == 0 || count > most as u64 {
            return Err(Malformed::Fields);
        }
        let before = self.input;
        for _ in 0..2 * count - 1 {
            self.integer()?;
        }
        let encoded = &before[..before.len() - self.input.len()];
        let ranges = EncodedRanges { largest, encoded, count };
        let (sound, lowest) = ranges.iter().fold((0, PacketNumber::ZERO), |(count, _), range| (count + 1, range.start));
        if sound == count { Ok((ranges, lowest)) } else { Err(Malformed::Fields) }
    }

    fn stream_number(&mut self) -> Result<StreamNumber, Malformed> {
        self.integer().map(StreamNumber::new)
    }

    fn packet_number(&mut self) -> Result<PacketNumber, Malformed> {
        self.integer().map(PacketNumber::new)
    }

    fn offset(&mut self) -> Result<StreamOffset, Malformed> {
        self.integer().map(StreamOffset::new)
    }

    fn token(&mut self) -> Result<u64, Malformed> {
        let (token, rest) = self.input.split_first_chunk().ok_or(Malformed::Fields)?;
        self.input = rest;
        Ok(u64::from_be_bytes(*token))
    }

    fn integer(&mut self) -> Result<u64, Malformed> {
        varint::read(&mut self.input).ok_or(Malformed::Fields)
    }
}

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
        let length = varint::len(limit.bytes());
        if varint::len(MAX_NEW_STREAM_DATA) + 1 + length > self.room() {
            return false;
        }
        for field in [MAX_NEW_STREAM_DATA, length as u64, limit.bytes()] {
            self.at += varint::write(field, &mut self.out[self.at..]);
        }
        true
    }

    pub(crate) fn path_too_small(&mut self) -> bool {
        if varint::len(PATH_TOO_SMALL) + 1 > self.room() {
            return false;
        }
        for field in [PATH_TOO_SMALL, 0] {
            self.at += varint::write(field, &mut self.out[self.at..]);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stored;
    use proptest::prelude::*;

    const COUNTERS: Counters = Counters { packets: 1000, bytes: 1_400_000, ce: Some(3) };

    fn written(space: usize, write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
        let mut buffer = vec![0xee; space];
        let mut writer = Writer::new(&mut buffer);
        write(&mut writer);
        let length = writer.len();
        buffer.truncate(length);
        buffer
    }

    #[test]
    fn frames_round_trip() {
        let bytes = written(200, |writer| {
            assert!(writer.ping());
            assert!(writer.stop_waiting(PacketNumber::new(77)));
            assert!(writer.train());
            assert!(writer.arrivals(&COUNTERS, &[(PacketNumber::new(70_000), (1 << 30) - 1)]));
            assert!(writer.max_data(Credit::new(1 << 40)));
            assert!(writer.max_stream_data(StreamNumber::new(5), StreamOffset::new(9000)));
            assert!(writer.max_new_stream_data(Credit::new(30_000_000)));
            assert!(writer.path_too_small());
            assert!(writer.reset(StreamNumber::new(3), ResetReason::Refused, StreamOffset::new(100)));
            assert!(writer.path(PathFrame::Challenge(u64::MAX - 1)) && writer.path(PathFrame::Response(7)));
            assert!(writer.recovered([60..62, 7..8].into_iter().map(PacketNumber::range)));
            assert!(writer.ack(
                [90..100, 50..80, 5..6].into_iter().map(PacketNumber::range),
                250,
                PacketNumber::new(3)
            ));
            writer.stream::<Stored>(StreamNumber::new(9), StreamOffset::new(1000), 4, true).copy_from_slice(b"data");
            assert!(writer.close());
        });
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.next(), Ok(Some(Frame::Ping)));
        assert_eq!(reader.next(), Ok(Some(Frame::StopWaiting { lowest: PacketNumber::new(77) })));
        assert_eq!(reader.next(), Ok(Some(Frame::Train)));
        let Ok(Some(Frame::Arrivals(arrivals))) = reader.next() else { panic!("no arrivals") };
        assert_eq!((arrivals.counters, arrivals.first_micros), (COUNTERS, (1 << 30) - 1));
        assert_eq!(arrivals.stamps().collect::<Vec<_>>(), [(PacketNumber::new(70_000), units::Duration::ZERO)]);
        assert_eq!(reader.next(), Ok(Some(Frame::MaxData { limit: Credit::new(1 << 40) })));
        assert_eq!(
            reader.next(),
            Ok(Some(Frame::MaxStreamData { stream: StreamNumber::new(5), limit: StreamOffset::new(9000) }))
        );
        assert_eq!(reader.next(), Ok(Some(Frame::MaxNewStreamData { limit: Credit::new(30_000_000) })));
        assert_eq!(reader.next(), Ok(Some(Frame::PathTooSmall)));
        let reset = Frame::Reset {
            stream: StreamNumber::new(3),
            reason: ResetReason::Refused,
            final_size: StreamOffset::new(100),
        };
        assert_eq!(reader.next(), Ok(Some(reset)));
        assert_eq!(reader.next(), Ok(Some(Frame::Path(PathFrame::Challenge(u64::MAX - 1)))));
        assert_eq!(reader.next(), Ok(Some(Frame::Path(PathFrame::Response(7)))));
        let Ok(Some(Frame::Recovered(recovered))) = reader.next() else { panic!("nothing recovered") };
        assert_eq!(recovered.ranges().collect::<Vec<_>>(), [60..62, 7..8].map(PacketNumber::range));
        let Ok(Some(Frame::Ack(ack))) = reader.next() else { panic!("no ack") };
        assert_eq!((ack.largest.get(), ack.delay_us, ack.covered_from.get()), (99, 250, 3));
        assert_eq!(ack.ranges().collect::<Vec<_>>(), [90..100, 50..80, 5..6].map(PacketNumber::range));
        assert_eq!(
            reader.next(),
            Ok(Some(Frame::Stream {
                stream: StreamNumber::new(9),
                offset: StreamOffset::new(1000),
                data: b"data",
                elided: 0,
                fin: true
            }))
        );
        assert_eq!(reader.next(), Ok(Some(Frame::Close)));
        assert_eq!(reader.next(), Ok(None));
    }

    #[test]
    fn frames_that_may_be_skipped_are_and_others_are_named() {
        // A ping, types 0x42 and 0x3fff of 3 and 0 bytes, a ping.
        let bytes = [1, 0x40, 0x42, 3, 9, 9, 9, 0x7f, 0xff, 0, 1];
        let mut reader = Reader::new(&bytes);
        assert_eq!(
            (reader.next(), reader.next(), reader.next()),
            (Ok(Some(Frame::Ping)), Ok(Some(Frame::Ping)), Ok(None))
        );
        assert_eq!(reader.skipped(), 2);
        let refused: [(&[u8], Malformed); 8] = [
            (&[0x3f], Malformed::Type(0x3f)),
            (&[0x30, 1, 2], Malformed::Type(0x30)),
            (&[0x80, 0, 0x40, 0, 0], Malformed::Type(0x4000)),
            (&[0x40, 1], Malformed::Type(1)),
            (&[0x40], Malformed::Fields),
            (&[0x40, 0x42, 2, 9], Malformed::Fields),
            (&[0x40, 0x40, 0], Malformed::Fields),
            (&[0x40, 0x40, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], Malformed::Fields),
        ];
        for (bytes, why) in refused {
            assert_eq!(Reader::new(bytes).next(), Err(why), "{bytes:?}");
        }
    }

    #[test]
    fn ranges_of_recovered_packets_leave_space_for_the_acknowledgement() {
        let ranges = || (0..400u64).rev().map(|k| PacketNumber::range(1_000_000 + 1_000 * k..1_000_001 + 1_000 * k));
        for space in [120, 480, 1_400] {
            let mut told = 0;
            let bytes = written(space, |writer| {
                assert!(writer.recovered(ranges()));
                assert!(
                    writer.ack(ranges(), 5_000, PacketNumber::new(0)),
                    "no acknowledgement fits into {space} bytes"
                );
            });
            let mut reader = Reader::new(&bytes);
            while let Ok(Some(frame)) = reader.next() {
                if let Frame::Recovered(recovered) = frame {
                    assert!(
                        recovered.ranges().eq(ranges().take(recovered.ranges().count())),
                        "the newest are told first"
                    );
                    told = recovered.ranges().count();
                }
            }
            assert!(told > space / 20, "{told} ranges in {space} bytes");
        }
    }

    #[test]
    fn an_acknowledgement_that_leaves_ranges_out_covers_only_what_it_names() {
        let ranges = (0..200).rev().map(|k| PacketNumber::range(10 * k..10 * k + 5));
        let bytes = written(1400, |writer| assert!(writer.ack(ranges.clone(), 0, PacketNumber::new(0))));
        let Ok(Some(Frame::Ack(ack))) = Reader::new(&bytes).next() else { panic!("no ack") };
        assert_eq!(
            (ack.ranges().count(), ack.covered_from.get()),
            (MAX_ACK_RANGES, 10 * (200 - MAX_ACK_RANGES as u64))
        );
        let bytes = written(40, |writer| assert!(writer.ack(ranges, 0, PacketNumber::new(0))));
        let Ok(Some(Frame::Ack(ack))) = Reader::new(&bytes).next() else { panic!("no ack") };
        assert_eq!(ack.ranges().last().map(|range| range.start), Some(ack.covered_from));
    }

    #[test]
    fn a_stream_frame_fills_any_space_it_is_given() {
        const ONE: StreamNumber = StreamNumber::new(1);
        for space in 3..300 {
            let room = Writer::new(&mut vec![0; space]).stream_room(ONE, StreamOffset::new(0)).expect("room");
            for length in room.saturating_sub(4)..=room {
                let bytes =
                    written(space, |writer| writer.stream::<Stored>(ONE, StreamOffset::new(0), length, false).fill(7));
                let frame = Reader::new(&bytes).next();
                let data = vec![7; length];
                assert_eq!(
                    frame,
                    Ok(Some(Frame::Stream {
                        stream: ONE,
                        offset: StreamOffset::new(0),
                        data: &data,
                        elided: 0,
                        fin: false
                    }))
                );
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut reader = Reader::new(&bytes);
            while let Ok(Some(frame)) = reader.next() {
                if let Frame::Arrivals(arrivals) = &frame {
                    prop_assert!(arrivals.stamps().count() <= arrivals::MAX_STAMPS);
                }
                if let Frame::Ack(ack) = frame {
                    prop_assert!(ack.ranges().all(|range| !range.is_empty()));
                }
            }
        }
    }
}
