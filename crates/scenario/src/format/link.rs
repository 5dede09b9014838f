//! Links: what a scenario may say of them, and of each of their directions.

use super::carrier::Dama;
use super::steps::Steps;
use crate::text::Queue;
use document::{AnyRate, AnySize, Interval, Name, PositiveRate, RateLimit, Size, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// A link between two nodes. Keys apply to both directions; `forward` and `reverse` override them for one.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it describes: `link` reads the values as they stand")]
pub(crate) struct Link {
    /// Its name, unique among links.
    name: Name,
    /// The two nodes. Forward is from the first to the second.
    #[schemars(length(min = 2, max = 2))]
    between: Vec<Name>,
    /// When the link is there, if it comes and goes: both directions, and packets take other ways meanwhile. Not with `dama`.
    #[serde(default)]
    up: Option<Up>,
    #[serde(flatten)]
    both: Direction,
    /// Settings of the direction from the first node to the second only.
    #[serde(default)]
    forward: Option<Direction>,
    /// Settings of the direction from the second node to the first only.
    #[serde(default)]
    reverse: Option<Direction>,
}

/// When a link is there. Before the first time it is.
#[derive(JsonSchema, Deserialize)]
pub(crate) struct Up {
    /// Rising times, each with whether the link is up from then on: `[["10s", false], ["20s", true]]`.
    #[schemars(length(min = 1))]
    pub(crate) steps: Vec<(Time, bool)>,
    /// Period after which the steps start again. By default they do not.
    pub(crate) repeat: Option<Interval>,
}

/// A direction of a link.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it describes: `link` reads the values as they stand")]
pub(crate) struct Direction {
    /// Bit rate of IP packets.
    #[schemars(extend("default" = "unlimited"))]
    rate: Option<RateLimit>,
    /// Rates that replace `rate` from given times on, such as a rain fade. During 0bit/s, an outage, packets wait.
    rate_steps: Option<Steps<AnyRate>>,
    /// Recorded delivery opportunities instead of a rate, as in mahimahi's traces.
    opportunities: Option<Opportunities>,
    /// A carrier shared with other terminals instead of a rate.
    dama: Option<Dama>,
    /// Link-layer bytes per packet, at most 10kB. They add transmission time only: queues and counters count IP packets.
    #[schemars(extend("default" = "0B"))]
    overhead: Option<AnySize>,
    /// One-way propagation delay, at most 1h; or the positions of satellites and ground stations, from which it follows. Routes,
    /// 1BDP and gateways take one figure for the whole run: `delay` if above 0s, else the middle of a handover's delays, or that of
    /// `delay_steps` at time 0.
    #[schemars(extend("default" = "0s"))]
    delay: Option<Delay>,
    /// Delays that replace `delay` from given times on.
    delay_steps: Option<Steps<Time>>,
    /// Handovers at regular times, as in low orbits.
    handover: Option<Handover>,
    /// Keep packets in order when the delay falls.
    #[schemars(extend("default" = true))]
    keep_order: Option<bool>,
    /// A policer before the queue: what exceeds its rate is dropped instead of queued.
    policer: Option<Policer>,
    /// Queue limit of the transmitter; required with `rate`, `opportunities`, `handover.rate` and `dama`. 1BDP is the rate, of
    /// handovers that draw one its middle, times the link's own round-trip time (see `delay`), at least 1500 B.
    queue: Option<QueueForm>,
    /// Queue discipline: drop-tail, CoDel (RFC 8289), FQ-CoDel (RFC 8290), PIE (RFC 8033), FQ-PIE, RED or DualPI2 (RFC 9332).
    #[schemars(extend("default" = "drop_tail"))]
    discipline: Option<Discipline>,
    /// What becomes of pure TCP acknowledgements that wait (RFC 3449). Simulated links only; not with dual_pi2.
    #[schemars(extend("default" = "keep"))]
    acks: Option<Acks>,
    /// Packet losses: a probability, or a model.
    #[schemars(extend("default" = 0.0))]
    loss: Option<Loss>,
    /// Reordering.
    reorder: Option<Reorder>,
    /// The probability that a delivered packet arrives twice.
    #[schemars(range(min = 0, max = 1), extend("default" = 0.0))]
    duplicate: Option<f64>,
}

/// Recorded delivery opportunities: `millis` or `file`. After the last, they start again.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it describes")]
pub(crate) struct Opportunities {
    /// Times in milliseconds, not falling, at each of which 1500 bytes may leave.
    #[schemars(length(min = 1))]
    millis: Option<Vec<u64>>,
    /// A file with one of these times per line, or with lines such as `22 x19`: 19 times 22. Its path is relative to the scenario's folder.
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

/// Positions of satellites and ground stations.
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
        /// Elevation in degrees of the first satellite seen from the first station, and of the last seen from the second.
        #[schemars(length(min = 2, max = 2), inner(range(min = 0, max = 90)))]
        elevations: Vec<f64>,
        /// Lengths of inter-satellite links in km. By default there is one satellite.
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

/// Handovers between satellites. Delay (and rate) are constant between handovers and drawn uniformly at each.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it describes")]
pub(crate) struct Handover {
    /// Time between handovers, from 1ms to 1h. Starlink's is 15s.
    period: Interval,
    /// Lowest and highest one-way delay; they replace `delay`.
    #[schemars(length(min = 2, max = 2))]
    delay: Vec<Time>,
    /// Lowest and highest rate; they replace `rate`. By default `rate` stays.
    #[schemars(length(min = 2, max = 2))]
    rate: Option<Vec<PositiveRate>>,
    /// Longest outage after a handover, during which packets are lost; each is drawn uniformly from zero to this.
    #[schemars(extend("default" = "0s"))]
    outage: Option<Time>,
}

/// A token bucket that drops what exceeds a rate.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it describes")]
pub(crate) struct Policer {
    /// Rate of IP packets that pass in the long run.
    rate: PositiveRate,
    /// What passes at once after a pause: from 1500B to 1GiB.
    burst: Size,
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

/// A queue discipline.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "it describes")]
pub(crate) enum Discipline {
    /// Drop packets that arrive at a full queue.
    DropTail,
    /// Controlled delay (RFC 8289).
    Codel {
        /// Acceptable standing queueing delay.
        #[schemars(extend("default" = "5ms"))]
        target: Option<Interval>,
        /// How long the delay may exceed `target` before a packet is dropped; 600ms suits geostationary satellites.
        #[schemars(extend("default" = "100ms"))]
        interval: Option<Interval>,
        /// Mark packets of flows that use ECN instead of dropping them.
        #[schemars(extend("default" = false))]
        ecn: Option<bool>,
    },
    /// Controlled delay per flow, with fair queueing between flows (RFC 8290).
    FqCodel {
        /// As in `codel`.
        #[schemars(extend("default" = "5ms"))]
        target: Option<Interval>,
        /// As in `codel`.
        #[schemars(extend("default" = "100ms"))]
        interval: Option<Interval>,
        /// As in `codel`.
        #[schemars(extend("default" = false))]
        ecn: Option<bool>,
        /// Bytes that a flow may send per round, at least 256B.
        #[schemars(extend("default" = "1514B"))]
        quantum: Option<Size>,
        /// Number of queues to which flows are hashed.
        #[schemars(range(min = 1, max = 65_536), extend("default" = 1024))]
        flows: Option<u32>,
    },
    /// Proportional integral controller enhanced (RFC 8033).
    Pie {
        /// Intended queueing delay.
        #[schemars(extend("default" = "15ms"))]
        target: Option<Interval>,
        /// Interval at which the drop probability is calculated, at least 1ms.
        #[schemars(extend("default" = "15ms"))]
        update: Option<Interval>,
        /// How long a burst that begins on an idle link passes.
        #[schemars(extend("default" = "150ms"))]
        max_burst: Option<Time>,
        /// Mark packets of flows that use ECN instead of dropping them, while the probability is below 10 %.
        #[schemars(extend("default" = false))]
        ecn: Option<bool>,
    },
    /// PIE per flow, with fair queueing between flows.
    FqPie {
        /// As in `pie`.
        #[schemars(extend("default" = "15ms"))]
        target: Option<Interval>,
        /// As in `pie`.
        #[schemars(extend("default" = "15ms"))]
        update: Option<Interval>,
        /// As in `pie`.
        #[schemars(extend("default" = "150ms"))]
        max_burst: Option<Time>,
        /// As in `pie`.
        #[schemars(extend("default" = false))]
        ecn: Option<bool>,
        /// As in `fq_codel`.
        #[schemars(extend("default" = "1514B"))]
        quantum: Option<Size>,
        /// As in `fq_codel`.
        #[schemars(range(min = 1, max = 65_536), extend("default" = 1024))]
        flows: Option<u32>,
    },
    /// Random early detection, gentle (Floyd and Jacobson 1993). Needs `rate` or `handover.rate`.
    Red {
        /// Average queue up to which no packet is dropped.
        min: Size,
        /// Average queue at which the drop probability reaches `max_probability`; it reaches 1 at twice this.
        max: Size,
        /// Drop probability at `max`.
        #[schemars(range(min = 0, max = 1), extend("default" = 0.1))]
        max_probability: Option<f64>,
        /// Weight of each arrival in the average queue.
        #[schemars(extend("exclusiveMinimum" = 0), range(max = 1), extend("default" = 0.002))]
        weight: Option<f64>,
        /// Mark packets of flows that use ECN instead of dropping them, up to twice `max`.
        #[schemars(extend("default" = false))]
        ecn: Option<bool>,
    },
    /// DualQ Coupled AQM (RFC 9332): a queue with early marks for ECT(1), beside one for all other packets.
    #[serde(rename = "dual_pi2")]
    DualPi2 {
        /// Intended queueing delay of other packets.
        #[schemars(extend("default" = "15ms"))]
        target: Option<Interval>,
        /// ECT(1) packets that wait longer are marked.
        #[schemars(extend("default" = "1ms"))]
        threshold: Option<Time>,
        /// Longest round-trip time of the flows, at least 3ms; 600ms suits geostationary satellites.
        #[schemars(extend("default" = "100ms"))]
        rtt_max: Option<Interval>,
    },
}

/// What becomes of pure acknowledgements.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "it describes")]
pub(crate) enum Acks {
    /// They wait like other packets.
    Keep,
    /// One that arrives takes the place of an older one of its flow.
    Filter,
    /// One of so many of a flow passes.
    Thin(#[schemars(range(min = 2, max = 1_000_000))] u32),
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
    /// Each bit is in error with this probability; one bit error loses the packet.
    BitErrorRate(#[schemars(range(min = 0, max = 1))] f64),
    /// Gilbert-Elliott: two states, with a possible transition at each packet. The mean burst is 1/r packets.
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
    /// Two states of exponentially distributed duration, for fades.
    TimedGilbertElliott {
        /// Mean duration of the good state, at least 1us.
        mean_good: Interval,
        /// Mean duration of the bad state, at least 1us.
        mean_bad: Interval,
        /// Probability of a loss in the good state.
        #[schemars(range(min = 0, max = 1), extend("default" = 0.0))]
        loss_good: Option<f64>,
        /// Probability of a loss in the bad state.
        #[schemars(range(min = 0, max = 1))]
        loss_bad: f64,
    },
    /// The packets with these numbers, counted from 0 in this direction.
    DropList(Vec<u64>),
    /// A file with such numbers, rising, one per line. Its path is relative to the scenario's folder.
    DropFile(String),
    /// A probability that changes at given times, zero before the first.
    Steps(Steps<Probability>),
}

/// Random extra delay, so that later packets overtake.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it describes")]
pub(crate) struct Reorder {
    /// The probability that a packet is delayed.
    #[schemars(range(min = 0, max = 1))]
    probability: f64,
    /// Extra delay of these packets, at most 1h.
    extra_delay: Interval,
}

/// A probability.
#[derive(JsonSchema)]
#[schemars(transparent)]
#[expect(dead_code, reason = "it describes")]
pub(crate) struct Probability(#[schemars(range(min = 0, max = 1))] f64);
