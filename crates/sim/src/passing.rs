//! Packets that go through links without an event at each.
//!
//! Where all that enters a link comes out of one other, and both decide everything on arrival, what becomes of a packet in
//! the second is known when it enters the first: it goes on at once, and its next event is at the end of the last such
//! link. What it does on the way is noted here, and counted when its time has come, so that the counters of every link are
//! at any time what they would be with an event for each arrival.

use link::{Counters, Tally};
use std::collections::VecDeque;
use units::{Bytes, Instant};

/// The packets on such links, and what those did that have left them: direction by direction.
#[derive(Debug)]
pub(crate) struct Passing {
    /// In order of time. Those that have arrived are counted, many at a time, when their places are needed.
    under_way: Vec<VecDeque<Passage>>,
    counted: Vec<Counters>,
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
    /// The next link is full.
    Refused,
    /// It passes through the next link, too.
    Passes,
    /// It enters the next link, which then counts it itself.
    Enters,
}

impl Passing {
    /// For so many directions, all empty.
    pub(crate) fn new(directions: usize) -> Self {
        Self { under_way: vec![VecDeque::new(); directions], counted: vec![Counters::default(); directions] }
    }

    /// A packet enters `direction` now, from the node where it was made or after an event.
    #[inline]
    pub(crate) fn on_entry(&mut self, direction: u32, size: u64) {
        self.counted[direction as usize].offered += Bytes::new(size);
    }

    /// The packet that enters `direction` now is refused.
    pub(crate) fn on_refusal(&mut self, direction: u32, size: u64) {
        self.counted[direction as usize].dropped_queue_full += Bytes::new(size);
    }

    /// A packet is on its way over `direction` until `at`; then it goes on to `next`.
    #[inline]
    pub(crate) fn push(&mut self, now: Instant, direction: u32, at: Instant, size: u64, next: u32, then: Then) {
        let passages = &mut self.under_way[direction as usize];
        if passages.len() == passages.capacity() {
            while let Some(passage) = passages.front().copied().filter(|first| first.at <= now) {
                passages.pop_front();
                count(&mut self.counted, direction, &passage);
            }
        }
        passages.push_back(Passage { at, size: size as u32, next, then });
    }

    /// The latest packet on `direction` will find the next link full.
    pub(crate) fn refuse_latest(&mut self, direction: u32) {
        if let Some(latest) = self.under_way[direction as usize].back_mut() {
            latest.then = Then::Refused;
        }
    }

    /// Adds what passed by `now` to what the links have counted themselves.
    pub(crate) fn complete(&self, now: Instant, counters: &mut [Counters]) {
        let mut counted = self.counted.clone();
        for (direction, passages) in self.under_way.iter().enumerate() {
            for passage in passages {
                if passage.at <= now {
                    count(&mut counted, direction as u32, passage);
                } else if passage.then == Then::Enters {
                    // The next link was given it before its time.
                    let early = Tally { packets: 1, bytes: u64::from(passage.size) };
                    let offered = &mut counters[passage.next as usize].offered;
                    *offered = *offered - early;
                }
            }
        }
        for (counters, counted) in counters.iter_mut().zip(counted) {
            counters.offered = counters.offered + counted.offered;
            counters.delivered = counters.delivered + counted.delivered;
            counters.dropped_queue_full = counters.dropped_queue_full + counted.dropped_queue_full;
            counters.dropped_loss = counters.dropped_loss + counted.dropped_loss;
        }
    }

    /// Bytes that it occupies, roughly.
    pub(crate) fn memory(&self) -> usize {
        size_of::<Passage>() * self.under_way.iter().map(VecDeque::capacity).sum::<usize>()
    }
}

/// Counts a packet that has come to the end of `direction`.
#[inline]
fn count(counted: &mut [Counters], direction: u32, passage: &Passage) {
    let size = Bytes::new(u64::from(passage.size));
    if passage.then == Then::Lost {
        counted[direction as usize].dropped_loss += size;
        return;
    }
    counted[direction as usize].delivered += size;
    match passage.then {
        Then::Passes => counted[passage.next as usize].offered += size,
        Then::Refused => {
            counted[passage.next as usize].offered += size;
            counted[passage.next as usize].dropped_queue_full += size;
        }
        Then::Enters | Then::Lost => {}
    }
}
