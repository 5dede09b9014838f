//! Making repair symbols, and recovering with those of the peer: work that takes longer than a turn of the driver's loop
//! may, so it is done in steps.

use super::Session;
use crate::event::Violation;
use crate::packet_number::PacketNumber;
use crate::payload::Payload;
use crate::repair::{
    Encoding, MAX_REPAIR_SYMBOLS, MAX_SOURCE_SYMBOLS, MAX_STRIDE, PER_SYMBOL, RepairSymbol, SourceBlock, SourceSymbol,
    WORK_STEP, source_symbol,
};
use crate::sent_packets::{SentFrame, SentFrames};
use crate::wire::frame::{Frame, Reader};
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
    /// The next packet of the block to collect the symbol of, and those collected.
    next: PacketNumber,
    symbols: Vec<SourceSymbol>,
    encoding: Option<Encoding>,
    blocks: Vec<Vec<RepairSymbol>>,
}

impl Run {
    /// Begins to code the block whose symbols have been collected.
    fn begin_block(&mut self) {
        let symbols = std::mem::take(&mut self.symbols);
        let (count, stride, repair_symbols) = (symbols.len(), self.stride, self.repair_symbols);
        let block =
            SourceBlock { first: self.next.saturating_before((count * stride) as u64), count, stride, repair_symbols };
        self.encoding = Encoding::new(block, symbols);
        if self.encoding.is_none() {
            self.end_block(Vec::new());
        }
    }

    /// The block has these repair symbols, and the next is begun.
    fn end_block(&mut self, symbols: Vec<RepairSymbol>) {
        self.blocks.push(symbols);
        self.next = self.packets.start + self.blocks.len() as u64;
    }
}

impl<P: Payload> Session<P> {
    /// Packets that one step looks over, and those that one step collects.
    const LOOKED_OVER: u64 = 512;
    const COLLECTED: usize = 64;

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
        Run { packets, stride, repair_symbols, next, symbols: Vec::new(), encoding: None, blocks }
    }

    /// Takes the making of blocks one step further; returns how much work that was, or nothing when all are made.
    fn code(&self, run: &mut Run) -> Option<usize> {
        if let Some(taken) = run.encoding.as_mut().and_then(Encoding::step) {
            return Some(taken);
        }
        if let Some(encoding) = run.encoding.take() {
            run.end_block(encoding.finish());
        }
        if run.blocks.len() == run.stride {
            return None;
        }
        let (mut taken, mut scratch) = (PER_SYMBOL, Vec::new());
        for _ in 0..Self::COLLECTED {
            if run.next >= run.packets.end {
                run.begin_block();
                break;
            }
            taken += self.collect(run, &mut scratch);
        }
        Some(taken)
    }

    /// Collects the symbol of one more packet of a block; returns how much work that was. What has been acknowledged
    /// meanwhile needs no repair, nor is it known any more what it carried: the block begins after it.
    fn collect(&self, run: &mut Run, scratch: &mut Vec<u8>) -> usize {
        let number = run.next;
        run.next += run.stride as u64;
        let frames = self.recovery.sent_packets.frames_from(number).next().filter(|(at, _)| *at == number);
        let frames = frames.filter(|_| number >= self.in_flight().start);
        match frames.and_then(|(_, frames)| self.source_symbol(frames, scratch)) {
            Some(symbol) => run.symbols.push(symbol),
            None => run.symbols.clear(),
        }
        run.symbols.last().map_or(0, |symbol| symbol.bytes.len()) + PER_SYMBOL
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

    /// A packet's stream frames in canonical form; `None` if their bytes are not kept any more.
    pub(super) fn source_symbol(&self, frames: &SentFrames, scratch: &mut Vec<u8>) -> Option<SourceSymbol> {
        let mut complete = true;
        let symbol = source_symbol(usize::from(self.path.mtu.current()), scratch, |writer| {
            for frame in frames {
                let SentFrame::Stream { key, offset, length, fin, .. } = *frame else { continue };
                let stream =
                    self.stream(key).filter(|stream| !stream.is_aborted() && stream.send.keeps(offset, length));
                let space = writer.stream_with_length::<P>(key.number, offset, usize::from(length), fin);
                match (stream, space) {
                    (Some(stream), Some(space)) => stream.send.copy(offset, space),
                    _ => complete = false,
                }
            }
        });
        complete.then_some(symbol)
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
