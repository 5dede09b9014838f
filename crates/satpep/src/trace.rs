//! What happened to the packets of a session, for traces: [`crate::qlog`] writes them down.

use crate::event::PeerId;
use units::{Duration, Instant, Rate};

/// Something that happened to a packet or was learnt of the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceEvent {
    /// When.
    pub at: Instant,
    /// In which session.
    pub session: TracedSession,
    /// What.
    pub kind: TraceKind,
}

/// A session of an endpoint. Names are not used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TracedSession {
    /// The peer.
    pub peer: PeerId,
    /// Rises from one session of the endpoint to the next.
    pub number: u32,
    /// Whether this gateway knows the peer's address.
    pub initiates: bool,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TraceKind {
    /// A packet left.
    PacketSent(TracedPacket),
    /// A packet arrived.
    PacketReceived(TracedPacket),
    /// The packet of this number was lost.
    PacketLost(u64),
    /// The path was measured.
    Metrics(TracedMetrics),
    /// The capacity of the link is another.
    Capacity(Rate),
}

/// A packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedPacket {
    /// Its number.
    pub number: u64,
    /// Bytes of its UDP payload.
    pub size: usize,
    /// The stream data in it.
    pub pieces: Vec<TracedPiece>,
}

/// Data of a stream in a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TracedPiece {
    /// The stream's number.
    pub stream: u64,
    /// The place of the first byte.
    pub offset: u64,
    /// How many bytes.
    pub length: usize,
    /// Whether the direction ends with them.
    pub is_last: bool,
}

/// What is known of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TracedMetrics {
    /// The latest sample of the round-trip time, and the least; `None` before there is one.
    pub latest_and_min_rtt: Option<(Duration, Duration)>,
    /// The smoothed round-trip time (RFC 6298); the expected one before there is a sample.
    pub smoothed_rtt: Duration,
    /// Its variation.
    pub rtt_variation: Duration,
    /// IP bytes sent whose outcome is not known.
    pub in_flight: u64,
    /// The rate at which packets to all peers leave.
    pub pacing_rate: Rate,
}
