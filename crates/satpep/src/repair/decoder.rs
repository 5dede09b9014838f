//! The receiver's side: what arrived, what is missing, and when it can be recovered.

use super::decode::Decoding;
use super::symbol::{CHECKSUM, MAX_SOURCE_SYMBOLS, MAX_STRIDE, RecoveredSymbol, RepairSymbol, SourceBlock};
use crate::packet_number::PacketNumber;
use crate::payload::Payload;
use crate::repair::PER_SYMBOL;
use crate::stream::{StreamNumber, StreamOffset};
use crate::wire::frame::{Frame, Reader, Writer, stream_with_length_size};
use std::collections::VecDeque;
use std::marker::PhantomData;
use units::{Duration, Instant};

/// The receiver's memory of recent packets, and of blocks that miss some.
pub(crate) struct Decoder<P> {
    /// Number of the first entry.
    first: PacketNumber,
    symbols: VecDeque<Option<Remembered>>,
    /// Space of forgotten packets, for others.
    spare: Vec<Vec<u8>>,
    /// Bytes of the packets, and of their entries and those of missing ones.
    bytes: usize,
    max_bytes: usize,
    /// When each of the latest round trips ended, and the first packet after it.
    rounds: VecDeque<(Instant, PacketNumber)>,
    /// No block needs packets below any more.
    outdated_to: PacketNumber,
    /// How many numbers may be skipped until more packets arrive: each takes an entry.
    skips: usize,
    blocks: VecDeque<Block>,
    /// Blocks that are being decoded, one after the other.
    jobs: VecDeque<Job>,
    /// Since when there have been such blocks.
    working_since: Option<Instant>,
    /// How many symbols may still be decoded: what arrives earns some, so that a peer cannot ask for endless work.
    credit: usize,
    payload: PhantomData<P>,
}

/// What is remembered of a packet: its frames as they came, or its symbol, recovered.
struct Remembered {
    bytes: Vec<u8>,
    /// How many bytes were left out.
    elided: usize,
    is_symbol: bool,
    /// The length of the symbol, once a block has asked for it: most packets belong to no block that misses some.
    symbol_length: Option<usize>,
}

impl Remembered {
    fn symbol(bytes: Vec<u8>) -> Self {
        Self { symbol_length: Some(bytes.len()), bytes, elided: 0, is_symbol: true }
    }

    fn len(&self) -> usize {
        self.bytes.len() + self.elided
    }

    /// Bytes of its symbol that are not left out.
    fn symbol_length<P: Payload>(&mut self) -> usize {
        let Self { bytes, elided, symbol_length, .. } = self;
        *symbol_length.get_or_insert_with(|| {
            let sizes = stream_frames::<P>(bytes, *elided).map(|frame| frame.size::<P>());
            sizes.sum()
        })
    }

    /// Writes its symbol; returns how many bytes that took.
    fn write<P: Payload>(&self, out: &mut [u8]) -> usize {
        let mut writer = Writer::of_symbol(out);
        if self.is_symbol {
            writer.bytes(&self.bytes);
        } else {
            stream_frames::<P>(&self.bytes, self.elided).for_each(|frame| frame.write::<P>(&mut writer));
        }
        writer.len() - writer.elided()
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

/// A block that is being decoded.
struct Job {
    shape: SourceBlock,
    length: usize,
    elided: usize,
    parts: Vec<(usize, Vec<u8>)>,
    /// Places of the missing symbols, in order, until decoding begins.
    missing: Vec<usize>,
    decoding: Option<Decoding>,
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
    /// Numbers that may be skipped for each packet that arrives: a sender that skips them time and again costs little.
    const SKIPS_EARNED: usize = 64;
    /// Bytes of an entry, without the packet's.
    const ENTRY: usize = size_of::<Option<Remembered>>();
    /// Space of so many forgotten packets is kept.
    const MAX_SPARE: usize = 64;
    /// It serves packets of which it is at most so many times the length, or the length of packets of so many bytes.
    const MOST_SPACE: usize = 4;
    const LEAST_SPACE: usize = 64;
    /// Packets are needed for so many round trips of this length at least: the symbols of a block leave while its last packet is in flight,
    /// and its first one was when they were made.
    const ROUNDS: usize = 4;
    const ROUND: Duration = Duration::from_millis(500);
    /// Outdated packets that are forgotten for each packet that arrives: their space serves those that come.
    const FORGOTTEN: usize = 2;

    /// A memory of `max_bytes` of packets.
    pub(crate) fn new(max_bytes: u64) -> Self {
        let max_bytes = usize::try_from(max_bytes).unwrap_or(usize::MAX);
        Self {
            first: PacketNumber::ZERO,
            symbols: VecDeque::new(),
            spare: Vec::new(),
            bytes: 0,
            max_bytes,
            rounds: VecDeque::new(),
            outdated_to: PacketNumber::ZERO,
            skips: Self::MAX_SYMBOLS,
            blocks: VecDeque::new(),
            jobs: VecDeque::new(),
            working_since: None,
            credit: Self::MAX_CREDIT,
            payload: PhantomData,
        }
    }

    /// Up to `max_bytes` of packets are remembered from now on, if that is more than before.
    pub(crate) fn grow(&mut self, max_bytes: u64) {
        self.max_bytes = self.max_bytes.max(usize::try_from(max_bytes).unwrap_or(usize::MAX));
    }

    /// A round trip has ended: packets of some round trips ago are outdated.
    pub(crate) fn on_round(&mut self, now: Instant) {
        if self.rounds.back().is_some_and(|(ended, _)| now < *ended + Self::ROUND) {
            return;
        }
        self.rounds.push_back((now, self.first + self.symbols.len() as u64));
        if self.rounds.len() > Self::ROUNDS
            && let Some((_, first)) = self.rounds.pop_front()
        {
            self.outdated_to = first;
        }
    }

    /// Gives memory of what is outdated back to the allocator.
    pub(crate) fn trim(&mut self) {
        self.forget_outdated(usize::MAX);
        let outdated_to = self.outdated_to;
        self.blocks.retain(|block| block.shape.last() >= outdated_to);
        if self.symbols.capacity() > 4 * self.symbols.len().max(Self::MAX_SPARE) {
            self.symbols.shrink_to(2 * self.symbols.len());
        }
    }

    /// Gives all memory back to the allocator, and gives up what is being decoded: nothing has arrived for long, so that no block of what
    /// has is still on its way, or nothing will arrive any more.
    pub(crate) fn clear(&mut self) {
        self.first += self.symbols.len() as u64;
        (self.symbols, self.bytes) = (VecDeque::new(), 0);
        (self.spare, self.blocks) = (Vec::new(), VecDeque::new());
        (self.jobs, self.working_since) = (VecDeque::new(), None);
        self.rounds.clear();
    }

    /// Bytes of memory in use.
    pub(crate) fn memory(&self) -> u64 {
        let spare: usize = self.spare.iter().map(Vec::capacity).sum();
        let parts =
            self.blocks.iter().flat_map(|block| &block.parts).chain(self.jobs.iter().flat_map(|job| &job.parts));
        (self.bytes + spare + parts.map(|(_, part)| part.len()).sum::<usize>()) as u64
    }

    /// Remembers the frames of a packet that arrived; `has_data` says whether there are stream frames among them.
    pub(crate) fn remember(&mut self, number: PacketNumber, frames: &[u8], elided: usize, has_data: bool) {
        self.credit = (self.credit + Self::EARNED).min(Self::MAX_CREDIT);
        if !has_data {
            return self.keep(number, Remembered::symbol(Vec::new()));
        }
        // The length is what counts: space that is much longer would be memory that nothing counts.
        let most = Self::MOST_SPACE * frames.len().max(Self::LEAST_SPACE);
        let mut bytes = self.spare.pop().filter(|space| space.capacity() <= most).unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(frames);
        self.keep(number, Remembered { bytes, elided, is_symbol: false, symbol_length: None });
    }

    fn keep(&mut self, number: PacketNumber, packet: Remembered) {
        self.forget_outdated(Self::FORGOTTEN);
        if self.symbols.is_empty() {
            self.first = number;
        }
        let Some(at) = number.checked_since(self.first) else { return };
        self.skips = (self.skips + Self::SKIPS_EARNED).min(Self::MAX_SYMBOLS);
        let skipped = usize::try_from(at).unwrap_or(usize::MAX).saturating_sub(self.symbols.len());
        // A peer that skips numbers makes us forget, not grow, nor work.
        if skipped > self.skips || skipped > self.max_bytes / Self::ENTRY {
            self.symbols.clear();
            self.bytes = 0;
            self.first = number;
        } else {
            self.skips -= skipped;
        }
        let at = (number - self.first) as usize;
        let added = (at + 1).saturating_sub(self.symbols.len());
        // Before entries are added, so that there are never more than are needed.
        self.forget_oldest(self.symbols.len().saturating_add(added).saturating_sub(Self::MAX_SYMBOLS));
        let Some(at) = self.place(number) else { return };
        if self.symbols.len() <= at {
            self.bytes += (at + 1 - self.symbols.len()) * Self::ENTRY;
            self.symbols.resize_with(at + 1, || None);
        }
        self.bytes += packet.len();
        let before = self.symbols[at].replace(packet);
        self.forget(before);
        while self.bytes > self.max_bytes && !self.symbols.is_empty() {
            self.forget_oldest(1);
        }
    }

    /// Forgets the oldest entries, as many as there are of `count`.
    fn forget_oldest(&mut self, count: usize) {
        for _ in 0..count {
            if let Some(oldest) = self.symbols.pop_front() {
                self.bytes -= Self::ENTRY;
                self.forget(oldest);
            }
            self.first = self.first.next();
        }
    }

    /// Forgets up to `most` packets that are outdated.
    fn forget_outdated(&mut self, most: usize) {
        let count = self.outdated_to.saturating_since(self.first).min(self.symbols.len() as u64);
        self.forget_oldest((count as usize).min(most));
    }

    fn forget(&mut self, packet: Option<Remembered>) {
        let Some(packet) = packet else { return };
        self.bytes -= packet.len();
        let space = packet.bytes;
        if space.capacity() > 0 && self.spare.len() < Self::MAX_SPARE {
            self.spare.push(space);
        }
    }

    /// The place of a packet that is remembered, or that was missed since the oldest of those.
    fn place(&self, number: PacketNumber) -> Option<usize> {
        usize::try_from(number.checked_since(self.first)?).ok()
    }

    fn remembered(&self, number: PacketNumber) -> Option<&Remembered> {
        self.symbols.get(self.place(number)?)?.as_ref()
    }

    /// Whether a packet is there whose symbol is no longer than symbols of `length` bytes: a longer one is not the one that the
    /// sender encoded.
    fn fits(&mut self, number: PacketNumber, length: usize) -> bool {
        let place = self.place(number);
        let packet = place.and_then(|place| self.symbols.get_mut(place)).and_then(Option::as_mut);
        packet.is_some_and(|packet| CHECKSUM + packet.symbol_length::<P>() <= length)
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
        let block = &mut self.blocks[at];
        block.parts.push((index, bytes));
        let most = block.parts.len();
        let absent = (0..shape.count).filter(|at| self.remembered(shape.number(*at)).is_none());
        if absent.take(most + 1).count() > most {
            return;
        }
        let missing = (0..shape.count).filter(|at| !self.fits(shape.number(*at), length));
        let missing: Vec<_> = missing.take(most + 1).collect();
        if missing.len() > most {
            return;
        }
        let block = &mut self.blocks[at];
        block.done = true;
        let parts = std::mem::take(&mut block.parts);
        let work = shape.count + shape.repair_symbols;
        if missing.is_empty() || work > self.credit || self.jobs.len() >= Self::MAX_BLOCKS {
            return;
        }
        self.credit -= work;
        self.working_since.get_or_insert(now);
        self.jobs.push_back(Job { shape, length, elided, parts, missing, decoding: None });
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
    pub(crate) fn work(&mut self, budget: usize) -> Vec<(PacketNumber, RecoveredSymbol)> {
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
            self.keep(*number, Remembered::symbol(symbol.bytes[..length].to_vec()));
        }
        all
    }

    /// Takes the decoding of a block a step further; returns how much work that was, or nothing when it is done. What
    /// has been forgotten meanwhile makes the recovered symbols fail their checksums.
    fn step(&self, job: &mut Job) -> Option<usize> {
        let Job { shape, length, parts, missing, decoding, .. } = job;
        let Some(decoding) = decoding else {
            let cost = Decoding::cost_to_begin(*shape, missing.len());
            *decoding = Some(Decoding::new(*shape, *length, std::mem::take(missing), parts).ok()?);
            return Some(cost);
        };
        let write =
            |at: usize, out: &mut [u8]| self.remembered(shape.number(at)).map_or(0, |packet| packet.write::<P>(out));
        decoding.step(write, parts).ok()?.map(|work| work + PER_SYMBOL)
    }
}

impl Job {
    /// The numbers and symbols of the packets that were recovered as their checksums say.
    fn finish(self) -> impl Iterator<Item = (PacketNumber, RecoveredSymbol)> {
        let Self { shape, length, elided, decoding, .. } = self;
        // Of a symbol alone it is not known how much was left out: at most all of the longest.
        let elided = if elided == 0 { 0 } else { length + elided };
        decoding.into_iter().flat_map(Decoding::finish).map(move |(at, symbol)| {
            let bytes = symbol[CHECKSUM..].to_vec();
            (shape.number(at), RecoveredSymbol { bytes, elided })
        })
    }
}

/// A stream frame among those of a packet.
struct StreamFrame<'a> {
    stream: StreamNumber,
    offset: StreamOffset,
    data: &'a [u8],
    elided: usize,
    fin: bool,
}

impl StreamFrame<'_> {
    /// Bytes of its canonical form, in which the length is spelt out, that are not left out.
    fn size<P: Payload>(&self) -> usize {
        stream_with_length_size::<P>(self.stream, self.offset, self.data.len() + self.elided).kept
    }

    fn write<P: Payload>(&self, writer: &mut Writer<'_>) {
        let length = self.data.len() + self.elided;
        if let Some(space) = writer.stream_with_length::<P>(self.stream, self.offset, length, self.fin) {
            space.copy_from_slice(self.data);
        }
    }
}

/// The stream frames among `frames`, of which `elided` bytes were left out.
fn stream_frames<P: Payload>(frames: &[u8], elided: usize) -> impl Iterator<Item = StreamFrame<'_>> {
    let mut reader = Reader::<P>::with_elided(frames, elided);
    std::iter::from_fn(move || {
        loop {
            match reader.next() {
                Ok(Some(Frame::Stream { stream, offset, data, elided, fin })) => {
                    return Some(StreamFrame { stream, offset, data, elided, fin });
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return None,
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
    use crate::wire::frame::Writer;
    use proptest::prelude::*;

    fn packet(number: u64) -> Vec<u8> {
        let data: Vec<u8> = (0..50 + number * 37 % 900).map(|at| (at * 7 + number) as u8).collect();
        let mut space = vec![0; 1400];
        let mut writer = Writer::new(&mut space);
        let (stream, offset) = (StreamNumber::new(number % 3), StreamOffset::new(number * 1000));
        writer.stream::<Stored>(stream, offset, data.len(), number.is_multiple_of(5)).copy_from_slice(&data);
        let length = writer.len();
        space.truncate(length);
        space
    }

    /// Its symbol.
    fn canonical(packet: &[u8]) -> Vec<u8> {
        let mut space = vec![0; 1500];
        let mut writer = Writer::of_symbol(&mut space);
        stream_frames::<Stored>(packet, 0).for_each(|frame| frame.write::<Stored>(&mut writer));
        let length = writer.len();
        space.truncate(length);
        space
    }

    /// Takes a repair symbol and does what work it makes.
    fn take_in(decoder: &mut Decoder<Stored>, symbol: RepairSymbol) -> Vec<(PacketNumber, RecoveredSymbol)> {
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
            let symbols: Vec<_> = numbers.iter().map(|number| canonical(&packet(number.get()))).collect();
            let mut order: Vec<_> = (0..count + repair_symbols).collect();
            order.sort_by_key(|packet| random.at(*packet as u64));
            let is_lost = |packet: usize| order[..repair_symbols].contains(&packet);
            let mut decoder = Decoder::<Stored>::new(1 << 20);
            let arrived = numbers.iter().enumerate().filter(|(at, _)| !is_lost(*at));
            arrived.for_each(|(_, number)| decoder.remember(*number, &packet(number.get()), 0, true));
            let repairs = encode(block, &symbols);
            prop_assert_eq!(repairs.len(), repair_symbols);
            let arrived = repairs.into_iter().filter(|repair| !is_lost(count + repair.index));
            let recovered: Vec<_> = arrived.flat_map(|repair| take_in(&mut decoder, repair)).collect();
            let expected: Vec<_> = (0..count).filter(|at| is_lost(*at)).collect();
            prop_assert_eq!(recovered.len(), expected.len());
            for ((number, symbol), at) in recovered.iter().zip(expected) {
                prop_assert_eq!(*number, numbers[at]);
                let (known, padding) = symbol.bytes.split_at(symbols[at].len());
                prop_assert_eq!(known, &symbols[at][..]);
                prop_assert!(padding.iter().all(|byte| *byte == 0));
            }
        }
    }

    #[test]
    fn a_peer_cannot_ask_for_endless_decoding() {
        let symbols = vec![canonical(&packet(0)); MAX_SOURCE_SYMBOLS];
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
                let symbol = encode(shape, &symbols).swap_remove(0);
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
        let symbols = vec![canonical(&packet(0)); count];
        let recovered = take_in(&mut decoder, encode(shape, &symbols).swap_remove(0));
        assert_eq!(recovered.len(), 1);
    }

    #[test]
    fn a_disagreement_on_a_symbol_is_noticed() {
        let symbols: Vec<_> = (0..10).map(|number| canonical(&packet(number))).collect();
        let mut decoder = Decoder::<Stored>::new(1 << 20);
        (1..9).for_each(|number| decoder.remember(PacketNumber::new(number), &packet(number), 0, true));
        decoder.remember(PacketNumber::new(9), &packet(8), 0, true);
        let block = SourceBlock { first: PacketNumber::new(0), count: 10, stride: 1, repair_symbols: 1 };
        let recovered: Vec<_> =
            encode(block, &symbols).into_iter().flat_map(|repair| take_in(&mut decoder, repair)).collect();
        assert!(recovered.is_empty());
    }

    #[test]
    fn packets_without_data_take_no_more_memory_than_others() {
        let mut decoder = Decoder::<Stored>::new(900_000);
        (0..200_000).for_each(|number| decoder.remember(PacketNumber::new(number), &[], 0, false));
        let memory = decoder.symbols.capacity() * Decoder::<Stored>::ENTRY;
        assert!(decoder.symbols.len() > 10_000 && memory <= 2_000_000, "{memory}");
    }

    #[test]
    fn packets_are_forgotten_some_round_trips_after_they_came() {
        let mut decoder = Decoder::<Stored>::new(100 << 20);
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let mut most = 0;
        for number in 0..20_000 {
            decoder.remember(PacketNumber::new(number), &packet(1), 0, true);
            if number % 600 == 0 {
                decoder.on_round(at(number));
            }
            most = most.max(decoder.symbols.len());
        }
        assert!((4 * 600..=6 * 600).contains(&most), "{most} packets of 600 ms each");
        decoder.clear();
        assert_eq!(decoder.memory(), 0);
        // A trickle behind many packets, and short round trips.
        (20_000..40_000).for_each(|number| decoder.remember(PacketNumber::new(number), &packet(1), 0, true));
        for number in 40_000..40_250 {
            decoder.remember(PacketNumber::new(number), &packet(1), 0, true);
            decoder.on_round(at(10 * number));
        }
        assert!(decoder.symbols.len() > 10_000, "{} of them are forgotten at once", decoder.symbols.len());
        decoder.trim();
        assert!((200..=250).contains(&decoder.symbols.len()), "{} packets within two seconds", decoder.symbols.len());
        assert!(decoder.symbols.capacity() < 1000 && decoder.memory() < 400_000, "{}", decoder.memory());
    }

    #[test]
    fn packets_that_come_when_they_are_outdated_are_passed_over() {
        for late in 0..2 {
            let mut decoder = Decoder::<Stored>::new(1 << 20);
            for round in 0..6 {
                decoder.remember(PacketNumber::new(100 * round), &packet(1), 0, true);
                decoder.on_round(Instant::from_nanos(round * 600_000_000));
            }
            let late = decoder.first + late;
            decoder.remember(late, &packet(1), 0, true);
            assert!(decoder.first > late && decoder.remembered(late).is_none());
            assert!(decoder.remembered(PacketNumber::new(500)).is_some(), "a newer packet stays");
        }
    }

    #[test]
    fn blocks_of_outdated_packets_are_forgotten() {
        let mut decoder = Decoder::<Stored>::new(1 << 20);
        let shape = |first| SourceBlock { first: PacketNumber::new(first), count: 10, stride: 1, repair_symbols: 1 };
        for first in [0, 100] {
            let symbol = encode(shape(first), &vec![canonical(&packet(1)); 10]).swap_remove(0);
            assert!(take_in(&mut decoder, symbol).is_empty(), "all of the block are missing");
        }
        for round in 0..6 {
            decoder.remember(PacketNumber::new(20 * round), &packet(1), 0, true);
            decoder.on_round(Instant::from_nanos(round * 600_000_000));
        }
        let before = decoder.memory();
        decoder.trim();
        assert_eq!(decoder.blocks.iter().map(|block| block.shape).collect::<Vec<_>>(), [shape(100)]);
        assert!(decoder.memory() < before);
    }

    /// A step takes an entry for each number that is skipped.
    #[test]
    fn to_skip_numbers_again_and_again_costs_little() {
        let mut decoder = Decoder::<Stored>::new(100 << 20);
        let mut entries = 0;
        for step in 0..1000 {
            decoder.remember(PacketNumber::new(step * 65_000), &[1], 0, false);
            entries += decoder.symbols.len();
        }
        assert!(entries < 300_000, "{entries}");
    }

    #[test]
    fn memory_is_bounded_whatever_the_numbers() {
        let mut decoder = Decoder::<Stored>::new(100_000);
        for number in (0..200_000).chain([1 << 40, (1 << 40) + 3, 5]) {
            decoder.remember(PacketNumber::new(number), &packet(number % 16), 0, true);
            assert!(decoder.bytes <= 100_000 && decoder.symbols.len() <= Decoder::<Stored>::MAX_SYMBOLS);
        }
    }

    /// The space of a long packet is not kept for a short one, whose length is what counts.
    #[test]
    fn memory_is_bounded_whatever_the_lengths() {
        const MOST: usize = 3_000_000;
        let mut decoder = Decoder::<Stored>::new(MOST as u64);
        for number in 0..100_000 {
            let length = if units::mix(number).is_multiple_of(32) { 60_000 } else { 10 };
            decoder.remember(PacketNumber::new(number), &vec![1; length], 0, true);
        }
        let taken: usize = decoder.symbols.iter().flatten().map(|packet| packet.bytes.capacity()).sum();
        assert!(taken <= 2 * MOST, "{taken} bytes");
    }
}
