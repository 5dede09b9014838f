//! The reports of a gateway: for `bentpipe gateway status`, and as metrics.

use crate::link_state::{ModemReport, Report, UpdateCounts};
use crate::metrics::Delays;
use crate::privileges::Privileges;
use crate::trouble::Trouble;
use relay::engine::{ClassAccount, Counters};
use satpep::CapacitySource;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// The state of a gateway at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The gateway's name.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// The process that it has taken over from, while that finishes its connections.
    pub predecessor: Option<u32>,
    /// Whether it takes no more connections, and for how long it goes on at most.
    pub draining: Option<Draining>,
    /// Seconds since it started.
    pub uptime_s: f64,
    /// How often it has taken over changed settings.
    #[serde(default)]
    pub reloads: u64,
    /// Its public key.
    pub public_key: String,
    /// `satpep` or `tcp`.
    pub transport: Cow<'static, str>,
    /// Transmit capacity of the link: configured, estimated or reported.
    pub rate_bps: u64,
    /// Where [`Self::rate_bps`] is from, by the configuration.
    #[serde(default)]
    pub capacity_source: CapacitySource,
    /// The link state: reported or configured.
    pub link: Report,
    /// Outcomes of link updates, by source.
    pub link_updates: [UpdateCounts; 2],
    /// The session with the modem over DLEP, if one is to be had.
    pub modem: Option<ModemReport>,
    /// Cross traffic on the satellite interface.
    pub cross_traffic_bps: u64,
    /// What the process may do, since it has been set up.
    pub privileges: Privileges,
    /// What has happened to connections, by outcome.
    pub connections: Counters,
    /// Connections that went end to end, by the reason, as of the last look at the firewall's counters.
    pub bypassed: BTreeMap<String, u64>,
    /// The satellite link.
    pub satellite: Satellite,
    /// The peers.
    pub peers: Vec<Peer>,
    /// Relayed connections, one row for each.
    pub streams: Vec<Stream>,
    /// What only metrics show.
    #[serde(skip)]
    pub measured: Measured,
}

/// Distributions and counters by class, which status leaves to metrics.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    pub(crate) classes: Vec<ClassAccount>,
    pub(crate) delays: Delays,
}

/// What program the gateway runs in. The library does not know the commit that it is built from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Build {
    /// Its version.
    pub version: &'static str,
    /// The commit that it is built from.
    pub commit: &'static str,
    /// Its features, separated by commas.
    pub features: &'static str,
}

impl Default for Build {
    fn default() -> Self {
        Self { version: env!("CARGO_PKG_VERSION"), commit: "unknown", features: "" }
    }
}

/// A gateway that takes no more connections.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Draining {
    /// Connections that it still has.
    pub connections: u64,
    /// After how many seconds it ends whether or not there are any; null if it waits for them.
    pub ends_within_s: Option<f64>,
}

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

/// What was found of the path to a peer when it was filled for a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survey {
    /// Whether that is over.
    pub done: bool,
    /// The rate that was thought right.
    pub offered_bps: u64,
    /// The path's capacity in IP packets; null if too little arrived.
    pub carried_bps: Option<u64>,
    /// It may carry more.
    pub has_more: bool,
    /// What is beyond is dropped at once instead of being queued.
    pub policed: bool,
    /// Batches of datagrams (GSO) get lost where single ones arrive.
    pub batches_lost: bool,
    /// IP bytes that were sent for it.
    pub sent_bytes: u64,
}

impl From<satpep::SurveyReport> for Survey {
    fn from(report: satpep::SurveyReport) -> Self {
        Self {
            done: report.is_done,
            offered_bps: report.offered.as_bps(),
            carried_bps: report.carried.map(units::Rate::as_bps),
            has_more: report.has_more,
            policed: report.is_policed,
            batches_lost: report.are_batches_lost,
            sent_bytes: report.sent.as_u64(),
        }
    }
}

/// How a session with a peer stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PeerState {
    /// No session yet.
    #[default]
    Connecting,
    /// Connections are relayed.
    Up,
    /// It has missed replies.
    Unresponsive,
    /// It answers, but full packets do not pass.
    #[serde(rename = "path too small")]
    PathTooSmall,
    /// It answers and takes no more connections.
    Draining,
}

impl PeerState {
    /// As it is written in status.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Up => "up",
            Self::Unresponsive => "unresponsive",
            Self::PathTooSmall => "path too small",
            Self::Draining => "draining",
        }
    }
}

/// One peer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Peer {
    /// Its name.
    pub name: String,
    /// How the session with it stands.
    pub state: PeerState,
    /// Where it was heard from last.
    pub address: Option<SocketAddr>,
    /// Smoothed round-trip time.
    pub rtt_s: Option<f64>,
    /// With the `satpep` transport: its clock less this gateway's at the latest handshake, to within a round trip.
    pub clock_offset_s: Option<f64>,
    /// Largest IP packet known to reach it.
    pub mtu: u16,
    /// The version of the protocol that the session uses.
    pub version: Option<u8>,
    /// With the `satpep` transport: whether several datagrams go to it with one system call (GSO), which some drivers and paths break.
    pub batches: Option<bool>,
    /// With the `satpep` transport: what the path to it was found to carry, if that was asked for.
    pub survey: Option<Survey>,
    /// Why it is not up.
    pub trouble: Option<Trouble>,
    /// Streams in the session.
    pub streams: u64,
    /// Datagrams sent to it.
    pub sent_packets: u64,
    /// Datagrams that it did not receive.
    pub lost_packets: u64,
    /// Stream bytes sent for the first time.
    pub sent_bytes: u64,
    /// Stream bytes sent again.
    pub retransmitted_bytes: u64,
    /// Bytes of FEC repair symbols sent.
    pub repair_bytes: u64,
    /// Stream bytes received.
    pub received_bytes: u64,
    /// Datagrams from it that came with a congestion mark.
    pub congestion_received_packets: u64,
    /// Datagrams to it that came with a congestion mark, by its reports.
    pub congestion_reported_packets: u64,
    /// Received bytes that wait for TCP.
    pub receive_buffered_bytes: u64,
    /// Bytes from TCP that wait for the peer's acknowledgement.
    pub send_buffered_bytes: u64,
}

/// Which of the two gateways of a relayed connection one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The gateway at the client's end.
    Near,
    /// The gateway at the server's end.
    Far,
}

impl Side {
    /// As it is written in status.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Near => "near",
            Self::Far => "far",
        }
    }
}

/// One relayed connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stream {
    /// Its number in the session with the peer.
    pub stream: u64,
    /// The peer's name.
    pub peer: String,
    /// Whether this is its near or its far gateway.
    pub side: Side,
    /// The client, once known.
    pub client: Option<SocketAddr>,
    /// The server, once known.
    pub server: Option<SocketAddr>,
    /// Its class at this gateway, once its ends are known.
    pub class: Option<String>,
    /// Where the connection stands.
    pub state: String,
    /// Seconds since it began.
    pub age_s: f64,
    /// Bytes taken from TCP at this gateway.
    pub from_tcp_bytes: u64,
    /// Bytes given to TCP at this gateway.
    pub to_tcp_bytes: u64,
    /// With the `satpep` transport: bytes from TCP that wait for the peer's acknowledgement.
    #[serde(default)]
    pub send_buffered_bytes: Option<u64>,
    /// With the `satpep` transport: received bytes that wait for TCP, or for bytes before them.
    #[serde(default)]
    pub receive_buffered_bytes: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_the_same_in_documents_and_in_text() {
        use PeerState::{Connecting, Draining, PathTooSmall, Unresponsive, Up};
        for state in [Connecting, Up, Unresponsive, PathTooSmall, Draining] {
            assert_eq!(serde_json::to_value(state).unwrap(), state.name());
        }
        for side in [Side::Near, Side::Far] {
            assert_eq!(serde_json::to_value(side).unwrap(), side.name());
        }
    }

    #[test]
    fn a_peer_of_another_version_may_lack_fields_and_have_others() {
        let peer: Peer = serde_json::from_str(r#"{"name": "hub", "state": "up", "colour": "blue"}"#).unwrap();
        assert_eq!(peer, Peer { name: "hub".into(), state: PeerState::Up, ..Peer::default() });
    }
}
