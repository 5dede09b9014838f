//! `bentpipe lab`: a scenario for real, and what it says to one that cannot be.
//! Where the machine does not allow namespaces, the test that needs them says so and passes.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: starts programs and waits for them")]

mod published;

use kernel::testing::best_of_three;
use serde_json::Value;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const SCENARIO: &str = r#"
version = 1
nodes = ["client", "router", "server"]
[[link]]
name = "lan"
between = ["client", "router"]
[[link]]
name = "sat"
between = ["router", "server"]
rate = "20Mbit/s"
delay = "20ms"
queue = "1000packets"
[link.forward]
loss = { drop_list = [40, 41] }
[[flow]]
name = "file"
from = "client"
to = "server"
tcp = "cubic"
bulk = { size = "300kB" }
[tcp.small]
preset = "sack"
initial_window = "1segments"
mss = "1024B"
receive_buffer = "32KiB"
receive_buffer_share = 0.5
[variants]
cubic = {}
small = { "flow.file.tcp" = "small", "link.sat.forward.loss" = 0 }
vegas = { "flow.file.tcp" = "vegas" }
"#;

fn lab(scenario: &str, options: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scenario.toml");
    std::fs::write(&file, scenario).unwrap();
    Command::new(env!("CARGO_BIN_EXE_bentpipe"))
        .arg("lab")
        .arg(file)
        .args(options)
        .env_remove("BENTPIPE_LOG")
        .output()
        .unwrap()
}

/// What `bentpipe lab` found of `variants`; `None` where the machine does not allow namespaces.
fn measured(scenario: &str, variants: &str) -> Option<Value> {
    let output = lab(scenario, &["--variants", variants, "--json"]);
    let text = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(3) && std::env::var_os("BENTPIPE_MUST_RUN").is_none() {
        eprintln!("SKIPPED: {text}");
        return None;
    }
    assert!(output.status.success(), "{text}");
    let document = serde_json::from_slice(&output.stdout).unwrap();
    published::assert_as_published("lab", &document);
    Some(document)
}

/// The scenario is wrong input, and the message names the `culprit`.
fn refused(scenario: &str, options: &[&str], culprit: &str) {
    let output = lab(scenario, options);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{options:?}: {text}");
    assert!(text.contains(culprit), "{options:?}: {text}");
}

#[test]
fn a_chain_runs_for_real_with_its_drop_list() {
    let Some(document) = measured(SCENARIO, "cubic") else { return };
    assert_eq!(document["scenario"], "scenario", "the name of the file, as in `simulate`");
    let run = &document["runs"][0];
    let flow = &run["flows"][0];
    assert_eq!((&flow["name"], &flow["complete"], &flow["bytes"]), (&"file".into(), &true.into(), &300_000.into()));
    let time = flow["end_s"].as_f64().unwrap() - flow["start_s"].as_f64().unwrap();
    // Two round trips of 40 ms at least, and 125 ms of packets.
    assert!((0.2..5.0).contains(&time), "{time}");
    assert_eq!(run["links"][0]["from"], "router");
    assert_eq!(run["links"][0]["dropped"]["loss"]["packets"], 2);
    assert_eq!(run["links"][1]["dropped"]["loss"]["packets"], 0);
    assert!(flow["retransmissions"].as_u64().unwrap() >= 2);
}

#[test]
fn windows_segments_and_buffers_are_the_scenarios() {
    let Some(document) = measured(SCENARIO, "small") else { return };
    let (flow, link) = (&document["runs"][0]["flows"][0], &document["runs"][0]["links"][0]);
    // Ten windows of 28 kB at most, each a round trip of 40 ms, and slow start before them.
    let time = flow["end_s"].as_f64().unwrap() - flow["start_s"].as_f64().unwrap();
    assert!((0.4..10.0).contains(&time), "{time}");
    assert!(link["delivered_packets"].as_u64().unwrap() >= 300_000 / 1024, "{link}");
}

#[test]
fn no_segment_is_longer_than_the_receiver_takes() {
    let scenario = SCENARIO.replace("tcp = \"cubic\"\n", "tcp = \"cubic\"\nserver_tcp = \"narrow\"\n");
    let narrow = "[tcp.narrow]\npreset = \"cubic\"\nmss = \"536B\"\n";
    let Some(document) = measured(&format!("{scenario}{narrow}"), "cubic") else { return };
    let link = &document["runs"][0]["links"][0];
    assert!(link["delivered_packets"].as_u64().unwrap() >= 300_000 / 536, "{link}");
}

#[test]
fn a_file_that_has_not_arrived_when_the_run_ends_is_cut_off() {
    let scenario = SCENARIO.replace("300kB", "10MB").replace("20Mbit/s", "1Mbit/s").replace("[40, 41]", "[]");
    let Some(document) = measured(&format!("{scenario}[stop]\ntime = \"3s\"\n"), "cubic") else { return };
    let flow = &document["runs"][0]["flows"][0];
    assert_eq!(flow["complete"], false);
    let bytes = flow["bytes"].as_u64().unwrap();
    assert!(bytes > 0 && bytes < 3_000_000 / 8, "{bytes}");
}

#[test]
fn what_has_no_counterpart_is_refused_by_name_before_anything_runs() {
    for (options, culprit) in [
        (vec![], "variant vegas: flow `file`"),
        (vec!["--variants", "moon"], "no variant moon"),
        (vec!["--variants", "cubic", "--set", "link.lan.delay=5ms"], "lan, sat"),
        (vec!["--variants", "cubic", "--set", "flow.file.start=soon"], "soon"),
        (vec!["--variants", "cubic", "--set", "flow.file.tcp=tahoe"], "recovery tahoe"),
        (vec!["--variants", "small", "--set", "tcp.small.pacing=true"], "pacing = true"),
        (vec!["--variants", "small", "--set", "flow.file.stop=1s"], "stop = 1s"),
    ] {
        refused(SCENARIO, &options, culprit);
    }
}

const CARRIER: &str = r#"
version = 1
nodes = ["office", "one", "two", "hub", "server"]
[[carrier]]
name = "return"
rate = "4Mbit/s"
[[link]]
name = "lan"
between = ["office", "one"]
[[link]]
name = "one"
between = ["one", "hub"]
delay = "40ms"
forward = { dama = { carrier = "return", rbdc = "4Mbit/s" }, queue = "500packets" }
reverse = { rate = "20Mbit/s", queue = "500packets" }
[[link]]
name = "two"
between = ["two", "hub"]
delay = "40ms"
forward = { dama = { carrier = "return", cra = "1Mbit/s" }, queue = "500packets" }
reverse = { rate = "20Mbit/s", queue = "500packets" }
[[link]]
name = "far"
between = ["hub", "server"]
[[flow]]
name = "requested"
from = "office"
to = "server"
tcp = "cubic"
bulk = { size = "500kB" }
[[flow]]
name = "constant"
from = "two"
to = "server"
tcp = "cubic"
bulk = { size = "150kB" }
[record]
capacity = true
[variants]
plain = {}
across = { "flow.constant.to" = "office" }
delayed = { "link.two.delay" = "50ms" }
longer = { "link.lan.delay" = "5ms" }
"#;

#[test]
fn terminals_share_a_carrier_for_real_and_show_what_they_had_of_it() {
    let Some(document) = measured(CARRIER, "plain") else { return };
    let run = &document["runs"][0];
    let number = |value: &Value| value.as_u64().unwrap();
    let terminals = run["carriers"][0]["terminals"].as_array().unwrap();
    let links: Vec<_> = terminals.iter().map(|terminal| terminal["link"].as_str().unwrap()).collect();
    assert_eq!(links, ["one", "two"]);
    assert!(number(&terminals[0]["rbdc_bytes"]) >= 500_000 && number(&terminals[0]["cra_bytes"]) == 0);
    assert!(number(&terminals[1]["rbdc_bytes"]) == 0 && number(&terminals[1]["cra_bytes"]) >= 150_000);
    let rows = run["capacity"].as_array().unwrap();
    assert!(rows.iter().all(|row| number(&row["used_bps"]) <= number(&row["allocated_bps"])), "{rows:?}");
    let two: Vec<_> = rows.iter().filter(|row| row["link"] == "two").collect();
    // The constant rate is there in each superframe of 100 ms, whole slots of it.
    assert!(two.len() >= 10 && two.iter().all(|row| number(&row["cra_bps"]) > 980_000), "{two:?}");
    // None is left out where they are taken from the emulator, once a second.
    let times: Vec<_> = two.iter().map(|row| row["time_s"].as_f64().unwrap()).collect();
    assert!(times.windows(2).all(|pair| (pair[1] - pair[0] - 0.1).abs() < 1e-6), "{times:?}");
    // Totals and superframes count from the same time, to within the superframes under way.
    let listed: u64 = two.iter().map(|row| number(&row["cra_bps"]) / 80).sum();
    let total = number(&terminals[1]["cra_bytes"]);
    assert!(total.abs_diff(listed) <= 3 * 12_500, "{total} B in all, {listed} B in superframes");
    // The requested one comes with the queue.
    assert!(rows.iter().any(|row| row["link"] == "one" && number(&row["rbdc_bps"]) > 2_000_000), "{rows:?}");
    for flow in run["flows"].as_array().unwrap() {
        assert_eq!(flow["complete"], true);
    }
    // 150 kB with its headers through 1 Mbit/s, however much the other terminal asks for.
    let time = run["flows"][1]["end_s"].as_f64().unwrap();
    assert!((1.2..6.0).contains(&time), "{time}");
}

#[test]
fn carriers_that_cannot_run_for_real_are_refused() {
    for (variant, culprit) in [
        ("across", "flow `constant`: it goes from terminal to terminal"),
        ("delayed", "links `one` and `two` have different delays"),
        ("longer", "links lan, one, two have a rate"),
    ] {
        refused(CARRIER, &["--variants", variant], culprit);
    }
}

const SPLIT: &str = r#"
version = 1
nodes = ["client", "near", "far", "server"]
[[link]]
name = "left"
between = ["client", "near"]
[[link]]
name = "sat"
between = ["near", "far"]
rate = "20Mbit/s"
delay = "50ms"
queue = "1000packets"
[[link]]
name = "right"
between = ["far", "server"]
[[flow]]
name = "file"
from = "client"
to = "server"
bulk = { size = "300kB" }
[[gateway]]
name = "pep"
nodes = ["near", "far"]
transport = "tcp"
tcp = "cubic"
[variants]
split = {}
whole = { "gateway.pep.nodes" = ["client", "server"] }
satpep = { "gateway.pep" = { name = "pep", nodes = ["near", "far"], transport = "satpep" } }
"#;

#[test]
fn gateways_split_connections_over_the_kernels_tcp() {
    best_of_three(save_a_round_trip);
}

fn save_a_round_trip() -> Result<(), String> {
    let Some(document) = measured(SPLIT, "split,whole") else { return Ok(()) };
    let [split, whole] = [0, 1].map(|run: usize| &document["runs"][run]["flows"][0]);
    assert_eq!((&split["complete"], &whole["complete"]), (&true.into(), &true.into()));
    // The round trip of the handshake, of 100 ms, is saved.
    let [split, whole] = [split, whole].map(|flow| flow["end_s"].as_f64().unwrap());
    assert!(split > 0.1, "{split}");
    if split < whole - 0.05 { Ok(()) } else { Err(format!("{split} s in two parts, {whole} s end to end")) }
}

/// IPv6 hosts, as gateways are, report what multicast they listen to.
#[test]
fn what_gateways_say_on_their_own_is_no_fault_of_the_emulator() {
    let scenario = include_str!("../../../scenarios/papers/kim/lab.toml");
    let options = ["--set", "tcp.hop.control=cubic", "--set", "stop.time=2s", "--variants", "split-hybla", "--json"];
    let output = lab(scenario, &options);
    let text = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(3) && std::env::var_os("BENTPIPE_MUST_RUN").is_none() {
        eprintln!("SKIPPED: {text}");
        return;
    }
    assert!(output.status.success() && !text.contains("the results are not the link's"), "{text}");
}

/// The gateways of a long path take seconds to have their session.
#[test]
fn links_change_at_the_times_of_the_flows() {
    let fading = "delay = \"300ms\"\nrate_steps = { steps = [[\"4s\", \"1kbit/s\"]] }";
    let scenario = SPLIT.replace("delay = \"50ms\"", fading) + "[stop]\ntime = \"8s\"\n";
    let Some(document) = measured(&scenario, "split") else { return };
    let flow = &document["runs"][0]["flows"][0];
    assert_eq!(flow["complete"], true, "it is done in 3 s, before the fade: {flow}");
}

/// Ctrl-C in a terminal goes to all of a command's processes but those that are none of its business.
#[test]
fn an_interrupt_from_the_terminal_lets_the_measurement_under_way_finish() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scenario.toml");
    std::fs::write(&file, SPLIT.replace("300kB", "8MB")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
    command.arg("lab").arg(file).args(["--variants", "split", "--json"]).env_remove("BENTPIPE_LOG");
    let child = command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // As "PID (NAME) STATE PARENT".
    let is_gateway = |process: &std::path::Path| {
        let read = |file: &str| std::fs::read_to_string(process.join(file)).unwrap_or_default();
        let parent = read("stat").rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
        parent == Some(child.id()) && read("cmdline").contains("gateway\0--config")
    };
    let gateways =
        || std::fs::read_dir("/proc").unwrap().filter(|entry| is_gateway(&entry.as_ref().unwrap().path())).count();
    let deadline = Instant::now() + Duration::from_secs(30);
    while Instant::now() < deadline
        && gateways() < 2
        && std::path::Path::new(&format!("/proc/{}/cwd", child.id())).exists()
    {
        std::thread::sleep(Duration::from_millis(20));
    }
    let seen = gateways();
    // The sessions come up, and the transfer begins.
    std::thread::sleep(Duration::from_secs(2));
    let _ = Command::new("kill").args(["-INT", "--", &format!("-{}", child.id())]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(3) && std::env::var_os("BENTPIPE_MUST_RUN").is_none() {
        eprintln!("SKIPPED: {text}");
        return;
    }
    assert!(output.status.success() && seen == 2, "{seen} {text}");
    assert!(text.contains("stopping after the current runs"), "the signal came during the run: {text}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["runs"][0]["flows"][0]["complete"], true, "{text}");
}

#[test]
fn gateways_that_cannot_run_for_real_are_refused() {
    for (options, culprit) in [
        (["--variants", "satpep", "--set", "flow.file.tcp=cubic"], "gateway `pep`: only gateways that speak TCP"),
        (["--variants", "split", "--set", "gateway.pep.tcp=tahoe"], "gateway `pep`: recovery tahoe"),
    ] {
        refused(SPLIT, &options, culprit);
    }
}

#[test]
fn sessions_that_begin_together_share_the_proposed_window_at_once() {
    let scenario = include_str!("../../../scenarios/papers/kim/lab.toml");
    let sets = ["stop.time=4s", "link.satellite.loss=0", "flow.session.count=10"].map(|set| ["--set", set]);
    let options = [&["--variants", "cross-layer", "--json"][..], &sets.concat()].concat();
    let output = lab(scenario, &options);
    // Loading the control needs privileges on the host.
    if output.status.code() == Some(3) {
        eprintln!("SKIPPED: {}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let run = &document["runs"][0];
    // With a window for one each, 2000 packets would find the queue full.
    let full = run["links"][0]["dropped"]["queue_full"]["packets"].as_u64().unwrap();
    assert!(full < 200, "{full}");
    assert_eq!(run["flows"].as_array().unwrap().len(), 10);
}

/// Few links, generously: the worlds are to be of one kind, whatever else the machine does.
#[test]
fn random_links_are_compared_in_both_worlds() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_bentpipe"))
        .args(["lab", "--compare", "3", "--seed", "7", "--json", "--keep"])
        .arg(folder.path())
        .env_remove("BENTPIPE_LOG")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(3) && std::env::var_os("BENTPIPE_MUST_RUN").is_none() {
        eprintln!("SKIPPED: {text}");
        return;
    }
    assert!(matches!(output.status.code(), Some(0 | 1)), "{text}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    published::assert_as_published("lab-compare", &document);
    let links = document["links"].as_array().unwrap();
    let controls: Vec<_> = links.iter().map(|link| link["control"].as_str().unwrap()).collect();
    assert_eq!(controls, ["reno", "cubic", "bbr1"], "{text}");
    let time = |link: &Value, world: &str| link[world].as_f64().unwrap();
    for link in links {
        // No world is faster than the link.
        let least = 8.0 * link["size_bytes"].as_f64().unwrap() / 40e6;
        assert!(time(link, "kernel_median_s").min(time(link, "simulated_s")) > least, "{link}");
        let is_kept = folder.path().join(format!("link-{}.toml", link["seed"])).exists();
        assert_eq!(is_kept, link["deviation"].as_f64().unwrap().abs() > 0.05, "{link}");
    }
    assert!(document["median_deviation"].as_f64().unwrap() < 0.3, "{document}");
}

#[test]
fn a_comparison_takes_no_scenario() {
    refused(SCENARIO, &["--compare", "1"], "cannot be used with");
    for unused in [["--seed", "7"], ["--jobs", "2"], ["--keep", "kept"]] {
        refused(SCENARIO, &unused, unused[0]);
    }
}
