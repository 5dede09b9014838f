//! The link itself.

use crate::loss::LossProcess;
use crate::transmitter::Transmitter;
use crate::{ConfigError, Counters, LinkConfig, QueueLimit};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use units::{Bytes, CounterRandom, Duration, Instant, Probability};

/// What a link carries: the caller's packet, of which only the size matters. It is cloned only to duplicate it.
pub trait Packet: Clone {
    /// The size of the IP packet, its header included.
    fn size(&self) -> Bytes;
}

/// What became of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Outcome<P> {
    /// It reached the far end at `at`.
    Departure {
        /// The packet.
        packet: P,
        /// When its last bit arrived.
        at: Instant,
    },
    /// It will not reach the far end.
    Drop {
        /// The packet.
        packet: P,
        /// Why it was dropped.
        reason: DropReason,
        /// When it was refused, or would have arrived.
        at: Instant,
    },
}

/// Why a packet was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// The queue was full when it came.
    QueueFull,
    /// It was lost on the way, as the loss model decided.
    Loss,
}

/// One direction of a link. See the crate's documentation for what happens to a packet, and in which order.
///
/// A driver calls [`Link::enqueue`] for each packet, then [`Link::poll`] until it gives nothing, and again at
/// [`Link::next_timeout`]. Time must not run backwards; where it does, the latest time seen counts.
#[derive(Debug)]
pub struct Link<P> {
    limit: QueueLimit,
    delay: Duration,
    transmitter: Transmitter,
    loss: LossProcess,
    reorder: Option<(Chance, Duration)>,
    duplicate: Chance,
    /// Packets that waited for the transmitter, and their bytes.
    queue: VecDeque<P>,
    queued_bytes: Bytes,
    /// Packets that found the queue full.
    refused: VecDeque<(Instant, P)>,
    /// Packets on the way, in order of arrival, and whether each is lost.
    propagating: VecDeque<(Instant, bool, P)>,
    /// Packets on the way with an extra delay.
    held_back: BinaryHeap<Reverse<HeldBack<P>>>,
    /// How many packets were sent: the number of the next one in each random process.
    sent: u64,
    now: Instant,
    counters: Counters,
}

impl<P: Packet> Link<P> {
    /// An idle link.
    ///
    /// # Errors
    /// If a value makes no link; see [`LinkConfig::validate`].
    pub fn new(config: LinkConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        let draws = |process: RandomProcess| CounterRandom::new(config.seed, config.stream << 8 | process as u64);
        Ok(Self {
            limit: config.queue,
            delay: config.delay,
            transmitter: Transmitter::new(config.rate),
            loss: LossProcess::new(config.loss, draws(RandomProcess::Loss)),
            reorder: config
                .reorder
                .map(|reorder| (Chance::new(reorder.probability, draws(RandomProcess::Reorder)), reorder.extra_delay)),
            duplicate: Chance::new(config.duplicate, draws(RandomProcess::Duplicate)),
            queue: VecDeque::new(),
            queued_bytes: Bytes::ZERO,
            refused: VecDeque::new(),
            propagating: VecDeque::new(),
            held_back: BinaryHeap::new(),
            sent: 0,
            now: Instant::ZERO,
            counters: Counters::default(),
        })
    }

    /// Gives the link a packet. Changes [`Link::next_timeout`].
    pub fn enqueue(&mut self, now: Instant, packet: P) {
        self.advance(now);
        let size = packet.size();
        self.counters.offered += size;
        if self.transmitter.free_at() <= self.now {
            self.transmit(self.now, packet, size);
        } else if self.has_room_for(size) {
            self.queued_bytes += size;
            self.queue.push_back(packet);
        } else {
            self.refused.push_back((self.now, packet));
        }
    }

    /// The next departure or drop that is due by `now`, in order of time; `None` when there is no more.
    pub fn poll(&mut self, now: Instant) -> Option<Outcome<P>> {
        self.advance(now);
        let refused = self.refused.front().map_or(Instant::FAR_FUTURE, |(at, _)| *at);
        let in_order = self.propagating.front().map_or(Instant::FAR_FUTURE, |(at, ..)| *at);
        let held_back = self.held_back.peek().map_or(Instant::FAR_FUTURE, |Reverse(held)| held.at);
        if refused.min(in_order).min(held_back) > self.now {
            return None;
        }
        if refused <= in_order && refused <= held_back {
            let (at, packet) = self.refused.pop_front()?;
            self.counters.dropped_queue_full += packet.size();
            return Some(Outcome::Drop { packet, reason: DropReason::QueueFull, at });
        }
        if held_back < in_order {
            let Reverse(held) = self.held_back.pop()?;
            return Some(self.deliver(held.packet, held.at));
        }
        let (at, is_lost, packet) = self.propagating.pop_front()?;
        if is_lost {
            self.counters.dropped_loss += packet.size();
            return Some(Outcome::Drop { packet, reason: DropReason::Loss, at });
        }
        Some(self.deliver(packet, at))
    }

    /// When [`Link::poll`] has something next (or, seldom, must be called to find out); `None` while the link is empty.
    pub fn next_timeout(&self) -> Option<Instant> {
        let refused = self.refused.front().map(|(at, _)| *at);
        let held_back = self.held_back.peek().map(|Reverse(held)| held.at);
        // What waits in the queue arrives after what is on the way. If nothing is, its time is known when it is sent.
        let in_order = match self.propagating.front() {
            Some((at, ..)) => Some(*at),
            None => (!self.queue.is_empty()).then_some(self.transmitter.free_at()),
        };
        [refused, held_back, in_order].into_iter().flatten().min()
    }

    /// What became of every packet so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The bytes that wait for the transmitter, as of the latest time seen.
    pub fn queued_bytes(&self) -> Bytes {
        self.queued_bytes
    }

    /// Sends what waited and whose turn came by `now`.
    fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        while self.transmitter.free_at() <= self.now {
            let Some(packet) = self.queue.pop_front() else { break };
            let size = packet.size();
            self.queued_bytes = self.queued_bytes - size;
            self.transmit(self.transmitter.free_at(), packet, size);
        }
    }

    /// Sends a packet whose transmission starts at `start`, and decides what happens to it on the way.
    fn transmit(&mut self, start: Instant, packet: P, size: Bytes) {
        let k = self.sent;
        self.sent += 1;
        let arrival = self.transmitter.send(start, size) + self.delay;
        if self.loss.loses(k, size) {
            self.propagating.push_back((arrival, true, packet));
            return;
        }
        let copy = self.duplicate.happens(k).then(|| packet.clone());
        if copy.is_some() {
            self.counters.duplicated += size;
        }
        let extra_delay = self.reorder.as_ref().filter(|(chance, _)| chance.happens(k)).map(|(_, extra)| *extra);
        for (copy_number, packet) in std::iter::once(packet).chain(copy).enumerate() {
            match extra_delay {
                None => self.propagating.push_back((arrival, false, packet)),
                Some(extra) => {
                    self.counters.reordered += size;
                    let number = 2 * k + copy_number as u64;
                    self.held_back.push(Reverse(HeldBack { at: arrival + extra, number, packet }));
                }
            }
        }
    }

    fn has_room_for(&self, size: Bytes) -> bool {
        match self.limit {
            QueueLimit::Packets(limit) => (self.queue.len() as u64) < limit,
            QueueLimit::Bytes(limit) => self.queued_bytes + size <= limit,
            QueueLimit::Unlimited => true,
        }
    }

    fn deliver(&mut self, packet: P, at: Instant) -> Outcome<P> {
        self.counters.delivered += packet.size();
        Outcome::Departure { packet, at }
    }
}

/// The random processes of a link, each with its own stream of draws. The numbers are part of what a seed means.
#[derive(Clone, Copy)]
enum RandomProcess {
    Loss = 0,
    Reorder = 1,
    Duplicate = 2,
}

/// Something that happens to each packet independently with one probability.
#[derive(Debug)]
struct Chance {
    probability: Probability,
    draws: CounterRandom,
}

impl Chance {
    fn new(probability: Probability, draws: CounterRandom) -> Self {
        Self { probability, draws }
    }

    fn happens(&self, k: u64) -> bool {
        self.probability > Probability::ZERO && self.draws.unit_at(k) < self.probability.as_f64()
    }
}

/// A packet with an extra delay, ordered by arrival and then by when it was sent.
#[derive(Debug)]
struct HeldBack<P> {
    at: Instant,
    number: u64,
    packet: P,
}

impl<P> HeldBack<P> {
    fn key(&self) -> (Instant, u64) {
        (self.at, self.number)
    }
}

impl<P> PartialEq for HeldBack<P> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<P> Eq for HeldBack<P> {}

impl<P> PartialOrd for HeldBack<P> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> Ord for HeldBack<P> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}
