//! The link itself.

use crate::drop_tail::DropTail;
use crate::loss::LossProcess;
use crate::transmitter::Transmitter;
use crate::way::Way;
use crate::{ConfigError, Counters, LinkConfig};
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

impl<P> Outcome<P> {
    /// When it arrived, was refused, or would have arrived.
    #[inline]
    pub fn at(&self) -> Instant {
        match self {
            Outcome::Departure { at, .. } | Outcome::Drop { at, .. } => *at,
        }
    }
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
    queue: DropTail,
    transmitter: Transmitter,
    delay: Duration,
    loss: LossProcess,
    reorder: Option<(Chance, Duration)>,
    duplicate: Chance,
    way: Way<P>,
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
            queue: DropTail::new(config.queue),
            transmitter: Transmitter::new(config.rate),
            delay: config.delay,
            loss: LossProcess::new(config.loss, draws(RandomProcess::Loss)),
            reorder: config
                .reorder
                .map(|reorder| (Chance::new(reorder.probability, draws(RandomProcess::Reorder)), reorder.extra_delay)),
            duplicate: Chance::new(config.duplicate, draws(RandomProcess::Duplicate)),
            way: Way::new(),
            sent: 0,
            now: Instant::ZERO,
            counters: Counters::default(),
        })
    }

    /// Gives the link a packet. Changes [`Link::next_timeout`].
    #[inline]
    pub fn enqueue(&mut self, now: Instant, packet: P) {
        self.now = self.now.max(now);
        let size = packet.size();
        self.counters.offered += size;
        self.queue.advance(self.now);
        let free_at = self.transmitter.free_at();
        if free_at > self.now {
            if !self.queue.has_room_for(size) {
                self.way.discard(self.now, DropReason::QueueFull, packet);
                return;
            }
            self.queue.push(free_at, size);
        }
        self.transmit(packet, size);
    }

    /// The next departure or drop that is due by `now`, in order of time; `None` when there is no more.
    #[inline]
    pub fn poll(&mut self, now: Instant) -> Option<Outcome<P>> {
        self.now = self.now.max(now);
        if self.way.next() > self.now {
            return None;
        }
        let outcome = self.way.pop()?;
        match &outcome {
            Outcome::Departure { packet, .. } => self.counters.delivered += packet.size(),
            Outcome::Drop { packet, reason, .. } => *self.counters.dropped_mut(*reason) += packet.size(),
        }
        Some(outcome)
    }

    /// When [`Link::poll`] has something next; `None` while the link is empty.
    #[inline]
    pub fn next_timeout(&self) -> Option<Instant> {
        Some(self.way.next()).filter(|at| *at < Instant::FAR_FUTURE)
    }

    /// What became of every packet so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How many packets wait for the transmitter at `now`. The one being sent has left the queue.
    pub fn queued_packets(&mut self, now: Instant) -> u64 {
        self.advance(now);
        self.queue.packets()
    }

    /// The bytes that wait for the transmitter at `now`.
    pub fn queued_bytes(&mut self, now: Instant) -> Bytes {
        self.advance(now);
        self.queue.bytes()
    }

    fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.queue.advance(self.now);
    }

    /// Sends a packet that is there now, and decides what happens to it on the way.
    #[inline]
    fn transmit(&mut self, packet: P, size: Bytes) {
        let k = self.sent;
        self.sent += 1;
        let arrival = self.transmitter.send(self.now, size) + self.delay;
        if self.loss.loses(k, size) {
            self.way.push(Outcome::Drop { packet, reason: DropReason::Loss, at: arrival });
        } else if self.reorder.is_none() && self.duplicate.is_never() {
            self.way.push(Outcome::Departure { packet, at: arrival });
        } else {
            self.deviate(k, arrival, packet, size);
        }
    }

    /// Duplicates and holds back a packet that would arrive at `arrival`, if it is its turn.
    fn deviate(&mut self, k: u64, arrival: Instant, packet: P, size: Bytes) {
        let copy = self.duplicate.happens(k).then(|| packet.clone());
        if copy.is_some() {
            self.counters.duplicated += size;
        }
        let extra_delay = self.reorder.as_ref().filter(|(chance, _)| chance.happens(k)).map(|(_, extra)| *extra);
        for (copy_number, packet) in std::iter::once(packet).chain(copy).enumerate() {
            match extra_delay {
                None => self.way.push(Outcome::Departure { packet, at: arrival }),
                Some(extra) => {
                    self.counters.reordered += size;
                    let held_back = Outcome::Departure { packet, at: arrival + extra };
                    self.way.push_out_of_order(2 * k + copy_number as u64, held_back);
                }
            }
        }
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

    fn is_never(&self) -> bool {
        self.probability == Probability::ZERO
    }

    fn happens(&self, k: u64) -> bool {
        !self.is_never() && self.draws.unit_at(k) < self.probability.as_f64()
    }
}
