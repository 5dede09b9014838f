//! One direction of a path with faults.

use crate::{Agenda, Datagram};
use std::net::SocketAddr;
use units::{CounterRandom, Duration, Instant};

/// What a channel does to datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// They are lost.
    Drop,
    /// They arrive twice.
    Duplicate,
    /// A bit is inverted; of five of these, one is cut short.
    Corrupt,
    /// They are held back by up to a round trip.
    Delay,
}

/// One direction that delays, and does to datagrams what a test has it do. What it does depends on the seed and on what was sent.
#[derive(Debug, Clone)]
pub struct Channel {
    delay: Duration,
    random: CounterRandom,
    /// Per cent of datagrams, by fault.
    drop: u64,
    duplicate: u64,
    corrupt: u64,
    hold: u64,
    is_cut: bool,
    diverted_to: Option<SocketAddr>,
    in_flight: Agenda<Datagram>,
    seen: Vec<Datagram>,
}

impl Channel {
    /// So many of the datagrams that passed are kept.
    const SEEN: usize = 64;

    /// A channel without faults that takes `delay`.
    pub fn new(delay: Duration, seed: u64, stream: u64) -> Self {
        Self {
            delay,
            random: CounterRandom::new(seed, stream),
            drop: 0,
            duplicate: 0,
            corrupt: 0,
            hold: 0,
            is_cut: false,
            diverted_to: None,
            in_flight: Agenda::new(),
            seen: Vec::new(),
        }
    }

    /// From now on `fault` applies to so many per cent of what is sent.
    pub fn set(&mut self, fault: Fault, per_cent: u64) {
        match fault {
            Fault::Drop => self.drop = per_cent,
            Fault::Duplicate => self.duplicate = per_cent,
            Fault::Corrupt => self.corrupt = per_cent,
            Fault::Delay => self.hold = per_cent,
        }
    }

    /// Nothing that is sent arrives, or something does again.
    pub fn toggle_cut(&mut self) {
        self.is_cut = !self.is_cut;
    }

    /// The next datagram arrives first from `address`, earlier than by itself: an attacker on the path copies it.
    pub fn divert(&mut self, address: SocketAddr) {
        self.diverted_to = Some(address);
    }

    /// From now on everything arrives as it was sent.
    pub fn calm(&mut self) {
        (self.drop, self.duplicate, self.corrupt, self.hold, self.is_cut) = (0, 0, 0, 0, false);
        self.diverted_to = None;
    }

    /// Some of the datagrams that were sent: what an attacker on the path may replay.
    pub fn seen(&self) -> &[Datagram] {
        &self.seen
    }

    /// Sends a datagram.
    pub fn send(&mut self, now: Instant, mut datagram: Datagram) {
        if self.is_cut {
            return;
        }
        self.remember(&datagram);
        if let Some(from) = self.diverted_to.take() {
            self.in_flight.insert(now + self.delay / 2, Datagram { from, ..datagram.clone() });
        }
        if self.chance(self.drop) {
            return;
        }
        if self.chance(self.duplicate) {
            let late = self.late();
            self.in_flight.insert(now + self.delay + late, datagram.clone());
        }
        if self.chance(self.corrupt) {
            self.corrupt(&mut datagram.bytes);
        }
        let late = if self.chance(self.hold) { self.late() } else { Duration::ZERO };
        self.in_flight.insert(now + self.delay + late, datagram);
    }

    /// The next datagram that has arrived.
    pub fn poll(&mut self, now: Instant) -> Option<Datagram> {
        self.in_flight.poll(now)
    }

    /// When a datagram arrives next.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.in_flight.next_timeout()
    }

    fn remember(&mut self, datagram: &Datagram) {
        if self.seen.len() < Self::SEEN {
            self.seen.push(datagram.clone());
        } else {
            let at = self.random.next_u64() as usize % Self::SEEN;
            self.seen[at] = datagram.clone();
        }
    }

    fn corrupt(&mut self, bytes: &mut Vec<u8>) {
        let draw = self.random.next_u64() as usize;
        let bits = bytes.len() * 8;
        bytes[draw % bits / 8] ^= 1 << (draw % 8);
        if draw.is_multiple_of(5) {
            bytes.truncate(draw / 5 % bits / 8);
        }
    }

    fn chance(&mut self, per_cent: u64) -> bool {
        per_cent > 0 && self.random.next_u64() % 100 < per_cent
    }

    /// Up to a round trip.
    fn late(&mut self) -> Duration {
        (self.delay * 2).mul_f64(self.random.next_u64() as f64 / u64::MAX as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_millis(100);

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([198, 18, 0, last], 4500))
    }

    fn datagram(number: u16) -> Datagram {
        let bytes = [number.to_be_bytes().as_slice(), &[7; 98]].concat();
        Datagram { from: address(1), to: address(2), bytes }
    }

    /// Sends 1,000 datagrams a millisecond apart; what arrives, and how long each took from its own sending.
    fn run(channel: &mut Channel) -> Vec<(Instant, Datagram)> {
        let at = |millis: u64| Instant::ZERO + Duration::from_millis(millis);
        (0..1000).for_each(|number| channel.send(at(number.into()), datagram(number)));
        let mut arrived = Vec::new();
        while let Some(next) = channel.next_timeout() {
            assert_eq!(channel.poll(next.before(Duration::from_nanos(1))), None, "not before its time");
            arrived.push((next, channel.poll(next).expect("due")));
        }
        arrived
    }

    fn with(fault: Fault, per_cent: u64) -> Vec<(Instant, Datagram)> {
        let mut channel = Channel::new(DELAY, 1, 0);
        channel.set(fault, per_cent);
        run(&mut channel)
    }

    #[test]
    fn without_faults_everything_arrives_in_order_after_the_delay() {
        let arrived = run(&mut Channel::new(DELAY, 1, 0));
        let sent = (0..1000u16).map(|number| (Instant::ZERO + DELAY + Duration::from_millis(number.into()), number));
        assert!(arrived.into_iter().eq(sent.map(|(at, number)| (at, datagram(number)))));
    }

    #[test]
    fn each_fault_befalls_its_share_and_does_nothing_else() {
        let lost = 1000 - with(Fault::Drop, 30).len();
        assert!((250..350).contains(&lost), "{lost} lost");
        let twice = with(Fault::Duplicate, 30).len() - 1000;
        assert!((250..350).contains(&twice), "{twice} duplicated");
        let sent: Vec<_> = (0..1000).map(datagram).collect();
        let corrupted = with(Fault::Corrupt, 30);
        let wrong = corrupted.iter().zip(&sent).filter(|((_, arrived), sent)| arrived != *sent).count();
        assert!(corrupted.len() == 1000 && (250..350).contains(&wrong), "{wrong} corrupted");
        let cut_short = corrupted.iter().filter(|(_, datagram)| datagram.bytes.len() < 100).count();
        assert!((30..100).contains(&cut_short), "{cut_short} cut short");
        let delayed = with(Fault::Delay, 30);
        let late = |(at, datagram): &&(Instant, Datagram)| {
            let number = u16::from_be_bytes([datagram.bytes[0], datagram.bytes[1]]);
            let took = at.since(Instant::ZERO + Duration::from_millis(number.into()));
            assert!(took >= DELAY && took <= DELAY * 3, "{took}");
            took > DELAY
        };
        let late = delayed.iter().filter(late).count();
        assert!(delayed.len() == 1000 && (250..350).contains(&late), "{late} late");
    }

    #[test]
    fn the_same_seed_does_the_same_and_a_calm_channel_nothing() {
        let harsh = |seed| {
            let mut channel = Channel::new(DELAY, seed, 0);
            for fault in [Fault::Drop, Fault::Duplicate, Fault::Corrupt, Fault::Delay] {
                channel.set(fault, 20);
            }
            channel
        };
        assert_eq!(run(&mut harsh(1)), run(&mut harsh(1)));
        assert_ne!(run(&mut harsh(1)), run(&mut harsh(2)));
        let mut calmed = harsh(1);
        calmed.toggle_cut();
        calmed.divert(address(9));
        calmed.calm();
        assert_eq!(run(&mut calmed), run(&mut Channel::new(DELAY, 1, 0)));
    }

    #[test]
    fn what_is_cut_off_is_lost_and_what_is_diverted_comes_first_from_elsewhere() {
        let mut channel = Channel::new(DELAY, 1, 0);
        channel.toggle_cut();
        channel.send(Instant::ZERO, datagram(1));
        channel.toggle_cut();
        channel.divert(address(9));
        channel.send(Instant::ZERO, datagram(2));
        channel.send(Instant::ZERO, datagram(3));
        assert_eq!(channel.seen(), [datagram(2), datagram(3)]);
        assert_eq!(channel.poll(Instant::ZERO + DELAY / 2), Some(Datagram { from: address(9), ..datagram(2) }));
        let rest: Vec<_> = std::iter::from_fn(|| channel.poll(Instant::ZERO + DELAY)).collect();
        assert_eq!(rest, [datagram(2), datagram(3)]);
    }

    #[test]
    fn of_many_datagrams_some_are_remembered() {
        let mut channel = Channel::new(DELAY, 1, 0);
        run(&mut channel);
        let numbers = channel.seen().iter().map(|datagram| u16::from_be_bytes([datagram.bytes[0], datagram.bytes[1]]));
        assert_eq!(channel.seen().len(), 64);
        assert!(numbers.max() > Some(900), "late ones, too");
    }
}
