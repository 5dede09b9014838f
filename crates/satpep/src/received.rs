//! What has arrived: protection against replay, and acknowledgements to send.

use crate::packet_number::PacketNumber;
use crate::wire::frame::{MAX_ACK_RANGES, MAX_OLDER_RANGES};
use std::ops::Range;
use units::RangeSet;
use units::{Duration, Instant};

/// The receiver's record of packet numbers.
pub(crate) struct Received {
    numbers: RangeSet<PacketNumber>,
    /// Numbers of packets that did not arrive and whose stream frames repair symbols recovered.
    recovered: RangeSet<PacketNumber>,
    /// Numbers below are not accepted any more.
    floor: PacketNumber,
    largest: Option<PacketNumber>,
    largest_at: Instant,
    /// Something that asks for an acknowledgement arrived since the last one.
    ack_deadline: Option<Instant>,
    older: Older,
}

/// What is sent of the ranges that an acknowledgement, which names the newest ones, does not reach.
#[derive(Default)]
struct Older {
    /// The lowest number that came late and that nothing sent has named.
    late: Option<PacketNumber>,
    /// Ranges that fit beside the latest acknowledgement that had to leave some out.
    fit: Option<usize>,
    /// Without one that came late, what lies below this number is named next; `None` begins again with the newest of them.
    below: Option<PacketNumber>,
    /// Acknowledgements since ranges were named without one that came late.
    acks: u32,
}

impl Older {
    /// In so many acknowledgements one names older ranges though nothing came late: those that did so when it came may be lost.
    const AGAIN: u32 = 8;
}

impl Received {
    /// Numbers this far below the newest are refused: more than five round trips at 250 Mbit/s and 550 ms.
    pub(crate) const REPLAY_WINDOW: u64 = 1 << 16;
    /// Separate ranges kept; the oldest make way.
    pub(crate) const MAX_RANGES: usize = 4096;

    pub(crate) fn new() -> Self {
        Self {
            numbers: RangeSet::new(),
            recovered: RangeSet::new(),
            floor: PacketNumber::ZERO,
            largest: None,
            largest_at: Instant::ZERO,
            ack_deadline: None,
            older: Older::default(),
        }
    }

    /// The number that the next packet probably has.
    pub(crate) fn expected(&self) -> PacketNumber {
        self.largest.map_or(PacketNumber::ZERO, PacketNumber::next)
    }

    /// Whether `number` can be accepted: neither seen before nor too old to tell.
    pub(crate) fn is_new(&self, number: PacketNumber) -> bool {
        number >= self.floor && (self.largest.is_none_or(|largest| number > largest) || !self.numbers.contains(number))
    }

    /// Records an authenticated packet.
    pub(crate) fn record(&mut self, now: Instant, number: PacketNumber, ack_eliciting: bool, ack_delay: Duration) {
        self.numbers.insert(number..number.next());
        let gap = number > self.expected();
        if self.largest.is_none_or(|largest| number > largest) {
            self.largest = Some(number);
            self.largest_at = now;
            self.raise_floor(number.saturating_before(Self::REPLAY_WINDOW));
        } else {
            self.older.late = Some(self.older.late.map_or(number, |late| late.min(number)));
        }
        if self.numbers.len() > Self::MAX_RANGES
            && let Some(oldest) = self.numbers.first()
        {
            self.raise_floor(oldest.end);
        }
        if ack_eliciting {
            let due = if gap { now } else { now + ack_delay };
            self.acknowledge_by(due);
        }
    }

    /// An acknowledgement is due then at the latest.
    pub(crate) fn acknowledge_by(&mut self, due: Instant) {
        self.ack_deadline = Some(self.ack_deadline.map_or(due, |deadline| deadline.min(due)));
    }

    /// Notes that the stream frames of a packet that did not arrive were recovered.
    pub(crate) fn recover(&mut self, number: PacketNumber) {
        if number >= self.floor && !self.numbers.contains(number) {
            self.recovered.insert(number..number.next());
        }
    }

    /// The recovered ranges, newest first.
    pub(crate) fn recovered(&self) -> impl Iterator<Item = Range<PacketNumber>> + '_ {
        self.recovered.iter().rev().cloned()
    }

    /// Forgets numbers below `floor`; they will not be accepted again.
    pub(crate) fn raise_floor(&mut self, floor: PacketNumber) {
        let floor = floor.min(self.expected());
        if floor > self.floor {
            self.numbers.remove(self.floor..floor);
            self.recovered.remove(self.floor..floor);
            self.floor = floor;
        }
    }

    /// Packet `number` says that its sender waits for no answer to packets before `lowest`: an honest one waits for that to this packet.
    pub(crate) fn stop_waiting(&mut self, number: PacketNumber, lowest: PacketNumber) {
        self.raise_floor(lowest.min(number));
    }

    /// When an acknowledgement is due.
    pub(crate) fn ack_deadline(&self) -> Option<Instant> {
        self.ack_deadline
    }

    /// An acknowledgement of everything was sent.
    pub(crate) fn acknowledged(&mut self) {
        self.ack_deadline = None;
    }

    /// The received ranges, newest first, and the microseconds since the newest arrived.
    pub(crate) fn report(&self, now: Instant) -> (impl Iterator<Item = Range<PacketNumber>> + '_, u64) {
        (self.numbers.iter().rev().cloned(), now.since(self.largest_at).as_nanos() / 1000)
    }

    /// The ranges, newest first, that the next acknowledgement does not reach and that are to be named with it: those about packets that
    /// came late, and now and then all others in turn. None if it reaches all there are.
    pub(crate) fn older(&mut self) -> Option<impl Iterator<Item = Range<PacketNumber>> + '_> {
        let floor = self.floor;
        let Older { late, fit, below, acks } = &mut self.older;
        let reached = self.numbers.iter().rev().nth(MAX_ACK_RANGES - 1).map_or(floor, |range| range.start);
        *late = late.map(|late| late.max(floor)).filter(|late| *late < reached);
        if self.numbers.len() <= MAX_ACK_RANGES {
            return None;
        }
        *acks += 1;
        if late.is_none() && *acks < Older::AGAIN {
            return None;
        }
        let before = |number: PacketNumber| self.numbers.iter().rev().take_while(|range| range.start > number).count();
        let first = match (*late, *below) {
            (Some(late), _) => (before(late) + 1).saturating_sub(fit.unwrap_or(MAX_OLDER_RANGES)),
            (None, below) => {
                *acks = 0;
                below.map_or(0, |below| before(below.saturating_before(1)))
            }
        };
        let first = first.max(MAX_ACK_RANGES);
        let first = if first < self.numbers.len() { first } else { MAX_ACK_RANGES };
        Some(self.numbers.iter().rev().skip(first).cloned())
    }

    /// The ranges of [`Received::older`] within `named` were sent.
    pub(crate) fn named_older(&mut self, named: Range<PacketNumber>) {
        if self.older.late.is_some_and(|late| late < named.start) {
            let is_named = |range: &&Range<PacketNumber>| named.contains(&range.start);
            self.older.fit = Some(self.numbers.iter().filter(is_named).count().max(1));
            return;
        }
        self.older.fit = None;
        match self.older.late {
            // Others may have come late between those and what the acknowledgement names.
            Some(_) => {
                let next = self.numbers.iter().find(|range| range.start >= named.end);
                self.older.late = next.map(|range| range.start);
            }
            None => self.older.below = Some(named.start),
        }
    }

    /// Numbers from here on are reported.
    pub(crate) fn floor(&self) -> PacketNumber {
        self.floor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_millis(17);

    #[test]
    fn a_number_is_accepted_once_even_after_the_floor_rose() {
        let mut received = Received::new();
        for number in [0, 1, 5, 3] {
            assert!(received.is_new(PacketNumber::new(number)));
            received.record(Instant::ZERO, PacketNumber::new(number), true, DELAY);
            assert!(!received.is_new(PacketNumber::new(number)));
        }
        received.raise_floor(PacketNumber::new(4));
        assert!(
            !received.is_new(PacketNumber::new(2))
                && received.is_new(PacketNumber::new(4))
                && !received.is_new(PacketNumber::new(5))
        );
        received.raise_floor(PacketNumber::new(1 << 40));
        assert!(received.is_new(PacketNumber::new(6)), "a peer cannot make us refuse what it has not sent");
    }

    #[test]
    fn the_replay_window_spans_a_round_trip_at_250_mbit() {
        let mut received = Received::new();
        received.record(Instant::ZERO, PacketNumber::new(100_000), true, DELAY);
        assert!(received.is_new(PacketNumber::new(100_000 - 12_500)));
        assert!(!received.is_new(PacketNumber::new(100_000 - Received::REPLAY_WINDOW - 1)));
    }

    #[test]
    fn gaps_are_reported_at_once_and_the_rest_in_time() {
        let mut received = Received::new();
        let now = Instant::from_nanos(1_000_000);
        received.record(now, PacketNumber::new(0), true, DELAY);
        assert_eq!(received.ack_deadline(), Some(now + DELAY));
        received.record(now, PacketNumber::new(2), true, DELAY);
        assert_eq!(received.ack_deadline(), Some(now));
        received.acknowledged();
        received.record(now, PacketNumber::new(3), false, DELAY);
        assert_eq!(received.ack_deadline(), None);
    }

    /// The ranges that are named beside an acknowledgement.
    fn older(received: &mut Received) -> Vec<Range<u64>> {
        let ranges = received.older().into_iter().flatten().take(MAX_OLDER_RANGES);
        let ranges: Vec<_> = ranges.map(|range| range.start.get()..range.end.get()).collect();
        if let (Some(first), Some(last)) = (ranges.first(), ranges.last()) {
            received.named_older(PacketNumber::range(last.start..first.end));
        }
        ranges
    }

    #[test]
    fn what_comes_late_is_named_once_however_many_gaps_came_after_it() {
        let mut received = Received::new();
        let record = |received: &mut Received, number| {
            received.record(Instant::ZERO, PacketNumber::new(number), true, DELAY);
        };
        (0..2000).step_by(2).for_each(|number| record(&mut received, number));
        assert_eq!(older(&mut received), [], "nothing came late");
        record(&mut received, 101);
        record(&mut received, 1501);
        let named = older(&mut received);
        assert_eq!((named.len(), named.last()), (MAX_OLDER_RANGES, Some(&(100..103))));
        let rest: Vec<_> = (0..Older::AGAIN * 2).flat_map(|_| older(&mut received)).collect();
        assert_eq!(rest.iter().filter(|range| **range == (1500..1503)).count(), 1);
        // What the acknowledgement itself names is not repeated.
        record(&mut received, 1995);
        assert!(!older(&mut received).contains(&(1994..1997)));
        // Where few fit, it takes one more.
        record(&mut received, 501);
        let few = |received: &mut Received| {
            let ranges: Vec<_> = received.older().into_iter().flatten().take(10).collect();
            received.named_older(ranges[9].start..ranges[0].end);
            ranges.last().cloned()
        };
        assert_ne!(few(&mut received), Some(PacketNumber::range(500..503)));
        assert_eq!(few(&mut received), Some(PacketNumber::range(500..503)));
    }

    #[test]
    fn all_ranges_are_named_in_turn_though_nothing_comes_late() {
        let mut received = Received::new();
        (0..1000).step_by(2).for_each(|number| {
            received.record(Instant::ZERO, PacketNumber::new(number), true, DELAY);
        });
        let turns = (500_u32 - MAX_ACK_RANGES as u32).div_ceil(MAX_OLDER_RANGES as u32);
        let named: Vec<_> = (0..Older::AGAIN * turns).flat_map(|_| older(&mut received)).collect();
        let end = 1000 - 2 * MAX_ACK_RANGES as u64;
        let expected: Vec<_> = (0..end / 2).rev().map(|range| 2 * range..2 * range + 1).collect();
        assert_eq!(named, expected);
        received.raise_floor(PacketNumber::new(end));
        assert!((0..Older::AGAIN).all(|_| older(&mut received).is_empty()), "the peer asks for no more");
    }

    #[test]
    fn memory_stays_bounded_whatever_packets_that_come_late_say() {
        let mut received = Received::new();
        for first in (0..1_000_000).step_by(10) {
            received.record(Instant::ZERO, PacketNumber::new(first + 10), true, DELAY);
            received.stop_waiting(PacketNumber::new(first + 5), PacketNumber::new(first + 11));
            received.record(Instant::ZERO, PacketNumber::new(first + 5), true, DELAY);
        }
        assert!(received.numbers.len() <= Received::MAX_RANGES, "{}", received.numbers.len());
    }

    #[test]
    fn memory_stays_bounded_when_every_second_packet_is_lost() {
        let mut received = Received::new();
        for number in (0..20_000).step_by(2) {
            received.record(Instant::ZERO, PacketNumber::new(number), true, DELAY);
        }
        assert!(received.numbers.len() <= Received::MAX_RANGES);
    }
}
