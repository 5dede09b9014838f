//! QUIC endpoints.

use super::tcp::EcnName;
use crate::text::Window;
use document::{Interval, Size, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

/// Settings of QUIC endpoints: a congestion control, and deviations from the constants of RFC 9000 and RFC 9002.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Quic {
    /// Congestion control. By default the one with the name of this table, if there is one; else newreno.
    #[schemars(schema_with = "controls")]
    pub(crate) control: Option<String>,
    /// Size of a full IP packet, from 1228B to 65535B; 69 bytes of it are headers and the tag of the encryption.
    #[schemars(extend("default" = "1500B"))]
    pub(crate) packet_size: Option<Size>,
    /// Initial congestion window, in bytes or full packets. By default that of RFC 9002: 10 packets, at most 14720B or 2 packets.
    pub(crate) initial_window: Option<Window>,
    /// Flow control of the stream: what the receiver grants at the start.
    #[schemars(extend("default" = "1GiB"))]
    pub(crate) stream_window: Option<Size>,
    /// The stream's window doubles up to this while half of it is read in less than two round trips. By default it stays.
    pub(crate) stream_window_max: Option<Size>,
    /// Flow control of the connection: what the receiver grants at the start.
    #[schemars(extend("default" = "1GiB"))]
    pub(crate) connection_window: Option<Size>,
    /// As `stream_window_max`, for the connection.
    pub(crate) connection_window_max: Option<Size>,
    /// Send buffer: data unsent or unacknowledged. By default unlimited.
    pub(crate) send_buffer: Option<Size>,
    /// Longest delay of an acknowledgement, at most 16s.
    #[schemars(extend("default" = "25ms"))]
    pub(crate) max_ack_delay: Option<Time>,
    /// Acknowledge at the latest after this many packets; 1 acknowledges each.
    #[schemars(range(min = 1, max = 1000), extend("default" = 2))]
    pub(crate) ack_every: Option<u32>,
    /// A packet is lost when one sent this many packets later is acknowledged.
    #[schemars(range(min = 1, max = 1_000_000), extend("default" = 3))]
    pub(crate) packet_threshold: Option<u64>,
    /// A packet is lost when a later one is acknowledged and this many round trips have passed.
    #[schemars(range(min = 1, max = 16), extend("default" = 1.125))]
    pub(crate) time_threshold: Option<f64>,
    /// Data leave paced, in bursts of at most ten packets, at 1.25 times the window in a round trip. Controls that pace by themselves do so in any
    /// case.
    #[schemars(extend("default" = true))]
    pub(crate) pacing: Option<bool>,
    /// The client sends data with its first packets (0-RTT).
    #[schemars(extend("default" = false))]
    pub(crate) zero_rtt: Option<bool>,
    /// Explicit congestion notification: the codepoint of packets. By default off, for prague `ect1`, for dctcp `ect0`.
    pub(crate) ecn: Option<EcnName>,
    /// The connection fails when an answer is awaited and nothing comes for this time, or for three probe timeouts where that is longer.
    #[schemars(extend("default" = "30s"))]
    pub(crate) idle_timeout: Option<Interval>,
}

fn controls(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": crate::quic_endpoint::controls().collect::<Vec<_>>() })
}
