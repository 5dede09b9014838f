//! The profile `ns2` against ns-2 2.35, run by run: the data in `crates/sim/tests/data/ns2` say what ns-2 did.

use crate::path::Path;
use crate::scheduler::Scheduler;
use link::{LinkConfig, LossModel, QueueLimit};
use std::collections::HashMap;
use std::sync::Arc;
use tcp::{
    AckPolicy, Config, Connection, ControlKind, Counters, Failure, Fault, Metrics, MinRto, Profile, ReceiveBuffer,
    RecoveryKind, SavedPath, SlowStartExit, Tuning,
};
use testkit::table::{self, Row};
use units::{Bytes, Duration, Instant, Probability, Rate};

/// What runs of ns-2 gave.
pub fn rows(file: &str) -> Vec<Row> {
    table::rows(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../sim/tests/data/ns2").join(file))
}

fn numbers(list: &str) -> Vec<u64> {
    list.split([' ', ',']).filter(|text| !text.is_empty()).map(|text| text.parse().expect("a number")).collect()
}

/// A path, and what is sent over it.
#[derive(Debug, Clone, Copy)]
struct Setting {
    /// Rate and one-way delay in milliseconds of each hop, and the hop that loses packets.
    hops: &'static [(u64, u64)],
    lossy: usize,
    queue: u64,
    mss: u32,
    window: u64,
    packets: u64,
    /// Packets that an acknowledgement waits for.
    every: u32,
}

const GOLDEN: Setting =
    Setting { hops: &[(2_000_000, 250)], lossy: 0, queue: 100_000, mss: 960, window: 100, packets: 500, every: 1 };
const SATELLITE: Setting = Setting {
    hops: &[(10_000_000, 1), (6_000_000, 275), (10_000_000, 1)],
    lossy: 1,
    queue: 600,
    mss: 1460,
    window: 500,
    packets: 685,
    every: 1,
};

#[derive(Debug, Clone, Copy, PartialEq)]
struct Ran {
    received_s: f64,
    data: u64,
    rexmit: u64,
    rto: u64,
}

/// An agent of ns-2's, its clock as it was in the recorded runs.
fn configured(setting: &Setting, variant: &str) -> Config {
    let phase = if variant == "vegas" { 142_047 } else { 5_558_807 };
    let config = agent(variant);
    Config {
        mss: setting.mss,
        receive_buffer: ReceiveBuffer::plain(Bytes::new(setting.window * u64::from(setting.mss))),
        acks: AckPolicy { every: setting.every, ..config.acks },
        tuning: Tuning { clock_phase: Some(Duration::from_nanos(phase)), ..Tuning::default() },
        ..config
    }
}

fn run(setting: &Setting, variant: &str, drops: Vec<u64>) -> Ran {
    let hops = |drops: Vec<u64>| -> Vec<LinkConfig> {
        let hop = |&(rate, delay): &(u64, u64)| LinkConfig {
            queue: QueueLimit::Packets(setting.queue),
            ..LinkConfig::new(Rate::from_bps(rate), Duration::from_millis(delay))
        };
        let mut hops: Vec<LinkConfig> = setting.hops.iter().map(hop).collect();
        hops[setting.lossy].loss = LossModel::DropList(drops);
        hops
    };
    let mut backward = hops(Vec::new());
    backward.reverse();
    let mut path = Path::new(configured(setting, variant), hops(drops), backward);
    let end = path.transfer(setting.packets * u64::from(setting.mss)).expect("the transfer completes");
    // The last acknowledgements are on their way: ns-2 counts until they have arrived.
    while !path.client().is_closed() {
        path.step().expect("the acknowledgement arrives");
    }
    Ran::new(end.as_secs_f64(), &path.metrics())
}

/// As [`run`], with ns-2's order of events.
fn run_in_order(setting: &Setting, variant: &str, drops: Vec<u64>) -> Ran {
    let mut scheduler = Scheduler::new(configured(setting, variant), setting.hops, setting.lossy, drops);
    let (end, metrics) = scheduler.transfer(setting.packets * u64::from(setting.mss));
    Ran::new(end, &metrics)
}

impl Ran {
    fn new(received_s: f64, metrics: &Metrics) -> Self {
        let Counters { data_segments, retransmissions, timeouts, .. } = metrics.counters;
        Self { received_s, data: data_segments, rexmit: retransmissions, rto: timeouts }
    }
}

fn field<T: std::str::FromStr>(row: &Row, name: &str) -> T {
    row[name].parse().unwrap_or_else(|_| panic!("{name} in {row:?}"))
}

/// What a file of results says of one run.
fn said(row: &Row) -> Ran {
    Ran {
        received_s: field(row, "received_s"),
        data: field(row, "data"),
        rexmit: field(row, "rexmit"),
        rto: field(row, "rto"),
    }
}

/// Equal but for what rounding times to nanoseconds and to printed digits makes of them.
fn is_same(ours: &Ran, theirs: &Ran) -> bool {
    let counts = |ran: &Ran| (ran.data, ran.rexmit, ran.rto);
    (ours.received_s - theirs.received_s).abs() < 1e-5 && counts(ours) == counts(theirs)
}

#[test]
fn deterministic_losses_end_as_in_ns2() {
    for (file, setting) in [("golden.csv", GOLDEN), ("deterministic.csv", SATELLITE)] {
        for row in rows(file) {
            let (ours, theirs) = (run(&setting, &row["variant"], numbers(&row["drops"])), said(&row));
            assert!(is_same(&ours, &theirs), "{file} {} {}: {ours:?} {theirs:?}", row["variant"], row["drops"]);
        }
    }
}

/// The requirement is 95 % of the runs within 1 %, with as many timeouts, and means within 1 %. As packets leave at the same
/// instants, every run is held to ns-2's microseconds and counts.
#[test]
fn random_losses_end_as_in_ns2() {
    let lists: HashMap<(String, String), Vec<u64>> = rows("random_lists.csv")
        .into_iter()
        .map(|row| ((row["p"].clone(), row["list"].clone()), numbers(&row["drops"])))
        .collect();
    let runs = rows("random_runs.csv");
    assert_eq!(runs.len(), 5 * 3 * 200);
    for row in runs {
        let drops = &lists[&(row["p"].clone(), row["list"].clone())];
        let (ours, theirs) = (run(&SATELLITE, &row["variant"], drops.clone()), said(&row));
        assert!(is_same(&ours, &theirs), "{} {} {}: {ours:?} {theirs:?}", row["variant"], row["p"], row["list"]);
    }
}

/// The cases of `delayed_acks.csv`: what they are, what ns-2 says, and the setting.
fn delayed() -> Vec<(Setting, Row)> {
    let setting = |row: Row| (Setting { window: field(&row, "window"), every: 2, ..SATELLITE }, row);
    rows("delayed_acks.csv").into_iter().map(setting).collect()
}

/// Where the events of an instant run in ns-2's order, every run is held to its microseconds and counts.
#[test]
fn losses_with_delayed_acknowledgements_end_as_in_ns2() {
    let runs = delayed();
    assert_eq!(runs.len(), 500);
    for (setting, row) in runs {
        let ours = run_in_order(&setting, &row["variant"], numbers(&row["drops"]));
        let mut theirs = said(&row);
        if row["variant"] == "vegas" {
            // Its count includes expiries with nothing outstanding.
            assert!(theirs.rto >= ours.rto, "{row:?}: {ours:?}");
            theirs.rto = ours.rto;
        }
        assert!(is_same(&ours, &theirs), "{} {} {}: {ours:?} {theirs:?}", row["variant"], row["window"], row["drops"]);
    }
}

/// Where a timer that is due at the instant of an arrival always runs first, as whole nanoseconds can tell no more, a run may part
/// from ns-2's at such an instant, as ns-2's own does when it begins 10 s later (63 of the 500 are then beyond 1 %, 54 of them
/// Vegas').
#[test]
fn losses_with_delayed_acknowledgements_end_within_a_percent_but_for_ties() {
    let mut beyond = [0, 0];
    for (setting, row) in delayed() {
        let (ours, theirs) = (run(&setting, &row["variant"], numbers(&row["drops"])), said(&row));
        let is_beyond = (ours.received_s / theirs.received_s - 1.0).abs() > 0.01;
        beyond[usize::from(row["variant"] == "vegas")] += u32::from(is_beyond);
    }
    let [of_reno, of_vegas] = beyond;
    assert!(of_reno <= 9, "{of_reno} of 400");
    assert!(of_vegas <= 54, "{of_vegas} of 100");
}

/// One hop of 10 Mbit/s and 50 ms that loses packets with a probability.
fn lossy_hop(probability: f64, seed: u64) -> Vec<LinkConfig> {
    let loss = LossModel::Bernoulli(Probability::new(probability).expect("valid"));
    let queue = QueueLimit::Packets(100);
    vec![LinkConfig { queue, loss, seed, ..LinkConfig::new(Rate::from_bps(10_000_000), Duration::from_millis(50)) }]
}

fn agent(variant: &str) -> Config {
    let (recovery, control) = if variant == "vegas" { ("newreno", "vegas") } else { (variant, "reno") };
    Config {
        recovery: RecoveryKind::by_name(recovery).expect("known"),
        control: ControlKind::by_name(control).expect("known"),
        ..Config::new(Profile::Ns2)
    }
}

const VARIANTS: [&str; 5] = ["tahoe", "reno", "newreno", "sack", "vegas"];

#[test]
fn a_transfer_completes_though_both_directions_lose() {
    for variant in VARIANTS {
        for (probability, seed) in [(0.01, 1), (0.1, 2), (0.1, 3), (0.3, 4), (0.3, 5)] {
            let mut path = Path::new(agent(variant), lossy_hop(probability, seed), lossy_hop(probability, seed + 100));
            // Not a whole number of segments.
            assert!(path.transfer(200_001).is_some(), "{variant} {probability} {seed}: {:?}", path.failure());
        }
    }
}

/// `ns transfer.tcl v=reno drop=0,1,...,19` and the same with `v=vegas`, ns-2 2.35.
#[test]
fn a_connection_outlives_any_number_of_timeouts_as_in_ns2() {
    for (variant, received_s) in [("reno", 1015.105293), ("vegas", 473.416776)] {
        let ours = run(&SATELLITE, variant, (0..20).collect());
        assert!((ours.received_s - received_s).abs() < 1e-5, "{variant}: {ours:?}");
    }
}

#[test]
fn a_connection_that_may_fail_does_so_by_name() {
    for (variant, failure) in [("reno", Failure::ConnectTimedOut), ("vegas", Failure::ConnectTimedOut)] {
        let config = Config { max_expiries: 15, ..agent(variant) };
        let mut path = Path::new(config, lossy_hop(1.0, 1), lossy_hop(0.0, 1));
        assert_eq!(path.transfer(10_000), None);
        assert_eq!(path.failure(), Some(failure), "{variant}");
    }
}

/// ns-2's receivers take everything; where an application reads late, the window closes all the same, and a probe finds it open
/// again.
#[test]
fn a_reader_that_pauses_holds_the_sender_back() {
    for variant in VARIANTS {
        let config = Arc::new(agent(variant));
        let mut now = Instant::ZERO;
        let (mut client, mut server) = (Connection::connect(config.clone(), now), Connection::listen(config));
        let bytes = 200 * 1460;
        client.write(bytes);
        client.finish();
        let mut read = 0;
        for _ in 0..10_000 {
            while let Some(segment) = client.poll_transmit(now) {
                now += Duration::from_millis(1);
                server.handle_segment(now, &segment);
                while let Some(answer) = server.poll_transmit(now) {
                    client.handle_segment(now, &answer);
                }
            }
            let is_pause_over = now > Instant::ZERO + Duration::from_secs(100);
            read += if is_pause_over { server.read(now, u64::MAX) } else { 0 };
            assert!(server.readable() <= (2 * 20 + 1) * 1460, "{variant}: {} bytes wait", server.readable());
            let Some(next) = client.next_timeout() else { break };
            now = next.max(now);
            client.handle_timeout(now);
        }
        assert!(client.metrics().counters.window_probes > 0, "{variant}");
        assert_eq!(read + server.read(now, u64::MAX), bytes, "{variant}");
    }
}

/// How long a transfer of twenty packets takes whose first packet is lost three times (Vegas sends two after a timeout: twice), and whose
/// last one once.
fn through_timeouts(config: Config) -> f64 {
    let queue = QueueLimit::Packets(100);
    let hop = LinkConfig { queue, ..LinkConfig::new(Rate::from_bps(2_000_000), Duration::from_millis(10)) };
    let last = if config.control.name == "vegas" { 22 } else { 23 };
    let lossy = LinkConfig { loss: LossModel::DropList(vec![0, 1, 2, last]), ..hop.clone() };
    let mut path = Path::new(config, vec![lossy], vec![hop]);
    path.transfer(20 * 1460).expect("complete").as_secs_f64()
}

const AGENTS: [&str; 5] = ["tahoe", "reno", "newreno", "sack", "vegas"];

#[test]
fn the_settings_of_the_timeout_count() {
    type Set = fn(&mut Config);
    for variant in AGENTS {
        let base =
            Config { tuning: Tuning { clock_phase: Some(Duration::ZERO), ..Tuning::default() }, ..agent(variant) };
        let usual = through_timeouts(base.clone());
        let (initial, max) = if variant == "vegas" { (-6.0, -2.0) } else { (-14.0, -10.0) };
        let timers: [(&str, f64, Set); 3] = [
            ("initial_rto", initial, |config| config.rtt.initial_rto = Duration::from_secs(1)),
            ("max_rto", max, |config| config.rtt.max_rto = Duration::from_secs(4)),
            ("min_rto", 0.8, |config| config.rtt.min_rto = MinRto::Total(Duration::from_secs(1))),
        ];
        for (key, expected, set) in timers {
            let mut config = base.clone();
            set(&mut config);
            let change = through_timeouts(config) - usual;
            assert!((change - expected).abs() < 1e-6, "{variant} {key}: {change}");
        }
    }
}

/// A setting that an agent would not read is refused, rather than ignored.
#[test]
fn what_an_agent_would_not_read_is_refused() {
    for variant in AGENTS {
        let base = agent(variant);
        let path = SavedPath { cwnd: Bytes::new(1 << 20), rtt: Duration::from_millis(550) };
        let ignored: [(&str, Config); 9] = [
            ("limited_transmit", Config { limited_transmit: false, ..base.clone() }),
            ("proportional_rate_reduction", Config { proportional_rate_reduction: true, ..base.clone() }),
            ("restart_after_idle", Config { restart_after_idle: true, ..base.clone() }),
            ("slow_start_limit", Config { slow_start_limit: Some(2.0), ..base.clone() }),
            ("growth_counts_acks", Config { growth_counts_acks: false, ..base.clone() }),
            ("grow_when_not_limited", Config { grow_when_not_limited: false, ..base.clone() }),
            ("resume", Config { resume: Some(path), ..base.clone() }),
            ("tuning.vegas_base_window", {
                let tuning = Tuning { vegas_base_window: Some(Duration::from_secs(10)), ..base.tuning };
                Config { tuning, ..base.clone() }
            }),
            ("tuning.slow_start_exit", {
                let tuning = Tuning { slow_start_exit: Some(SlowStartExit::LinuxHyStart), ..base.tuning };
                Config { tuning, ..base.clone() }
            }),
        ];
        for (key, config) in ignored {
            assert_eq!(config.validate().map_err(|error| error.faults), Err(vec![Fault::IgnoredByNs2 { key }]));
        }
        let tuning = Tuning { slow_start_exit: Some(SlowStartExit::None), ..base.tuning };
        let said = Config { slow_start_limit: Some(1.0), tuning, ..base };
        assert_eq!(said.validate(), Ok(()), "what the agents do anyway");
    }
}
