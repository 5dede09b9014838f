//! Pairs of gateways, and their transports.

use document::{Interval, Name, PositiveRate, Size};
use satpep::{CapacityMode, CrossTrafficPolicy, Priority, RateConfidence};
use schemars::JsonSchema;
use serde::Deserialize;

/// A pair of gateways. It splits each TCP flow whose path passes both nodes and starts and ends at neither: the first gateway
/// on the path accepts the client's connection in place of the server, and the second connects to the server. Each pair paces and estimates
/// for itself: several pairs whose paths share a link compete there, while a deployed hub is one gateway that divides its link among sites.
/// Give such pairs `cross_traffic` "fair", or `capacity` "fixed" and rates that fit the link together.
#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "names are read before: their place is needed where they are unknown")]
pub(crate) struct Gateway {
    /// Its name, unique among pairs.
    pub(crate) name: Name,
    /// The two nodes.
    #[schemars(length(min = 2, max = 2))]
    pub(crate) nodes: Vec<Name>,
    /// The satellite transport, between the gateways: satpep, in a session that exists when the run starts; the SaTPEP of the
    /// paper of 2003; or one TCP connection per flow.
    #[schemars(extend("default" = "satpep"))]
    pub(crate) transport: Option<Transport>,
    /// TCP settings towards hosts. By default those of Linux, with CUBIC and buffers of up to 6 MiB.
    pub(crate) hosts_tcp: Option<Name>,
    /// TCP settings between the gateways, for the transport tcp. By default those of `hosts_tcp`.
    pub(crate) tcp: Option<Name>,
    /// For the transport tcp with the control cross-layer: whether windows follow the capacity that a carrier on the path
    /// allocates (see `dama`), shared between connections by use. While there are connections, the terminal requests all that it
    /// may.
    #[schemars(extend("default" = false))]
    pub(crate) follow_allocation: Option<bool>,
    /// Settings of satpep.
    #[serde(default)]
    pub(crate) satpep: SatpepSettings,
    /// Settings of satpep-2003.
    #[serde(default, rename = "satpep-2003")]
    pub(crate) satpep_2003: Satpep2003,
}

/// What a pair of gateways speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Transport {
    Satpep,
    #[serde(rename = "satpep-2003")]
    Satpep2003,
    Tcp,
}

/// Settings of the satellite transport.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct SatpepSettings {
    /// The rate at which the first gateway begins its estimate of the link to the second, and the second that of the link back. By
    /// default that of the slowest link between them.
    #[schemars(length(min = 2, max = 2))]
    pub(crate) rate: Option<Vec<PositiveRate>>,
    /// How far the gateways trust these rates: used at once (sure), half of them until the link has answered (guess), or not at
    /// all (none).
    #[schemars(extend("default" = "sure"))]
    pub(crate) rate_confidence: Option<RateConfidence>,
    /// What the gateways do with these rates: estimate the capacity, beginning there (estimated), or send at them whatever the
    /// link carries (fixed).
    #[schemars(extend("default" = "estimated"))]
    pub(crate) capacity: Option<CapacityMode>,
    /// Whether a modem reports each change of the link's rate to the gateways.
    #[schemars(extend("default" = false))]
    pub(crate) link_updates: Option<bool>,
    /// The round-trip time. By default that of propagation.
    pub(crate) rtt: Option<Interval>,
    /// Sending rate as a fraction of a fixed capacity.
    #[schemars(extend("exclusiveMinimum" = 0), range(max = 1), extend("default" = 0.99))]
    pub(crate) pacing_gain: Option<f64>,
    /// Receive memory. By default four bandwidth-delay products, at least 32 MiB.
    pub(crate) receive_memory: Option<Size>,
    /// How long connections survive an outage before they end with a reset.
    #[schemars(extend("default" = "10min"))]
    pub(crate) outage_limit: Option<Interval>,
    /// Whether FEC repair symbols are sent, mostly in idle capacity.
    #[schemars(extend("default" = true))]
    pub(crate) repair: Option<bool>,
    /// Largest repair overhead on a full link: capacity for repair symbols beyond the loss rate, where that pays.
    #[schemars(range(min = 0, max = 0.5), extend("default" = 0.02))]
    pub(crate) repair_overhead: Option<f64>,
    /// Policy for cross traffic, which does not pass the pair: subtract its measured rate from the capacity (subtract), or leave
    /// it room to grow to the share of one busy flow of the pair (fair).
    #[schemars(extend("default" = "subtract"))]
    pub(crate) cross_traffic: Option<CrossTrafficPolicy>,
    /// Classes of flows, which share the link by weight. Flows of no class are together in one of weight 1.
    #[schemars(length(max = 255))]
    pub(crate) class: Option<Vec<Class>>,
    /// Names of flows that bypass the pair, end to end.
    pub(crate) bypass: Option<Vec<Name>>,
    /// Time limit for a connection to a server, and for a client's wait for a stream; then the connection is reset.
    #[schemars(extend("default" = "20s"))]
    pub(crate) connect_timeout: Option<Interval>,
    /// Most streams at a time. Further connections bypass the gateways, as all do while the other gateway does not answer.
    #[schemars(range(min = 1, max = 1_000_000), extend("default" = 16_384))]
    pub(crate) max_streams: Option<u32>,
    /// Most TCP connections to hosts per gateway at a time, like a limit on file descriptors. Further connections bypass the
    /// gateways. By default unlimited.
    #[schemars(range(min = 1))]
    pub(crate) max_connections: Option<u64>,
    /// Whether the report lists the state transitions of each relayed connection at both gateways.
    #[schemars(extend("default" = false))]
    pub(crate) report_transitions: Option<bool>,
}

/// A class of flows: classes share the link by weight, flows of a class share equally.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Class {
    /// Its name, unique among classes of the pair.
    pub(crate) name: Name,
    /// Names of its flows. A flow belongs to one class.
    #[schemars(length(min = 1))]
    pub(crate) flows: Vec<Name>,
    /// Precedence. In a normal class, sparse flows (new, or below their share) are served first. An interactive class is
    /// served before normal ones while it uses less than its share. In a bulk class, no flow has precedence.
    #[schemars(extend("default" = "normal"))]
    pub(crate) priority: Option<Priority>,
    /// Its share relative to other busy classes.
    #[schemars(range(min = 1, max = 100), extend("default" = 1))]
    pub(crate) weight: Option<u32>,
    /// Rate limit of the class. By default unlimited.
    pub(crate) cap: Option<PositiveRate>,
}

/// Settings of SaTPEP as its paper of 2003 has it, with windows that the receiving gateway assigns and repair by negative
/// acknowledgements.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Satpep2003 {
    /// When a gateway accepts a client's connection: once the server has accepted (confirmed), or at once (immediate).
    #[schemars(extend("default" = "confirmed"))]
    pub(crate) accept: Option<Accept>,
    /// How the receiving gateway divides the link: as in the paper, or with a shorter standing queue and faster admission of new
    /// connections (deploy).
    #[schemars(extend("default" = "paper"))]
    pub(crate) profile: Option<DivisionProfile>,
    /// By how much all windows together may exceed the bandwidth-delay product: c of the paper's equation (2). By default 1,
    /// for deploy 0.1.
    #[schemars(range(min = 0, max = 1))]
    pub(crate) headroom: Option<f64>,
    /// Which negative acknowledgements are answered: by the paper's figure 1 with its errors resolved, as printed, or with
    /// a count for each retransmission.
    #[schemars(extend("default" = "fig1"))]
    pub(crate) nack: Option<NackRule>,
    /// Whether throughput is measured by packet pairs, as the paper says, rather than over a round trip.
    #[schemars(extend("default" = false))]
    pub(crate) packet_pair: Option<bool>,
    /// Buffer of each connection at each gateway, per direction. By default four bandwidth-delay products, at least 256 KiB.
    pub(crate) buffer: Option<Size>,
    /// The link from the first node to the second, if it is not on the path of least delay: a satellite link beside a
    /// terrestrial one.
    pub(crate) there: Option<Name>,
    /// The link from the second node to the first.
    pub(crate) back: Option<Name>,
}

/// When a gateway answers a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Accept {
    Confirmed,
    Immediate,
}

/// How a link is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DivisionProfile {
    Paper,
    Deploy,
}

/// Which negative acknowledgements are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
pub(crate) enum NackRule {
    #[serde(rename = "fig1")]
    Fig1,
    #[serde(rename = "fig1-literal")]
    Fig1Literal,
    #[serde(rename = "per-segment")]
    PerSegment,
}
