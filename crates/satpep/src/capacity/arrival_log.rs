//! The receiver's side: what is accepted in a session, and the arrivals that the next acknowledgement stamps.
//!
//! Contract: a packet costs a few additions and no memory; an acknowledgement takes the counters and at most
//! [`MAX_STAMPS`] stamps: the newest packet, all of trains, and a few of the others, spread evenly. Where more arrive than there
//! is room for, both are thinned out evenly.

use crate::packet_number::PacketNumber;
use crate::wire::arrivals::{Counters, MAX_STAMPS};
use smallvec::SmallVec;
use std::collections::VecDeque;
use units::Instant;

/// Whether a datagram came with the congestion mark CE (RFC 3168).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mark {
    /// The host does not tell, or the path has cleared what senders set.
    Unreadable,
    /// It came without the mark.
    #[default]
    NotCe,
    /// It came with the mark.
    Ce,
}

/// Which packets an acknowledgement stamps beside the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Detail {
    /// None.
    Newest,
    /// Those of trains.
    Trains,
    /// Those of trains, and a few others.
    #[default]
    Full,
}

/// An accepted packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AcceptedPacket {
    pub(crate) number: PacketNumber,
    /// When the host received it.
    pub(crate) arrived: Instant,
    pub(crate) ip_size: usize,
    pub(crate) mark: Mark,
}

/// A packet and when it arrived.
type Arrival = (PacketNumber, Instant);

/// Some of the arrivals since they were last taken, spread evenly: each so-many-th.
#[derive(Debug)]
struct Spread<const N: usize> {
    kept: SmallVec<[Arrival; N]>,
    /// One in so many is kept.
    stride: u32,
    /// How many are passed over before the next.
    skip: u32,
}

impl<const N: usize> Spread<N> {
    fn new() -> Self {
        Self { kept: SmallVec::new(), stride: 1, skip: 0 }
    }

    fn push(&mut self, arrival: Arrival) {
        if self.skip > 0 {
            self.skip -= 1;
            return;
        }
        if self.kept.len() == N {
            let mut at = 0;
            self.kept.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            self.stride = self.stride.saturating_mul(2);
        }
        self.kept.push(arrival);
        self.skip = self.stride - 1;
    }

    fn clear(&mut self) {
        self.kept.clear();
        (self.stride, self.skip) = (1, 0);
    }
}

/// What is accepted in a session.
#[derive(Debug)]
pub(crate) struct ArrivalLog {
    packets: u64,
    bytes: u64,
    ce: u64,
    /// Whether any packet came with a readable mark.
    reads_marks: bool,
    /// When the latest packet arrived: none arrived before one that was taken in earlier.
    latest: Instant,
    /// The packet with the highest number of those that ask for an acknowledgement.
    newest: Option<Arrival>,
    trains: Spread<{ Self::TRAINS }>,
    others: Spread<{ Self::OTHERS }>,
    /// Packets of trains that arrived together with more than one acknowledgement stamps: the next ones stamp them.
    later: VecDeque<Arrival>,
}

impl ArrivalLog {
    /// Packets of trains that one acknowledgement stamps at most.
    pub(super) const TRAINS: usize = 32;
    /// A host takes in more of a fast link at once: so many wait for the next acknowledgements. If there are still more, each second
    /// or fourth is stamped.
    pub(super) const LATER: usize = 512;
    /// Other packets than the newest and those of trains that it stamps at most; half as many at least if more arrived.
    pub(super) const OTHERS: usize = 6;

    pub(crate) fn new() -> Self {
        const { assert!(Self::TRAINS + Self::OTHERS < MAX_STAMPS) };
        const { assert!(Self::TRAINS % 2 == 0 && Self::OTHERS % 2 == 0, "a half is spread evenly, too") };
        Self {
            packets: 0,
            bytes: 0,
            ce: 0,
            reads_marks: false,
            latest: Instant::ZERO,
            newest: None,
            trains: Spread::new(),
            others: Spread::new(),
            later: VecDeque::new(),
        }
    }

    /// A packet was accepted. Only packets that ask for an acknowledgement (`ack_eliciting`) are stamped: the sender keeps no record
    /// of others.
    pub(crate) fn on_packet(&mut self, packet: &AcceptedPacket, ack_eliciting: bool, is_train: bool) {
        self.packets += 1;
        self.bytes += packet.ip_size as u64;
        self.reads_marks |= packet.mark != Mark::Unreadable;
        self.ce += u64::from(packet.mark == Mark::Ce);
        self.latest = self.latest.max(packet.arrived);
        if !ack_eliciting {
            return;
        }
        let arrival = (packet.number, self.latest);
        if self.newest.is_none_or(|(newest, _)| newest < packet.number) {
            self.newest = Some(arrival);
        }
        if is_train && self.is_full() && self.later.len() < Self::LATER {
            self.later.push_back(arrival);
        } else if is_train {
            self.trains.push(arrival);
        } else {
            self.others.push(arrival);
        }
    }

    /// Whether no more packets of trains can be stamped until an acknowledgement leaves.
    pub(crate) fn is_full(&self) -> bool {
        self.trains.kept.len() == Self::TRAINS
    }

    /// What has been accepted so far.
    pub(crate) fn counters(&self) -> Counters {
        Counters { packets: self.packets, bytes: self.bytes, ce: self.reads_marks.then_some(self.ce) }
    }

    /// How many packets came with the mark CE.
    pub(crate) fn marked(&self) -> u64 {
        self.ce
    }

    /// What the next acknowledgement stamps, in the order of arrival, with the microseconds of the arrivals.
    pub(crate) fn stamps(&self, detail: Detail) -> SmallVec<[(PacketNumber, u64); MAX_STAMPS]> {
        let trains: &[_] = if detail >= Detail::Trains { &self.trains.kept } else { &[] };
        let others: &[_] = if detail == Detail::Full { &self.others.kept } else { &[] };
        let mut stamps: SmallVec<[Arrival; MAX_STAMPS]> = trains.iter().chain(others).copied().collect();
        stamps.extend(self.newest.filter(|newest| !stamps.contains(newest)));
        stamps.sort_unstable_by_key(|(number, at)| (*at, *number));
        stamps.into_iter().map(|(number, at)| (number, at.as_nanos() / 1000)).collect()
    }

    /// An acknowledgement has left with the stamps: the next one stamps what has not had space, and what arrives from now on.
    pub(crate) fn on_stamped(&mut self) {
        self.trains.clear();
        self.others.clear();
        let next = self.later.len().min(Self::TRAINS);
        self.later.drain(..next).for_each(|arrival| self.trains.push(arrival));
    }

    /// Whether packets of trains have arrived that are not stamped.
    pub(crate) fn has_trains(&self) -> bool {
        !self.trains.kept.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn packet(number: u64, arrived: Instant) -> AcceptedPacket {
        AcceptedPacket { number: PacketNumber::new(number), arrived, ip_size: 1500, mark: Mark::NotCe }
    }

    fn numbers(log: &ArrivalLog, detail: Detail) -> Vec<u64> {
        log.stamps(detail).iter().map(|(number, _)| number.get()).collect()
    }

    #[test]
    fn the_newest_is_stamped_and_a_few_others_however_many_arrived() {
        let mut log = ArrivalLog::new();
        assert_eq!(numbers(&log, Detail::Full), [0; 0]);
        for count in [1u64, 3, 30, 1000] {
            let first = log.counters().packets;
            (first..first + count).for_each(|number| log.on_packet(&packet(number, at(number)), true, false));
            let stamped = numbers(&log, Detail::Full);
            assert_eq!(stamped.last(), Some(&(first + count - 1)));
            assert!(stamped.len() >= 4.min(count as usize) && stamped.len() <= 7, "{count}: {stamped:?}");
            let gaps = stamped.windows(2).map(|pair| pair[1] - pair[0]);
            assert!(gaps.max().unwrap_or(1) <= 1 + count / 2, "{count}: {stamped:?}");
            assert_eq!(numbers(&log, Detail::Newest), [first + count - 1]);
            log.on_stamped();
        }
        assert_eq!(numbers(&log, Detail::Full), [1033], "the newest again, for its stamp may have been lost");
    }

    #[test]
    fn all_of_a_train_is_stamped_by_several_acknowledgements_if_it_is_long() {
        let mut log = ArrivalLog::new();
        (0..20).for_each(|number| log.on_packet(&packet(number, at(number)), true, number >= 4));
        assert_eq!(numbers(&log, Detail::Full), (0..20).collect::<Vec<_>>());
        assert_eq!(numbers(&log, Detail::Trains), (4..20).collect::<Vec<_>>());
        log.on_stamped();
        (20..100).for_each(|number| log.on_packet(&packet(number, at(number)), true, true));
        let mut stamped = Vec::new();
        while log.has_trains() {
            let some = numbers(&log, Detail::Full);
            assert!(some.len() <= MAX_STAMPS && some.last() == Some(&99), "the newest goes with each: {some:?}");
            stamped.extend(some);
            log.on_stamped();
        }
        stamped.dedup();
        stamped.retain(|number| *number != 99);
        assert_eq!(stamped, (20..99).collect::<Vec<_>>());
    }

    #[test]
    fn of_more_packets_of_trains_than_wait_each_second_is_stamped() {
        let mut log = ArrivalLog::new();
        let count = (ArrivalLog::LATER + 3 * ArrivalLog::TRAINS) as u64;
        (0..count).for_each(|number| log.on_packet(&packet(number, at(number)), true, true));
        assert!(log.later.len() == ArrivalLog::LATER && numbers(&log, Detail::Full).len() <= MAX_STAMPS);
    }

    #[test]
    fn a_peer_that_marks_everything_takes_no_more_room() {
        let mut log = ArrivalLog::new();
        for number in 0..1_000_000 {
            log.on_packet(&packet(number, at(number)), true, number % 3 != 0);
        }
        assert!(log.stamps(Detail::Full).len() <= MAX_STAMPS);
        assert!(!log.trains.kept.spilled() && !log.others.kept.spilled(), "nothing is allocated");
    }

    #[test]
    fn stamps_are_in_the_order_of_arrival_and_times_never_fall() {
        let mut log = ArrivalLog::new();
        for (number, millis) in [(0, 10), (2, 20), (1, 15), (4, 30), (3, 31)] {
            log.on_packet(&packet(number, at(millis)), true, false);
        }
        let stamps = log.stamps(Detail::Full);
        assert_eq!(stamps.iter().map(|(_, micros)| micros / 1000).collect::<Vec<_>>(), [10, 20, 20, 30, 31]);
        assert_eq!(stamps[4].0, PacketNumber::new(3), "the newest is not the latest");
    }

    #[test]
    fn packets_that_ask_for_nothing_are_counted_and_not_stamped_and_marks_are_counted_where_they_are_readable() {
        let mut log = ArrivalLog::new();
        log.on_packet(&AcceptedPacket { mark: Mark::Unreadable, ..packet(0, at(1)) }, true, false);
        assert_eq!(log.counters(), Counters { packets: 1, bytes: 1500, ce: None });
        log.on_packet(&AcceptedPacket { mark: Mark::Ce, ip_size: 60, ..packet(1, at(2)) }, false, false);
        assert_eq!(log.counters(), Counters { packets: 2, bytes: 1560, ce: Some(1) });
        assert_eq!(numbers(&log, Detail::Full), [0]);
    }
}
