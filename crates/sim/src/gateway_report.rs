//! What a simulation found of pairs of gateways.

use serde::Serialize;
use units::Instant;

/// One pair's results.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GatewayReport {
    /// Its name.
    pub name: String,
    /// The flows that it split.
    pub streams: Vec<StreamReport>,
    /// What each end of the satellite transport's session counted; empty where TCP is spoken.
    pub sessions: Vec<SessionReport>,
    /// What both gateways sent to one another over SaTPEP's connections; null where something else is spoken.
    pub transport: Option<TransportReport>,
    /// What happened to relayed connections, in order, if [asked for](crate::SatpepSettings::report_transitions).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub transitions: Vec<TransitionReport>,
}

/// A transition of a relayed connection at one gateway (see [`relay::connection`]).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TransitionReport {
    /// When.
    pub at_s: f64,
    /// The gateway's node.
    pub node: String,
    /// The flow; empty before the far gateway knows it.
    pub flow: String,
    /// The state before.
    pub from: String,
    /// What happened.
    pub event: String,
    /// The state after.
    pub to: String,
}

/// What both gateways of a pair sent to one another over TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct TransportReport {
    /// Data packets, retransmissions included.
    pub data_packets: u64,
    /// Data packets that were sent again.
    pub retransmissions: u64,
    /// Expiries of retransmission timers.
    pub rtos: u64,
}

/// What passed through a pair for one flow.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct StreamReport {
    /// The flow.
    pub flow: String,
    /// When the first gateway had accepted the client; null if it has not.
    pub accepted_s: Option<f64>,
    /// When the second gateway was connected to the server.
    pub connected_s: Option<f64>,
    /// Bytes from the client that the first gateway passed on, and of them those given to the server's connection.
    pub from_client: u64,
    /// See `from_client`.
    pub to_server: u64,
    /// Bytes from the server that the second gateway passed on, and of them those given to the client's connection.
    pub from_server: u64,
    /// See `from_server`.
    pub to_client: u64,
    /// How it stands at each gateway, in the order in which the flow passes them.
    pub states: [String; 2],
}

/// What a gateway that speaks TCP on both sides knows of a flow, of its halves towards the client and towards the server.
pub(crate) struct SplitState {
    /// When each was connected.
    pub(crate) connected: [Option<Instant>; 2],
    /// Bytes that came by each and were passed on.
    pub(crate) passed: [u64; 2],
    pub(crate) stage: SplitStage,
}

/// How far the two connections of a split flow are at one gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SplitStage {
    /// No client has been accepted.
    Idle,
    /// The connection further on is being made.
    Connecting,
    Established,
    Closed,
    /// One of them failed.
    Broken,
}

impl SplitStage {
    /// Its name in reports.
    fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Connecting => "connecting",
            Self::Established => "established",
            Self::Closed => "closed",
            Self::Broken => "broken",
        }
    }
}

impl StreamReport {
    /// Of a flow without a name yet, by the gateways in the order in which it passes them.
    pub(crate) fn of([first, second]: [SplitState; 2]) -> Self {
        Self {
            flow: String::new(),
            accepted_s: first.connected[0].map(Instant::as_secs_f64),
            connected_s: second.connected[1].map(Instant::as_secs_f64),
            from_client: first.passed[0],
            to_server: second.passed[0],
            from_server: second.passed[1],
            to_client: first.passed[1],
            states: [first.stage, second.stage].map(|stage| stage.name().to_owned()),
        }
    }
}

/// What one end of the satellite transport's session counted, from before the simulation began.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionReport {
    /// The node.
    pub node: String,
    /// Packets sent, and their IP bytes.
    pub sent_packets: u64,
    /// See `sent_packets`.
    pub sent_bytes: u64,
    /// Packets that the other end is known not to have received.
    pub lost_packets: u64,
    /// Stream bytes sent for the first time, and those sent again.
    pub stream_bytes: u64,
    /// See `stream_bytes`.
    pub retransmitted_bytes: u64,
    /// Bytes of FEC repair symbols sent.
    pub repair_bytes: u64,
    /// Stream bytes that the other end's FEC recovered.
    pub recovered_bytes: u64,
    /// Smoothed round-trip time.
    pub rtt_s: Option<f64>,
}
