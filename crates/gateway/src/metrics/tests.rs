//! What the gateway exports is what docs/monitoring.md explains, and what the alert rules and the dashboard ask for.

use super::{Program, families};
use crate::link_state::{ModemReport, Report, Source, UpdateCounts};
use crate::metrics::Delays;
use crate::privileges::Privileges;
use crate::snapshot::{Build, CrossLayer, Measured, Memory, Peer, Satellite, Snapshot};
use crate::transport::PathDelay;
use crate::trouble::Trouble;
use relay::engine::{ClassAccount, Counters, DEFAULT_CLASS};
use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

const PAGE: &str = include_str!("../../../../docs/monitoring.md");

/// A gateway that has everything that metrics may show.
fn snapshot() -> Snapshot {
    let mut delays = Delays::default();
    let [min, smoothed] = [560, 600].map(units::Duration::from_millis);
    delays.sample("hub", PathDelay { smoothed, min });
    Snapshot {
        name: "gateway".into(),
        pid: 1,
        predecessor: None,
        draining: None,
        uptime_s: 1.0,
        public_key: String::new(),
        transport: "satpep",
        rate_bps: 8_000_000,
        link: Report { rate_bps: 1, receive_rate_bps: 1, rtt_s: 0.6, source: Source::Dlep, age_s: 2.0 },
        link_updates: [Source::Api, Source::Dlep].map(|source| UpdateCounts { source, accepted: 1, rejected: 0 }),
        modem: Some(ModemReport::default()),
        cross_traffic_bps: 0,
        privileges: Privileges { uid: 0, capabilities: Vec::new(), bounded: true, seccomp: true, landlock: "full" },
        connections: Counters::default(),
        bypassed: [("rule voice".to_owned(), 3)].into(),
        satellite: Satellite {
            dropped: [("malformed", 1)].into(),
            tunnels_opened: [("warm", 1)].into(),
            tunnels_rejected: [("late", 1)].into(),
            cross_layer: Some(CrossLayer { control: "bp_cross".into(), capacity_bps: 1, connections: 1 }),
            memory: Some(Memory { limit_bytes: Some(1), granted_bytes: 0, send_buffered_bytes: 0 }),
            ..Satellite::default()
        },
        peers: vec![Peer {
            name: "hub".into(),
            state: "unresponsive",
            rtt_s: Some(0.6),
            clock_offset_s: Some(-2.5),
            trouble: Some(Trouble::new("no_answer", "")),
            ..Peer::default()
        }],
        streams: Vec::new(),
        measured: Measured { classes: vec![ClassAccount::new(DEFAULT_CLASS)], delays },
    }
}

fn exported() -> String {
    let started = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let build = Build { version: "1.2.3", commit: "0123456789", features: "ebpf" };
    families::encode(&Program { build, started }, &snapshot()).unwrap()
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
    let is_metric = |word: &&str| {
        word.starts_with("bentpipe_") || word.starts_with("process_") || word.starts_with("up") && *word == "up"
    };
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
        assert!(text.lines().any(|told| told == line), "{line}\n{text}");
    }
}

#[test]
fn histograms_are_cumulative_and_end_with_all() {
    let text = exported();
    let value = |line: &str| {
        let found = text.lines().find_map(|told| told.strip_prefix(line));
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
