//! When repair symbols are made of what is in flight, and when they are sent.
//!
//! Repair begins when the last stream that had something to send has ended, or paused for a moment. It protects all that is
//! in flight and not yet protected, with symbols that [`LossProcess`](crate::loss::LossProcess) counts. Half of them
//! leave at once; where losses come in bursts, the rest wait for a burst to end that may have hit the last data.
//!
//! While the link is full, repair takes its capacity from data: at most the loss rate and a configured share. It is
//! spent where it pays: on the last data of a stream while others go on, if the wait that it most likely saves exceeds
//! the time that it takes; and on all data where retransmissions are lost themselves in most round trips, since delivery
//! in order would then lag by several of them.

use super::Session;
use super::coding::RepairPlan;
use crate::config::EndpointConfig;
use crate::packet_number::PacketNumber;
use crate::payload::Payload;
use crate::repair::{MAX_REPAIR_SYMBOLS, MAX_SOURCE_SYMBOLS, RepairSymbol, WORK_STEP};
use crate::sent_packets::{SentFrame, SentFrames};
use crate::wire::frame::{RepairFrame, Writer};
use std::collections::VecDeque;
use std::ops::Range;
use units::{Duration, Instant};

/// Repair that is planned or on its way out.
pub(super) struct Repairs {
    /// Whether there is to be any, and what it may take of a full link beyond the share of what is lost.
    is_enabled: bool,
    overhead: f64,
    /// When idle capacity is to be used to protect what is in flight.
    at: Option<Instant>,
    /// Symbols to send, each not before a time.
    queue: VecDeque<(Instant, RepairSymbol)>,
    /// Packets that the queue's symbols protect, each with how many of them can be recovered, in the order of the queue:
    /// the symbols of a piece follow those of the one before.
    queued: VecDeque<QueuedSymbols>,
    /// Packets below this number are protected, or are being.
    protected_to: PacketNumber,
    /// Blocks in the making, one piece of packets after the other.
    pub(super) making: VecDeque<RepairPlan>,
    /// Symbols that all data sent so far allows for, beyond those that each piece has of its own.
    pub(super) allowance: f64,
    /// Symbols that may be sent now although there is data to send.
    budget: f64,
    /// Packets with the last data of streams that paused while others go on, and when to protect them.
    pub(super) pauses: VecDeque<(Instant, Range<PacketNumber>)>,
}

/// The symbols in the queue that protect one range.
#[derive(Debug)]
struct QueuedSymbols {
    packets: Range<PacketNumber>,
    repair_symbols: usize,
    /// Symbols not yet sent.
    unsent: usize,
}

impl Repairs {
    pub(super) fn new(config: &EndpointConfig) -> Self {
        Self {
            is_enabled: config.repair,
            overhead: config.repair_overhead,
            at: None,
            queue: VecDeque::new(),
            queued: VecDeque::new(),
            protected_to: PacketNumber::ZERO,
            making: VecDeque::new(),
            allowance: 0.0,
            budget: 0.0,
            pauses: VecDeque::new(),
        }
    }

    /// When there will be something to do.
    pub(super) fn next(&self) -> Option<Instant> {
        self.at.into_iter().chain(self.queue.front().map(|(due, _)| *due)).min()
    }

    /// The next pause that it is time to protect.
    fn due_pause(&mut self, now: Instant) -> Option<Range<PacketNumber>> {
        self.pauses.front().filter(|(due, _)| *due <= now)?;
        self.pauses.pop_front().map(|(_, packets)| packets)
    }

    /// Whether there are blocks to make.
    pub(super) fn is_working(&self) -> bool {
        !self.making.is_empty()
    }

    /// There is new data to send first.
    pub(super) fn postpone(&mut self) {
        self.at = None;
    }
}

impl<P: Payload> Session<P> {
    /// Idle time after which the last packets of streams that have not ended get repair: long enough not to add some at
    /// every pause of a stream.
    const REPAIR_AFTER: Duration = Duration::from_millis(4);
    /// Below this round-trip time waiting for feedback costs less than repair.
    const REPAIR_MIN_RTT: Duration = Duration::from_millis(20);
    /// How often repair may fail.
    pub(super) const MAY_FAIL: f64 = 0.005;
    /// The most repair symbols that are spent on however little, and beyond that for each packet sent, be it lost or
    /// not; half the losses come on top.
    const FREE: f64 = 5.0;
    const IDLE_SHARE: f64 = 0.01;
    /// The most symbols that leave in a row while there is data to send.
    const BUSY_RUN: f64 = 6.0;
    /// The oldest packets in flight, which are acknowledged before a block of all data could be made of them.
    const BULK_MARGIN: u64 = 256;
    /// Streams' pauses that wait to be protected, at most, and the most packets that are protected for one.
    const MAX_PAUSES: usize = 64;
    const MAX_PAUSE: u64 = 128;

    /// Whether FEC is worth its capacity and memory here.
    pub(super) fn does_repair(&self) -> bool {
        self.repairs.is_enabled && self.recovery.rtt.smoothed() >= Self::REPAIR_MIN_RTT
    }

    /// Whether idle capacity can be used for repair.
    pub(crate) fn has_idle(&self, now: Instant) -> bool {
        !self.is_stalled() && self.repairs.next().is_some_and(|at| at <= now)
    }

    /// Stream data goes into the next packet, some of it for the first time if it is `fresh`; with the last of it its
    /// stream `ended`.
    pub(super) fn plan_repair(&mut self, now: Instant, fresh: bool, ended: bool) {
        if !self.does_repair() {
            return;
        }
        let loss = self.recovery.sent_packets.loss_process().probability();
        self.repairs.allowance += Self::IDLE_SHARE + 0.5 * loss;
        self.repairs.budget = (self.repairs.budget + loss + self.repairs.overhead).min(Self::BUSY_RUN);
        let at = now + if ended { Duration::ZERO } else { Self::REPAIR_AFTER };
        // What is sent again does not put off the repair of what was sent before.
        self.repairs.at = Some(self.repairs.at.filter(|_| !fresh).map_or(at, |planned| planned.min(at)));
    }

    /// With the next packet at the latest, a stream has sent what it may for now, in packets from `from` on: they get repair though
    /// others go on.
    pub(super) fn plan_repair_of_pause(&mut self, now: Instant, from: PacketNumber) {
        if self.does_repair() && self.repairs.pauses.len() < Self::MAX_PAUSES {
            let packets = from..self.recovery.sent_packets.next_number().next();
            self.repairs.pauses.push_back((now + Self::REPAIR_AFTER, packets));
        }
    }

    /// The next repair symbol, in capacity that would idle. Whether the packet is as large as one can be, `whole`
    /// tells. Returns whether there was one.
    pub(super) fn put_repair(
        &mut self,
        now: Instant,
        writer: &mut Writer<'_>,
        frames: &mut SentFrames,
        whole: bool,
    ) -> bool {
        if self.repairs.at.is_some_and(|at| at <= now) {
            self.repairs.at = None;
            self.repairs.pauses.clear();
            self.plan_blocks();
            // What takes no longer than a turn of the loop may leave at once.
            self.make_blocks(now, WORK_STEP);
        }
        let before = self.stats.repair_bytes;
        self.put_symbol(now, writer, frames, whole);
        self.stats.repair_bytes > before
    }

    /// The next repair symbol, if one may go before the data that waits; `false` if none did.
    pub(super) fn put_busy_repair(
        &mut self,
        now: Instant,
        writer: &mut Writer<'_>,
        frames: &mut SentFrames,
        whole: bool,
    ) -> bool {
        if !self.does_repair() {
            return false;
        }
        self.protect_pauses(now);
        self.protect_bulk();
        let before = self.stats.repair_bytes;
        if self.repairs.budget >= 1.0 {
            self.put_symbol(now, writer, frames, whole);
        }
        let put = self.stats.repair_bytes > before;
        self.repairs.budget -= f64::from(u8::from(put));
        put
    }

    fn put_symbol(&mut self, now: Instant, writer: &mut Writer<'_>, frames: &mut SentFrames, whole: bool) {
        while let Some((_, symbol)) = self.repairs.queue.front().filter(|(due, _)| *due <= now) {
            let (block, length) = (symbol.block, symbol.bytes.len() + symbol.elided);
            let repair = RepairFrame {
                back: self.recovery.sent_packets.next_number() - block.first,
                count: block.count as u64,
                stride: block.stride as u64,
                repair_symbols: block.repair_symbols as u64,
                index: symbol.index as u64,
                symbol: &symbol.bytes,
                elided: symbol.elided,
            };
            let is_in_flight = block.last() >= self.recovery.sent_packets.lowest_tracked();
            let mut put = false;
            if is_in_flight && writer.repair(&repair) {
                self.stats.repair_bytes += length as u64;
                frames.push(SentFrame::Ping);
                put = true;
            } else if is_in_flight && !(whole && writer.is_empty()) {
                // It has no room here, or beside what else is to be said, and follows in a packet of its own.
                return;
            }
            self.repairs.queue.pop_front();
            self.on_symbol_sent();
            if put {
                return;
            }
        }
    }

    /// Packets in flight: sent, and not known to have been passed by an acknowledgement.
    pub(super) fn in_flight(&self) -> Range<PacketNumber> {
        let acked_to = self.recovery.sent_packets.largest_acked().map_or(PacketNumber::ZERO, PacketNumber::next);
        acked_to..self.recovery.sent_packets.next_number()
    }

    /// Protects the last data of streams that paused, where the wait for a retransmission, as likely as it is, is longer than
    /// what the symbols take.
    fn protect_pauses(&mut self, now: Instant) {
        while let Some(paused) = self.repairs.due_pause(now) {
            let in_flight = self.in_flight();
            let from = paused.start.max(in_flight.start).max(self.repairs.protected_to);
            let count = paused.end.saturating_since(from).min(Self::MAX_PAUSE + 1);
            let process = self.recovery.sent_packets.loss_process();
            let symbols = process.repair_symbols_for(count as usize, Self::MAY_FAIL, MAX_REPAIR_SYMBOLS) as f64;
            let saved = count as f64 * process.probability() * (in_flight.end - in_flight.start) as f64;
            let worthwhile = symbols <= self.repairs.budget && symbols <= saved;
            if (1..=Self::MAX_PAUSE).contains(&count) && worthwhile && self.repairs.making.len() < Self::MAX_PAUSES {
                self.repairs.making.push_back(RepairPlan::new(from..paused.end, symbols));
            }
        }
    }

    /// A symbol left the queue, most likely into the next packet.
    fn on_symbol_sent(&mut self) {
        let Some(queued) = self.repairs.queued.front_mut() else { return };
        queued.unsent -= 1;
        if queued.unsent == 0
            && let Some(queued) = self.repairs.queued.pop_front()
        {
            self.recovery.sent_packets.protect(
                queued.packets,
                queued.repair_symbols,
                self.recovery.sent_packets.next_number(),
            );
        }
    }

    /// Has the packets in flight protected that are not yet.
    fn plan_blocks(&mut self) {
        let in_flight = self.in_flight();
        let from = self.repairs.protected_to.max(in_flight.start);
        self.repairs.protected_to = in_flight.end;
        // What is recovered is not sent again: that many symbols cost nothing.
        let free = Self::FREE
            + self.recovery.sent_packets.loss_process().probability() * in_flight.end.saturating_since(from) as f64;
        let plan = RepairPlan::new(from..in_flight.end, free + self.repairs.allowance);
        self.repairs.making.push_back(plan.free(free));
    }

    /// Protects all data while the link is full, where retransmissions are lost themselves in most round trips: a block
    /// at a time.
    fn protect_bulk(&mut self) {
        let in_flight = self.in_flight();
        let from = self.repairs.protected_to.max(in_flight.start + Self::BULK_MARGIN);
        let packets = from..from + MAX_SOURCE_SYMBOLS as u64;
        let process = self.recovery.sent_packets.loss_process();
        let lost_again = (in_flight.end - in_flight.start) as f64 * process.probability().powi(2);
        let due = packets.end <= in_flight.end && process.is_measured() && lost_again >= 1.0;
        if due && !self.repairs.is_working() {
            let most = (process.probability() + self.repairs.overhead) * MAX_SOURCE_SYMBOLS as f64;
            self.repairs.protected_to = packets.end;
            self.repairs.making.push_back(RepairPlan::new(packets, most));
        }
    }

    /// Queues the repair symbols of blocks, which take turns; returns how many there are.
    pub(super) fn send_blocks(
        &mut self,
        now: Instant,
        packets: Range<PacketNumber>,
        blocks: Vec<Vec<RepairSymbol>>,
    ) -> usize {
        // Of a burst that hits the end, the symbols that wait escape the rest.
        let patience =
            (self.recovery.sent_packets.loss_process().mean_burst_time() * 2).min(self.recovery.rtt.smoothed() / 4);
        let repair_symbols = blocks.iter().map(Vec::len).max().unwrap_or(0);
        let mut blocks: Vec<_> = blocks.into_iter().map(Vec::into_iter).collect();
        let before = self.repairs.queue.len();
        for turn in 0..repair_symbols {
            let later = (2.0 * (turn + 1) as f64 / repair_symbols as f64 - 1.0).max(0.0);
            let due = now + if repair_symbols > 1 { patience.mul_f64(later) } else { Duration::ZERO };
            self.repairs.queue.extend(blocks.iter_mut().filter_map(Iterator::next).map(|symbol| (due, symbol)));
        }
        let unsent = self.repairs.queue.len() - before;
        if unsent > 0 {
            self.repairs.queued.push_back(QueuedSymbols { packets, repair_symbols: unsent, unsent });
        }
        unsent
    }
}
