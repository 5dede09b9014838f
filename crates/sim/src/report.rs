//! What a simulation found.

use crate::DirectionId;
use crate::gateway_report::GatewayReport;
use serde::{Deserialize, Serialize};
use units::{Bytes, Duration, Instant};

/// The results of a run. Times are in seconds since its start, sizes in bytes, rates in bits per second.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Why it ended.
    pub stopped: Stopped,
    /// When it ended.
    pub end_s: f64,
    /// Each flow, in the order in which they were added.
    pub flows: Vec<FlowReport>,
    /// Each direction of each link, in the order of their numbers.
    pub links: Vec<LinkReport>,
    /// Each carrier that terminals share on demand.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub carriers: Vec<CarrierReport>,
    /// Each pair of gateways.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gateways: Vec<GatewayReport>,
    /// Events: arrivals of packets and timers.
    pub events: u64,
    /// Packets for which a node had no route.
    pub no_route_packets: u64,
    /// Packets with data that endpoints and gateways sent: TCP segments with payload (retransmissions too), UDP, echo requests.
    pub data_packets: u64,
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stopped {
    /// At the time that [`crate::Stop::at`] names.
    Time,
    /// All flows that have an end are complete or failed.
    Complete,
    /// Nothing was left to happen.
    Idle,
    /// At the limit of events.
    EventLimit,
    /// At the limit of memory.
    MemoryLimit,
    /// Its time stood still: a flow without end takes a way with neither rate nor delay, and nothing else holds it up.
    StandingStill,
    /// The caller stopped stepping.
    Unfinished,
}

impl Stopped {
    /// The limit of the scenario that it is, if it is one, with the key that sets it.
    pub fn limit(self) -> Option<&'static str> {
        match self {
            Self::EventLimit => Some("its limit of events (stop.max_events)"),
            Self::MemoryLimit => Some("its limit of memory (stop.max_memory)"),
            Self::StandingStill => Some(
                "one instant without end (a flow's way has neither rate nor delay: give one, or bound `send_buffer`)",
            ),
            Self::Time | Self::Complete | Self::Idle | Self::Unfinished => None,
        }
    }
}

/// One flow's results.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FlowReport {
    /// Its name.
    pub name: String,
    /// Payload delivered in order to the receiver (TCP: of a download or of web traffic, the client); of pings, the bytes answered.
    pub bytes: u64,
    /// When the client connected, or sent its first packet; null if it never started.
    pub start_s: Option<f64>,
    /// When the receiver got the last of `bytes`; null if it got none.
    pub end_s: Option<f64>,
    /// Until when it ran: `end_s` of a complete one; of another when its traffic stopped, it failed, or the run ended, or `end_s` if that
    /// is later; null if it never started.
    pub until_s: Option<f64>,
    /// `bytes` over the time from `start_s` to `until_s`; null if that is no time.
    pub goodput_bps: Option<f64>,
    /// Whether all that it was to deliver was delivered; false for flows without an end.
    pub complete: bool,
    /// Why the connection failed, by name.
    pub failure: Option<String>,
    /// Packets with data that its endpoints sent, retransmissions included; with the profile ns2, its SYN too, as ns-2 counts.
    pub data_packets: u64,
    /// Data packets that were sent again.
    pub retransmissions: u64,
    /// Expiries of the retransmission timer.
    pub rtos: u64,
    /// Packets that reached the other end (UDP, where links duplicate with the copies), or pings answered.
    pub received_packets: u64,
    /// Completed exchanges of request and response.
    pub responses: u64,
    /// Round-trip times: of pings, or from request to the response's last byte.
    pub rtt: Option<RttReport>,
}

/// A summary of times.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RttReport {
    /// The shortest.
    pub min_s: f64,
    /// The mean.
    pub mean_s: f64,
    /// The longest.
    pub max_s: f64,
    /// Standard deviation.
    pub stddev_s: f64,
    /// What half of them do not exceed, to one part in 2,048.
    pub median_s: f64,
    /// What 95 of 100 do not exceed, as exactly.
    pub p95_s: f64,
    /// What 99 of 100 do not exceed, as exactly.
    pub p99_s: f64,
}

/// One direction of a link.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinkReport {
    /// The link's name.
    pub name: String,
    /// The node where it starts.
    pub from: String,
    /// The node where it ends.
    pub to: String,
    /// The outcome of every packet.
    #[serde(flatten)]
    pub counters: link::Counters,
}

/// A carrier that terminals share on demand.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CarrierReport {
    /// Its name.
    pub name: String,
    /// Its terminals, in the order of their links.
    pub terminals: Vec<TerminalReport>,
}

/// A terminal of a carrier, as of the latest superframe that is over.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TerminalReport {
    /// The link over which it sends.
    pub link: String,
    /// The terminal's node.
    pub from: String,
    /// The hub's.
    pub to: String,
    /// What it asked for, was given and used.
    #[serde(flatten)]
    pub totals: link::dama::Totals,
}

/// A flow's state at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlowSample {
    /// The flow's number.
    pub flow: u32,
    /// When.
    pub at: Instant,
    /// Payload delivered in order so far.
    pub delivered: Bytes,
    /// The sender's congestion window.
    pub cwnd: Bytes,
    /// The sender's slow-start threshold; `None` while it is unlimited.
    pub ssthresh: Option<Bytes>,
    /// The sender's smoothed round-trip time.
    pub srtt: Option<Duration>,
    /// Sent and not yet acknowledged.
    pub in_flight: Bytes,
}

/// A superframe of a terminal on a carrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapacitySample {
    /// The terminal's way to the hub.
    pub direction: DirectionId,
    /// How long the superframe is.
    pub length: Duration,
    /// What was asked for, given and used in it.
    pub sample: link::dama::Sample,
}

/// What waits for a link at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueSample {
    /// The direction of the link.
    pub direction: DirectionId,
    /// When.
    pub at: Instant,
    /// Packets that wait for the transmitter.
    pub packets: u64,
    /// Bytes of IP packets that wait for the transmitter.
    pub bytes: Bytes,
    /// Bytes of IP packets that the link was given until then.
    pub offered: Bytes,
}
