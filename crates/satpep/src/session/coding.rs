//! Making repair symbols, and recovering with those of the peer: work that takes longer than a turn of the driver's loop
//! may, so it is done in steps.

use super::Session;
use crate::event::Violation;
use crate::packet_number::PacketNumber;
use crate::payload::Payload;
use crate::repair::{
    Encoding, MAX_REPAIR_SYMBOLS, MAX_SOURCE_SYMBOLS, MAX_STRIDE, PER_SYMBOL, RepairSymbol, SourceBlock, SymbolLength,
    WORK_STEP,
};
use crate::sent_packets::{SentFrame, SentFrames};
use crate::wire::frame::{Frame, Reader, Writer, stream_with_length_size};
use std::collections::VecDeque;
use std::ops::Range;
use units::Instant;

/// Packets for which repair symbols are being made.
pub(super) struct RepairPlan {
    packets: Range<PacketNumber>,
    /// About how many repair symbols they may have at most.
    most: f64,
    /// How many of these cost nothing, where the others are taken off the allowance.
    free: Option<f64>,
    /// The next packet to look at.
    next: PacketNumber,
    /// Packets in a row whose bytes are kept.
    runs: VecDeque<Range<PacketNumber>>,
    /// About how many repair symbols each run may have, once all are known.
    share: f64,
    run: Option<Run>,
    made: usize,
}

impl RepairPlan {
    /// Packets to protect with at most about `most` symbols.
    pub(super) fn new(packets: Range<PacketNumber>, most: f64) -> Self {
        let next = packets.start;
        Self { packets, most, free: None, next, runs: VecDeque::new(), share: 0.0, run: None, made: 0 }
    }

    /// All symbols but `free` are taken off the allowance.
    pub(super) fn free(self, free: f64) -> Self {
        Self { free: Some(free), ..self }
    }

    /// The next packet can be protected.
    fn go_on(&mut self, number: PacketNumber) {
        match self.runs.back_mut().filter(|run| run.end == number) {
            Some(run) => run.end = number.next(),
            None => self.runs.push_back(number..number.next()),
        }
    }
}

/// The blocks of packets in a row, which take turns in them. One after the other is made.
struct Run {
    packets: Range<PacketNumber>,
    stride: usize,
    repair_symbols: usize,
    /// The next packet of the block.
    next: PacketNumber,
    /// The block of those before it that need repair.
    encoding: Option<Encoding>,
    blocks: Vec<Vec<RepairSymbol>>,
}

impl Run {
    /// The shape of the block of all packets from the next one on.
    fn rest_of_block(&self) -> SourceBlock {
        let count = self.packets.end.saturating_since(self.next).div_ceil(self.stride as u64) as usize;
        SourceBlock { first: self.next, count, stride: self.stride, repair_symbols: self.repair_symbols }
    }

    /// The block has all of its symbols, and the next is begun.
    fn end_block(&mut self) {
        self.blocks.push(self.encoding.take().map_or(Vec::new(), Encoding::finish));
        self.next = self.packets.start + self.blocks.len() as u64;
    }
}

impl<P: Payload> Session<P> {
    /// Packets that one step looks over, and the most that one step codes.
    const LOOKED_OVER: u64 = 512;
    const CODED: usize = 64;

    /// Whether there is something to code or decode.
    pub(crate) fn has_work(&self) -> bool {
        self.repairs.is_working() || self.decoder.is_working()
    }

    /// Codes and decodes for one turn of the loop.
    ///
    /// # Errors
    /// If the peer coded something that it may not.
    pub(crate) fn work(&mut self, now: Instant) -> Result<(), Violation> {
        let taken = self.make_blocks(now, WORK_STEP);
        self.recover(WORK_STEP.saturating_sub(taken))
    }

    /// Makes blocks for about as long as coding `budget` bytes takes; returns how much of that it was.
    pub(super) fn make_blocks(&mut self, now: Instant, budget: usize) -> usize {
        let mut taken = 0;
        while taken < budget
            && let Some(mut plan) = self.repairs.making.pop_front()
        {
            match self.advance(now, &mut plan) {
                Some(more) => {
                    taken += more;
                    self.repairs.making.push_front(plan);
                }
                None => {
                    let used = plan.free.map_or(0.0, |free| plan.made as f64 - free);
                    self.repairs.allowance -= used.clamp(0.0, self.repairs.allowance);
                }
            }
        }
        taken
    }

    /// Takes a plan one step further; returns how much work that was, or nothing when all is done.
    fn advance(&mut self, now: Instant, plan: &mut RepairPlan) -> Option<usize> {
        if plan.next < plan.packets.end {
            return Some(self.look_over(plan));
        }
        if let Some(taken) = plan.run.as_mut().and_then(|run| self.code(run)) {
            return Some(taken);
        }
        if let Some(run) = plan.run.take() {
            plan.made += self.send_blocks(now, run.packets, run.blocks);
        }
        let packets = plan.runs.pop_front()?;
        plan.run = Some(self.run(packets, plan.share));
        Some(0)
    }

    /// Finds out which of some more packets can be protected; returns how much work that was.
    fn look_over(&self, plan: &mut RepairPlan) -> usize {
        let end = (plan.next + Self::LOOKED_OVER).min(plan.packets.end);
        for (number, frames) in
            self.recovery.sent_packets.frames_from(plan.next).take_while(|(number, _)| *number < end)
        {
            // What it carried may be gone, because its stream was given up: blocks do without it.
            if self.is_kept(frames) {
                plan.go_on(number);
            }
        }
        plan.next = end;
        if plan.next >= plan.packets.end {
            // Each run takes a symbol: of many short ones, the latest are protected.
            let spared = plan.runs.len().saturating_sub(plan.most.max(1.0) as usize);
            plan.runs.drain(..spared);
        }
        plan.share = plan.most / plan.runs.len().max(1) as f64;
        Self::LOOKED_OVER as usize * PER_SYMBOL / 4
    }

    /// Blocks of packets in a row with at most about `most` repair symbols.
    fn run(&self, mut packets: Range<PacketNumber>, most: f64) -> Run {
        packets.start = packets.start.max(packets.end.saturating_before((MAX_SOURCE_SYMBOLS * MAX_STRIDE) as u64));
        let total = (packets.end - packets.start) as usize;
        let stride = total.div_ceil(MAX_SOURCE_SYMBOLS);
        let process = self.recovery.sent_packets.loss_process();
        let may_fail = Self::MAY_FAIL / stride as f64;
        let most = most.min(total as f64).max(1.0) as usize;
        let most = most.div_ceil(stride).min(MAX_REPAIR_SYMBOLS);
        let repair_symbols = process.repair_symbols_for(total.div_ceil(stride), may_fail, most);
        let (next, blocks) = (packets.start, Vec::with_capacity(stride));
        Run { packets, stride, repair_symbols, next, encoding: None, blocks }
    }

    /// Takes the making of blocks one step further; returns how much work that was, or nothing when all are made.
    fn code(&self, run: &mut Run) -> Option<usize> {
        if run.blocks.len() == run.stride {
            return None;
        }
        let mut taken = PER_SYMBOL;
        for _ in 0..Self::CODED {
            if run.next >= run.packets.end {
                run.end_block();
                break;
            }
            taken += PER_SYMBOL + self.code_packet(run);
        }
        Some(taken)
    }

    /// Takes one more packet into a block; returns how many bytes were worked on. What has been acknowledged meanwhile needs no
    /// repair, nor is it known any more what it carried: the block begins after it.
    fn code_packet(&self, run: &mut Run) -> usize {
        let Some(frames) = self.frames_to_protect(run.next) else {
            run.encoding = None;
            run.next += run.stride as u64;
            return 0;
        };
        let mut looked_over = 0;
        if run.encoding.is_none() {
            let block = run.rest_of_block();
            looked_over = block.count * PER_SYMBOL / 4;
            run.encoding = Some(Encoding::new(block, self.longest(block)));
        }
        run.next += run.stride as u64;
        let coded =
            run.encoding.as_mut().map_or(0, |encoding| encoding.add(|writer| self.write_symbol(frames, writer)));
        looked_over + coded
    }

    /// What a packet carries, if it is in flight and its bytes are kept.
    fn frames_to_protect(&self, number: PacketNumber) -> Option<&SentFrames> {
        let (at, frames) = self.recovery.sent_packets.frames_from(number).next()?;
        (at == number && number >= self.in_flight().start && self.is_kept(frames)).then_some(frames)
    }

    /// A length that holds the symbol of each packet of a block.
    fn longest(&self, block: SourceBlock) -> SymbolLength {
        let packets = self.recovery.sent_packets.frames_from(block.first).step_by(block.stride).take(block.count);
        packets.fold(SymbolLength::default(), |longest, (_, frames)| longest.max(symbol_length::<P>(frames)))
    }

    /// Whether the bytes of a packet's stream frames are kept still.
    fn is_kept(&self, frames: &SentFrames) -> bool {
        frames.iter().all(|frame| match *frame {
            SentFrame::Stream { key, offset, length, .. } => {
                self.stream(key).is_some_and(|stream| !stream.is_aborted() && stream.send.keeps(offset, length))
            }
            _ => true,
        })
    }

    /// Writes a packet's stream frames, whose bytes are kept, in canonical form.
    fn write_symbol(&self, frames: &SentFrames, writer: &mut Writer<'_>) {
        for frame in frames {
            let SentFrame::Stream { key, offset, length, fin, .. } = *frame else { continue };
            let space = writer.stream_with_length::<P>(key.number, offset, usize::from(length), fin);
            if let (Some(stream), Some(space)) = (self.stream(key), space) {
                stream.send.copy(offset, space);
            }
        }
    }

    /// Recovers for about as long as coding `budget` bytes takes.
    fn recover(&mut self, budget: usize) -> Result<(), Violation> {
        for (number, recovered) in self.decoder.work(budget) {
            let mut reader = Reader::<P>::with_elided(&recovered.bytes, recovered.elided);
            while let Some(frame) = reader.next()? {
                let Frame::Stream { stream, offset, data, elided, fin } = frame else {
                    return Err(Violation::BadRepair);
                };
                self.stats.recovered_bytes += (data.len() + elided) as u64;
                if let Some(key) = self.find_or_accept(stream, true)? {
                    self.on_data(key, offset, data, elided, fin)?;
                }
            }
            self.received.recover(number);
        }
        Ok(())
    }
}

/// The length of the symbol of a packet that carries `frames`.
fn symbol_length<P: Payload>(frames: &SentFrames) -> SymbolLength {
    frames.iter().fold(SymbolLength::default(), |sum, frame| match *frame {
        SentFrame::Stream { key, offset, length, .. } => {
            sum.followed_by(stream_with_length_size::<P>(key.number, offset, usize::from(length)))
        }
        _ => sum,
    })
}
