//! The simulator against ns-2 2.35: single transfers run by run, and the shares of a bottleneck over many seeds. The data, and how
//! they were made, are in `tests/data/ns2`.

use link::{LinkConfig, LossModel, QueueLimit};
use sim::{Application, FlowConfig, FlowReport, Network, NodeId, Settings, Simulation, Start, Traffic, Transfer};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tcp::{AckPolicy, Config, ControlKind, Profile, ReceiveBuffer, RecoveryKind, Tuning};
use testkit::table::{self, Row};
use units::{Bytes, Duration, Instant, Rate};

fn rows(file: &str) -> Vec<Row> {
    table::rows(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/ns2").join(file))
}

fn number(row: &Row, name: &str) -> f64 {
    row[name].parse().unwrap_or_else(|_| panic!("{name} in {row:?}"))
}

const fn mbit(rate: u64) -> Rate {
    Rate::from_bps(rate * 1_000_000)
}

/// A link of ns-2 with a limit of `queue` packets, of which one less may wait.
fn link(rate: u64, delay_ms: u64, queue: u64) -> LinkConfig {
    LinkConfig { queue: QueueLimit::Packets(queue - 1), ..LinkConfig::new(mbit(rate), Duration::from_millis(delay_ms)) }
}

/// ns-2's agent of this name.
fn agent(variant: &str, mss: u32, window: u64, phase: Option<u64>, seed: u64) -> Config {
    let (recovery, control) = if variant == "vegas" { ("newreno", "vegas") } else { (variant, "reno") };
    Config {
        mss,
        recovery: RecoveryKind::by_name(recovery).expect("known"),
        control: ControlKind::by_name(control).expect("known"),
        receive_buffer: ReceiveBuffer::plain(Bytes::new(window * u64::from(mss))),
        tuning: Tuning { clock_phase: phase.map(Duration::from_nanos), ..Tuning::default() },
        seed,
        ..Config::new(Profile::Ns2)
    }
}

fn bulk(name: String, ends: (NodeId, NodeId), start: Start, config: Config, size: Option<u64>) -> FlowConfig {
    let config = Arc::new(config);
    FlowConfig {
        name,
        from: ends.0,
        to: ends.1,
        start,
        stop: None,
        traffic: Traffic::Tcp {
            client: config.clone(),
            server: config,
            application: Application::Bulk { size: size.map(Bytes::new), transfer: Transfer::Upload },
        },
        record: true,
    }
}

/// The transfer of a row over the path of `transfer.tcl`, begun at `at`, with an acknowledgement for `every` packets.
fn transfer(row: &Row, window: u64, every: u32, at: Instant) -> FlowReport {
    let mut network = Network::new();
    let nodes = ["sender", "ug", "dg", "receiver"].map(|name| network.add_node(name).expect("new"));
    let lan = link(10, 1, 600);
    let back = link(6, 275, 600);
    let drops = row["drops"].split([' ', ',']).filter_map(|drop| drop.parse().ok()).collect();
    let there = LinkConfig { loss: LossModel::DropList(drops), ..back.clone() };
    network.add_link("up", nodes[0], nodes[1], lan.clone(), lan.clone()).expect("new");
    network.add_link("satellite", nodes[1], nodes[2], there, back).expect("new");
    network.add_link("down", nodes[2], nodes[3], lan.clone(), lan).expect("new");
    let phase = if row["variant"] == "vegas" { 142_047 } else { 5_558_807 };
    let config = agent(&row["variant"], 1460, window, Some(phase), 0);
    let config = Config { acks: AckPolicy { every, ..config.acks }, ..config };
    let start = Start { at, spread: Duration::ZERO };
    let flow = bulk("file".to_owned(), (nodes[0], nodes[3]), start, config, Some(685 * 1460));
    let mut simulation = Simulation::new(network, vec![flow], Settings::default()).expect("valid");
    simulation.run();
    simulation.report().flows[0].clone()
}

#[test]
fn a_transfer_with_given_losses_ends_as_in_ns2() {
    for row in rows("deterministic.csv") {
        let ours = transfer(&row, 500, 1, Instant::ZERO);
        let end = ours.end_s.expect("complete");
        assert!((end - number(&row, "received_s")).abs() < 1e-5, "{end} {row:?}");
        let counts = [ours.data_packets, ours.retransmissions, ours.rtos];
        let theirs = ["data", "rexmit", "rto"].map(|name| number(&row, name) as u64);
        assert_eq!(counts, theirs, "{row:?}");
    }
}

/// The requirement is 99 % of the runs within 1 %. As the events of an instant run in ns-2's order, every run is held to its
/// microseconds and counts (that of Vegas' timeouts includes expiries with nothing outstanding).
#[test]
fn transfers_with_delayed_acknowledgements_end_as_in_ns2() {
    compare_delayed("delayed_acks.csv", Duration::ZERO);
}

/// The same transfers, begun 10 s later, in which ns-2's sums have other last bits: 186 of them differ.
#[test]
fn transfers_with_delayed_acknowledgements_depend_on_their_start_as_in_ns2() {
    compare_delayed("delayed_acks_at_10s.csv", Duration::from_secs(10));
}

fn compare_delayed(file: &str, begun: Duration) {
    let runs = rows(file);
    assert_eq!(runs.len(), 500);
    let mut deviations = Vec::new();
    let mut within = 0;
    for row in runs {
        let ours = transfer(&row, number(&row, "window") as u64, 2, Instant::ZERO + begun);
        let end = ours.end_s.expect("complete") - begun.as_secs_f64();
        let theirs = number(&row, "received_s");
        within += u32::from((end / theirs - 1.0).abs() < 0.01);
        let counts =
            [ours.data_packets, ours.retransmissions] == ["data", "rexmit"].map(|name| number(&row, name) as u64);
        let has_timeouts = row["variant"] == "vegas" || ours.rtos == number(&row, "rto") as u64;
        if (end - theirs).abs() >= 1e-5 || !counts || !has_timeouts {
            deviations.push(format!("{} {} {}: {end} {theirs}", row["variant"], row["window"], row["drops"]));
        }
    }
    println!("{file}: within 1 %: {within}, equal: {} of 500", 500 - deviations.len());
    assert!(deviations.is_empty(), "{deviations:#?}");
}

/// What a timer sends is at the end of a link without delay at once.
#[test]
fn delayed_acknowledgements_pass_links_that_take_no_time() {
    let run = |hops: &[LinkConfig]| {
        let mut network = Network::new();
        let nodes: Vec<NodeId> =
            (0..=hops.len()).map(|number| network.add_node(&format!("n{number}")).expect("new")).collect();
        for (number, hop) in hops.iter().enumerate() {
            let back = LinkConfig { loss: LossModel::None, ..hop.clone() };
            network.add_link(&format!("l{number}"), nodes[number], nodes[number + 1], hop.clone(), back).expect("new");
        }
        let config = agent("sack", 1460, 100, Some(5_558_807), 0);
        let config = Config { acks: AckPolicy { every: 2, ..config.acks }, ..config };
        let start = Start { at: Instant::ZERO, spread: Duration::ZERO };
        let flow = bulk("file".to_owned(), (nodes[0], nodes[hops.len()]), start, config, Some(100 * 1460));
        let mut simulation = Simulation::new(network, vec![flow], Settings::default()).expect("valid");
        simulation.run();
        simulation.report().flows[0].clone()
    };
    let satellite = LinkConfig { loss: LossModel::DropList(vec![20, 40, 41]), ..link(6, 275, 600) };
    let wire = LinkConfig { rate: None, delay: Duration::ZERO, ..link(6, 275, 600) };
    let (alone, between) = (run(std::slice::from_ref(&satellite)), run(&[wire.clone(), satellite.clone(), wire]));
    assert!(alone.complete && alone.rtos + alone.retransmissions >= 3, "{alone:?}");
    let later = between.end_s.expect("complete") - alone.end_s.expect("complete");
    assert!(later.abs() < 1e-7 && between.data_packets == alone.data_packets, "{between:?} {alone:?}");
}

/// Shares in percent of the satellite's transfers, the terrestrial ones and UDP.
type Shares = [f64; 3];

/// The scenario of `shared_bottleneck.tcl`: that of `scenarios/papers/palermo`, with packets of 1,000 B and a satellite link of
/// 260 ms. Shares in each of the three periods of 2,000 s.
fn shared_bottleneck(variant: &str, seed: u64) -> [Shares; 3] {
    let settings =
        ["tcp.satellite.mss=960B", "tcp.terrestrial.mss=960B", "link.sat.delay=260ms", "record.interval=2000s"];
    let text = include_str!("../../../scenarios/papers/palermo/phases.toml");
    let experiment = scenario::load(text, "phases.toml", &settings.map(str::to_owned), &|_| Err(String::new()))
        .unwrap_or_else(|faults| panic!("{faults}"));
    let of_variant = experiment.scenarios.iter().find(|scenario| scenario.variant.as_deref() == Some(variant));
    let mut simulation = Simulation::of(of_variant.expect("a variant"), seed, true).expect("valid");
    simulation.run();
    // ns-2 counts packets with their headers, and Vegas' packets have none.
    let size = if variant == "vegas" { 1.0 } else { 1000.0 / 960.0 };
    let mut delivered = [[0.0; 3]; 3];
    for sample in simulation.take_flow_samples() {
        let group = (sample.flow as usize / 15).min(2);
        let period = (sample.at.as_secs_f64() / 2000.0).round() as usize;
        if (1..=3).contains(&period) && group < 2 {
            delivered[period - 1][group] += sample.delivered.as_u64() as f64 * size;
        }
    }
    let udp = simulation.report().flows[30].received_packets as f64 * 1000.0;
    let percent = |bytes: f64| bytes * 8.0 / 2000.0 / 2e6 * 100.0;
    let [first, second, third] = delivered;
    let difference = |later: Shares, earlier: Shares| [0, 1, 2].map(|group| percent(later[group] - earlier[group]));
    let mut shares = [difference(first, [0.0; 3]), difference(second, first), difference(third, second)];
    shares[2][2] = percent(udp);
    shares
}

/// Mean and standard deviation.
fn moments(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let square = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    (mean, square.sqrt())
}

/// What ns-2's seeds gave: by variant, period and group.
fn shares_of_ns2() -> BTreeMap<(String, usize), [Vec<f64>; 3]> {
    let mut shares: BTreeMap<(String, usize), [Vec<f64>; 3]> = BTreeMap::new();
    for row in rows("shares.csv") {
        let of_period = shares.entry((row["variant"].clone(), number(&row, "period") as usize)).or_default();
        for (values, name) in of_period.iter_mut().zip(["satellite_kbps", "terrestrial_kbps", "udp_kbps"]) {
            values.push(number(&row, name) / 20.0);
        }
    }
    shares
}

/// Runs so many seeds of each variant, prints their shares beside ns-2's, and demands that no mean is further from ns-2's than three
/// standard errors and a third of a percent. The seeds draw the starts of the transfers and the phases of their clocks; which flow
/// meets a full queue, and so UDP's share, depends much on them.
fn compare(seeds: u64) {
    let theirs = shares_of_ns2();
    let mut deviations = Vec::new();
    for variant in ["tahoe", "reno", "newreno", "sack", "vegas"] {
        let ours: Vec<[Shares; 3]> = (1..=seeds).map(|seed| shared_bottleneck(variant, seed)).collect();
        for period in 1..=3 {
            for (group, name) in ["satellite", "terrestrial", "UDP"].into_iter().enumerate() {
                let values: Vec<f64> = ours.iter().map(|shares| shares[period - 1][group]).collect();
                let (mean, deviation) = moments(&values);
                let samples = &theirs[&(variant.to_owned(), period)][group];
                let (expected, spread) = moments(samples);
                let line =
                    format!("{variant} {period} {name}: {mean:.1} ± {deviation:.1}, ns-2 {expected:.1} ± {spread:.1}");
                println!("{line}");
                let error = spread * (1.0 / seeds as f64 + 1.0 / samples.len() as f64).sqrt();
                if (mean - expected).abs() > 3.0 * error + 0.33 {
                    deviations.push(line);
                }
            }
        }
    }
    assert!(deviations.is_empty(), "{deviations:#?}");
}

#[test]
fn flows_share_a_bottleneck_as_in_ns2() {
    compare(1);
}

#[test]
#[ignore = "some minutes: all seeds of the recorded runs"]
fn flows_share_a_bottleneck_as_in_ns2_over_20_seeds() {
    compare(20);
}

/// The path of `transfer.tcl`, which loses the first packet with data.
const LOSES_THE_FIRST: &str = r#"
version = 1
nodes = ["sender", "ug", "dg", "receiver"]

[[link]]
name = "up"
between = ["sender", "ug"]
rate = "10Mbit/s"
delay = "1ms"
queue = "600packets"

[[link]]
name = "sat"
between = ["ug", "dg"]
rate = "6Mbit/s"
delay = "275ms"
queue = "600packets"
forward = { loss = { drop_list = [1] } }

[[link]]
name = "down"
between = ["dg", "receiver"]
rate = "10Mbit/s"
delay = "1ms"
queue = "600packets"

[tcp.agent]
preset = "reno"
profile = "ns2"
receive_buffer = "500segments"

[[flow]]
name = "file"
from = "sender"
to = "receiver"
tcp = "agent"
bulk = { size = "1000100B" }
"#;

/// When the transfer has ended with each of these seeds.
fn ends(settings: &[&str], seeds: std::ops::RangeInclusive<u64>) -> Vec<f64> {
    let settings: Vec<String> = settings.iter().map(|setting| (*setting).to_owned()).collect();
    let experiment = scenario::load(LOSES_THE_FIRST, "loses.toml", &settings, &|_| Err(String::new()))
        .unwrap_or_else(|faults| panic!("{faults}"));
    let end = |seed| {
        let mut simulation = Simulation::of(&experiment.scenarios[0], seed, false).expect("valid");
        simulation.run();
        simulation.report().flows[0].end_s.expect("complete")
    };
    seeds.map(end).collect()
}

/// `ns transfer.tcl v=reno drop=1`, ns-2 2.35.
#[test]
fn the_phase_of_the_clock_can_be_that_of_ns2() {
    let found = ends(&["tcp.agent.tuning.clock_phase=5558807ns"], 1..=3);
    assert!(found.iter().all(|end| (end - 23.218_328).abs() < 1e-5), "{found:?}");
}

/// A round-trip time between two counts of ticks is rounded up or down with the phase: the timeouts differ by as much.
#[test]
fn the_seed_draws_the_phase_of_the_clock() {
    let found = ends(&[], 1..=40);
    assert_eq!(found, ends(&[], 1..=40));
    let (least, greatest) =
        found.iter().fold((f64::MAX, 0.0_f64), |(least, most), end| (least.min(*end), most.max(*end)));
    assert!(least < 23.219 && greatest > 23.77, "{found:?}");
}
