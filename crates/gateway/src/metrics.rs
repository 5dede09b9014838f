//! OpenMetrics over HTTP, on a thread of its own: `GET /metrics`.

use crate::error::{StartError, while_doing};
use crate::handle::Handle;
use crate::snapshot::{PeerState, Snapshot};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;

/// Stops the server when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    _stop: tokio::sync::oneshot::Sender<()>,
}

/// Serves the metrics of `handle`'s gateway at `address`.
pub(crate) fn serve(address: SocketAddr, handle: Handle) -> Result<Server, StartError> {
    let doing = || format!("[metrics] listen {address}");
    let listener = std::net::TcpListener::bind(address).map_err(while_doing(doing()))?;
    listener.set_nonblocking(true).map_err(while_doing(doing()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(while_doing(doing()))?;
    let (stop, stopped) = tokio::sync::oneshot::channel();
    std::thread::Builder::new()
        .name("metrics".into())
        .spawn(move || {
            let served = runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener)?;
                let app = axum::Router::new().route("/metrics", get(move || respond(handle.clone())));
                tokio::select! {
                    result = axum::serve(listener, app).into_future() => result,
                    _ = stopped => Ok(()),
                }
            });
            if let Err(error) = served {
                tracing::error!(%error, "metrics are no longer served");
            }
        })
        .map_err(while_doing(doing()))?;
    Ok(Server { _stop: stop })
}

async fn respond(handle: Handle) -> Response {
    const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    // The loop answers within a wake; waiting for it here holds up nothing but other scrapes.
    match handle.snapshot().map(|snapshot| encode(&snapshot)) {
        Some(Ok(text)) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        _ => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WhyLabel {
    why: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: Cow<'static, str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Method {
    method: Cow<'static, str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PeerLabel {
    peer: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PeerDirection {
    peer: String,
    direction: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PeerTrouble {
    peer: String,
    reason: Cow<'static, str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Direction {
    direction: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SourceLabel {
    source: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct UpdateLabel {
    source: &'static str,
    outcome: &'static str,
}

/// The snapshot as OpenMetrics text.
fn encode(snapshot: &Snapshot) -> Result<String, std::fmt::Error> {
    let mut registry = Registry::with_prefix("bentpipe");
    connections(&mut registry, snapshot);
    satellite(&mut registry, snapshot);
    link(&mut registry, snapshot);
    bypassed(&mut registry, snapshot);
    peers(&mut registry, snapshot);
    let mut text = String::new();
    text::encode(&mut text, &registry)?;
    Ok(text)
}

fn connections(registry: &mut Registry, snapshot: &Snapshot) {
    let counters = &snapshot.connections;
    let outcomes = Family::<Outcome, Counter>::default();
    for (outcome, count) in [
        ("accepted", counters.accepted),
        ("connected", counters.connected),
        ("finished", counters.finished),
        ("reset", counters.reset),
        ("unavailable", counters.unavailable),
        ("denied", counters.denied),
        ("refused", counters.refused),
        ("unreachable", counters.unreachable),
        ("protocol_error", counters.protocol_errors),
    ] {
        outcomes.get_or_create(&Outcome { outcome }).inc_by(count);
    }
    registry.register("connections", "TCP connections by outcome", outcomes);
    let open = Gauge::<i64>::default();
    open.set(snapshot.streams.len() as i64);
    registry.register("connections_open", "TCP connections relayed now", open);
    let bytes = Family::<Direction, Counter>::default();
    for (direction, count) in [("from_tcp", counters.bytes_from_tcp), ("to_tcp", counters.bytes_to_tcp)] {
        bytes.get_or_create(&Direction { direction }).inc_by(count);
    }
    registry.register_with_unit("tcp", "Payload relayed", Unit::Bytes, bytes);
}

fn satellite(registry: &mut Registry, snapshot: &Snapshot) {
    let satellite = &snapshot.satellite;
    let packets = Family::<Direction, Counter>::default();
    let bytes = Family::<Direction, Counter>::default();
    for (direction, count, volume) in [
        ("sent", satellite.sent_packets, satellite.sent_ip_bytes),
        ("received", satellite.received_packets, satellite.received_ip_bytes),
    ] {
        packets.get_or_create(&Direction { direction }).inc_by(count);
        bytes.get_or_create(&Direction { direction }).inc_by(volume);
    }
    registry.register("satellite_packets", "Datagrams on the satellite link", packets);
    registry.register_with_unit("satellite_ip", "IP bytes on the satellite link", Unit::Bytes, bytes);
    let drops = Family::<Reason, Counter>::default();
    for (reason, count) in satellite.dropped.iter().chain([(&"send_error".into(), &satellite.send_errors)]) {
        drops.get_or_create(&Reason { reason: reason.clone() }).inc_by(*count);
    }
    let opened = Family::<Method, Counter>::default();
    for (method, count) in &satellite.tunnels_opened {
        opened.get_or_create(&Method { method: method.clone() }).inc_by(*count);
    }
    registry.register("tunnels_opened", "TCP tunnels opened by this gateway, by method", opened);
    let refused = Family::<Reason, Counter>::default();
    for (reason, count) in &satellite.tunnels_rejected {
        refused.get_or_create(&Reason { reason: reason.clone() }).inc_by(*count);
    }
    registry.register(
        "tunnels_rejected",
        "TCP connections to the tunnel listener that were rejected, by reason",
        refused,
    );
    registry.register("dropped_packets", "Datagrams that led to nothing, by reason", drops);
    if let Some(cross) = &satellite.cross_layer {
        let connections = Gauge::<i64>::default();
        connections.set(cross.connections.into());
        registry.register("cross_layer_connections", "Active connections, at least one", connections);
    }
    if let Some(memory) = &satellite.memory {
        let bytes = Family::<Direction, Gauge>::default();
        for (direction, held) in [("received", memory.granted_bytes), ("sent", memory.send_buffered_bytes)] {
            bytes.get_or_create(&Direction { direction }).set(held as i64);
        }
        registry.register_with_unit("memory", "Granted to peers, and held until acknowledged", Unit::Bytes, bytes);
        let limit = Gauge::<i64>::default();
        limit.set(memory.limit_bytes.map_or(-1, |limit| limit as i64));
        registry.register_with_unit("memory_limit", "The most of either; -1: none", Unit::Bytes, limit);
    }
    let violations = Counter::<u64>::default();
    violations.inc_by(satellite.violations);
    registry.register("protocol_violations", "Sessions that ended because a peer broke the protocol", violations);
    let cross_traffic = Gauge::<i64>::default();
    cross_traffic.set(snapshot.cross_traffic_bps as i64);
    registry.register("cross_traffic_bps", "Cross traffic on the satellite interface, bit/s", cross_traffic);
}

fn bypassed(registry: &mut Registry, snapshot: &Snapshot) {
    let bypassed = Family::<WhyLabel, Counter>::default();
    for (why, count) in &snapshot.bypassed {
        bypassed.get_or_create(&WhyLabel { why: why.clone() }).inc_by(*count);
    }
    registry.register("bypassed", "Connections that went end to end, by the reason", bypassed);
}

fn link(registry: &mut Registry, snapshot: &Snapshot) {
    let capacity = Gauge::<i64>::default();
    capacity.set(snapshot.rate_bps as i64);
    registry.register("capacity_bps", "Transmit capacity of the link, bit/s", capacity);
    let report = &snapshot.link;
    let rates = Family::<Direction, Gauge>::default();
    for (direction, rate) in [("transmit", report.rate_bps), ("receive", report.receive_rate_bps)] {
        rates.get_or_create(&Direction { direction }).set(rate as i64);
    }
    registry.register("link_rate_bps", "Rate of the link, reported or configured, bit/s", rates);
    let rtt = Gauge::<f64, AtomicU64>::default();
    rtt.set(report.rtt_s);
    registry.register_with_unit("link_rtt", "Round-trip time of the link, reported or configured", Unit::Seconds, rtt);
    let source = Family::<SourceLabel, Gauge>::default();
    for one in ["configured", "api", "dlep"] {
        source.get_or_create(&SourceLabel { source: one }).set(i64::from(report.source.name() == one));
    }
    registry.register("link_source", "1 for the source of the link state in force", source);
    let updates = Family::<UpdateLabel, Counter>::default();
    for counts in snapshot.link_updates {
        for (outcome, count) in [("accepted", counts.accepted), ("rejected", counts.rejected)] {
            updates.get_or_create(&UpdateLabel { source: counts.source.name(), outcome }).inc_by(count);
        }
    }
    if let Some(modem) = &snapshot.modem {
        let up = Gauge::<i64>::default();
        up.set(i64::from(modem.address.is_some()));
        registry.register("dlep_session_up", "Whether there is a session with the modem", up);
        let sessions = Counter::<u64>::default();
        sessions.inc_by(modem.sessions);
        registry.register("dlep_sessions", "Sessions with the modem", sessions);
    }
    registry.register("link_updates", "Link updates by source and outcome", updates);
}

fn peers(registry: &mut Registry, snapshot: &Snapshot) {
    let up = Family::<PeerLabel, Gauge>::default();
    let rtt = Family::<PeerLabel, Gauge<f64, AtomicU64>>::default();
    let streams = Family::<PeerLabel, Gauge>::default();
    let lost = Family::<PeerLabel, Counter>::default();
    let resent = Family::<PeerLabel, Counter>::default();
    let repair = Family::<PeerLabel, Counter>::default();
    let fresh = Family::<PeerLabel, Counter>::default();
    let marked = Family::<PeerDirection, Counter>::default();
    let trouble = Family::<PeerTrouble, Gauge>::default();
    for peer in &snapshot.peers {
        if let Some(found) = &peer.trouble {
            trouble.get_or_create(&PeerTrouble { peer: peer.name.clone(), reason: found.reason.clone() }).set(1);
        }
        let counts = [("received", peer.congestion_received_packets), ("sent", peer.congestion_reported_packets)];
        for (direction, count) in counts {
            marked.get_or_create(&PeerDirection { peer: peer.name.clone(), direction }).inc_by(count);
        }
        let label = PeerLabel { peer: peer.name.clone() };
        up.get_or_create(&label).set(i64::from(peer.state == PeerState::Up));
        rtt.get_or_create(&label).set(peer.rtt_s.unwrap_or(f64::NAN));
        streams.get_or_create(&label).set(peer.streams as i64);
        lost.get_or_create(&label).inc_by(peer.lost_packets);
        resent.get_or_create(&label).inc_by(peer.retransmitted_bytes);
        repair.get_or_create(&label).inc_by(peer.repair_bytes);
        fresh.get_or_create(&label).inc_by(peer.sent_bytes);
    }
    registry.register("peer_congestion_marks", "Datagrams that arrived with a congestion mark", marked);
    registry.register("peer_up", "Whether the peer answers", up);
    registry.register("peer_trouble", "1 for the reason why the peer is not up; nothing while it is", trouble);
    registry.register_with_unit("peer_rtt", "Smoothed round-trip time", Unit::Seconds, rtt);
    registry.register("peer_streams", "Streams in the session", streams);
    registry.register("peer_lost_packets", "Datagrams that the peer did not receive", lost);
    registry.register_with_unit("peer_sent", "Stream bytes sent for the first time", Unit::Bytes, fresh);
    registry.register_with_unit("peer_retransmitted", "Stream bytes retransmitted", Unit::Bytes, resent);
    registry.register_with_unit("peer_repair", "Bytes of FEC repair symbols sent", Unit::Bytes, repair);
}
