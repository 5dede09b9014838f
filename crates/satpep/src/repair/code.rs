//! The erasure code: a block's symbols, brought into one form, and the recovery symbols that are made of them.
//!
//! The code treats every 64 bytes of the shards by themselves. So a block is coded slice by slice, each across all of its
//! shards: no step takes longer than a small block does.

use super::{BlockShape, RepairSymbol, Symbol};
use reed_solomon_simd::ReedSolomonEncoder;
use std::ops::Range;

/// Bytes of the checksum that begins every shard: should the two sides ever disagree on a datagram's symbol, what
/// decoding then gives is noticed and not delivered.
pub(super) const CHECKSUM: usize = 4;
/// Bytes that one step takes up at most, of all shards together.
const STEP: usize = 512 << 10;
/// What is coded apart from the rest is a multiple of so many bytes of a shard.
const UNIT: usize = 64;

/// The coding of one block in steps.
pub(crate) struct Encoding {
    block: BlockShape,
    symbols: Vec<Symbol>,
    elided: usize,
    shards: Shards,
    code: Option<ReedSolomonEncoder>,
    /// The recovery symbols as far as they are made.
    recovery: Vec<Vec<u8>>,
    slice: Vec<u8>,
}

impl Encoding {
    /// Begins a block of these symbols, which are padded to one length; `None` if there is nothing in them to code.
    pub(crate) fn new(block: BlockShape, symbols: Vec<Symbol>) -> Option<Self> {
        let longest = symbols.iter().map(|symbol| symbol.bytes.len()).max().filter(|longest| *longest > 0)?;
        let length = shard_length(longest);
        let elided = shard_length(symbols.iter().map(Symbol::len).max()?) - length;
        let recovery = vec![Vec::with_capacity(length); block.recovery];
        let shards = Shards::new(block.count, length);
        Some(Self { block, symbols, elided, shards, code: None, recovery, slice: Vec::new() })
    }

    /// Codes some more; returns how many bytes it took up, or nothing when the block is done or cannot be coded.
    pub(crate) fn step(&mut self) -> Option<usize> {
        let Self { symbols, shards, .. } = self;
        if let Some(taken) = shards.sum_up(|at| symbols.get(at).map_or(&[], |symbol| &symbol.bytes)) {
            return Some(taken);
        }
        let slice = self.shards.next_slice()?;
        let coded = self.code_slice(&slice);
        coded.map(|()| self.block.count * slice.len())
    }

    fn code_slice(&mut self, slice: &Range<usize>) -> Option<()> {
        let BlockShape { count, recovery, .. } = self.block;
        let code = match self.code.take() {
            Some(mut code) => code.reset(count, recovery, slice.len()).map(|()| code),
            None => ReedSolomonEncoder::new(count, recovery, slice.len()),
        };
        let mut code = code.ok()?;
        self.slice.resize(slice.len(), 0);
        for (at, symbol) in self.symbols.iter().enumerate() {
            self.shards.copy(at, &symbol.bytes, slice, &mut self.slice);
            code.add_original_shard(&self.slice).ok()?;
        }
        let encoded = code.encode().ok()?;
        self.recovery.iter_mut().zip(encoded.recovery_iter()).for_each(|(symbol, data)| symbol.extend_from_slice(data));
        drop(encoded);
        self.code = Some(code);
        Some(())
    }

    /// The recovery symbols of a block that is done; none of one that could not be coded.
    pub(crate) fn finish(self) -> Vec<RepairSymbol> {
        let Self { block, elided, shards, recovery, .. } = self;
        let whole = recovery.into_iter().filter(|symbol| symbol.len() == shards.length).enumerate();
        whole.map(|(index, bytes)| RepairSymbol { block, index, symbol: Symbol { bytes, elided } }).collect()
    }
}

/// The shards that symbols of a block become, each of checksum, symbol, and zeros (which read as padding), and how far
/// they have been gone through.
pub(super) struct Shards {
    count: usize,
    pub(super) length: usize,
    sums: Vec<[u8; CHECKSUM]>,
    done: usize,
}

impl Shards {
    pub(super) fn new(count: usize, length: usize) -> Self {
        Self { count, length, sums: Vec::with_capacity(count), done: 0 }
    }

    /// Sums up some more of the symbols; returns how many bytes that were, or nothing when all have their sums.
    pub(super) fn sum_up<'a>(&mut self, symbol: impl Fn(usize) -> &'a [u8]) -> Option<usize> {
        let from = self.sums.len();
        let more = (STEP / self.length).max(1).min(self.count - from);
        self.sums.extend((from..from + more).map(|at| checksum(symbol(at), self.length - CHECKSUM)));
        (more > 0).then_some(more * self.length)
    }

    /// The next slice of all shards to work on.
    pub(super) fn next_slice(&mut self) -> Option<Range<usize>> {
        let width = (STEP / self.count / UNIT).max(1) * UNIT;
        let slice = self.done..(self.done + width).min(self.length);
        self.done = slice.end;
        (!slice.is_empty()).then_some(slice)
    }

    /// Writes a slice of the shard that a symbol, which fits, becomes.
    pub(super) fn copy(&self, at: usize, symbol: &[u8], slice: &Range<usize>, out: &mut [u8]) {
        // Slices end behind the checksum: they begin with it or well after it.
        let head = if slice.start == 0 { CHECKSUM } else { 0 };
        let (sum, body) = out.split_at_mut(head);
        sum.copy_from_slice(&self.sums[at][..head]);
        let symbol = symbol.get(slice.start + head - CHECKSUM..).unwrap_or_default();
        let kept = symbol.len().min(body.len());
        body[..kept].copy_from_slice(&symbol[..kept]);
        body[kept..].fill(0);
    }
}

/// The length of a symbol of `length` bytes in the form that is encoded.
fn shard_length(length: usize) -> usize {
    (CHECKSUM + length).next_multiple_of(2)
}

/// The checksum of a symbol that zeros extend to `length` bytes.
pub(super) fn checksum(symbol: &[u8], length: usize) -> [u8; CHECKSUM] {
    let words = symbol.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    let zeros = length.div_ceil(8) - symbol.len().div_ceil(8);
    let sum = words.chain(std::iter::repeat_n(0, zeros)).fold(length as u64, |sum, word| units::mix(sum ^ word));
    (sum as u32).to_le_bytes()
}

/// A block's recovery symbols.
#[cfg(test)]
pub(super) fn encode<'a>(block: BlockShape, symbols: impl Iterator<Item = &'a Symbol>) -> Vec<RepairSymbol> {
    let mut encoding = Encoding::new(block, symbols.cloned().collect()).expect("symbols");
    while encoding.step().is_some() {}
    encoding.finish()
}
