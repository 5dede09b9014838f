//! What the gateway exports is what docs/monitoring.md explains, and what the alert rules and the dashboard ask for.

use super::{Program, families};
use crate::build::Build;
use crate::measured::{Delays, Measured};
use crate::transport::PathDelay;
use relay::engine::{ClassAccount, DEFAULT_CLASS};
use status::{
    CrossLayer, LogCounts, Memory, Modem, Peer, PeerState, Satellite, Snapshot, Source, Trouble, UpdateCounts,
};
use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

const PAGE: &str = include_str!("../../../../docs/monitoring.md");
const RUNBOOK: &str = include_str!("../../../../docs/operations.md");
const RULES: &str = include_str!("../../../../contrib/prometheus/bentpipe.rules.yml");
const TESTS: &str = include_str!("../../../../contrib/prometheus/bentpipe.test.yml");
const DASHBOARD: &str = include_str!("../../../../contrib/grafana/bentpipe.json");

/// A gateway that has everything that metrics may show.
fn snapshot() -> Snapshot {
    Snapshot {
        transport: "satpep".into(),
        rate_bps: 8_000_000,
        capacity: status::Capacity::fixed(units::Rate::from_bps(8_000_000), Some(units::Rate::from_bps(6_000_000))),
        cross_traffic_bps: Some(0),
        link_updates: [Source::Api, Source::Dlep].map(|source| UpdateCounts { source, accepted: 1, rejected: 0 }),
        modem: Some(Modem::default()),
        bypassed: [("rule voice".to_owned(), 3)].into(),
        satellite: Satellite {
            dropped: [("malformed".into(), 1)].into(),
            tunnels_opened: [("warm".into(), 1)].into(),
            tunnels_rejected: [("late".into(), 1)].into(),
            cross_layer: Some(CrossLayer { control: "bp_cross".into(), capacity_bps: 1, connections: 1 }),
            memory: Some(Memory { limit_bytes: Some(1), granted_bytes: 0, send_buffered_bytes: 0, repair_bytes: 0 }),
            workers: Some(1),
            ..Satellite::default()
        },
        peers: vec![Peer {
            name: "hub".into(),
            state: PeerState::Unresponsive,
            rtt_s: Some(0.6),
            clock_offset_s: Some(-2.5),
            trouble: Some(Trouble::new("no_answer", "")),
            ..Peer::default()
        }],
        connection_log: Some(LogCounts { written: 1, dropped: 0 }),
        ..Snapshot::default()
    }
}

fn measured() -> Measured {
    let mut delays = Delays::default();
    let [min, smoothed] = [560, 600].map(units::Duration::from_millis);
    delays.sample("hub", PathDelay { smoothed, min });
    Measured { connections_open: 3, classes: vec![ClassAccount::new(DEFAULT_CLASS)], delays }
}

fn exported() -> String {
    let started = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let build = Build { version: "1.2.3", commit: "0123456789", features: "ebpf" };
    families::encode(&Program { build, started }, &snapshot(), &measured()).unwrap()
}

/// The names of the samples, and of histograms the name without the suffixes.
fn names(text: &str) -> BTreeSet<String> {
    let kinds = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let suffix = |kind: &str| match kind {
        "counter" => "_total",
        "info" => "_info",
        _ => "",
    };
    kinds.map(|(name, kind)| format!("{name}{}", suffix(kind))).collect()
}

/// The words of `text` that may be names of metrics.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
    let is_metric = |word: &&str| word.starts_with("bentpipe_") || word.starts_with("process_");
    let family = |word: &str| {
        let suffix = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| word.strip_suffix(suffix));
        suffix.unwrap_or(word).to_owned()
    };
    words.filter(is_metric).map(family).collect()
}

#[test]
fn the_page_explains_every_metric_and_no_other() {
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `"));
    let first = rows.map(|row| row.split(['`', '{']).next().unwrap().to_owned());
    let explained: BTreeSet<_> =
        first.filter(|name| name.starts_with("bentpipe_") || name.starts_with("process_")).collect();
    assert_eq!(explained, names(&exported()), "docs/monitoring.md, \"Metrics\"");
}

#[test]
fn every_metric_that_has_a_unit_ends_with_it() {
    let text = exported();
    let units: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("# UNIT ")?.split_once(' ')).collect();
    assert!(units.len() > 20 && units.iter().all(|(name, unit)| name.ends_with(unit)), "{units:?}");
    for unit in ["bits", "bps", "milliseconds", "_ms"] {
        assert!(!names(&text).iter().any(|name| name.contains(unit)), "{unit} is no base unit");
    }
}

#[test]
fn the_program_and_its_start_are_named() {
    let text = exported();
    let build = "bentpipe_build_info{version=\"1.2.3\",commit=\"0123456789\",features=\"ebpf\",transport=\"satpep\"} 1";
    for line in [build, "process_start_time_seconds 1700000000.0", "bentpipe_capacity_bytes_per_second 1000000.0"] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

#[test]
fn histograms_are_cumulative_and_end_with_all() {
    let text = exported();
    let value = |line: &str| {
        let found = text.lines().find_map(|found| found.strip_prefix(line));
        found.unwrap_or_else(|| panic!("{line}\n{text}")).trim().to_owned()
    };
    assert_eq!(value("bentpipe_peer_rtt_seconds_bucket{le=\"0.55\",peer=\"hub\"}"), "0");
    assert_eq!(value("bentpipe_peer_rtt_seconds_bucket{le=\"0.6\",peer=\"hub\"}"), "1");
    assert_eq!(value("bentpipe_peer_rtt_seconds_bucket{le=\"+Inf\",peer=\"hub\"}"), "1");
    assert_eq!(value("bentpipe_peer_rtt_seconds_sum{peer=\"hub\"}"), "0.6");
    assert_eq!(value("bentpipe_peer_queueing_delay_seconds_sum{peer=\"hub\"}"), "0.04");
    assert_eq!(value("bentpipe_peer_queueing_delay_seconds_count{peer=\"hub\"}"), "1");
}

/// Among a thousand terminals and ten classes, nothing but what is configured makes series.
#[test]
fn the_number_of_series_follows_the_configuration() {
    let text = exported();
    let series = |label: &str| text.lines().filter(|line| !line.starts_with('#') && line.contains(label)).count();
    assert!(series("peer=\"hub\"") <= 50, "{}", series("peer=\"hub\""));
    assert!(series("class=\"default\"") <= 50, "{}", series("class=\"default\""));
    assert!(!text.contains("client=") && !text.contains("server=") && !text.contains("address="));
}

/// What `label="values"` selectors in `text` name, for regular expressions each alternative.
fn selected<'a>(text: &'a str, label: &str) -> BTreeSet<&'a str> {
    let key = format!("{label}=");
    let quoted = text.split(&key).skip(1);
    let values = quoted.filter_map(|rest| rest.trim_start_matches('~').trim_start_matches('\\').strip_prefix('"'));
    values.flat_map(|rest| rest.split(['"', '\\']).next().unwrap_or("").split('|')).collect()
}

#[test]
fn the_alert_rules_and_the_dashboard_ask_for_what_is_exported() {
    let text = exported();
    let known = names(&text);
    for (file, asked) in [("rules", RULES), ("tests of the rules", TESTS), ("dashboard", DASHBOARD)] {
        let metrics = metrics_in(asked);
        let missing: Vec<_> = metrics.difference(&known).collect();
        assert!(metrics.len() > 10 && missing.is_empty(), "{file}: {missing:?}");
        let outcomes = selected(asked, "outcome");
        let unknown: Vec<_> = outcomes.iter().filter(|value| !text.contains(&format!("outcome=\"{value}\""))).collect();
        assert!(!outcomes.is_empty() && unknown.is_empty(), "{file}: {unknown:?}");
    }
    assert!(text.contains("le=\"10.0\""), "BentpipeStalls asks for this bucket");
}

/// The anchor that a heading of a page has.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[test]
fn every_alarm_has_a_test_and_a_section_that_says_what_to_do() {
    let alarms: Vec<_> = RULES.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    let books: Vec<_> =
        RULES.lines().filter_map(|line| line.trim().strip_prefix("runbook: docs/operations.md#")).collect();
    assert!(alarms.len() > 10 && alarms.len() == books.len(), "{alarms:?} {books:?}");
    let sections: Vec<_> = RUNBOOK.split("\n### ").skip(1).map(|section| section.split_once('\n').unwrap()).collect();
    for (alarm, book) in alarms.iter().zip(books) {
        let section = sections.iter().find(|(heading, _)| anchor(heading) == book);
        let (_, body) = section.unwrap_or_else(|| panic!("{alarm}: docs/operations.md has no section #{book}"));
        for part in ["**Meaning.**", "**Look at**", "**Do"] {
            assert!(body.contains(part), "docs/operations.md, {book}: no {part}");
        }
        assert!(RUNBOOK.contains(&format!("`{alarm}`")), "docs/operations.md, \"Alarms\", lacks {alarm}");
        let of_alarm = TESTS.split("    name: ").find(|test| test.starts_with(&format!("{alarm}\n")));
        let of_alarm = of_alarm.unwrap_or_else(|| panic!("bentpipe.test.yml lacks {alarm}"));
        let times = of_alarm.matches("eval_time").count();
        let fires = of_alarm.matches("exp_labels").count();
        assert!(fires > 0 && times > fires + 1, "{alarm} is tested before, while and after it fires");
    }
}

#[test]
fn every_metric_that_is_to_raise_an_alarm_is_in_a_rule() {
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `"));
    let metrics = rows.filter(|row| row.contains("| alarm") || row.contains(", alarm"));
    let metrics: Vec<_> = metrics.map(|row| row.split(['`', '{']).next().unwrap()).collect();
    let asked = metrics_in(RULES);
    let missing: Vec<_> = metrics.iter().filter(|name| !asked.contains(**name)).collect();
    assert!(metrics.len() > 4 && missing.is_empty(), "bentpipe.rules.yml lacks {missing:?} of {metrics:?}");
}

#[test]
fn the_dashboard_has_the_gateways_and_the_peers_as_variables() {
    let dashboard: serde_json::Value = serde_json::from_str(DASHBOARD).unwrap();
    let variables: Vec<_> =
        dashboard["templating"]["list"].as_array().unwrap().iter().map(|variable| &variable["name"]).collect();
    assert_eq!(variables, ["datasource", "instance", "peer"]);
    let panels = dashboard["panels"].as_array().unwrap();
    let rows: Vec<_> = panels.iter().filter(|panel| panel["type"] == "row").map(|row| &row["title"]).collect();
    assert_eq!(rows, ["Link", "Peers", "Classes", "Trouble"]);
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let wild: Vec<_> = targets.filter(|target| !target["expr"].as_str().unwrap().contains("$instance")).collect();
    assert!(wild.is_empty(), "{wild:?}");
}

/// What is exported of a gateway in the state `snapshot`.
fn exported_of(snapshot: &Snapshot, started: SystemTime) -> String {
    let build = Build { version: "1.2.3", commit: "0123456789", features: "ebpf" };
    families::encode(&Program { build, started }, snapshot, &measured()).unwrap()
}

#[test]
fn what_is_not_known_of_a_peer_has_no_sample_rather_than_a_zero() {
    let unknown = Peer { name: "hub".into(), state: PeerState::Unresponsive, ..Peer::default() };
    let text = exported_of(&Snapshot { peers: vec![unknown], ..Snapshot::default() }, SystemTime::UNIX_EPOCH);
    assert!(text.lines().any(|line| line == "bentpipe_peer_up{peer=\"hub\"} 0"), "{text}");
    for name in ["bentpipe_peer_smoothed_rtt_seconds{", "bentpipe_peer_clock_offset_seconds{", "bentpipe_peer_trouble{"]
    {
        assert!(!text.contains(name), "{name}");
    }
    for name in ["bentpipe_dlep", "bentpipe_connection_log", "bentpipe_memory", "bentpipe_cross_layer"] {
        assert!(!text.contains(name), "{name} is of what this gateway does not have");
    }
}

#[test]
fn what_the_tcp_transport_does_not_count_has_no_sample_rather_than_a_zero() {
    let text = exported_of(&Snapshot { transport: "tcp".into(), ..snapshot() }, SystemTime::UNIX_EPOCH);
    for name in ["satellite_packets", "satellite_ip", "peer_sent_packets", "peer_retransmitted", "peer_repair"] {
        assert!(!text.contains(&format!("bentpipe_{name}")), "{name}");
    }
    for name in ["peer_sent_bytes_total", "peer_received_bytes_total", "peer_lost_packets_total"] {
        assert!(text.contains(&format!("bentpipe_{name}")), "{name}");
    }
}

#[test]
fn a_peer_that_drains_is_not_up_and_is_told_from_one_that_does_not_answer() {
    let with = |state| {
        let peers = vec![Peer { name: "hub".into(), state, ..Peer::default() }];
        let text = exported_of(&Snapshot { peers, ..Snapshot::default() }, SystemTime::UNIX_EPOCH);
        let value = |name| text.contains(&format!("\nbentpipe_peer_{name}{{peer=\"hub\"}} 1\n"));
        (value("up"), value("draining"))
    };
    assert_eq!(with(PeerState::Up), (true, false));
    assert_eq!(with(PeerState::Draining), (false, true));
    assert_eq!(with(PeerState::Unresponsive), (false, false));
}

#[test]
fn what_waits_for_readers_is_the_peers_sum_and_not_their_credit() {
    let mut snapshot = snapshot();
    snapshot.satellite.memory =
        Some(Memory { limit_bytes: Some(1000), granted_bytes: 970, send_buffered_bytes: 20, repair_bytes: 40 });
    snapshot.peers = (0..3).map(|n| Peer { receive_buffered_bytes: 10 * n, ..Peer::default() }).collect();
    let text = exported_of(&snapshot, SystemTime::UNIX_EPOCH);
    for line in [
        "bentpipe_memory_bytes{direction=\"received\"} 970",
        "bentpipe_memory_bytes{direction=\"sent\"} 20",
        "bentpipe_memory_unread_bytes 30",
        "bentpipe_memory_repair_bytes 40",
        "bentpipe_memory_limit_bytes 1000",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

#[test]
fn a_clock_before_1970_does_not_keep_the_metrics_from_being_served() {
    let text = exported_of(&snapshot(), SystemTime::UNIX_EPOCH - Duration::from_secs(5));
    assert!(text.lines().any(|line| line == "process_start_time_seconds 0.0"), "{text}");
}

#[test]
fn rates_are_in_bytes_and_one_source_of_the_link_state_is_in_force() {
    let mut snapshot = snapshot();
    snapshot.cross_traffic_bps = Some(12);
    (snapshot.link.rate_bps, snapshot.link.receive_rate_bps) = (4_000_000, 20_000_000);
    snapshot.link.source = Source::Dlep;
    let text = exported_of(&snapshot, SystemTime::UNIX_EPOCH);
    for line in [
        "bentpipe_cross_traffic_bytes_per_second 1.5",
        "bentpipe_link_rate_bytes_per_second{direction=\"transmit\"} 500000.0",
        "bentpipe_link_rate_bytes_per_second{direction=\"receive\"} 2500000.0",
        "bentpipe_link_source{source=\"dlep\"} 1",
        "bentpipe_link_source{source=\"api\"} 0",
        "bentpipe_link_source{source=\"configured\"} 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    snapshot.cross_traffic_bps = None;
    let text = exported_of(&snapshot, SystemTime::UNIX_EPOCH);
    assert!(!text.contains("cross_traffic"), "what is not measured is no zero: {text}");
}

#[test]
fn a_peer_that_is_none_any_more_has_no_delays_and_the_others_keep_theirs() {
    let mut delays = Delays::default();
    let ms = units::Duration::from_millis;
    for (name, smoothed, min) in [("one", 600, 560), ("one", 540, 560), ("two", 20, 20)] {
        delays.sample(name, PathDelay { smoothed: ms(smoothed), min: ms(min) });
    }
    delays.retain(|name| name == "one");
    assert_eq!(delays.0.keys().collect::<Vec<_>>(), ["one"]);
    let one = &delays.0["one"];
    assert_eq!((one.rtt.count(), one.rtt.sum()), (2, ms(1140)));
    assert_eq!((one.queueing.count(), one.queueing.sum()), (2, ms(40)), "no queue is shorter than none");
}

#[test]
fn connections_are_counted_though_the_snapshot_lists_none() {
    assert!(snapshot().streams.is_empty());
    assert!(exported().lines().any(|line| line == "bentpipe_connections_open 3"), "{}", exported());
}

#[test]
fn scrapes_within_a_second_are_answered_with_one_document() {
    let (last, start) = (super::Last::default(), std::time::Instant::now());
    let mut made = 0;
    let mut scrape = |milliseconds| {
        let now = start + Duration::from_millis(milliseconds);
        last.document(now, || {
            made += 1;
            Some(made.to_string())
        })
    };
    let documents: Vec<_> = [0, 1, 999, 1000, 1500, 5000].into_iter().filter_map(&mut scrape).collect();
    assert_eq!(documents, ["1", "1", "1", "2", "2", "3"]);
    assert_eq!(super::Last::default().document(start, || None), None, "the gateway has stopped");
}
