//! Counters of the satellite link, of all peers together.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Counters of the satellite link.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Satellite {
    /// Datagrams sent.
    pub sent_packets: u64,
    /// Their IP bytes.
    pub sent_ip_bytes: u64,
    /// Datagrams accepted.
    pub received_packets: u64,
    /// Their IP bytes.
    pub received_ip_bytes: u64,
    /// Handshakes completed.
    pub handshakes: u64,
    /// Sessions that ended because a peer broke the protocol.
    pub violations: u64,
    /// Datagrams that the system would not send.
    pub send_errors: u64,
    /// Datagrams that led to nothing, by reason.
    pub dropped: BTreeMap<Cow<'static, str>, u64>,
    /// With the `tcp` transport: TCP tunnels opened by this gateway, by method.
    pub tunnels_opened: BTreeMap<Cow<'static, str>, u64>,
    /// With the `tcp` transport: TCP connections to the tunnel listener that were rejected, by reason.
    pub tunnels_rejected: BTreeMap<Cow<'static, str>, u64>,
    /// With the `tcp` transport and the cross-layer congestion control: its entry.
    pub cross_layer: Option<CrossLayer>,
    /// With the `satpep` transport: its memory.
    pub memory: Option<Memory>,
    /// With the `satpep` transport: the threads that carry its packets.
    pub workers: Option<u64>,
}

/// Memory for the data of all sessions of the `satpep` transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// The most that `granted_bytes`, and the most that `send_buffered_bytes`, may be.
    pub limit_bytes: Option<u64>,
    /// What peers may have this gateway hold.
    pub granted_bytes: u64,
    /// What waits for peers' acknowledgements.
    pub send_buffered_bytes: u64,
    /// Packets from peers that are remembered to recover lost ones with. The limit does not count them.
    #[serde(default)]
    pub repair_bytes: u64,
}

/// The link's entry of the cross-layer congestion control.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrossLayer {
    /// The control's name for `TCP_CONGESTION`.
    pub control: String,
    /// What the link carries, headers included.
    pub capacity_bps: u64,
    /// Connections that have data under way, and at least one.
    pub connections: u32,
}
