//! The receiving half of a connection: what has arrived, what is acknowledged and when, and the window.

use crate::autotune::Autotune;
use crate::compression::{Due, SackCompression};
use crate::config::Config;
use crate::marks::{Count, Echo, Feedback};
use crate::segment::{
    ACCURATE_ECN_OPTION, EcnBytes, Flags, MAX_OPTIONS, SackBlocks, Segment, TIMESTAMPS_OPTION, sack_option,
};
use crate::timestamp::is_older;
use std::ops::Range;
use units::{Duration, Instant, RangeSet};

/// Ranges that a SACK option reports beside the newest one.
const REMEMBERED: usize = 4;
/// Payload that counts as a full segment until a larger one has come: that of the default MSS (RFC 9293, 3.7.1).
const MIN_FULL_SEGMENT: u32 = 536;
/// So many acknowledgements leave at once from a first mark on (`tcp_enter_quickack_mode`).
const QUICK_AFTER_MARK: u32 = 2;
/// By so much two times that should be equal may differ, each a sum of times rounded to nanoseconds.
const ROUNDING: Duration = Duration::from_nanos(5);

/// Beyond all sequence numbers.
const NO_FIN: u64 = u64::MAX;

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
    /// The sequence number of the peer's FIN; [`NO_FIN`] until it has come.
    fin: u64,
    /// The right edge of the window, which never moves back.
    edge: u64,
    /// The right edge of the window last advertised.
    advertised_edge: u64,
    buffer: Autotune,
    /// Bytes not acknowledged yet.
    unacknowledged: u64,
    /// Payload of the peer's full segments, as far as they have been seen.
    full_segment: u32,
    mss: u32,
    quick: u32,
    /// Acknowledgements of data out of order may wait for one another (Linux).
    compression: SackCompression,
    ack_due: bool,
    /// When a delayed acknowledgement is due; [`Instant::FAR_FUTURE`] for none.
    ack_at: Instant,
    /// The timestamp to echo, and the latest acknowledgement number sent, which decides what is echoed.
    echo: u32,
    acknowledged: u64,
    /// Bytes that arrived twice.
    duplicate_bytes: u64,
    has_sack: bool,
    blocks: u8,
    /// The window is advertised in whole units of its scale, rounded up or down.
    rounds_up: bool,
    /// Acknowledgements are delayed by the rule of ns-2's `DelAckSink` (tcp-sink.cc, 2.35).
    delays_as_ns2: bool,
    /// What SaTPEP's hop adds.
    satpep: Option<Box<Satpep>>,
    /// Of marks, where both ends use ECN.
    feedback: Feedback,
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
        let buffer = Autotune::new(&config.buffer(), config.mss);
        Self {
            rcv_nxt: 0,
            read_to: 1,
            out_of_order: RangeSet::new(),
            recent: [0; REMEMBERED],
            duplicate: None,
            fin: NO_FIN,
            edge: 1 + buffer.window(0),
            advertised_edge: 0,
            buffer,
            unacknowledged: 0,
            full_segment: MIN_FULL_SEGMENT,
            mss: config.mss,
            quick: config.acks.quick,
            ack_due: false,
            ack_at: Instant::FAR_FUTURE,
            echo: 0,
            acknowledged: 0,
            duplicate_bytes: 0,
            has_sack: false,
            blocks: config.sack_blocks,
            rounds_up: config.rules().receiving.rounds_up,
            compression: SackCompression::new(config.rules().receiving.compresses_sacks),
            delays_as_ns2: config.delays_acks_as_ns2(),
            feedback: Feedback::None,
            satpep: config
                .satpep
                .then(|| Box::new(Satpep { grant: None, mss: u64::from(config.mss), named_to: 0, has_arrival: false })),
        }
    }

    /// From now on so many bytes are advertised, or less while the buffer has no room for them.
    pub(crate) fn grant(&mut self, bytes: u64) {
        if let Some(satpep) = &mut self.satpep {
            satpep.grant = Some(bytes);
        }
    }

    /// Whether arrivals are counted and each is answered, as SaTPEP does.
    #[inline]
    pub(crate) fn is_satpep(&self) -> bool {
        self.satpep.is_some()
    }

    /// The peer's SYN has come: byte 1 is next.
    pub(crate) fn on_syn(&mut self, segment: &Segment, sack: bool, timestamps: bool) {
        self.rcv_nxt = segment.seq + 1;
        self.acknowledged = self.rcv_nxt;
        self.echo = segment.timestamps.value;
        self.has_sack = sack;
        self.compression.is_on &= sack;
        if timestamps {
            self.blocks = self.blocks.min(3);
        }
    }

    /// Both ends use ECN; the sender wants to know the share of marked bytes, if the feedback is to be exact.
    pub(crate) fn use_ecn(&mut self, is_exact: bool) {
        let echo = Echo::default();
        self.feedback = if is_exact { Feedback::ExactEcho(echo) } else { Feedback::Echo(echo) };
    }

    /// Both ends use ECN with counters. The AccECN option takes the place of a SACK block.
    pub(crate) fn use_counts(&mut self, count: Count, has_timestamps: bool) {
        if count.option().is_some() {
            let timestamps = if has_timestamps { TIMESTAMPS_OPTION } else { 0 };
            let room = MAX_OPTIONS - timestamps - ACCURATE_ECN_OPTION;
            self.blocks = self.blocks.min((room - sack_option(1)) / 8 + 1);
        }
        self.feedback = Feedback::Count(Box::new(count));
    }

    /// The AccECN option, where the peer's marked bytes are counted.
    #[inline]
    pub(crate) fn accurate_ecn(&self) -> Option<(EcnBytes, Flags)> {
        match &self.feedback {
            Feedback::Count(count) => count.option(),
            _ => None,
        }
    }

    /// What a segment that leaves, with payload or without, says of marks.
    #[inline]
    pub(crate) fn report_marks(&mut self, has_data: bool) -> Flags {
        match &mut self.feedback {
            Feedback::None => Flags::default(),
            Feedback::Echo(echo) | Feedback::ExactEcho(echo) => Flags::default().with_if(echo.is_on, Flags::ECE),
            Feedback::Count(count) => count.report(has_data),
        }
    }

    /// Whether data wait for an acknowledgement that must leave before a segment is looked at: it is marked and they are not, or the
    /// other way round, and the sender wants to know of each (RFC 8257, section 3.2).
    #[inline]
    pub(crate) fn is_overdue_before(&self, segment: &Segment) -> bool {
        self.ack_at != Instant::FAR_FUTURE
            && segment.len > 0
            && matches!(self.feedback, Feedback::ExactEcho(echo) if echo.is_on != segment.ecn.is_marked())
    }

    /// The connection is established.
    pub(crate) fn start(&mut self, now: Instant) {
        self.buffer.start(now);
    }

    /// The next byte expected: the acknowledgement number.
    pub(crate) fn rcv_nxt(&self) -> u64 {
        self.rcv_nxt
    }

    /// The timestamp to echo.
    pub(crate) fn echo(&self) -> u32 {
        self.echo
    }

    /// Whether `seq` is in the window.
    pub(crate) fn is_in_window(&self, seq: u64) -> bool {
        (self.rcv_nxt..self.edge).contains(&seq)
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
        self.rcv_nxt > self.fin
    }

    /// The application reads up to `most` bytes. Returns how many there were.
    #[inline]
    pub(crate) fn read(&mut self, now: Instant, most: u64) -> u64 {
        let bytes = self.readable().min(most);
        self.read_to += bytes;
        let beyond = self.out_of_order.last().map_or(0, |last| last.end - self.rcv_nxt);
        self.buffer.on_read(now, bytes, beyond);
        self.open_window();
        bytes
    }

    /// Moves the right edge by a full segment or half of the buffer at least, or not at all: a window that opens by
    /// crumbs is filled with crumbs (RFC 9293, 3.8.6.2.2).
    fn open_window(&mut self) {
        if let Some(edge) = self.opened_edge() {
            self.edge = edge;
        }
    }

    /// Where the right edge moves to, if it moves now.
    fn opened_edge(&self) -> Option<u64> {
        let edge = self.data_end() + self.buffer.window(self.readable());
        let moves = edge > self.edge && edge >= self.edge + u64::from(self.mss).min(self.buffer.window(0) / 2);
        moves.then_some(edge)
    }

    /// The window to advertise, in whole units of its scale.
    #[inline]
    pub(crate) fn window(&mut self, shift: u8) -> u32 {
        if self.buffer.opens_by_reading_alone() {
            debug_assert_eq!(self.opened_edge(), None, "the window was opened when the application read");
        } else {
            self.open_window();
        }
        let window = if self.rounds_up { self.round_up(shift) } else { self.open() };
        let window = if self.satpep.is_some() { window } else { self.in_units(window, shift) };
        self.edge = self.edge.max(self.rcv_nxt + window);
        self.advertised_edge = self.rcv_nxt + window;
        self.acknowledged = self.rcv_nxt;
        window as u32
    }

    /// So much of `window` as whole units can say. A buffer that grows may have room for less than two, as the scale is that of its largest
    /// size: while half of it is free it takes a unit, or nothing would ever come that makes it grow.
    #[inline]
    fn in_units(&self, window: u64, shift: u8) -> u64 {
        let whole = window.min(65_535 << shift) >> shift << shift;
        if whole > 0 || !self.buffer.grows() { whole } else { self.first_unit(1 << shift) }
    }

    /// The window where there is no room for a whole `unit`, in a buffer that grows.
    #[cold]
    fn first_unit(&self, unit: u64) -> u64 {
        if self.buffer.window(0) >= 2 * unit {
            return 0;
        }
        let free = self.buffer.window(self.readable());
        if free > 0 && free >= self.buffer.window(0).min(unit) / 2 { unit } else { 0 }
    }

    /// The free space of the buffer, or the window advertised before if that is larger, in whole units of the scale.
    fn round_up(&self, shift: u8) -> u64 {
        let up = |bytes: u64| bytes.div_ceil(1 << shift) << shift;
        up(self.buffer.window(self.readable())).max(up(self.advertised_edge.saturating_sub(self.rcv_nxt)))
    }

    /// Bytes that the peer may send beyond the next one expected. SaTPEP's are whole segments: those granted, at least one,
    /// as far as the buffer has room and the window's 16 bits can count.
    fn open(&self) -> u64 {
        let room = self.edge.saturating_sub(self.rcv_nxt);
        let Some(satpep) = &self.satpep else { return room };
        let granted = satpep.grant.unwrap_or(u64::MAX).max(satpep.mss);
        (room.min(granted) / satpep.mss).min(65_535) * satpep.mss
    }

    /// Whether the window has opened enough since it was last advertised to be worth a segment: by two segments or half of the
    /// buffer, and to twice of what the peer knows of. Before that, what it sends brings acknowledgements anyway.
    #[inline]
    pub(crate) fn has_window_update(&self) -> bool {
        let gain = (self.rcv_nxt + self.open()).saturating_sub(self.advertised_edge);
        let known = self.advertised_edge.saturating_sub(self.rcv_nxt);
        self.advertised_edge > 0
            && gain > known
            && gain >= (2 * u64::from(self.mss)).min(self.buffer.window(0) / 2).max(1)
    }

    /// RFC 7323, section 4.3: the echo is the timestamp of what moves the left edge of the window, and with delayed
    /// acknowledgements of the first of several.
    #[inline]
    fn remember_timestamp(&mut self, segment: &Segment) {
        if segment.has(Flags::TIMESTAMPS)
            && segment.seq <= self.acknowledged
            && is_older(self.echo, segment.timestamps.value)
        {
            self.echo = segment.timestamps.value;
        }
    }

    /// A segment of the peer without payload and FIN: out of the window it is a probe or a keepalive.
    #[inline]
    pub(crate) fn on_nothing(&mut self, segment: &Segment) {
        self.remember_timestamp(segment);
        self.ack_due |= segment.seq < self.rcv_nxt;
    }

    /// A segment of the peer with payload or a FIN: takes both, and decides when to acknowledge.
    pub(crate) fn on_segment(&mut self, now: Instant, segment: &Segment, config: &Config) {
        self.remember_timestamp(segment);
        let span = u64::from(segment.len) + u64::from(segment.has(Flags::FIN));
        if let Some(satpep) = &mut self.satpep {
            satpep.has_arrival = true;
        }
        match &mut self.feedback {
            Feedback::None => {}
            Feedback::ExactEcho(echo) => self.ack_due |= echo.on_data_exactly(segment.ecn.is_marked()),
            Feedback::Echo(echo) => {
                let begins = echo.on_data(segment.ecn.is_marked(), segment.has(Flags::CWR));
                if config.rules().receiving.hastens_echoes {
                    self.ack_due |= begins || segment.has(Flags::CWR);
                    if begins && config.acks.quick > 0 {
                        self.quick = self.quick.max(QUICK_AFTER_MARK);
                    }
                }
            }
            Feedback::Count(count) => self.ack_due |= count.on_data(segment.ecn, segment.len),
        }
        let Some(range) = self.acceptable(segment, span) else {
            self.repeated(now, segment, config);
            return;
        };
        self.full_segment = self.full_segment.max(segment.len).min(self.mss);
        let in_order = if range.start <= self.rcv_nxt { range.end - range.start } else { 0 };
        if self.buffer.on_arrival(segment.len, self.readable() + in_order) && config.acks.quick > 0 {
            self.quick |= 1;
        }
        if range.start <= self.rcv_nxt {
            self.in_order(now, range, segment, config);
        } else {
            self.beyond(now, range);
        }
    }

    /// The new part of a segment that is inside the window and not beyond the FIN. Takes note of old parts and of the FIN.
    fn acceptable(&mut self, segment: &Segment, span: u64) -> Option<Range<u64>> {
        let data_end = segment.seq + u64::from(segment.len);
        let highest = self.out_of_order.last().map_or(self.rcv_nxt, |last| last.end);
        if segment.has(Flags::FIN) && self.fin == NO_FIN && data_end <= self.edge && data_end >= highest {
            self.fin = data_end;
        }
        // A FIN takes no room in the buffer.
        let end = match self.fin {
            NO_FIN => data_end.min(self.edge),
            fin => (segment.seq + span).min(fin + 1),
        };
        if segment.seq < self.rcv_nxt && segment.seq < end {
            self.report_duplicate(segment.seq..end.min(self.rcv_nxt));
        }
        let range = segment.seq.max(self.rcv_nxt)..end;
        (!range.is_empty()).then_some(range)
    }

    fn report_duplicate(&mut self, range: Range<u64>) {
        self.duplicate_bytes += range.end - range.start;
        self.duplicate = Some(range);
    }

    /// Nothing of a segment is new. ns-2 takes the latest packet in order for a new one however often it arrives.
    fn repeated(&mut self, now: Instant, segment: &Segment, config: &Config) {
        let is_latest = segment.seq + u64::from(segment.len) == self.rcv_nxt && self.out_of_order.is_empty();
        if self.delays_as_ns2 && is_latest && self.ack_at == Instant::FAR_FUTURE {
            self.unacknowledged = self.full_segment.into();
            self.ack_at = now + config.acks.delay;
        } else {
            self.ack_due = true;
        }
    }

    fn in_order(&mut self, now: Instant, range: Range<u64>, segment: &Segment, config: &Config) {
        let had_holes = !self.out_of_order.is_empty();
        let before = self.rcv_nxt;
        self.rcv_nxt = range.end;
        while let Some(first) = self.out_of_order.first().filter(|first| first.start <= self.rcv_nxt) {
            self.rcv_nxt = self.rcv_nxt.max(first.end);
            self.out_of_order.pop_first();
            self.buffer.on_filled(first.end - first.start);
        }
        self.buffer.on_data(now, self.rcv_nxt - before, segment, self.edge - before);
        self.unacknowledged += if self.delays_as_ns2 { self.full_segment.into() } else { range.end - range.start };
        let is_full = self.unacknowledged > u64::from(config.acks.every - 1) * u64::from(self.full_segment);
        let is_quick = self.quick > 0;
        self.quick = self.quick.saturating_sub(1);
        if had_holes || is_full || is_quick || segment.has(Flags::FIN) || self.is_pushed(segment, config) {
            self.ack_due = true;
        } else if self.ack_at == Instant::FAR_FUTURE {
            self.ack_at = now + config.acks.delay;
        }
    }

    /// Whether a segment is acknowledged because it is full and pushed.
    fn is_pushed(&self, segment: &Segment, config: &Config) -> bool {
        let is_full = segment.len >= self.full_segment;
        config.rules().receiving.acknowledges_pushed && config.acks.quick > 0 && is_full && segment.has(Flags::PSH)
    }

    fn beyond(&mut self, now: Instant, range: Range<u64>) {
        let is_quick = self.quick > 0;
        self.quick = self.quick.saturating_sub(1);
        let compression = &mut self.compression;
        let due = if is_quick { Due::Now } else { compression.hold(now, self.rcv_nxt, self.buffer.rtt()) };
        match due {
            Due::Now => self.ack_due = true,
            Due::At(at) => self.ack_at = self.ack_at.min(at),
            Due::WithAnother => {}
        }
        let new = self.out_of_order.insert(range.clone());
        if new == 0 {
            self.report_duplicate(range.clone());
        }
        let end = self.out_of_order.last().map_or(self.rcv_nxt, |last| last.end);
        self.buffer.on_gap(new, end - self.rcv_nxt);
        self.remember_report(&range);
    }

    /// Puts the range that holds `new` first among those to report, once, and drops what is no longer a range of its own.
    fn remember_report(&mut self, new: &Range<u64>) {
        let known = self.out_of_order.range_of(new.start).unwrap_or(new.clone());
        let mut newest = [0; REMEMBERED];
        newest[0] = new.start;
        let others = self.recent.iter().filter(|at| **at > self.rcv_nxt && !known.contains(at));
        for (slot, at) in newest[1..].iter_mut().zip(others) {
            *slot = *at;
        }
        self.recent = newest;
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
    #[inline]
    pub(crate) fn blocks(&mut self, config: &Config) -> (SackBlocks, Flags) {
        if self.out_of_order.is_empty() && self.duplicate.is_none() {
            return (SackBlocks::default(), Flags::default());
        }
        self.find_blocks(config)
    }

    #[inline(never)]
    fn find_blocks(&mut self, config: &Config) -> (SackBlocks, Flags) {
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
        for at in self.recent.into_iter().filter(|at| *at > self.rcv_nxt) {
            let Some(range) = self.out_of_order.range_of(at) else { continue };
            if blocks.len() < usize::from(self.blocks) {
                blocks.push(self.rcv_nxt, range);
            }
        }
        (blocks, flags)
    }

    /// An acknowledgement leaves.
    #[inline]
    pub(crate) fn on_acknowledged(&mut self) {
        self.unacknowledged = 0;
        self.ack_due = false;
        self.ack_at = Instant::FAR_FUTURE;
        self.compression.on_acknowledged();
        if let Some(satpep) = &mut self.satpep {
            satpep.has_arrival = false;
        }
    }

    /// Whether an acknowledgement is to leave now.
    pub(crate) fn is_ack_due(&self, now: Instant) -> bool {
        self.ack_due || self.ack_at <= now
    }

    /// Whether a delayed acknowledgement leaves before what arrives now is looked at. ns-2 runs the events of one instant in
    /// the order in which they were scheduled (scheduler.cc), the timer's before that of the arrival; and as delays come back
    /// a round trip later as gaps between packets, both often fall on one instant.
    #[inline]
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        self.delays_as_ns2 && self.ack_at <= now + ROUNDING
    }

    /// An acknowledgement leaves as soon as it can.
    pub(crate) fn acknowledge_now(&mut self) {
        self.ack_due = true;
    }

    /// When a delayed acknowledgement is due; [`Instant::FAR_FUTURE`] for never.
    pub(crate) fn ack_at(&self) -> Instant {
        self.ack_at
    }

    /// The lowest hole at or above `from`: what a NACK names.
    fn hole(&self, from: u64) -> Option<Range<u64>> {
        let end = self.out_of_order.last()?.end;
        self.out_of_order.gaps(from.max(self.rcv_nxt)..end).next()
    }
}
