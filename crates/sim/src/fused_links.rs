//! Packets that go through links without an event at each.
//!
//! Where all that enters a link comes out of one other, and both decide everything on arrival, the outcome of a packet in
//! the second is known when it enters the first: it goes on at once, and its next event is at the end of the last such
//! link. The links count it at once, too. What has yet to happen is noted here and left out of what is reported, so that
//! the counters of every link are at any time what they would be with an event for each arrival.

use link::{Counters, DropReason, Tally};
use std::collections::VecDeque;
use units::Instant;

/// The packets on such links.
#[derive(Debug)]
pub(crate) struct FusedLinks {
    /// By direction, in order of time. Those that have arrived are forgotten, many at a time, when their places are
    /// needed.
    under_way: Vec<VecDeque<Passage>>,
    /// For each direction, the one that all packets come from that enter it, if they pass.
    feeders: Vec<Option<u32>>,
}

/// A packet on a link.
#[derive(Debug, Clone, Copy)]
struct Passage {
    /// When it arrives at the far end, or would.
    at: Instant,
    size: u32,
    /// The direction that it enters then.
    next: u32,
    then: Then,
}

/// What happens to a packet at the end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// It was lost on the way.
    Lost,
    /// The next link refuses it: it is full, or polices.
    Refused(DropReason),
    /// It goes on over the next link.
    Enters,
}

impl FusedLinks {
    /// For so many directions, all empty.
    pub(crate) fn new(directions: usize) -> Self {
        Self { under_way: vec![VecDeque::new(); directions], feeders: vec![None; directions] }
    }

    /// Packets will pass from `direction` to `next`, which no others enter.
    pub(crate) fn join(&mut self, direction: u32, next: u32) {
        self.feeders[next as usize] = Some(direction);
    }

    /// A packet is on its way over `direction` until `at`; then it goes on to `next`.
    #[inline]
    pub(crate) fn push(&mut self, now: Instant, direction: u32, at: Instant, size: u32, next: u32, then: Then) {
        let passages = &mut self.under_way[direction as usize];
        if passages.len() == passages.capacity() {
            let arrived = passages.partition_point(|passage| passage.at <= now);
            passages.drain(..arrived);
            // If few have arrived, the places gained would soon be needed.
            passages.reserve(passages.len());
        }
        passages.push_back(Passage { at, size, next, then });
    }

    /// The next link will refuse the latest packet on `direction`.
    pub(crate) fn refuse_latest(&mut self, direction: u32, reason: DropReason) {
        if let Some(latest) = self.under_way[direction as usize].back_mut() {
            latest.then = Then::Refused(reason);
        }
    }

    /// Takes what has yet to happen after `now` off what the links have counted.
    pub(crate) fn take_off(&self, now: Instant, counters: &mut [Counters]) {
        for (direction, passages) in self.under_way.iter().enumerate() {
            for passage in passages.iter().filter(|passage| passage.at > now) {
                passage.take_off(direction, counters);
            }
        }
    }

    /// Bytes that `direction` has counted as offered and that enter it after `now`.
    pub(crate) fn yet_to_enter(&self, now: Instant, direction: u32) -> u64 {
        let Some(feeder) = self.feeders[direction as usize] else { return 0 };
        let under_way = self.under_way[feeder as usize].iter().rev().take_while(|passage| passage.at > now);
        let enter = under_way.filter(|passage| passage.next == direction && passage.then != Then::Lost);
        enter.map(|passage| u64::from(passage.size)).sum()
    }

    /// Bytes that it occupies, roughly.
    pub(crate) fn memory(&self) -> usize {
        size_of::<Passage>() * self.under_way.iter().map(VecDeque::capacity).sum::<usize>()
    }
}

impl Passage {
    fn take_off(&self, direction: usize, counters: &mut [Counters]) {
        let one = Tally { packets: 1, bytes: u64::from(self.size) };
        let next = self.next as usize;
        if self.then == Then::Lost {
            counters[direction].dropped_loss -= one;
            return;
        }
        counters[direction].delivered -= one;
        counters[next].offered -= one;
        if let Then::Refused(reason) = self.then {
            *counters[next].dropped_mut(reason) -= one;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Duration;

    #[test]
    fn one_direction_s_bytes_are_those_of_all_counters() {
        let at = |ms: u64| Instant::ZERO + Duration::from_millis(ms);
        let mut fused = FusedLinks::new(4);
        (1..4).for_each(|next| fused.join(next - 1, next));
        for (ms, then) in [(10, Then::Enters), (11, Then::Lost), (12, Then::Refused(DropReason::QueueFull))] {
            fused.push(at(0), 0, at(ms), 100, 1, then);
            fused.push(at(0), 1, at(ms + 10), 1_000, 2, then);
        }
        for now in [0, 10, 11, 12, 19, 20, 21, 22] {
            let mut counters = vec![Counters::default(); 4];
            let all = Tally { packets: 10, bytes: 10_000 };
            counters
                .iter_mut()
                .for_each(|of_one| (of_one.offered, of_one.delivered, of_one.dropped_loss) = (all, all, all));
            counters.iter_mut().for_each(|of_one| *of_one.dropped_mut(DropReason::QueueFull) = all);
            fused.take_off(at(now), &mut counters);
            for direction in 0..4 {
                let left = counters[direction as usize].offered.bytes;
                assert_eq!(10_000 - fused.yet_to_enter(at(now), direction), left, "{direction} at {now} ms");
            }
        }
    }
}
