//! What has arrived: protection against replay, and acknowledgements to send.

use crate::packet_number::PacketNumber;
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
