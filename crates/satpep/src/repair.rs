//! Repair ahead of loss: erasure-coded datagrams in capacity that would idle, so that a loss at the end of a transfer
//! costs a few packet times and not a round trip.
//!
//! When a sender runs out of data, it makes blocks of the datagrams that are under way and not yet covered. Each
//! datagram's stream frames, in one canonical form, are one symbol; the block's recovery symbols (Reed-Solomon over
//! GF(2^16)) travel in datagrams of their own. A receiver that misses no more datagrams of a block than it has recovery
//! symbols for restores their stream frames at once. Acknowledgements still name what was lost: repair replaces the
//! wait for a retransmission, not the record of losses, which sizes the next block.

use crate::payload::Payload;
use crate::wire::frame::{Frame, Reader, Writer};
use reed_solomon_simd::{ReedSolomonDecoder, ReedSolomonEncoder};
use std::collections::VecDeque;
use std::marker::PhantomData;

/// The most datagrams in one block: larger transfers make several.
pub(crate) const MAX_BLOCK: usize = 512;
/// The most recovery symbols of one block.
const MAX_RECOVERY: usize = 128;
/// What a datagram of data leaves free, so that its symbol fits into a repair datagram: the length that the canonical
/// form spells out, the checksum, the repair frame's head, and evenness.
pub(crate) const HEADROOM: usize = 2 + CHECKSUM + (1 + 4 + 2 + 2 + 2) + 1;
/// Bytes of the checksum that begins every symbol: should the two sides ever disagree on a datagram's symbol, what
/// decoding then gives is noticed and not delivered.
const CHECKSUM: usize = 4;

/// A datagram's stream frames in canonical form, or what was coded of such or decoded. Where bytes were left out of the
/// frames, the code works on what is there; what is not counts with every length.
#[derive(Debug, Clone, PartialEq, Eq)]
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

/// A recovery symbol to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RepairSymbol {
    /// The block: numbers of the datagrams that it covers, and how many recovery symbols there are.
    pub(crate) first: u64,
    pub(crate) count: usize,
    pub(crate) recovery: usize,
    /// Which of them this is.
    pub(crate) index: usize,
    pub(crate) symbol: Symbol,
}

impl RepairSymbol {
    /// Whether a symbol that a peer sent can belong to a block at all.
    pub(crate) fn is_sound(&self) -> bool {
        let length = self.symbol.bytes.len();
        let block = (1..=MAX_BLOCK).contains(&self.count) && (1..=MAX_RECOVERY).contains(&self.recovery);
        block && self.index < self.recovery && length > CHECKSUM && length.is_multiple_of(2)
    }
}

/// The measured probability that a datagram is lost.
#[derive(Debug, Clone)]
pub(crate) struct LossEstimate {
    settled: f64,
    lost: f64,
}

impl LossEstimate {
    /// Datagrams that the estimate remembers.
    const MEMORY: f64 = 4096.0;

    /// A first guess of one in a hundred, worth a hundred datagrams.
    pub(crate) fn new() -> Self {
        Self { settled: 100.0, lost: 1.0 }
    }

    pub(crate) fn settle(&mut self, delivered: bool) {
        self.settled += 1.0;
        self.lost += f64::from(u8::from(!delivered));
        if self.settled > Self::MEMORY {
            self.settled /= 2.0;
            self.lost /= 2.0;
        }
    }

    /// The least number of recovery symbols with which a block of `count` datagrams fails less than once in 200, if
    /// losses are independent: the tail of the Poisson distribution.
    pub(crate) fn recovery_for(&self, count: usize) -> usize {
        const MAY_FAIL: f64 = 0.005;
        (1..MAX_RECOVERY)
            .find(|recovery| {
                let mean = (self.lost / self.settled) * (count + recovery) as f64;
                let mut term = (-mean).exp();
                let mut within = term;
                for losses in 1..=*recovery {
                    term *= mean / losses as f64;
                    within += term;
                }
                1.0 - within < MAY_FAIL
            })
            .unwrap_or(MAX_RECOVERY)
    }
}

/// Recovery symbols for a block of symbols, which are padded to one length.
pub(crate) fn encode(first: u64, symbols: &[Symbol], recovery: usize) -> Vec<RepairSymbol> {
    let count = symbols.len();
    let longest = symbols.iter().map(|symbol| symbol.bytes.len()).max().unwrap_or(0);
    if longest == 0 {
        return Vec::new();
    }
    let length = shard_length(longest);
    let elided = shard_length(symbols.iter().map(Symbol::len).max().unwrap_or(0)) - length;
    let Ok(mut encoder) = ReedSolomonEncoder::new(count, recovery, length) else { return Vec::new() };
    let mut shard = vec![0; length];
    for symbol in symbols {
        fill_shard(&mut shard, &symbol.bytes);
        if encoder.add_original_shard(&shard).is_err() {
            return Vec::new();
        }
    }
    let Ok(encoded) = encoder.encode() else { return Vec::new() };
    let symbols = encoded.recovery_iter().enumerate();
    let symbols = symbols.map(|(index, data)| (index, Symbol { bytes: data.to_vec(), elided }));
    symbols.map(|(index, symbol)| RepairSymbol { first, count, recovery, index, symbol }).collect()
}

/// The length of a symbol of `length` bytes in the form that is encoded.
fn shard_length(length: usize) -> usize {
    (CHECKSUM + length).next_multiple_of(2)
}

/// Puts a symbol into the form that is encoded: checksum, symbol, zeros (which read as padding).
fn fill_shard(shard: &mut [u8], symbol: &[u8]) {
    let body = &mut shard[CHECKSUM..];
    body[..symbol.len()].copy_from_slice(symbol);
    body[symbol.len()..].fill(0);
    let checksum = checksum(body);
    shard[..CHECKSUM].copy_from_slice(&checksum);
}

fn checksum(body: &[u8]) -> [u8; CHECKSUM] {
    let words = body.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    let sum = words.fold(body.len() as u64, |sum, word| units::mix(sum ^ word));
    (sum as u32).to_le_bytes()
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

/// The receiver's memory of recent datagrams, and of blocks that miss some.
pub(crate) struct Restorer<P> {
    /// Number of the first entry.
    first: u64,
    symbols: VecDeque<Option<Symbol>>,
    bytes: usize,
    max_bytes: usize,
    blocks: VecDeque<Block>,
    /// Space to write a symbol in, whose length is known only then.
    scratch: Vec<u8>,
    payload: PhantomData<P>,
}

struct Block {
    first: u64,
    count: usize,
    recovery: usize,
    /// Of each symbol, what is there and what was left out.
    length: usize,
    elided: usize,
    parts: Vec<(usize, Vec<u8>)>,
    done: bool,
}

impl<P: Payload> Restorer<P> {
    /// Blocks remembered at once.
    const MAX_BLOCKS: usize = 64;
    /// Datagrams remembered at most, however small they are.
    const MAX_SYMBOLS: usize = 1 << 15;

    /// A memory of `max_bytes` of datagrams.
    pub(crate) fn new(max_bytes: u64) -> Self {
        let max_bytes = usize::try_from(max_bytes).unwrap_or(usize::MAX);
        Self {
            first: 0,
            symbols: VecDeque::new(),
            bytes: 0,
            max_bytes,
            blocks: VecDeque::new(),
            scratch: Vec::new(),
            payload: PhantomData,
        }
    }

    /// Remembers the stream frames of a datagram that arrived.
    pub(crate) fn remember(&mut self, number: u64, frames: &[u8], elided: usize) {
        let symbol = canonical::<P>(frames, elided, &mut self.scratch);
        if self.symbols.is_empty() {
            self.first = number;
        }
        let Some(at) = number.checked_sub(self.first) else { return };
        // A peer that skips numbers makes us forget, not grow.
        if at as usize >= Self::MAX_SYMBOLS + self.symbols.len() {
            self.symbols.clear();
            self.bytes = 0;
            self.first = number;
        }
        let at = (number - self.first) as usize;
        if self.symbols.len() <= at {
            self.symbols.resize_with(at + 1, || None);
        }
        self.bytes += symbol.len();
        self.symbols[at] = Some(symbol);
        while self.bytes > self.max_bytes || self.symbols.len() > Self::MAX_SYMBOLS {
            let Some(oldest) = self.symbols.pop_front() else { break };
            self.bytes -= oldest.map_or(0, |symbol| symbol.len());
            self.first += 1;
        }
    }

    fn symbol(&self, number: u64) -> Option<&Symbol> {
        self.symbols.get(usize::try_from(number.checked_sub(self.first)?).ok()?)?.as_ref()
    }

    /// Takes a recovery symbol; returns the symbols of lost datagrams that can be restored with it.
    pub(crate) fn on_repair(&mut self, symbol: RepairSymbol) -> Vec<Symbol> {
        let RepairSymbol { first, count, recovery, index, symbol: Symbol { bytes, elided } } = symbol;
        let wanted = |block: &Block| {
            (block.first, block.count, block.recovery, block.length, block.elided)
                == (first, count, recovery, bytes.len(), elided)
        };
        let at = match self.blocks.iter().position(wanted) {
            Some(at) => at,
            None => {
                if self.blocks.len() >= Self::MAX_BLOCKS {
                    self.blocks.pop_front();
                }
                let (length, parts) = (bytes.len(), Vec::new());
                self.blocks.push_back(Block { first, count, recovery, length, elided, parts, done: false });
                self.blocks.len() - 1
            }
        };
        let missing = (first..first + count as u64).filter(|number| self.symbol(*number).is_none()).count();
        let block = &mut self.blocks[at];
        if block.done || block.parts.iter().any(|(known, _)| *known == index) {
            return Vec::new();
        }
        block.parts.push((index, bytes));
        if missing > block.parts.len() {
            return Vec::new();
        }
        block.done = true;
        let parts = std::mem::take(&mut block.parts);
        if missing == 0 { Vec::new() } else { self.decode(&self.blocks[at], &parts).unwrap_or_default() }
    }

    fn decode(&self, block: &Block, parts: &[(usize, Vec<u8>)]) -> Result<Vec<Symbol>, reed_solomon_simd::Error> {
        let mut decoder = ReedSolomonDecoder::new(block.count, block.recovery, block.length)?;
        let mut shard = vec![0; block.length];
        for at in 0..block.count {
            // A symbol longer than the block's is not the one that the sender encoded.
            let fits = |symbol: &&Symbol| CHECKSUM + symbol.bytes.len() <= block.length;
            if let Some(symbol) = self.symbol(block.first + at as u64).filter(fits) {
                fill_shard(&mut shard, &symbol.bytes);
                decoder.add_original_shard(at, &shard)?;
            }
        }
        for (index, data) in parts {
            decoder.add_recovery_shard(*index, data)?;
        }
        let decoded = decoder.decode()?;
        let restored = decoded.restored_original_iter().map(|(_, shard)| shard.split_at(CHECKSUM));
        let sound = restored.filter(|(sum, body)| *sum == checksum(body));
        // Of a symbol alone it is not known how much was left out: at most all of the longest.
        let elided = if block.elided == 0 { 0 } else { block.length + block.elided };
        Ok(sound.map(|(_, body)| Symbol { bytes: body.to_vec(), elided }).collect())
    }
}

/// The stream frames among `frames`, each with its length spelt out.
fn canonical<P: Payload>(frames: &[u8], elided: usize, scratch: &mut Vec<u8>) -> Symbol {
    symbol(frames.len() + elided + HEADROOM, scratch, |writer| {
        let mut reader = Reader::<P>::with_elided(frames, elided);
        while let Ok(Some(frame)) = reader.next() {
            if let Frame::Stream { stream, offset, data, elided, fin } = frame
                && let Some(space) = writer.stream_with_length::<P>(stream, offset, data.len() + elided, fin)
            {
                space.copy_from_slice(data);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::Stored;
    use proptest::prelude::*;

    fn datagram(number: u64) -> Vec<u8> {
        let data: Vec<u8> = (0..50 + number * 37 % 900).map(|at| (at * 7 + number) as u8).collect();
        let symbol = symbol(1400, &mut Vec::new(), |writer| {
            let fin = number.is_multiple_of(5);
            writer.stream::<Stored>(number % 3, number * 1000, data.len(), fin).copy_from_slice(&data)
        });
        symbol.bytes
    }

    proptest! {
        #[test]
        fn as_many_losses_as_recovery_symbols_are_restored(
            count in 1usize..120, recovery in 1usize..20, seed in any::<u64>()
        ) {
            let random = units::CounterRandom::new(seed, 0);
            let symbols: Vec<_> = (0..count as u64).map(|number| canonical::<Stored>(&datagram(number), 0, &mut Vec::new())).collect();
            let mut order: Vec<u64> = (0..(count + recovery) as u64).collect();
            order.sort_by_key(|packet| random.at(*packet));
            let lost = &order[..recovery];
            let mut restorer = Restorer::<Stored>::new(1 << 20);
            let arrived = (0..count as u64).filter(|number| !lost.contains(number));
            arrived.for_each(|number| restorer.remember(number, &datagram(number), 0));
            let repairs = encode(0, &symbols, recovery);
            prop_assert_eq!(repairs.len(), recovery);
            let arrived = repairs.into_iter().filter(|repair| !lost.contains(&(count as u64 + repair.index as u64)));
            let restored: Vec<_> = arrived.flat_map(|repair| restorer.on_repair(repair)).collect();
            let expected: Vec<_> = (0..count).filter(|number| lost.contains(&(*number as u64))).collect();
            prop_assert_eq!(restored.len(), expected.len());
            for (symbol, number) in restored.iter().map(|symbol| &symbol.bytes).zip(expected) {
                prop_assert_eq!(&symbol[..symbols[number].bytes.len()], &symbols[number].bytes[..]);
                prop_assert!(symbol[symbols[number].bytes.len()..].iter().all(|byte| *byte == 0));
            }
        }
    }

    #[test]
    fn blocks_are_sized_by_the_measured_loss() {
        let mut estimate = LossEstimate::new();
        let cold = estimate.recovery_for(275);
        assert!((7..=10).contains(&cold), "{cold}");
        (0..4000).for_each(|_| estimate.settle(true));
        let clean = estimate.recovery_for(275);
        assert!((1..=2).contains(&clean), "{clean}");
        (0..12_000).for_each(|k| estimate.settle(k % 50 != 0));
        let lossy = estimate.recovery_for(275);
        assert!((11..=16).contains(&lossy), "{lossy}");
    }

    #[test]
    fn a_disagreement_on_a_symbol_is_noticed() {
        let symbols: Vec<_> =
            (0..10).map(|number| canonical::<Stored>(&datagram(number), 0, &mut Vec::new())).collect();
        let mut restorer = Restorer::<Stored>::new(1 << 20);
        (1..9).for_each(|number| restorer.remember(number, &datagram(number), 0));
        restorer.remember(9, &datagram(8), 0);
        let restored: Vec<_> =
            encode(0, &symbols, 1).into_iter().flat_map(|repair| restorer.on_repair(repair)).collect();
        assert!(restored.is_empty());
    }

    #[test]
    fn memory_is_bounded_whatever_the_numbers() {
        let mut restorer = Restorer::<Stored>::new(100_000);
        for number in (0..200_000).chain([1 << 40, (1 << 40) + 3, 5]) {
            restorer.remember(number, &datagram(number % 16), 0);
            assert!(restorer.bytes <= 100_000 && restorer.symbols.len() <= Restorer::<Stored>::MAX_SYMBOLS);
        }
    }
}
