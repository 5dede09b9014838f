//! What a scenario file may say: the types whose documentation is the schema's (docs/scenarios.md).

use crate::carrier::{Carrier, Dama};
use crate::text::{Queue, Window};
use document::{AnyRate, AnySize, Interval, Name, PositiveRate, RateLimit, Size, Time};
use satpep::{CapacitySource, CrossTrafficPolicy, Priority};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use std::collections::BTreeMap;

/// An experiment of `bentpipe simulate`: a topology, what flows over it, when it ends and what is recorded.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it describes: sections are read one by one")]
#[schemars(title = "bentpipe scenario, version 1")]
pub(crate) struct File {
    /// The version of this format: 1.
    #[schemars(extend("const" = 1))]
    version: u32,
    /// What results call the scenario. By default the file's name.
    name: Option<String>,
    /// What it shows, in a sentence.
    about: Option<String>,
    /// The names of hosts and routers.
    #[schemars(length(min = 2, max = 100_000))]
    nodes: Vec<Name>,
    /// Links, each between two nodes. Packets take the way of least delay, then of fewest links.
    #[schemars(length(min = 1))]
    link: Vec<Link>,
    /// Carriers that the terminals' ends of links share on demand.
    #[serde(default)]
    carrier: Vec<Carrier>,
    /// What passes between nodes.
    #[schemars(length(min = 1))]
    flow: Vec<Flow>,
    /// How TCP endpoints behave, by a name of your choice that flows then use.
    #[serde(default)]
    tcp: BTreeMap<String, Tcp>,
    /// Pairs of gateways that split the TCP connections whose way passes both.
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
    /// Variants of the experiment: for each name the settings that it changes, written as for `--set`. If there are
    /// any, each of them runs with each seed, instead of the scenario as it stands.
    #[serde(default)]
    variants: BTreeMap<String, Changes>,
}

/// Settings by their path, such as `"link.sat.loss" = 1e-3`, or in nested tables.
#[derive(JsonSchema)]
#[schemars(extend("x-changes" = true))]
pub(crate) struct Changes {}

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

/// The end of a run. Whatever comes first ends it; a limit (events, memory) that is reached is reported as such.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Stop {
    /// At this time.
    #[schemars(extend("default" = "1h"))]
    pub(crate) time: Option<Interval>,
    /// Once every flow that has an end is complete or has failed.
    #[schemars(extend("default" = true))]
    pub(crate) complete: Option<bool>,
    /// Give up after so many events (arrivals of packets, timers).
    #[schemars(range(min = 1), extend("default" = 10_000_000_000u64))]
    pub(crate) max_events: Option<u64>,
    /// Give up when packets, connections and records take so much memory.
    #[schemars(extend("default" = "2GB"))]
    pub(crate) max_memory: Option<Size>,
}

/// What is recorded. Nothing is by default: records cost time and memory.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Record {
    /// A sample of each flow in such intervals: congestion window, slow-start threshold, smoothed round-trip time,
    /// bytes in flight, bytes delivered and goodput since the sample before.
    pub(crate) interval: Option<Interval>,
    /// A sample, too, whenever a sender's congestion window or slow-start threshold changes.
    #[schemars(extend("default" = false))]
    pub(crate) window_changes: Option<bool>,
    /// What waits for each direction of each link, in such intervals.
    pub(crate) queue_interval: Option<Interval>,
    /// What each terminal of a carrier asked for, was given and used in each superframe.
    #[schemars(extend("default" = false))]
    pub(crate) capacity: Option<bool>,
    /// The flows to sample, by name. By default all.
    pub(crate) flows: Option<Vec<Name>>,
    /// The nodes whose packets are captured: all that their endpoints send and receive.
    pub(crate) packets: Option<Vec<Name>>,
}

/// A link between two nodes. Its keys hold for both directions unless `forward` or `reverse` says otherwise.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it describes: `link` reads the values as they stand")]
pub(crate) struct Link {
    /// Its name, unique among links.
    name: Name,
    /// The two nodes that it joins. Forward is from the first to the second.
    #[schemars(length(min = 2, max = 2))]
    between: Vec<Name>,
    #[serde(flatten)]
    both: Direction,
    /// What is different from the first node to the second.
    #[serde(default)]
    forward: Option<Direction>,
    /// What is different from the second node to the first.
    #[serde(default)]
    reverse: Option<Direction>,
}

/// A direction of a link.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it describes: `link` reads the values as they stand")]
pub(crate) struct Direction {
    /// Bits of IP packets each second.
    #[schemars(extend("default" = "unlimited"))]
    rate: Option<RateLimit>,
    /// Rates that take the place of `rate` from given times on, such as a rain fade. 0bit/s is an outage, in which packets
    /// wait.
    rate_steps: Option<Steps<AnyRate>>,
    /// Recorded delivery opportunities instead of a rate, as in mahimahi's traces.
    opportunities: Option<Opportunities>,
    /// A carrier shared with other terminals instead of a rate.
    dama: Option<Dama>,
    /// What the link layer adds to each packet, at most 10kB: it takes its time of transmission, and nothing else.
    #[schemars(extend("default" = "0B"))]
    overhead: Option<AnySize>,
    /// Propagation delay one way, at most 1h; or the places of satellites and ground stations that give it.
    #[schemars(extend("default" = "0s"))]
    delay: Option<Delay>,
    /// Delays that take the place of `delay` from given times on.
    delay_steps: Option<Steps<Time>>,
    /// A change of satellite at regular times, as in low orbits.
    handover: Option<Handover>,
    /// When the delay falls, packets do not overtake those sent before.
    #[schemars(extend("default" = true))]
    keep_order: Option<bool>,
    /// What may wait for the transmitter; required where there is a rate. 1BDP is what the link's rate carries in its own
    /// round trip, at least 1500 B.
    queue: Option<QueueForm>,
    /// Which packets the queue gives up: the last, or by how long they wait (RFC 8289), or that for each flow (RFC 8290).
    #[schemars(extend("default" = "drop_tail"))]
    discipline: Option<Discipline>,
    /// Which packets are lost on the way: a probability, or a model.
    #[schemars(extend("default" = 0.0))]
    loss: Option<Loss>,
    /// Which packets are overtaken.
    reorder: Option<Reorder>,
    /// The fraction of the delivered packets that arrive twice.
    #[schemars(range(min = 0, max = 1), extend("default" = 0.0))]
    duplicate: Option<f64>,
}

/// Values that change at given times; the plain value holds before the first. `steps` or `file`.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it describes")]
pub(crate) struct Steps<T> {
    /// Times, rising, and the value from each on: `[["10s", …], ["20s", …]]`.
    #[schemars(length(min = 1))]
    steps: Option<Vec<(Time, T)>>,
    /// A file with a line for each step, such as `10s 3Mbit/s`. Its path counts from the scenario's folder.
    file: Option<String>,
    /// Everything starts again after this time. By default never.
    repeat: Option<Interval>,
}

/// Recorded delivery opportunities: `millis` or `file`. The whole starts again after the last.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it describes")]
pub(crate) struct Opportunities {
    /// Milliseconds at which 1500 bytes may leave; they do not fall.
    #[schemars(length(min = 1))]
    millis: Option<Vec<u64>>,
    /// A file with one of them a line. Its path counts from the scenario's folder.
    file: Option<String>,
}

/// A delay.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it describes")]
pub(crate) enum Delay {
    /// As it is.
    Time(Time),
    /// From where satellites and ground stations are.
    Geometry(Geometry),
}

/// The places of satellites and ground stations.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "it describes")]
pub(crate) enum Geometry {
    /// Over one geostationary satellite.
    Geo {
        /// The satellite's longitude in degrees; west is negative.
        #[schemars(range(min = -180, max = 180))]
        satellite_longitude: f64,
        /// The stations at both ends.
        #[schemars(length(min = 2, max = 2))]
        stations: Vec<GroundStation>,
    },
    /// Over satellites in low orbit.
    Leo {
        /// Altitude of the satellites in km.
        #[schemars(range(min = 100, max = 100_000))]
        altitude_km: f64,
        /// Elevation in degrees of the first satellite from the first station, and of the last from the second.
        #[schemars(length(min = 2, max = 2), inner(range(min = 0, max = 90)))]
        elevations: Vec<f64>,
        /// Lengths of the hops between satellites in km. By default there is one satellite.
        #[serde(default)]
        #[schemars(inner(range(min = 0, max = 1_000_000)))]
        inter_satellite_km: Option<Vec<f64>>,
    },
}

/// A point on the ground.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it describes")]
pub(crate) struct GroundStation {
    /// Degrees; south is negative.
    #[schemars(range(min = -90, max = 90))]
    latitude: f64,
    /// Degrees; west is negative.
    #[schemars(range(min = -180, max = 180))]
    longitude: f64,
}

/// Changes of satellite: from one to the next the delay (and the rate) is constant, drawn uniformly by the seed.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it describes")]
pub(crate) struct Handover {
    /// Time between changes, at most 1h. Starlink's is 15s.
    period: Interval,
    /// The lowest and the highest delay one way; they take the place of `delay`.
    #[schemars(length(min = 2, max = 2))]
    delay: Vec<Time>,
    /// The lowest and the highest rate; they take the place of `rate`. By default the rate stays.
    #[schemars(length(min = 2, max = 2))]
    rate: Option<Vec<PositiveRate>>,
    /// The longest outage after a change, each drawn uniformly from zero to it: what is sent then is lost.
    #[schemars(extend("default" = "0s"))]
    outage: Option<Time>,
}

/// The size of a queue.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it describes")]
pub(crate) enum QueueForm {
    /// In short.
    Text(Queue),
    /// As in link files.
    Limit(QueueLimit),
}

/// The size of a queue, as in link files.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "it describes")]
pub(crate) enum QueueLimit {
    /// So many packets.
    Packets(#[schemars(range(min = 1))] u64),
    /// So many bytes.
    Bytes(Size),
}

/// What a queue does when it is long.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "it describes")]
pub(crate) enum Discipline {
    /// Drops what finds it full.
    DropTail,
    /// Controlled delay (RFC 8289).
    Codel {
        /// How long packets may wait.
        #[schemars(extend("default" = "5ms"))]
        target: Option<Interval>,
        /// How long they may wait longer before one is dropped; over a geostationary satellite, 600ms.
        #[schemars(extend("default" = "100ms"))]
        interval: Option<Interval>,
    },
    /// Controlled delay for each flow, and flows in turn (RFC 8290).
    FqCodel {
        /// As of `codel`.
        #[schemars(extend("default" = "5ms"))]
        target: Option<Interval>,
        /// As of `codel`.
        #[schemars(extend("default" = "100ms"))]
        interval: Option<Interval>,
        /// What a flow may send in its turn, at least 256B.
        #[schemars(extend("default" = "1514B"))]
        quantum: Option<Size>,
        /// Queues among which flows are hashed.
        #[schemars(range(min = 1, max = 65_536), extend("default" = 1024))]
        flows: Option<u32>,
    },
}

/// Losses.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it describes")]
pub(crate) enum Loss {
    /// Each packet with this probability.
    Probability(#[schemars(range(min = 0, max = 1))] f64),
    /// A model.
    Model(LossModel),
}

/// A model of losses.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "it describes")]
pub(crate) enum LossModel {
    /// No packet.
    None,
    /// Each packet with this probability.
    Bernoulli(#[schemars(range(min = 0, max = 1))] f64),
    /// Each bit is wrong with this probability, and one wrong bit loses the packet.
    BitErrorRate(#[schemars(range(min = 0, max = 1))] f64),
    /// Two states between which each packet may change: bursts that are long in packets. The mean burst is 1/r packets.
    GilbertElliott {
        /// Probability of going from the good to the bad state.
        #[schemars(range(min = 0, max = 1))]
        p: f64,
        /// Probability of going from the bad to the good state.
        #[schemars(range(min = 0, max = 1))]
        r: f64,
        /// Probability of a loss in the good state.
        #[schemars(range(min = 0, max = 1), extend("default" = 0.0))]
        loss_good: Option<f64>,
        /// Probability of a loss in the bad state.
        #[schemars(range(min = 0, max = 1))]
        loss_bad: f64,
    },
    /// Two states that last exponentially distributed times: fades.
    TimedGilbertElliott {
        /// How long the good state lasts in the mean, at least 1us.
        mean_good: Interval,
        /// How long the bad state lasts in the mean, at least 1us.
        mean_bad: Interval,
        /// Probability of a loss in the good state.
        #[schemars(range(min = 0, max = 1), extend("default" = 0.0))]
        loss_good: Option<f64>,
        /// Probability of a loss in the bad state.
        #[schemars(range(min = 0, max = 1))]
        loss_bad: f64,
    },
    /// These packets, by their number among those sent on this direction, the first being 0.
    DropList(Vec<u64>),
    /// A file with such numbers, rising, one a line. Its path counts from the scenario's folder.
    DropFile(String),
    /// A probability that changes at given times, zero before the first.
    Steps(Steps<Probability>),
}

/// Some packets are held back, so that those behind them overtake.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it describes")]
pub(crate) struct Reorder {
    /// The fraction of packets held back.
    #[schemars(range(min = 0, max = 1))]
    probability: f64,
    /// By how long they are, at most 1h.
    extra_delay: Interval,
}

/// A probability.
#[derive(JsonSchema)]
#[schemars(transparent)]
#[expect(dead_code, reason = "it describes")]
pub(crate) struct Probability(#[schemars(range(min = 0, max = 1))] f64);

/// One flow, or `count` of them alike. Exactly one of `bulk`, `on_off`, `request_response`, `udp` and `ping` says what it
/// does.
#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "names are read before: their place is needed where they are unknown")]
pub(crate) struct Flow {
    /// Its name, unique among flows. Of several alike, results number them: NAME-1, NAME-2, …
    pub(crate) name: Name,
    /// The node of the client: the end that connects, sends or asks.
    pub(crate) from: Name,
    /// The node of the server.
    pub(crate) to: Name,
    /// How many.
    #[schemars(range(min = 1, max = 1_000_000), extend("default" = 1))]
    pub(crate) count: Option<u32>,
    /// When it starts.
    #[schemars(extend("default" = "0s"))]
    pub(crate) start: Option<Start>,
    /// When its application sends no more. By default never.
    pub(crate) stop: Option<Interval>,
    /// How its TCP endpoints behave: one of the presets (docs/scenarios.md lists them), or a name under `[tcp]`.
    #[schemars(extend("default" = "sack"))]
    pub(crate) tcp: Option<Name>,
    /// How the server's endpoint behaves, if not as the client's.
    pub(crate) server_tcp: Option<Name>,
    /// TCP: one file.
    pub(crate) bulk: Option<Bulk>,
    /// TCP: the client sends in bursts.
    pub(crate) on_off: Option<OnOff>,
    /// TCP: the client asks, the server answers, the client thinks, on one connection, as on the web.
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
    /// Staggered, or at random.
    Spread(Spread),
}

/// The starts of flows alike.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(crate) struct Spread {
    /// The earliest start.
    #[schemars(extend("default" = "0s"))]
    pub(crate) at: Option<Time>,
    /// Each flow so much later than the one before.
    #[schemars(extend("default" = "0s"))]
    pub(crate) every: Option<Time>,
    /// And each later by a time that is drawn uniformly from zero to this, by the seed.
    #[schemars(extend("default" = "0s"))]
    pub(crate) spread: Option<Time>,
}

/// A file transfer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default)]
#[derive(Default)]
pub(crate) struct Bulk {
    /// The file's size. By default without end.
    pub(crate) size: Option<Size>,
    /// Who sends: the client (up), or the server when it has the client's request (down).
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

/// Bursts and pauses in turn; a burst comes first.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct OnOff {
    /// How fast the application writes while it is on.
    pub(crate) rate: PositiveRate,
    /// How long a burst lasts.
    pub(crate) on: Distribution<Interval>,
    /// How long a pause lasts.
    pub(crate) off: Distribution<Time>,
}

/// Requests and responses.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct RequestResponse {
    /// How many exchanges. By default without end.
    #[schemars(range(min = 1))]
    pub(crate) requests: Option<u64>,
    /// The size of a request.
    #[schemars(extend("default" = "400B"))]
    pub(crate) request: Option<Distribution<Size>>,
    /// The size of a response.
    pub(crate) response: Distribution<Size>,
    /// From a response's last byte to the next request.
    #[schemars(extend("default" = "0s"))]
    pub(crate) think: Option<Distribution<Time>>,
}

/// UDP at a constant rate.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Udp {
    /// Bits of IP packets each second.
    pub(crate) rate: PositiveRate,
    /// The size of each IP packet, from 28B to 65535B.
    #[schemars(extend("default" = "1500B"))]
    pub(crate) packet_size: Option<Size>,
    /// How long a burst lasts. Give `off`, too; by default it sends without pause.
    pub(crate) on: Option<Distribution<Interval>>,
    /// How long a pause lasts.
    pub(crate) off: Option<Distribution<Time>>,
}

/// Echo requests.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default)]
#[derive(Default)]
pub(crate) struct Ping {
    /// From one request to the next.
    #[schemars(extend("default" = "1s"))]
    pub(crate) interval: Option<Interval>,
    /// The size of each IP packet, from 28B to 65535B.
    #[schemars(extend("default" = "84B"))]
    pub(crate) packet_size: Option<Size>,
    /// How many requests. By default without end.
    #[schemars(range(min = 1))]
    pub(crate) requests: Option<u64>,
}

/// A size or a time: always the same, or drawn at random by the seed.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Distribution<T> {
    /// Always the same.
    Constant(T),
    /// Drawn at random.
    Random(Random<T>),
}

/// How a size or a time is drawn.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Random<T> {
    /// Uniform between two values.
    Uniform {
        /// The least.
        min: T,
        /// The largest.
        max: T,
    },
    /// Exponential.
    Exponential {
        /// The mean.
        mean: T,
    },
    /// Pareto, cut off at `max`: heavy-tailed, as the sizes of files on the web are.
    Pareto {
        /// The least.
        min: T,
        /// The exponent of the tail.
        #[schemars(extend("exclusiveMinimum" = 0, "maximum" = 100))]
        shape: f64,
        /// What exceeds this becomes this.
        max: T,
    },
    /// Log-normal.
    LogNormal {
        /// The median.
        median: T,
        /// The standard deviation of the logarithm.
        #[schemars(range(min = 0, max = 10))]
        sigma: f64,
    },
}

/// A pair of gateways. Each TCP flow whose way passes both nodes, without beginning or ending there, is split: the first
/// gateway on its way answers the client in the server's place, the second connects to the server.
#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "names are read before: their place is needed where they are unknown")]
pub(crate) struct Gateway {
    /// Its name, unique among pairs.
    pub(crate) name: Name,
    /// The two nodes.
    #[schemars(length(min = 2, max = 2))]
    pub(crate) nodes: Vec<Name>,
    /// What they speak to one another: bentpipe's own transport, in a session that is up when the run begins, SaTPEP as its
    /// paper of 2003 has it, or a TCP connection for each flow.
    #[schemars(extend("default" = "satpep"))]
    pub(crate) protocol: Option<Protocol>,
    /// How their TCP towards hosts behaves. By default as Linux with CUBIC and buffers of up to 6 MiB.
    pub(crate) hosts_tcp: Option<Name>,
    /// How their TCP between them behaves, where the protocol is tcp. By default as towards hosts.
    pub(crate) tcp: Option<Name>,
    /// Whether the windows of a protocol of tcp whose control goes by the capacity (cross-layer) follow the allocation of a
    /// carrier on the path (see `dama`), divided between the connections by what they use; from the first of them to the last the terminal
    /// asks for all that it may have.
    #[schemars(extend("default" = false))]
    pub(crate) follow_allocation: Option<bool>,
    /// Settings of satpep.
    #[serde(default)]
    pub(crate) satpep: Transport,
    /// Settings of satpep-2003.
    #[serde(default, rename = "satpep-2003")]
    pub(crate) satpep_2003: Satpep2003,
}

/// What a pair of gateways speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Protocol {
    Satpep,
    #[serde(rename = "satpep-2003")]
    Satpep2003,
    Tcp,
}

/// Settings of the satellite transport.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Transport {
    /// The capacity from the first node to the second, and back. By default that of the slowest link between them.
    #[schemars(length(min = 2, max = 2))]
    pub(crate) capacity: Option<Vec<PositiveRate>>,
    /// The round-trip time. By default that of propagation.
    pub(crate) rtt: Option<Interval>,
    /// The share of the capacity that is used.
    #[schemars(extend("exclusiveMinimum" = 0), range(max = 1), extend("default" = 0.99))]
    pub(crate) pacing_gain: Option<f64>,
    /// Receive memory. By default four bandwidth-delay products, at least 32 MiB.
    pub(crate) receive_memory: Option<Size>,
    /// How long connections survive an outage before they end with a reset.
    #[schemars(extend("default" = "10min"))]
    pub(crate) outage_limit: Option<Interval>,
    /// Whether FEC repair symbols are sent, above all in capacity that would idle.
    #[schemars(extend("default" = true))]
    pub(crate) repair: Option<bool>,
    /// What repair may take of a full link beyond the share of what is lost, where that pays.
    #[schemars(range(min = 0, max = 0.5), extend("default" = 0.02))]
    pub(crate) repair_overhead: Option<f64>,
    /// Where the gateways have the capacity of the link from: the configuration, the modem's report of each change, or an
    /// estimate from arrivals.
    #[schemars(extend("default" = "configured"))]
    pub(crate) capacity_source: Option<CapacitySource>,
    /// What room cross traffic, which does not pass the pair, is given: its measured rate is subtracted from the capacity
    /// (subtract), or it has room to grow until it has what one busy flow of the pair has (fair).
    #[schemars(extend("default" = "subtract"))]
    pub(crate) cross_traffic: Option<CrossTrafficPolicy>,
    /// Classes of flows, which share the link by weight. Flows of no class are together in one of weight 1.
    #[schemars(length(max = 255))]
    pub(crate) class: Option<Vec<Class>>,
    /// Flows, by name, that go end to end past the pair.
    pub(crate) bypass: Option<Vec<Name>>,
    /// How long a connection to a server, or a client's wait for a stream, may take before it ends with a reset.
    #[schemars(extend("default" = "20s"))]
    pub(crate) connect_timeout: Option<Interval>,
    /// The most streams at a time. New connections go end to end beyond, as they do while the other gateway does not answer.
    #[schemars(range(min = 1, max = 1_000_000), extend("default" = 16_384))]
    pub(crate) max_streams: Option<u32>,
    /// The most TCP connections with hosts that a gateway has at a time, as its descriptors allow. New connections go end to end
    /// beyond. By default nothing limits them.
    #[schemars(range(min = 1))]
    pub(crate) max_connections: Option<u64>,
    /// Whether the report has each transition of each relayed connection at both gateways.
    #[schemars(extend("default" = false))]
    pub(crate) report_transitions: Option<bool>,
}

/// Flows that share the link with others as one.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Class {
    /// Its name, unique among classes of the pair.
    pub(crate) name: Name,
    /// Its flows, by name; a flow is of one class. Those of a class share equally.
    #[schemars(length(min = 1))]
    pub(crate) flows: Vec<Name>,
    /// Which of its flows go first. In normal classes, those that are new or send less than their share; interactive
    /// classes go before normal ones, with all of their flows while the class takes less than its share; in bulk classes
    /// none does.
    #[schemars(extend("default" = "normal"))]
    pub(crate) priority: Option<Priority>,
    /// Its share against other classes that are busy.
    #[schemars(range(min = 1, max = 100), extend("default" = 1))]
    pub(crate) weight: Option<u32>,
    /// The most that is sent of it. By default nothing limits it.
    pub(crate) cap: Option<PositiveRate>,
}

/// Settings of SaTPEP as its paper of 2003 has it, with windows that the receiving gateway assigns and repair by negative
/// acknowledgements.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Satpep2003 {
    /// When a gateway answers a client: once the server has (confirmed), or at once (immediate).
    #[schemars(extend("default" = "confirmed"))]
    pub(crate) accept: Option<Accept>,
    /// How the receiving gateway divides the link: as the paper has it, or with a short standing queue and newcomers let in
    /// soon (deploy).
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
    /// What each connection may have waiting at either gateway, each way. By default four bandwidth-delay products, at
    /// least 256 KiB.
    pub(crate) buffer: Option<Size>,
    /// The link from the first node to the second, where that is not the way of least delay: a satellite's beside a
    /// terrestrial return path.
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

/// How TCP endpoints behave: a preset or a pair of recovery and control, the constants of a profile, and what is
/// different.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Tcp {
    /// A recovery and a control by the name of the variant. By default the preset that has the table's own name, if there is
    /// one; else those of the profile: sack with reno, or rack with reno for linux. In that profile
    /// presets with another control than reno have rack, too.
    #[schemars(schema_with = "presets")]
    pub(crate) preset: Option<String>,
    /// Where constants come from: standards track, Linux 6.x, or the one-way agents of ns-2 2.35.
    #[schemars(extend("default" = "rfc"))]
    pub(crate) profile: Option<ProfileName>,
    /// What finds losses and repairs them; instead of the preset's.
    #[schemars(schema_with = "recoveries")]
    pub(crate) recovery: Option<String>,
    /// What sizes the window; instead of the preset's.
    #[schemars(schema_with = "controls")]
    pub(crate) control: Option<String>,
    /// Payload of a full segment, from 64B to 65000B. By default 1448B, for ns2 1460B.
    pub(crate) mss: Option<Size>,
    /// The congestion window at the start. By default that of RFC 6928, for ns2 2segments.
    pub(crate) initial_window: Option<Window>,
    /// The slow-start threshold at the start. By default unlimited, for ns2 20segments.
    pub(crate) initial_ssthresh: Option<Window>,
    /// What may wait to be sent or acknowledged. By default unlimited.
    pub(crate) send_buffer: Option<Window>,
    /// What may wait to be read, and so the largest window that the peer may use. No more than `receive_buffer_max`. In the
    /// profile linux it grows by default from 128KiB to 128MiB, as the kernel's does.
    #[schemars(extend("default" = "1GiB"))]
    pub(crate) receive_buffer: Option<Window>,
    /// The receive buffer grows up to this as the application reads. By default it does not grow.
    pub(crate) receive_buffer_max: Option<Window>,
    /// The part of the receive buffer that is advertised: 0.5 for Linux 2.2, 0.75 for 2.4 to 3.x, 0.625 for the buffer that the
    /// profile linux has by default.
    #[schemars(extend("exclusiveMinimum" = 0), range(max = 1), extend("default" = 1.0))]
    pub(crate) receive_buffer_share: Option<f64>,
    /// When the receiver acknowledges.
    pub(crate) delayed_ack: Option<AckPolicy>,
    /// The timestamps option, 12 bytes in every segment. By default on, for ns2 off.
    pub(crate) timestamps: Option<bool>,
    /// The window scale option.
    #[schemars(extend("default" = true))]
    pub(crate) window_scaling: Option<bool>,
    /// The SACK option.
    #[schemars(extend("default" = true))]
    pub(crate) sack: Option<bool>,
    /// Duplicates are reported (RFC 2883). By default on, for ns2 off.
    pub(crate) dsack: Option<bool>,
    /// New data leaves on the first two duplicate acknowledgements (RFC 3042).
    #[schemars(extend("default" = true))]
    pub(crate) limited_transmit: Option<bool>,
    /// The window falls in proportion during a recovery (RFC 6937). By default off, for linux on.
    pub(crate) proportional_rate_reduction: Option<bool>,
    /// The window falls back to the initial one after an idle time (RFC 5681). By default on, for ns2 off.
    pub(crate) restart_after_idle: Option<bool>,
    /// Segments by which one acknowledgement opens the window in slow start at most (the L of RFC 3465). By default 2, for
    /// linux unlimited, for ns2 1.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) slow_start_limit: Option<f64>,
    /// The window grows by acknowledgements rather than by bytes. By default off, for ns2 on.
    pub(crate) growth_counts_acks: Option<bool>,
    /// The window grows also while it is not what limits the sender. By default off, for ns2 on.
    pub(crate) grow_when_not_limited: Option<bool>,
    /// The retransmission timeout before the first sample. By default 1s, for ns2 3s.
    pub(crate) initial_rto: Option<Interval>,
    /// The least timeout: of the whole (rfc: 1s, ns2: 200ms), or on top of the smoothed round-trip time (linux: 200ms).
    pub(crate) min_rto: Option<Time>,
    /// The longest timeout. By default 60s, for linux 120s.
    pub(crate) max_rto: Option<Interval>,
    /// No third segment of the handshake, no FIN and no options on the wire. By default off, for ns2 on.
    pub(crate) bare: Option<bool>,
    /// The connection fails after so many timeouts in a row. By default 15, for ns2 never.
    #[schemars(range(min = 1, max = 1000))]
    pub(crate) max_expiries: Option<u32>,
    /// The congestion window never exceeds this, as with Linux's route option `cwnd`. By default unlimited; not for ns2.
    pub(crate) max_window: Option<Window>,
    /// What an earlier connection learnt of the path (Careful Resume, RFC 9959). By default nothing.
    pub(crate) resume: Option<SavedPath>,
    /// What the link layer tells: for the controls that take their window from it.
    pub(crate) capacity: Option<Capacity>,
    /// Constants of single algorithms.
    pub(crate) tuning: Option<Tuning>,
}

/// Where constants come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ProfileName {
    Rfc,
    Linux,
    Ns2,
}

/// Delayed acknowledgements. What is left out is the profile's.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct AckPolicy {
    /// At the latest after so many full segments: 1 acknowledges each. By default 2, for ns2 1.
    #[schemars(range(min = 1, max = 1000))]
    pub(crate) every: Option<u32>,
    /// At the latest after this time. By default 200ms, for linux 40ms, for ns2 100ms.
    pub(crate) delay: Option<Interval>,
    /// So many segments at the start are acknowledged at once, and in linux each that opens the window; 0: none, as a host that
    /// receives `every` segments as one. By default 0, for linux 16.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub(crate) quick: Option<u32>,
}

/// An earlier connection.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(crate) struct SavedPath {
    /// Bytes that it delivered in a round trip.
    pub(crate) window: Size,
    /// Its smallest round-trip time.
    pub(crate) rtt: Interval,
}

/// The capacity of the link, from the link layer.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub(crate) struct Capacity {
    /// The capacity that connections share.
    pub(crate) rate: PositiveRate,
    /// The round-trip time of propagation.
    pub(crate) rtt: Interval,
    /// The intended queueing delay, at most 1s. By default none.
    pub(crate) target_queue: Option<Interval>,
    /// How many connections share it.
    #[schemars(range(min = 1, max = 1_000_000), extend("default" = 1))]
    pub(crate) connections: Option<u32>,
}

/// Constants of single algorithms.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Tuning {
    /// Vegas: segments that it keeps queued at least (alpha), at most (beta), and the limit of slow start (gamma). By default
    /// [1, 3, 1], for linux [2, 4, 1].
    #[schemars(length(min = 3, max = 3), inner(range(min = 0, max = 1000)))]
    pub(crate) vegas: Option<Vec<f64>>,
    /// Vegas: over how long the propagation round-trip time is the smallest sample. By default the whole connection.
    pub(crate) vegas_base_window: Option<Interval>,
    /// What ends slow start before a loss. By default what the control prescribes: for cubic hystart++, with linux hystart;
    /// for the others nothing.
    pub(crate) slow_start_exit: Option<SlowStartExit>,
    /// Westwood: time constant of the bandwidth filter.
    #[schemars(extend("default" = "500ms"))]
    pub(crate) westwood_tau: Option<Interval>,
    /// TIBET: the pole of the averages.
    #[schemars(range(min = 0, max = 0.999_999), extend("default" = 0.99))]
    pub(crate) tibet_pole: Option<f64>,
    /// TIBET: the time constant of the filter.
    #[schemars(extend("default" = "1s"))]
    pub(crate) tibet_time: Option<Interval>,
    /// Hybla: the reference round-trip time.
    #[schemars(extend("default" = "25ms"))]
    pub(crate) hybla_rtt0: Option<Interval>,
    /// Profile ns2: how long before the start of time the clock of 10 ms ticked last. By default each connection's is drawn with
    /// the seed.
    pub(crate) clock_phase: Option<Time>,
    /// Cross-layer window: bytes of headers for each byte of payload.
    #[schemars(range(min = 0, max = 10), extend("default" = 0.0505))]
    pub(crate) header_share: Option<f64>,
}

/// What ends slow start before a loss does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SlowStartExit {
    None,
    Hystart,
    #[serde(rename = "hystart++")]
    HystartPlusPlus,
}

fn names(names: impl Iterator<Item = &'static str>) -> Schema {
    json_schema!({ "type": "string", "enum": names.collect::<Vec<_>>() })
}

fn presets(_: &mut SchemaGenerator) -> Schema {
    names(crate::endpoint::Preset::all().map(|preset| preset.name))
}

fn recoveries(_: &mut SchemaGenerator) -> Schema {
    names(crate::endpoint::recoveries())
}

fn controls(_: &mut SchemaGenerator) -> Schema {
    names(crate::endpoint::controls())
}
