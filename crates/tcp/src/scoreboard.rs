//! What is outstanding, segment by segment: sent, selectively acknowledged, lost.
//!
//! Every segment is touched a bounded number of times: when it is sent, when it is found to have arrived or to be lost,
//! and when it is acknowledged. An acknowledgement's cost does not depend on how much is in flight, and only
//! logarithmically on the number of holes.

use crate::control::{LostSegment, RateSample};
use std::collections::VecDeque;
use std::ops::Range;
use units::{Duration, Instant, RangeSet};

/// One segment outstanding.
#[derive(Debug, Clone)]
struct Record {
    seq: u64,
    /// Sequence numbers: payload, and one for a FIN.
    span: u32,
    state: SegmentState,
    is_retransmitted: bool,
    /// Detection by time has found its latest transmission lost.
    was_overdue: bool,
    is_app_limited: bool,
    /// The number of its latest transmission.
    transmission: u64,
    sent_at: Instant,
    /// The connection's totals when it was sent, for the delivery rate.
    delivered: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    lost_before: u64,
    in_flight_after: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SegmentState {
    InFlight,
    Sacked,
    Lost,
}

impl Record {
    fn end(&self) -> u64 {
        self.seq + u64::from(self.span)
    }
}

/// The segments between the first unacknowledged byte and the last one sent.
#[derive(Debug)]
pub struct Scoreboard {
    records: VecDeque<Record>,
    una: u64,
    nxt: u64,
    sacked: RangeSet,
    sacked_bytes: u64,
    sacked_segments: u32,
    lost_segments: u32,
    /// Found lost and not sent again yet.
    lost: Losses,
    /// Everything below was looked at for loss by position.
    searched_to: u64,
    /// Retransmissions in flight, in bytes.
    retransmitted: u64,
    /// Transmissions in order of time, of which stale ones are skipped; kept for detection by time only.
    by_time: Option<VecDeque<(u64, u64)>>,
    transmissions: u64,
    last_late: Late,
    delivered: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    /// The sender ran out of data when so much had been delivered or was in flight.
    app_limited_until: u64,
}

/// What was found lost.
#[derive(Debug)]
struct Losses {
    /// Not sent again yet.
    ranges: RangeSet,
    bytes: u64,
    /// Bytes, ever.
    total: u64,
    /// Losses not yet reported; kept only for a control that follows losses.
    #[expect(clippy::box_collection, reason = "a connection whose control does not ask stays small")]
    unreported: Option<Box<Vec<LostSegment>>>,
}

impl Losses {
    fn new() -> Self {
        Self { ranges: RangeSet::new(), bytes: 0, total: 0, unreported: None }
    }

    /// Takes the segment of `record`, which is in flight.
    fn add(&mut self, record: &Record, total_delivered: u64) {
        let span = u64::from(record.span);
        self.ranges.insert(record.seq..record.end());
        self.bytes += span;
        self.total += span;
        if let Some(unreported) = &mut self.unreported {
            unreported.push(LostSegment {
                seq: record.seq,
                end: record.end(),
                in_flight_at_send: record.in_flight_after,
                lost: self.total - record.lost_before,
                is_app_limited: record.is_app_limited,
                total_delivered,
            });
        }
    }

    /// The segment of `record` is in flight again, or has arrived.
    fn remove(&mut self, record: &Record) {
        self.ranges.remove(record.seq..record.end());
        self.bytes -= u64::from(record.span);
    }
}

/// What an acknowledgement changed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Change {
    /// Bytes newly acknowledged cumulatively.
    pub acked: u64,
    /// Bytes newly known to have arrived.
    pub delivered: u64,
    /// Bytes newly reported by SACK.
    pub sacked: u64,
    /// The newest segment newly delivered.
    pub newest: Option<Delivered>,
    /// Round-trip time of the oldest newly delivered segment that was sent once.
    pub oldest_rtt: Option<Duration>,
    /// The same of those that SACK reports.
    pub sacked_rtt: Option<Duration>,
    /// The lowest end of a newly delivered segment that was sent once.
    pub first_original: Option<u64>,
    /// The timestamp that the acknowledgement echoes, in milliseconds of this end's clock.
    pub echo: Option<u32>,
    /// A segment that was sent more than once is among those acknowledged cumulatively.
    pub acked_retransmission: bool,
    /// What was reported to have arrived twice (RFC 2883): its first byte and its end.
    pub duplicate: Option<(u64, u64)>,
    /// That was outstanding before the acknowledgement, and had been sent once.
    pub repeats_original: bool,
    /// The hole that a NACK names, within what is outstanding: its first byte and its end.
    pub nack: Option<(u64, u64)>,
    /// It delivered a segment below the highest delivered so far that was never sent again: reordering.
    pub is_reordered: bool,
}

/// A segment that was newly delivered.
#[derive(Debug, Clone, Copy)]
pub struct Delivered {
    /// When it was last sent.
    pub sent_at: Instant,
    /// Its end.
    pub end: u64,
    /// It was sent more than once.
    pub is_retransmitted: bool,
    /// The number of its latest transmission.
    pub transmission: u64,
    snapshot: Snapshot,
}

/// The last transmission in flight before all that has arrived.
#[derive(Debug, Clone, Copy, Default)]
struct Late {
    seq: u64,
    transmission: u64,
    /// Nothing in flight lies between it and this transmission.
    looked_to: u64,
}

/// The segment sent last among those that have arrived.
#[derive(Debug, Clone, Copy)]
pub struct Newest {
    /// When it was last sent.
    pub sent_at: Instant,
    /// Its end.
    pub end: u64,
    /// The number of its latest transmission.
    pub transmission: u64,
}

impl From<Delivered> for Newest {
    fn from(Delivered { sent_at, end, transmission, .. }: Delivered) -> Self {
        Self { sent_at, end, transmission }
    }
}

/// What detection by time found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Overdue {
    /// Bytes found lost.
    pub lost: u64,
    /// The number of the latest transmission among them that was none of a segment's first.
    pub lost_again: Option<u64>,
    /// When all of the rest will be lost: one timer for all (`tcp_rack_detect_loss` of Linux).
    pub rest_at: Option<Instant>,
}

/// The connection's totals when a segment was sent, for the delivery rate.
#[derive(Debug, Clone, Copy)]
struct Snapshot {
    delivered: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    lost_before: u64,
    in_flight_after: u64,
    is_app_limited: bool,
}

impl Scoreboard {
    /// Nothing sent; the first byte will be `seq`. `by_time` keeps what detection by time needs (RACK).
    pub fn new(seq: u64, by_time: bool) -> Self {
        Self {
            records: VecDeque::new(),
            una: seq,
            nxt: seq,
            sacked: RangeSet::new(),
            sacked_bytes: 0,
            sacked_segments: 0,
            lost_segments: 0,
            lost: Losses::new(),
            searched_to: seq,
            retransmitted: 0,
            by_time: by_time.then(VecDeque::new),
            transmissions: 0,
            last_late: Late::default(),
            delivered: 0,
            delivered_at: Instant::ZERO,
            first_sent_at: Instant::ZERO,
            app_limited_until: 0,
        }
    }

    /// Starts to load the oldest and the newest segment.
    #[inline]
    pub(crate) fn prefetch(&self) {
        self.records.front().into_iter().chain(self.records.back()).for_each(prefetch::prefetch);
    }

    /// The first byte not acknowledged cumulatively.
    pub fn una(&self) -> u64 {
        self.una
    }

    /// When the first segment not acknowledged cumulatively was last sent.
    pub fn una_sent_at(&self) -> Option<Instant> {
        self.records.front().map(|record| record.sent_at)
    }

    /// The end of what was sent.
    pub fn nxt(&self) -> u64 {
        self.nxt
    }

    /// Bytes between them: FlightSize of RFC 5681.
    pub fn flight(&self) -> u64 {
        self.nxt - self.una
    }

    /// Bytes thought to be in the network: neither acknowledged in any way nor lost (the pipe of RFC 6675).
    pub fn pipe(&self) -> u64 {
        self.flight() - self.sacked_bytes - self.lost.bytes
    }

    /// Segments between the first unacknowledged byte and the last one sent (`packets_out` of Linux).
    pub fn segments(&self) -> u64 {
        self.records.len() as u64
    }

    /// [`Scoreboard::pipe`] in segments, a part of one for a whole one (`tcp_packets_in_flight` of Linux).
    pub fn pipe_segments(&self) -> u64 {
        self.segments() - u64::from(self.sacked_segments) - u64::from(self.lost_segments)
    }

    /// Bytes selectively acknowledged.
    pub fn sacked(&self) -> u64 {
        self.sacked_bytes
    }

    /// Segments that SACK has reported.
    pub fn sacked_segments(&self) -> u64 {
        self.sacked_segments.into()
    }

    /// Bytes found lost and not sent again yet.
    pub fn lost(&self) -> u64 {
        self.lost.bytes
    }

    /// Bytes of retransmissions in flight.
    pub fn retransmitted(&self) -> u64 {
        self.retransmitted
    }

    /// Bytes delivered in all.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// When something was last delivered, or sent with nothing outstanding.
    pub fn delivered_at(&self) -> Instant {
        self.delivered_at
    }

    /// Bytes found lost in all.
    pub fn total_lost(&self) -> u64 {
        self.lost.total
    }

    /// How many transmissions there were.
    pub fn transmissions(&self) -> u64 {
        self.transmissions
    }

    /// Segments found lost are kept from now on until [`Scoreboard::take_losses`].
    pub fn keep_losses(&mut self) {
        self.lost.unreported = Some(Box::default());
    }

    /// The segments found lost since this was last asked; none unless they are kept.
    pub fn take_losses(&mut self) -> Vec<LostSegment> {
        self.lost.unreported.as_deref_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The end of the highest selectively acknowledged range.
    pub fn highest_sacked(&self) -> u64 {
        if self.sacked_bytes == 0 {
            return self.una;
        }
        self.sacked.last().map_or(self.una, |range| range.end)
    }

    /// Whether nothing is outstanding.
    pub fn is_empty(&self) -> bool {
        self.una == self.nxt
    }

    /// When the first outstanding segment was last sent.
    pub fn first_sent_at(&self) -> Option<Instant> {
        self.records.front().map(|record| record.sent_at)
    }

    /// New data leave.
    pub fn on_sent(&mut self, now: Instant, span: u32) {
        if self.is_empty() {
            (self.first_sent_at, self.delivered_at) = (now, now);
        }
        let seq = self.nxt;
        self.nxt += u64::from(span);
        let in_flight_after = self.pipe();
        let record = Record {
            seq,
            span,
            state: SegmentState::InFlight,
            is_retransmitted: false,
            was_overdue: false,
            is_app_limited: self.app_limited_until > 0,
            transmission: self.transmissions,
            sent_at: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            lost_before: self.lost.total,
            in_flight_after,
        };
        self.remember_time(seq);
        self.records.push_back(record);
    }

    fn remember_time(&mut self, seq: u64) {
        if let Some(by_time) = &mut self.by_time {
            by_time.push_back((seq, self.transmissions));
        }
        self.transmissions += 1;
    }

    /// The lowest segment that is lost and not sent again yet: its first byte and span.
    #[inline]
    pub fn first_lost(&self) -> Option<(u64, u32)> {
        if self.lost.bytes == 0 {
            return None;
        }
        let lost = self.lost.ranges.first()?;
        let record = &self.records[self.locate(lost.start)];
        Some((record.seq, record.span))
    }

    /// The segment that starts at `seq` leaves again.
    pub fn on_retransmitted(&mut self, now: Instant, seq: u64) {
        let index = self.locate(seq);
        let (delivered, delivered_at, first_sent_at) = (self.delivered, self.delivered_at, self.first_sent_at);
        let (transmission, total_lost) = (self.transmissions, self.lost.total);
        let is_app_limited = self.app_limited_until > 0;
        let record = &mut self.records[index];
        let span = u64::from(record.span);
        let was_counted = record.state == SegmentState::InFlight && record.is_retransmitted;
        let was_lost = std::mem::replace(&mut record.state, SegmentState::InFlight) == SegmentState::Lost;
        record.is_retransmitted = true;
        record.was_overdue = false;
        record.is_app_limited = is_app_limited;
        record.transmission = transmission;
        record.sent_at = now;
        (record.delivered, record.delivered_at, record.first_sent_at) = (delivered, delivered_at, first_sent_at);
        record.lost_before = total_lost;
        if was_lost {
            self.lost.remove(record);
            self.lost_segments -= 1;
        }
        if !was_counted {
            self.retransmitted += span;
        }
        let in_flight_after = self.pipe();
        self.records[index].in_flight_after = in_flight_after;
        self.remember_time(seq);
    }

    /// Everything before `ack` has arrived.
    pub fn on_cumulative(&mut self, now: Instant, ack: u64, change: &mut Change) {
        if ack <= self.una {
            return;
        }
        change.acked = ack - self.una;
        let (highest, had_sacked) = (self.highest_sacked(), self.sacked_bytes > 0);
        while let Some(record) = self.records.front_mut() {
            if record.seq >= ack {
                break;
            }
            if record.end() > ack {
                let part = (ack - record.seq) as u32;
                let taken = Record { span: part, ..record.clone() };
                (record.seq, record.span) = (ack, record.span - part);
                self.take_out(now, &taken, highest, change);
                // The rest of it is a segment still.
                match taken.state {
                    SegmentState::Sacked => self.sacked_segments += 1,
                    SegmentState::Lost => self.lost_segments += 1,
                    SegmentState::InFlight => {}
                }
                break;
            }
            let Some(record) = self.records.pop_front() else { break };
            self.take_out(now, &record, highest, change);
        }
        if had_sacked {
            self.sacked.remove(self.una..ack);
        }
        self.una = ack;
        self.searched_to = self.searched_to.max(ack);
        if let Some(by_time) = self.by_time.as_mut().filter(|_| self.records.is_empty()) {
            by_time.clear();
        }
        self.after_delivery(now, change);
    }

    /// A record, or its first part, leaves the scoreboard: it was acknowledged cumulatively.
    fn take_out(&mut self, now: Instant, record: &Record, highest: u64, change: &mut Change) {
        let span = u64::from(record.span);
        change.acked_retransmission |= record.is_retransmitted;
        change.is_reordered |=
            record.end() < highest && !record.is_retransmitted && record.state != SegmentState::Sacked;
        match record.state {
            SegmentState::Sacked => {
                self.sacked_bytes -= span;
                self.sacked_segments -= 1;
                return;
            }
            SegmentState::Lost => {
                self.lost.remove(record);
                self.lost_segments -= 1;
            }
            SegmentState::InFlight if record.is_retransmitted => self.retransmitted -= span,
            SegmentState::InFlight => {}
        }
        self.deliver(now, record, change);
    }

    /// `range` has arrived, says a SACK block. What lies outside of what is outstanding is ignored.
    pub fn on_sack(&mut self, now: Instant, range: Range<u64>, change: &mut Change) {
        let range = range.start.max(self.una)..range.end.min(self.nxt);
        if self.sacked.covers(&range) {
            return;
        }
        let highest = self.highest_sacked();
        let mut index = self.locate(range.start);
        while let Some(record) = self.records.get_mut(index).filter(|record| record.seq < range.end) {
            index += 1;
            if record.seq < range.start || record.end() > range.end {
                continue;
            }
            if record.state == SegmentState::Sacked {
                // Known already: go on behind the known range.
                let seq = record.seq;
                index = self.sacked.range_of(seq).map_or(index, |known| self.locate(known.end)).max(index);
                continue;
            }
            let was = std::mem::replace(&mut record.state, SegmentState::Sacked);
            let record = record.clone();
            self.sack_record(now, &record, was, highest, change);
        }
        self.after_delivery(now, change);
    }

    fn sack_record(&mut self, now: Instant, record: &Record, was: SegmentState, highest: u64, change: &mut Change) {
        let span = u64::from(record.span);
        match was {
            SegmentState::Lost => {
                self.lost.remove(record);
                self.lost_segments -= 1;
            }
            SegmentState::InFlight if record.is_retransmitted => self.retransmitted -= span,
            _ => {}
        }
        change.is_reordered |= record.end() < highest && !record.is_retransmitted;
        self.sacked.insert(record.seq..record.end());
        self.sacked_bytes += span;
        self.sacked_segments += 1;
        change.sacked += span;
        if !record.is_retransmitted {
            let rtt = now.since(record.sent_at);
            change.sacked_rtt = Some(change.sacked_rtt.map_or(rtt, |oldest| oldest.max(rtt)));
        }
        self.deliver(now, record, change);
    }

    fn deliver(&mut self, now: Instant, record: &Record, change: &mut Change) {
        change.delivered += u64::from(record.span);
        if !record.is_retransmitted {
            let rtt = now.since(record.sent_at);
            change.oldest_rtt = Some(change.oldest_rtt.map_or(rtt, |oldest| oldest.max(rtt)));
            change.first_original = Some(change.first_original.map_or(record.end(), |first| first.min(record.end())));
        }
        if change.newest.is_none_or(|newest| newest.transmission < record.transmission) {
            change.newest = Some(Delivered {
                sent_at: record.sent_at,
                end: record.end(),
                is_retransmitted: record.is_retransmitted,
                transmission: record.transmission,
                snapshot: Snapshot {
                    delivered: record.delivered,
                    delivered_at: record.delivered_at,
                    first_sent_at: record.first_sent_at,
                    lost_before: record.lost_before,
                    in_flight_after: record.in_flight_after,
                    is_app_limited: record.is_app_limited,
                },
            });
        }
    }

    fn after_delivery(&mut self, now: Instant, change: &Change) {
        if let Some(newest) = &change.newest {
            self.first_sent_at = newest.sent_at;
            self.delivered_at = now;
        }
    }

    /// Counts what `change` delivered, and gives the delivery rate that follows (draft-cheng-iccrg-delivery-rate-
    /// estimation, section 3.3). `min_rtt` guards against samples that are too short to mean anything.
    pub fn rate_sample(&mut self, now: Instant, change: &Change, min_rtt: Duration) -> Option<RateSample> {
        self.delivered += change.delivered;
        if self.app_limited_until > 0 && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        let newest = change.newest?;
        let snapshot = newest.snapshot;
        let send_elapsed = newest.sent_at.since(snapshot.first_sent_at);
        let ack_elapsed = now.since(snapshot.delivered_at);
        let interval = send_elapsed.max(ack_elapsed);
        Some(RateSample {
            delivered: self.delivered - snapshot.delivered,
            interval,
            prior_delivered: snapshot.delivered,
            total_delivered: self.delivered,
            total_lost: self.lost.total,
            lost: self.lost.total - snapshot.lost_before,
            in_flight_at_send: snapshot.in_flight_after,
            is_app_limited: snapshot.is_app_limited,
            is_reliable: interval >= min_rtt && !interval.is_zero(),
        })
    }

    /// Whether the sender had nothing to send, and what has been in flight then or since is not delivered yet.
    pub fn is_app_limited(&self) -> bool {
        self.app_limited_until > 0
    }

    /// The sender has nothing more to send for now: rates sampled from here on may be too low.
    pub fn on_app_limited(&mut self) {
        self.app_limited_until = (self.delivered + self.pipe()).max(1);
    }

    /// Marks lost what RFC 6675 calls so: unacknowledged segments below three separate SACKed ranges, or below more than
    /// two segments' worth of SACKed bytes. Returns how many bytes that found.
    pub fn mark_lost_by_position(&mut self, mss: u32, threshold: u32) -> u64 {
        let (mut ranges, mut bytes, mut edge) = (0, 0, None);
        for range in self.sacked.iter().rev() {
            ranges += 1;
            bytes += range.end - range.start;
            if ranges >= threshold || bytes > u64::from(threshold - 1) * u64::from(mss) {
                edge = Some(range.start);
                break;
            }
        }
        let Some(edge) = edge.filter(|edge| *edge > self.searched_to) else { return 0 };
        let from = std::mem::replace(&mut self.searched_to, edge);
        self.mark_lost_between(from, edge, false)
    }

    /// Marks the first outstanding segment lost, if it is thought to be in flight.
    pub fn mark_first_lost(&mut self) -> u64 {
        match self.records.front() {
            Some(first) => self.mark_lost_between(first.seq, first.end(), true),
            None => 0,
        }
    }

    /// Marks everything lost that is not known to have arrived: after a timeout.
    pub fn mark_all_lost(&mut self) -> u64 {
        self.searched_to = self.nxt;
        self.mark_lost_between(self.una, self.nxt, true)
    }

    /// Marks lost the first segment and what was last sent at least `rtt` ago, as far as it is not known to have arrived
    /// (`tcp_timeout_mark_lost` of Linux 6.x).
    pub fn mark_old_lost(&mut self, now: Instant, rtt: Duration) {
        for (index, record) in self.records.iter_mut().enumerate() {
            if record.state == SegmentState::InFlight && (index == 0 || now.since(record.sent_at) >= rtt) {
                Self::lose(record, &mut self.lost, (&mut self.lost_segments, &mut self.retransmitted), self.delivered);
            }
        }
    }

    /// What counts as lost and was not sent again yet counts as in flight again: the loss was none. Detection by time does not look
    /// again at what it found lost (Linux: `tcp_undo_cwnd_reduction` leaves `tsorted_sent_queue` alone).
    pub fn unmark_lost(&mut self) {
        while let Some(lost) = self.lost.ranges.pop_first() {
            let mut index = self.locate(lost.start);
            while let Some(record) = self.records.get_mut(index).filter(|record| record.seq < lost.end) {
                index += 1;
                record.state = SegmentState::InFlight;
                self.lost.bytes -= u64::from(record.span);
                self.lost_segments -= 1;
                self.retransmitted += if record.is_retransmitted { u64::from(record.span) } else { 0 };
            }
        }
        self.searched_to = self.una;
        self.restore_times();
    }

    /// Detection by time has passed what was found lost otherwise: it starts again.
    fn restore_times(&mut self) {
        let Some(by_time) = &mut self.by_time else { return };
        let is_looked_at = |record: &&Record| record.state == SegmentState::InFlight && !record.was_overdue;
        let in_flight = self.records.iter().filter(is_looked_at);
        let mut times: Vec<(u64, u64)> = in_flight.map(|record| (record.seq, record.transmission)).collect();
        times.sort_unstable_by_key(|(_, transmission)| *transmission);
        *by_time = times.into();
        self.last_late = Late::default();
    }

    /// Whether the first outstanding segment was reported to have arrived: the receiver has dropped it since (RFC 2018, section 8;
    /// `tcp_timeout_mark_lost` of Linux 6.x).
    pub fn has_reneged(&self) -> bool {
        self.records.front().is_some_and(|first| first.state == SegmentState::Sacked)
    }

    /// Forgets what SACK said: after a timeout, where the receiver has dropped what it reported.
    pub fn forget_sacks(&mut self) {
        for record in self.records.iter_mut().filter(|record| record.state == SegmentState::Sacked) {
            (record.state, record.was_overdue) = (SegmentState::InFlight, false);
            self.retransmitted += if record.is_retransmitted { u64::from(record.span) } else { 0 };
        }
        self.sacked = RangeSet::new();
        (self.sacked_bytes, self.sacked_segments) = (0, 0);
        self.searched_to = self.una;
        self.restore_times();
    }

    fn mark_lost_between(&mut self, from: u64, to: u64, retransmitted_too: bool) -> u64 {
        let mut found = 0;
        let mut gaps = from;
        while let Some(gap) = self.sacked.gaps(gaps..to).next() {
            gaps = gap.end;
            let mut index = self.locate(gap.start);
            while let Some(record) = self.records.get_mut(index).filter(|record| record.seq < gap.end) {
                index += 1;
                if record.state == SegmentState::InFlight && (retransmitted_too || !record.is_retransmitted) {
                    found += Self::lose(
                        record,
                        &mut self.lost,
                        (&mut self.lost_segments, &mut self.retransmitted),
                        self.delivered,
                    );
                }
            }
        }
        found
    }

    /// A segment in flight is lost: takes part in the counts of lost segments and of bytes sent again.
    fn lose(record: &mut Record, lost: &mut Losses, counts: (&mut u32, &mut u64), delivered: u64) -> u64 {
        let (lost_segments, retransmitted) = counts;
        let span = u64::from(record.span);
        record.state = SegmentState::Lost;
        lost.add(record, delivered);
        *lost_segments += 1;
        if record.is_retransmitted {
            *retransmitted -= span;
        }
        span
    }

    /// Marks lost what was sent before `newest` (RACK, RFC 8985 section 6.2 step 5) and longer ago than `wait`.
    pub fn mark_lost_by_time(&mut self, now: Instant, newest: Newest, wait: Duration) -> Overdue {
        let mut found = Overdue::default();
        while let Some((seq, transmission)) = self.by_time.as_ref().and_then(|by_time| by_time.front().copied()) {
            if let Some(index) = self.in_flight_as(seq, transmission) {
                let record = &mut self.records[index];
                if (record.sent_at, record.end()) >= (newest.sent_at, newest.end) {
                    return found;
                }
                if record.sent_at + wait > now {
                    let rest_at = self.last_sent_before(newest).map(|sent_at| sent_at + wait);
                    return Overdue { rest_at, ..found };
                }
                record.was_overdue = true;
                if record.is_retransmitted {
                    found.lost_again = Some(transmission);
                }
                found.lost += Self::lose(
                    record,
                    &mut self.lost,
                    (&mut self.lost_segments, &mut self.retransmitted),
                    self.delivered,
                );
            }
            if let Some(by_time) = &mut self.by_time {
                by_time.pop_front();
            }
        }
        found
    }

    /// The record of a transmission, if it is the segment's latest and in flight.
    fn in_flight_as(&self, seq: u64, transmission: u64) -> Option<usize> {
        let index = (seq >= self.una).then(|| self.locate(seq))?;
        let record = self.records.get(index)?;
        (record.state == SegmentState::InFlight && record.transmission == transmission).then_some(index)
    }

    /// When the last of the segments in flight that left before `newest` did.
    fn last_sent_before(&mut self, newest: Newest) -> Option<Instant> {
        let place = |transmission| {
            let by_time = self.by_time.as_ref();
            by_time.map_or(0, |by_time| by_time.partition_point(|(_, number)| *number < transmission))
        };
        let end = place(newest.transmission);
        // What has arrived or was found lost is not looked at twice.
        let known = self.last_late;
        let (from, looked_to) = (place(known.transmission), place(known.looked_to.min(newest.transmission)));
        let (seq, transmission) = self
            .last_in_flight(looked_to..end)
            .or_else(|| Some((known.seq, known.transmission)).filter(|late| self.is_in_flight(*late)))
            .or_else(|| self.last_in_flight(0..from))?;
        self.last_late = Late { seq, transmission, looked_to: newest.transmission };
        self.sent_at(seq)
    }

    /// The last transmission in flight of a part of those in order of time.
    fn last_in_flight(&self, within: Range<usize>) -> Option<(u64, u64)> {
        let by_time = self.by_time.as_ref()?;
        by_time.range(within).rev().copied().find(|sent| self.is_in_flight(*sent))
    }

    fn is_in_flight(&self, (seq, transmission): (u64, u64)) -> bool {
        self.in_flight_as(seq, transmission).is_some()
    }

    /// The last outstanding segment that has not arrived, for a probe: its first byte and span.
    pub fn last_outstanding(&self) -> Option<(u64, u32)> {
        let end = self.sacked.last().filter(|last| last.end == self.nxt).map_or(self.nxt, |last| last.start);
        let record = self.records.get(self.locate(end.checked_sub(1)?)).filter(|record| record.seq < end)?;
        Some((record.seq, record.span))
    }

    /// The segment that starts at or holds `seq`: its first byte, span, and whether it was sent more than once.
    pub fn segment_at(&self, seq: u64) -> Option<(u64, u32, bool)> {
        let record = self.records.get(self.locate(seq)).filter(|record| record.seq <= seq && seq < record.end())?;
        Some((record.seq, record.span, record.is_retransmitted))
    }

    /// When the segment that holds `seq` was last sent.
    pub fn sent_at(&self, seq: u64) -> Option<Instant> {
        let record = self.records.get(self.locate(seq)).filter(|record| record.seq <= seq && seq < record.end())?;
        Some(record.sent_at)
    }

    /// Whether SACK says that the byte `seq` has arrived.
    pub fn is_sacked(&self, seq: u64) -> bool {
        self.sacked.contains(seq)
    }

    /// Whether the byte `seq` is of a segment that was sent once, and is not acknowledged cumulatively.
    pub fn is_outstanding_once(&self, seq: u64) -> bool {
        self.segment_at(seq).is_some_and(|(_, _, is_retransmitted)| !is_retransmitted)
    }

    /// Whether the byte `seq` is of a segment that was sent again and that SACK has reported, below another one.
    pub fn is_sacked_again(&self, seq: u64) -> bool {
        let was_sent_again = self.segment_at(seq).is_some_and(|(_, _, is_retransmitted)| is_retransmitted);
        was_sent_again && self.is_sacked(seq) && seq < self.highest_sacked()
    }

    /// The unsacked parts of `within`, ascending.
    pub fn holes(&self, within: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        self.sacked.gaps(within)
    }

    /// Marks the segment that holds `seq` lost, whatever else is known.
    pub fn mark_lost_at(&mut self, seq: u64) -> u64 {
        match self.segment_at(seq) {
            Some((seq, span, _)) => self.mark_lost_between(seq, seq + u64::from(span), true),
            None => 0,
        }
    }

    /// Index of the record that holds `seq`. Segments are mostly of one size, which makes the first guess right.
    fn locate(&self, seq: u64) -> usize {
        let Some(first) = self.records.front() else { return 0 };
        let guess = (seq.saturating_sub(first.seq) / u64::from(first.span.max(1))) as usize;
        if self.records.get(guess).is_some_and(|record| record.seq <= seq && seq < record.end()) {
            return guess;
        }
        self.records.partition_point(|record| record.end() <= seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux's timer of reordering waits for the last segment that may be late (`tcp_rack_detect_loss`), so that a burst is
    /// found lost at once.
    #[test]
    fn what_may_be_late_is_waited_for_until_the_last_of_it_is() {
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let mut board = Scoreboard::new(0, true);
        (0..5).for_each(|number| board.on_sent(at(number), 10));
        let wait = Duration::from_millis(125);
        let mut change = Change::default();
        board.on_sack(at(100), 40..50, &mut change);
        let newest = change.newest.expect("arrived").into();
        let due = |ms| Overdue { rest_at: Some(at(ms) + wait), ..Overdue::default() };
        assert_eq!(board.mark_lost_by_time(at(100), newest, wait), due(3));
        board.on_sack(at(101), 30..40, &mut Change::default());
        assert_eq!(board.mark_lost_by_time(at(101), newest, wait), due(2));
        assert_eq!(board.mark_lost_by_time(at(127), newest, wait), Overdue { lost: 30, ..Overdue::default() });
    }

    /// Linux's list of transmissions (`tsorted_sent_queue`) loses a segment that detection by time finds lost, until that is sent again:
    /// where the loss turns out to be none, only a timeout can find it lost again.
    #[test]
    fn what_was_found_late_and_counts_as_in_flight_again_is_late_no_more() {
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let wait = Duration::from_millis(125);
        let mut board = Scoreboard::new(0, true);
        (0..5).for_each(|number| board.on_sent(at(number), 10));
        let detect = |board: &mut Scoreboard, ms: u64, reported| {
            let mut change = Change::default();
            board.on_sack(at(ms), reported, &mut change);
            board.mark_lost_by_time(at(ms), change.newest.expect("arrived").into(), wait).lost
        };
        assert_eq!(detect(&mut board, 127, 30..40), 30);
        board.on_retransmitted(at(130), 0);
        board.mark_all_lost();
        board.unmark_lost();
        assert_eq!((board.lost(), board.pipe()), (0, 40));
        board.on_sent(at(200), 10);
        assert_eq!(detect(&mut board, 400, 50..60), 20, "those that were sent again, or not found late");
        assert_eq!(board.first_lost(), Some((0, 10)));
        assert_eq!(board.mark_all_lost(), 20);
    }

    /// `tcp_packets_in_flight` of Linux: whatever happens to a segment, a part of one counts as one.
    #[test]
    fn segments_in_flight_are_those_that_have_neither_arrived_nor_are_lost() {
        let mut board = Scoreboard::new(0, true);
        for span in [10, 4, 10, 4, 10, 10] {
            board.on_sent(Instant::ZERO, span);
        }
        assert_eq!((board.segments(), board.pipe_segments(), board.pipe()), (6, 6, 48));
        board.on_sack(Instant::ZERO, 14..28, &mut Change::default());
        board.mark_first_lost();
        assert_eq!((board.segments(), board.pipe_segments(), board.pipe()), (6, 3, 24));
        board.on_retransmitted(Instant::ZERO, 0);
        assert_eq!(board.pipe_segments(), 4);
        board.mark_all_lost();
        assert_eq!((board.pipe_segments(), board.pipe()), (0, 0));
        board.unmark_lost();
        assert_eq!(board.pipe_segments(), 4);
        board.on_cumulative(Instant::ZERO, 16, &mut Change::default());
        assert_eq!((board.segments(), board.pipe_segments()), (4, 2), "a part of what has arrived is left");
        board.forget_sacks();
        assert_eq!((board.pipe_segments(), board.pipe()), (4, 32));
        board.on_cumulative(Instant::ZERO, 48, &mut Change::default());
        assert_eq!((board.segments(), board.pipe_segments()), (0, 0));
    }

    /// One segment at a time, as with requests and responses: nothing is ever found lost, and nothing may pile up.
    #[test]
    fn times_of_transmissions_do_not_outlive_the_flight() {
        let mut board = Scoreboard::new(1, true);
        for number in 1..1_000 {
            board.on_sent(Instant::ZERO, 1);
            board.on_cumulative(Instant::ZERO, number + 1, &mut Change::default());
        }
        assert_eq!(board.by_time.as_ref().map(VecDeque::len), Some(0));
    }

    /// What draft-ietf-ccwg-bbr (section 5.5.10.2) wants to know of a lost packet is of the time when that packet was sent.
    #[test]
    fn a_lost_segment_tells_what_was_in_flight_with_it_and_how_much_was_lost_since() {
        let mut board = Scoreboard::new(1, false);
        board.mark_first_lost();
        assert_eq!(board.take_losses(), [], "nobody asked");
        board.keep_losses();
        for _ in 0..3 {
            board.on_sent(Instant::ZERO, 1_000);
        }
        board.on_sack(Instant::ZERO, 2_001..3_001, &mut Change::default());
        assert_eq!(board.mark_lost_by_position(1_000, 1), 2_000);
        let told = |lost: &LostSegment| (lost.seq, lost.end, lost.in_flight_at_send, lost.lost);
        let losses = board.take_losses();
        assert_eq!(
            losses.iter().map(told).collect::<Vec<_>>(),
            [(1, 1_001, 1_000, 1_000), (1_001, 2_001, 2_000, 2_000)]
        );
        board.on_retransmitted(Instant::ZERO, 1);
        board.mark_first_lost();
        assert_eq!(board.take_losses().iter().map(told).collect::<Vec<_>>(), [(1, 1_001, 1_000, 1_000)]);
    }
}
