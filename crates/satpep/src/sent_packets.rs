//! The sender's record of packets in flight (RFC 9002, A.1). A packet number is never used again, so each packet has one outcome.
//!
//! A packet is acknowledged when an ACK reports its number. It is lost when an ACK covers it and does not report it (at once on an
//! ordered path, after a reordering window where reordering was seen), or when no ACK reaches back to it and it is long overdue.
//! Packets with another DSCP may overtake it in the network (RFC 7657, section 5.1): where only such have arrived since, it is given
//! more time. What a lost packet carried is sent again in a new packet, so that data is retransmitted only after the outcome of its
//! latest copy is known. A packet in a protected range is lost only after its repair symbols are accounted for: the receiver may have
//! recovered it.

use crate::event::Violation;
use crate::loss::LossProcess;
use crate::packet_number::PacketNumber;
use crate::reordering::Reordering;
use crate::stream::{StreamNumber, StreamOffset};
use crate::wire::frame::{AckFrame, OlderRangesFrame, RecoveredFrame};
use peering::dscp::Dscp;
use smallvec::{SmallVec, smallvec};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use units::{Duration, Instant, RangeSet};

/// Names a stream: its place in the session's table and its number, which tells a later stream in the same place apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamKey {
    pub(crate) slot: u32,
    pub(crate) number: StreamNumber,
}

/// What a packet carried, as far as its outcome matters to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SentFrame {
    /// Bytes of a stream; a repeat was sent before.
    Stream {
        key: StreamKey,
        offset: StreamOffset,
        length: u16,
        fin: bool,
        repeat: bool,
    },
    MaxStreamData(StreamKey),
    WatchStream(StreamKey),
    StreamRead(StreamKey),
    MaxData,
    Drain,
    Opened,
    Reset(StreamKey),
    MtuProbe(u16),
    Sample,
    Ping,
}

impl SentFrame {
    /// Bytes of a stream that it carries.
    fn data_bytes(&self) -> usize {
        match self {
            SentFrame::Stream { length, .. } => usize::from(*length),
            _ => 0,
        }
    }
}

pub(crate) type SentFrames = SmallVec<[SentFrame; 2]>;

/// How many packets are in flight, and of those how many carry what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct InFlight {
    packets: usize,
    /// More than pings.
    beyond_pings: usize,
    /// Bytes of streams, which credit and send memory bound.
    data_bytes: usize,
}

impl InFlight {
    /// A packet with these frames alone; none without frames.
    fn of(frames: &SentFrames) -> Self {
        Self {
            packets: usize::from(!frames.is_empty()),
            beyond_pings: usize::from(frames.iter().any(|frame| !matches!(frame, SentFrame::Ping))),
            data_bytes: frames.iter().map(SentFrame::data_bytes).sum(),
        }
    }

    fn add(&mut self, one: Self) {
        self.packets += one.packets;
        self.beyond_pings += one.beyond_pings;
        self.data_bytes += one.data_bytes;
    }

    fn remove(&mut self, one: Self) {
        self.packets -= one.packets;
        self.beyond_pings -= one.beyond_pings;
        self.data_bytes -= one.data_bytes;
    }
}

/// The outcome of a packet, and what it carried.
pub(crate) struct PacketOutcome {
    pub(crate) number: PacketNumber,
    pub(crate) frames: SentFrames,
    pub(crate) sent: Instant,
    /// Bytes that had entered the link when it had, itself included.
    pub(crate) position: u64,
    /// Whether it belonged to a train.
    pub(crate) is_train: bool,
    pub(crate) ip_size: u16,
    pub(crate) outcome: Outcome,
}

impl PacketOutcome {
    pub(crate) fn is_acknowledged(&self) -> bool {
        self.outcome == Outcome::Acknowledged
    }
}

/// The outcome of a packet (RFC 9002, section 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Acknowledged,
    /// Lost, but the peer recovered its stream frames from repair symbols.
    Recovered,
    Lost,
}

/// How a packet left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Departure {
    pub(crate) sent: Instant,
    /// Bytes that had entered the link when it had, itself included.
    pub(crate) position: u64,
    /// Of those, what was sent in this session.
    pub(crate) own: u64,
    pub(crate) ip_size: u16,
    /// Whether it belonged to a train.
    pub(crate) is_train: bool,
}

struct Entry {
    departure: Departure,
    /// When it arrived has been asked for once.
    is_stamped: bool,
    in_flight: bool,
    ack_eliciting: bool,
    acknowledged: bool,
    /// When an ACK first covered it without reporting it.
    missing_since: Option<Instant>,
    dscp: Dscp,
    frames: SentFrames,
}

/// Packets that repair symbols range.
struct ProtectedRange {
    packets: Range<PacketNumber>,
    /// How many losses among them can be recovered at most.
    repair_symbols: usize,
    /// The number of the packet with the last symbol.
    last: PacketNumber,
}

/// An acknowledgement of packets never sent: the peer is confused or lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NeverSent;

impl From<NeverSent> for Violation {
    fn from(_: NeverSent) -> Self {
        Violation::AckOfUnsent
    }
}

/// The packets whose outcome is not known.
pub(crate) struct SentPackets {
    first: PacketNumber,
    entries: VecDeque<Entry>,
    /// Those of them that are not in flight: the others are found without a look at each packet of a long record.
    concluded: RangeSet<PacketNumber>,
    /// IP bytes of all packets so far, and of the longest.
    sent_bytes: u64,
    longest: u16,
    in_flight: InFlight,
    reordering: Reordering,
    /// The same between packets of different markings.
    overtaking: Reordering,
    /// How long a packet at least is given that only such have passed that are marked otherwise.
    least_overtaking: Duration,
    /// Whether not all packets so far were marked as the latest.
    is_mixed: bool,
    latest: Option<Dscp>,
    /// The newest packet of each marking that is known to have arrived.
    newest: SmallVec<[(Dscp, PacketNumber); 2]>,
    /// The latest losses, to find out which of them were only late, and whether one of the same marking had passed.
    recent_losses: BTreeMap<PacketNumber, RecentLoss>,
    /// IP bytes of packets that were taken for lost and have arrived after all.
    late_bytes: u64,
    /// Packets of trains that have arrived and are recorded no longer, in order: an acknowledgement that says so of a whole train has
    /// not the space for all stamps.
    unstamped: VecDeque<(PacketNumber, Departure)>,
    /// When the earliest missing packet counts as lost.
    loss_deadline: Option<Instant>,
    /// What the latest ACK does not reach back to, which is lost so long after it was sent.
    uncovered: Option<(PacketNumber, Duration)>,
    /// The newest packet known to have arrived.
    largest_acked: Option<PacketNumber>,
    largest_acked_sent: Option<Instant>,
    /// Acknowledgements are passed over until then.
    deaf_until: Instant,
    /// Until then neither a timeout nor an acknowledgement has the missing packets looked through again: there were many.
    rests_until: Instant,
    protected: VecDeque<ProtectedRange>,
    process: LossProcess,
    /// Packets below this were sent before the end of the latest outage.
    cut_off_to: PacketNumber,
}

/// A packet that was taken for lost.
#[derive(Debug, Clone, Copy)]
struct RecentLoss {
    at: Instant,
    /// One that is marked alike and was sent later had arrived.
    is_passed: bool,
    ip_size: u16,
}

impl SentPackets {
    /// Losses that are remembered, to see whether they were only late: a third of what 1 Gbit/s carries within the largest reordering window.
    const RECENT_LOSSES: usize = 4096;
    /// Packets of trains that are remembered until they are stamped, if one acknowledgement has settled them all: as many as two of
    /// the longest trains have.
    const UNSTAMPED: usize = 1024;
    /// A record of so many packets is long; an ACK that decides the outcome of fewer than one in so many is worth little.
    const LONG: usize = 4096;
    const LITTLE: usize = 64;
    const DEAF: Duration = Duration::from_millis(2);
    /// After a look through many missing packets, so long for each passes until the next one: about ten times what the look took, which
    /// leaves most of the processor to other peers.
    const REST: Duration = Duration::from_nanos(250);
    /// A packet in flight counts as one with data for each so many bytes of streams: a peer chooses how many it allows at once.
    const FEW_BYTES: usize = 256;
    /// Ranges that are remembered as protected: those that an honest peer has in flight at 1 Gbit/s over 600 ms, and more.
    const MOST_PROTECTED: usize = 512;
    /// Packets that are recorded at most beside those in flight that carry data: several times as many as an honest peer leaves behind
    /// one of which it does not know, at 1 Gbit/s over 600 ms.
    pub(crate) const MOST_WITHOUT_DATA: usize = 1 << 18;
    /// The horizon is about one and a half round trips: this part of it is a quarter of one, as RFC 8985 (section 6.2.1) gives
    /// what is late where reordering is to be expected.
    const OVERTAKING_SHARE: u64 = 6;

    pub(crate) fn new(reordering: Duration) -> Self {
        Self {
            first: PacketNumber::ZERO,
            entries: VecDeque::new(),
            concluded: RangeSet::new(),
            sent_bytes: 0,
            longest: 0,
            in_flight: InFlight::default(),
            reordering: Reordering::new(reordering),
            overtaking: Reordering::new(Duration::ZERO),
            least_overtaking: Duration::ZERO,
            is_mixed: false,
            latest: None,
            newest: SmallVec::new(),
            recent_losses: BTreeMap::new(),
            late_bytes: 0,
            unstamped: VecDeque::new(),
            loss_deadline: None,
            uncovered: None,
            largest_acked: None,
            largest_acked_sent: None,
            deaf_until: Instant::ZERO,
            rests_until: Instant::ZERO,
            protected: VecDeque::new(),
            process: LossProcess::new(),
            cut_off_to: PacketNumber::ZERO,
        }
    }

    /// The number of the next packet.
    pub(crate) fn next_number(&self) -> PacketNumber {
        self.first + self.entries.len() as u64
    }

    /// The lowest packet number whose outcome is not known.
    pub(crate) fn lowest_tracked(&self) -> PacketNumber {
        self.first
    }

    /// Whether an ack-eliciting packet is in flight.
    pub(crate) fn awaits_ack(&self) -> bool {
        self.in_flight.packets > 0
    }

    /// Whether more is in flight than pings.
    pub(crate) fn awaits_more_than_pings(&self) -> bool {
        self.in_flight.beyond_pings > 0
    }

    pub(crate) fn loss_deadline(&self) -> Option<Instant> {
        self.loss_deadline
    }

    /// IP bytes of all packets so far.
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// IP bytes of the longest packet so far.
    pub(crate) fn longest(&self) -> u16 {
        self.longest
    }

    /// Records the packet [`SentPackets::next_number`], before which `position` bytes had entered the link. One without frames is
    /// never in flight.
    pub(crate) fn record(&mut self, now: Instant, position: u64, ip_size: usize, dscp: Dscp, frames: SentFrames) {
        let ack_eliciting = !frames.is_empty();
        self.in_flight.add(InFlight::of(&frames));
        if !ack_eliciting {
            let number = self.next_number();
            self.concluded.insert(number..number.next());
        }
        let ip_size = u16::try_from(ip_size).unwrap_or(u16::MAX);
        self.is_mixed |= self.latest.replace(dscp).is_some_and(|latest| latest != dscp);
        self.sent_bytes += u64::from(ip_size);
        self.longest = self.longest.max(ip_size);
        let position = position + u64::from(ip_size);
        self.entries.push_back(Entry {
            departure: Departure { sent: now, position, own: self.sent_bytes, ip_size, is_train: false },
            is_stamped: false,
            in_flight: ack_eliciting,
            ack_eliciting,
            acknowledged: false,
            missing_since: None,
            dscp,
            frames,
        });
        self.forget_concluded();
        if self.is_overfull() {
            // Its outcome changes what is to be sent, so that it waits until this packet is written.
            self.loss_deadline = Some(now.max(self.rests_until));
        }
    }

    /// Whether the record is too long for what is in flight: a peer that acknowledges later packets, or asks for many, keeps back the
    /// acknowledgement of an early one.
    fn is_overfull(&self) -> bool {
        self.entries.len() > Self::MOST_WITHOUT_DATA + self.in_flight.data_bytes / Self::FEW_BYTES
    }

    /// Takes the oldest packets for lost while the record is too long.
    fn shorten(&mut self, outcomes: &mut Vec<PacketOutcome>) {
        while self.is_overfull() {
            self.conclude(self.first..self.first.next(), Outcome::Lost, outcomes);
            self.forget_concluded();
        }
    }

    /// IP bytes of packets that were taken for lost and have arrived after all.
    pub(crate) fn late_bytes(&self) -> u64 {
        self.late_bytes
    }

    /// Whether the latest packet asks to be acknowledged.
    pub(crate) fn asked_latest(&self) -> bool {
        self.entries.back().is_some_and(|entry| entry.ack_eliciting)
    }

    /// The latest packet belongs to a train.
    pub(crate) fn mark_train(&mut self) {
        if let Some(entry) = self.entries.back_mut() {
            entry.departure.is_train = true;
        }
    }

    fn entry_mut(&mut self, number: PacketNumber) -> Option<&mut Entry> {
        self.entries.get_mut(usize::try_from(number.checked_since(self.first)?).ok()?)
    }

    /// Whether `number` is the last packet that is to be answered: no other ACK may come after the one for it.
    fn is_last_awaited(&self, number: PacketNumber) -> bool {
        const LOOKED_AT: usize = 64;
        let at = number.checked_since(self.first).and_then(|at| usize::try_from(at).ok());
        at.filter(|at| self.entries.get(*at).is_some_and(|entry| entry.in_flight)).is_some_and(|at| {
            let later = self.entries.range(at + 1..);
            later.len() <= LOOKED_AT && !later.into_iter().any(|entry| entry.in_flight)
        })
    }

    /// Decides outcomes by `ack`. Returns the time since its largest packet was sent, unless that was known to have arrived.
    /// A packet that acknowledgements do not reach back to is lost `horizon` after it was sent.
    /// After an ACK that acknowledged little of a long record, for which all of it was walked through, others are passed over for a
    /// moment: those that follow say the same and more. One for the last packet may be followed by none, and is passed over only where
    /// so many are missing that they are probed for.
    pub(crate) fn on_ack(
        &mut self,
        now: Instant,
        ack: &AckFrame<'_>,
        horizon: Duration,
        outcomes: &mut Vec<PacketOutcome>,
    ) -> Result<Option<Duration>, NeverSent> {
        if ack.largest >= self.next_number() {
            return Err(NeverSent);
        }
        if now < self.deaf_until && (now < self.rests_until || !self.is_last_awaited(ack.largest)) {
            return Ok(None);
        }
        let (span, before) = (self.entries.len(), outcomes.len());
        let newest =
            self.entry_mut(ack.largest).filter(|entry| entry.in_flight).map(|entry| now.since(entry.departure.sent));
        if self.largest_acked < Some(ack.largest) {
            self.largest_acked = Some(ack.largest);
            self.largest_acked_sent = self.entry_mut(ack.largest).map(|entry| entry.departure.sent);
        }
        self.reordering.on_ack(now, horizon);
        self.overtaking.on_ack(now, horizon);
        self.least_overtaking = (horizon / Self::OVERTAKING_SHARE).min(Reordering::MAX);
        for range in ack.ranges() {
            self.note_late(now, &range);
            self.note_newest(&range);
            self.conclude(range, Outcome::Acknowledged, outcomes);
        }
        self.uncovered = Some((ack.covered_from, horizon));
        self.find_losses(now, Some((ack.covered_from, ack.largest, horizon)), outcomes);
        if span > Self::LONG && (outcomes.len() - before) * Self::LITTLE < span {
            self.deaf_until = self.rests_until.max(now + Self::DEAF);
        }
        Ok(newest)
    }

    /// Packets have arrived that the newest acknowledgements do not reach. Passed over like acknowledgements after a long walk.
    pub(crate) fn on_older_ranges(
        &mut self,
        now: Instant,
        older: &OlderRangesFrame<'_>,
        outcomes: &mut Vec<PacketOutcome>,
    ) -> Result<(), NeverSent> {
        if older.ranges().next().is_some_and(|newest| newest.end > self.next_number()) {
            return Err(NeverSent);
        }
        if now < self.rests_until {
            return Ok(());
        }
        for range in older.ranges() {
            self.note_late(now, &range);
            self.conclude(range, Outcome::Acknowledged, outcomes);
        }
        self.rest_after_ranges(now, older.ranges().count());
        self.forget_concluded();
        Ok(())
    }

    /// The peer says after an outage that `newest` was the newest to arrive, and nothing for `quiet` after it: what was sent
    /// within that time of it is lost.
    pub(crate) fn on_quiet(&mut self, newest: PacketNumber, quiet: Duration, outcomes: &mut Vec<PacketOutcome>) {
        let Some(sent) = self.largest_acked_sent.filter(|_| self.largest_acked == Some(newest)) else { return };
        let end = self.first + self.entries.partition_point(|entry| entry.departure.sent < sent + quiet) as u64;
        self.conclude(newest.next()..end, Outcome::Lost, outcomes);
        self.forget_concluded();
    }

    /// Takes missing packets for lost whose reordering window has passed.
    pub(crate) fn on_timeout(&mut self, now: Instant, outcomes: &mut Vec<PacketOutcome>) {
        if self.loss_deadline.is_some_and(|deadline| deadline <= now) {
            self.find_losses(now, None, outcomes);
        }
    }

    fn find_losses(
        &mut self,
        now: Instant,
        ack: Option<(PacketNumber, PacketNumber, Duration)>,
        outcomes: &mut Vec<PacketOutcome>,
    ) {
        self.loss_deadline = None;
        self.shorten(outcomes);
        self.forget_protected();
        // Only an ACK of a later packet says that one is missing.
        let end = ack.map(|(_, largest, _)| largest).or(self.largest_acked).unwrap_or(self.first);
        let [reordering, overtaking] = [self.reordering.window(), self.overtaking.window().max(self.least_overtaking)];
        let mut looked_at = 0;
        for number in self.in_flight(self.first..end).into_iter().flat_map(PacketNumber::each) {
            looked_at += 1;
            let is_passed = self.is_passed(number, self.entries[(number - self.first) as usize].dscp);
            let patience = if is_passed { reordering } else { overtaking.max(reordering) };
            let entry = &mut self.entries[(number - self.first) as usize];
            let ip_size = entry.departure.ip_size;
            let deadline = match ack {
                Some((covered_from, _, horizon)) if number < covered_from && entry.missing_since.is_none() => {
                    entry.departure.sent + horizon
                }
                Some(_) => *entry.missing_since.get_or_insert(now) + patience,
                None => match (entry.missing_since, self.uncovered) {
                    (Some(since), _) => since + patience,
                    (None, Some((covered_from, horizon))) if number < covered_from => entry.departure.sent + horizon,
                    (None, _) => continue,
                },
            };
            if deadline > now {
                self.loss_deadline = Some(self.loss_deadline.map_or(deadline, |earliest| earliest.min(deadline)));
            } else if !self.may_be_recovered(number) {
                self.recent_losses.insert(number, RecentLoss { at: now, is_passed, ip_size });
                self.conclude(number..number.next(), Outcome::Lost, outcomes);
            }
        }
        while self.recent_losses.len() > Self::RECENT_LOSSES {
            self.recent_losses.pop_first();
        }
        if looked_at > Self::LONG {
            self.rest(now, looked_at);
            self.loss_deadline = self.loss_deadline.map(|deadline| deadline.max(self.rests_until));
        }
        self.forget_concluded();
    }

    /// `looked_at` packets were looked at, which is to be done again only after a while.
    fn rest(&mut self, now: Instant, looked_at: usize) {
        self.rests_until = now + Self::REST * looked_at as u64;
    }

    /// So many ranges were entered into the record of what is concluded, which takes longer the more of them that has.
    fn rest_after_ranges(&mut self, now: Instant, ranges: usize) {
        let looked_at = ranges * self.concluded.len() / Self::LITTLE;
        if looked_at > Self::LONG {
            self.rest(now, looked_at);
        }
    }

    /// Those of `packets` that are in flight.
    fn in_flight(&self, packets: Range<PacketNumber>) -> SmallVec<[Range<PacketNumber>; 8]> {
        let known = packets.start.max(self.first)..packets.end.min(self.next_number());
        self.concluded.gaps(known).collect()
    }

    /// Whether a packet that is marked alike and was sent after `number` has arrived.
    fn is_passed(&self, number: PacketNumber, dscp: Dscp) -> bool {
        self.newest.iter().any(|(marking, newest)| *marking == dscp && *newest > number)
    }

    /// Notes which of the packets that have arrived is the newest of its marking.
    fn note_newest(&mut self, acknowledged: &Range<PacketNumber>) {
        let known = acknowledged.start.max(self.first)..self.next_number().min(acknowledged.end);
        let numbers = if self.is_mixed {
            self.in_flight(known)
        } else {
            smallvec![known.end.saturating_before(1).max(known.start)..known.end]
        };
        for number in numbers.into_iter().flat_map(PacketNumber::each) {
            let dscp = self.entries[(number - self.first) as usize].dscp;
            match self.newest.iter_mut().find(|(marking, _)| *marking == dscp) {
                Some((_, newest)) => *newest = number.max(*newest),
                None => self.newest.push((dscp, number)),
            }
        }
    }

    /// Whether repair symbols may yet make up for the loss of a packet.
    fn may_be_recovered(&self, number: PacketNumber) -> bool {
        let frames = &self.entries[(number - self.first) as usize].frames;
        frames.iter().all(|frame| matches!(frame, SentFrame::Stream { .. }))
            && self.protected.iter().any(|range| range.packets.contains(&number))
    }

    /// The peer answers again after an outage: what was lost in it tells nothing of how packets are lost.
    pub(crate) fn on_outage_over(&mut self) {
        self.cut_off_to = self.next_number();
    }

    /// The peer recovered what packets that were lost carried in streams. It says so again with each acknowledgement: passed over like
    /// those after a long walk.
    pub(crate) fn on_recovered(
        &mut self,
        now: Instant,
        recovered: &RecoveredFrame<'_>,
        outcomes: &mut Vec<PacketOutcome>,
    ) -> Result<(), NeverSent> {
        if recovered.ranges().next().is_some_and(|newest| newest.end > self.next_number()) {
            return Err(NeverSent);
        }
        if now < self.rests_until {
            // Without it, its acknowledgement would take what was recovered for lost.
            self.deaf_until = self.deaf_until.max(self.rests_until);
            return Ok(());
        }
        for range in recovered.ranges() {
            self.conclude(range, Outcome::Recovered, outcomes);
        }
        self.rest_after_ranges(now, recovered.ranges().count());
        Ok(())
    }

    /// Repair symbols for `packets` are all sent, the last of them in the packet `last`.
    pub(crate) fn protect(&mut self, packets: Range<PacketNumber>, repair_symbols: usize, last: PacketNumber) {
        if self.protected.len() >= Self::MOST_PROTECTED {
            self.protected.pop_front();
        }
        self.protected.push_back(ProtectedRange { packets, repair_symbols, last });
    }

    /// Forgets protected ranges whose last symbol was lost or has done what it could, and those of which too much was lost.
    fn forget_protected(&mut self) {
        let acked_to = self.largest_acked.map_or(PacketNumber::ZERO, PacketNumber::next);
        let mut protected = std::mem::take(&mut self.protected);
        protected.retain(|range| {
            let Range { start, end } = range.packets;
            let missing =
                || self.in_flight(start..end.min(acked_to)).iter().map(|gap| gap.end - gap.start).sum::<u64>();
            acked_to <= range.last && missing() <= range.repair_symbols as u64
        });
        self.protected = protected;
    }

    /// The outcome of those of `packets` that are in flight is known.
    fn conclude(&mut self, packets: Range<PacketNumber>, outcome: Outcome, outcomes: &mut Vec<PacketOutcome>) {
        for gap in self.in_flight(packets) {
            PacketNumber::each(gap.clone()).for_each(|number| self.conclude_one(number, outcome, outcomes));
            self.concluded.insert(gap);
        }
    }

    fn conclude_one(&mut self, number: PacketNumber, outcome: Outcome, outcomes: &mut Vec<PacketOutcome>) {
        let Some(entry) = self.entry_mut(number) else { return };
        let acknowledged = outcome == Outcome::Acknowledged;
        entry.in_flight = false;
        entry.acknowledged = acknowledged;
        let (frames, departure) = (std::mem::take(&mut entry.frames), entry.departure);
        self.in_flight.remove(InFlight::of(&frames));
        let Departure { sent, position, ip_size, is_train, .. } = departure;
        outcomes.push(PacketOutcome { number, frames, sent, position, is_train, ip_size, outcome });
    }

    /// The host refused the latest probe with packets of `ip_size` bytes, if it is in flight: it never left, and has no outcome. Returns
    /// whether there is one.
    pub(crate) fn on_refused_probe(&mut self, ip_size: u16) -> bool {
        /// The host refuses a packet at once, or with the next few.
        const LOOKED_AT: usize = 64;
        let latest = self.entries.iter().enumerate().rev().take(LOOKED_AT);
        let is_probe = |entry: &Entry| matches!(entry.frames[..], [SentFrame::MtuProbe(size)] if size == ip_size);
        let found = latest.filter(|(_, entry)| entry.in_flight && is_probe(entry)).map(|(at, _)| at).next();
        let Some(at) = found else { return false };
        let number = self.first + at as u64;
        let entry = &mut self.entries[at];
        // It tells nothing of how packets are lost.
        (entry.in_flight, entry.ack_eliciting) = (false, false);
        let frames = std::mem::take(&mut entry.frames);
        self.in_flight.remove(InFlight::of(&frames));
        self.concluded.insert(number..number.next());
        self.forget_concluded();
        true
    }

    /// Packets that were missing, or taken for lost, and arrived after all were only late.
    fn note_late(&mut self, now: Instant, acknowledged: &Range<PacketNumber>) {
        let late: SmallVec<[(PacketNumber, RecentLoss); 8]> =
            self.recent_losses.range(acknowledged.clone()).map(|(number, loss)| (*number, *loss)).collect();
        for (window, passed) in [(&mut self.reordering, true), (&mut self.overtaking, false)] {
            let late = late.iter().filter(|(_, loss)| loss.is_passed == passed);
            if let Some(worst) = late.map(|(_, loss)| now.since(loss.at)).max() {
                window.on_taken_for_lost(worst);
            }
        }
        for (number, loss) in late {
            self.late_bytes += u64::from(loss.ip_size);
            self.recent_losses.remove(&number);
        }
        if self.reordering.window() > Duration::ZERO || self.overtaking.window() > Duration::ZERO {
            for number in self.in_flight(acknowledged.clone()).into_iter().flat_map(PacketNumber::each) {
                let entry = &self.entries[(number - self.first) as usize];
                if let Some(since) = entry.missing_since {
                    let is_passed = self.is_passed(number, entry.dscp);
                    let window = if is_passed { &mut self.reordering } else { &mut self.overtaking };
                    window.on_late(now.since(since));
                }
            }
        }
    }

    fn forget_concluded(&mut self) {
        let before = self.first;
        while self.entries.front().is_some_and(|entry| !entry.in_flight) {
            if let Some(entry) = self.entries.pop_front().filter(|entry| entry.ack_eliciting)
                && (entry.acknowledged || self.first >= self.cut_off_to)
            {
                self.process.observe(entry.departure.sent, entry.acknowledged);
                if entry.acknowledged && entry.departure.is_train && !entry.is_stamped {
                    self.unstamped.push_back((self.first, entry.departure));
                }
            }
            self.first = self.first.next();
        }
        self.concluded.remove(before..self.first);
        let beyond = self.unstamped.len().saturating_sub(Self::UNSTAMPED);
        self.unstamped.drain(..beyond);
    }

    /// How a packet left that is still recorded, or of a train; once only, for who reports when it arrived.
    pub(crate) fn take_departure(&mut self, number: PacketNumber) -> Option<Departure> {
        if number < self.first {
            let at = self.unstamped.binary_search_by_key(&number, |(number, _)| *number).ok()?;
            return self.unstamped.remove(at).map(|(_, departure)| departure);
        }
        let entry = self.entry_mut(number).filter(|entry| entry.ack_eliciting)?;
        (!std::mem::replace(&mut entry.is_stamped, true)).then_some(entry.departure)
    }

    /// How packets are lost.
    pub(crate) fn loss_process(&self) -> &LossProcess {
        &self.process
    }

    /// The newest packet known to have arrived.
    pub(crate) fn largest_acked(&self) -> Option<PacketNumber> {
        self.largest_acked
    }

    /// The packets from number `from` on, with what they carried (nothing for those that are not in flight any more).
    pub(crate) fn frames_from(&self, from: PacketNumber) -> impl Iterator<Item = (PacketNumber, &SentFrames)> {
        let skipped = usize::try_from(from.saturating_since(self.first)).unwrap_or(usize::MAX).min(self.entries.len());
        let numbers = (0..).map(move |count| self.first + skipped as u64 + count);
        self.entries.range(skipped..).zip(numbers).map(|(entry, number)| (number, &entry.frames))
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "acknowledgements are lists of ranges, often of one")]
mod tests;
