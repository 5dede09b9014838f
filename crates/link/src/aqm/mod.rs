//! Active queue management: which packets a queue gives up, or marks, and which it serves next. One file for each law:
//! [`codel`] acts on what leaves, [`pie`] and [`red`] on what arrives; each governs one queue, or one for each flow.
//! [`dual_pi2`] has two queues of its own.

pub(crate) mod codel;
pub(crate) mod dual_pi2;
mod fifo;
pub(crate) mod pie;
pub(crate) mod red;

use crate::acks::{AckPolicy, Acks, Verdict};
use crate::{Packet, QueueLimit, Tally};
use fifo::{Fifo, Waiting};
use std::collections::VecDeque;
use units::{Bytes, CounterRandom, Instant, mix};

/// Why a managed queue dropped a packet, for its caller to report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overflow {
    /// The queue was full.
    Full,
    /// The law found too much delay, or too long a queue.
    Delay,
    /// A later acknowledgement stands for it.
    Superseded,
}

/// What a law has for a packet that arrives.
enum Fate {
    Enters,
    /// It is one of those that tell its sender of congestion.
    Signals(Signal),
}

/// How a sender is told.
enum Signal {
    /// By a mark, if its transport reads marks.
    MarkOrDrop,
    Drop,
}

/// What governs each queue.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Law {
    Codel(codel::Law),
    Pie(pie::Law),
    Red(red::Law),
}

/// Flows with a governed queue each, served in turn by deficit round robin. With one flow it is that queue alone.
#[derive(Debug)]
pub(crate) struct ManagedQueue<P> {
    law: Law,
    limit: QueueLimit,
    /// What becomes of pure acknowledgements, unless they are packets like others.
    acks: Option<Box<AckPolicy>>,
    quantum: i64,
    /// Whether a full queue drops from the head of the longest flow (RFC 8290, section 4.1) or refuses what comes.
    drops_from_longest: bool,
    perturbation: u64,
    flows: Vec<Flow<P>>,
    /// Flows that have become active and not yet had their quantum, and the other active ones.
    new_flows: VecDeque<usize>,
    old_flows: VecDeque<usize>,
    packets: u64,
    bytes: Bytes,
    /// The draws of laws that act at random, and how many there were.
    draws: CounterRandom,
    drawn: u64,
    pub(crate) marked: Tally,
}

/// A flow alone has nobody to wait for: long rounds save work.
const SOLE_QUANTUM: Bytes = Bytes::new(1 << 20);

/// How several queues share a link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fairness {
    /// Queues among which flows are hashed.
    pub(crate) flows: u32,
    /// What a flow may send in its turn.
    pub(crate) quantum: Bytes,
    /// Changes which flows share a queue.
    pub(crate) perturbation: u64,
}

impl<P: Packet> ManagedQueue<P> {
    /// First in, first out, and what finds it full is refused.
    pub(crate) fn plain(limit: QueueLimit) -> Self {
        Self::single(Law::Codel(codel::Law::NEVER), limit, CounterRandom::new(0, 0))
    }

    /// One queue, which refuses what finds it full.
    pub(crate) fn single(law: Law, limit: QueueLimit, draws: CounterRandom) -> Self {
        let alone = Fairness { flows: 1, quantum: SOLE_QUANTUM, perturbation: 0 };
        Self { drops_from_longest: false, ..Self::fair(law, limit, alone, draws) }
    }

    /// A queue for each flow.
    pub(crate) fn fair(law: Law, limit: QueueLimit, fairness: Fairness, draws: CounterRandom) -> Self {
        Self {
            law,
            limit,
            acks: None,
            quantum: signed(fairness.quantum),
            drops_from_longest: true,
            perturbation: fairness.perturbation,
            flows: (0..fairness.flows).map(|_| Flow::new(&law)).collect(),
            new_flows: VecDeque::new(),
            old_flows: VecDeque::new(),
            packets: 0,
            bytes: Bytes::ZERO,
            draws,
            drawn: 0,
            marked: Tally::default(),
        }
    }

    /// The same, which does so with pure acknowledgements.
    pub(crate) fn with_acks(self, acks: Acks) -> Self {
        Self { acks: acks.policy(), ..self }
    }

    pub(crate) fn packets(&self) -> u64 {
        self.packets
    }

    pub(crate) fn bytes(&self) -> Bytes {
        self.bytes
    }

    /// Takes a packet that arrives at `now`; gives those that are dropped for it to `discard`. Returns whether it was let in
    /// (it may be among the dropped all the same). Where the link `is_idle`, the packet need not wait, and finds room whatever its size.
    pub(crate) fn push(
        &mut self,
        now: Instant,
        packet: P,
        is_idle: bool,
        discard: &mut impl FnMut(Overflow, P),
    ) -> bool {
        let size = packet.size();
        let index = (mix(packet.flow_hash() ^ self.perturbation) % self.flows.len() as u64) as usize;
        let mut waiting = Waiting { arrived: now, size, packet, is_replaceable: false };
        if self.acks.is_some() {
            match self.sort_acknowledgement(index, waiting) {
                Ok(kept) => waiting = kept,
                Err(superseded) => {
                    discard(Overflow::Superseded, superseded);
                    return false;
                }
            }
        }
        let has_room = is_idle || self.limit.allows(self.packets, self.bytes, size);
        if !has_room && !self.drops_from_longest {
            self.observe(index, now);
            discard(Overflow::Full, waiting.packet);
            return false;
        }
        if let Some(signal) = self.signal(index, now) {
            if matches!(signal, Signal::MarkOrDrop) && waiting.mark() {
                self.marked += size;
            } else {
                discard(Overflow::Delay, waiting.packet);
                return false;
            }
        }
        let flow = &mut self.flows[index];
        if !flow.is_active {
            flow.is_active = true;
            flow.deficit = self.quantum;
            self.new_flows.push_back(index);
        }
        flow.fifo.push(waiting);
        self.packets += 1;
        self.bytes += size;
        if !has_room {
            self.relieve(now, discard);
        }
        true
    }

    /// What is still to be queued of a packet that arrives; or else the acknowledgement that is dropped for it, which may be itself.
    fn sort_acknowledgement(&mut self, index: usize, mut waiting: Waiting<P>) -> Result<Waiting<P>, P> {
        let Some(policy) = &mut self.acks else { return Ok(waiting) };
        match policy.on_arrival(&waiting.packet) {
            Verdict::Waits => Ok(waiting),
            Verdict::Dropped => Err(waiting.packet),
            Verdict::MayReplace => {
                waiting.is_replaceable = true;
                let fifo = &mut self.flows[index].fifo;
                let before = fifo.bytes();
                let older = match fifo.replace(waiting) {
                    Ok(older) => older,
                    Err(alone) => return Ok(alone),
                };
                self.bytes = self.bytes + fifo.bytes() - before;
                Err(older)
            }
        }
    }

    /// Takes note of a packet that arrives for a flow and finds no room: RED averages over all arrivals, and PIE's drops keep their distance
    /// from any loss.
    fn observe(&mut self, index: usize, now: Instant) {
        let Flow { fifo, state, .. } = &mut self.flows[index];
        match (&self.law, state) {
            (Law::Red(law), State::Red(state)) => state.measure(now, law, fifo.bytes()),
            (Law::Pie(_), State::Pie(state)) => state.on_refused(),
            _ => {}
        }
    }

    /// Whether a packet that arrives for a flow is to tell its sender of congestion, and how.
    fn signal(&mut self, index: usize, now: Instant) -> Option<Signal> {
        let Flow { fifo, state, .. } = &mut self.flows[index];
        let fate = match (&self.law, state) {
            (Law::Pie(law), State::Pie(state)) => state.admit(now, law, fifo, self.draws.unit_at(self.drawn)),
            (Law::Red(law), State::Red(state)) => state.admit(now, law, fifo, self.draws.unit_at(self.drawn)),
            _ => return None,
        };
        self.drawn += 1;
        match fate {
            Fate::Enters => None,
            Fate::Signals(signal) => Some(signal),
        }
    }

    /// Drops half of the flow with the most bytes, at most 64 packets, from its head (RFC 8290, section 4.1).
    fn relieve(&mut self, now: Instant, discard: &mut impl FnMut(Overflow, P)) {
        let Some(longest) = self.flows.iter_mut().rev().max_by_key(|flow| flow.fifo.bytes()) else { return };
        let packets = longest.fifo.packets().div_ceil(2).min(64);
        longest.drop_head(now, &self.law, packets, |waiting| {
            self.packets -= 1;
            self.bytes = self.bytes - waiting.size;
            discard(Overflow::Full, waiting.packet);
        });
    }

    /// The packet whose transmission begins at `now`, and when it had arrived (RFC 8290, section 4.2); gives those that
    /// the law drops to `discard`.
    pub(crate) fn pop(&mut self, now: Instant, discard: &mut impl FnMut(Overflow, P)) -> Option<(Instant, P)> {
        loop {
            let (index, is_new) = match self.new_flows.front() {
                Some(index) => (*index, true),
                None => (*self.old_flows.front()?, false),
            };
            let flow = &mut self.flows[index];
            if flow.deficit <= 0 {
                flow.deficit += self.quantum;
                self.rotate(index, is_new);
                continue;
            }
            let (packets, bytes) = (flow.fifo.packets(), flow.fifo.bytes());
            let popped = flow.pop(now, &self.law, &mut self.marked, discard);
            let size = popped.as_ref().map_or(0, |waiting| signed(waiting.size));
            flow.deficit -= size;
            self.packets -= packets - flow.fifo.packets();
            self.bytes = self.bytes - (bytes - flow.fifo.bytes());
            match popped {
                Some(waiting) => return Some((waiting.arrived, waiting.packet)),
                // An empty new flow makes way for the old ones once, so that it cannot come back as new at once.
                None if is_new => self.rotate(index, true),
                None => {
                    flow.is_active = false;
                    self.old_flows.pop_front();
                }
            }
        }
    }

    /// Gives up all that waits at `now`.
    pub(crate) fn drain(&mut self, now: Instant, mut lost: impl FnMut(P)) {
        for flow in &mut self.flows {
            flow.drop_head(now, &self.law, u64::MAX, |waiting| lost(waiting.packet));
        }
        (self.packets, self.bytes) = (0, Bytes::ZERO);
    }

    /// Moves the flow at the head of its list to the end of the old ones.
    fn rotate(&mut self, index: usize, is_new: bool) {
        if is_new {
            self.new_flows.pop_front();
        } else {
            self.old_flows.pop_front();
        }
        self.old_flows.push_back(index);
    }
}

fn signed(bytes: Bytes) -> i64 {
    i64::try_from(bytes.as_u64()).unwrap_or(i64::MAX)
}

/// A queue, and where the law that governs it stands.
#[derive(Debug)]
struct Flow<P> {
    fifo: Fifo<P>,
    state: State,
    is_active: bool,
    /// What it may still send in this round, in bytes.
    deficit: i64,
}

#[derive(Debug)]
enum State {
    Codel(codel::State),
    Pie(pie::State),
    Red(red::State),
}

impl<P: Packet> Flow<P> {
    fn new(law: &Law) -> Self {
        let state = match law {
            Law::Codel(_) => State::Codel(codel::State::default()),
            Law::Pie(law) => State::Pie(pie::State::new(law)),
            Law::Red(_) => State::Red(red::State::default()),
        };
        Self { fifo: Fifo::new(), state, is_active: false, deficit: 0 }
    }

    /// Gives up to `packets` of those that wait longest at `now` to `dropped`. The law learns only that the queue has become empty.
    fn drop_head(&mut self, now: Instant, law: &Law, packets: u64, mut dropped: impl FnMut(Waiting<P>)) {
        let before = self.fifo.packets();
        for _ in 0..packets.min(before) {
            self.fifo.pop().into_iter().for_each(&mut dropped);
        }
        if before > 0 && self.fifo.packets() == 0 {
            self.on_emptied(now, law);
        }
    }

    /// The last packet that waited was dropped at `now`.
    fn on_emptied(&mut self, now: Instant, law: &Law) {
        match (law, &mut self.state) {
            (Law::Codel(_), State::Codel(state)) => state.on_emptied(),
            (Law::Pie(law), State::Pie(state)) => state.on_emptied(now, law),
            (Law::Red(_), State::Red(state)) => state.on_emptied(now),
            _ => {}
        }
    }

    /// The next packet to send, after those that the law drops.
    fn pop(
        &mut self,
        now: Instant,
        law: &Law,
        marked: &mut Tally,
        discard: &mut impl FnMut(Overflow, P),
    ) -> Option<Waiting<P>> {
        if let (Law::Codel(law), State::Codel(state)) = (law, &mut self.state) {
            return state.pop(now, *law, &mut self.fifo, marked, discard);
        }
        let waiting = self.fifo.pop()?;
        match (law, &mut self.state) {
            (Law::Pie(law), State::Pie(state)) => state.on_popped(now, law, &self.fifo, now.since(waiting.arrived)),
            (Law::Red(_), State::Red(state)) => state.on_popped(now, &self.fifo),
            _ => {}
        }
        Some(waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Duration;

    #[derive(Debug, Clone)]
    struct Full;

    impl Packet for Full {
        fn size(&self) -> Bytes {
            Bytes::new(1500)
        }
    }

    /// RFC 8033, appendix A (`enque`): drops keep their distance from the latest packet that was lost, be it for want of room.
    #[test]
    fn after_a_packet_that_found_no_room_pie_lets_others_pass() {
        let law = pie::Law {
            target: Duration::from_millis(15),
            update: Duration::from_millis(15),
            max_burst: Duration::ZERO,
            ecn: false,
        };
        let now = Instant::ZERO;
        for seed in 0..20 {
            let draws = CounterRandom::new(seed, 0);
            let mut queue = ManagedQueue::single(Law::Pie(law), QueueLimit::Packets(4), draws);
            let mut lost = Vec::new();
            let mut push = |queue: &mut ManagedQueue<Full>| queue.push(now, Full, false, &mut |why, _| lost.push(why));
            assert!((0..3).all(|_| push(&mut queue)));
            // The next packet brings the sum of probabilities to 0.8, below the distance; another would bring it beyond.
            queue.flows[0].state = State::Pie(pie::State::congested(0.8));
            assert!(push(&mut queue) && !push(&mut queue));
            assert!(queue.pop(now, &mut |_, _| {}).is_some());
            assert!(push(&mut queue), "seed {seed}");
            assert_eq!(lost, [Overflow::Full], "seed {seed}");
        }
    }
}
