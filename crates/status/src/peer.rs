//! A peer, and why it is not up.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::net::SocketAddr;

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
    /// With the `satpep` transport: the cipher of the session.
    pub cipher: Option<satpep::Cipher>,
    /// With the `satpep` transport: whether several datagrams go to it with one system call (GSO), which some drivers and paths break.
    pub batches: Option<bool>,
    /// With the `satpep` transport: what the path to it was found to carry, if that was asked for.
    pub survey: Option<Survey>,
    /// Why it is not up.
    pub trouble: Option<Trouble>,
    /// Which servers it lets this gateway reach, and for which clients; null until it has announced that.
    pub permits: Option<Permits>,
    /// Streams in the session.
    pub streams: u64,
    /// Datagrams sent to it.
    pub sent_packets: u64,
    /// Datagrams that it did not receive. With the `tcp` transport: segments that were retransmitted on connections that have ended.
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
    /// Reports of it that cannot be true and were ignored: more than was sent, less than before, or packets never sent.
    #[serde(default)]
    pub implausible_reports: u64,
    /// Received bytes that wait for TCP.
    pub receive_buffered_bytes: u64,
    /// Bytes from TCP that wait for the peer's acknowledgement.
    pub send_buffered_bytes: u64,
}

/// Which servers a peer lets this gateway reach, and for which clients.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Permits {
    /// The networks of the clients, 16 of them at most.
    pub clients: Vec<String>,
    /// Whether public servers are among those that can be reached.
    pub public: bool,
    /// The private networks of servers that it names, 16 of them at most.
    pub private: Vec<String>,
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

/// Why a peer is not up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// A word for programs, one of those in docs/troubleshooting.md.
    pub reason: Cow<'static, str>,
    /// What was seen, and what to check.
    pub says: String,
}

impl Trouble {
    /// Of a reason in docs/troubleshooting.md.
    pub fn new(reason: &'static str, says: impl Into<String>) -> Self {
        Self { reason: reason.into(), says: says.into() }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_the_same_word_in_documents_and_in_text() {
        use PeerState::{Connecting, Draining, PathTooSmall, Unresponsive, Up};
        for state in [Connecting, Up, Unresponsive, PathTooSmall, Draining] {
            assert_eq!(serde_json::to_value(state).unwrap(), state.name());
        }
    }

    #[test]
    fn a_peer_of_another_version_may_lack_fields_and_have_others() {
        let peer: Peer = serde_json::from_str(r#"{"name": "hub", "state": "up", "colour": "blue"}"#).unwrap();
        assert_eq!(peer, Peer { name: "hub".into(), state: PeerState::Up, ..Peer::default() });
    }
}
