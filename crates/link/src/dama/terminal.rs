//! A terminal's queue, whose packets leave in the slots that a plan gives.

use super::{Backlog, Burst};
use crate::aqm::{ManagedQueue, Overflow};
use crate::{Packet, Tally};
use std::collections::VecDeque;
use units::{Bytes, Instant};

/// A queue and the bursts that empty it. What happens in a slot is decided when it begins; a packet whose slots are all
/// known when its turn comes is as good as sent.
#[derive(Debug)]
pub(crate) struct Granted<P> {
    queue: ManagedQueue<P>,
    /// What the link layer adds to each packet.
    overhead: Bytes,
    /// Bytes that ever found room, the overhead included.
    entered: Bytes,
    /// The packet of which a part was sent, and what of it was not.
    serving: Option<(P, u64)>,
    /// What is free in the latest slot that was used, and when that slot ended.
    left: u64,
    left_end: Instant,
    left_start: Instant,
    /// Bursts whose last slot has not been used.
    bursts: VecDeque<Burst>,
    /// Bytes used of bursts, by their superframes; the last may still grow.
    used: VecDeque<(u64, u64)>,
}

impl<P: Packet> Granted<P> {
    pub(crate) fn new(queue: ManagedQueue<P>, overhead: Bytes) -> Self {
        Self {
            queue,
            overhead,
            entered: Bytes::ZERO,
            serving: None,
            left: 0,
            left_end: Instant::ZERO,
            left_start: Instant::ZERO,
            bursts: VecDeque::new(),
            used: VecDeque::new(),
        }
    }

    /// Packets marked so far.
    pub(crate) fn marked(&self) -> Tally {
        self.queue.marked
    }

    /// Packets that wait; that of which a part was sent has left the queue.
    pub(crate) fn packets(&self) -> u64 {
        self.queue.packets()
    }

    /// Bytes of IP packets that wait.
    pub(crate) fn bytes(&self) -> Bytes {
        self.queue.bytes()
    }

    pub(crate) fn backlog(&self) -> Backlog {
        let rest = self.serving.as_ref().map_or(0, |(_, unsent)| *unsent);
        let waiting = self.queue.bytes() + self.overhead * self.queue.packets() + Bytes::new(rest);
        Backlog { entered: self.entered, waiting }
    }

    /// The bytes used of superframes up to `superframe`; each is reported once.
    pub(crate) fn take_used(&mut self, superframe: u64) -> Bytes {
        let mut sum = 0;
        while let Some((_, bytes)) = self.used.front().filter(|(of, _)| *of <= superframe) {
            sum += bytes;
            self.used.pop_front();
        }
        Bytes::new(sum)
    }

    /// A plan gives it another burst, later than those before.
    pub(crate) fn assign(&mut self, burst: Burst) {
        if burst.count > 0 {
            self.bursts.push_back(burst);
        }
    }

    /// Takes a packet that arrives at `now`. All that was due before has been sent.
    pub(crate) fn push(&mut self, now: Instant, packet: P, discard: &mut impl FnMut(Overflow, P)) {
        let is_idle = self.is_idle();
        if is_idle {
            self.pass(now);
        }
        let size = packet.size() + self.overhead;
        if self.queue.push(now, packet, is_idle, discard) {
            self.entered += size;
        }
    }

    fn is_idle(&self) -> bool {
        self.serving.is_none() && self.queue.packets() == 0
    }

    /// Slots that have begun before `now` pass unused.
    fn pass(&mut self, now: Instant) {
        if self.left_start < now {
            self.left = 0;
        }
        while let Some(burst) = self.bursts.front_mut() {
            if burst.slot_start(burst.first + burst.count - 1) < now {
                self.bursts.pop_front();
                continue;
            }
            while burst.slot_start(burst.first) < now {
                burst.first += 1;
                burst.count -= 1;
            }
            return;
        }
    }

    /// When it can go on; [`Instant::FAR_FUTURE`] while nothing waits, or no slot is known.
    pub(crate) fn next_start(&self) -> Instant {
        if self.is_idle() {
            return Instant::FAR_FUTURE;
        }
        self.next_slot().unwrap_or(Instant::FAR_FUTURE)
    }

    /// When the next slot begins that has room.
    fn next_slot(&self) -> Option<Instant> {
        let first = || self.bursts.front().map(|burst| burst.slot_start(burst.first));
        if self.left > 0 { Some(self.left_start) } else { first() }
    }

    /// The next packet that is sent in slots of which the first begins by `now`, and when its last slot ends. What is given
    /// up as its turn comes goes to `discard`, with the time.
    pub(crate) fn send(
        &mut self,
        now: Instant,
        discard: &mut impl FnMut(Instant, Overflow, P),
    ) -> Option<(Instant, P)> {
        let begins = self.next_slot().filter(|begins| *begins <= now && !self.is_idle())?;
        let (packet, unsent) = match self.serving.take() {
            Some(serving) => serving,
            None => {
                let (_, packet) = self.queue.pop(begins, &mut |overflow, packet| discard(begins, overflow, packet))?;
                let unsent = (packet.size() + self.overhead).as_u64();
                if unsent == 0 {
                    // Behind a packet in the same slot it does not overtake.
                    let sent_at = if self.left > 0 { self.left_end } else { begins };
                    return Some((sent_at, packet));
                }
                (packet, unsent)
            }
        };
        match self.fill(unsent) {
            Ok(sent_at) => Some((sent_at, packet)),
            Err(unsent) => {
                self.serving = Some((packet, unsent));
                None
            }
        }
    }

    /// Puts `unsent` bytes into slots: when the last of them ends, or what found no slot.
    fn fill(&mut self, mut unsent: u64) -> Result<Instant, u64> {
        let part = unsent.min(self.left);
        if part > 0 {
            self.left -= part;
            unsent -= part;
            if let Some((_, used)) = self.used.back_mut() {
                *used += part;
            }
            if unsent == 0 {
                return Ok(self.left_end);
            }
        }
        while let Some(burst) = self.bursts.front_mut() {
            let slot = burst.slot.as_u64();
            let slots = unsent.div_ceil(slot).min(burst.count);
            let part = unsent.min(slots * slot);
            unsent -= part;
            burst.first += slots;
            burst.count -= slots;
            match self.used.back_mut().filter(|(superframe, _)| *superframe == burst.superframe) {
                Some((_, used)) => *used += part,
                None => self.used.push_back((burst.superframe, part)),
            }
            self.left = slots * slot - part;
            (self.left_start, self.left_end) = (burst.slot_start(burst.first - 1), burst.slot_start(burst.first));
            if burst.count == 0 {
                self.bursts.pop_front();
            }
            if unsent == 0 {
                return Ok(self.left_end);
            }
        }
        Err(unsent)
    }

    /// Slots that have begun by `now` and found nothing to send have passed.
    pub(crate) fn advance(&mut self, now: Instant) {
        if self.is_idle() {
            self.pass(now);
        }
    }
}
