//! Flows: their ends, their start, and what their applications do.

use crate::Distribution;
use document::{Interval, Name, PositiveRate, Size, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// One flow, or `count` identical ones. Exactly one of `bulk`, `on_off`, `request_response`, `udp` and `ping` describes its
/// traffic.
#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "names are read before: their place is needed where they are unknown")]
pub(crate) struct Flow {
    /// Its name, unique among flows. With `count`, results use NAME-1, NAME-2, …
    pub(crate) name: Name,
    /// The node of the client, which connects, sends or requests.
    pub(crate) from: Name,
    /// The node of the server.
    pub(crate) to: Name,
    /// Number of flows.
    #[schemars(range(min = 1, max = 1_000_000), extend("default" = 1))]
    pub(crate) count: Option<u32>,
    /// Start time.
    #[schemars(extend("default" = "0s"))]
    pub(crate) start: Option<Start>,
    /// Time at which its application stops sending; a `bulk` transfer is given up then, and what is on its way does not count. By default never.
    pub(crate) stop: Option<Interval>,
    /// TCP settings of both endpoints: a preset (docs/scenarios.md lists them), or a name under `[tcp]`.
    #[schemars(extend("default" = "sack"))]
    pub(crate) tcp: Option<Name>,
    /// TCP settings of the server. By default those of `tcp`.
    pub(crate) server_tcp: Option<Name>,
    /// The flow runs over QUIC instead of TCP: a congestion control (newreno, cubic, bbr3, …), or a name under `[quic]`, for both endpoints.
    pub(crate) quic: Option<Name>,
    /// TCP or QUIC: one file transfer.
    pub(crate) bulk: Option<Bulk>,
    /// TCP or QUIC: the client sends in bursts.
    pub(crate) on_off: Option<OnOff>,
    /// TCP or QUIC: requests and responses with think times on one connection, as on the web.
    pub(crate) request_response: Option<RequestResponse>,
    /// UDP packets at a constant rate, or in bursts of it.
    pub(crate) udp: Option<Udp>,
    /// ICMP echo requests, each answered.
    pub(crate) ping: Option<Ping>,
}

/// When a flow starts.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Start {
    /// At a fixed time.
    At(Time),
    /// Staggered or random starts.
    Spread(Spread),
}

/// The starts of `count` flows.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(crate) struct Spread {
    /// The earliest start.
    #[schemars(extend("default" = "0s"))]
    pub(crate) at: Option<Time>,
    /// Interval from one flow's start to the next.
    #[schemars(extend("default" = "0s"))]
    pub(crate) every: Option<Time>,
    /// Random extra delay of each start, uniform from zero to this.
    #[schemars(extend("default" = "0s"))]
    pub(crate) spread: Option<Time>,
}

/// A file transfer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default)]
#[derive(Default)]
pub(crate) struct Bulk {
    /// Size of the file. By default unlimited.
    pub(crate) size: Option<Size>,
    /// The sender: the client (up), or the server after the client's request (down).
    #[schemars(extend("default" = "up"))]
    pub(crate) direction: Option<Way>,
    /// The size of the request of a download.
    #[schemars(extend("default" = "100B"))]
    pub(crate) request: Option<Size>,
}

/// The direction of a transfer.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Way {
    Up,
    Down,
}

/// Alternating bursts and pauses, a burst first. A burst has whole bytes, at least one, and lasts as long as they take. While the send
/// buffer is full, the application waits.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct OnOff {
    /// Rate at which the application writes during a burst.
    pub(crate) rate: PositiveRate,
    /// Duration of a burst.
    pub(crate) on: Distribution<Interval>,
    /// Duration of a pause.
    pub(crate) off: Distribution<Time>,
}

/// Requests and responses.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct RequestResponse {
    /// Number of requests. By default unlimited.
    #[schemars(range(min = 1))]
    pub(crate) requests: Option<u64>,
    /// The size of a request.
    #[schemars(extend("default" = "400B"))]
    pub(crate) request: Option<Distribution<Size>>,
    /// The size of a response.
    pub(crate) response: Distribution<Size>,
    /// Think time: from the last byte of a response to the next request.
    #[schemars(extend("default" = "0s"))]
    pub(crate) think: Option<Distribution<Time>>,
}

/// UDP at a constant rate. What arrives counts, copies that a link has made included.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Udp {
    /// Bit rate of IP packets.
    pub(crate) rate: PositiveRate,
    /// The size of each IP packet, from 28B to 65535B.
    #[schemars(extend("default" = "1500B"))]
    pub(crate) packet_size: Option<Size>,
    /// Duration of a burst; requires `off`. By default there are no pauses. Each burst begins with a packet: bursts that are not much longer than a
    /// packet takes at `rate` carry more than `rate` times their share of the time.
    pub(crate) on: Option<Distribution<Interval>>,
    /// Duration of a pause.
    pub(crate) off: Option<Distribution<Time>>,
}

/// Echo requests. The answers to the last ones are awaited for twice the longest round-trip time, and at least 10 s.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default)]
#[derive(Default)]
pub(crate) struct Ping {
    /// Time from one request to the next.
    #[schemars(extend("default" = "1s"))]
    pub(crate) interval: Option<Interval>,
    /// The size of each IP packet, from 28B to 65535B.
    #[schemars(extend("default" = "84B"))]
    pub(crate) packet_size: Option<Size>,
    /// Number of requests. By default unlimited.
    #[schemars(range(min = 1))]
    pub(crate) requests: Option<u64>,
}
