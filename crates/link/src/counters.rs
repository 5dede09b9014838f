//! The outcome of every packet.

use crate::DropReason;
use serde::Serialize;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use units::Bytes;

/// A number of packets and of the IP bytes in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Tally {
    /// Packets.
    pub packets: u64,
    /// Bytes of IP packets.
    pub bytes: u64,
}

impl AddAssign<Bytes> for Tally {
    /// Counts one more packet, of `size`.
    fn add_assign(&mut self, size: Bytes) {
        self.packets += 1;
        self.bytes += size.as_u64();
    }
}

impl Add for Tally {
    type Output = Tally;
    fn add(self, other: Tally) -> Tally {
        Tally { packets: self.packets + other.packets, bytes: self.bytes + other.bytes }
    }
}

impl Sub for Tally {
    type Output = Tally;
    /// What remains of `self` without `other`, a part of it.
    fn sub(self, other: Tally) -> Tally {
        Tally { packets: self.packets - other.packets, bytes: self.bytes - other.bytes }
    }
}

impl SubAssign for Tally {
    fn sub_assign(&mut self, other: Tally) {
        *self = *self - other;
    }
}

/// Every packet that a link has seen, by outcome and reason:
/// `offered + duplicated = delivered + dropped_queue_full + dropped_queue_delay + dropped_acks + dropped_policed + dropped_down + dropped_loss + in transit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counters {
    /// Given to the link.
    pub offered: Tally,
    /// Copies that the link made.
    pub duplicated: Tally,
    /// Departed at the far end, copies included.
    pub delivered: Tally,
    /// Dropped because the queue was full.
    pub dropped_queue_full: Tally,
    /// Dropped by a managed queue: too much delay, or too long a queue.
    pub dropped_queue_delay: Tally,
    /// Pure acknowledgements that were filtered or thinned out.
    pub dropped_acks: Tally,
    /// Dropped by the policer.
    pub dropped_policed: Tally,
    /// Lost as the link went down, or while it was.
    pub dropped_down: Tally,
    /// Lost on the way.
    pub dropped_loss: Tally,
    /// Marked by a managed queue instead of dropped (among those in transit, delivered or lost).
    pub marked: Tally,
    /// Held back by the extra delay (among those in transit or delivered).
    pub reordered: Tally,
}

impl AddAssign for Counters {
    /// Adds what another link has seen.
    fn add_assign(&mut self, other: Counters) {
        self.offered = self.offered + other.offered;
        self.duplicated = self.duplicated + other.duplicated;
        self.delivered = self.delivered + other.delivered;
        self.dropped_queue_full = self.dropped_queue_full + other.dropped_queue_full;
        self.dropped_queue_delay = self.dropped_queue_delay + other.dropped_queue_delay;
        self.dropped_acks = self.dropped_acks + other.dropped_acks;
        self.dropped_policed = self.dropped_policed + other.dropped_policed;
        self.dropped_down = self.dropped_down + other.dropped_down;
        self.dropped_loss = self.dropped_loss + other.dropped_loss;
        self.marked = self.marked + other.marked;
        self.reordered = self.reordered + other.reordered;
    }
}

impl Counters {
    /// The tally of the packets dropped for `reason`.
    pub fn dropped_mut(&mut self, reason: DropReason) -> &mut Tally {
        match reason {
            DropReason::QueueFull => &mut self.dropped_queue_full,
            DropReason::QueueDelay => &mut self.dropped_queue_delay,
            DropReason::Superseded => &mut self.dropped_acks,
            DropReason::Policed => &mut self.dropped_policed,
            DropReason::Down => &mut self.dropped_down,
            DropReason::Loss => &mut self.dropped_loss,
        }
    }

    /// What is in the link: in its queue, on the way, or dropped but not yet reported.
    pub fn in_transit(&self) -> Tally {
        self.offered + self.duplicated
            - self.delivered
            - self.dropped_queue_full
            - self.dropped_queue_delay
            - self.dropped_acks
            - self.dropped_policed
            - self.dropped_down
            - self.dropped_loss
    }
}
