//! Controlled delay (RFC 8289): the head is dropped, or marked, once packets have waited too long for an interval.

use super::fifo::{Fifo, Waiting};
use super::{Overflow, Tally};
use crate::Packet;
use units::{Duration, Instant};

/// CoDel's parameters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Law {
    pub(crate) target: Duration,
    pub(crate) interval: Duration,
    /// Packets whose transport reads marks are marked instead of dropped (RFC 8290, section 4.2).
    pub(crate) ecn: bool,
}

impl Law {
    /// One that finds no delay too long.
    pub(super) const NEVER: Self = Self { target: Duration::MAX, interval: Duration::MAX, ecn: false };
}

/// Where the control of a queue stands (RFC 8289, section 5).
#[derive(Debug, Default)]
pub(super) struct State {
    /// When the delay will have been above the target for an interval.
    first_above: Option<Instant>,
    is_dropping: bool,
    drop_next: Instant,
    count: u32,
    last_count: u32,
}

impl State {
    /// The queue is empty, though no packet left it.
    pub(super) fn on_emptied(&mut self) {
        self.first_above = None;
    }

    /// The packet at the head, and whether the delay has been too long for an interval.
    fn inspect<P: Packet>(&mut self, now: Instant, law: Law, fifo: &mut Fifo<P>) -> (Option<Waiting<P>>, bool) {
        let Some(waiting) = fifo.pop() else {
            self.first_above = None;
            return (None, false);
        };
        if now.since(waiting.arrived) < law.target || fifo.is_short() {
            self.first_above = None;
            return (Some(waiting), false);
        }
        let first_above = *self.first_above.get_or_insert(now + law.interval);
        (Some(waiting), now >= first_above)
    }

    /// The next packet to send, after those that are dropped.
    pub(super) fn pop<P: Packet>(
        &mut self,
        now: Instant,
        law: Law,
        fifo: &mut Fifo<P>,
        marked: &mut Tally,
        discard: &mut impl FnMut(Overflow, P),
    ) -> Option<Waiting<P>> {
        let (mut head, is_too_late) = self.inspect(now, law, fifo);
        if self.is_dropping {
            self.is_dropping = is_too_late;
            while self.is_dropping && now >= self.drop_next {
                let mut waiting = head?;
                self.count = self.count.saturating_add(1);
                if law.ecn && waiting.mark() {
                    *marked += waiting.size;
                    self.drop_next = control_law(self.drop_next, law, self.count);
                    return Some(waiting);
                }
                discard(Overflow::Delay, waiting.packet);
                (head, self.is_dropping) = self.inspect(now, law, fifo);
                if self.is_dropping {
                    self.drop_next = control_law(self.drop_next, law, self.count);
                }
            }
        } else if is_too_late {
            let mut waiting = head?;
            if law.ecn && waiting.mark() {
                *marked += waiting.size;
                head = Some(waiting);
            } else {
                discard(Overflow::Delay, waiting.packet);
                (head, _) = self.inspect(now, law, fifo);
            }
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
