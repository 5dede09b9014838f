//! `bentpipe gateway status`: a gateway's state as text.

use super::super::top::figures::age;
use crate::text::Text;
use gateway::link_state::Source;
use gateway::{
    Capacity, Counters, CrossLayer, Draining, Link, Memory, MissingInterface, Modem, Peer, PeerState, Privileges,
    Satellite, Snapshot, Stall, Stream,
};
use results::listing::{Cell, Column, Listing, count, figure, text};
use std::collections::BTreeMap;
use std::fmt::Display;
use units::{Bytes, Duration, Quantity, Rate};

/// The status for people: what one looks for first stands first. It keeps within `columns`.
pub fn render(status: &Snapshot, columns: Option<usize>) -> Text {
    let lines = [
        Some(capacity(&status.capacity, status.link.source)),
        status.draining.as_ref().map(draining),
        Some(reduced(&status.privileges)),
        link(&status.link),
        status.modem.as_ref().map(modem),
        status.satellite.cross_layer.as_ref().map(cross_layer),
        Some(connections(status.streams.len(), &status.connections)),
        counted("end to end", &status.bypassed),
        undelivered(status.undelivered),
        missing(&status.missing_interfaces),
        satellite(&status.satellite),
        status.satellite.memory.as_ref().map(memory),
    ];
    let mut text = Text::new(columns);
    let limit = status.send_limit_bps.map(|bps| format!(", sends at {} at most", Rate::from_bps(bps)));
    let cross_traffic = status.cross_traffic_bps.map(|bps| format!(", cross traffic {}", Rate::from_bps(bps)));
    text.lines(format!(
        "{}: up for {}{}{}",
        status.name,
        age(status.uptime_s),
        limit.unwrap_or_default(),
        cross_traffic.unwrap_or_default(),
    ));
    text.each(lines.into_iter().flatten());
    text.listing(&peers(&status.peers));
    text.each(status.peers.iter().filter_map(trouble));
    text.listing(&streams(&status.streams));
    text
}

fn peers(peers: &[Peer]) -> Listing {
    let names = ["peer", "state", "address"].map(text).into_iter();
    let counts = [figure("rtt", Quantity::Time), count("streams"), bytes("sent"), count("lost packets")];
    let shares = [figure("of sent", Quantity::Share)];
    let volumes = ["retransmitted", "repair", "received"].map(bytes);
    let mut listing = Listing::new(names.chain(counts).chain(shares).chain(volumes));
    for peer in peers {
        // The `tcp` transport counts segments that are sent again, but neither those that are sent nor bytes.
        let counts_packets = peer.sent_packets > 0;
        let lost = counts_packets.then(|| peer.lost_packets as f64 / peer.sent_packets as f64);
        listing.add([
            peer.name.as_str().into(),
            peer.state.name().into(),
            shown(peer.address),
            peer.rtt_s.into(),
            peer.streams.to_string().into(),
            (peer.sent_bytes as f64).into(),
            peer.lost_packets.into(),
            lost.into(),
            counts_packets.then_some(peer.retransmitted_bytes as f64).into(),
            counts_packets.then_some(peer.repair_bytes as f64).into(),
            (peer.received_bytes as f64).into(),
        ]);
    }
    listing
}

fn bytes(name: &str) -> Column {
    figure(name, Quantity::Bytes)
}

fn streams(streams: &[Stream]) -> Listing {
    let names = ["stream", "peer", "side", "client", "server", "state"].map(text).into_iter();
    let volumes = ["from TCP", "to TCP"].map(bytes);
    let mut listing = Listing::new(names.chain([count("age")]).chain(volumes).chain([text("stalled by")]));
    for stream in streams {
        listing.add([
            stream.stream.into(),
            stream.peer.as_str().into(),
            stream.side.name().into(),
            shown(stream.client),
            shown(stream.server),
            stream.state.as_str().into(),
            age(stream.age_s).into(),
            (stream.from_tcp_bytes as f64).into(),
            (stream.to_tcp_bytes as f64).into(),
            stream.stall.map(stall).into(),
        ]);
    }
    listing
}

/// What bytes of a connection wait for, and for how long.
fn stall(stall: Stall) -> String {
    format!("{} {}", stall.cause.name(), age(stall.time_s))
}

fn shown(value: Option<impl Display>) -> Cell {
    value.map(|value| value.to_string()).into()
}

/// Whether the gateway takes no more connections.
fn draining(draining: &Draining) -> String {
    let limit = draining.ends_within_s.map(|s| format!(", in {} at the latest", age(s)));
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

/// The estimate of the link's capacity, its basis and its confidence.
fn capacity(believed: &Capacity, source: Source) -> String {
    let basis = match &*believed.basis {
        "fixed" => return format!("capacity {}, fixed", Rate::from_bps(believed.rate_bps)),
        "prior" if believed.prior_bps.is_some() => "as configured",
        "prior" => "of which nothing is known",
        "remembered" => "as an earlier run measured it",
        "reported" if source == Source::Configured => "as last reported",
        "reported" => "as reported",
        "trains" => "by trains of packets",
        "queue" => "by the queue",
        "trial" => "by a trial",
        "losses" => "by losses beyond it",
        other => other,
    };
    let state = match &*believed.state {
        "guess" => unmeasured(believed),
        "silent" => ", no reports from the peers".to_owned(),
        _ if believed.policed => ", beyond which a policer drops".to_owned(),
        _ => String::new(),
    };
    format!("capacity {} {basis}{state}", Rate::from_bps(believed.rate_bps))
}

/// What is said of a capacity that has not been measured.
pub fn unmeasured(believed: &Capacity) -> String {
    match (believed.confidence * 100.0).round() {
        100.0.. => ", not measured yet".to_owned(),
        percent => format!(", not measured yet, trusted to {percent} %"),
    }
}

/// Why a peer is not up, or cannot be reached though its own connections are relayed.
fn trouble(peer: &Peer) -> Option<String> {
    let state = if peer.state == PeerState::Up { "" } else { " is not up" };
    Some(format!("{}{state}: {}", peer.name, peer.trouble.as_ref()?.says))
}

/// How the cross-layer congestion control divides the link, where it does.
fn cross_layer(entry: &CrossLayer) -> String {
    format!("{} divides {} between {} with data", entry.control, Rate::from_bps(entry.capacity_bps), entry.connections)
}

/// The session with the modem, if one is to be had.
fn modem(modem: &Modem) -> String {
    match modem.address {
        None => format!("no session with the modem: {}", modem.last_end.as_deref().unwrap_or("not found yet")),
        Some(address) => {
            let link = if modem.link_is_up { "up" } else { "down" };
            format!("session with modem {address} ({}), link {link}", modem.name.as_deref().unwrap_or("-"))
        }
    }
}

/// The link state, if a source reports it.
fn link(state: &Link) -> Option<String> {
    (state.source != Source::Configured).then(|| {
        format!(
            "reported by {} for {}: {} transmit, {} receive, round trip {}",
            state.source.name(),
            age(state.age_s),
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
        ("abandoned", counters.abandoned),
        ("unavailable", counters.unavailable),
        ("denied", counters.denied),
        ("refused", counters.refused),
        ("unreachable", counters.unreachable),
        ("protocol errors", counters.protocol_errors),
    ];
    let failures: String =
        failures.iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!(", {count} {name}")).collect();
    format!(
        "connections: {open} open; {} from clients, {} to servers, {} finished{failures}",
        counters.accepted, counters.connected, counters.finished
    )
}

/// Connections that a firewall keeps from the gateway, if there are any.
fn undelivered(count: u64) -> Option<String> {
    (count > 0).then(|| {
        format!(
            "intercepted, but not arrived: {count}; let the firewall accept the gateway's fwmark in its input chain"
        )
    })
}

/// The configured interfaces that the host does not have, if there are any.
fn missing(interfaces: &[MissingInterface]) -> Option<String> {
    let named: Vec<_> = interfaces.iter().map(|one| format!("{} ({})", one.name, one.key)).collect();
    (!named.is_empty()).then(|| format!("interfaces missing: {}", named.join(", ")))
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
    let limit = match memory.limit_bytes {
        None => ", no limit".to_owned(),
        Some(limit) => format!("; limit {} for each direction", Bytes::new(limit)),
    };
    format!(
        "memory: {} granted to peers, {} held until acknowledged{limit}",
        Bytes::new(memory.granted_bytes),
        Bytes::new(memory.send_buffered_bytes)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn state() -> Value {
        json!({
            "name": "hub", "pid": 7, "predecessor": null, "draining": null, "uptime_s": 60.0, "public_key": "k",
            "transport": "satpep", "rate_bps": 8_000_000, "send_limit_bps": 3_000_000,
            "capacity": {
                "rate_bps": 8_000_000, "prior_bps": 6_000_000, "basis": "trains", "state": "track", "confidence": 1.0,
                "policed": false, "changes": {"queue": 2},
            },
            "link_updates": [
                {"source": "api", "accepted": 0, "rejected": 0}, {"source": "dlep", "accepted": 1, "rejected": 0}
            ],
            "link": {"rate_bps": 8_000_000, "receive_rate_bps": 2_000_000, "rtt_s": 0.55, "source": "dlep", "age_s": 3.0},
            "modem": null, "cross_traffic_bps": 5_000_000,
            "privileges": {"uid": 0, "capabilities": [], "bounded": true, "seccomp": true, "landlock": "full"},
            "connections": {
                "accepted": 0, "connected": 9, "finished": 2, "reset": 0, "abandoned": 3, "unavailable": 0, "denied": 4, "refused": 1,
                "unreachable": 0, "protocol_errors": 0, "bytes_from_tcp": 0, "bytes_to_tcp": 0,
            },
            "bypassed": {"no peer": 3, "closed": 0},
            "satellite": {
                "sent_packets": 1000, "sent_ip_bytes": 1_500_000, "received_packets": 10, "received_ip_bytes": 4000,
                "send_errors": 2, "dropped": {"replayed": 5, "malformed": 0},
                "memory": {"limit_bytes": 64_000_000, "granted_bytes": 1_000_000, "send_buffered_bytes": 2000},
            },
            "peers": [{
                "name": "terminal-1", "state": "up", "rtt_s": 0.562, "streams": 1, "sent_packets": 1000, "lost_packets": 12,
                "sent_bytes": 1_400_000, "retransmitted_bytes": 16_000, "repair_bytes": 31_000, "received_bytes": 3000,
            }],
            "streams": [{
                "stream": 4, "peer": "terminal-1", "side": "far", "client": "198.18.0.1:5001", "server": "203.0.113.7:443",
                "class": "default", "state": "established", "age_s": 12.0, "from_tcp_bytes": 1_400_000, "to_tcp_bytes": 3000,
                "stall": {"cause": "satellite", "time_s": 12.0},
            }],
        })
    }

    #[test]
    fn loss_denials_drops_repair_and_memory_are_shown() {
        let text = render(&serde_json::from_value(state()).unwrap(), None).to_string();
        for expected in [
            "hub: up for 1m00s, sends at 3Mbit/s at most, cross traffic 5Mbit/s\n",
            "connections: 1 open; 0 from clients, 9 to servers, 2 finished, 3 abandoned, 4 denied, 1 refused\n",
            "end to end: 3 no peer\n",
            "capacity 8Mbit/s by trains of packets\n",
            "1000 packets sent (1.5MB), 10 received (4kB); 2 not sent by the system; dropped: 5 replayed\n",
            "memory: 1MB granted to peers, 2kB held until acknowledged; limit 64MB for each direction\n",
            "of sent, %",
            " 1.20 ",
            " 16.0 ",
            " 31.0 ",
            "satellite 12s",
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
    }

    #[test]
    fn trouble_with_a_peer_that_is_up_does_not_say_that_it_is_not() {
        for (name, expected) in
            [("up", "terminal-1: those to it are not"), ("connecting", "terminal-1 is not up: those to it are not")]
        {
            let mut state = state();
            state["peers"][0]["state"] = name.into();
            state["peers"][0]["trouble"] = json!({ "reason": "no_answer", "says": "those to it are not" });
            let text = render(&serde_json::from_value(state).unwrap(), None).to_string();
            assert!(text.contains(expected), "{text}");
        }
    }

    #[test]
    fn what_the_transport_does_not_measure_is_not_shown() {
        let mut state = state();
        for unknown in ["send_limit_bps", "cross_traffic_bps"] {
            state[unknown] = Value::Null;
        }
        for counter in ["sent_packets", "retransmitted_bytes", "repair_bytes"] {
            state["peers"][0][counter] = 0.into();
        }
        let text = render(&serde_json::from_value(state).unwrap(), None).to_string();
        assert!(text.starts_with("hub: up for 1m00s\n"), "{text}");
        let peer = text.lines().find(|line| line.starts_with("| terminal-1")).unwrap();
        let cells: Vec<_> = peer.split('|').map(str::trim).collect();
        assert_eq!(cells[7..11], ["12", "-", "-", "-"], "lost packets, their share, retransmitted, repair: {text}");
    }

    #[test]
    fn a_capacity_that_is_not_measured_says_so_and_how_far_it_is_trusted() {
        for (confidence, expected) in [
            (1.0, "capacity 8Mbit/s as configured, not measured yet\n"),
            (0.5, "capacity 8Mbit/s as configured, not measured yet, trusted to 50 %\n"),
        ] {
            let mut state = state();
            let capacity = &mut state["capacity"];
            (capacity["basis"], capacity["state"]) = ("prior".into(), "guess".into());
            capacity["confidence"] = confidence.into();
            let text = render(&serde_json::from_value(state).unwrap(), None).to_string();
            assert!(text.contains(expected), "{expected}\n{text}");
        }
    }

    #[test]
    fn at_80_columns_tables_are_records() {
        let text = render(&serde_json::from_value(state()).unwrap(), Some(80)).to_string();
        assert!(text.contains("\npeer terminal-1\n  state up, rtt 562 ms, streams 1, sent 1.40 MB"), "{text}");
        assert!(text.contains("\nstream 4\n  peer terminal-1, side far, client 198.18.0.1:5001"), "{text}");
        let records = text.split("\npeer terminal-1").nth(1).unwrap();
        assert!(records.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
