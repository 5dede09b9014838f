//! The symbols of the code, and the blocks that they make.

use crate::packet_number::PacketNumber;

/// The most packets in one block: larger transfers make several.
pub(crate) const MAX_SOURCE_SYMBOLS: usize = 1024;
/// The most blocks whose packets take turns: their number takes up one byte.
pub(crate) const MAX_STRIDE: usize = 63;
/// The most repair symbols of one block.
pub(crate) const MAX_REPAIR_SYMBOLS: usize = 256;
/// Bytes of the checksum that begins every symbol: should the two sides ever disagree on a packet's symbol, what
/// decoding then gives is noticed and not delivered.
pub(super) const CHECKSUM: usize = 4;
/// What a packet of data leaves free, so that its symbol fits into a repair packet: the length that the canonical
/// form spells out, the checksum, the repair frame's head, and evenness.
pub(crate) const HEADROOM: usize = 2 + CHECKSUM + (1 + 4 + 2 + 1 + 2 + 2) + 1;

/// The length of a packet's stream frames in canonical form, which are its symbol. Where bytes were left out of the frames, the code
/// works on what is there; what is not counts with every length.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SymbolLength {
    /// Bytes that are there.
    pub(crate) kept: usize,
    /// Bytes left out.
    pub(crate) elided: usize,
}

impl SymbolLength {
    pub(super) fn total(self) -> usize {
        self.kept + self.elided
    }

    /// The length of a symbol that `next` follows in.
    pub(crate) fn followed_by(self, next: Self) -> Self {
        Self { kept: self.kept + next.kept, elided: self.elided + next.elided }
    }

    /// The length of a symbol that holds this one as well as `other`, padded.
    pub(crate) fn max(self, other: Self) -> Self {
        let kept = self.kept.max(other.kept);
        Self { kept, elided: self.total().max(other.total()) - kept }
    }
}

/// A lost packet's stream frames in canonical form, recovered, with padding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecoveredSymbol {
    pub(crate) bytes: Vec<u8>,
    /// The most bytes that were left out.
    pub(crate) elided: usize,
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
    pub(super) fn number(&self, at: usize) -> PacketNumber {
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
