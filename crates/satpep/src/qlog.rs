//! A session's trace as qlog, which qvis and other tools open: the JSON text sequences of draft-ietf-quic-qlog-main-schema-02
//! (`"qlog_version":"0.3"`), with the events of draft-ietf-quic-qlog-quic-events-01. A packet of `satpep` is shown as one of QUIC's
//! packets with a short header, which it resembles: numbered once, acknowledged in ranges, with stream data in frames.
//!
//! Each record is preceded by [`RECORD_SEPARATOR`] and followed by a line feed (RFC 7464).

use crate::trace::{TraceEvent, TraceKind, TracedMetrics, TracedPacket, TracedPiece};
use serde::Serialize;
use units::{Bytes, Duration, Instant};

/// What precedes each record (RFC 7464, section 2.2).
pub const RECORD_SEPARATOR: u8 = 0x1e;

/// The first record of a file.
#[derive(Debug, Clone, Serialize)]
pub struct Header {
    qlog_version: &'static str,
    qlog_format: &'static str,
    title: String,
    trace: TraceHeader,
}

#[derive(Debug, Clone, Serialize)]
struct TraceHeader {
    vantage_point: VantagePoint,
    common_fields: CommonFields,
}

#[derive(Debug, Clone, Serialize)]
struct VantagePoint {
    name: String,
    r#type: &'static str,
}

#[derive(Debug, Clone, Serialize)]
struct CommonFields {
    protocol_type: [&'static str; 1],
    time_format: &'static str,
    reference_time: f64,
}

impl Header {
    /// Of the session called `title` as the gateway `gateway` sees it. Times are relative to `reference_ms`, in milliseconds since 1970.
    pub fn new(title: String, gateway: String, initiates: bool, reference_ms: f64) -> Self {
        Self {
            qlog_version: "0.3",
            qlog_format: "JSON-SEQ",
            title,
            trace: TraceHeader {
                vantage_point: VantagePoint { name: gateway, r#type: if initiates { "client" } else { "server" } },
                common_fields: CommonFields {
                    protocol_type: ["satpep"],
                    time_format: "relative",
                    reference_time: reference_ms,
                },
            },
        }
    }
}

/// A record after the first.
#[derive(Debug, Clone, Serialize)]
pub struct Event {
    time: f64,
    name: &'static str,
    data: Data,
}

#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
enum Data {
    Packet { header: PacketHeader, raw: Raw, frames: Vec<Frame> },
    Lost { header: PacketHeader },
    Metrics(Metrics),
    Capacity { capacity: u64 },
}

#[derive(Debug, Clone, Serialize)]
struct PacketHeader {
    packet_type: &'static str,
    packet_number: u64,
}

#[derive(Debug, Clone, Serialize)]
struct Raw {
    length: u64,
}

#[derive(Debug, Clone, Serialize)]
struct Frame {
    frame_type: &'static str,
    stream_id: u64,
    offset: u64,
    length: u64,
    fin: bool,
}

/// The units are those of the draft: milliseconds, bytes, bits per second.
#[derive(Debug, Clone, Serialize)]
struct Metrics {
    #[serde(skip_serializing_if = "Option::is_none")]
    min_rtt: Option<f64>,
    smoothed_rtt: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    latest_rtt: Option<f64>,
    rtt_variance: f64,
    congestion_window: u64,
    bytes_in_flight: u64,
    pacing_rate: u64,
}

impl Event {
    /// Of `event`, in a file whose times are relative to `reference`.
    pub fn new(event: &TraceEvent, reference: Instant) -> Self {
        let (name, data) = match &event.kind {
            TraceKind::PacketSent(packet) => ("transport:packet_sent", Data::packet(packet)),
            TraceKind::PacketReceived(packet) => ("transport:packet_received", Data::packet(packet)),
            TraceKind::PacketLost(number) => {
                ("recovery:packet_lost", Data::Lost { header: PacketHeader::new(*number) })
            }
            TraceKind::Metrics(metrics) => ("recovery:metrics_updated", Data::Metrics(Metrics::new(metrics))),
            TraceKind::Capacity(rate) => ("bentpipe:capacity_updated", Data::Capacity { capacity: rate.as_bps() }),
        };
        Self { time: millis(event.at.since(reference)), name, data }
    }
}

impl Data {
    fn packet(packet: &TracedPacket) -> Self {
        Self::Packet {
            header: PacketHeader::new(packet.number),
            raw: Raw { length: packet.size as u64 },
            frames: packet.pieces.iter().map(Frame::new).collect(),
        }
    }
}

impl PacketHeader {
    fn new(packet_number: u64) -> Self {
        Self { packet_type: "1RTT", packet_number }
    }
}

impl Frame {
    fn new(piece: &TracedPiece) -> Self {
        Self {
            frame_type: "stream",
            stream_id: piece.stream,
            offset: piece.offset,
            length: piece.length as u64,
            fin: piece.is_last,
        }
    }
}

impl Metrics {
    /// `satpep` has no congestion window: what the pacer lets be in flight, the pace times the round-trip time, stands for one.
    fn new(metrics: &TracedMetrics) -> Self {
        let (latest, min) = metrics.latest_and_min_rtt.unzip();
        Self {
            min_rtt: min.map(millis),
            smoothed_rtt: millis(metrics.smoothed_rtt),
            latest_rtt: latest.map(millis),
            rtt_variance: millis(metrics.rtt_variation),
            congestion_window: metrics.pacing_rate.bytes_in(metrics.smoothed_rtt).max(Bytes::new(1)).as_u64(),
            bytes_in_flight: metrics.in_flight,
            pacing_rate: metrics.pacing_rate.as_bps(),
        }
    }
}

fn millis(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e6
}
