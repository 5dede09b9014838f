//! A session's trace as qlog: what it says, and that its fields are those of the published drafts.

use satpep::{Endpoint, EndpointConfig, Event, PeerConfig, PrivateKey, TraceEvent, TraceKind, qlog};
use serde_json::Value;
use std::net::SocketAddr;
use units::{Duration, Instant, Rate};

fn address(index: usize) -> SocketAddr {
    SocketAddr::from(([198, 18, 0, index as u8 + 1], 4500))
}

const START: Instant = Instant::from_nanos(1_000_000_000);
const DELAY: u64 = 25;

/// What the two ends of a session traced, of which only end 1 was asked to: 200,000 bytes from it, of whose packets every fiftieth is
/// lost, with a path of 50 ms. After a second, the link is slower.
fn traces() -> [Vec<TraceEvent>; 2] {
    let rate = Rate::from_bps(10_000_000);
    let key = |index: usize| PrivateKey::from_random([index as u8 + 1; 32]);
    let mut peer = None;
    let mut ends = [0, 1].map(|index| {
        let mut config = EndpointConfig::new(key(index), rate, rate, Duration::from_millis(50));
        (config.trace, config.repair) = (index == 1, false);
        let mut endpoint = Endpoint::new(config, START, 1 << 60, [index as u8; 32]);
        let call = (index == 1).then(|| address(0));
        peer = Some(endpoint.add_peer(START, PeerConfig::new(key(1 - index).public_key(), call)).expect("one peer"));
        endpoint
    });
    let mut on_the_way: Vec<(u64, usize, Vec<u8>)> = Vec::new();
    let mut traces = [Vec::new(), Vec::new()];
    let (mut buffer, mut stream, mut left, mut sent) = (vec![0; 65_536], None, 200_000, 0);
    for millisecond in 0..2000 {
        let now = START + Duration::from_millis(millisecond);
        if millisecond == 200 {
            stream = ends[1].open(now, peer.expect("both have one")).ok();
        }
        if millisecond == 1000 {
            ends[1].set_capacity(now, Rate::from_bps(2_000_000));
        }
        if let Some(stream) = stream.filter(|_| left > 0) {
            left -= ends[1].write(now, stream, &vec![0; left]);
            if left == 0 {
                ends[1].finish(now, stream);
            }
        }
        let (arrived, later) = on_the_way.into_iter().partition(|(at, ..)| *at <= millisecond);
        on_the_way = later;
        for (_, to, mut datagram) in arrived {
            ends[to].handle_datagram(now, address(1 - to), &mut datagram);
        }
        for from in 0..2 {
            ends[from].handle_timeout(now);
            while let Some(event) = ends[from].poll_event() {
                if let Event::Readable(id) = event {
                    let length = ends[from].readable_len(id);
                    ends[from].consume(now, id, length as usize);
                }
            }
            while let Some(transmit) = ends[from].poll_transmit(now, &mut buffer) {
                for datagram in buffer[..transmit.size].chunks(transmit.segment_size) {
                    sent += usize::from(from == 1);
                    if from == 0 || sent % 50 != 49 {
                        on_the_way.push((millisecond + DELAY, 1 - from, datagram.to_vec()));
                    }
                }
            }
            traces[from].extend(std::iter::from_fn(|| ends[from].poll_trace()));
        }
    }
    traces
}

fn count(events: &[TraceEvent], which: impl Fn(&TraceKind) -> bool) -> usize {
    events.iter().filter(|event| which(&event.kind)).count()
}

#[test]
fn a_trace_has_what_was_sent_received_lost_and_measured_and_only_if_it_is_asked_for() {
    let [untraced, events] = traces();
    assert!(untraced.is_empty());
    assert!(events.is_sorted_by_key(|event| event.at) && events.iter().all(|event| event.session.initiates));
    let (mut bytes, mut ends, mut numbers) = (std::collections::BTreeSet::new(), 0, Vec::new());
    for event in &events {
        let TraceKind::PacketSent(packet) = &event.kind else { continue };
        numbers.push(packet.number);
        for piece in &packet.pieces {
            bytes.extend(piece.offset..piece.offset + piece.length as u64);
            ends += usize::from(piece.is_last);
        }
    }
    assert_eq!((bytes.len(), bytes.last()), (200_000, Some(&199_999)), "every byte, in some packet");
    assert!(ends >= 1);
    assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "every packet once");
    let lost = count(&events, |kind| matches!(kind, TraceKind::PacketLost(_)));
    assert!((2..=6).contains(&lost), "{lost} of {}", numbers.len());
    assert!(count(&events, |kind| matches!(kind, TraceKind::PacketReceived(_))) > 10);
    let rates: Vec<u64> = events
        .iter()
        .filter_map(|event| if let TraceKind::Capacity(rate) = event.kind { Some(rate.as_bps()) } else { None })
        .collect();
    assert_eq!(rates, [10_000_000, 2_000_000]);
    let metrics: Vec<_> = events
        .iter()
        .filter_map(|event| if let TraceKind::Metrics(metrics) = event.kind { Some(metrics) } else { None })
        .collect();
    let most = metrics.iter().map(|metrics| metrics.in_flight).max();
    assert!(most.is_some_and(|most| (20_000..120_000).contains(&most)), "{most:?} for a path of 62,500 bytes");
    let last = metrics.last().unwrap();
    assert_eq!(last.in_flight, 0, "all is acknowledged in the end");
    let (_, min) = last.latest_and_min_rtt.unwrap();
    assert!((50..54).contains(&(min.as_nanos() / 1_000_000)), "{min}");
}

/// The fields of draft-ietf-quic-qlog-main-schema-02 and draft-ietf-quic-qlog-quic-events-01 that a record may have, by event; `n` numbers,
/// `s` texts, `b` truth values.
const PUBLISHED: &[(&str, &[(&str, &str)])] = &[
    (
        "transport:packet_sent",
        &[
            ("header.packet_type", "s"),
            ("header.packet_number", "n"),
            ("header.flags", "n"),
            ("header.scid", "s"),
            ("header.dcid", "s"),
            ("raw.length", "n"),
            ("raw.payload_length", "n"),
            ("is_coalesced", "b"),
            ("frames.frame_type", "s"),
            ("frames.stream_id", "n"),
            ("frames.offset", "n"),
            ("frames.length", "n"),
            ("frames.fin", "b"),
        ],
    ),
    ("recovery:packet_lost", &[("header.packet_type", "s"), ("header.packet_number", "n"), ("trigger", "s")]),
    (
        "recovery:metrics_updated",
        &[
            ("min_rtt", "n"),
            ("smoothed_rtt", "n"),
            ("latest_rtt", "n"),
            ("rtt_variance", "n"),
            ("pto_count", "n"),
            ("congestion_window", "n"),
            ("bytes_in_flight", "n"),
            ("ssthresh", "n"),
            ("packets_in_flight", "n"),
            ("pacing_rate", "n"),
        ],
    ),
    ("bentpipe:capacity_updated", &[("capacity", "n")]),
];

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Number(_) => "n",
        Value::String(_) => "s",
        Value::Bool(_) => "b",
        other => panic!("{other}"),
    }
}

/// Every leaf of `value`, by its path; lists are one level of it.
fn leaves(path: &str, value: &Value, out: &mut Vec<(String, &'static str)>) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Value::Object(members) => members.iter().for_each(|(key, value)| leaves(&below(key), value, out)),
        Value::Array(values) => values.iter().for_each(|value| leaves(path, value, out)),
        leaf => out.push((path.to_owned(), kind(leaf))),
    }
}

#[test]
fn the_fields_are_those_of_the_published_schema() {
    let [_, events] = traces();
    let mut seen = std::collections::BTreeSet::new();
    let mut before = -1.0;
    for event in &events {
        let record = serde_json::to_value(qlog::Event::new(event, events[0].at)).unwrap();
        let members: Vec<_> = record.as_object().unwrap().keys().collect();
        assert_eq!(members, ["data", "name", "time"]);
        let time = record["time"].as_f64().unwrap();
        assert!(time >= before && time <= 2000.0);
        before = time;
        let name = record["name"].as_str().unwrap().replace("packet_received", "packet_sent");
        let (_, published) = PUBLISHED.iter().find(|(known, _)| *known == name).expect("a published event");
        let mut found = Vec::new();
        leaves("", &record["data"], &mut found);
        for (path, kind) in found {
            assert!(published.contains(&(&path, kind)), "{name}: {path} is {kind}");
        }
        seen.insert(record["name"].as_str().unwrap().to_owned());
    }
    assert_eq!(seen.len(), 5, "{seen:?}");
}

#[test]
fn the_header_names_the_format_the_vantage_point_and_the_clock() {
    let header = qlog::Header::new("terminal and hub".into(), "terminal".into(), true, 1_700_000_000_000.5);
    let expected = serde_json::json!({
        "qlog_version": "0.3", "qlog_format": "JSON-SEQ", "title": "terminal and hub",
        "trace": {
            "vantage_point": {"name": "terminal", "type": "client"},
            "common_fields": {
                "protocol_type": ["satpep"], "time_format": "relative", "reference_time": 1_700_000_000_000.5,
            },
        },
    });
    assert_eq!(serde_json::to_value(header).unwrap(), expected);
}
