//! `bentpipe demo` end to end: real TCP over an emulated satellite in private namespaces. Where the machine allows
//! neither root nor user namespaces, the tests say so and pass.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: runs programs and waits on the real clock")]

mod published;

use serde_json::Value;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn demo(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
    command.arg("demo").args(args).env_remove("BENTPIPE_LOG").stdin(Stdio::null());
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Says that a test did not run, or fails it where all must.
fn skip(why: &str) {
    assert!(std::env::var_os("BENTPIPE_MUST_RUN").is_none(), "{why}");
    eprintln!("skipped: {why}");
}

/// The result of a demo, or `None` where the machine lacks what it needs.
fn result(args: &[&str]) -> Option<Value> {
    let output = demo(args).arg("--json").output().unwrap();
    if output.status.code() == Some(3) {
        skip(&stderr(&output));
        return None;
    }
    assert!(output.status.success(), "{}", stderr(&output));
    let document = serde_json::from_slice(&output.stdout).unwrap();
    published::assert_as_published("demo", &document);
    Some(document)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

#[test]
fn the_gateways_beat_end_to_end_tcp_on_a_lossy_link_and_every_byte_is_verified() {
    let args =
        ["--rate", "10Mbit/s", "--rtt", "200ms", "--size", "400kB", "--loss", "1e-2", "--paths", "cubic,bentpipe"];
    let Some(result) = result(&args) else { return };
    let [cubic, bentpipe] = [&result["paths"][0], &result["paths"][1]];
    // 0.5 x 0.2 s + 400,000 x 8 / (10^7 x 1448/1500 x 0.99) s
    let limit = 0.1 + 3.2e6 / (1e7 * 1448.0 / 1500.0 * 0.99);
    for path in [cubic, bentpipe] {
        assert_eq!(path["verified"], true);
        assert!((number(&path["limit_s"]) - limit).abs() < 1e-6);
        assert!(number(&path["time_s"]) > 0.97 * limit, "nothing is faster than the link: {path}");
        assert!((number(&path["limit_share"]) - limit / number(&path["time_s"])).abs() < 1e-9);
        assert!(number(&path["overhead"]) > 1.03, "headers cost something: {path}");
    }
    assert!(number(&cubic["dropped"]["loss"]["packets"]) > 0.0, "the link loses packets");
    let ratio = number(&cubic["time_s"]) / number(&bentpipe["time_s"]);
    assert!(ratio > 1.5, "cubic took only {ratio} times as long");
}

#[test]
fn several_flows_go_down_over_ipv6_and_share_the_link() {
    let args = ["--rate", "20Mbit/s", "--rtt", "60ms", "--size", "200kB", "--flows", "4", "--direction", "down", "-6"];
    let Some(result) = result(&[&args[..], &["--paths", "bentpipe,bbr"]].concat()) else { return };
    for path in result["paths"].as_array().unwrap() {
        assert_eq!(path["verified"], true);
        assert_eq!(path["flows"].as_array().unwrap().len(), 4);
    }
    assert!(number(&result["paths"][0]["jain_index"]) > 0.9, "{result}");
}

#[test]
fn data_verifies_through_loss_reordering_and_duplication() {
    let harm = ["--loss", "1e-2", "--reorder", "1e-2", "--duplicate", "1e-2", "--paths", "bentpipe"];
    let Some(result) = result(&[&["--rate", "20Mbit/s", "--rtt", "100ms", "--size", "1MB"][..], &harm].concat()) else {
        return;
    };
    assert_eq!(result["paths"][0]["verified"], true);
    assert!(number(&result["paths"][0]["dropped"]["loss"]["packets"]) > 0.0, "{result}");
    let command = result["command"].as_str().unwrap();
    assert!(command.contains("--reorder 0.01 --duplicate 0.01"), "{command}");
}

#[test]
fn a_failed_demo_leaves_the_page_of_an_earlier_one_alone() {
    let directory = tempfile::tempdir().unwrap();
    let (old, new) = (directory.path().join("old.html"), directory.path().join("new.html"));
    std::fs::write(&old, "earlier").unwrap();
    for page in [&old, &new] {
        let args = ["--rtt", "500ms", "--timeout", "50ms", "--paths", "cubic", "--out"];
        let output = demo(&args).arg(page).output().unwrap();
        if output.status.code() == Some(3) {
            skip(&stderr(&output));
            return;
        }
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(stderr(&output).contains("cubic: "), "{}", stderr(&output));
    }
    assert_eq!(std::fs::read_to_string(old).unwrap(), "earlier");
    assert!(!new.exists());
}

#[test]
fn the_curves_are_drawn_and_written_as_a_page() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("demo.html");
    let args = ["--rate", "20Mbit/s", "--rtt", "20ms", "--size", "100kB", "--loss", "0", "--paths", "cubic", "--out"];
    let output = demo(&args).arg(&page).output().unwrap();
    if output.status.code() == Some(3) {
        skip(&stderr(&output));
        return;
    }
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("| cubic |") && text.contains("Mbit/s"), "{text}");
    let page = std::fs::read_to_string(page).unwrap();
    let limit =
        text.lines().find(|line| line.starts_with("| cubic |")).unwrap().split('|').nth(4).unwrap().trim().to_owned()
            + " %";
    assert!(page.contains(&format!("cubic: {limit} of what the link allows")), "{limit}");
    for expected in ["<caption>Paths</caption>", "limit of the link", "bentpipe demo --rate"] {
        assert!(page.contains(expected), "{expected}");
    }
}

#[test]
fn nothing_outlives_a_demo_that_is_killed() {
    let mut demo = demo(&["--rate", "1Mbit/s", "--size", "10MB", "--paths", "bentpipe"]).spawn().unwrap();
    let id = demo.id();
    let children = || {
        let path = format!("/proc/{id}/task/{id}/children");
        let pids = std::fs::read_to_string(path).unwrap_or_default();
        pids.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    // Two gateways, and no `ip` on its way, are running.
    let mut gateways = Vec::new();
    while gateways.len() < 2 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
        let name = |pid: &String| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        gateways = children().into_iter().filter(|pid| name(pid).trim() == "bentpipe").collect();
        if gateways.is_empty() && demo.try_wait().unwrap().is_some_and(|status| status.code() == Some(3)) {
            skip("the machine lacks something");
            return;
        }
    }
    assert_eq!(gateways.len(), 2);
    demo.kill().unwrap();
    demo.wait().unwrap();
    let is_alive =
        |pid: &String| std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|s| !s.contains(") Z "));
    while gateways.iter().any(is_alive) {
        assert!(Instant::now() < deadline, "gateways outlived the demo");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn wrong_arguments_are_one_line_that_names_the_culprit_with_exit_code_2() {
    for (args, culprit) in [
        (&["--rate", "6"][..], "--rate"),
        (&["--rate", "0Mbit/s"], "--rate"),
        (&["--rtt", "2min"], "--rtt"),
        (&["--loss", "1.5"], "--loss"),
        (&["--size", "0B"], "--size"),
        (&["--flows", "0"], "--flows"),
        (&["--direction", "sideways"], "--direction"),
        (&["--reorder", "0.6"], "--reorder"),
        (&["--paths", "cubic,nosuch"], "--paths nosuch"),
        (&["--out", "/no/such/directory/demo.html"], "--out"),
    ] {
        let output = demo(args).output().unwrap();
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        assert!(message.contains(culprit), "{args:?}: {message}");
        assert_eq!(message.lines().count(), 1, "{args:?}: {message}");
    }
}
