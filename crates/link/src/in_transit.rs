//! Packets whose outcome is decided: on the way to the far end, or dropped and not yet reported.

use crate::{DropReason, Outcome};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use units::Instant;

/// Gives packets back when their time has come, in order of time.
#[derive(Debug)]
pub(crate) struct InTransit<P> {
    /// In order of arrival.
    in_order: VecDeque<Outcome<P>>,
    /// Those that may be overtaken, or overtake.
    out_of_order: BinaryHeap<Reverse<Numbered<P>>>,
    /// Those that went no further than the queue, in order of time.
    discarded: VecDeque<Outcome<P>>,
    /// The earliest of the three; [`Instant::FAR_FUTURE`] when there is none.
    next: Instant,
}

impl<P> InTransit<P> {
    pub(crate) fn new() -> Self {
        Self {
            in_order: VecDeque::new(),
            out_of_order: BinaryHeap::new(),
            discarded: VecDeque::new(),
            next: Instant::FAR_FUTURE,
        }
    }

    /// The packet that comes out as the `n`-th after the next one, unless one out of order comes before.
    #[inline]
    pub(crate) fn upcoming(&self, n: usize) -> Option<&P> {
        let (Outcome::Departure { packet, .. } | Outcome::Drop { packet, .. }) = self.in_order.get(n)?;
        Some(packet)
    }

    /// When [`InTransit::pop`] has something next; [`Instant::FAR_FUTURE`] if nothing is there.
    #[inline]
    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    /// The latest time up to `end` that one of those has that are there, if any has; only the first of those out of order counts.
    pub(crate) fn last_by(&self, end: Instant) -> Option<Instant> {
        let in_order = self.in_order.iter().map(Outcome::at).take_while(|at| *at <= end).last();
        let [_, _, out_of_order] = self.fronts();
        in_order.max(Some(out_of_order).filter(|at| *at <= end))
    }

    /// A packet that arrives, or would have, not before those pushed in order until now.
    #[inline]
    pub(crate) fn push(&mut self, outcome: Outcome<P>) {
        self.next = self.next.min(outcome.at());
        self.in_order.push_back(outcome);
    }

    /// A packet that arrives, or would have, at any time. Numbers follow the order of sending; a copy has the odd number behind its original's.
    pub(crate) fn push_out_of_order(&mut self, number: u64, outcome: Outcome<P>) {
        self.next = self.next.min(outcome.at());
        self.out_of_order.push(Reverse(Numbered { number, outcome }));
    }

    /// A packet that was dropped at `at`, not before those dropped until now.
    pub(crate) fn discard(&mut self, at: Instant, reason: DropReason, packet: P) {
        self.next = self.next.min(at);
        self.discarded.push_back(Outcome::Drop { packet, reason, at });
    }

    /// The packet whose time comes first.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Outcome<P>> {
        if !self.discarded.is_empty() || !self.out_of_order.is_empty() {
            return self.pop_of_three();
        }
        let first = self.in_order.pop_front();
        self.next = self.in_order.front().map_or(Instant::FAR_FUTURE, Outcome::at);
        first
    }

    fn pop_of_three(&mut self) -> Option<Outcome<P>> {
        let [discarded, in_order, out_of_order] = self.fronts();
        let copy_is_next = self.out_of_order.peek().is_some_and(|Reverse(numbered)| numbered.number % 2 == 1);
        let first = if discarded <= in_order && discarded <= out_of_order {
            self.discarded.pop_front()
        // A copy leaves right behind its original, whatever has come in order meanwhile.
        } else if out_of_order < in_order || (copy_is_next && out_of_order == in_order) {
            self.out_of_order.pop().map(|Reverse(numbered)| numbered.outcome)
        } else {
            self.in_order.pop_front()
        };
        self.next = self.fronts().into_iter().min().unwrap_or(Instant::FAR_FUTURE);
        first
    }

    fn fronts(&self) -> [Instant; 3] {
        [
            self.discarded.front().map(Outcome::at),
            self.in_order.front().map(Outcome::at),
            self.out_of_order.peek().map(|Reverse(numbered)| numbered.outcome.at()),
        ]
        .map(|at| at.unwrap_or(Instant::FAR_FUTURE))
    }
}

/// Ordered by arrival, and then by when it was sent.
#[derive(Debug)]
struct Numbered<P> {
    number: u64,
    outcome: Outcome<P>,
}

impl<P> Numbered<P> {
    fn key(&self) -> (Instant, u64) {
        (self.outcome.at(), self.number)
    }
}

impl<P> PartialEq for Numbered<P> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<P> Eq for Numbered<P> {}

impl<P> PartialOrd for Numbered<P> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> Ord for Numbered<P> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}
