//! The receiver's side: what arrived, what is missing, and when it can be recovered.

use super::code::{PaddedSymbols, checksum};
use super::decode::Decoding;
use super::symbol::{
    CHECKSUM, HEADROOM, MAX_REPAIR_SYMBOLS, MAX_SOURCE_SYMBOLS, MAX_STRIDE, RepairSymbol, SourceBlock, SourceSymbol,
    source_symbol,
};
use crate::packet_number::PacketNumber;
use crate::payload::Payload;
use crate::wire::frame::{Frame, Reader};
use std::collections::VecDeque;
use std::marker::PhantomData;
use units::Instant;

/// The receiver's memory of recent packets, and of blocks that miss some.
pub(crate) struct Decoder<P> {
    /// Number of the first entry.
    first: PacketNumber,
    symbols: VecDeque<Option<Remembered>>,
    /// Space of forgotten packets, for others.
    spare: Vec<Vec<u8>>,
    bytes: usize,
    max_bytes: usize,
    blocks: VecDeque<Block>,
    /// Blocks that are being decoded, one after the other.
    jobs: VecDeque<Job>,
    /// Since when there have been such blocks.
    working_since: Option<Instant>,
    /// How many symbols may still be decoded: what arrives earns some, so that a peer cannot ask for endless work.
    credit: usize,
    /// Space to write a symbol in, whose length is known only then.
    scratch: Vec<u8>,
    payload: PhantomData<P>,
}

/// What is remembered of a packet. Most packets belong to no block that misses some: their symbols are made when a repair symbol asks
/// for them.
enum Remembered {
    /// Its frames as they came, and how many bytes were left out of them.
    Frames(Vec<u8>, usize),
    Symbol(SourceSymbol),
}

impl Remembered {
    fn len(&self) -> usize {
        match self {
            Remembered::Frames(frames, elided) => frames.len() + elided,
            Remembered::Symbol(symbol) => symbol.len(),
        }
    }

    fn into_bytes(self) -> Vec<u8> {
        match self {
            Remembered::Frames(bytes, _) | Remembered::Symbol(SourceSymbol { bytes, .. }) => bytes,
        }
    }
}

struct Block {
    shape: SourceBlock,
    /// Of each symbol, what is there and what was left out.
    length: usize,
    elided: usize,
    parts: Vec<(usize, Vec<u8>)>,
    done: bool,
}

/// The decoding of one block in steps.
struct Job {
    shape: SourceBlock,
    elided: usize,
    parts: Vec<(usize, Vec<u8>)>,
    /// Places of the missing symbols, in order.
    missing: Vec<usize>,
    decoding: Option<Decoding>,
    padded: PaddedSymbols,
    /// The missing symbols as far as they are recovered.
    recovered: Vec<Vec<u8>>,
}

impl<P: Payload> Decoder<P> {
    /// Blocks remembered at once.
    pub(super) const MAX_BLOCKS: usize = 64;
    /// Packets remembered at most, however small they are: as many as the blocks of one flight can span.
    pub(super) const MAX_SYMBOLS: usize = (MAX_STRIDE + 1) * MAX_SOURCE_SYMBOLS;
    /// Symbols that may be decoded for each packet that arrives: enough where one in two is lost.
    const EARNED: usize = 2;
    /// The most that may be saved up: for blocks of all that is remembered, twice over.
    const MAX_CREDIT: usize = 2 * Self::MAX_SYMBOLS;
    /// Space of so many forgotten packets is kept.
    const MAX_SPARE: usize = 64;

    /// A memory of `max_bytes` of packets.
    pub(crate) fn new(max_bytes: u64) -> Self {
        let max_bytes = usize::try_from(max_bytes).unwrap_or(usize::MAX);
        Self {
            first: PacketNumber::ZERO,
            symbols: VecDeque::new(),
            spare: Vec::new(),
            bytes: 0,
            max_bytes,
            blocks: VecDeque::new(),
            jobs: VecDeque::new(),
            working_since: None,
            credit: Self::MAX_CREDIT,
            scratch: Vec::new(),
            payload: PhantomData,
        }
    }

    /// Up to `max_bytes` of packets are remembered from now on, if that is more than before.
    pub(crate) fn grow(&mut self, max_bytes: u64) {
        self.max_bytes = self.max_bytes.max(usize::try_from(max_bytes).unwrap_or(usize::MAX));
    }

    /// Remembers the frames of a packet that arrived; `has_data` says whether there are stream frames among them.
    pub(crate) fn remember(&mut self, number: PacketNumber, frames: &[u8], elided: usize, has_data: bool) {
        self.credit = (self.credit + Self::EARNED).min(Self::MAX_CREDIT);
        if !has_data {
            return self.keep(number, Remembered::Symbol(SourceSymbol::default()));
        }
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(frames);
        self.keep(number, Remembered::Frames(bytes, elided));
    }

    fn keep(&mut self, number: PacketNumber, packet: Remembered) {
        if self.symbols.is_empty() {
            self.first = number;
        }
        let Some(at) = number.checked_since(self.first) else { return };
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
        self.bytes += packet.len();
        let before = self.symbols[at].replace(packet);
        self.forget(before);
        while self.bytes > self.max_bytes || self.symbols.len() > Self::MAX_SYMBOLS {
            let Some(oldest) = self.symbols.pop_front() else { break };
            self.forget(oldest);
            self.first = self.first.next();
        }
    }

    fn forget(&mut self, packet: Option<Remembered>) {
        let Some(packet) = packet else { return };
        self.bytes -= packet.len();
        let space = packet.into_bytes();
        if space.capacity() > 0 && self.spare.len() < Self::MAX_SPARE {
            self.spare.push(space);
        }
    }

    /// The place of a packet that is remembered, or that was missed since the oldest of those.
    fn place(&self, number: PacketNumber) -> Option<usize> {
        usize::try_from(number.checked_since(self.first)?).ok()
    }

    fn symbol(&self, number: PacketNumber) -> Option<&SourceSymbol> {
        match self.symbols.get(self.place(number)?)?.as_ref()? {
            Remembered::Symbol(symbol) => Some(symbol),
            Remembered::Frames(..) => None,
        }
    }

    /// Makes the symbols of a block's packets that are remembered.
    fn make_symbols(&mut self, shape: &SourceBlock) {
        for at in 0..shape.count {
            let Some(place) = self.place(shape.number(at)) else { continue };
            let Some(Some(packet)) = self.symbols.get_mut(place) else { continue };
            if let Remembered::Frames(frames, elided) = packet {
                let symbol = canonical::<P>(frames, *elided, &mut self.scratch);
                self.bytes = self.bytes + symbol.len() - packet.len();
                *packet = Remembered::Symbol(symbol);
            }
        }
    }

    /// Takes a repair symbol. If lost packets can be recovered with it, there is work to do.
    pub(crate) fn on_repair(&mut self, now: Instant, symbol: RepairSymbol) {
        let RepairSymbol { block: shape, index, bytes, elided } = symbol;
        let wanted = |block: &Block| (block.shape, block.length, block.elided) == (shape, bytes.len(), elided);
        let at = match self.blocks.iter().position(wanted) {
            Some(at) => at,
            None => {
                if self.blocks.len() >= Self::MAX_BLOCKS {
                    self.blocks.pop_front();
                }
                let (length, parts) = (bytes.len(), Vec::new());
                self.blocks.push_back(Block { shape, length, elided, parts, done: false });
                self.blocks.len() - 1
            }
        };
        let block = &self.blocks[at];
        if block.done || block.parts.iter().any(|(known, _)| *known == index) {
            return;
        }
        let length = block.length;
        self.make_symbols(&shape);
        let missing = (0..shape.count).filter(|at| self.fitting(shape.number(*at), length).is_none());
        let missing: Vec<_> = missing.take(MAX_REPAIR_SYMBOLS + 1).collect();
        let block = &mut self.blocks[at];
        block.parts.push((index, bytes));
        if missing.len() > block.parts.len() {
            return;
        }
        block.done = true;
        let parts = std::mem::take(&mut block.parts);
        let work = shape.count + shape.repair_symbols;
        if missing.is_empty() || work > self.credit || self.jobs.len() >= Self::MAX_BLOCKS {
            return;
        }
        self.credit -= work;
        let recovered = vec![Vec::with_capacity(length); missing.len()];
        let padded = PaddedSymbols::new(shape.count, length);
        self.working_since.get_or_insert(now);
        self.jobs.push_back(Job { shape, elided, parts, missing, decoding: None, padded, recovered });
    }

    /// Since when there has been decoding to do, if there is some.
    pub(crate) fn working_since(&self) -> Option<Instant> {
        self.working_since
    }

    /// Whether there is decoding to do.
    pub(crate) fn is_working(&self) -> bool {
        !self.jobs.is_empty()
    }

    /// Decodes as much as takes about as long as to encode `budget` bytes; returns the numbers and symbols of lost
    /// packets that are recovered.
    pub(crate) fn work(&mut self, budget: usize) -> Vec<(PacketNumber, SourceSymbol)> {
        let mut taken = 0;
        let mut all = Vec::new();
        while taken < budget
            && let Some(mut job) = self.jobs.pop_front()
        {
            match self.step(&mut job) {
                Some(more) => {
                    taken += more;
                    self.jobs.push_front(job);
                }
                None => all.extend(job.finish()),
            }
        }
        if self.jobs.is_empty() {
            self.working_since = None;
        }
        for (number, symbol) in &all {
            // Without its padding it serves blocks of shorter symbols as well.
            let length = symbol.bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            let bytes = symbol.bytes[..length].to_vec();
            self.keep(*number, Remembered::Symbol(SourceSymbol { bytes, elided: 0 }));
        }
        all
    }

    /// Takes the decoding of a block a step further; returns how much work that was, or nothing when it is done. What
    /// has been forgotten meanwhile makes the recovered symbols fail their checksums.
    fn step(&self, job: &mut Job) -> Option<usize> {
        let Job { shape, parts, missing, decoding, padded, recovered, .. } = job;
        let length = padded.length;
        let symbol = |at: usize| self.fitting(shape.number(at), length).map_or(&[][..], |symbol| &symbol.bytes);
        if let Some(taken) = padded.sum_up(symbol) {
            return Some(taken);
        }
        let Some(decoding) = decoding else {
            let indices: Vec<_> = parts.iter().map(|(index, _)| *index).collect();
            *decoding = Some(Decoding::new(*shape, missing.clone(), &indices).ok()?);
            return Some(Decoding::cost_to_begin(*shape, missing.len()));
        };
        let slice = padded.next_slice()?;
        let repair_symbols: Vec<_> = parts.iter().map(|(index, symbol)| (*index, &symbol[slice.clone()])).collect();
        let fill = |at: usize, out: &mut [u8]| padded.copy(at, symbol(at), &slice, out);
        let pieces = decoding.recover(slice.len(), fill, &repair_symbols).ok()?;
        recovered.iter_mut().zip(pieces).for_each(|(symbol, piece)| symbol.extend(piece));
        Some(decoding.cost(slice.len()))
    }

    /// A symbol that is there and no longer than symbols of `length` bytes: a longer one is not the one that the sender
    /// encoded.
    fn fitting(&self, number: PacketNumber, length: usize) -> Option<&SourceSymbol> {
        self.symbol(number).filter(|symbol| CHECKSUM + symbol.bytes.len() <= length)
    }
}

impl Job {
    /// The numbers and symbols of the packets that were recovered as their checksums say.
    fn finish(self) -> impl Iterator<Item = (PacketNumber, SourceSymbol)> {
        let Self { shape, elided, missing, padded, recovered, .. } = self;
        // Of a symbol alone it is not known how much was left out: at most all of the longest.
        let elided = if elided == 0 { 0 } else { padded.length + elided };
        let numbers = missing.into_iter().map(move |at| shape.number(at));
        let whole = numbers.zip(recovered).filter(move |(_, symbol)| symbol.len() == padded.length);
        whole.filter_map(move |(number, symbol)| {
            let (sum, body) = symbol.split_at(CHECKSUM);
            (*sum == checksum(body, body.len())).then(|| (number, SourceSymbol { bytes: body.to_vec(), elided }))
        })
    }
}

/// The stream frames among `frames`, each with its length spelt out.
fn canonical<P: Payload>(frames: &[u8], elided: usize, scratch: &mut Vec<u8>) -> SourceSymbol {
    source_symbol(frames.len() + elided + HEADROOM, scratch, |writer| {
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
    use crate::repair::WORK_STEP;
    use crate::repair::code::encode;
    use crate::stream::{StreamNumber, StreamOffset};
    use proptest::prelude::*;

    fn packet(number: u64) -> Vec<u8> {
        let data: Vec<u8> = (0..50 + number * 37 % 900).map(|at| (at * 7 + number) as u8).collect();
        let symbol = source_symbol(1400, &mut Vec::new(), |writer| {
            let fin = number.is_multiple_of(5);
            writer
                .stream::<Stored>(StreamNumber::new(number % 3), StreamOffset::new(number * 1000), data.len(), fin)
                .copy_from_slice(&data)
        });
        symbol.bytes
    }

    /// Takes a repair symbol and does what work it makes.
    fn take_in(decoder: &mut Decoder<Stored>, symbol: RepairSymbol) -> Vec<(PacketNumber, SourceSymbol)> {
        decoder.on_repair(Instant::ZERO, symbol);
        let mut recovered = Vec::new();
        while decoder.is_working() {
            recovered.extend(decoder.work(WORK_STEP));
        }
        recovered
    }

    proptest! {
        #[test]
        fn as_many_losses_as_repair_symbols_are_recovered(
            count in 1usize..120, repair_symbols in 1usize..20, stride in 1usize..4, seed in any::<u64>()
        ) {
            let random = units::CounterRandom::new(seed, 0);
            let block = SourceBlock { first: PacketNumber::new(3), count, stride, repair_symbols };
            let numbers: Vec<_> = (0..count).map(|at| block.number(at)).collect();
            prop_assert_eq!(numbers.last(), Some(&block.last()));
            let symbol_of = |number: &PacketNumber| canonical::<Stored>(&packet(number.get()), 0, &mut Vec::new());
            let symbols: Vec<_> = numbers.iter().map(symbol_of).collect();
            let mut order: Vec<_> = (0..count + repair_symbols).collect();
            order.sort_by_key(|packet| random.at(*packet as u64));
            let is_lost = |packet: usize| order[..repair_symbols].contains(&packet);
            let mut decoder = Decoder::<Stored>::new(1 << 20);
            let arrived = numbers.iter().enumerate().filter(|(at, _)| !is_lost(*at));
            arrived.for_each(|(_, number)| decoder.remember(*number, &packet(number.get()), 0, true));
            let repairs = encode(block, symbols.iter());
            prop_assert_eq!(repairs.len(), repair_symbols);
            let arrived = repairs.into_iter().filter(|repair| !is_lost(count + repair.index));
            let recovered: Vec<_> = arrived.flat_map(|repair| take_in(&mut decoder, repair)).collect();
            let expected: Vec<_> = (0..count).filter(|at| is_lost(*at)).collect();
            prop_assert_eq!(recovered.len(), expected.len());
            for ((number, symbol), at) in recovered.iter().zip(expected) {
                prop_assert_eq!(*number, numbers[at]);
                let (known, padding) = symbol.bytes.split_at(symbols[at].bytes.len());
                prop_assert_eq!(known, &symbols[at].bytes[..]);
                prop_assert!(padding.iter().all(|byte| *byte == 0));
            }
        }
    }

    #[test]
    fn a_peer_cannot_ask_for_endless_decoding() {
        let symbols = vec![canonical::<Stored>(&packet(0), 0, &mut Vec::new()); MAX_SOURCE_SYMBOLS];
        let mut decoder = Decoder::<Stored>::new(1 << 24);
        let mut decoded = 0;
        for block in 0..20 {
            let first = block * 2000;
            (1..MAX_SOURCE_SYMBOLS as u64)
                .for_each(|at| decoder.remember(PacketNumber::new(first + at), &packet(0), 0, true));
            // One block could be decoded with the first symbol of any of these.
            for repair_symbols in 1..=20 {
                let shape = SourceBlock {
                    first: PacketNumber::new(first),
                    count: MAX_SOURCE_SYMBOLS,
                    stride: 1,
                    repair_symbols,
                };
                let symbol = encode(shape, symbols.iter()).swap_remove(0);
                decoded += usize::from(!take_in(&mut decoder, symbol).is_empty());
            }
        }
        let saved = Decoder::<Stored>::MAX_CREDIT / MAX_SOURCE_SYMBOLS;
        assert!((20..saved + 2 * 20).contains(&decoded), "{decoded} of 400");
    }

    #[test]
    fn a_block_that_spans_a_flight_on_a_fast_link_is_decoded() {
        // 1 Gbit/s over 600 ms, and the first packet of the flight is lost.
        let (in_flight, stride) = (51_000, 50);
        let mut decoder = Decoder::<Stored>::new(1 << 24);
        (1..in_flight).for_each(|number| decoder.remember(PacketNumber::new(number), &packet(0), 0, true));
        let count = (in_flight / stride) as usize;
        let shape = SourceBlock { first: PacketNumber::ZERO, count, stride: stride as usize, repair_symbols: 1 };
        let symbols = vec![canonical::<Stored>(&packet(0), 0, &mut Vec::new()); count];
        let recovered = take_in(&mut decoder, encode(shape, symbols.iter()).swap_remove(0));
        assert_eq!(recovered.len(), 1);
    }

    #[test]
    fn a_disagreement_on_a_symbol_is_noticed() {
        let symbols: Vec<_> = (0..10).map(|number| canonical::<Stored>(&packet(number), 0, &mut Vec::new())).collect();
        let mut decoder = Decoder::<Stored>::new(1 << 20);
        (1..9).for_each(|number| decoder.remember(PacketNumber::new(number), &packet(number), 0, true));
        decoder.remember(PacketNumber::new(9), &packet(8), 0, true);
        let block = SourceBlock { first: PacketNumber::new(0), count: 10, stride: 1, repair_symbols: 1 };
        let recovered: Vec<_> =
            encode(block, symbols.iter()).into_iter().flat_map(|repair| take_in(&mut decoder, repair)).collect();
        assert!(recovered.is_empty());
    }

    #[test]
    fn memory_is_bounded_whatever_the_numbers() {
        let mut decoder = Decoder::<Stored>::new(100_000);
        for number in (0..200_000).chain([1 << 40, (1 << 40) + 3, 5]) {
            decoder.remember(PacketNumber::new(number), &packet(number % 16), 0, true);
            assert!(decoder.bytes <= 100_000 && decoder.symbols.len() <= Decoder::<Stored>::MAX_SYMBOLS);
        }
    }
}
