//! FEC (RFC 8406): repair symbols in capacity that would idle, so that a loss at the end of a transfer costs a few packet times
//! and not a round trip.
//!
//! When a sender runs out of data, it makes blocks of the packets that are in flight and not yet protected. Each
//! packet's stream frames, in one canonical form, are one symbol; the block's repair symbols (Reed-Solomon over
//! GF(2^16)) travel in packets of their own. A receiver that misses no more packets of a block than it has repair
//! symbols for recovers their stream frames at once. ACKs still report what was lost, and the receiver says in
//! RECOVERED what of it was recovered: repair replaces the retransmission, not the record of losses, which sizes the
//! next block ([`crate::loss`]).
//!
//! Where several blocks are needed, their packets take turns, so that a burst of losses takes a few from each.
//!
//! To code a flight of a fast link takes tens of milliseconds. It is done in steps of a fraction of a millisecond
//! ([`WORK_STEP`]), between which the driver's loop serves everything else.

mod code;
mod decode;
mod decoder;
#[cfg(test)]
pub(crate) mod documented;

pub(crate) use code::Encoding;
pub(crate) use decode::prepare;
pub(crate) use decoder::Decoder;

use crate::packet_number::PacketNumber;
use crate::wire::frame::Writer;
use code::CHECKSUM;

/// The most packets in one block: larger transfers make several.
pub(crate) const MAX_SOURCE_SYMBOLS: usize = 1024;
/// The most blocks whose packets take turns: their number takes up one byte.
pub(crate) const MAX_STRIDE: usize = 63;
/// Bytes that are coded in one go, and then it is the rest of the loop's turn.
pub(crate) const WORK_STEP: usize = 256 << 10;
/// What a symbol takes to handle, in bytes that are coded, however short it is.
pub(crate) const PER_SYMBOL: usize = 256;
/// The most repair symbols of one block.
pub(crate) const MAX_REPAIR_SYMBOLS: usize = 256;
/// What a packet of data leaves free, so that its symbol fits into a repair packet: the length that the canonical
/// form spells out, the checksum, the repair frame's head, and evenness.
pub(crate) const HEADROOM: usize = 2 + CHECKSUM + (1 + 4 + 2 + 1 + 2 + 2) + 1;

/// A packet's stream frames in canonical form, sent or recovered. Where bytes were left out of the frames, the code works on what is
/// there; what is not counts with every length.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SourceSymbol {
    pub(crate) bytes: Vec<u8>,
    /// Bytes left out.
    pub(crate) elided: usize,
}

impl SourceSymbol {
    fn len(&self) -> usize {
        self.bytes.len() + self.elided
    }
}

/// Which packets a block covers, and with how many repair symbols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SourceBlock {
    pub(crate) first: PacketNumber,
    pub(crate) count: usize,
    /// How far apart their numbers are.
    pub(crate) stride: usize,
    pub(crate) repair_symbols: usize,
}

impl SourceBlock {
    /// The number of a packet by its place.
    fn number(&self, at: usize) -> PacketNumber {
        self.first + (at * self.stride) as u64
    }

    /// The number of the last packet.
    pub(crate) fn last(&self) -> PacketNumber {
        self.number(self.count - 1)
    }
}

/// A repair symbol to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RepairSymbol {
    pub(crate) block: SourceBlock,
    /// Which of the block's this is.
    pub(crate) index: usize,
    pub(crate) bytes: Vec<u8>,
    /// Bytes left out.
    pub(crate) elided: usize,
}

impl RepairSymbol {
    /// Whether a symbol that a peer sent can belong to a block at all.
    pub(crate) fn is_sound(&self) -> bool {
        let length = self.bytes.len();
        let SourceBlock { count, stride, repair_symbols, .. } = self.block;
        let within = [(count, MAX_SOURCE_SYMBOLS), (stride, MAX_STRIDE), (repair_symbols, MAX_REPAIR_SYMBOLS)];
        let sound = within.iter().all(|(value, most)| (1..=*most).contains(value));
        sound && self.index < repair_symbols && length > CHECKSUM && length.is_multiple_of(2)
    }
}

/// The source symbol of a packet whose stream frames `write` writes into at most `capacity` bytes of `scratch`.
pub(crate) fn source_symbol(
    capacity: usize,
    scratch: &mut Vec<u8>,
    write: impl FnOnce(&mut Writer<'_>),
) -> SourceSymbol {
    if scratch.len() < capacity {
        scratch.resize(capacity, 0);
    }
    let mut writer = Writer::new(&mut scratch[..capacity]);
    write(&mut writer);
    let (length, elided) = (writer.len(), writer.elided());
    SourceSymbol { bytes: scratch[..length - elided].to_vec(), elided }
}
