//! What a scenario file may say: the types whose documentation is the schema's (docs/scenarios.md).

pub(crate) mod carrier;
pub(crate) mod flow;
pub(crate) mod gateway;
pub(crate) mod link;
pub(crate) mod quic;
mod steps;
pub(crate) mod tcp;

use carrier::Carrier;
use document::{Interval, Line, Name, Size};
use flow::Flow;
use gateway::Gateway;
use link::Link;
use quic::Quic;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use tcp::Tcp;

/// An experiment of `bentpipe simulate`: a topology, what flows over it, when it ends and what is recorded.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it describes: sections are read one by one")]
#[schemars(title = "bentpipe scenario, version 1")]
pub(crate) struct File {
    /// The version of this format: 1.
    #[schemars(extend("const" = 1))]
    version: u32,
    /// What results call the scenario. By default the file's name.
    name: Option<Line>,
    /// One sentence on what it shows.
    about: Option<Line>,
    /// The names of hosts and routers.
    #[schemars(length(min = 2, max = 100_000))]
    nodes: Vec<Name>,
    /// Links, each between two nodes. Packets take the path of least delay; among equal ones, that of fewest links.
    #[schemars(length(min = 1))]
    link: Vec<Link>,
    /// How routes follow links that come and go.
    #[serde(default)]
    routing: Routing,
    /// Return carriers that terminals share on demand.
    #[serde(default)]
    carrier: Vec<Carrier>,
    /// Traffic between nodes.
    #[schemars(length(min = 1))]
    flow: Vec<Flow>,
    /// TCP settings, by a name of your choice that flows and gateways refer to.
    #[serde(default)]
    tcp: BTreeMap<String, Tcp>,
    /// QUIC settings, by a name of your choice that flows refer to.
    #[serde(default)]
    quic: BTreeMap<String, Quic>,
    /// Pairs of gateways. A pair splits the TCP connections whose path passes both.
    #[serde(default)]
    gateway: Vec<Gateway>,
    /// Which seeds to run.
    #[serde(default)]
    seeds: Seeds,
    /// When a run ends.
    #[serde(default)]
    stop: Stop,
    /// What to record beside the results of flows and links.
    #[serde(default)]
    record: Record,
    /// Variants of the experiment: under each name, the settings that it changes, with paths as for `--set`. If there are
    /// variants, each runs with each seed; the unchanged scenario does not run.
    #[serde(default)]
    variants: BTreeMap<String, Changes>,
}

/// Settings by their path, such as `"link.sat.loss" = 1e-3`, or in nested tables.
#[derive(JsonSchema)]
#[schemars(extend("x-changes" = true))]
pub(crate) struct Changes {}

/// How routes follow links that come and go (`up`), and delays that change.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Routing {
    /// Compute routes at this interval, by the delays at that time; a link that goes down meanwhile loses what is sent to it. By default routes
    /// are computed when a link comes or goes.
    pub(crate) every: Option<Interval>,
    /// What happens to packets on a link that goes down: they are delivered (keep), or lost with all that waits (lose).
    #[schemars(extend("default" = "keep"))]
    pub(crate) under_way: Option<UnderWay>,
}

/// What happens to packets on a link that goes down.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum UnderWay {
    Keep,
    Lose,
}

/// The seeds of replicas: one run for each.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Seeds {
    /// The first seed.
    #[schemars(range(min = 0), extend("default" = 1))]
    pub(crate) first: Option<u64>,
    /// How many seeds, in order.
    #[schemars(range(min = 1, max = 1_000_000), extend("default" = 1))]
    pub(crate) count: Option<u64>,
}

/// The end of a run: the first of these conditions ends it. The report says if that was a limit (events, memory).
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Stop {
    /// End at this simulated time.
    #[schemars(extend("default" = "1h"))]
    pub(crate) time: Option<Interval>,
    /// End when every flow of finite length is complete, has failed or was given up at its `stop`.
    #[schemars(extend("default" = true))]
    pub(crate) complete: Option<bool>,
    /// Give up after this many events (packet arrivals, timers).
    #[schemars(range(min = 1), extend("default" = 10_000_000_000u64))]
    pub(crate) max_events: Option<u64>,
    /// Give up when packets, connections and records need more memory than this.
    #[schemars(extend("default" = "2GB"))]
    pub(crate) max_memory: Option<Size>,
}

/// What is recorded. By default nothing: records cost time and memory.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Record {
    /// Sample each flow at this interval: congestion window, slow-start threshold, smoothed round-trip time, bytes in
    /// flight, bytes delivered, and goodput since the previous sample.
    pub(crate) interval: Option<Interval>,
    /// Also sample a flow whenever its congestion window or slow-start threshold changes.
    #[schemars(extend("default" = false))]
    pub(crate) window_changes: Option<bool>,
    /// Sample the queue of each direction of each link at this interval.
    pub(crate) queue_interval: Option<Interval>,
    /// What each terminal of a carrier requested, was allocated and used in each superframe.
    #[schemars(extend("default" = false))]
    pub(crate) capacity: Option<bool>,
    /// The flows to sample, by name. By default all.
    pub(crate) flows: Option<Vec<Name>>,
    /// The nodes at which packets are captured: all that their endpoints send and receive.
    pub(crate) packets: Option<Vec<Name>>,
}
