//! What a peer reports of the packets sent to it, matched with what was sent: the estimator's input.
//!
//! Contract: one [`Report`] per acknowledgement that brings something new. Within a session the counters never decrease and never
//! exceed what was sent, and each stamp names a packet that was sent. What a peer reports beyond that is not delivered, but counted
//! as implausible.

use crate::packet_number::PacketNumber;
use smallvec::SmallVec;
use units::{Duration, Instant};

/// A peer's report.
#[derive(Debug, Clone, Default)]
pub(crate) struct Report {
    /// Packets that the peer has accepted in this session.
    pub(crate) received_packets: u64,
    /// Their IP bytes.
    pub(crate) received_bytes: u64,
    /// How many of them carried the congestion mark CE; `None` where the peer cannot read marks.
    pub(crate) ce: Option<u64>,
    /// When packets arrived, in the order of arrival. Numbers may fall, and a packet may be stamped in several reports.
    pub(crate) stamps: SmallVec<[Stamp; 8]>,
    /// The newest packet known to have arrived.
    pub(crate) largest: PacketNumber,
    /// Every packet below is acknowledged or lost: no loss of one will be reported later.
    pub(crate) settled: PacketNumber,
    /// How many packets were acknowledged since the report before. Packets that ask for no acknowledgement are neither acknowledged
    /// nor lost.
    pub(crate) acknowledged: u32,
    /// Packets that were declared lost since the report before, recovered ones included.
    pub(crate) lost: SmallVec<[LostPacket; 8]>,
    /// IP bytes of packets that were declared lost in this session and have arrived after all.
    pub(crate) late_bytes: u64,
}

/// The arrival of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) number: PacketNumber,
    /// When it was sent, by our clock.
    pub(crate) sent: Instant,
    /// Bytes that had entered the link when it had, itself included.
    pub(crate) position: u64,
    /// Of those, what was sent in this session.
    pub(crate) own: u64,
    pub(crate) ip_size: u16,
    /// Whether it belongs to a train.
    pub(crate) is_train: bool,
    /// When it arrived, by the peer's clock, which has an unknown offset, may drift and may step.
    pub(crate) arrived: Duration,
}

/// A packet that was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LostPacket {
    pub(crate) number: PacketNumber,
    /// When it was sent.
    pub(crate) sent: Instant,
    /// Bytes that had entered the link when it had, itself included.
    pub(crate) position: u64,
    pub(crate) ip_size: u16,
    /// Whether it belongs to a train.
    pub(crate) is_train: bool,
}
