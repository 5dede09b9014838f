//! `bentpipe simulate` end to end.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: runs programs and waits on the real clock")]

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const SCENARIO: &str = r#"
version = 1
name = "test"
nodes = ["a", "b"]
[[link]]
name = "sat"
between = ["a", "b"]
rate = "2Mbit/s"
delay = "275ms"
queue = "1BDP"
loss = 1e-2
[[flow]]
name = "file"
from = "a"
to = "b"
count = 2
start = { spread = "100ms" }
bulk = { size = "200kB" }
[[flow]]
name = "ping"
from = "a"
to = "b"
ping = { requests = 3 }
[stop]
time = "100s"
[record]
interval = "500ms"
queue_interval = "500ms"
packets = ["a"]
[variants]
sack = { "flow.file.tcp" = "sack" }
newreno = { "flow.file.tcp" = "newreno" }
"#;

fn simulate(directory: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
    command.arg("simulate").args(args).current_dir(directory).env_remove("BENTPIPE_LOG").stdin(Stdio::null());
    command.output().unwrap()
}

fn folder(scenario: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("test.toml"), scenario).unwrap();
    folder
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The length of all tables in `directory` that are being written, if there are any.
fn partial_tables(directory: &Path) -> Option<u64> {
    let entries = fs::read_dir(directory).ok()?.flatten();
    entries
        .filter(|entry| entry.path().extension().is_some_and(|extension| extension == "part"))
        .map(|entry| entry.metadata().map_or(0, |file| file.len()))
        .reduce(|one, other| one + other)
}

fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap()).filter(|entry| entry.path().is_file());
    entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
}

#[test]
fn any_number_of_jobs_gives_the_same_bytes() {
    let folder = folder(SCENARIO);
    let mut seen: Vec<(BTreeMap<String, Vec<u8>>, Value)> = Vec::new();
    for (jobs, format) in [("1", "csv"), ("4", "csv"), ("3", "csv")] {
        let out = format!("out-{jobs}");
        let args = ["test.toml", "--seeds", "5..8", "--jobs", jobs, "--out", &out, "--format", format, "--json"];
        let mut document = json(&simulate(folder.path(), &args));
        for time in ["cpu_s", "wall_s"] {
            assert!(document.as_object_mut().unwrap().remove(time).unwrap().as_f64().unwrap() >= 0.0);
        }
        seen.push((files(&folder.path().join(out)), document));
    }
    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]));
    let (files, document) = &seen[0];
    let names: Vec<_> = files.keys().map(String::as_str).collect();
    let tables = ["flows.csv", "links.csv", "queues.csv", "samples.csv"];
    let pictures = ["traces-newreno-5.svg", "traces-sack-5.svg", "means.svg", "distributions.svg"];
    assert!(tables.iter().chain(&pictures).all(|name| names.contains(name)), "{names:?}");
    let drawn = |name: &str| String::from_utf8(files[name].clone()).unwrap();
    assert!(drawn("means.svg").contains("95 % confidence") && drawn("means.svg").contains("<polygon"));
    assert!(drawn("traces-sack-5.svg").contains("capacity of the link"));
    assert!(drawn("distributions.svg").contains("share not above"));
    assert_eq!(names.iter().filter(|name| name.ends_with(".pcapng")).count(), 8, "{names:?}");
    let runs = document["runs"].as_array().unwrap();
    let labels: Vec<_> =
        runs.iter().map(|run| (run["variant"].as_str().unwrap(), run["seed"].as_u64().unwrap())).collect();
    assert_eq!(labels[..5], [("sack", 5), ("sack", 6), ("sack", 7), ("sack", 8), ("newreno", 5)]);
    for run in runs {
        assert_eq!(run["stopped"], "complete");
        let flows = run["flows"].as_array().unwrap();
        assert_eq!(flows.len(), 3);
        for flow in &flows[..2] {
            assert_eq!((flow["complete"].as_bool(), flow["bytes"].as_u64()), (Some(true), Some(200_000)));
            let time = flow["end_s"].as_f64().unwrap() - flow["start_s"].as_f64().unwrap();
            let goodput = flow["goodput_bps"].as_f64().unwrap();
            assert!((goodput * time - 1.6e6).abs() < 1.0, "{flow}");
        }
        assert!(run["links"][0]["delivered_packets"].as_u64().unwrap() > 280, "{run}");
        assert!(run["events"].as_u64() > run["data_packets"].as_u64());
    }
    let lost = |run: &Value| run["links"][0]["dropped"]["loss"].as_u64().unwrap();
    assert!(runs.iter().any(|run| lost(run) > 0));
}

#[test]
fn the_table_is_for_people_and_options_narrow_and_change_runs() {
    let folder = folder(SCENARIO);
    let args = ["test.toml", "--variants", "sack", "--seeds", "3", "--set", "link.sat.loss=0"];
    let output = simulate(folder.path(), &args);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    for expected in ["2 x file", "6/6", "±", "goodput, kbit/s", "| sat", "3 runs"] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    assert!(!text.contains("newreno"), "{text}");
}

#[test]
fn faults_are_listed_with_their_places_and_end_with_2() {
    let folder = folder(&SCENARIO.replace("2Mbit/s", "0Mbit/s").replace("to = \"b\"\ncount", "to = \"x\"\ncount"));
    let output = simulate(folder.path(), &["test.toml", "--set", "stop.tme=1s"]);
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    for expected in ["test.toml:8:8: link.sat.rate = \"0Mbit/s\"", "test.toml:15:6: flow.file.to", "--set stop.tme=1s"]
    {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    for (args, culprit) in [
        (&["none.toml"][..], "none.toml"),
        (&["test.toml", "--seeds", "0"], "--seeds"),
        (&["test.toml", "--format", "csv"], "--out"),
        (&["test.toml", "--jobs", "0"], "expected a whole number of at least 1"),
        (&[], "FILE"),
    ] {
        let output = simulate(folder.path(), args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(culprit), "{}", stderr(&output));
    }
}

#[test]
fn a_scenario_and_a_trace_may_be_pipes_and_have_limits() {
    let folder = folder(SCENARIO);
    let of_stdin = ["/dev/stdin", "--sweep", "link.sat.loss=0.01,0.02", "--check", "--json"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
    command.arg("simulate").args(of_stdin).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(SCENARIO.as_bytes()).unwrap();
    assert_eq!(json(&child.wait_with_output().unwrap())["runs"], 4);

    let trace = |file: &Path| format!("link.sat.rate_steps={{ file = {file:?} }}");
    // Both directions of a link, all variants and all points have it.
    let of_stdin = ["test.toml", "--sweep", "link.sat.loss=0.01,0.02", "--check", "--json", "--set"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
    command.arg("simulate").args(of_stdin).arg(trace(Path::new("/dev/stdin"))).current_dir(folder.path());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"1s 1Mbit/s\n2s 2Mbit/s\n").unwrap();
    assert_eq!(json(&child.wait_with_output().unwrap())["runs"], 4);

    for (args, message) in [
        (&["/dev/zero"][..], "/dev/zero: it is larger than 16MB"),
        (&["test.toml", "--check", "--set", &trace(Path::new("/dev/zero"))], "larger than 256MB"),
    ] {
        let output = simulate(folder.path(), args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(message), "{}", stderr(&output));
    }
    fs::write(folder.path().join("marked.trace"), "\u{feff}1s 1Mbit/s\n2s 2Mbit/s\n").unwrap();
    json(&simulate(folder.path(), &["test.toml", "--check", "--json", "--set", &trace(Path::new("marked.trace"))]));
}

#[test]
fn results_of_an_earlier_command_do_not_stay_beside_new_ones() {
    let folder = folder(SCENARIO);
    let out = folder.path().join("out");
    let both = ["test.toml", "--seeds", "2", "--out", "out", "--format", "jsonl", "--pictures", "png"];
    assert!(simulate(folder.path(), &both).status.success());
    fs::write(out.join("notes.csv"), "mine").unwrap();
    fs::write(out.join("traces-of-last-week.svg"), "mine").unwrap();
    let one = ["test.toml", "--seeds", "9..9", "--variants", "sack", "--out", "out", "--set", "record.packets=[]"];
    assert!(simulate(folder.path(), &one).status.success());
    let names: Vec<_> = files(&out).into_keys().collect();
    let tables = ["capacity.csv", "flows.csv", "links.csv", "queues.csv", "samples.csv"];
    let pictures = ["distributions.svg", "means.svg", "traces-sack-9.svg"];
    let mut expected = [&tables[..], &pictures, &["notes.csv", "traces-of-last-week.svg"]].concat();
    expected.sort_unstable();
    assert_eq!(names, expected);

    let sweep = ["test.toml", "--sweep", "link.sat.loss=0.01,0.02", "--variants", "sack", "--out", "out", "--format"];
    for format in ["csv", "jsonl"] {
        assert!(simulate(folder.path(), &[&sweep[..], &[format]].concat()).status.success());
    }
    let expected = ["notes.csv", "sweep.jsonl", "sweep.svg", "traces-of-last-week.svg"];
    let names = || files(&out).into_keys().filter(|name| !name.ends_with(".parquet")).collect::<Vec<_>>();
    assert_eq!(names(), expected, "results of one kind at a time");
    assert!(simulate(folder.path(), &one).status.success());
    assert!(!names().iter().any(|name| name.starts_with("sweep.")), "{:?}", names());
}

#[test]
fn a_runaway_stops_at_its_limit_and_says_which() {
    let folder = folder(SCENARIO);
    let output = simulate(folder.path(), &["test.toml", "--set", "stop.max_events=100", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("2 runs stopped at a limit") && stderr(&output).contains("stop.max_events"));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["runs"][0]["stopped"], "event_limit");
    assert_eq!(document["runs"][0]["events"], 100);
}

#[test]
fn means_are_without_the_runs_at_their_limit_and_say_so() {
    let folder = folder(SCENARIO);
    let all = json(&simulate(folder.path(), &["test.toml", "--variants", "sack", "--seeds", "2", "--json"]));
    let events = [0, 1].map(|run| all["runs"][run]["events"].as_u64().unwrap());
    let (one, at_limit) = if events[0] < events[1] { (0, 1) } else { (1, 0) };
    let limit = format!("stop.max_events={}", events[at_limit] - 1);
    let limited = ["test.toml", "--variants", "sack", "--seeds", "2", "--set", &limit];
    let output = simulate(folder.path(), &[&limited[..], &["--json"]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let (summary, run) = (&document["summary"][0], &document["runs"][one]);
    assert_eq!((&summary["runs"], &summary["limited"]), (&json!(2), &json!(1)));
    let retransmissions: u64 = (0..2).map(|flow| run["flows"][flow]["retransmissions"].as_u64().unwrap()).sum();
    assert_eq!(summary["flows"][0]["retransmissions"]["mean"].as_f64(), Some(retransmissions as f64));
    let text = String::from_utf8(simulate(folder.path(), &limited).stdout).unwrap();
    assert!(text.contains("Figures are without the runs that stopped at a limit."), "{text}");
}

#[test]
fn one_run_at_its_limit_is_one_run_and_named_by_its_seed() {
    let folder = folder(SCENARIO);
    let args = ["test.toml", "--variants", "sack", "--seeds", "7..7", "--set", "stop.max_events=100"];
    let error = stderr(&simulate(folder.path(), &args));
    let expected = "1 run stopped at a limit: sack, seed 7, at its limit of events (stop.max_events)";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn a_sweep_keeps_and_marks_runs_at_their_limit() {
    let folder = folder(SCENARIO);
    let sweep = ["test.toml", "--variants", "sack", "--seeds", "2", "--sweep", "stop.max_events=100,1000000"];
    let run = |more: &[&str]| {
        let output = simulate(folder.path(), &[&sweep[..], more].concat());
        assert_eq!(output.status.code(), Some(1));
        let expected =
            "2 runs stopped at a limit, the first of them stop.max_events=100, sack, seed 1, at its limit of events";
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(run(&[]).contains("at a limit"));
    for more in [&["--json"][..], &["--json", "--out", "out"], &["--json", "--out", "out"]] {
        let document: Value = serde_json::from_str(&run(more)).unwrap();
        assert_eq!(document["runs"], 4);
        let files = document["summary"].as_array().unwrap().iter().filter(|summary| summary["group"] == "file");
        let limited: Vec<_> = files.map(|file| (file["limited"].as_u64(), file["goodput_bps"].is_null())).collect();
        assert_eq!(limited, [(Some(2), true), (Some(0), false)]);
    }
    let table = fs::read_to_string(folder.path().join("out/sweep.csv")).unwrap();
    let marked = table.lines().filter(|row| row.starts_with("100,") && row.contains(",event_limit,"));
    assert_eq!((table.lines().count(), marked.count()), (1 + 4 * 3, 2 * 3));
}

#[test]
fn a_variant_that_does_not_depend_on_the_setting_runs_once_for_all_points() {
    let variants = "[tcp.mine]\npreset = \"sack\"\n[variants.tuned]\n\"flow.file.tcp\" = \"mine\"\n\
                    [variants.plain]\n\"flow.file.tcp\" = \"cubic\"\n";
    let text = format!("{}\n{variants}", SCENARIO.split("[variants]").next().unwrap());
    let folder = folder(&text);
    let sweep = ["test.toml", "--json", "--sweep", "tcp.mine.initial_window=2segments,10segments"];
    for more in [&[][..], &["--out", "out"], &["--out", "out"]] {
        let output = simulate(folder.path(), &[&sweep[..], more].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        let files = document["summary"].as_array().unwrap().iter().filter(|summary| summary["group"] == "file");
        let found: Vec<_> = files.map(|file| (file["point"].as_u64(), file["variant"].as_str())).collect();
        let expected = [(0, "tuned"), (0, "plain"), (1, "tuned"), (1, "plain")];
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(expected.iter().all(|(point, name)| found.contains(&(Some(*point), Some(*name)))), "{found:?}");
    }
    let same = ["test.toml", "--variants", "plain", "--sweep", "tcp.mine.initial_window=2segments,10segments"];
    assert!(stderr(&simulate(folder.path(), &same)).contains("are the same simulation"));
}

#[test]
fn an_interrupt_keeps_what_is_finished() {
    // The first variant takes moments, the second would take very long.
    let endless = SCENARIO.replace("[variants]", "[variants]\nquick = {}").replace(
        "sack = { \"flow.file.tcp\" = \"sack\" }\nnewreno = { \"flow.file.tcp\" = \"newreno\" }",
        "endless = { \"stop.time\" = \"87600h\", \"stop.complete\" = false, \"flow.ping.ping\" = { interval = \"1ms\", requests = 100_000_000_000 } }",
    );
    let folder = folder(&endless);
    let mut child = Command::new(env!("CARGO_BIN_EXE_bentpipe"))
        .args(["simulate", "test.toml", "--jobs", "2", "--out", "out", "--json"])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The picture is drawn once the first run is finished and written.
    let started = Instant::now();
    while !folder.path().join("out/traces-quick-1.svg").exists() {
        assert!(started.elapsed() < Duration::from_secs(60) && child.try_wait().unwrap().is_none(), "no first result");
        std::thread::sleep(Duration::from_millis(20));
    }
    let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("interrupted: 1 of 2 runs were finished and are kept"), "{}", stderr(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["runs"].as_array().unwrap().len(), 1);
    let files = files(&folder.path().join("out"));
    assert!(files["flows.csv"].starts_with(b"variant,seed,name,"));
    assert!(files.contains_key("packets-quick-1-a.pcapng") && !files.contains_key("packets-endless-1-a.pcapng"));
}

#[test]
fn an_interrupt_before_the_first_result_leaves_no_empty_tables() {
    let endless = SCENARIO.replace("200kB", "100GB");
    let folder = folder(endless.split("[variants]").next().unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
    command.args(["simulate", "test.toml", "--set", "stop.time=87600h", "--set", "stop.max_memory=8GB"]);
    command.args(["--out", "out", "--format", "parquet"]);
    let mut child = command.current_dir(folder.path()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while partial_tables(&folder.path().join("out")).is_none() {
        assert!(begun.elapsed() < Duration::from_secs(60) && child.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.contains("interrupted: 0 of ") && !said.contains("kept") && !said.contains("wrote"), "{said}");
    assert!(!files(&folder.path().join("out")).keys().any(|name| name.ends_with(".parquet")));
}

#[test]
fn a_directory_that_another_command_writes_results_to_is_refused() {
    let endless = SCENARIO.replace("200kB", "100GB");
    let folder = folder(endless.split("[variants]").next().unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
    command.args([
        "simulate",
        "test.toml",
        "--set",
        "stop.time=87600h",
        "--set",
        "stop.max_memory=8GB",
        "--out",
        "out",
    ]);
    let mut child = command.current_dir(folder.path()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let (begun, out) = (Instant::now(), folder.path().join("out"));
    while partial_tables(&out).is_none() {
        assert!(begun.elapsed() < Duration::from_secs(60) && child.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(10));
    }
    let second = simulate(folder.path(), &["test.toml", "--out", "out"]);
    let left = partial_tables(&out);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(second.status.code(), Some(2), "{}", stderr(&second));
    assert!(stderr(&second).contains("--out out: another command is writing results there"), "{}", stderr(&second));
    assert!(left.is_some(), "the files of the first are gone");

    // What the killed one left behind is no results.
    let third = simulate(folder.path(), &["test.toml", "--out", "out"]);
    assert!(third.status.success() && partial_tables(&out).is_none(), "{}", stderr(&third));
}

#[test]
fn an_output_that_is_a_file_is_named_as_such() {
    let folder = folder(SCENARIO);
    for args in [&["--out", "test.toml"][..], &["--out", "test.toml", "--sweep", "link.sat.loss=0,1e-3"]] {
        let output = simulate(folder.path(), &[&["test.toml"], args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let said = stderr(&output);
        assert!(said.contains("--out test.toml: this is a file, and a directory is needed"), "{said}");
    }
}

#[test]
fn the_schema_is_printed_and_a_check_runs_nothing() {
    let folder = folder(SCENARIO);
    let schema = json(&simulate(folder.path(), &["--schema"]));
    assert_eq!(schema["properties"]["version"]["const"], 1);
    let checked = json(&simulate(folder.path(), &["test.toml", "--check", "--seeds", "7", "--json"]));
    assert_eq!(checked["runs"], 14);
}

/// A client and a server on either side of two gateways whose satellite link has no rate; but in the variant `rated`.
const NO_RATE: &str = r#"
version = 1
nodes = ["client", "near", "far", "server"]
[[link]]
name = "satellite"
between = ["near", "far"]
delay = "275ms"
queue = "100packets"
[[link]]
name = "left"
between = ["client", "near"]
rate = "100Mbit/s"
queue = "100packets"
[[link]]
name = "right"
between = ["far", "server"]
rate = "100Mbit/s"
queue = "100packets"
[[gateway]]
name = "pair"
nodes = ["near", "far"]
[[flow]]
name = "file"
from = "client"
to = "server"
bulk = { size = "10kB" }
[variants]
rated = { "link.satellite.rate" = "6Mbit/s" }
unrated = {}
"#;

#[test]
fn a_check_refuses_what_a_run_would_and_nothing_runs_before_all_variants_are_checked() {
    let folder = folder(NO_RATE);
    let sweep = ["--sweep", "flow.file.bulk.size=10kB,20kB", "--check"];
    for args in [&["--check"][..], &["--out", "out"], &sweep] {
        let output = simulate(folder.path(), &[&["test.toml"], args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("run unrated-1: gateway `pair`"), "{args:?}: {}", stderr(&output));
    }
    assert!(!folder.path().join("out").exists());
    assert!(simulate(folder.path(), &["test.toml", "--check", "--variants", "rated"]).status.success());
}

/// Each run takes a fraction of a millisecond: none of them looks at the interrupt by itself.
#[test]
fn a_signal_ends_many_short_runs() {
    let short = SCENARIO.replace("200kB", "1kB").replace("requests = 3", "requests = 1");
    let short = short.split("[record]").next().unwrap();
    for signal in ["INT", "TERM"] {
        let folder = folder(short);
        let mut command = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
        command.args(["simulate", "test.toml", "--seeds", "1000000", "--out", "out"]).current_dir(folder.path());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let begun = Instant::now();
        // Runs are being made once some have been written.
        while partial_tables(&folder.path().join("out")).unwrap_or(0) < 10_000 {
            assert!(begun.elapsed() < Duration::from_secs(60) && child.try_wait().unwrap().is_none());
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap().success());
        let signalled = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if signalled.elapsed() > Duration::from_secs(20) {
                child.kill().unwrap();
                child.wait().unwrap();
                panic!("SIG{signal} was ignored");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let said = stderr(&output);
        assert!(said.contains("interrupted: ") && said.contains(" of 1000000 runs were finished"), "{said}");
    }
}

#[test]
fn a_page_has_the_headline_the_tables_and_what_was_received() {
    let folder = folder(SCENARIO);
    let output = simulate(folder.path(), &["test.toml", "--page", "run.html", "--seeds", "2"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = fs::read_to_string(folder.path().join("run.html")).unwrap();
    for expected in
        ["times as fast as", "of what the link allows", "<caption>Flows</caption>", "limit of the link", "--seeds 2"]
    {
        assert!(page.contains(expected), "{expected}");
    }
    // Both files of each variant, and three pings.
    let data = page.split("id=\"run\">").nth(1).unwrap().split("</script>").next().unwrap();
    let data: Value = serde_json::from_str(data).unwrap();
    let names: Vec<_> =
        data["courses"].as_array().unwrap().iter().map(|course| course["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["sack", "newreno", "limit of the link"]);
    assert!(data["courses"][0]["whole"].as_f64().unwrap() >= 400_000.0, "{}", data["courses"][0]["whole"]);
}

#[test]
fn a_page_does_not_call_a_transfer_complete_that_the_end_of_the_run_cut_off() {
    let folder = folder(SCENARIO);
    let output = simulate(folder.path(), &["test.toml", "--page", "run.html", "--set", "stop.time=1s"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let page = fs::read_to_string(folder.path().join("run.html")).unwrap();
    let data = page.split("id=\"run\">").nth(1).unwrap().split("</script>").next().unwrap();
    let data: Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["courses"][0]["is_complete"], false, "{}", data["courses"][0]["name"]);
}

#[test]
fn a_sweep_runs_each_combination_and_begun_again_makes_only_what_is_missing() {
    let folder = folder(SCENARIO);
    let sweep = |seeds: &str| {
        let axes = ["--sweep", "link.sat.loss=1e-4,1e-2", "--sweep", "flow.file.bulk.size=20kB,200kB"];
        let rest = ["test.toml", "--variants", "sack", "--seeds", seeds, "--out", "out", "--json"];
        json(&simulate(folder.path(), &[&axes[..], &rest[..]].concat()))
    };
    let first = sweep("2");
    assert_eq!((first["runs"].as_u64(), first["kept"].as_u64()), (Some(8), Some(0)));
    assert_eq!(first["points"][3]["flow.file.bulk.size"], "200kB");
    let goodput = |point: u64| {
        let summary = first["summary"].as_array().unwrap().iter();
        let of = summary.filter(|summary| summary["point"].as_u64() == Some(point) && summary["group"] == "file");
        of.map(|summary| summary["goodput_bps"]["mean"].as_f64().unwrap()).next().unwrap()
    };
    assert!(goodput(1) > goodput(3), "more losses, less goodput");
    let table = fs::read_to_string(folder.path().join("out/sweep.csv")).unwrap();
    assert!(table.starts_with("link.sat.loss,flow.file.bulk.size,scenario,version,variant,seed,"), "{table}");
    assert_eq!(table.lines().count(), 1 + 8 * 3);
    assert!(fs::read_to_string(folder.path().join("out/sweep.svg")).unwrap().contains("<svg"));

    let again = sweep("3");
    assert_eq!((again["runs"].as_u64(), again["kept"].as_u64()), (Some(12), Some(8)));
    let all = sweep("2");
    assert_eq!(all["kept"], 8);
    assert_eq!(all["summary"], first["summary"]);
    assert_eq!(fs::read_to_string(folder.path().join("out/sweep.csv")).unwrap(), table);
    let png = ["test.toml", "--sweep", "link.sat.loss=1e-4,1e-2", "--variants", "sack", "--pictures", "png"];
    assert!(simulate(folder.path(), &[&png[..], &["--out", "out"]].concat()).status.success());
    assert!(fs::read(folder.path().join("out/sweep.png")).unwrap().starts_with(b"\x89PNG"));
    assert!(!folder.path().join("out/sweep.svg").exists(), "a picture of an earlier sweep");
    for (setting, shown) in [
        ("link.sat.queue=1BDP,2BDP", "link.sat.queue, BDP"),
        ("link.sat.queue=20packets,200packets", "link.sat.queue, packets"),
        ("link.sat.queue=1BDP,unlimited", "unlimited"),
    ] {
        let args = ["test.toml", "--sweep", setting, "--variants", "sack", "--out", "drawn"];
        assert!(simulate(folder.path(), &args).status.success(), "{setting}");
        let picture = fs::read_to_string(folder.path().join("drawn/sweep.svg")).unwrap();
        assert!(picture.contains(shown), "{setting}");
    }
}

#[test]
fn a_sweep_that_cannot_be_is_refused_before_anything_runs() {
    let folder = folder(SCENARIO);
    for (axis, message) in [
        ("link.sat.los=1e-4", "did you mean loss?"),
        ("link.sat.loss", "KEY=VALUE,VALUE"),
        ("link.sat.loss=1,,2", "empty"),
        ("link.sat.loss=1e-3,x", "--sweep link.sat.loss=x: link.sat.loss"),
        ("link.sat.loss=0.001,1e-3", "are the same simulation"),
        ("seeds.count=1,2", "are the same simulation"),
    ] {
        let output = simulate(folder.path(), &["test.toml", "--sweep", axis, "--out", "out"]);
        assert_eq!(output.status.code(), Some(2), "{axis}");
        assert!(stderr(&output).contains(message), "{}", stderr(&output));
    }
    let twice = ["test.toml", "--sweep", "link.sat.loss=0.1,0.2", "--sweep", "link.sat.loss=0.3,0.4", "--out", "out"];
    let output = simulate(folder.path(), &twice);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--sweep link.sat.loss: given twice"), "{}", stderr(&output));
    assert!(!folder.path().join("out").exists());
}
