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
//!
//! | file | idea |
//! | --- | --- |
//! | `mod.rs` | the types and their fields |
//! | `reader.rs` | frames from bytes |
//! | `writer.rs` | frames as bytes |
//! | `tests.rs` | tests: what is written is read |

mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use reader::Reader;
pub(crate) use writer::{Writer, stream_with_length_size};

use super::arrivals::ArrivalsFrame;
use super::varint;
use crate::credit::Credit;
use crate::event::Violation;
use crate::packet_number::PacketNumber;
use crate::stream::{StreamNumber, StreamOffset};
use peering::ResetReason;
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
/// Path validation: a token, and its repetition by the receiver. Neither is ack-eliciting.
/// Their numbers are QUIC's.
const PATH_CHALLENGE: u8 = 0x1a;
const PATH_RESPONSE: u8 = 0x1b;
/// What may be sent on a stream without further credit. A receiver that does not know it skips it.
const MAX_NEW_STREAM_DATA: u64 = 0x40;
/// The sender's packets of the least size do not arrive. A receiver that does not know it skips it.
const PATH_TOO_SMALL: u64 = 0x41;
/// Packets that arrived and that lie below the ranges of the ACK. A receiver that does not know it skips it.
const OLDER_RANGES: u64 = 0x42;
/// Asks for reports of how far a stream has been read, and such a report. They are sent to those only that offer
/// [`Capabilities::READ_REPORTS`](crate::Capabilities::READ_REPORTS).
const WATCH_STREAM: u64 = 0x43;
const STREAM_READ: u64 = 0x44;

/// Frames with a length, so that a receiver that does not know their type skips them.
pub(crate) const SKIPPABLE: std::ops::RangeInclusive<u64> = 0x40..=0x3fff;

/// The most ranges that one acknowledgement names: at 1 % loss they reach back over six thousand packets.
pub(crate) const MAX_ACK_RANGES: usize = 64;

/// The most ranges that a frame names of packets which no acknowledgement reaches.
pub(crate) const MAX_OLDER_RANGES: usize = 64;

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
    /// The sender wants to know when bytes of a stream below `to` have been read.
    WatchStream { stream: StreamNumber, to: StreamOffset },
    /// Everything on a stream below `to` has been read.
    StreamRead { stream: StreamNumber, to: StreamOffset },
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
    /// Which packets arrived of those that the ACK of the same packet does not reach.
    OlderRanges(OlderRangesFrame<'a>),
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
        use Frame::{Ack, Arrivals, Close, MaxNewStreamData, OlderRanges, Path, PathTooSmall, Recovered, StopWaiting};
        !matches!(
            self,
            Ack(_)
                | Arrivals(_)
                | StopWaiting { .. }
                | Close
                | Path(_)
                | PathTooSmall
                | OlderRanges(_)
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

/// Packets that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OlderRangesFrame<'a>(EncodedRanges<'a>);

impl OlderRangesFrame<'_> {
    /// The received ranges, newest first. [`Reader`] has checked that they are well formed.
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
