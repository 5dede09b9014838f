//! The plain queue: first in, first out, and what finds it full is dropped.

use crate::QueueLimit;
use std::collections::VecDeque;
use units::{Bytes, Instant};

/// Who waits for the transmitter, known beforehand: on arrival it is clear when the transmission of a packet will begin,
/// so that the packet itself can be on its way at once, and only its time and size are kept here. Those whose transmission
/// has begun are forgotten, many at a time, when their places are needed.
#[derive(Debug)]
pub(crate) struct DropTail {
    limit: QueueLimit,
    waiting: VecDeque<Waiting>,
    bytes: Bytes,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    /// When its transmission begins: it has then left the queue.
    until: Instant,
    size: Bytes,
}

impl DropTail {
    pub(crate) fn new(limit: QueueLimit) -> Self {
        Self { limit, waiting: VecDeque::new(), bytes: Bytes::ZERO }
    }

    /// Forgets those whose transmission has begun by `now`.
    pub(crate) fn advance(&mut self, now: Instant) {
        while let Some(first) = self.waiting.front().filter(|first| first.until <= now) {
            self.bytes = self.bytes - first.size;
            self.waiting.pop_front();
        }
    }

    /// A packet of `size` comes at `now`: it waits until `until`, or finds no room. Returns whether it waits.
    #[inline]
    #[must_use]
    pub(crate) fn admit(&mut self, now: Instant, until: Instant, size: Bytes) -> bool {
        if self.waiting.len() == self.waiting.capacity() || !self.has_room_for(size) {
            self.advance(now);
            if !self.has_room_for(size) {
                return false;
            }
        }
        self.bytes += size;
        self.waiting.push_back(Waiting { until, size });
        true
    }

    #[inline]
    fn has_room_for(&self, size: Bytes) -> bool {
        self.limit.allows(self.packets(), self.bytes, size)
    }

    /// How many wait, as of the latest [`DropTail::advance`].
    pub(crate) fn packets(&self) -> u64 {
        self.waiting.len() as u64
    }

    /// The bytes that wait, as of the latest [`DropTail::advance`].
    pub(crate) fn bytes(&self) -> Bytes {
        self.bytes
    }
}
