//! The receiving half of a connection: what has arrived, what is acknowledged and when, and the window.

use crate::autotune::Autotune;
use crate::config::Config;
use crate::segment::{Flags, SackBlocks, Segment};
use std::ops::Range;
use units::{Instant, RangeSet};

/// Ranges that a SACK option reports beside the newest one.
const REMEMBERED: usize = 4;

/// Bytes from the peer, in order and out of order.
#[derive(Debug)]
pub(crate) struct Receiver {
    /// The next byte expected.
    rcv_nxt: u64,
    /// The application has read everything before.
    read_to: u64,
    /// What has arrived beyond `rcv_nxt`.
    out_of_order: RangeSet,
    /// A byte of each out-of-order range reported lately, newest first (RFC 2018, section 4).
    recent: [u64; REMEMBERED],
    /// What arrived twice and is to be reported.
    duplicate: Option<Range<u64>>,
    /// The sequence number of the peer's FIN.
    fin: Option<u64>,
    /// The right edge of the window, which never moves back.
    edge: u64,
    /// The edge that the peer was told last.
    told_edge: u64,
    buffer: Autotune,
    /// Full segments, and bytes, not acknowledged yet.
    unacknowledged: u64,
    quick: u32,
    ack_due: bool,
    ack_at: Option<Instant>,
    /// The timestamp to echo, and bytes that arrived twice.
    echo: u32,
    duplicate_bytes: u64,
    has_sack: bool,
    blocks: usize,
    /// What SaTPEP's hop adds.
    satpep: Option<Satpep>,
}

/// The receiver of SaTPEP: its grant, and where it is in the cycle of NACKs.
#[derive(Debug)]
struct Satpep {
    /// Bytes that may be outstanding; `None` leaves it to the buffer.
    grant: Option<u64>,
    mss: u64,
    /// The end of the hole that the latest NACK named.
    named_to: u64,
    /// Data have arrived that the next acknowledgement answers.
    has_arrival: bool,
}

impl Receiver {
    pub(crate) fn new(config: &Config) -> Self {
        let buffer = Autotune::new(&config.buffer());
        Self {
            rcv_nxt: 0,
            read_to: 1,
            out_of_order: RangeSet::new(),
            recent: [0; REMEMBERED],
            duplicate: None,
            fin: None,
            edge: 1 + buffer.window(0),
            told_edge: 0,
            buffer,
            unacknowledged: 0,
            quick: config.acks.quick,
            ack_due: false,
            ack_at: None,
            echo: 0,
            duplicate_bytes: 0,
            has_sack: false,
            blocks: if config.options.timestamps { 3 } else { config.sack_blocks },
            satpep: config.satpep.then(|| Satpep {
                grant: None,
                mss: u64::from(config.mss),
                named_to: 0,
                has_arrival: false,
            }),
        }
    }

    /// From now on so many bytes are advertised, or less while the buffer has no room for them.
    pub(crate) fn grant(&mut self, bytes: u64) {
        if let Some(satpep) = &mut self.satpep {
            satpep.grant = Some(bytes);
        }
    }

    /// The peer's SYN has come: byte 1 is next.
    pub(crate) fn on_syn(&mut self, segment: &Segment, sack: bool) {
        self.rcv_nxt = segment.seq + 1;
        self.echo = segment.timestamps.value;
        self.has_sack = sack;
    }

    /// The next byte expected: the acknowledgement number.
    pub(crate) fn rcv_nxt(&self) -> u64 {
        self.rcv_nxt
    }

    /// The timestamp to echo.
    pub(crate) fn echo(&self) -> u32 {
        self.echo
    }

    /// Bytes in order that the application has not read.
    pub(crate) fn readable(&self) -> u64 {
        self.data_end().saturating_sub(self.read_to)
    }

    /// Bytes in order since the start.
    pub(crate) fn received(&self) -> u64 {
        self.data_end().saturating_sub(1)
    }

    /// Bytes of payload that arrived again.
    pub(crate) fn duplicate_bytes(&self) -> u64 {
        self.duplicate_bytes
    }

    fn data_end(&self) -> u64 {
        self.rcv_nxt - u64::from(self.is_finished())
    }

    /// Whether the FIN and everything before it has arrived.
    pub(crate) fn is_finished(&self) -> bool {
        self.fin.is_some_and(|fin| self.rcv_nxt > fin)
    }

    /// The application reads up to `most` bytes. Returns how many there were.
    pub(crate) fn read(&mut self, now: Instant, most: u64) -> u64 {
        let bytes = self.readable().min(most);
        self.read_to += bytes;
        self.buffer.on_read(now, bytes);
        self.open_window();
        bytes
    }

    fn open_window(&mut self) {
        self.edge = self.edge.max(self.data_end() + self.buffer.window(self.readable()));
    }

    /// The window to advertise, in whole units of its scale.
    pub(crate) fn window(&mut self, shift: u8) -> u32 {
        self.open_window();
        let window = self.open();
        let window = if self.satpep.is_some() { window } else { window.min(65_535 << shift) >> shift << shift };
        self.told_edge = self.rcv_nxt + window;
        window as u32
    }

    /// Bytes that the peer may send beyond the next one expected. SaTPEP's are whole segments: those granted, at least one,
    /// as far as the buffer has room and the window's 16 bits can count.
    fn open(&self) -> u64 {
        let room = self.edge.saturating_sub(self.rcv_nxt);
        let Some(satpep) = &self.satpep else { return room };
        let granted = satpep.grant.unwrap_or(u64::MAX).max(satpep.mss);
        (room.min(granted) / satpep.mss).min(65_535) * satpep.mss
    }

    /// Whether the window has opened enough since the peer was told to be worth a segment (RFC 9293, 3.8.6.2.2).
    pub(crate) fn has_window_update(&self, mss: u32) -> bool {
        let gain = (self.rcv_nxt + self.open()).saturating_sub(self.told_edge);
        self.told_edge > 0 && gain >= (2 * u64::from(mss)).min(self.buffer.window(0) / 2).max(1)
    }

    /// A segment of the peer: takes its payload and FIN, and decides when to acknowledge.
    pub(crate) fn on_segment(&mut self, now: Instant, segment: &Segment, config: &Config) {
        let span = u64::from(segment.len) + u64::from(segment.has(Flags::FIN));
        if span == 0 {
            // Out of the window without data: a probe or a keepalive.
            self.ack_due |= segment.seq < self.rcv_nxt;
            return;
        }
        if let Some(satpep) = &mut self.satpep {
            satpep.has_arrival = true;
        }
        let range = segment.seq..segment.seq + span;
        if range.end <= self.rcv_nxt || range.start > self.edge {
            self.report_duplicate(range);
            return;
        }
        if segment.has(Flags::FIN) {
            self.fin = Some(range.end - 1);
        }
        if range.start <= self.rcv_nxt {
            self.echo = segment.timestamps.value;
            self.in_order(now, range, segment, config);
        } else {
            self.beyond(range);
        }
    }

    fn report_duplicate(&mut self, range: Range<u64>) {
        self.duplicate_bytes += range.end - range.start;
        self.duplicate = Some(range);
        self.ack_due = true;
    }

    fn in_order(&mut self, now: Instant, range: Range<u64>, segment: &Segment, config: &Config) {
        let had_holes = !self.out_of_order.is_empty();
        let before = self.rcv_nxt;
        self.rcv_nxt = range.end;
        while let Some(first) = self.out_of_order.first().filter(|first| first.start <= self.rcv_nxt) {
            self.rcv_nxt = self.rcv_nxt.max(first.end);
            self.out_of_order.pop_first();
        }
        self.buffer.on_data(now, self.rcv_nxt - before, segment, self.edge - before);
        self.unacknowledged += range.end - range.start;
        let is_full = self.unacknowledged > u64::from(config.acks.every - 1) * u64::from(config.mss);
        let is_quick = self.quick > 0;
        self.quick = self.quick.saturating_sub(1);
        if had_holes || is_full || is_quick || segment.has(Flags::FIN) {
            self.ack_due = true;
        } else if self.ack_at.is_none() {
            self.ack_at = Some(now + config.acks.delay);
        }
    }

    fn beyond(&mut self, range: Range<u64>) {
        self.ack_due = true;
        let length = range.end - range.start;
        if self.out_of_order.insert(range.clone()) == 0 {
            self.duplicate_bytes += length;
            self.duplicate = Some(range.clone());
        }
        let at = self
            .recent
            .iter()
            .position(|&at| at != 0 && self.out_of_order.range_of(at).is_none_or(|known| known.contains(&range.start)));
        let last = at.unwrap_or(REMEMBERED - 1);
        self.recent.copy_within(..last, 1);
        self.recent[0] = range.start;
    }

    /// The NACK of the next acknowledgement: holes in ascending order, one each time, and again from the lowest.
    fn nack(&mut self) -> (SackBlocks, Flags) {
        let mut blocks = SackBlocks::default();
        let from = self.satpep.as_ref().filter(|satpep| satpep.has_arrival).map(|satpep| satpep.named_to);
        let Some(hole) = from.and_then(|from| self.hole(from).or_else(|| self.hole(0))) else {
            return (blocks, Flags::default());
        };
        if let Some(satpep) = &mut self.satpep {
            satpep.named_to = hole.end;
        }
        blocks.push(self.rcv_nxt, hole);
        (blocks, Flags::NACK)
    }

    /// The blocks to report: a duplicate first (RFC 2883), then the newest ranges; or a hole, where those are reported.
    pub(crate) fn blocks(&mut self, config: &Config) -> (SackBlocks, Flags) {
        if self.satpep.is_some() {
            return self.nack();
        }
        let mut blocks = SackBlocks::default();
        let mut flags = Flags::default();
        let duplicate = self.duplicate.take();
        if !self.has_sack {
            return (blocks, flags);
        }
        if let Some(duplicate) = duplicate.filter(|_| config.options.dsack) {
            blocks.push(self.rcv_nxt, duplicate);
            flags = Flags::DSACK;
        }
        if self.out_of_order.is_empty() {
            return (blocks, flags);
        }
        let mut reported: [u64; REMEMBERED] = [0; REMEMBERED];
        for (slot, at) in self.recent.into_iter().enumerate().filter(|(_, at)| *at > self.rcv_nxt) {
            let Some(range) = self.out_of_order.range_of(at) else { continue };
            if blocks.len() < self.blocks && !reported[..slot].contains(&range.start) {
                reported[slot] = range.start;
                blocks.push(self.rcv_nxt, range);
            }
        }
        (blocks, flags)
    }

    /// An acknowledgement leaves.
    pub(crate) fn on_acknowledged(&mut self) {
        self.unacknowledged = 0;
        self.ack_due = false;
        self.ack_at = None;
        if let Some(satpep) = &mut self.satpep {
            satpep.has_arrival = false;
        }
    }

    /// Whether an acknowledgement is to leave now.
    pub(crate) fn is_ack_due(&self, now: Instant) -> bool {
        self.ack_due || self.ack_at.is_some_and(|at| at <= now)
    }

    /// An acknowledgement leaves as soon as it can.
    pub(crate) fn acknowledge_now(&mut self) {
        self.ack_due = true;
    }

    /// When a delayed acknowledgement is due.
    pub(crate) fn ack_at(&self) -> Option<Instant> {
        self.ack_at
    }

    /// The lowest hole at or above `from`: what a NACK names.
    fn hole(&self, from: u64) -> Option<Range<u64>> {
        let end = self.out_of_order.last()?.end;
        self.out_of_order.gaps(from.max(self.rcv_nxt)..end).next()
    }
}
