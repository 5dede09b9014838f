//! `bentpipe gateway status`: a gateway's state as text.

use comfy_table::{Table, presets};
use gateway::link_state::{ModemReport, Report, Source};
use gateway::{Counters, CrossLayer, Draining, Memory, Peer, Privileges, Satellite, Snapshot, Stream};
use std::collections::BTreeMap;
use std::fmt::Display;
use units::{Bytes, Duration, Rate};

/// The status for people: what one looks for first stands first.
pub fn render(status: &Snapshot) -> String {
    let lines = [
        status.draining.as_ref().map(draining),
        Some(reduced(&status.privileges)),
        link(&status.link),
        status.modem.as_ref().map(modem),
        status.satellite.cross_layer.as_ref().map(cross_layer),
        Some(connections(status.streams.len(), &status.connections)),
        counted("end to end", &status.bypassed),
        satellite(&status.satellite),
        status.satellite.memory.as_ref().map(memory),
    ];
    let lines: String = lines.into_iter().flatten().map(|line| line + "\n").collect();
    let troubles: String = status.peers.iter().filter_map(trouble).map(|line| line + "\n").collect();
    format!(
        "{}: up for {}, sends at {} at most, cross traffic {}\n{lines}{}\n{troubles}{}\n",
        status.name,
        Duration::from_secs_f64(status.uptime_s),
        Rate::from_bps(status.rate_bps),
        Rate::from_bps(status.cross_traffic_bps),
        peers(&status.peers),
        streams(&status.streams),
    )
}

fn peers(peers: &[Peer]) -> Table {
    let mut table =
        table(&["peer", "state", "address", "rtt", "streams", "sent", "lost", "retransmitted", "repair", "received"]);
    for peer in peers {
        table.add_row(vec![
            peer.name.clone(),
            peer.state.name().to_owned(),
            or_dash(peer.address),
            or_dash(peer.rtt_s.map(Duration::from_secs_f64)),
            peer.streams.to_string(),
            Bytes::new(peer.sent_bytes).to_string(),
            lost(peer),
            Bytes::new(peer.retransmitted_bytes).to_string(),
            Bytes::new(peer.repair_bytes).to_string(),
            Bytes::new(peer.received_bytes).to_string(),
        ]);
    }
    table
}

fn streams(streams: &[Stream]) -> Table {
    let mut table = table(&["stream", "peer", "side", "client", "server", "state", "age", "from TCP", "to TCP"]);
    for stream in streams {
        table.add_row(vec![
            stream.stream.to_string(),
            stream.peer.clone(),
            stream.side.name().to_owned(),
            or_dash(stream.client),
            or_dash(stream.server),
            stream.state.clone(),
            Duration::from_secs_f64(stream.age_s).to_string(),
            Bytes::new(stream.from_tcp_bytes).to_string(),
            Bytes::new(stream.to_tcp_bytes).to_string(),
        ]);
    }
    table
}

fn or_dash(value: Option<impl Display>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}

/// Lost packets, and their share of those sent where these are counted.
fn lost(peer: &Peer) -> String {
    match peer.sent_packets {
        0 => peer.lost_packets.to_string(),
        sent => format!("{} ({:.2} %)", peer.lost_packets, 100.0 * peer.lost_packets as f64 / sent as f64),
    }
}

/// Whether the gateway takes no more connections.
fn draining(draining: &Draining) -> String {
    let limit = draining.ends_within_s.map(|s| format!(", in {} at the latest", Duration::from_secs_f64(s)));
    format!("draining: ends with the last of {} connections{}", draining.connections, limit.unwrap_or_default())
}

/// What the process may do.
fn reduced(privileges: &Privileges) -> String {
    format!(
        "runs as user {} with {}; seccomp {}, Landlock {}",
        privileges.uid,
        privileges.capabilities.join(" "),
        if privileges.seccomp { "on" } else { "off" },
        privileges.landlock
    )
}

/// Why a peer is not up.
fn trouble(peer: &Peer) -> Option<String> {
    Some(format!("{} is not up: {}", peer.name, peer.trouble.as_ref()?.says))
}

/// How the cross-layer congestion control divides the link, where it does.
fn cross_layer(entry: &CrossLayer) -> String {
    format!("{} divides {} between {} with data", entry.control, Rate::from_bps(entry.capacity_bps), entry.connections)
}

/// The session with the modem, if one is to be had.
fn modem(modem: &ModemReport) -> String {
    match modem.address {
        None => format!("no session with the modem: {}", modem.last_end.as_deref().unwrap_or("not found yet")),
        Some(address) => {
            let link = if modem.link_is_up { "up" } else { "down" };
            format!("session with modem {address} ({}), link {link}", modem.name.as_deref().unwrap_or("-"))
        }
    }
}

/// The link state, if a source reports it.
fn link(state: &Report) -> Option<String> {
    (state.source != Source::Configured).then(|| {
        format!(
            "reported by {} for {}: {} transmit, {} receive, round trip {}",
            state.source.name(),
            Duration::from_secs_f64(state.age_s),
            Rate::from_bps(state.rate_bps),
            Rate::from_bps(state.receive_rate_bps),
            Duration::from_secs_f64(state.rtt_s)
        )
    })
}

/// What became of connections: how many there are and were, and each kind of failure that there was.
fn connections(open: usize, counters: &Counters) -> String {
    let failures = [
        ("reset", counters.reset),
        ("unavailable", counters.unavailable),
        ("denied", counters.denied),
        ("refused", counters.refused),
        ("unreachable", counters.unreachable),
        ("protocol errors", counters.protocol_errors),
    ];
    let failures: String =
        failures.iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!(", {count} {name}")).collect();
    format!(
        "connections: {open} open, {} accepted, {} connected, {} finished{failures}",
        counters.accepted, counters.connected, counters.finished
    )
}

/// Datagrams of the satellite link, and those that led to nothing. The `tcp` transport counts none.
fn satellite(satellite: &Satellite) -> Option<String> {
    if satellite.sent_packets == 0 && satellite.received_packets == 0 {
        return counted("tunnels rejected", &satellite.tunnels_rejected);
    }
    let dropped = counted("dropped", &satellite.dropped).map_or_else(String::new, |text| format!("; {text}"));
    let unsent = match satellite.send_errors {
        0 => String::new(),
        count => format!("; {count} not sent by the system"),
    };
    Some(format!(
        "satellite link: {} packets sent ({}), {} received ({}){unsent}{dropped}",
        satellite.sent_packets,
        Bytes::new(satellite.sent_ip_bytes),
        satellite.received_packets,
        Bytes::new(satellite.received_ip_bytes)
    ))
}

/// The counts that are not zero, by name; `None` if all are.
fn counted(what: &str, counts: &BTreeMap<impl Display, u64>) -> Option<String> {
    let counts: Vec<_> =
        counts.iter().filter(|(_, count)| **count > 0).map(|(name, count)| format!("{count} {name}")).collect();
    (!counts.is_empty()).then(|| format!("{what}: {}", counts.join(", ")))
}

/// What the data of all sessions take, and may take.
fn memory(memory: &Memory) -> String {
    let limit = memory.limit_bytes.map_or_else(|| ", no limit".into(), |limit| format!(", {} each", Bytes::new(limit)));
    format!(
        "memory: {} granted to peers, {} held until acknowledged{limit}",
        Bytes::new(memory.granted_bytes),
        Bytes::new(memory.send_buffered_bytes)
    )
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header);
    table
}
