//! Repair ahead of loss: erasure-coded datagrams in capacity that would idle, so that a loss at the end of a transfer
//! costs a few packet times and not a round trip.
//!
//! When a sender runs out of data, it makes blocks of the datagrams that are under way and not yet covered. Each
//! datagram's stream frames, in one canonical form, are one symbol; the block's recovery symbols (Reed-Solomon over
//! GF(2^16)) travel in datagrams of their own. A receiver that misses no more datagrams of a block than it has recovery
//! symbols for restores their stream frames at once. Acknowledgements still name what was lost, and the receiver tells
//! beside them what of it was restored: repair replaces the retransmission, not the record of losses, which sizes the
//! next block ([`crate::loss`]).
//!
//! Where several blocks are needed, their datagrams take turns, so that a burst of losses takes a few from each.
//!
//! To code a flight of a fast link takes tens of milliseconds. It is done in steps of a fraction of a millisecond
//! ([`TURN`]), between which the driver's loop serves everything else.

mod code;
mod decode;
#[cfg(test)]
pub(crate) mod documented;
mod restorer;

pub(crate) use code::Encoding;
pub(crate) use decode::prepare;
pub(crate) use restorer::Restorer;

use crate::wire::frame::Writer;
use code::CHECKSUM;

/// The most datagrams in one block: larger transfers make several.
pub(crate) const MAX_BLOCK: usize = 1024;
/// The most blocks whose datagrams take turns: their number takes up one byte.
pub(crate) const MAX_STRIDE: usize = 63;
/// Bytes that are coded in one go, and then it is the rest of the loop's turn.
pub(crate) const TURN: usize = 256 << 10;
/// What a symbol takes to handle, in bytes that are coded, however short it is.
pub(crate) const PER_SYMBOL: usize = 256;
/// The most recovery symbols of one block.
pub(crate) const MAX_RECOVERY: usize = 256;
/// What a datagram of data leaves free, so that its symbol fits into a repair datagram: the length that the canonical
/// form spells out, the checksum, the repair frame's head, and evenness.
pub(crate) const HEADROOM: usize = 2 + CHECKSUM + (1 + 4 + 2 + 1 + 2 + 2) + 1;
/// A datagram's stream frames in canonical form, or what was coded of such or decoded. Where bytes were left out of the
/// frames, the code works on what is there; what is not counts with every length.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Symbol {
    pub(crate) bytes: Vec<u8>,
    /// Bytes left out.
    pub(crate) elided: usize,
}

impl Symbol {
    fn len(&self) -> usize {
        self.bytes.len() + self.elided
    }
}

/// Which datagrams a block covers, and with how many recovery symbols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockShape {
    pub(crate) first: u64,
    pub(crate) count: usize,
    /// How far apart their numbers are.
    pub(crate) stride: usize,
    pub(crate) recovery: usize,
}

impl BlockShape {
    /// The number of a datagram by its place.
    fn number(&self, at: usize) -> u64 {
        self.first + (at * self.stride) as u64
    }

    /// The number of the last datagram.
    pub(crate) fn last(&self) -> u64 {
        self.number(self.count - 1)
    }
}

/// A recovery symbol to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RepairSymbol {
    pub(crate) block: BlockShape,
    /// Which of the block's this is.
    pub(crate) index: usize,
    pub(crate) symbol: Symbol,
}

impl RepairSymbol {
    /// Whether a symbol that a peer sent can belong to a block at all.
    pub(crate) fn is_sound(&self) -> bool {
        let length = self.symbol.bytes.len();
        let BlockShape { count, stride, recovery, .. } = self.block;
        let within = [(count, MAX_BLOCK), (stride, MAX_STRIDE), (recovery, MAX_RECOVERY)];
        let sound = within.iter().all(|(value, most)| (1..=*most).contains(value));
        sound && self.index < recovery && length > CHECKSUM && length.is_multiple_of(2)
    }
}

/// The canonical form of a datagram's stream frames, written by `write` into at most `capacity` bytes of `scratch`.
pub(crate) fn symbol(capacity: usize, scratch: &mut Vec<u8>, write: impl FnOnce(&mut Writer<'_>)) -> Symbol {
    if scratch.len() < capacity {
        scratch.resize(capacity, 0);
    }
    let mut writer = Writer::new(&mut scratch[..capacity]);
    write(&mut writer);
    let (length, elided) = (writer.len(), writer.elided());
    Symbol { bytes: scratch[..length - elided].to_vec(), elided }
}
