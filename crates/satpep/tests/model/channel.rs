//! One direction of a hop that drops, repeats, delays, damages and cuts off.

use super::operation::Harm;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use units::{CounterRandom, Duration, Instant};

/// A datagram in flight.
#[derive(Debug, Clone)]
pub struct Datagram {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub bytes: Vec<u8>,
}

/// One direction.
pub struct Channel {
    delay: Duration,
    random: CounterRandom,
    drop: u64,
    duplicate: u64,
    corrupt: u64,
    hold: u64,
    pub cut: bool,
    /// The next datagram arrives from this address first.
    pub diverted_to: Option<SocketAddr>,
    in_flight: BTreeMap<(Instant, u64), Datagram>,
    count: u64,
    /// Some of what passed, for who repeats it.
    pub seen: Vec<Datagram>,
}

impl Channel {
    const SEEN: usize = 64;

    pub fn new(delay: Duration, seed: u64, stream: u64) -> Self {
        Self {
            delay,
            random: CounterRandom::new(seed, stream),
            drop: 0,
            duplicate: 0,
            corrupt: 0,
            hold: 0,
            cut: false,
            diverted_to: None,
            in_flight: BTreeMap::new(),
            count: 0,
            seen: Vec::new(),
        }
    }

    pub fn set(&mut self, harm: Harm, per_cent: u64) {
        match harm {
            Harm::Drop => self.drop = per_cent,
            Harm::Duplicate => self.duplicate = per_cent,
            Harm::Corrupt => self.corrupt = per_cent,
            Harm::Delay => self.hold = per_cent,
        }
    }

    /// From now on everything arrives as it was sent.
    pub fn calm(&mut self) {
        (self.drop, self.duplicate, self.corrupt, self.hold, self.cut) = (0, 0, 0, 0, false);
        self.diverted_to = None;
    }

    fn chance(&mut self, per_cent: u64) -> bool {
        per_cent > 0 && self.random.next_u64() % 100 < per_cent
    }

    pub fn send(&mut self, now: Instant, datagram: Datagram) {
        self.count += 1;
        if self.cut {
            return;
        }
        if self.seen.len() < Self::SEEN {
            self.seen.push(datagram.clone());
        } else {
            let at = self.random.next_u64() as usize % Self::SEEN;
            self.seen[at] = datagram.clone();
        }
        if let Some(from) = self.diverted_to.take() {
            self.put(now + self.delay / 2, Datagram { from, ..datagram.clone() });
        }
        if self.chance(self.drop) {
            return;
        }
        if self.chance(self.duplicate) {
            let late = self.late();
            self.put(now + self.delay + late, datagram.clone());
        }
        let mut datagram = datagram;
        if self.chance(self.corrupt) {
            let draw = self.random.next_u64() as usize;
            let bits = datagram.bytes.len() * 8;
            datagram.bytes[draw % bits / 8] ^= 1 << (draw % 8);
            if draw.is_multiple_of(5) {
                datagram.bytes.truncate(draw / 5 % bits / 8);
            }
        }
        let late = if self.chance(self.hold) { self.late() } else { Duration::ZERO };
        self.put(now + self.delay + late, datagram);
    }

    /// Up to a round trip.
    fn late(&mut self) -> Duration {
        (self.delay * 2).mul_f64(self.random.next_u64() as f64 / u64::MAX as f64)
    }

    fn put(&mut self, at: Instant, datagram: Datagram) {
        self.count += 1;
        self.in_flight.insert((at, self.count), datagram);
    }

    pub fn next_arrival(&self) -> Option<Instant> {
        self.in_flight.keys().next().map(|(at, _)| *at)
    }

    pub fn poll(&mut self, now: Instant) -> Option<Datagram> {
        let entry = self.in_flight.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(entry.remove())
    }
}
