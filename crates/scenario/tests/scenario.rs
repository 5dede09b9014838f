//! The scenario format: what it accepts, and what it says about what it does not.

use ::scenario::{
    Application, Distribution, Experiment, Random, Routing, Scenario, Traffic, Transfer, Transport, UnderWay,
    json_schema, load, reference,
};
use link::{LossModel, QueueLimit};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::Value as Json;
use std::path::{Path, PathBuf};
use units::{Bytes, Duration, Instant, Rate};

const SMALL: &str = r#"
version = 1
nodes = ["a", "b", "c"]
[[link]]
name = "ab"
between = ["a", "b"]
rate = "10Mbit/s"
delay = "10ms"
queue = { packets = 100 }
[[link]]
name = "sat"
between = ["b", "c"]
rate = "6Mbit/s"
delay = "275ms"
queue = "64packets"
loss = 1e-3
forward = { rate = "2Mbit/s", queue = "2BDP" }
[[flow]]
name = "file"
from = "a"
to = "c"
bulk = { size = "1MB", direction = "down" }
[[flow]]
name = "voice"
from = "a"
to = "c"
count = 2
start = { at = "1s", every = "100ms", spread = "50ms" }
udp = { rate = "64kbit/s", packet_size = "200B" }
[stop]
time = "20s"
"#;

/// [`SMALL`] with hosts beside its ends, which are a pair of gateways with the keys `settings`.
fn with_pair(settings: &str) -> String {
    let small = SMALL
        .replace(r#"["a", "b", "c"]"#, r#"["a", "b", "c", "client", "server"]"#)
        .replace("from = \"a\"\nto = \"c\"", "from = \"client\"\nto = \"server\"");
    let link = |[a, b]: [&str; 2]| format!("[[link]]\nname = \"{a}-{b}\"\nbetween = [\"{a}\", \"{b}\"]\n");
    let links = [["client", "a"], ["c", "server"]].map(link).concat();
    format!("{small}{links}[[gateway]]\nname = \"pair\"\nnodes = [\"a\", \"c\"]\n{settings}\n")
}

fn no_files(name: &str) -> Result<String, String> {
    Err(format!("{name}: there are no files here"))
}

fn read(text: &str, overrides: &[&str]) -> Result<Experiment, Vec<String>> {
    let overrides: Vec<_> = overrides.iter().map(|text| (*text).to_owned()).collect();
    load(text, "test.toml", &overrides, &no_files).map_err(|faults| faults.0)
}

fn accepted(text: &str, overrides: &[&str]) -> Scenario {
    let experiment = read(text, overrides).unwrap_or_else(|faults| panic!("{faults:#?}"));
    experiment.scenarios.into_iter().next().unwrap()
}

fn faults(text: &str, overrides: &[&str]) -> Vec<String> {
    read(text, overrides).map(|_| ()).expect_err("there are faults")
}

#[test]
fn a_scenario_becomes_a_network_and_flows() {
    let scenario = accepted(SMALL, &[]);
    let directions = scenario.network.directions();
    let sat = scenario.network.link("sat").unwrap();
    let (there, back) = (&directions[sat.index()].config, &directions[sat.reverse().index()].config);
    assert_eq!((there.rate, back.rate), (Some(Rate::from_bps(2_000_000)), Some(Rate::from_bps(6_000_000))));
    // Twice 2 Mbit/s times 550 ms.
    assert_eq!(there.queue, QueueLimit::Bytes(Bytes::new(275_000)));
    assert_eq!(back.queue, QueueLimit::Packets(64));
    assert!(matches!(there.loss, LossModel::Bernoulli(p) if p.as_f64() == 1e-3));
    let streams: std::collections::BTreeSet<_> = directions.iter().map(|direction| direction.config.stream).collect();
    assert_eq!(streams.len(), 4, "every direction draws its own losses");
    let names: Vec<_> = scenario.flows.iter().map(|flow| flow.name.as_str()).collect();
    assert_eq!(names, ["file", "voice-1", "voice-2"]);
    assert_eq!(scenario.groups[..], ["file", "voice", "voice"]);
    assert_eq!(scenario.flows[2].start.at, Instant::ZERO + Duration::from_millis(1100));
    assert_eq!(scenario.flows[2].start.spread, Duration::from_millis(50));
    let Traffic::Tcp { client, application, .. } = &scenario.flows[0].traffic else { panic!("a file goes over TCP") };
    assert_eq!((client.recovery.name, client.control.name), ("sack", "reno"));
    let transfer = Transfer::Download { request: Bytes::new(100) };
    assert_eq!(*application, Application::Bulk { size: Some(Bytes::new(1_000_000)), transfer });
    assert_eq!(scenario.seeds, 1..=1);
}

/// The delay that a handover or steps give counts wherever one figure stands for the link.
#[test]
fn queues_and_routes_follow_the_nominal_delay_of_a_link() {
    let of = |delays: &str| {
        let text = format!(
            "version = 1\nnodes = [\"c\", \"s\"]\n\
            [[link]]\nname = \"leo\"\nbetween = [\"c\", \"s\"]\nrate = \"50Mbit/s\"\nqueue = \"1BDP\"\n{delays}\n\
            [[link]]\nname = \"fibre\"\nbetween = [\"c\", \"s\"]\ndelay = \"15ms\"\n\
            [[flow]]\nname = \"f\"\nfrom = \"c\"\nto = \"s\"\nbulk = {{ size = \"1MB\" }}\n[stop]\ntime = \"10s\"\n"
        );
        let network = accepted(&text, &[]).network;
        let [client, server] = ["c", "s"].map(|name| network.node(name).unwrap());
        let first = network.path(client, server).unwrap()[0];
        let leo = network.link("leo").unwrap();
        (network.directions()[leo.index()].config.queue, network.directions()[first.index()].link.clone())
    };
    let product =
        |millis: u64| QueueLimit::Bytes(Rate::from_bps(50_000_000).bytes_in(Duration::from_millis(2 * millis)));
    let handover = "handover = { period = \"15s\", delay = [\"20ms\", \"40ms\"] }";
    let steps = "delay_steps = { steps = [[\"0s\", \"30ms\"], [\"10s\", \"1ms\"]] }";
    for delays in [handover, steps] {
        assert_eq!(of(delays), (product(30), "fibre".to_owned()), "{delays}");
        assert_eq!(of(&format!("delay = \"10ms\"\n{delays}")), (product(10), "leo".to_owned()), "{delays}");
    }
    let later = "delay_steps = { steps = [[\"1s\", \"30ms\"]] }";
    assert_eq!(of(later).1, "leo", "without a delay until the first step");
    assert_eq!(of(&format!("delay = \"20ms\"\n{later}")), (product(20), "fibre".to_owned()));
}

#[test]
fn every_fault_is_reported_at_once_with_place_key_and_what_would_fit() {
    let text = r#"
versoin = 1
nodes = ["a", "b", "b", "isle", "7"]
[[link]]
name = "ab"
between = ["a", "bb"]
rate = "0bit/s"
delay = 10
loss = { bernouli = 1e-3 }
[[link]]
name = "ab"
between = ["a", "a"]
duplicate = 1.5
forward = { rte = "1Mbit/s" }
[[link]]
name = "slow"
between = ["a", "b"]
rate = "1Mbit/s"
[[flow]]
name = "f"
from = "a"
to = "x"
udp = { rate = "6Mbits", packet_size = "20B" }
ping = {}
[[flow]]
name = "g"
from = "a"
to = "b"
[[flow]]
name = "h"
from = "a"
to = "b"
tcp = "cubik"
start = true
bulk = { direction = "left" }
[tcp.mine]
recovery = "reno"
mss = "1B"
[seeds]
count = 0
[record]
flows = ["ff"]
packets = ["a", "z"]
interval = "0s"
"#;
    let faults = faults(text, &["link.abb.rate=1Mbit/s", "seeds.first=x", "nonsense", "stop.tme=1s"]);
    let expected = [
        "test.toml:1:1: version is missing: expected 1",
        "test.toml:2:1: versoin: unknown key; did you mean version?",
        "test.toml:3:20: nodes: there is another node called b",
        "test.toml:3:33: nodes.4 = \"7\": it is not a name of letters, digits, - and _, at most 48, not digits alone",
        "test.toml:6:17: link.ab.between: there is no node called bb; did you mean b?",
        "test.toml:7:8: link.ab.rate = \"0bit/s\": it is not above 0bit/s and at most 1Tbit/s",
        "test.toml:8:9: link.ab.delay = 10: expected a time, such as \"550ms\" or \"0s\"",
        "test.toml:9:10: link.ab.loss.bernouli: unknown key; did you mean bernoulli?",
        "test.toml:11:8: link.ab: there is another link of this name",
        "test.toml:12:17: link.ab.between: a link joins two nodes, not one to itself",
        "test.toml:13:13: link.ab.duplicate = 1.5: expected a number from 0 to 1",
        "test.toml:14:13: link.ab.forward.rte: unknown key; did you mean rate?",
        "test.toml:18:8: link.slow: a link with a rate needs `queue`",
        "test.toml:19:1: flow.f: expected exactly one of bulk, on_off, request_response, udp, ping; there is udp and ping",
        "test.toml:22:6: flow.f.to: there is no node called x",
        "test.toml:23:16: flow.f.udp.rate = \"6Mbits\": `6Mbits` is not a rate",
        "test.toml:25:1: flow.g: expected exactly one of bulk, on_off, request_response, udp, ping; there is none",
        "test.toml:33:7: flow.h.tcp: there is no preset and no [tcp.cubik]; did you mean cubic?",
        "test.toml:34:9: flow.h.start = true: expected a time, such as \"550ms\" or \"0s\", or a table of at, every, spread",
        "test.toml:35:22: flow.h.bulk.direction = \"left\": expected \"up\", \"down\"",
        "test.toml:38:7: tcp.mine.mss: 1B is not from 64B to 65000B",
        "test.toml:40:9: seeds.count = 0: expected an integer from 1 to 1000000",
        "test.toml:42:10: record.flows: there is no flow called ff; did you mean f?",
        "test.toml:43:17: record.packets: there is no node called z",
        "test.toml:44:12: record.interval = \"0s\": it is not above 0s",
        "--set link.abb.rate=1Mbit/s: link.abb: there is no link called abb; did you mean ab?",
        "--set seeds.first=x: seeds.first = \"x\": expected an integer of at least 0",
        "--set nonsense: expected KEY=VALUE",
        "--set stop.tme=1s: stop.tme: unknown key; did you mean time?",
    ];
    for expected in expected {
        assert!(faults.iter().any(|fault| fault.starts_with(expected)), "{expected}\n{faults:#?}");
    }
    assert_eq!(faults.len(), expected.len(), "{faults:#?}");
}

/// What is not TOML is refused with the setting, and with what may be meant.
#[test]
fn syntax_errors_name_their_setting() {
    for (from, to, expected) in [
        (
            "\"275ms\"",
            "275ms",
            "test.toml:14:9: link.sat.delay: string values must be quoted, expected literal string; a quantity with a unit is a text: \"275ms\"",
        ),
        (
            "\"275ms\"",
            "",
            "test.toml:14:9: link.sat.delay: string values must be quoted, expected literal string; there is no value behind the `=`",
        ),
        (
            "\"275ms\"",
            "\"275ms\"\ndelay = \"1s\"",
            "test.toml:15:1: link.sat.delay: duplicate key; it is set in line 14 already",
        ),
        ("[stop]", "[stop]\n[stop]", "test.toml:31:2: stop: duplicate key; it is set in line 30 already"),
        (
            "1e-3",
            ".5",
            "test.toml:16:8: link.sat.loss: invalid mantissa, expected digits; a number begins with a digit: 0.5",
        ),
        ("\"down\"", "down", "test.toml:22:36: flow.file.bulk: string values must be quoted, expected literal string"),
    ] {
        assert_eq!(faults(&SMALL.replacen(from, to, 1), &[]), [expected], "{from} as {to}");
    }
}

#[test]
fn numbers_that_nothing_takes_are_refused_with_their_key() {
    let text = SMALL.replace("1e-3", "nan").replace("count = 2", "count = 99999999999999999999");
    let faults = faults(&text, &["link.ab.rate=inf"]);
    assert!(faults[0].starts_with("test.toml:16:8: link.sat.loss = nan: expected a number from 0 to 1"), "{faults:?}");
    let count = "flow.voice.count = 99999999999999999999: expected an integer from 1 to 1000000";
    assert!(faults[1].ends_with(count), "{faults:?}");
    assert!(faults[2].starts_with("--set link.ab.rate=inf: link.ab.rate = inf: expected a rate"), "{faults:?}");
}

#[test]
fn what_is_far_away_is_not_guessed_and_long_names_are_cut() {
    let to = |name: &str| faults(SMALL, &[&format!("flow.file.to={name}")]).remove(0);
    assert!(to("d").ends_with("there is no node called d; known are a, b, c"), "{}", to("d"));
    assert!(to("aa").ends_with("did you mean a?"), "{}", to("aa"));
    let long = "x".repeat(10_000);
    assert!(to(&long).len() < 400, "{}", to(&long));
    assert!(faults(SMALL, &[&format!("flow.{long}.count=1")])[0].len() < 400);
}

#[test]
fn a_queue_or_a_window_with_another_unit_is_answered_with_all_its_forms() {
    let queue = faults(SMALL, &["link.sat.forward.queue=1bdp"]).remove(0);
    assert!(queue.ends_with("write for example 1MB, 100packets, 1BDP or unlimited"), "{queue}");
    let window = faults(SMALL, &["tcp.mine.initial_window=3packets"]).remove(0);
    assert!(window.ends_with("write for example 1MB or 20segments"), "{window}");
}

#[test]
fn names_that_stand_twice_in_a_list_are_refused() {
    let twice = faults(SMALL, &["record.packets=[\"a\", \"c\", \"a\"]"]);
    assert!(twice[0].ends_with("record.packets: a is there already"), "{twice:?}");
}

#[test]
fn a_flow_that_no_links_carry_is_refused() {
    let island = SMALL
        .replace("\"c\"]\n[[link]]", "\"c\", \"isle\"]\n[[link]]")
        .replace("to = \"c\"\ncount", "to = \"isle\"\ncount");
    assert_eq!(faults(&island, &[]), ["test.toml:23:1: flow.voice: no links lead from a to isle"]);
    assert_eq!(faults(SMALL, &["flow.file.to=a"]), ["--set flow.file.to=a: flow.file: `from` and `to` are one node"]);
}

#[test]
fn overrides_replace_single_settings_and_take_quantities_without_quotes() {
    let scenario = accepted(
        SMALL,
        &[
            "link.sat.loss=0",
            "link.sat.reverse.rate = 3Mbit/s",
            "flow.file.bulk.size=5MB",
            "flow.1.count=3",
            "flow.file.tcp=mine",
            "tcp.mine.control=cubic",
            "tcp.mine.initial_window=3segments",
            "seeds.count=4",
        ],
    );
    let sat = scenario.network.link("sat").unwrap();
    assert_eq!(scenario.network.directions()[sat.index()].config.loss, LossModel::None);
    assert_eq!(scenario.network.directions()[sat.reverse().index()].config.rate, Some(Rate::from_bps(3_000_000)));
    assert_eq!(scenario.flows.len(), 4);
    assert_eq!(scenario.seeds, 1..=4);
    let Traffic::Tcp { client, .. } = &scenario.flows[0].traffic else { panic!("a file goes over TCP") };
    assert_eq!((client.control.name, client.initial_window), ("cubic", 3.0));
    // A model takes the place of another, and of a plain probability.
    let burst = accepted(SMALL, &["link.sat.loss.gilbert_elliott={ p = 0.1, r = 0.5, loss_bad = 1.0 }"]);
    assert!(matches!(burst.network.directions()[2].config.loss, LossModel::GilbertElliott(_)));
}

#[test]
fn a_fault_of_an_override_says_how_its_value_is_written() {
    for (given, says) in [
        ("link.sat.loss=\"0.1\"", "; a number is written without quotes: 0.1"),
        ("link.sat.loss=nome", "expected a number from 0 to 1, or \"none\""),
        ("link.sat.discipline=codel", "; codel is written as { codel = { … } }"),
        ("version=1.0", "version = 1.0: expected 1"),
        ("link.sat=", "there is no value behind the `=`: expected link.sat=VALUE; an empty text is \"\""),
        ("flow.file.bulk.size=\"0B\"", "it is not above 0B and at most 1048576GiB"),
    ] {
        let faults = faults(SMALL, &[given]);
        assert!(faults.len() == 1 && faults[0].contains(says), "{given}: {faults:#?}");
    }
    accepted(SMALL, &["link.sat.discipline={ codel = {} }"]);
}

#[test]
fn settings_are_given_as_they_are_written_with_overrides() {
    let overrides = ["link.sat.loss.bernoulli=0.5".to_owned(), "stop.time=9s".to_owned()];
    let settings = ::scenario::settings(SMALL, "test.toml", &overrides).unwrap();
    assert_eq!((&settings["stop"]["time"], &settings["link"][0]["rate"]), (&"9s".into(), &"10Mbit/s".into()));
    assert_eq!(settings["link"][1]["loss"]["bernoulli"], 0.5);
    let faults = ::scenario::settings(SMALL, "test.toml", &["link.moon.loss=1".to_owned()]).unwrap_err().0;
    assert!(faults[0].starts_with("--set link.moon.loss=1: "), "{faults:?}");
}

#[test]
fn a_link_that_is_replaced_by_no_table_is_called_by_its_name() {
    let faults = faults(SMALL, &["link.sat=3"]);
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].starts_with("--set link.sat=3: link.sat = 3: expected a table of acks"), "{faults:?}");
}

#[test]
fn a_flow_that_stops_before_it_starts_is_refused() {
    for (start, stop) in [("2s", "1s"), ("2s", "2s")] {
        let faults = faults(SMALL, &[&format!("flow.file.start={start}"), &format!("flow.file.stop={stop}")]);
        let expected =
            format!("flow.file.stop = {stop}: it would send nothing: expected a time after its start, {start}");
        assert!(faults.len() == 1 && faults[0].contains(&expected), "{faults:?}");
    }
    accepted(SMALL, &["flow.file.start=2s", "flow.file.stop=3s"]);
}

#[test]
fn variants_change_settings_by_path_or_in_tables_and_overrides_come_last() {
    let text = SMALL.to_owned()
        + "[variants.lossy]\n\"link.sat.loss\" = { bit_error_rate = 1e-6 }\n\"flow.voice.count\" = 1\n\
           [variants.nested.flow.file]\nbulk.size = \"9MB\"\ntcp = \"vegas\"\n[variants.plain]\n";
    let experiment = read(&text, &["flow.voice.count=5"]).unwrap();
    let names: Vec<_> = experiment.scenarios.iter().map(|scenario| scenario.variant.as_deref().unwrap()).collect();
    assert_eq!(names, ["lossy", "nested", "plain"]);
    let [lossy, nested, plain] = &experiment.scenarios[..] else { panic!("three variants") };
    assert!(matches!(lossy.network.directions()[2].config.loss, LossModel::BitErrorRate(_)));
    assert!(experiment.scenarios.iter().all(|scenario| scenario.flows.len() == 6));
    let Traffic::Tcp { client, application, .. } = &nested.flows[0].traffic else { panic!("TCP") };
    assert_eq!(client.control.name, "vegas");
    // What the table does not name stays.
    let transfer = Transfer::Download { request: Bytes::new(100) };
    assert_eq!(*application, Application::Bulk { size: Some(Bytes::new(9_000_000)), transfer });
    assert!(matches!(plain.network.directions()[2].config.loss, LossModel::Bernoulli(_)));
    let wrong = text.replace("vegas", "vega").replace("bit_error_rate = 1e-6", "bit_error_rate = 2");
    let faults = faults(&wrong, &[]);
    assert_eq!(faults.len(), 2, "{faults:#?}");
    assert!(faults[0].contains("link.sat.loss.bit_error_rate = 2: expected a number from 0 to 1"), "{faults:#?}");
}

#[test]
fn of_two_forms_of_one_setting_in_one_table_one_is_to_be_kept() {
    let both = ["link.sat.loss={ bernoulli = 1e-3, bit_error_rate = 1e-6 }"];
    let faults = faults(SMALL, &both);
    let [fault] = &faults[..] else { panic!("{faults:#?}") };
    assert!(
        fault.ends_with("link.sat.loss.bit_error_rate: it cannot stand beside bernoulli: keep one of them"),
        "{fault}"
    );
}

#[test]
fn overrides_change_what_the_experiment_is_called() {
    let text = format!("name = \"old\"\n{SMALL}");
    let experiment = read(&text, &["name=new", "about=Two words."]).unwrap();
    assert_eq!((experiment.name.as_deref(), experiment.about.as_deref()), (Some("new"), Some("Two words.")));
    let line = "a text of one line without control characters";
    assert_eq!(faults(&text, &["name=3"]), [format!("--set name=3: name = 3: expected {line}")]);
    for hostile in [r"\u001b]0;mine\u0007", r"two\nlines", r"\u009b2J"] {
        let [fault] = &faults(&format!("name = \"{hostile}\"\n{SMALL}"), &[])[..] else { panic!("{hostile}") };
        assert!(fault.ends_with(line) && !fault.contains(char::is_control), "{fault:?}");
    }
}

#[test]
fn faults_of_a_variant_name_it_and_those_of_the_file_do_not() {
    let variants = "[variants.clash]\n\"link.sat.name\" = \"ab\"\n[variants.twice]\n\"link.sat.loss\" = 0\n\
                    link.sat.loss = 0.5\n[variants.sound]\n";
    let found = faults(&(SMALL.to_owned() + variants), &[]);
    let ends =
        ["link.ab: there is another link of this name (variant clash)", "link.sat.loss is set twice (variant twice)"];
    assert_eq!(found.len(), ends.len(), "{found:#?}");
    assert!(found.iter().zip(ends).all(|(fault, end)| fault.ends_with(end)), "{found:#?}");
    let of_all = faults(&(SMALL.replace("\"10ms\"", "\"10\"") + "[variants.a]\n[variants.b]\n"), &[]);
    assert!(of_all.len() == 1 && !of_all[0].contains("variant"), "{of_all:#?}");
    let of_some = SMALL.to_owned() + "[variants.a]\n\"flow.file.to\" = \"d\"\n[variants.b]\nflow.file.from = \"a\"\n";
    let of_some = faults(&of_some, &["stop.time=0s"]);
    assert!(of_some[0].ends_with("(variant a)") && !of_some[1].contains("variant"), "{of_some:#?}");
    let overridden = faults(&(SMALL.to_owned() + "[variants.a]\n"), &["variants.a.stop.time=1s"]);
    assert!(overridden[0].contains("a setting holds for all variants"), "{overridden:#?}");
}

/// What a variant leaves as it is comes from the file as it stands; the result is as if it had been read again.
#[test]
fn a_variant_is_the_same_as_its_settings_one_by_one() {
    let base = with_pair("") + "[tcp.mine]\npreset = \"sack\"\n[record]\nflows = [\"file\"]\n";
    for changes in [
        &["link.sat.loss=0.5"][..],
        &["link.ab.delay=\"1s\"", "flow.voice.count=5"],
        &["tcp.mine.preset=\"cubic\"", "flow.file.tcp=\"mine\""],
        &["record.packets=[\"b\"]"],
        &["record.flows=[]", "stop.time=\"1min\"", "seeds.count=3"],
        &["gateway.pair.transport=\"tcp\""],
        &["gateway=[]"],
        &["nodes=[\"server\", \"c\", \"b\", \"a\", \"client\"]"],
        &["link.sat.name=\"satellite\""],
        &[],
    ] {
        let lines: Vec<_> = changes.iter().filter_map(|change| change.split_once('=')).collect();
        let lines: String = lines.iter().map(|(key, value)| format!("\"{key}\" = {value}\n")).collect();
        let mut variant = accepted(&format!("{base}[variants.v]\n{lines}"), &[]);
        assert_eq!(variant.variant.take().as_deref(), Some("v"));
        assert_eq!(format!("{variant:?}"), format!("{:?}", accepted(&base, changes)), "{changes:?}");
    }
}

/// The table of a preset's name changes the preset; without it the preset is there again, and a name of its own is gone.
#[test]
fn a_variant_without_the_tables_of_the_file_has_the_presets() {
    let tables = "[tcp.cubic]\ninitial_window = \"1segments\"\n[tcp.mine]\npreset = \"cubic\"\n";
    let base = SMALL.replace("bulk = ", "tcp = \"cubic\"\nbulk = ") + tables;
    let variant = |setting: &str| format!("{base}[variants.v]\n{setting}\n");
    let mut found = accepted(&variant("\"tcp\" = []"), &[]);
    found.variant = None;
    assert_eq!(format!("{found:?}"), format!("{:?}", accepted(&base, &["tcp=[]"])));
    let gone = faults(&variant("\"tcp\" = []\n\"flow.file.tcp\" = \"mine\""), &[]);
    assert!(gone.iter().any(|fault| fault.contains("mine")), "{gone:?}");
}

/// The time grows with their number, not with its square: so many would take minutes.
#[test]
fn twenty_thousand_variants_are_read_in_one_go() {
    let mut text = SMALL.to_owned();
    for number in 0..20_000 {
        text.push_str(&format!("[variants.v{number}]\n\"link.sat.loss\" = {}\n", f64::from(number) * 1e-5));
    }
    let experiment = read(&text, &[]).unwrap();
    assert_eq!(experiment.scenarios.len(), 20_000);
    let loss = |number: usize| experiment.scenarios[number].network.directions()[2].config.loss.clone();
    assert!(
        matches!(loss(12_345), LossModel::Bernoulli(p) if (p.as_f64() - 0.12345).abs() < 1e-12),
        "{:?}",
        loss(12_345)
    );
}

#[test]
fn an_empty_list_takes_a_setting_away() {
    let text = SMALL
        .replace("[stop]", "[record]\npackets = [\"a\"]\n[stop]")
        .replace("delay = \"10ms\"", "delay = \"10ms\"\nrate_steps = { steps = [[\"1s\", \"1Mbit/s\"]] }");
    let steps = |changes: &[&str]| accepted(&text, changes).network.directions()[0].config.rate_steps.clone();
    assert!(steps(&[]).is_some());
    assert!(steps(&["link.ab.rate_steps=[]"]).is_none() && steps(&["link.ab.rate_steps.steps=[]"]).is_none());
    assert!(accepted(&text, &["record.packets=[]"]).settings.record.packets_at.is_empty());
    let required = faults(&text, &["link=[]"]);
    assert!(required.iter().any(|fault| fault.contains("link = []: expected a list of at least 1")), "{required:?}");
}

#[test]
fn what_ledbat_does_not_begin_with_is_refused() {
    for (setting, expected) in [
        (
            "tcp.ledbat={ initial_window = \"10segments\" }",
            "tcp.ledbat.initial_window: ledbat begins with at most 2 segments",
        ),
        (
            "tcp.x={ control = \"ledbat-plus-plus\", initial_window = \"3segments\" }",
            "ledbat-plus-plus begins with at most 2 segments",
        ),
        (
            "tcp.ledbat={ initial_ssthresh = \"20segments\" }",
            "tcp.ledbat.initial_ssthresh: ledbat begins without slow start",
        ),
        (
            "quic.ledbat={ initial_window = \"10segments\" }",
            "quic.ledbat.initial_window: ledbat begins with at most 2 segments",
        ),
    ] {
        let found = faults(SMALL, &[setting]);
        assert!(found.iter().any(|fault| fault.contains(expected)), "{setting}: {found:?}");
    }
    accepted(SMALL, &["tcp.ledbat={ initial_window = \"2segments\" }"]);
    // An idle time ends with the window that the connection began with.
    let ledbat = accepted(SMALL, &["flow.file.tcp=ledbat"]);
    let Traffic::Tcp { client, .. } = &ledbat.flows[0].traffic else { panic!("a file goes over TCP") };
    assert_eq!(client.initial_window, 2.0);
}

/// It would be offered by neither end.
#[test]
fn sack_is_not_asked_for_beside_a_recovery_that_does_not_read_it() {
    let found = faults(SMALL, &["tcp.newreno={ sack = true }"]);
    assert!(found[0].contains("tcp.newreno.sack: recovery newreno does not read it"), "{found:?}");
    for setting in ["tcp.newreno={ sack = false }", "tcp.sack={ sack = true }"] {
        accepted(SMALL, &[setting]);
    }
}

/// A stranger's file does not write to the terminal as it likes.
#[test]
fn control_characters_of_names_are_escaped_in_faults() {
    let text = format!("{SMALL}\n[variants.\"\\u001b[2Jx\\nfile.toml: all is well\"]\nfoo = 1\n");
    let found = faults(&text, &[]);
    assert!(found.iter().any(|fault| fault.contains("\\u{1b}[2Jx\\n")), "{found:?}");
    assert!(found.iter().all(|fault| !fault.contains(char::is_control)), "{found:?}");
}

/// What an upload would not send is no part of it.
#[test]
fn a_request_is_of_downloads() {
    let of = |bulk: &str| SMALL.replacen("bulk = { size = \"1MB\", direction = \"down\" }", bulk, 1);
    accepted(&of("bulk = { direction = \"down\", request = \"200B\" }"), &[]);
    accepted(&of("bulk = { request = \"100B\" }"), &[]);
    let found = faults(&of("bulk = { request = \"200B\" }"), &[]);
    assert!(found[0].contains("`request` is of downloads: add direction = \"down\""), "{found:?}");
}

/// Handovers alone make nothing wait; with a rate they do, and RED knows its middle.
#[test]
fn a_link_with_handovers_needs_a_queue_if_they_draw_a_rate() {
    let of = |handover: &str, more: &str| {
        SMALL.replacen(
            "rate = \"10Mbit/s\"\ndelay = \"10ms\"\nqueue = { packets = 100 }",
            &format!("handover = {{ period = \"15s\", delay = [\"20ms\", \"40ms\"]{handover} }}\n{more}"),
            1,
        )
    };
    assert_eq!(accepted(&of("", ""), &[]).network.directions()[0].config.queue, QueueLimit::Unlimited);
    let rates = ", rate = [\"1Mbit/s\", \"3Mbit/s\"]";
    // 2 Mbit/s for 60 ms, whatever `rate` says beside.
    for beside in ["", "rate = \"10Mbit/s\"\n"] {
        let sized = accepted(&of(rates, &format!("{beside}queue = \"1BDP\"")), &[]);
        assert_eq!(sized.network.directions()[0].config.queue, QueueLimit::Bytes(Bytes::new(15_000)), "{beside}");
    }
    let found = faults(&of(rates, ""), &[]);
    assert!(found[0].contains("test.toml:7:12: link.ab: a link with a rate needs `queue`"), "{found:?}");
    let red = "queue = \"100packets\"\ndiscipline = { red = { min = \"10kB\", max = \"30kB\" } }";
    accepted(&of(rates, red), &[]);
    assert!(faults(&of("", red), &[])[0].contains("it needs `rate` or `handover.rate`"));
}

/// Steps that a variant or a sweep gives a link with a trace would have no effect.
#[test]
fn values_and_a_file_for_them_are_a_fault_until_one_is_taken_away() {
    let of_file =
        |key: &str| SMALL.replacen("delay = \"10ms\"", &format!("delay = \"10ms\"\n{key} = {{ file = \"rain\" }}"), 1);
    let delays = of_file("delay_steps");
    let both = "link.ab.delay_steps.steps=[[\"1s\", \"5ms\"]]";
    let found = faults(&delays, &[both]);
    assert!(
        found.iter().any(|fault| fault.contains("`delay_steps.file`: rain: there are values beside the file")),
        "{found:?}"
    );
    let scenario = accepted(&delays, &[both, "link.ab.delay_steps.file=[]"]);
    assert_eq!(scenario.network.directions()[0].config.delay_steps.as_ref().unwrap().steps.len(), 1);
    let recorded = of_file("opportunities").replacen("rate = \"10Mbit/s\"\n", "", 1);
    let found = faults(&recorded, &["link.ab.opportunities.millis=[1]"]);
    assert!(
        found.iter().any(|fault| fault.contains("`opportunities.file`: rain: there are values beside the file")),
        "{found:?}"
    );
}

/// A table that bears a preset's name is that preset.
#[test]
fn a_table_with_the_name_of_a_preset_takes_it_or_is_refused() {
    let names = |changes: &[&str]| {
        let scenario = accepted(SMALL, &[changes, &["flow.file.tcp=bbr"]].concat());
        let Traffic::Tcp { client, .. } = &scenario.flows[0].traffic else { panic!("TCP") };
        (client.recovery.name, client.control.name, client.profile)
    };
    assert_eq!(names(&["tcp.bbr.profile=linux"]), ("rack", "bbr1", tcp::Profile::Linux));
    assert_eq!(names(&["tcp.bbr.recovery=sack"]), ("sack", "bbr1", tcp::Profile::Rfc));
    for (change, key) in [
        ("tcp.bbr.control=reno", "tcp.bbr.control: "),
        ("tcp.cubic.preset=reno", "tcp.cubic.preset: "),
        ("tcp.reno.recovery=sack", "tcp.reno.recovery: "),
    ] {
        let faults = faults(SMALL, &[change]);
        assert!(faults[0].contains(key) && faults[0].ends_with("call the table otherwise"), "{faults:?}");
    }
}

#[test]
fn a_receive_buffer_may_have_its_largest_size_alone() {
    let scenario = accepted(SMALL, &["tcp.x.receive_buffer_max=6MiB", "flow.file.tcp=x"]);
    let Traffic::Tcp { client, .. } = &scenario.flows[0].traffic else { panic!("TCP") };
    assert_eq!((client.receive_buffer.size, client.receive_buffer.most), (Bytes::new(6 << 20), Bytes::new(6 << 20)));
}

/// What only the simulator would find is found with the file.
#[test]
fn endpoints_that_cannot_be_are_refused_with_their_line() {
    let vegas = faults(&(SMALL.to_owned() + "[tcp.x.tuning]\nvegas = [9, 2, 1]\n"), &[]);
    assert_eq!(vegas, ["test.toml:33:9: tcp.x.tuning.vegas: beta must be alpha or more, not 2"]);
    let lost = faults(SMALL, &["tcp.x.control=cross-layer"]);
    assert!(lost[0].contains("tcp.x.control: control `cross-layer` needs the link's capacity"), "{lost:?}");
    let preset = faults(SMALL, &["flow.file.tcp=cross-layer"]);
    assert!(preset[0].contains("flow.file.bulk: `client`: control `cross-layer` needs"), "{preset:?}");
}

#[test]
fn a_rate_may_be_a_terabit() {
    let scenario = accepted(SMALL, &["link.ab.rate=1Tbit/s"]);
    assert_eq!(scenario.network.directions()[0].config.rate, Some(Rate::from_bps(1_000_000_000_000)));
    assert!(faults(SMALL, &["link.ab.rate=1.1Tbit/s"])[0].contains("at most 1Tbit/s"));
}

#[test]
fn files_are_read_beside_the_scenario_and_their_faults_named() {
    let overrides = ["link.sat.loss.drop_file=drops.txt".to_owned()];
    let read_as = |content: &str| {
        let content = content.to_owned();
        load(SMALL, "test.toml", &overrides, &move |name: &str| {
            assert_eq!(name, "drops.txt");
            Ok(content.clone())
        })
    };
    let scenario = read_as("3\n17\n").unwrap().scenarios.remove(0);
    assert_eq!(scenario.network.directions()[2].config.loss, LossModel::DropList(vec![3, 17]));
    let faults = read_as("3\nx\n").map(|_| ()).unwrap_err().0;
    assert!(faults[0].contains("drops.txt: line 2") && faults[0].contains("link.sat: "), "{faults:?}");
}

#[test]
fn random_sizes_and_times_are_drawn_as_written() {
    let text = SMALL.replace(
        "bulk = { size = \"1MB\", direction = \"down\" }",
        "request_response = { response = { pareto = { min = \"1kB\", shape = 1.2, max = \"1MB\" } }, think = \"2s\" }",
    );
    let scenario = accepted(&text, &[]);
    let Traffic::Tcp { application: Application::Web { response, think, .. }, .. } = &scenario.flows[0].traffic else {
        panic!("web")
    };
    let pareto = Distribution::Random(Random::Pareto { min: Bytes::new(1000), shape: 1.2, max: Bytes::new(1_000_000) });
    assert_eq!((*response, *think), (pareto, Distribution::Constant(Duration::from_secs(2))));
    let faults = faults(&text.replace("max = \"1MB\"", "max = \"10B\""), &[]);
    assert!(faults[0].contains("flow.file.request_response: max 10B is below min 1kB"), "{faults:?}");
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn repair_takes_half_of_a_full_link_at_most() {
    let pair = |share: &str| with_pair(&format!("satpep = {{ repair_overhead = {share} }}"));
    for wrong in ["0.6", "-0.1", "true"] {
        let faults = faults(&pair(wrong), &[]);
        assert!(faults.iter().any(|fault| fault.contains("repair_overhead")), "{faults:#?}");
    }
    read(&pair("0.5"), &[]).unwrap_or_else(|faults| panic!("{faults:#?}"));
}

#[test]
fn links_come_and_go_at_rising_times_and_not_on_a_carrier() {
    for (wrong, part) in [
        ("{ steps = [] }", "up"),
        ("{ steps = [[\"5s\", false], [\"5s\", true]] }", "link.ab.up: 5s does not come after 5s"),
        (
            "{ steps = [[\"5s\", false]], repeat = \"4s\" }",
            "link.ab.up: it repeats after 4s, before its last step at 5s",
        ),
        ("{ steps = [[\"5s\", \"down\"]] }", "link.ab.up"),
    ] {
        let faults = faults(SMALL, &[&format!("link.ab.up={wrong}")]);
        assert!(faults.iter().any(|fault| fault.contains(part)), "{wrong}: {faults:#?}");
    }
    let scenario =
        accepted(SMALL, &["link.ab.up={ steps = [[\"5s\", false]] }", "routing.under_way=lose", "routing.every=1s"]);
    let ab = scenario.network.link("ab").unwrap();
    let up = [ab, ab.reverse()].map(|way| scenario.network.directions()[way.index()].up.clone());
    assert!(up.iter().all(|up| up.as_ref().is_some_and(|up| !up.is_up(Instant::ZERO + Duration::from_secs(5)))));
    let routing = Routing { every: Some(Duration::from_secs(1)), under_way: UnderWay::Lose };
    assert_eq!(scenario.settings.routing, routing);
}

#[test]
fn the_documentation_holds_the_reference_that_the_types_make() {
    testkit::made::section(&repository().join("docs/scenarios.md"), "reference", &reference(), "bentpipe-scenario");
}

/// Every TOML example of the documentation that is a whole file is one.
#[test]
fn the_documentation_shows_sound_scenarios() {
    for name in ["docs/scenarios.md", "docs/simulate.md"] {
        let page = std::fs::read_to_string(repository().join(name)).unwrap();
        let blocks = page.split("```toml\n").skip(1).map(|block| block.split("```").next().unwrap());
        let whole: Vec<_> = blocks.filter(|block| block.contains("version = 1")).collect();
        assert!(!whole.is_empty(), "{name}");
        for block in whole {
            load(block, name, &[], &no_files).unwrap_or_else(|faults| panic!("{faults}"));
        }
    }
}

/// The defaults that the schema states are those that hold: writing one changes nothing.
#[test]
fn stated_defaults_are_the_defaults() {
    let schema = json_schema();
    let plain = format!("{:?}", accepted(SMALL, &["flow.file.tcp=mine", "tcp.mine.profile=rfc"]));
    let mut checked = 0;
    for (section, prefix) in [
        ("Seeds", "seeds"),
        ("Stop", "stop"),
        ("Record", "record"),
        ("Direction", "link.ab"),
        ("Flow", "flow.file"),
        ("Bulk", "flow.file.bulk"),
        ("Tcp", "tcp.mine"),
        ("Tuning", "tcp.mine.tuning"),
    ] {
        for (key, property) in schema["$defs"][section]["properties"].as_object().unwrap() {
            let Some(default) = property.get("default") else { continue };
            // These the small scenario sets.
            if ["stop.time", "link.ab.rate", "link.ab.delay", "flow.file.bulk.direction", "flow.file.tcp"]
                .contains(&format!("{prefix}.{key}").as_str())
            {
                continue;
            }
            let change = format!("{prefix}.{key}={}", toml_text(default));
            let explicit = format!("{:?}", accepted(SMALL, &["flow.file.tcp=mine", "tcp.mine.profile=rfc", &change]));
            assert_eq!(explicit, plain, "{change}");
            checked += 1;
        }
    }
    assert!(checked > 15, "{checked}");
}

fn toml_text(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Words that scenarios are made of, for texts that nearly are some.
fn scrap() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("version = 1\n"),
        Just("nodes = [\"a\", \"b\"]\n"),
        Just("[[link]]\n"),
        Just("[[flow]]\n"),
        Just("[tcp.x]\n"),
        Just("[variants.v]\n"),
        Just("name = \"x\"\n"),
        Just("between = [\"a\", \"b\"]\n"),
        Just("rate = \"1Mbit/s\"\n"),
        Just("queue = \"1BDP\"\n"),
        Just("loss = { steps = { steps = [[\"1s\"]] } }\n"),
        Just("delay = { geo = {} }\n"),
        Just("from = \"a\"\nto = \"b\"\n"),
        Just("bulk = { size = 1 }\n"),
        Just("link = 3\n"),
        Just("\"link.x\" = []\n"),
        Just("flow.x.count = 1e300\n"),
        Just("\"\" = 1979-05-27\n"),
    ]
    .prop_map(str::to_owned)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, rng_seed: RngSeed::Fixed(3), failure_persistence: None, ..ProptestConfig::default() })]

    /// Nothing that is written makes it panic, and what is refused is refused with a place.
    #[test]
    fn no_text_is_too_wrong(scraps in prop::collection::vec(scrap(), 0..12), change in "[a-z.]{0,12}=[a-z0-9.\\[\\]{}\"]{0,6}") {
        if let Err(faults) = read(&scraps.concat(), &[&change]) {
            prop_assert!(faults.iter().all(|fault| fault.starts_with("test.toml:") || fault.starts_with("--set ")));
            prop_assert!(!faults.is_empty());
        }
    }
}

#[test]
fn a_pair_of_gateways_survives_outages_of_some_length() {
    let pair = |limit: &str| with_pair(&format!("satpep = {{ outage_limit = \"{limit}\" }}"));
    accepted(&pair("2min"), &[]);
    let faults = faults(&pair("0s"), &[]);
    assert!(faults.len() == 1 && faults[0].contains("gateway.pair.satpep.outage_limit = \"0s\""), "{faults:?}");
}

#[test]
fn a_pair_has_flows_that_pass_it_by_and_limits() {
    let pair = |settings: &str| with_pair(&format!("satpep = {{ {settings} }}"));
    let scenario =
        read(&pair("bypass = [\"file\"], connect_timeout = \"3s\", max_streams = 8, max_connections = 4"), &[])
            .unwrap_or_else(|faults| panic!("{faults:#?}"));
    let Transport::Satpep(transport) = &scenario.scenarios[0].gateways[0].transport else { panic!("satpep") };
    assert_eq!((&transport.bypass[..], transport.connect_timeout), (&[0][..], Duration::from_secs(3)));
    assert_eq!((transport.max_streams, transport.max_connections), (Some(8), Some(4)));
    for (wrong, says) in [
        ("bypass = [\"fils\"]", "gateway.pair.satpep.bypass: there is no flow called fils; did you mean file?"),
        ("max_streams = 0", "max_streams"),
        ("connect_timeout = \"0s\"", "connect_timeout"),
    ] {
        let faults = faults(&pair(wrong), &[]);
        assert!(faults.iter().any(|fault| fault.contains(says)), "{wrong}: {faults:#?}");
    }
}

#[test]
fn settings_of_a_transport_that_no_variant_has_are_refused() {
    let pair = with_pair("");
    let of_tcp = "gateway.pair.tcp=cubic";
    accepted(&pair, &["gateway.pair.transport=tcp", of_tcp]);
    assert_eq!(
        faults(&pair, &[of_tcp]),
        ["--set gateway.pair.tcp=cubic: gateway.pair.tcp is for another transport: set gateway.pair.transport to \
             \"tcp\", or leave it out"]
    );
    let of_satpep = faults(&pair, &["gateway.pair.transport=tcp", "gateway.pair.satpep.repair=false"]);
    assert!(of_satpep.len() == 1 && of_satpep[0].contains("gateway.pair.satpep is for"), "{of_satpep:#?}");
    // What the file says of a transport is no fault of an override that chooses another one.
    accepted(&format!("{pair}satpep = {{ repair = false }}\n"), &["gateway.pair.transport=tcp"]);
    // One variant needs it.
    let variants = "[variants]\nplain = {}\nsplit = { \"gateway.pair.transport\" = \"tcp\" }\n";
    let experiment = read(&format!("{pair}{variants}"), &[of_tcp]).unwrap_or_else(|faults| panic!("{faults:#?}"));
    assert_eq!(experiment.scenarios.len(), 2);
    let none = variants.replace("\"tcp\"", "\"satpep-2003\"");
    let refused = faults(&format!("{pair}{none}"), &[of_tcp]);
    assert!(refused.iter().any(|fault| fault.starts_with("--set gateway.pair.tcp=cubic: ")), "{refused:#?}");
}

#[test]
fn a_pair_that_splits_no_flow_is_refused_unless_a_variant_needs_it() {
    let pair = with_pair("");
    accepted(&pair, &[]);
    for [before, after] in
        [["\"client\"\nto", "\"a\"\nto"], ["nodes = [\"a\", \"c\"]", "nodes = [\"client\", \"server\"]"]]
    {
        let idle = pair.replace(before, after);
        let refused = faults(&idle, &[]);
        assert!(refused.len() == 1 && refused[0].contains(": gateway.pair splits no flow: "), "{after}: {refused:#?}");
    }
    // Who moves it out of the way wants to see what happens without it.
    accepted(&pair, &["gateway.pair.nodes=[\"client\", \"server\"]"]);
    accepted(&pair, &["flow.file.from=b"]);
    let variants = "[variants]\nwithin = { \"flow.file.from\" = \"b\" }\nwhole = {}\n";
    read(&format!("{pair}{variants}"), &[]).unwrap_or_else(|faults| panic!("{faults:#?}"));
}

#[test]
fn what_the_agents_of_ns2_would_not_read_is_refused_by_its_key() {
    let tcp = |settings: &str| format!("{SMALL}\n[tcp.host]\nprofile = \"ns2\"\n{settings}\n");
    accepted(&tcp("min_rto = \"1s\"\nslow_start_limit = 1\ngrow_when_not_limited = true"), &[]);
    for (settings, key) in [
        ("limited_transmit = false", "limited_transmit"),
        ("tuning.slow_start_exit = \"hystart\"", "tuning.slow_start_exit"),
    ] {
        let faults = faults(&tcp(settings), &[]);
        let said = format!("tcp.host.{key}: the agents of ns-2 do not read `{key}`");
        assert!(faults.iter().any(|fault| fault.contains(&said)), "{settings}: {faults:#?}");
    }
}

#[test]
fn the_longest_timeout_is_the_longest() {
    let tcp = |settings: &str| format!("{SMALL}\n[tcp.host]\n{settings}\n");
    accepted(&tcp("min_rto = \"2s\"\nmax_rto = \"2s\""), &[]);
    for (settings, says) in [
        ("min_rto = \"3s\"\nmax_rto = \"2s\"", "tcp.host.min_rto: 3s is above max_rto, 2s"),
        ("max_rto = \"500ms\"", "tcp.host.max_rto: 500ms is below min_rto, 1s"),
        ("initial_rto = \"90s\"", "tcp.host.initial_rto: 90s is above max_rto, 60s"),
    ] {
        let faults = faults(&tcp(settings), &[]);
        assert!(faults.len() == 1 && faults[0].ends_with(says), "{faults:#?}");
    }
}

#[test]
fn a_flow_over_quic_names_a_control_or_a_table() {
    let quic = |text: &str, overrides: &[&str]| {
        let scenario = accepted(text, overrides);
        let Traffic::Quic { ends, application } = &scenario.flows[0].traffic else { panic!("a file goes over QUIC") };
        assert!(matches!(application, Application::Bulk { .. }));
        ends.as_ref().clone()
    };
    let plain = quic(SMALL, &["flow.file.quic=newreno"]);
    assert_eq!((plain.control.name, plain.packet_size, plain.initial_window), ("reno", 1500, 10.0));
    assert_eq!(quic(SMALL, &["flow.file.quic=prague"]).ecn, units::Ecn::Ect1);
    let table = SMALL.to_owned()
        + "[quic.mine]\ncontrol = \"cubic\"\npacket_size = \"1280B\"\nzero_rtt = true\nstream_window = \"64KiB\"\n\
           stream_window_max = \"6MiB\"\nmax_ack_delay = \"10ms\"\n";
    let mine = quic(&table, &["flow.file.quic=mine"]);
    assert_eq!((mine.control.name, mine.packet_size, mine.zero_rtt), ("cubic", 1280, true));
    assert_eq!((mine.stream_window.size, mine.stream_window.most), (Bytes::new(64 << 10), Bytes::new(6 << 20)));
    assert_eq!((mine.initial_window, mine.max_ack_delay), (10.0, Duration::from_millis(10)));
}

#[test]
fn faults_of_quic_name_the_key_and_what_is_known() {
    let one = |overrides: &[&str]| {
        let faults = faults(SMALL, overrides);
        assert_eq!(faults.len(), 1, "{faults:#?}");
        faults[0].clone()
    };
    let unknown = one(&["flow.file.quic=nothing"]);
    assert!(unknown.contains("flow.file.quic: there is no control and no [quic.nothing]; known are"), "{unknown}");
    assert!(unknown.contains("newreno") && unknown.contains("cubic"), "{unknown}");
    assert!(one(&["flow.file.quic=cubik"]).contains("cubic"));
    assert!(one(&["flow.file.quic=cubic", "flow.file.tcp=cubic"]).contains("the flow has `tcp`, too"));
    assert!(one(&["flow.voice.quic=cubic"]).contains("flow.voice.quic: udp has no QUIC"));
    let small = one(&["quic.x.packet_size=1000B"]);
    assert!(small.contains("quic.x.packet_size: ") && small.contains("is not from 1228B to 65535B"), "{small}");
    assert!(one(&["quic.x={ stream_window = \"1MB\", stream_window_max = \"1kB\" }"]).contains("quic.x.stream_window"));
    assert!(one(&["quic.x={ control = \"dctcp\", ecn = \"off\" }"]).contains("quic.x.ecn: control `dctcp`"));
    assert!(one(&["quic.cubic.control=newreno"]).contains("newreno is not what cubic is"));
}

#[test]
fn the_last_of_several_flows_starts_before_they_stop() {
    let text = |stop: &str| {
        format!(
            "version = 1\nnodes = [\"a\", \"b\"]\n[[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\ndelay = \"1ms\"\n\
             [[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\ncount = 4\nstart = {{ every = \"1s\" }}\n\
             stop = \"{stop}\"\nudp = {{ rate = \"1Mbit/s\" }}\n"
        )
    };
    let found = faults(&text("3s"), &[]);
    assert!(found[0].contains("expected a time after the latest start of its flows, 3s"), "{found:?}");
    let sound = load(&text("4s"), "test.toml", &[], &|_| Err("none".into()));
    assert!(sound.is_ok(), "{sound:?}");
    // Among random starts is the latest, too.
    let random = ["flow.f.start={ every = \"1s\", spread = \"2s\" }"];
    let found = faults(&text("4s"), &random);
    assert!(found[0].contains("expected a time after the latest start of its flows, 5s"), "{found:?}");
    accepted(&text("6s"), &random);
}
