//! DualQ Coupled AQM with PI2 (RFC 9332, appendix A): a queue with early marks for transports that answer to the share of marked
//! packets, beside one for all others, coupled so that a flow of either gets the same rate.

use super::fifo::{Fifo, Waiting};
use super::{Overflow, Tally};
use crate::{Packet, QueueLimit};
use units::{Bytes, Duration, Ecn, Instant};

/// DualPI2's parameters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Law {
    /// For the classic queue.
    pub(crate) target: Duration,
    /// What waits longer in the L4S queue is marked.
    pub(crate) threshold: Duration,
    /// The longest round-trip time of the flows, from which the gains follow.
    pub(crate) rtt_max: Duration,
}

impl Law {
    /// How often the probability is calculated (RFC 9332, appendix A.1).
    fn update(&self) -> Duration {
        self.target.min(self.rtt_max / 3)
    }

    /// Gains of the deviation from the target and of the delay's change, in 1/s (RFC 9332, appendix A.1).
    fn gains(&self) -> (f64, f64) {
        let rtt = self.rtt_max.as_secs_f64();
        (0.1 * self.update().as_secs_f64() / (rtt * rtt), 0.3 / rtt)
    }
}

/// The coupling: marks of the L4S queue come with so many times the base probability, drops of the other with its square.
const COUPLING: f64 = 2.0;

/// Two packets of the usual size. While fewer bytes wait, the probability does not apply: it falls slowly on a link that has become idle
/// (`must_drop` of Linux's `sch_dualpi2.c`).
const SHORT: Bytes = Bytes::new(2 * 1500);

/// The two queues and their controller.
#[derive(Debug)]
pub(crate) struct Queue<P> {
    law: Law,
    limit: QueueLimit,
    low_latency: Fifo<P>,
    classic: Fifo<P>,
    /// The base probability p'.
    base: f64,
    delay_before: Duration,
    next_update: Option<Instant>,
    /// What is owed to each: a mark or drop is due at 1 (`recur` of appendix A.1, without random numbers).
    owed_marks: f64,
    owed_drops: f64,
    owed_classic: f64,
    pub(crate) marked: Tally,
}

impl<P: Packet> Queue<P> {
    pub(crate) fn new(law: Law, limit: QueueLimit) -> Self {
        Self {
            law,
            limit,
            low_latency: Fifo::new(),
            classic: Fifo::new(),
            base: 0.0,
            delay_before: Duration::ZERO,
            next_update: None,
            owed_marks: 0.0,
            owed_drops: 0.0,
            owed_classic: 0.0,
            marked: Tally::default(),
        }
    }

    pub(crate) fn packets(&self) -> u64 {
        self.low_latency.packets() + self.classic.packets()
    }

    pub(crate) fn bytes(&self) -> Bytes {
        self.low_latency.bytes() + self.classic.bytes()
    }

    /// Takes a packet that arrives at `now`, or gives it to `discard` if both queues together are full. Where the link `is_idle`, the
    /// packet need not wait, and finds room whatever its size.
    pub(crate) fn push(&mut self, now: Instant, packet: P, is_idle: bool, discard: &mut impl FnMut(Overflow, P)) {
        self.catch_up(now);
        let size = packet.size();
        if !is_idle && !self.limit.allows(self.packets(), self.bytes(), size) {
            return discard(Overflow::Full, packet);
        }
        let is_low_latency = matches!(packet.ecn(), Ecn::Ect1 | Ecn::CongestionExperienced);
        let queue = if is_low_latency { &mut self.low_latency } else { &mut self.classic };
        queue.push(Waiting { arrived: now, size, packet, is_replaceable: false });
    }

    /// Gives up all that waits at `now`.
    pub(crate) fn drain(&mut self, now: Instant, mut lost: impl FnMut(P)) {
        self.catch_up(now);
        for queue in [&mut self.low_latency, &mut self.classic] {
            while let Some(waiting) = queue.pop() {
                lost(waiting.packet);
            }
        }
    }

    /// The packet whose transmission begins at `now`, and when it had arrived; gives those that are dropped to `discard`.
    pub(crate) fn pop(&mut self, now: Instant, discard: &mut impl FnMut(Overflow, P)) -> Option<(Instant, P)> {
        self.catch_up(now);
        while self.packets() > 0 {
            let popped = if self.serves_low_latency(now) {
                self.pop_low_latency(now, discard)
            } else {
                self.pop_classic(discard)
            };
            if let Some(waiting) = popped {
                return Some((waiting.arrived, waiting.packet));
            }
        }
        None
    }

    /// The time-shifted FIFO of RFC 9332, section 4.2.2: the L4S queue is ahead by twice the target of the other, which therefore
    /// never starves.
    fn serves_low_latency(&self, now: Instant) -> bool {
        if self.low_latency.packets() == 0 || self.classic.packets() == 0 {
            return self.low_latency.packets() > 0;
        }
        self.low_latency.delay(now) + self.law.target * 2 >= self.classic.delay(now)
    }

    fn pop_low_latency(&mut self, now: Instant, discard: &mut impl FnMut(Overflow, P)) -> Option<Waiting<P>> {
        let is_alone = self.low_latency.packets() <= 1;
        let mut waiting = self.low_latency.pop()?;
        let base = self.applied();
        let coupled = COUPLING * base;
        if coupled >= 1.0 && is_due(&mut self.owed_drops, base * base) {
            // Overload: what answers to nothing is dropped as often in either queue.
            discard(Overflow::Delay, waiting.packet);
            return None;
        }
        let is_late = now.since(waiting.arrived) > self.law.threshold && !is_alone;
        let probability = if is_late { 1.0 } else { coupled.min(1.0) };
        if is_due(&mut self.owed_marks, probability) && waiting.mark() {
            self.marked += waiting.size;
        }
        Some(waiting)
    }

    fn pop_classic(&mut self, discard: &mut impl FnMut(Overflow, P)) -> Option<Waiting<P>> {
        let mut waiting = self.classic.pop()?;
        let base = self.applied();
        if !is_due(&mut self.owed_classic, base * base) {
            return Some(waiting);
        }
        let is_overloaded = COUPLING * base >= 1.0;
        if !is_overloaded && waiting.mark() {
            self.marked += waiting.size;
            return Some(waiting);
        }
        discard(Overflow::Delay, waiting.packet);
        None
    }

    /// The base probability that applies to the packet just taken from its queue, by what waits behind it.
    fn applied(&self) -> f64 {
        if self.bytes() < SHORT { 0.0 } else { self.base }
    }

    /// Calculates the base probability as often as it was due until `now`.
    fn catch_up(&mut self, now: Instant) {
        let period = self.law.update();
        let mut next = self.next_update.unwrap_or(now + period);
        while next <= now {
            self.update(next);
            if self.packets() == 0 && self.base == 0.0 && self.delay_before.is_zero() {
                let periods = now.since(next).as_nanos() / period.as_nanos().max(1) + 1;
                next += Duration::from_nanos(periods.saturating_mul(period.as_nanos()));
                break;
            }
            next += period;
        }
        self.next_update = Some(next);
    }

    fn update(&mut self, now: Instant) {
        let delay = self.low_latency.delay(now).max(self.classic.delay(now));
        let (target, before) = (self.law.target.as_secs_f64(), self.delay_before.as_secs_f64());
        let ((alpha, beta), seconds) = (self.law.gains(), delay.as_secs_f64());
        self.base = (self.base + alpha * (seconds - target) + beta * (seconds - before)).clamp(0.0, 1.0);
        self.delay_before = delay;
    }
}

/// Spreads hits evenly: adds `likelihood` to what is owed, and takes 1 off where that much is.
fn is_due(owed: &mut f64, likelihood: f64) -> bool {
    *owed += likelihood;
    let is_due = *owed >= 1.0;
    if is_due {
        *owed -= 1.0;
    }
    is_due
}
