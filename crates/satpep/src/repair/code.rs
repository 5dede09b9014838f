//! The erasure code: the repair symbols of a block, made while its symbols are written one after the other.
//!
//! The code is that of reed-solomon-simd: Reed-Solomon over GF(2^16) by the transforms of Lin, Al-Naffouri, Han and Chung (IEEE
//! Transactions on Information Theory 62(11), 2016). The library's encoder keeps all symbols of a block. But the transforms take as
//! many symbols at once as there are repair symbols, and add up: so a chunk of symbols and the sum of the transformed ones is all
//! that is kept, which a processor's cache holds.

use super::lanes;
use super::symbol::{CHECKSUM, RepairSymbol, SourceBlock, SymbolLength};
use crate::wire::frame::Writer;
use erasure::{CodeEngine, UNIT};
use reed_solomon_simd::engine::{Engine, ShardsRefMut};

/// The coding of one block of a sender.
pub(crate) struct Encoding {
    block: SourceBlock,
    elided: usize,
    /// Nothing of symbols that are all empty.
    code: Option<BlockCode>,
}

impl Encoding {
    /// Begins a block of symbols of which none is longer than `longest`.
    pub(crate) fn new(block: SourceBlock, longest: SymbolLength) -> Self {
        let length = padded_length(longest.kept);
        let elided = padded_length(longest.total()) - length;
        let code = (longest.kept > 0).then(|| BlockCode::new(block.count, block.repair_symbols, length));
        Self { block, elided, code }
    }

    /// Takes in the next symbol, which `write` writes; returns how many bytes were worked on.
    pub(crate) fn add(&mut self, write: impl FnOnce(&mut Writer<'_>)) -> usize {
        self.code.as_mut().map_or(0, |code| {
            code.add(|space| {
                let mut writer = Writer::of_symbol(space);
                write(&mut writer);
                writer.len() - writer.elided()
            })
        })
    }

    /// The repair symbols, once all symbols are there.
    pub(crate) fn finish(self) -> Vec<RepairSymbol> {
        let Self { block, elided, code } = self;
        let symbol = |coded: &Coded, index| RepairSymbol { block, index, bytes: coded.bytes(index), elided };
        let coded = code.map(BlockCode::finish);
        coded.map_or(Vec::new(), |coded| (0..block.repair_symbols).map(|index| symbol(&coded, index)).collect())
    }
}

/// A block whose symbols are taken in.
pub(super) struct BlockCode {
    engine: CodeEngine,
    count: usize,
    repair_symbols: usize,
    /// Bytes of a symbol with its checksum.
    length: usize,
    order: Order,
    /// Symbols that are transformed together.
    chunk: usize,
    /// Those of the chunk that is being written, each in whole units.
    symbols: Vec<[u8; UNIT]>,
    /// The sum of the transformed chunks.
    sum: Vec<[u8; UNIT]>,
    taken_in: usize,
    /// Places in the chunk of symbols whose checksums are not made yet.
    unsummed: Vec<usize>,
}

/// Which way the transforms go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Chunks of symbols, as long as the repair symbols are many, become one chunk of repair symbols.
    ManyToOne,
    /// One chunk of all symbols becomes as many chunks of repair symbols as there have to be.
    OneToMany,
}

impl Order {
    /// The one that the library has chosen for these numbers, on which both sides have to agree.
    fn of(count: usize, repair_symbols: usize) -> Self {
        let (whole, repair) = (count.next_power_of_two(), repair_symbols.next_power_of_two());
        if whole > repair || (whole == repair && count <= repair_symbols) { Self::ManyToOne } else { Self::OneToMany }
    }
}

impl BlockCode {
    /// Checksums that are made at once: one waits for its multiplications most of the time.
    const AT_ONCE: usize = 4;

    /// Begins a block of `count` symbols of `length` bytes, an even number, checksum included.
    pub(super) fn new(count: usize, repair_symbols: usize, length: usize) -> Self {
        let order = Order::of(count, repair_symbols);
        let chunk = match order {
            Order::ManyToOne => repair_symbols,
            Order::OneToMany => count,
        };
        let chunk = chunk.next_power_of_two();
        let symbols = vec![[0; UNIT]; chunk * lanes::units(length)];
        let (sum, unsummed) = (Vec::new(), Vec::new());
        let engine = CodeEngine::new();
        Self { engine, count, repair_symbols, length, order, chunk, symbols, sum, taken_in: 0, unsummed }
    }

    /// Whether all symbols are there.
    pub(super) fn is_full(&self) -> bool {
        self.taken_in == self.count
    }

    /// The place in the block of the next symbol.
    pub(super) fn next(&self) -> usize {
        self.taken_in
    }

    /// Takes in the next symbol, without checksum: `write` returns how many bytes it wrote, and zeros follow. Returns how many
    /// bytes were worked on.
    pub(super) fn add(&mut self, write: impl FnOnce(&mut [u8]) -> usize) -> usize {
        let at = self.taken_in % self.chunk;
        let length = self.length;
        let space = self.symbol(at).as_flattened_mut();
        let written = write(&mut space[CHECKSUM..length]);
        space[CHECKSUM + written..].fill(0);
        self.unsummed.push(at);
        self.advance()
    }

    /// Takes zeros for the next symbol, and for its checksum.
    pub(super) fn add_zeros(&mut self) -> usize {
        self.symbol(self.taken_in % self.chunk).fill([0; UNIT]);
        self.advance()
    }

    fn symbol(&mut self, at: usize) -> &mut [[u8; UNIT]] {
        let units = lanes::units(self.length);
        &mut self.symbols[at * units..(at + 1) * units]
    }

    fn advance(&mut self) -> usize {
        self.taken_in += 1;
        let ends_chunk = self.taken_in.is_multiple_of(self.chunk) || self.is_full();
        if ends_chunk {
            self.transform();
        }
        self.length * if ends_chunk { 1 + self.chunk } else { 1 }
    }

    /// Adds the chunk, as far as it is filled, to the sum.
    fn transform(&mut self) {
        let start = (self.taken_in - 1) / self.chunk * self.chunk;
        let filled = self.taken_in - start;
        let units = lanes::units(self.length);
        self.sum_up();
        for at in 0..filled {
            let length = self.length;
            lanes::spread(self.symbol(at), length);
        }
        self.symbols[filled * units..].fill([0; UNIT]);
        let skew = match self.order {
            Order::ManyToOne => start + self.chunk,
            Order::OneToMany => 0,
        };
        let mut shards = ShardsRefMut::new(self.chunk, units, &mut self.symbols);
        self.engine.ifft(&mut shards, 0, self.chunk, filled, skew);
        if self.sum.is_empty() {
            let next = if self.is_full() { Vec::new() } else { vec![[0; UNIT]; self.symbols.len()] };
            self.sum = std::mem::replace(&mut self.symbols, next);
        } else {
            erasure::add(&mut self.sum, &self.symbols);
        }
    }

    /// Makes the checksums of the chunk's symbols.
    fn sum_up(&mut self) {
        let (length, units) = (self.length, lanes::units(self.length));
        let body = |at: usize| at * units * UNIT + CHECKSUM..at * units * UNIT + length;
        let unsummed = std::mem::take(&mut self.unsummed);
        let (groups, rest) = unsummed.as_chunks::<{ Self::AT_ONCE }>();
        for group in groups {
            let bytes = self.symbols.as_flattened();
            let sums = checksums(group.map(|at| &bytes[body(at)]));
            group.iter().zip(sums).for_each(|(at, sum)| self.put_sum(*at, sum));
        }
        for at in rest {
            let sum = checksum(&self.symbols.as_flattened()[body(*at)]);
            self.put_sum(*at, sum);
        }
    }

    fn put_sum(&mut self, at: usize, sum: [u8; CHECKSUM]) {
        self.symbol(at).as_flattened_mut()[..CHECKSUM].copy_from_slice(&sum);
    }

    /// The repair symbols of a block whose symbols are all there.
    pub(super) fn finish(self) -> Coded {
        let Self { engine, repair_symbols, length, order, chunk, mut sum, .. } = self;
        let units = lanes::units(length);
        let fft = |data: &mut [[u8; UNIT]], count, skew| {
            engine.fft(&mut ShardsRefMut::new(chunk, units, data), 0, chunk, count, skew);
        };
        match order {
            Order::ManyToOne => fft(&mut sum, repair_symbols, 0),
            Order::OneToMany => {
                let transformed = std::mem::take(&mut sum);
                for start in (0..repair_symbols).step_by(chunk) {
                    let from = sum.len();
                    sum.extend_from_slice(&transformed);
                    fft(&mut sum[from..], chunk.min(repair_symbols - start), start + chunk);
                }
            }
        }
        Coded { length, symbols: sum }
    }
}

/// A block's repair symbols in the engine's form.
pub(super) struct Coded {
    length: usize,
    symbols: Vec<[u8; UNIT]>,
}

impl Coded {
    /// One of them.
    pub(super) fn lanes(&self, index: usize) -> &[[u8; UNIT]] {
        let units = lanes::units(self.length);
        &self.symbols[index * units..(index + 1) * units]
    }

    fn bytes(&self, index: usize) -> Vec<u8> {
        lanes::gathered(self.lanes(index), self.length)
    }
}

/// The length of a symbol of `length` bytes in the form that is encoded: checksum, symbol, and zeros (which read as padding).
fn padded_length(length: usize) -> usize {
    (CHECKSUM + length).next_multiple_of(2)
}

/// The checksum of a symbol with its padding.
pub(super) fn checksum(symbol: &[u8]) -> [u8; CHECKSUM] {
    let [sum] = checksums([symbol]);
    sum
}

/// The checksums of some symbols of one length.
fn checksums<const N: usize>(symbols: [&[u8]; N]) -> [[u8; CHECKSUM]; N] {
    let length = symbols.first().map_or(0, |symbol| symbol.len());
    let mut sums = [length as u64; N];
    let count = length / 8;
    let words = symbols.map(|symbol| &symbol.as_chunks::<8>().0[..count]);
    for at in 0..count {
        for (sum, words) in sums.iter_mut().zip(&words) {
            *sum = units::mix(*sum ^ u64::from_le_bytes(words[at]));
        }
    }
    let rest = length % 8;
    if rest > 0 {
        for (sum, symbol) in sums.iter_mut().zip(&symbols) {
            let mut word = [0; 8];
            word[..rest].copy_from_slice(&symbol[length - rest..]);
            *sum = units::mix(*sum ^ u64::from_le_bytes(word));
        }
    }
    sums.map(|sum| (sum as u32).to_le_bytes())
}

/// A block's repair symbols.
#[cfg(test)]
pub(super) fn encode(block: SourceBlock, symbols: &[Vec<u8>]) -> Vec<RepairSymbol> {
    let kept = symbols.iter().map(Vec::len).max().expect("symbols");
    let mut encoding = Encoding::new(block, SymbolLength { kept, elided: 0 });
    for symbol in symbols {
        encoding.add(|writer| writer.bytes(symbol));
    }
    encoding.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet_number::PacketNumber;
    use proptest::prelude::*;
    use reed_solomon_simd::ReedSolomonEncoder;

    proptest! {
        /// Every byte is what the library's own encoder gives.
        #[test]
        fn the_code_is_the_librarys(
            (count, repair_symbols) in prop_oneof![(1usize..300, 1usize..40), (1usize..70, 1usize..257), (500usize..1025, 1usize..257)],
            longest in 1usize..200,
            seed in any::<u64>(),
        ) {
            let random = units::CounterRandom::new(seed, 0);
            let symbols: Vec<Vec<u8>> = (0..count).map(|at| {
                let length = if at == 0 { longest } else { random.at(at as u64) as usize % (longest + 1) };
                (0..length).map(|byte| random.at((at * 1000 + byte) as u64) as u8).collect()
            }).collect();
            let length = padded_length(longest);
            let mut library = ReedSolomonEncoder::new(count, repair_symbols, length).expect("a block");
            for symbol in &symbols {
                let mut padded = vec![0; length];
                padded[CHECKSUM..][..symbol.len()].copy_from_slice(symbol);
                let sum = checksum(&padded[CHECKSUM..]);
                padded[..CHECKSUM].copy_from_slice(&sum);
                library.add_original_shard(&padded).expect("room");
            }
            let block = SourceBlock { first: PacketNumber::ZERO, count, stride: 1, repair_symbols };
            let ours: Vec<_> = encode(block, &symbols).into_iter().map(|symbol| symbol.bytes).collect();
            let theirs: Vec<_> = library.encode().expect("all").recovery_iter().map(<[u8]>::to_vec).collect();
            prop_assert_eq!(ours, theirs);
        }
    }

    #[test]
    fn a_block_of_empty_symbols_has_nothing_to_repair() {
        let block = SourceBlock { first: PacketNumber::ZERO, count: 3, stride: 1, repair_symbols: 2 };
        assert!(encode(block, &[Vec::new(), Vec::new(), Vec::new()]).is_empty());
    }
}
