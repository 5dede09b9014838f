//! Trains: now and then a few packets leave at twice the rate of the link. Their spacing on arrival is the link's
//! (Keshav's packet pairs, Proc. ACM SIGCOMM 1991, over more than a pair), whether the link turns out faster than thought or
//! slower, and what queue they build is gone when the pace has made up for them.

use crate::event::PeerId;
use crate::packet_number::PacketNumber;
use std::collections::VecDeque;
use units::{Bytes, Duration, Instant, Rate};

/// What the next packet is to the trains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nothing, or one in the middle.
    None,
    /// One whose arrival is asked for: the first of a train, or its last.
    RequestArrivalTime,
}

/// A train: the packets from one packet with an ARRIVAL_REQUEST to another.
#[derive(Debug, Clone, Copy)]
struct Train {
    peer: PeerId,
    first: Departure,
    last: Option<Departure>,
    first_arrived: Option<Duration>,
}

#[derive(Debug, Clone, Copy)]
struct Departure {
    number: PacketNumber,
    position: u64,
    sent: Instant,
}

/// The train that is leaving, and those whose arrival is not known yet.
#[derive(Debug)]
pub(crate) struct Trains {
    running: Option<Train>,
    in_flight: VecDeque<Train>,
    next_at: Instant,
    period: Duration,
    surplus: Bytes,
}

impl Trains {
    /// What the pace is raised by while a train is in flight, as a share of the capacity.
    pub(crate) const SURPLUS: f64 = 1.0;
    /// How long a train lasts, at least [`Self::MIN`] bytes: it makes half of that a queue.
    const LENGTH: Duration = Duration::from_millis(16);
    const MIN: u64 = 6 * 1500;
    const MAX_UNDER_WAY: usize = 32;

    pub(crate) fn new(rtt: Duration, now: Instant) -> Self {
        let period = (rtt / 4).max(Duration::from_millis(50)).min(Duration::from_millis(150));
        Self { running: None, in_flight: VecDeque::new(), next_at: now + period, period, surplus: Bytes::ZERO }
    }

    /// Whether there might have been a train for so long.
    pub(crate) fn are_overdue(&self, now: Instant, since: Duration) -> bool {
        self.next_at + since <= now
    }

    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// A packet is about to leave: number `number` of `peer`, when `position` bytes have entered the link of `capacity`.
    pub(crate) fn advance(
        &mut self,
        now: Instant,
        peer: PeerId,
        number: PacketNumber,
        position: u64,
        capacity: Rate,
    ) -> Progress {
        let departure = Departure { number, position, sent: now };
        let Some(train) = self.running else {
            if now < self.next_at {
                return Progress::None;
            }
            self.running = Some(Train { peer, first: departure, last: None, first_arrived: None });
            return Progress::RequestArrivalTime;
        };
        let length = capacity.bytes_in(Self::LENGTH).as_u64().max(Self::MIN);
        let so_far = position - train.first.position;
        if so_far < length || (peer != train.peer && so_far < 2 * length) {
            return Progress::None;
        }
        self.end(now, so_far, capacity);
        if peer != train.peer {
            return Progress::None;
        }
        if self.in_flight.len() == Self::MAX_UNDER_WAY {
            self.in_flight.pop_front();
        }
        self.in_flight.push_back(Train { last: Some(departure), ..train });
        Progress::RequestArrivalTime
    }

    /// Ends the train that is leaving, if there is one: there was nothing more to send.
    pub(crate) fn abandon(&mut self, now: Instant, position: u64, capacity: Rate) {
        if let Some(train) = self.running {
            self.end(now, position - train.first.position, capacity);
        }
    }

    fn end(&mut self, now: Instant, length: u64, capacity: Rate) {
        if let Some(train) = self.running.take() {
            let surplus = capacity.mul_f64(Self::SURPLUS).bytes_in(now.since(train.first.sent));
            self.surplus = surplus.min(Bytes::new(length / 2));
            self.next_at = now + self.period;
        }
    }

    /// Bytes that the train which ended lately sent ahead of the pace.
    pub(crate) fn take_surplus(&mut self) -> Bytes {
        std::mem::take(&mut self.surplus)
    }

    /// A packet with an ARRIVAL_REQUEST arrived, by its peer's clock. If it is the last of a train: at what rate the train was sent, and at
    /// what rate it arrived.
    pub(crate) fn on_arrival(&mut self, peer: PeerId, number: PacketNumber, arrived: Duration) -> Option<(Rate, Rate)> {
        let trains = self.running.iter_mut().chain(&mut self.in_flight);
        if let Some(train) = trains.into_iter().find(|train| train.peer == peer && train.first.number == number) {
            train.first_arrived = Some(arrived);
            return None;
        }
        let is_last = |train: &Train| train.peer == peer && train.last.is_some_and(|last| last.number == number);
        let at = self.in_flight.iter().position(is_last)?;
        let train = self.in_flight.drain(..=at).next_back()?;
        let (last, first_arrived) = (train.last?, train.first_arrived?);
        let bytes = Bytes::new(last.position - train.first.position);
        let (sent, arrived) = (last.sent.since(train.first.sent), arrived.saturating_sub(first_arrived));
        if sent.is_zero() || arrived.is_zero() {
            return None;
        }
        Some((Rate::from_transfer(bytes, sent), Rate::from_transfer(bytes, arrived)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: Rate = Rate::from_bps(6_000_000);
    const PEER: PeerId = PeerId(0);

    fn at(micros: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(micros)
    }

    /// A train of packets of 1500 bytes each 1 ms (12 Mbit/s); returns the numbers of those with an ARRIVAL_REQUEST.
    fn leave(trains: &mut Trains, from_us: u64) -> Vec<u64> {
        let requests = |k: &u64| {
            let progress = trains.advance(at(from_us + k * 1000), PEER, PacketNumber::new(*k), k * 1500, CAPACITY);
            progress == Progress::RequestArrivalTime
        };
        (0..12).filter(requests).collect()
    }

    #[test]
    fn a_train_tells_the_rate_at_which_it_was_sent_and_that_of_the_link() {
        let mut trains = Trains::new(Duration::from_millis(550), Instant::ZERO);
        assert_eq!(leave(&mut trains, 1000), Vec::<u64>::new(), "not yet");
        let requested = leave(&mut trains, 200_000);
        assert_eq!(requested, [0, 8], "12,000 bytes are 16 ms of the link");
        assert_eq!(trains.take_surplus(), Bytes::new(6000));
        assert_eq!(trains.on_arrival(PEER, PacketNumber::new(0), Duration::from_millis(5)), None);
        let arrived = trains.on_arrival(PEER, PacketNumber::new(8), Duration::from_millis(21));
        assert_eq!(arrived, Some((Rate::from_bps(12_000_000), CAPACITY)));
    }

    #[test]
    fn a_train_whose_first_packet_is_lost_tells_nothing() {
        let mut trains = Trains::new(Duration::from_millis(550), Instant::ZERO);
        leave(&mut trains, 200_000);
        assert_eq!(trains.on_arrival(PEER, PacketNumber::new(8), Duration::from_millis(21)), None);
        assert_eq!(trains.on_arrival(PEER, PacketNumber::new(0), Duration::from_millis(5)), None);
    }

    #[test]
    fn a_train_that_runs_out_of_data_ends_without_a_result() {
        let mut trains = Trains::new(Duration::from_millis(550), Instant::ZERO);
        assert_eq!(trains.advance(at(200_000), PEER, PacketNumber::new(0), 0, CAPACITY), Progress::RequestArrivalTime);
        trains.abandon(at(202_000), 3000, CAPACITY);
        assert!(!trains.is_running() && trains.take_surplus() == Bytes::new(1500));
        assert_eq!(trains.advance(at(203_000), PEER, PacketNumber::new(9), 4500, CAPACITY), Progress::None);
    }
}
