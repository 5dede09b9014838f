//! TCP endpoints.

use crate::text::Window;
use document::{Interval, PositiveRate, Size, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

/// Settings of TCP endpoints: a preset, or a loss recovery and a congestion control; the constants of a profile; and
/// deviations from them.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Tcp {
    /// A recovery and a control by the name of the variant. By default the preset with the name of this table, if there is
    /// one; else sack and reno, for linux rack and reno. With the profile linux, presets whose control is not reno use rack,
    /// too.
    #[schemars(schema_with = "presets")]
    pub(crate) preset: Option<String>,
    /// The source of constants: the RFCs, Linux 6.x, or the one-way agents of ns-2 2.35. These have their own rules of growth, of limited
    /// transmit, and for idle periods: settings that they would not read are refused.
    #[schemars(extend("default" = "rfc"))]
    pub(crate) profile: Option<ProfileName>,
    /// Loss recovery, instead of the preset's.
    #[schemars(schema_with = "recoveries")]
    pub(crate) recovery: Option<String>,
    /// Congestion control, instead of the preset's.
    #[schemars(schema_with = "controls")]
    pub(crate) control: Option<String>,
    /// Payload of a full segment, from 64B to 65000B. By default 1448B, for ns2 1460B. The SYN offers it, and neither end sends longer segments
    /// than the other takes (RFC 9293, section 3.7.1), except with ns2. With a peer that takes less, the initial window of RFC 6928 is that of the
    /// smaller segments; windows that are set in bytes count as so many segments of this size.
    pub(crate) mss: Option<Size>,
    /// Initial congestion window. By default that of RFC 6928, for ns2 2segments. ledbat and ledbat-plus-plus begin with at most 2segments.
    pub(crate) initial_window: Option<Window>,
    /// Initial slow-start threshold. By default unlimited, for ns2 20segments. Not for ledbat, which begins without slow start.
    pub(crate) initial_ssthresh: Option<Window>,
    /// Send buffer: data unsent or unacknowledged. By default unlimited.
    pub(crate) send_buffer: Option<Window>,
    /// Receive buffer, which bounds the advertised window; at most `receive_buffer_max`. With the profile linux, it grows by
    /// default from 128KiB to 128MiB, like the kernel's.
    #[schemars(extend("default" = "1GiB"))]
    pub(crate) receive_buffer: Option<Window>,
    /// Limit up to which the receive buffer grows as the application reads. By default it does not grow.
    pub(crate) receive_buffer_max: Option<Window>,
    /// Advertised fraction of the receive buffer: 0.5 in Linux 2.2, 0.75 in 2.4 to 3.x, 0.625 for the default buffer of the
    /// profile linux.
    #[schemars(extend("exclusiveMinimum" = 0), range(max = 1), extend("default" = 1.0))]
    pub(crate) receive_buffer_share: Option<f64>,
    /// Delayed acknowledgements.
    pub(crate) delayed_ack: Option<AckPolicy>,
    /// The timestamps option, 12 bytes in every segment. By default on, for ns2 off.
    pub(crate) timestamps: Option<bool>,
    /// The window scale option.
    #[schemars(extend("default" = true))]
    pub(crate) window_scaling: Option<bool>,
    /// The SACK option. An end offers it if its own recovery reads it (sack, rack). If the other end does not offer it, sack and rack give way to
    /// newreno.
    #[schemars(extend("default" = true))]
    pub(crate) sack: Option<bool>,
    /// Explicit congestion notification (RFC 3168): the codepoint of data segments, `ect0`, or `ect1` for queues that mark early
    /// (RFC 9331). Queues mark if their `discipline` says so. Not for ns2. By default off, for prague `ect1`.
    pub(crate) ecn: Option<EcnName>,
    /// With `ecn`, receivers count marked packets (AccECN, RFC 9768); a peer that does not falls back to RFC 3168. Without `ecn` it has no
    /// effect. By default off, for prague on.
    pub(crate) accurate_ecn: Option<bool>,
    /// With `accurate_ecn`, receivers report marked bytes, too, in the AccECN option, so that acknowledgements may be few (RFC 9768, section
    /// 3.2.3). It takes the place of a SACK block.
    #[schemars(extend("default" = false))]
    pub(crate) accurate_ecn_option: Option<bool>,
    /// Data leave paced, at twice the window in a round trip of slow start and 1.2 times in congestion avoidance, as by Linux's fq. Controls that
    /// pace by themselves do so in any case. Not for the agents of ns2.
    #[schemars(extend("default" = false))]
    pub(crate) pacing: Option<bool>,
    /// D-SACK: duplicate segments are reported (RFC 2883). By default on, for ns2 off.
    pub(crate) dsack: Option<bool>,
    /// Limited transmit: the first two duplicate acknowledgements send new data (RFC 3042). Without effect on rack, which always does.
    #[schemars(extend("default" = true))]
    pub(crate) limited_transmit: Option<bool>,
    /// Proportional rate reduction during recovery (RFC 6937), with sack and rack; the other recoveries have none. By default off, for linux on.
    pub(crate) proportional_rate_reduction: Option<bool>,
    /// After an idle period, the window restarts from the initial window (RFC 5681). By default on, for ns2 off.
    pub(crate) restart_after_idle: Option<bool>,
    /// Most segments by which one acknowledgement opens the window in slow start (L of RFC 3465). By default 2, for
    /// linux unlimited, for ns2 1; with hystart++, which cubic has outside linux, at least 8, and with pacing unlimited.
    /// Controls that set the window themselves have no such limit, nor has ledbat-plus-plus, which grows by its gain.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) slow_start_limit: Option<f64>,
    /// The window grows by acknowledgements rather than by bytes. By default off, for ns2 on.
    pub(crate) growth_counts_acks: Option<bool>,
    /// The window also grows while the sender is not limited by it. By default off, for ns2 on.
    pub(crate) grow_when_not_limited: Option<bool>,
    /// Retransmission timeout before the first round-trip sample. By default 1s, for ns2 3s.
    pub(crate) initial_rto: Option<Interval>,
    /// Lower bound of the timeout (rfc: 1s, ns2: 200ms), or of its margin above the smoothed round-trip time (linux: 200ms).
    pub(crate) min_rto: Option<Time>,
    /// Upper bound of the timeout. By default 60s, for linux 120s.
    pub(crate) max_rto: Option<Interval>,
    /// Neither the third segment of the handshake nor FIN nor options are sent. By default off, for ns2 on.
    pub(crate) bare: Option<bool>,
    /// Consecutive timeouts that the connection survives: the next one fails it. By default 15; with ns2, it survives all. The handshake has limits of
    /// its own: 6 timeouts; for linux 10, of the answer to a SYN 5.
    #[schemars(range(min = 1, max = 1000))]
    pub(crate) max_expiries: Option<u32>,
    /// Upper bound of the congestion window, like Linux's route option `cwnd`. By default unlimited; not for ns2.
    pub(crate) max_window: Option<Window>,
    /// Parameters of the path saved from an earlier connection (Careful Resume, RFC 9959). By default none.
    pub(crate) resume: Option<SavedPath>,
    /// Capacity reported by the link layer, for controls that derive their window from it.
    pub(crate) capacity: Option<Capacity>,
    /// Constants of single algorithms.
    pub(crate) tuning: Option<Tuning>,
}

/// Explicit congestion notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EcnName {
    Off,
    Ect0,
    Ect1,
}

/// Where constants come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ProfileName {
    Rfc,
    Linux,
    Ns2,
}

/// Delayed acknowledgements. Keys that are left out have the profile's value.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct AckPolicy {
    /// Acknowledge at the latest after this many full segments; 1 acknowledges each. By default 2, for ns2 1.
    #[schemars(range(min = 1, max = 1000))]
    pub(crate) every: Option<u32>,
    /// Acknowledge at the latest after this time. By default 200ms, for linux 40ms, for ns2 100ms.
    pub(crate) delay: Option<Interval>,
    /// This many segments at the start are acknowledged at once; with linux, also each that opens the window. 0: none, as on a
    /// host that receives `every` segments as one. By default 0, for linux 16.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub(crate) quick: Option<u32>,
}

/// Parameters of an earlier connection.
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
    /// Number of connections that share it.
    #[schemars(range(min = 1, max = 1_000_000), extend("default" = 1))]
    pub(crate) connections: Option<u32>,
}

/// Constants of single algorithms.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Tuning {
    /// Vegas: alpha, beta (least and most queued segments) and gamma (limit of slow start). By default
    /// [1, 3, 1], for linux [2, 4, 1].
    #[schemars(length(min = 3, max = 3), inner(range(min = 0, max = 1000)))]
    pub(crate) vegas: Option<Vec<f64>>,
    /// Vegas: interval over which the smallest sample counts as the propagation round-trip time. By default the whole
    /// connection.
    pub(crate) vegas_base_window: Option<Interval>,
    /// Exit from slow start before a loss. By default that of the control: for cubic hystart++, with linux hystart;
    /// for the others nothing. Without effect on ledbat, ledbat-plus-plus, bbr1, bbr3 and cross-layer.
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
    /// Profile ns2: how long before time zero the 10 ms clock last ticked. By default random for each connection.
    pub(crate) clock_phase: Option<Time>,
    /// Cross-layer window: header bytes per payload byte.
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
    names(crate::preset::Preset::all().map(|preset| preset.name))
}

fn recoveries(_: &mut SchemaGenerator) -> Schema {
    names(crate::preset::recoveries())
}

fn controls(_: &mut SchemaGenerator) -> Schema {
    names(crate::preset::controls())
}
