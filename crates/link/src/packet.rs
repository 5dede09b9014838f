//! What a link carries, and what becomes of it.

use crate::AckSerial;
use units::{Bytes, Ecn, Instant};

/// What a link carries: the caller's packet, of which only the size and the flow matter. It is cloned only to duplicate
/// it.
pub trait Packet: Clone {
    /// The size of the IP packet, its header included.
    fn size(&self) -> Bytes;

    /// A number that packets of one flow have in common (addresses, ports and protocol), for fair queues.
    fn flow_hash(&self) -> u64 {
        0
    }

    /// If it is a TCP segment that says nothing but how far the data have arrived: where it stands among those of its flow. Only links
    /// that filter acknowledgements ask.
    fn acknowledgement(&self) -> Option<AckSerial> {
        None
    }

    /// What an acknowledgement says of marked packets: one that says otherwise does not take its place.
    fn acknowledged_marks(&self) -> u8 {
        0
    }

    /// Its ECN field.
    fn ecn(&self) -> Ecn {
        Ecn::NotCapable
    }

    /// A congested queue marks the packet: its ECN field is CE from now on. Called only where [`Packet::ecn`] says that the
    /// transport reads marks.
    fn mark(&mut self) {}
}

/// The outcome of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Outcome<P> {
    /// It reached the far end at `at`.
    Departure {
        /// The packet.
        packet: P,
        /// When its last bit arrived.
        at: Instant,
    },
    /// It will not reach the far end.
    Drop {
        /// The packet.
        packet: P,
        /// Why it was dropped.
        reason: DropReason,
        /// When it was refused, or would have arrived.
        at: Instant,
    },
}

impl<P> Outcome<P> {
    /// When it arrived, was refused, or would have arrived.
    #[inline]
    pub fn at(&self) -> Instant {
        match self {
            Outcome::Departure { at, .. } | Outcome::Drop { at, .. } => *at,
        }
    }
}

/// The outcome of a packet that the caller carries itself ([`crate::Link::pass`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum LoggedOutcome {
    /// It arrives at the far end at this time.
    Arrives(Instant),
    /// It is lost, and would have arrived at this time.
    Lost(Instant),
    /// It is dropped at once: the queue is full, or the policer drops it.
    Refused(DropReason),
}

/// Why a packet was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// The queue was full.
    QueueFull,
    /// The queue's management found too much delay or too long a queue.
    QueueDelay,
    /// It is a pure acknowledgement for which a later one stands, or that the link thins out.
    Superseded,
    /// It exceeded the policer's rate.
    Policed,
    /// The link went down.
    Down,
    /// It was lost on the way, as the loss model decided.
    Loss,
}
