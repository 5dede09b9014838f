//! The sender's record of datagrams: each has a number of its own, so its fate is known for itself.
//!
//! A datagram is settled once: delivered, when an acknowledgement names it; lost, when an acknowledgement covers it and
//! does not name it (at once on a single ordered hop, after a reordering window where reordering was seen), or when
//! acknowledgements have passed it by and it is long overdue. Datagrams that are marked otherwise may overtake it in the
//! network (RFC 7657, section 5.1): where only such have arrived since, it is given more time. What a lost datagram carried is sent again in a new one,
//! so a segment is sent again only when the feedback for its latest copy has come and is negative. What repair symbols
//! cover waits for theirs too: the receiver may have recovered it.

use crate::dscp::Dscp;
use crate::event::Violation;
use crate::loss::LossProcess;
use crate::reordering::Reordering;
use crate::wire::frame::AckFrame;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::ops::Range;
use units::{Duration, Instant};

/// Names a stream: its place in the session's table and its number, which tells a later stream in the same place apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamKey {
    pub(crate) slot: u32,
    pub(crate) number: u64,
}

/// What a datagram carried that must be known when its fate is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SentFrame {
    /// Bytes of a stream; a repeat was sent before.
    Stream {
        key: StreamKey,
        offset: u64,
        length: u16,
        fin: bool,
        repeat: bool,
    },
    MaxStreamData(StreamKey),
    MaxData,
    Drain,
    Opened,
    Reset(StreamKey),
    MtuProbe(u16),
    Sample,
    Ping,
}

pub(crate) type SentFrames = SmallVec<[SentFrame; 2]>;

/// A datagram whose fate is now known.
pub(crate) struct Settled {
    pub(crate) number: u64,
    pub(crate) frames: SentFrames,
    pub(crate) ip_size: u16,
    pub(crate) delivered: bool,
    /// It was lost, but its stream frames were recovered by repair symbols.
    pub(crate) recovered: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Delivered,
    Recovered,
    Lost,
}

struct Entry {
    sent: Instant,
    /// Bytes that had entered the link before it.
    position: u64,
    ip_size: u16,
    in_flight: bool,
    eliciting: bool,
    delivered: bool,
    /// When an acknowledgement first covered it without naming it.
    missing_since: Option<Instant>,
    dscp: Dscp,
    frames: SentFrames,
}

/// Datagrams that repair symbols cover.
struct Cover {
    datagrams: Range<u64>,
    /// How many losses among them can be recovered at most.
    repair_symbols: usize,
    /// The number of the datagram with the last symbol.
    last: u64,
}

/// An acknowledgement of datagrams never sent: the peer is confused or lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NeverSent;

impl From<NeverSent> for Violation {
    fn from(_: NeverSent) -> Self {
        Violation::AckOfUnsent
    }
}

/// The datagrams not yet settled.
pub(crate) struct Ledger {
    first: u64,
    entries: VecDeque<Entry>,
    eliciting: usize,
    reordering: Reordering,
    /// The same between datagrams of different markings.
    overtaking: Reordering,
    /// How long a datagram at least is given that only such have passed that are marked otherwise.
    least_overtaking: Duration,
    /// Whether not all datagrams so far were marked as the latest.
    is_mixed: bool,
    latest: Option<Dscp>,
    /// The newest datagram of each marking that is known to have arrived.
    newest: SmallVec<[(Dscp, u64); 2]>,
    /// The latest losses, to find out which of them were only late, and whether one of the same marking had passed.
    recent_losses: VecDeque<(u64, Instant, bool)>,
    /// When the earliest missing datagram counts as lost.
    loss_deadline: Option<Instant>,
    /// The newest datagram known to have arrived.
    largest_acked: Option<u64>,
    largest_acked_sent: Option<Instant>,
    /// Acknowledgements are passed over until then.
    deaf_until: Instant,
    covers: VecDeque<Cover>,
    process: LossProcess,
    /// Datagrams below this were sent before the end of the latest outage.
    cut_off_to: u64,
}

impl Ledger {
    const RECENT_LOSSES: usize = 256;
    /// A record of so many datagrams is long; an acknowledgement that settles fewer than one in so many tells little.
    const LONG: usize = 4096;
    const LITTLE: usize = 64;
    const DEAF: Duration = Duration::from_millis(2);
    /// The horizon is about one and a half round trips: this part of it is a quarter of one, as RFC 8985 (section 6.2.1) gives
    /// what is late where reordering is to be expected.
    const OVERTAKING_SHARE: u64 = 6;

    pub(crate) fn new(reordering: Duration) -> Self {
        Self {
            first: 0,
            entries: VecDeque::new(),
            eliciting: 0,
            reordering: Reordering::new(reordering),
            overtaking: Reordering::new(Duration::ZERO),
            least_overtaking: Duration::ZERO,
            is_mixed: false,
            latest: None,
            newest: SmallVec::new(),
            recent_losses: VecDeque::new(),
            loss_deadline: None,
            largest_acked: None,
            largest_acked_sent: None,
            deaf_until: Instant::ZERO,
            covers: VecDeque::new(),
            process: LossProcess::new(),
            cut_off_to: 0,
        }
    }

    /// The number of the next datagram.
    pub(crate) fn next_number(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// Every number below is settled.
    pub(crate) fn floor(&self) -> u64 {
        self.first
    }

    /// Whether something that asks for an acknowledgement is under way.
    pub(crate) fn awaits_ack(&self) -> bool {
        self.eliciting > 0
    }

    /// Whether more is under way than pings.
    pub(crate) fn awaits_more_than_pings(&self) -> bool {
        let is_ping = |frame: &SentFrame| matches!(frame, SentFrame::Ping);
        self.entries.iter().rev().any(|entry| entry.in_flight && !entry.frames.iter().all(is_ping))
    }

    pub(crate) fn loss_deadline(&self) -> Option<Instant> {
        self.loss_deadline
    }

    /// Records the datagram [`Ledger::next_number`]. One without frames is settled from the start.
    pub(crate) fn record(&mut self, now: Instant, position: u64, ip_size: usize, dscp: Dscp, frames: SentFrames) {
        let eliciting = !frames.is_empty();
        self.eliciting += usize::from(eliciting);
        let ip_size = u16::try_from(ip_size).unwrap_or(u16::MAX);
        self.is_mixed |= self.latest.replace(dscp).is_some_and(|latest| latest != dscp);
        self.entries.push_back(Entry {
            sent: now,
            position,
            ip_size,
            in_flight: eliciting,
            eliciting,
            delivered: false,
            missing_since: None,
            dscp,
            frames,
        });
        self.forget_settled();
    }

    fn entry_mut(&mut self, number: u64) -> Option<&mut Entry> {
        self.entries.get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// Settles what `ack` tells about. Returns the time since its newest datagram was sent, if that is news.
    /// A datagram that acknowledgements do not reach back to is lost `horizon` after it was sent.
    /// After one that told little of a long record, for which all of it was walked through, others are passed over for a
    /// moment: those that follow say the same and more.
    pub(crate) fn on_ack(
        &mut self,
        now: Instant,
        ack: &AckFrame<'_>,
        horizon: Duration,
        settled: &mut Vec<Settled>,
    ) -> Result<Option<Duration>, NeverSent> {
        if ack.largest >= self.next_number() {
            return Err(NeverSent);
        }
        if now < self.deaf_until {
            return Ok(None);
        }
        let (span, before) = (self.entries.len(), settled.len());
        let newest = self.entry_mut(ack.largest).filter(|entry| entry.in_flight).map(|entry| now.since(entry.sent));
        if self.largest_acked < Some(ack.largest) {
            self.largest_acked = Some(ack.largest);
            self.largest_acked_sent = self.entry_mut(ack.largest).map(|entry| entry.sent);
        }
        self.reordering.on_ack(now, horizon);
        self.overtaking.on_ack(now, horizon);
        self.least_overtaking = (horizon / Self::OVERTAKING_SHARE).min(Reordering::MOST);
        for range in ack.ranges() {
            self.note_late(now, &range);
            self.note_newest(&range);
            for number in range.start.max(self.first)..range.end {
                self.settle(number, Fate::Delivered, settled);
            }
        }
        self.find_losses(now, Some((ack.covered_from, ack.largest, horizon)), settled);
        if span > Self::LONG && (settled.len() - before) * Self::LITTLE < span {
            self.deaf_until = now + Self::DEAF;
        }
        Ok(newest)
    }

    /// The peer says after an outage that `newest` was the newest to arrive, and nothing for `quiet` after it: what was sent
    /// within that time of it is lost.
    pub(crate) fn on_quiet(&mut self, newest: u64, quiet: Duration, settled: &mut Vec<Settled>) {
        let Some(sent) = self.largest_acked_sent.filter(|_| self.largest_acked == Some(newest)) else { return };
        let end = self.first + self.entries.partition_point(|entry| entry.sent < sent + quiet) as u64;
        (self.first.max(newest + 1)..end).for_each(|number| self.settle(number, Fate::Lost, settled));
        self.forget_settled();
    }

    /// Settles missing datagrams whose reordering window has passed.
    pub(crate) fn on_timeout(&mut self, now: Instant, settled: &mut Vec<Settled>) {
        if self.loss_deadline.is_some_and(|deadline| deadline <= now) {
            self.find_losses(now, None, settled);
        }
    }

    fn find_losses(&mut self, now: Instant, ack: Option<(u64, u64, Duration)>, settled: &mut Vec<Settled>) {
        self.loss_deadline = None;
        self.forget_covers();
        let end = ack.map_or(self.next_number(), |(_, largest, _)| largest);
        let [reordering, overtaking] = [self.reordering.window(), self.overtaking.window().max(self.least_overtaking)];
        for number in self.first..end {
            let Some(entry) = self.entries.get((number - self.first) as usize).filter(|entry| entry.in_flight) else {
                continue;
            };
            let is_passed = self.is_passed(number, entry.dscp);
            let patience = if is_passed { reordering } else { overtaking.max(reordering) };
            let entry = &mut self.entries[(number - self.first) as usize];
            let deadline = match ack {
                Some((covered_from, _, horizon)) if number < covered_from => entry.sent + horizon,
                Some(_) => *entry.missing_since.get_or_insert(now) + patience,
                None => match entry.missing_since {
                    Some(since) => since + patience,
                    None => continue,
                },
            };
            if deadline > now {
                self.loss_deadline = Some(self.loss_deadline.map_or(deadline, |earliest| earliest.min(deadline)));
            } else if !self.is_held(number) {
                self.recent_losses.push_back((number, now, is_passed));
                self.settle(number, Fate::Lost, settled);
            }
        }
        while self.recent_losses.len() > Self::RECENT_LOSSES {
            self.recent_losses.pop_front();
        }
        self.forget_settled();
    }

    /// Whether a datagram that is marked alike and was sent after `number` has arrived.
    fn is_passed(&self, number: u64, dscp: Dscp) -> bool {
        self.newest.iter().any(|(marking, newest)| *marking == dscp && *newest > number)
    }

    /// Notes which of the datagrams that have arrived is the newest of its marking.
    fn note_newest(&mut self, delivered: &Range<u64>) {
        let end = self.next_number().min(delivered.end);
        for number in (delivered.start.max(self.first)..end).rev() {
            let dscp = self.entries[(number - self.first) as usize].dscp;
            match self.newest.iter_mut().find(|(marking, _)| *marking == dscp) {
                Some((_, newest)) => *newest = number.max(*newest),
                None => self.newest.push((dscp, number)),
            }
            if !self.is_mixed {
                return;
            }
        }
    }

    /// Whether repair symbols may yet make up for the loss of a datagram.
    fn is_held(&self, number: u64) -> bool {
        let frames = &self.entries[(number - self.first) as usize].frames;
        frames.iter().all(|frame| matches!(frame, SentFrame::Stream { .. }))
            && self.covers.iter().any(|cover| cover.datagrams.contains(&number))
    }

    /// The peer answers again after an outage: what was lost in it tells nothing of how datagrams are lost.
    pub(crate) fn on_outage_over(&mut self) {
        self.cut_off_to = self.next_number();
    }

    /// The peer recovered what datagrams that were lost carried in streams.
    pub(crate) fn on_recovered(&mut self, numbers: Range<u64>, settled: &mut Vec<Settled>) -> Result<(), NeverSent> {
        if numbers.end > self.next_number() {
            return Err(NeverSent);
        }
        (numbers.start.max(self.first)..numbers.end).for_each(|number| self.settle(number, Fate::Recovered, settled));
        Ok(())
    }

    /// Repair symbols for `datagrams` are all sent, the last of them in the datagram `last`.
    pub(crate) fn cover(&mut self, datagrams: Range<u64>, repair_symbols: usize, last: u64) {
        self.covers.push_back(Cover { datagrams, repair_symbols, last });
    }

    /// Forgets the covers whose last symbol was lost or has done what it could, and those that too much was lost of.
    fn forget_covers(&mut self) {
        let acked_to = self.largest_acked.map_or(0, |largest| largest + 1);
        let mut covers = std::mem::take(&mut self.covers);
        covers.retain(|cover| {
            let Range { start, end } = cover.datagrams;
            let known = start.max(self.first)..end.min(acked_to);
            let at = |number: u64| (number - self.first) as usize;
            let missing = || self.entries.range(at(known.start)..at(known.end)).filter(|entry| entry.in_flight).count();
            acked_to <= cover.last && (known.is_empty() || missing() <= cover.repair_symbols)
        });
        self.covers = covers;
    }

    fn settle(&mut self, number: u64, fate: Fate, settled: &mut Vec<Settled>) {
        let Some(entry) = self.entry_mut(number).filter(|entry| entry.in_flight) else { return };
        let (delivered, recovered) = (fate == Fate::Delivered, fate == Fate::Recovered);
        entry.in_flight = false;
        entry.delivered = delivered;
        let (frames, ip_size) = (std::mem::take(&mut entry.frames), entry.ip_size);
        self.eliciting -= usize::from(self.entries[(number - self.first) as usize].eliciting);
        settled.push(Settled { number, frames, ip_size, delivered, recovered });
    }

    /// Datagrams that were missing, or taken for lost, and arrived after all were only late.
    fn note_late(&mut self, now: Instant, delivered: &Range<u64>) {
        if !self.recent_losses.is_empty() {
            for (window, passed) in [(&mut self.reordering, true), (&mut self.overtaking, false)] {
                let late =
                    self.recent_losses.iter().filter(|(number, _, by)| delivered.contains(number) && *by == passed);
                if let Some(worst) = late.map(|(_, lost_at, _)| now.since(*lost_at)).max() {
                    window.on_taken_for_lost(worst);
                }
            }
            self.recent_losses.retain(|(number, ..)| !delivered.contains(number));
        }
        if self.reordering.window() > Duration::ZERO || self.overtaking.window() > Duration::ZERO {
            let end = self.next_number().min(delivered.end);
            for number in delivered.start.max(self.first)..end {
                let entry = &self.entries[(number - self.first) as usize];
                if let Some(since) = entry.missing_since.filter(|_| entry.in_flight) {
                    let is_passed = self.is_passed(number, entry.dscp);
                    let window = if is_passed { &mut self.reordering } else { &mut self.overtaking };
                    window.on_late(now.since(since));
                }
            }
        }
    }

    fn forget_settled(&mut self) {
        while self.entries.front().is_some_and(|entry| !entry.in_flight) {
            if let Some(entry) = self.entries.pop_front().filter(|entry| entry.eliciting)
                && (entry.delivered || self.first >= self.cut_off_to)
            {
                self.process.observe(entry.sent, entry.delivered);
            }
            self.first += 1;
        }
    }

    /// When a datagram that is not settled was sent, and how many bytes had then entered the link.
    pub(crate) fn departure(&self, number: u64) -> Option<(Instant, u64)> {
        let entry = self.entries.get(usize::try_from(number.checked_sub(self.first)?).ok()?)?;
        entry.in_flight.then_some((entry.sent, entry.position + u64::from(entry.ip_size)))
    }

    /// How datagrams are lost.
    pub(crate) fn loss_process(&self) -> &LossProcess {
        &self.process
    }

    /// The newest datagram known to have arrived.
    pub(crate) fn largest_acked(&self) -> Option<u64> {
        self.largest_acked
    }

    /// The datagrams from number `from` on, with what they carried (nothing for those settled already).
    pub(crate) fn frames_from(&self, from: u64) -> impl Iterator<Item = (u64, &SentFrames)> {
        let skipped = usize::try_from(from.saturating_sub(self.first)).unwrap_or(usize::MAX).min(self.entries.len());
        self.entries.range(skipped..).zip(self.first + skipped as u64..).map(|(entry, number)| (number, &entry.frames))
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "acknowledgements are lists of ranges, often of one")]
mod tests {
    use super::*;
    use crate::wire::frame::{Frame, Reader, Writer};

    const HORIZON: Duration = Duration::from_millis(800);

    fn ledger_with(count: u64) -> Ledger {
        let mut ledger = Ledger::new(Duration::ZERO);
        for number in 0..count {
            let frame = SentFrame::Stream {
                key: StreamKey { slot: 0, number: 0 },
                offset: number,
                length: 1,
                fin: false,
                repeat: false,
            };
            ledger.record(at(number), 1500 * number, 1500, Dscp::default(), SmallVec::from_slice(&[frame]));
        }
        ledger
    }

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn offsets(settled: &[Settled], delivered: bool) -> Vec<u64> {
        let chosen = settled.iter().filter(|entry| entry.delivered == delivered);
        chosen
            .flat_map(|entry| &entry.frames)
            .filter_map(|frame| if let SentFrame::Stream { offset, .. } = frame { Some(*offset) } else { None })
            .collect()
    }

    fn acknowledge(
        ledger: &mut Ledger,
        now: Instant,
        ranges: &[Range<u64>],
    ) -> Result<(Vec<u64>, Vec<u64>), NeverSent> {
        acknowledge_from(ledger, now, ranges, 0)
    }

    fn acknowledge_from(
        ledger: &mut Ledger,
        now: Instant,
        ranges: &[Range<u64>],
        floor: u64,
    ) -> Result<(Vec<u64>, Vec<u64>), NeverSent> {
        let mut buffer = [0; 300];
        let mut writer = Writer::new(&mut buffer);
        assert!(writer.ack(ranges.iter().cloned(), 0, floor));
        let length = writer.len();
        let Ok(Some(Frame::Ack(ack))) = Reader::new(&buffer[..length]).next() else { panic!("no ack") };
        let mut settled = Vec::new();
        ledger.on_ack(now, &ack, HORIZON, &mut settled)?;
        Ok((offsets(&settled, true), offsets(&settled, false)))
    }

    #[test]
    fn a_gap_is_loss_at_once_and_is_settled_once() {
        let mut ledger = ledger_with(6);
        assert_eq!(acknowledge(&mut ledger, at(500), &[3..4, 0..2]), Ok((vec![3, 0, 1], vec![2])));
        assert_eq!(acknowledge(&mut ledger, at(510), &[3..5, 0..2]), Ok((vec![4], vec![])));
        assert_eq!(ledger.floor(), 5);
        assert!(ledger.awaits_ack());
        assert_eq!(acknowledge(&mut ledger, at(520), &[3..6, 0..2]), Ok((vec![5], vec![])));
        assert!(!ledger.awaits_ack());
    }

    #[test]
    fn what_was_never_sent_cannot_be_acknowledged() {
        assert_eq!(acknowledge(&mut ledger_with(3), at(500), &[0..4]), Err(NeverSent));
    }

    #[test]
    fn once_reordering_was_seen_gaps_are_given_time() {
        let mut ledger = ledger_with(10);
        assert_eq!(acknowledge(&mut ledger, at(500), &[1..2]), Ok((vec![1], vec![0])));
        assert_eq!(acknowledge(&mut ledger, at(505), &[0..2]), Ok((vec![], vec![])));
        assert_eq!(acknowledge(&mut ledger, at(510), &[3..4, 0..2]), Ok((vec![3], vec![])));
        assert_eq!(acknowledge(&mut ledger, at(512), &[0..4]), Ok((vec![2], vec![])));
        assert_eq!(acknowledge(&mut ledger, at(520), &[5..6, 0..4]), Ok((vec![5], vec![])));
        let mut settled = Vec::new();
        ledger.on_timeout(at(700), &mut settled);
        assert_eq!(offsets(&settled, false), [4]);
    }

    #[test]
    fn a_gap_is_loss_at_once_again_when_reordering_is_over() {
        let mut ledger = ledger_with(10_000);
        assert_eq!(acknowledge(&mut ledger, at(500), &[1..2]), Ok((vec![1], vec![0])));
        assert_eq!(acknowledge(&mut ledger, at(505), &[0..2]), Ok((vec![], vec![])));
        assert_eq!(acknowledge(&mut ledger, at(510), &[3..4, 0..2]), Ok((vec![3], vec![])));
        // What is late all the time keeps the window.
        for number in (4..4000).step_by(2) {
            let now = at(510 + 20 * number);
            let known = 0..number;
            assert_eq!(
                acknowledge(&mut ledger, now, &[number + 1..number + 2, known.clone()]).unwrap().1,
                Vec::<u64>::new()
            );
            acknowledge(&mut ledger, now + Duration::from_millis(5), &[0..number + 2]).unwrap();
        }
        // Without, it takes a few dozen round trips.
        for number in 4000..=9000 {
            acknowledge(&mut ledger, at(81_000 + 20 * (number - 4000)), &[0..number]).unwrap();
        }
        let settled = acknowledge(&mut ledger, at(200_000), &[9001..9002, 0..9000]);
        assert_eq!(settled, Ok((vec![9001], vec![9000])));
    }

    /// A ledger of `count` datagrams, every fifth of them marked `ef`.
    fn marked_ledger(count: u64) -> Ledger {
        let mut ledger = Ledger::new(Duration::ZERO);
        for number in 0..count {
            let dscp = if number % 5 == 4 { "ef" } else { "default" }.parse().unwrap();
            ledger.record(at(number), 1500 * number, 1500, dscp, SmallVec::from_slice(&[SentFrame::Ping]));
        }
        ledger
    }

    #[test]
    fn a_datagram_that_others_of_another_marking_overtake_is_no_loss() {
        let mut ledger = marked_ledger(10);
        let mut lost = |ranges: &[Range<u64>], now| {
            let before = ledger.eliciting;
            let (delivered, _) = acknowledge(&mut ledger, now, ranges).expect("they were sent");
            drop(delivered);
            let named: u64 = ranges.iter().map(|range| range.end - range.start).sum();
            (before - ledger.eliciting) as u64 - named
        };
        assert_eq!(lost(&[4..5], at(500)), 0, "it has overtaken four");
        assert_eq!(lost(&[0..2], at(505)), 0);
        assert_eq!(lost(&[3..4], at(510)), 1, "one of its own marking is missing behind them");
        assert_eq!(lost(&[9..10], at(520)), 0);
        let mut settled = Vec::new();
        ledger.on_timeout(at(640), &mut settled);
        assert!(settled.is_empty());
        ledger.on_timeout(at(660), &mut settled);
        assert_eq!(settled.len(), 4, "a quarter of a round trip is enough");
    }

    #[test]
    fn what_overtakes_by_more_than_expected_widens_the_window_for_it_alone() {
        let mut ledger = marked_ledger(1000);
        ledger.least_overtaking = Duration::ZERO;
        ledger.overtaking.on_taken_for_lost(Duration::from_millis(100));
        assert!(ledger.overtaking.window() > Duration::from_millis(100));
        assert_eq!(ledger.reordering.window(), Duration::ZERO);
    }

    #[test]
    fn an_outage_is_not_part_of_the_loss_process() {
        let mut ledger = ledger_with(500);
        let before = ledger.loss_process().probability();
        ledger.on_outage_over();
        ledger.record(at(500), 0, 100, Dscp::default(), SmallVec::from_slice(&[SentFrame::Ping]));
        let (delivered, lost) = acknowledge(&mut ledger, at(1100), &[500..501]).expect("it was sent");
        assert_eq!((delivered.len(), lost.len()), (0, 500));
        assert!(ledger.loss_process().probability() <= before);
    }

    #[test]
    fn a_flood_of_acknowledgements_that_tell_little_is_looked_at_now_and_then() {
        let mut ledger = ledger_with(6000);
        let looked_at = |ledger: &mut Ledger, from: u64| {
            let numbers = from..from + 1000;
            let tell = |number| acknowledge_from(ledger, at(500 + number / 100), &[number..number + 1], number);
            numbers.map(tell).filter(|told| told.as_ref().is_ok_and(|(delivered, _)| !delivered.is_empty())).count()
        };
        assert_eq!(looked_at(&mut ledger, 100), 5, "one in two milliseconds");
        let told = acknowledge_from(&mut ledger, at(600), &[0..3000], 0).expect("it was sent");
        assert_eq!(told.0.len(), 2995);
        let short = looked_at(&mut ledger, 4000);
        assert_eq!(short, 1000, "a short record costs little");
    }

    #[test]
    fn what_a_quiet_peer_should_have_got_is_lost() {
        let mut ledger = ledger_with(10);
        assert_eq!(acknowledge(&mut ledger, at(500), &[0..4]), Ok((vec![0, 1, 2, 3], vec![])));
        ledger.record(at(60_000), 0, 100, Dscp::default(), SmallVec::from_slice(&[SentFrame::Ping]));
        let mut settled = Vec::new();
        ledger.on_quiet(2, Duration::from_secs(59), &mut settled);
        assert!(settled.is_empty(), "of an old report nothing follows");
        ledger.on_quiet(3, Duration::from_millis(4), &mut settled);
        assert_eq!(offsets(&settled, false), [4, 5, 6]);
        ledger.on_quiet(3, Duration::from_secs(59), &mut settled);
        assert_eq!(offsets(&settled, false), [4, 5, 6, 7, 8, 9]);
        assert!(ledger.awaits_ack(), "the ping is under way");
    }

    #[test]
    fn what_acknowledgements_no_longer_reach_is_lost_after_the_horizon() {
        let mut ledger = ledger_with(10);
        let unknown_below = 5;
        assert_eq!(acknowledge_from(&mut ledger, at(500), &[5..6], unknown_below), Ok((vec![5], vec![])));
        let settled = acknowledge_from(&mut ledger, at(850), &[5..7], unknown_below);
        assert_eq!(settled, Ok((vec![6], vec![0, 1, 2, 3, 4])));
    }
}
