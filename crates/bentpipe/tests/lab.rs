//! `bentpipe lab`: a scenario for real, and what it says to one that cannot be.
//! Where the machine does not allow namespaces, the test that needs them says so and passes.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: starts programs and waits for them")]

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

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

fn lab(folder: &Path, options: &[&str]) -> Output {
    let file = folder.join("chain.toml");
    std::fs::write(&file, SCENARIO).unwrap();
    Command::new(env!("CARGO_BIN_EXE_bentpipe"))
        .arg("lab")
        .arg(file)
        .args(options)
        .env_remove("BENTPIPE_LOG")
        .output()
        .unwrap()
}

#[test]
fn a_chain_runs_for_real_with_its_drop_list() {
    let folder = tempfile::tempdir().unwrap();
    let output = lab(folder.path(), &["--variants", "cubic", "--json"]);
    if output.status.code() == Some(3) && std::env::var_os("BENTPIPE_MUST_RUN").is_none() {
        eprintln!("SKIPPED: {}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
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
    let folder = tempfile::tempdir().unwrap();
    let output = lab(folder.path(), &["--variants", "small", "--json"]);
    if output.status.code() == Some(3) && std::env::var_os("BENTPIPE_MUST_RUN").is_none() {
        eprintln!("SKIPPED: {}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let (flow, link) = (&document["runs"][0]["flows"][0], &document["runs"][0]["links"][0]);
    // Ten windows of 28 kB at most, each a round trip of 40 ms, and slow start before them.
    let time = flow["end_s"].as_f64().unwrap() - flow["start_s"].as_f64().unwrap();
    assert!((0.4..10.0).contains(&time), "{time}");
    assert!(link["delivered_packets"].as_u64().unwrap() >= 300_000 / 1024, "{link}");
}

#[test]
fn what_has_no_counterpart_is_refused_by_name_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    for (options, culprit) in [
        (vec![], "variant vegas: flow `file`"),
        (vec!["--variants", "moon"], "no variant moon"),
        (vec!["--variants", "cubic", "--set", "link.lan.delay=5ms"], "lan, sat"),
        (vec!["--variants", "cubic", "--set", "flow.file.start=soon"], "soon"),
        (vec!["--variants", "cubic", "--set", "flow.file.tcp=tahoe"], "recovery tahoe"),
    ] {
        let output = lab(folder.path(), &options);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{options:?}: {text}");
        assert!(text.contains(culprit), "{options:?}: {text}");
    }
}
