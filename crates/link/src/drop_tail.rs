//! The plain queue: first in, first out, and what finds it full is dropped.

use crate::QueueLimit;
use std::collections::VecDeque;
use units::{Bytes, Instant};

/// Who waits for the transmitter, known beforehand: on arrival it is clear when the transmission of a packet will begin,
/// so that the packet itself can be on its way at once, and only its time and size are kept here.
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

    /// Whether a packet of `size` may wait, too.
    pub(crate) fn has_room_for(&self, size: Bytes) -> bool {
        self.limit.allows(self.packets(), self.bytes, size)
    }

    /// A packet of `size` waits until `until`.
    pub(crate) fn push(&mut self, until: Instant, size: Bytes) {
        self.bytes += size;
        self.waiting.push_back(Waiting { until, size });
    }

    pub(crate) fn packets(&self) -> u64 {
        self.waiting.len() as u64
    }

    pub(crate) fn bytes(&self) -> Bytes {
        self.bytes
    }
}
