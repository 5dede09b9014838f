//! The erasure code: a block's symbols, brought into one form, and the recovery symbols that are made of them.

use super::{BlockShape, RepairSymbol, Symbol};
use reed_solomon_simd::ReedSolomonEncoder;

/// Bytes of the checksum that begins every shard: should the two sides ever disagree on a datagram's symbol, what
/// decoding then gives is noticed and not delivered.
pub(super) const CHECKSUM: usize = 4;

/// Recovery symbols for a block of symbols, which are padded to one length.
pub(crate) fn encode<'a>(block: BlockShape, symbols: impl Iterator<Item = &'a Symbol> + Clone) -> Vec<RepairSymbol> {
    let encoded = Encoder::new(block, symbols.clone()).and_then(|mut encoder| {
        symbols.into_iter().try_for_each(|symbol| encoder.add(symbol))?;
        encoder.finish()
    });
    encoded.unwrap_or_default()
}

/// The coding of one block, a symbol at a time.
pub(crate) struct Encoder {
    block: BlockShape,
    elided: usize,
    code: ReedSolomonEncoder,
    /// Space to bring a symbol into the form that is encoded.
    shard: Vec<u8>,
}

impl Encoder {
    /// Begins a block of these symbols; `None` if there is nothing in them to code.
    pub(crate) fn new<'a>(block: BlockShape, symbols: impl Iterator<Item = &'a Symbol> + Clone) -> Option<Self> {
        let longest = symbols.clone().map(|symbol| symbol.bytes.len()).max().filter(|longest| *longest > 0)?;
        let length = shard_length(longest);
        let elided = shard_length(symbols.map(Symbol::len).max()?) - length;
        let code = ReedSolomonEncoder::new(block.count, block.recovery, length).ok()?;
        Some(Self { block, elided, code, shard: vec![0; length] })
    }

    /// Adds the next symbol; `None` if the block has all of its own.
    pub(crate) fn add(&mut self, symbol: &Symbol) -> Option<()> {
        fill_shard(&mut self.shard, &symbol.bytes);
        self.code.add_original_shard(&self.shard).ok()
    }

    /// The block's recovery symbols; `None` if symbols are missing.
    pub(crate) fn finish(mut self) -> Option<Vec<RepairSymbol>> {
        let (block, elided) = (self.block, self.elided);
        let encoded = self.code.encode().ok()?;
        let symbols = encoded.recovery_iter().enumerate();
        let symbols = symbols.map(|(index, data)| (index, Symbol { bytes: data.to_vec(), elided }));
        Some(symbols.map(|(index, symbol)| RepairSymbol { block, index, symbol }).collect())
    }
}

/// The length of a symbol of `length` bytes in the form that is encoded.
fn shard_length(length: usize) -> usize {
    (CHECKSUM + length).next_multiple_of(2)
}

/// Puts a symbol into the form that is encoded: checksum, symbol, zeros (which read as padding).
pub(super) fn fill_shard(shard: &mut [u8], symbol: &[u8]) {
    let body = &mut shard[CHECKSUM..];
    body[..symbol.len()].copy_from_slice(symbol);
    body[symbol.len()..].fill(0);
    let checksum = checksum(body);
    shard[..CHECKSUM].copy_from_slice(&checksum);
}

pub(super) fn checksum(body: &[u8]) -> [u8; CHECKSUM] {
    let words = body.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    let sum = words.fold(body.len() as u64, |sum, word| units::mix(sum ^ word));
    (sum as u32).to_le_bytes()
}
