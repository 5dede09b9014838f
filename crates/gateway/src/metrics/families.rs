//! A snapshot as metric families, by the conventions of OpenMetrics and Prometheus: base units, `_total`, bounded labels.
//!
//! Labels name what is configured (peers, classes, bypass rules) or what the program enumerates, never an address or a connection.

use super::Program;
use super::distribution::Distribution;
use crate::measured::{Delays, Measured};
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use relay::engine::{ClassAccount, StallCause};
use status::{Capacity, Peer, PeerState, Satellite, Snapshot};
use std::sync::atomic::AtomicU64;
use std::time::SystemTime;

/// A gauge of anything but whole numbers.
type Real = Gauge<f64, AtomicU64>;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
    commit: &'static str,
    features: &'static str,
    transport: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Method {
    method: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfPeer {
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
    reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfClass {
    class: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClassDirection {
    class: String,
    direction: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClassCause {
    class: String,
    cause: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Direction {
    direction: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfBasis {
    basis: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfEstimator {
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfSource {
    source: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct UpdateLabels {
    source: &'static str,
    outcome: &'static str,
}

/// The snapshot as OpenMetrics text.
pub(super) fn encode(program: &Program, snapshot: &Snapshot, measured: &Measured) -> Result<String, std::fmt::Error> {
    let mut all = Registry::default();
    process(&mut all, program);
    let registry = all.sub_registry_with_prefix("bentpipe");
    build(registry, program, snapshot);
    connections(registry, snapshot, measured);
    connection_log(registry, snapshot);
    classes(registry, &measured.classes);
    // The `tcp` transport does not see packets.
    let counts_packets = snapshot.transport != "tcp";
    if counts_packets {
        packets(registry, &snapshot.satellite);
    }
    satellite(registry, &snapshot.satellite);
    memory(registry, snapshot);
    tunnels(registry, &snapshot.satellite);
    link(registry, snapshot);
    updates(registry, snapshot);
    peer_states(registry, snapshot);
    peer_counters(registry, &snapshot.peers);
    if counts_packets {
        peer_packets(registry, &snapshot.peers);
    }
    peer_delays(registry, &measured.delays);
    let mut text = String::new();
    text::encode(&mut text, &all)?;
    Ok(text)
}

/// Rates are in bytes per second, as Prometheus' base units are.
fn per_second() -> Unit {
    Unit::Other("bytes_per_second".to_owned())
}

fn rate(bits_per_second: u64) -> f64 {
    bits_per_second as f64 / 8.0
}

fn process(registry: &mut Registry, program: &Program) {
    let started = Real::default();
    started.set(program.started.duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64()));
    registry.register_with_unit(
        "process_start_time",
        "Start of the process, since 1970 by its clock",
        Unit::Seconds,
        started,
    );
}

fn build(registry: &mut Registry, program: &Program, snapshot: &Snapshot) {
    let build = program.build;
    let labels = BuildLabels {
        version: build.version,
        commit: build.commit,
        features: build.features,
        transport: snapshot.transport.to_string(),
    };
    registry.register("build", "The program, and its transport", Info::new(labels));
    let draining = Gauge::<i64>::default();
    draining.set(i64::from(snapshot.draining.is_some()));
    registry.register("draining", "Whether the gateway takes no more connections", draining);
    let missing = Gauge::<i64>::default();
    missing.set(snapshot.missing_interfaces.len() as i64);
    registry.register("missing_interfaces", "Configured interfaces that the host does not have", missing);
}

fn connections(registry: &mut Registry, snapshot: &Snapshot, measured: &Measured) {
    let counters = &snapshot.connections;
    let outcomes = Family::<Outcome, Counter>::default();
    for (outcome, count) in [
        ("accepted", counters.accepted),
        ("connected", counters.connected),
        ("finished", counters.finished),
        ("reset", counters.reset),
        ("abandoned", counters.abandoned),
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
    open.set(measured.connections_open as i64);
    registry.register("connections_open", "TCP connections relayed now", open);
    let undelivered = Gauge::<i64>::default();
    undelivered.set(i64::try_from(snapshot.undelivered).unwrap_or(i64::MAX));
    registry.register(
        "undelivered_connections",
        "Connections in a row that were intercepted and did not arrive at the gateway",
        undelivered,
    );
    let bypassed = Family::<Reason, Counter>::default();
    for (reason, count) in &snapshot.bypassed {
        bypassed.get_or_create(&Reason { reason: reason.clone() }).inc_by(*count);
    }
    registry.register("bypassed_connections", "Connections that went end to end, by reason", bypassed);
    let bytes = Family::<Direction, Counter>::default();
    for (direction, count) in [("from_tcp", counters.bytes_from_tcp), ("to_tcp", counters.bytes_to_tcp)] {
        bytes.get_or_create(&Direction { direction }).inc_by(count);
    }
    registry.register_with_unit("tcp", "Payload relayed", Unit::Bytes, bytes);
}

fn connection_log(registry: &mut Registry, snapshot: &Snapshot) {
    let Some(counts) = snapshot.connection_log else { return };
    let lines = Family::<Outcome, Counter>::default();
    for (outcome, count) in [("written", counts.written), ("dropped", counts.dropped)] {
        lines.get_or_create(&Outcome { outcome }).inc_by(count);
    }
    registry.register("connection_log_lines", "Lines of the connection log, by outcome", lines);
}

fn classes(registry: &mut Registry, accounts: &[ClassAccount]) {
    let connections = Family::<OfClass, Counter>::default();
    let bytes = Family::<ClassDirection, Counter>::default();
    let open_times = Family::<OfClass, Distribution>::default();
    let stalls = Family::<ClassCause, Distribution>::default();
    for account in accounts {
        let class = || account.name.clone();
        connections.get_or_create(&OfClass { class: class() }).inc_by(account.connections);
        for (direction, count) in [("from_tcp", account.bytes_from_tcp), ("to_tcp", account.bytes_to_tcp)] {
            bytes.get_or_create(&ClassDirection { class: class(), direction }).inc_by(count);
        }
        open_times.get_or_create(&OfClass { class: class() }).set(&account.open_time);
        for (cause, times) in
            [(StallCause::Satellite, &account.satellite_stalls), (StallCause::Host, &account.host_stalls)]
        {
            stalls.get_or_create(&ClassCause { class: class(), cause: cause.name() }).set(times);
        }
    }
    registry.register("class_connections", "Relayed connections by class", connections);
    registry.register_with_unit("class", "Payload relayed by class", Unit::Bytes, bytes);
    let help = "From a client's connection to the reply that its server is connected, at the near gateway";
    registry.register_with_unit("open_time", help, Unit::Seconds, open_times);
    let help =
        "How long bytes of a connection waited for room in the stream (satellite) or for their reader (host); from 1 s";
    registry.register_with_unit("stall", help, Unit::Seconds, stalls);
}

/// What goes over the satellite link.
fn packets(registry: &mut Registry, satellite: &Satellite) {
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
}

fn satellite(registry: &mut Registry, satellite: &Satellite) {
    let drops = Family::<Reason, Counter>::default();
    for (reason, count) in satellite.dropped.iter().chain([(&"send_error".into(), &satellite.send_errors)]) {
        drops.get_or_create(&Reason { reason: reason.to_string() }).inc_by(*count);
    }
    registry.register("dropped_packets", "Datagrams that led to nothing, by reason", drops);
    let violations = Counter::<u64>::default();
    violations.inc_by(satellite.violations);
    registry.register("protocol_violations", "Sessions that ended because a peer broke the protocol", violations);
    if let Some(count) = satellite.workers {
        let workers = Gauge::<i64>::default();
        workers.set(count as i64);
        registry.register("workers", "Threads that carry packets", workers);
    }
}

fn memory(registry: &mut Registry, snapshot: &Snapshot) {
    let Some(memory) = &snapshot.satellite.memory else { return };
    let held = Family::<Direction, Gauge>::default();
    for (direction, bytes) in [("received", memory.granted_bytes), ("sent", memory.send_buffered_bytes)] {
        held.get_or_create(&Direction { direction }).set(bytes as i64);
    }
    registry.register_with_unit("memory", "Granted to peers, and held until acknowledged", Unit::Bytes, held);
    // Of what is granted, most is credit that idle peers keep.
    let unread = Gauge::<i64>::default();
    unread.set(snapshot.peers.iter().map(|peer| peer.receive_buffered_bytes).sum::<u64>() as i64);
    let help = "Of what was granted to peers, what has arrived and waits for clients and servers to read";
    registry.register_with_unit("memory_unread", help, Unit::Bytes, unread);
    let repair = Gauge::<i64>::default();
    repair.set(memory.repair_bytes as i64);
    let help = "Packets from peers that are remembered to recover lost ones with";
    registry.register_with_unit("memory_repair", help, Unit::Bytes, repair);
    if let Some(most) = memory.limit_bytes {
        let limit = Gauge::<i64>::default();
        limit.set(most as i64);
        registry.register_with_unit("memory_limit", "The most of either direction", Unit::Bytes, limit);
    }
}

fn tunnels(registry: &mut Registry, satellite: &Satellite) {
    let opened = Family::<Method, Counter>::default();
    for (method, count) in &satellite.tunnels_opened {
        opened.get_or_create(&Method { method: method.to_string() }).inc_by(*count);
    }
    registry.register("tunnels_opened", "TCP tunnels opened by this gateway, by method", opened);
    let rejected = Family::<Reason, Counter>::default();
    for (reason, count) in &satellite.tunnels_rejected {
        rejected.get_or_create(&Reason { reason: reason.to_string() }).inc_by(*count);
    }
    let help = "TCP connections to the tunnel listener that were rejected, by reason";
    registry.register("tunnels_rejected", help, rejected);
    if let Some(cross) = &satellite.cross_layer {
        let connections = Gauge::<i64>::default();
        connections.set(cross.connections.into());
        registry.register("cross_layer_connections", "Active connections, at least one", connections);
    }
}

fn link(registry: &mut Registry, snapshot: &Snapshot) {
    let capacity = Real::default();
    capacity.set(rate(snapshot.rate_bps));
    registry.register_with_unit("capacity", "Transmit capacity of the link", per_second(), capacity);
    estimate(registry, snapshot);
    if let Some(bps) = snapshot.cross_traffic_bps {
        let cross_traffic = Real::default();
        cross_traffic.set(rate(bps));
        let help = "Cross traffic on the satellite interface";
        registry.register_with_unit("cross_traffic", help, per_second(), cross_traffic);
    }
    let report = &snapshot.link;
    let rates = Family::<Direction, Real>::default();
    for (direction, bps) in [("transmit", report.rate_bps), ("receive", report.receive_rate_bps)] {
        rates.get_or_create(&Direction { direction }).set(rate(bps));
    }
    registry.register_with_unit("link_rate", "Rate of the link, reported or configured", per_second(), rates);
    let rtt = Real::default();
    rtt.set(report.rtt_s);
    registry.register_with_unit("link_rtt", "Round-trip time of the link, reported or configured", Unit::Seconds, rtt);
    let source = Family::<OfSource, Gauge>::default();
    for one in ["configured", "api", "dlep"] {
        source.get_or_create(&OfSource { source: one }).set(i64::from(report.source.name() == one));
    }
    registry.register("link_source", "1 for the source of the link state in force", source);
    let age = Real::default();
    age.set(report.age_s);
    registry.register_with_unit("link_state_age", "Since the last change of the link state", Unit::Seconds, age);
}

/// The basis of the capacity estimate.
fn estimate(registry: &mut Registry, snapshot: &Snapshot) {
    let believed = &snapshot.capacity;
    if let Some(bps) = believed.prior_bps {
        let prior = Real::default();
        prior.set(rate(bps));
        registry.register_with_unit("capacity_prior", "Transmit capacity as configured", per_second(), prior);
    }
    let confidence = Real::default();
    confidence.set(believed.confidence);
    registry.register("capacity_confidence", "How far the capacity is trusted, from 0 to 1", confidence);
    let basis = Family::<OfBasis, Gauge>::default();
    let changes = Family::<OfBasis, Counter>::default();
    for one in Capacity::BASES {
        basis.get_or_create(&OfBasis { basis: one }).set(i64::from(believed.basis == one));
        let count = believed.changes.get(one).copied().unwrap_or_default();
        changes.get_or_create(&OfBasis { basis: one }).inc_by(count);
    }
    registry.register("capacity_basis", "1 for what the capacity rests on", basis);
    registry.register("capacity_changes", "Changes of the capacity by a tenth or more", changes);
    let state = Family::<OfEstimator, Gauge>::default();
    for one in Capacity::STATES {
        state.get_or_create(&OfEstimator { state: one }).set(i64::from(believed.state == one));
    }
    registry.register("capacity_state", "1 for what the estimator does", state);
    let policed = Gauge::<i64>::default();
    policed.set(believed.policed.into());
    registry.register("capacity_policed", "1 if a policer drops what is beyond the capacity", policed);
}

fn updates(registry: &mut Registry, snapshot: &Snapshot) {
    let updates = Family::<UpdateLabels, Counter>::default();
    for counts in snapshot.link_updates {
        for (outcome, count) in [("accepted", counts.accepted), ("rejected", counts.rejected)] {
            updates.get_or_create(&UpdateLabels { source: counts.source.name(), outcome }).inc_by(count);
        }
    }
    registry.register("link_updates", "Link updates by source and outcome", updates);
    let Some(modem) = &snapshot.modem else { return };
    let up = Gauge::<i64>::default();
    up.set(i64::from(modem.address.is_some()));
    registry.register("dlep_session_up", "Whether there is a session with the modem", up);
    let sessions = Counter::<u64>::default();
    sessions.inc_by(modem.sessions);
    registry.register("dlep_sessions", "Sessions with the modem", sessions);
}

fn peer_states(registry: &mut Registry, snapshot: &Snapshot) {
    let up = Family::<OfPeer, Gauge>::default();
    let draining = Family::<OfPeer, Gauge>::default();
    let rtt = Family::<OfPeer, Real>::default();
    let clock = Family::<OfPeer, Real>::default();
    let streams = Family::<OfPeer, Gauge>::default();
    let trouble = Family::<PeerTrouble, Gauge>::default();
    for peer in &snapshot.peers {
        let label = OfPeer { peer: peer.name.clone() };
        up.get_or_create(&label).set(i64::from(peer.state == PeerState::Up));
        draining.get_or_create(&label).set(i64::from(peer.state == PeerState::Draining));
        streams.get_or_create(&label).set(peer.streams as i64);
        if let Some(seconds) = peer.rtt_s {
            rtt.get_or_create(&label).set(seconds);
        }
        if let Some(seconds) = peer.clock_offset_s {
            clock.get_or_create(&label).set(seconds);
        }
        if let Some(found) = &peer.trouble {
            let labels = PeerTrouble { peer: peer.name.clone(), reason: found.reason.to_string() };
            trouble.get_or_create(&labels).set(1);
        }
    }
    registry.register("peer_up", "Whether the peer answers and takes connections", up);
    registry.register("peer_draining", "Whether the peer answers and takes no more connections", draining);
    registry.register("peer_trouble", "1 for the reason why the peer is not up, or is reached one way only", trouble);
    registry.register("peer_streams", "Streams in the session", streams);
    registry.register_with_unit("peer_smoothed_rtt", "Smoothed round-trip time", Unit::Seconds, rtt);
    let help = "The peer's clock less this gateway's at the latest handshake, to within a round trip";
    registry.register_with_unit("peer_clock_offset", help, Unit::Seconds, clock);
}

fn peer_counters(registry: &mut Registry, peers: &[Peer]) {
    let lost = Family::<OfPeer, Counter>::default();
    let fresh = Family::<OfPeer, Counter>::default();
    let received = Family::<OfPeer, Counter>::default();
    let marked = Family::<PeerDirection, Counter>::default();
    let implausible = Family::<OfPeer, Counter>::default();
    for peer in peers {
        let label = OfPeer { peer: peer.name.clone() };
        lost.get_or_create(&label).inc_by(peer.lost_packets);
        fresh.get_or_create(&label).inc_by(peer.sent_bytes);
        received.get_or_create(&label).inc_by(peer.received_bytes);
        implausible.get_or_create(&label).inc_by(peer.implausible_reports);
        let marks = [("received", peer.congestion_received_packets), ("sent", peer.congestion_reported_packets)];
        for (direction, count) in marks {
            marked.get_or_create(&PeerDirection { peer: peer.name.clone(), direction }).inc_by(count);
        }
    }
    registry.register("peer_lost_packets", "Datagrams that the peer did not receive", lost);
    registry.register("peer_congestion_marks", "Datagrams that arrived with a congestion mark", marked);
    let help = "Reports of the peer that cannot be true and were ignored";
    registry.register("peer_implausible_reports", help, implausible);
    registry.register_with_unit("peer_sent", "Stream bytes sent for the first time", Unit::Bytes, fresh);
    registry.register_with_unit("peer_received", "Stream bytes received", Unit::Bytes, received);
}

/// What goes to each peer beside the stream bytes that are sent for the first time.
fn peer_packets(registry: &mut Registry, peers: &[Peer]) {
    let sent = Family::<OfPeer, Counter>::default();
    let again = Family::<OfPeer, Counter>::default();
    let repair = Family::<OfPeer, Counter>::default();
    for peer in peers {
        let label = OfPeer { peer: peer.name.clone() };
        sent.get_or_create(&label).inc_by(peer.sent_packets);
        again.get_or_create(&label).inc_by(peer.retransmitted_bytes);
        repair.get_or_create(&label).inc_by(peer.repair_bytes);
    }
    registry.register("peer_sent_packets", "Datagrams sent to the peer in its session", sent);
    registry.register_with_unit("peer_retransmitted", "Stream bytes retransmitted", Unit::Bytes, again);
    registry.register_with_unit("peer_repair", "Bytes of FEC repair symbols sent", Unit::Bytes, repair);
}

fn peer_delays(registry: &mut Registry, delays: &Delays) {
    let rtt = Family::<OfPeer, Distribution>::default();
    let queueing = Family::<OfPeer, Distribution>::default();
    for (name, delays) in &delays.0 {
        let label = OfPeer { peer: name.clone() };
        rtt.get_or_create(&label).set(&delays.rtt);
        queueing.get_or_create(&label).set(&delays.queueing);
    }
    registry.register_with_unit("peer_rtt", "Smoothed round-trip time, each second", Unit::Seconds, rtt);
    let help = "Smoothed round-trip time above the least of the session, each second";
    registry.register_with_unit("peer_queueing_delay", help, Unit::Seconds, queueing);
}
