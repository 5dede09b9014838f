//! Active queue management: CoDel (RFC 8289) and FQ-CoDel (RFC 8290), which drop at the head of their queues.

use crate::{Packet, QueueLimit};
use std::collections::VecDeque;
use units::{Bytes, Duration, Instant, mix};

/// Why a managed queue dropped a packet, for its caller to report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overflow {
    /// The queue was full.
    Full,
    /// CoDel found that packets wait too long.
    Delay,
}

/// Flows with a CoDel queue each, served in turn by deficit round robin. With one flow it is CoDel alone.
#[derive(Debug)]
pub(crate) struct ManagedQueue<P> {
    law: Law,
    limit: QueueLimit,
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
}

/// A flow alone has nobody to wait for: long rounds save work.
const SOLE_QUANTUM: Bytes = Bytes::new(1 << 20);

/// CoDel's parameters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Law {
    pub(crate) target: Duration,
    pub(crate) interval: Duration,
}

impl<P: Packet> ManagedQueue<P> {
    /// First in, first out, and what finds it full is refused.
    pub(crate) fn plain(limit: QueueLimit) -> Self {
        Self::codel(Law { target: Duration::MAX, interval: Duration::MAX }, limit)
    }

    /// CoDel over one queue, which refuses what finds it full.
    pub(crate) fn codel(law: Law, limit: QueueLimit) -> Self {
        Self::new(law, limit, 1, SOLE_QUANTUM, 0, false)
    }

    /// FQ-CoDel over `flows` queues.
    pub(crate) fn fq_codel(law: Law, limit: QueueLimit, flows: usize, quantum: Bytes, perturbation: u64) -> Self {
        Self::new(law, limit, flows, quantum, perturbation, true)
    }

    fn new(law: Law, limit: QueueLimit, flows: usize, quantum: Bytes, perturbation: u64, fair: bool) -> Self {
        Self {
            law,
            limit,
            quantum: signed(quantum),
            drops_from_longest: fair,
            perturbation,
            flows: (0..flows).map(|_| Flow::new()).collect(),
            new_flows: VecDeque::new(),
            old_flows: VecDeque::new(),
            packets: 0,
            bytes: Bytes::ZERO,
        }
    }

    pub(crate) fn packets(&self) -> u64 {
        self.packets
    }

    pub(crate) fn bytes(&self) -> Bytes {
        self.bytes
    }

    /// Takes a packet that arrives at `now`; gives those that are dropped for it to `discard`. Returns whether it was let in
    /// (it may be among the dropped all the same).
    pub(crate) fn push(&mut self, now: Instant, packet: P, discard: &mut impl FnMut(Overflow, P)) -> bool {
        let size = packet.size();
        let has_room = self.limit.allows(self.packets, self.bytes, size);
        if !has_room && !self.drops_from_longest {
            discard(Overflow::Full, packet);
            return false;
        }
        let index = (mix(packet.flow_hash() ^ self.perturbation) % self.flows.len() as u64) as usize;
        let flow = &mut self.flows[index];
        if !flow.is_active {
            flow.is_active = true;
            flow.deficit = self.quantum;
            self.new_flows.push_back(index);
        }
        flow.push(now, packet, size);
        self.packets += 1;
        self.bytes += size;
        if !has_room {
            self.relieve(discard);
        }
        true
    }

    /// Drops half of the flow with the most bytes, at most 64 packets, from its head (RFC 8290, section 4.1).
    fn relieve(&mut self, discard: &mut impl FnMut(Overflow, P)) {
        let Some(longest) = self.flows.iter_mut().rev().max_by_key(|flow| flow.bytes) else { return };
        for _ in 0..longest.packets.len().div_ceil(2).min(64) {
            let Some(waiting) = longest.pop() else { return };
            self.packets -= 1;
            self.bytes = self.bytes - waiting.size;
            discard(Overflow::Full, waiting.packet);
        }
    }

    /// The packet whose transmission begins at `now`, and when it had arrived (RFC 8290, section 4.2); gives those that
    /// CoDel drops to `discard`.
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
            let (packets, bytes) = (flow.packets.len() as u64, flow.bytes);
            let popped = flow.dequeue(now, self.law, discard);
            let size = popped.as_ref().map_or(0, |waiting| signed(waiting.size));
            flow.deficit -= size;
            self.packets -= packets - flow.packets.len() as u64;
            self.bytes = self.bytes - (bytes - flow.bytes);
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

#[derive(Debug)]
struct Waiting<P> {
    arrived: Instant,
    size: Bytes,
    packet: P,
}

/// A queue under CoDel's control (RFC 8289, section 5).
#[derive(Debug)]
struct Flow<P> {
    packets: VecDeque<Waiting<P>>,
    bytes: Bytes,
    is_active: bool,
    /// What it may still send in this round, in bytes.
    deficit: i64,
    largest: Bytes,
    /// When the delay will have been above the target for an interval.
    first_above: Option<Instant>,
    is_dropping: bool,
    drop_next: Instant,
    count: u32,
    last_count: u32,
}

impl<P> Flow<P> {
    fn new() -> Self {
        Self {
            packets: VecDeque::new(),
            bytes: Bytes::ZERO,
            is_active: false,
            deficit: 0,
            largest: Bytes::ZERO,
            first_above: None,
            is_dropping: false,
            drop_next: Instant::ZERO,
            count: 0,
            last_count: 0,
        }
    }

    fn push(&mut self, arrived: Instant, packet: P, size: Bytes) {
        self.bytes += size;
        self.largest = self.largest.max(size);
        self.packets.push_back(Waiting { arrived, size, packet });
    }

    fn pop(&mut self) -> Option<Waiting<P>> {
        let waiting = self.packets.pop_front()?;
        self.bytes = self.bytes - waiting.size;
        Some(waiting)
    }

    /// The packet at the head, and whether the delay has been too long for an interval.
    fn inspect(&mut self, now: Instant, law: Law) -> (Option<Waiting<P>>, bool) {
        let Some(waiting) = self.pop() else {
            self.first_above = None;
            return (None, false);
        };
        if now.since(waiting.arrived) < law.target || self.bytes <= self.largest {
            self.first_above = None;
            return (Some(waiting), false);
        }
        let first_above = *self.first_above.get_or_insert(now + law.interval);
        (Some(waiting), now >= first_above)
    }

    /// The next packet to send, after those that CoDel drops.
    fn dequeue(&mut self, now: Instant, law: Law, discard: &mut impl FnMut(Overflow, P)) -> Option<Waiting<P>> {
        let (mut head, is_too_late) = self.inspect(now, law);
        if self.is_dropping {
            self.is_dropping = is_too_late;
            while self.is_dropping && now >= self.drop_next {
                discard(Overflow::Delay, head?.packet);
                self.count = self.count.saturating_add(1);
                (head, self.is_dropping) = self.inspect(now, law);
                if self.is_dropping {
                    self.drop_next = control_law(self.drop_next, law, self.count);
                }
            }
        } else if is_too_late {
            discard(Overflow::Delay, head?.packet);
            (head, _) = self.inspect(now, law);
            self.is_dropping = true;
            // If it dropped not long ago, it goes on at about the frequency that was right then.
            let recent = self.count.saturating_sub(self.last_count);
            let is_recent = now.since(self.drop_next) < law.interval * 16;
            self.count = if recent > 1 && is_recent { recent } else { 1 };
            self.drop_next = control_law(now, law, self.count);
            self.last_count = self.count;
        }
        head
    }
}

/// Drops come ever closer, as the square root of their number, until the delay falls.
fn control_law(from: Instant, law: Law, count: u32) -> Instant {
    from + law.interval.mul_f64(1.0 / f64::from(count).sqrt())
}
