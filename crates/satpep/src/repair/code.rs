//! The erasure code: a block's symbols, brought into one form, and the repair symbols that are made of them.
//!
//! The code treats every 64 bytes of the symbols by themselves. So a block is coded slice by slice, each across all of its
//! symbols: no step takes longer than a small block does.

use super::symbol::{CHECKSUM, RepairSymbol, SourceBlock, SourceSymbol};
use reed_solomon_simd::ReedSolomonEncoder;
use std::ops::Range;

/// Bytes that one step takes up at most, of all symbols together.
const STEP: usize = 512 << 10;
/// What is coded apart from the rest is a multiple of so many bytes of a symbol.
const UNIT: usize = 64;

/// The coding of one block in steps.
pub(crate) struct Encoding {
    block: SourceBlock,
    symbols: Vec<SourceSymbol>,
    elided: usize,
    padded: PaddedSymbols,
    code: Option<ReedSolomonEncoder>,
    /// The repair symbols as far as they are made.
    repair_symbols: Vec<Vec<u8>>,
    slice: Vec<u8>,
}

impl Encoding {
    /// Begins a block of these symbols, which are padded to one length; `None` if there is nothing in them to code.
    pub(crate) fn new(block: SourceBlock, symbols: Vec<SourceSymbol>) -> Option<Self> {
        let longest = symbols.iter().map(|symbol| symbol.bytes.len()).max().filter(|longest| *longest > 0)?;
        let length = padded_length(longest);
        let elided = padded_length(symbols.iter().map(SourceSymbol::len).max()?) - length;
        let repair_symbols = vec![Vec::with_capacity(length); block.repair_symbols];
        let padded = PaddedSymbols::new(block.count, length);
        Some(Self { block, symbols, elided, padded, code: None, repair_symbols, slice: Vec::new() })
    }

    /// Codes some more; returns how many bytes it took up, or nothing when the block is done or cannot be coded.
    pub(crate) fn step(&mut self) -> Option<usize> {
        let Self { symbols, padded, .. } = self;
        if let Some(taken) = padded.sum_up(|at| symbols.get(at).map_or(&[], |symbol| &symbol.bytes)) {
            return Some(taken);
        }
        let slice = self.padded.next_slice()?;
        let coded = self.code_slice(&slice);
        coded.map(|()| self.block.count * slice.len())
    }

    fn code_slice(&mut self, slice: &Range<usize>) -> Option<()> {
        let SourceBlock { count, repair_symbols, .. } = self.block;
        let code = match self.code.take() {
            Some(mut code) => code.reset(count, repair_symbols, slice.len()).map(|()| code),
            None => ReedSolomonEncoder::new(count, repair_symbols, slice.len()),
        };
        let mut code = code.ok()?;
        self.slice.resize(slice.len(), 0);
        for (at, symbol) in self.symbols.iter().enumerate() {
            self.padded.copy(at, &symbol.bytes, slice, &mut self.slice);
            code.add_original_shard(&self.slice).ok()?;
        }
        let encoded = code.encode().ok()?;
        self.repair_symbols
            .iter_mut()
            .zip(encoded.recovery_iter())
            .for_each(|(symbol, data)| symbol.extend_from_slice(data));
        drop(encoded);
        self.code = Some(code);
        Some(())
    }

    /// The repair symbols of a block that is done; none of one that could not be coded.
    pub(crate) fn finish(self) -> Vec<RepairSymbol> {
        let Self { block, elided, padded, repair_symbols, .. } = self;
        let whole = repair_symbols.into_iter().filter(|symbol| symbol.len() == padded.length).enumerate();
        whole.map(|(index, bytes)| RepairSymbol { block, index, bytes, elided }).collect()
    }
}

/// The symbols that symbols of a block become, each of checksum, symbol, and zeros (which read as padding), and how far
/// they have been gone through.
pub(super) struct PaddedSymbols {
    count: usize,
    pub(super) length: usize,
    sums: Vec<[u8; CHECKSUM]>,
    done: usize,
}

impl PaddedSymbols {
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

    /// The next slice of all symbols to work on.
    pub(super) fn next_slice(&mut self) -> Option<Range<usize>> {
        let width = (STEP / self.count / UNIT).max(1) * UNIT;
        let slice = self.done..(self.done + width).min(self.length);
        self.done = slice.end;
        (!slice.is_empty()).then_some(slice)
    }

    /// Writes a slice of the symbol that a symbol, which fits, becomes.
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
fn padded_length(length: usize) -> usize {
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

/// A block's repair symbols.
#[cfg(test)]
pub(super) fn encode<'a>(block: SourceBlock, symbols: impl Iterator<Item = &'a SourceSymbol>) -> Vec<RepairSymbol> {
    let mut encoding = Encoding::new(block, symbols.cloned().collect()).expect("symbols");
    while encoding.step().is_some() {}
    encoding.finish()
}
