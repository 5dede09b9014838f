//! `bentpipe gateway` and `bentpipe keygen` without a network: keys, settings and their faults.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: starts processes")]

mod published;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn bentpipe(arguments: &[&str], stdin: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_bentpipe"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that reads nothing may have ended already.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    child.wait_with_output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Settings that are complete, in a file.
fn settings(directory: &Path, extra: &str) -> String {
    let key = stdout(&bentpipe(&["keygen"], ""));
    let peer = stdout(&bentpipe(&["keygen", "--public"], &stdout(&bentpipe(&["keygen"], ""))));
    let path = directory.join("gateway.toml");
    let text = format!(
        "[gateway]\nprivate_key = \"{}\"\n[link]\nrate = \"6Mbit/s\"\nrtt = \"550ms\"\ninterface = \"sat0\"\n\
         [intercept]\ninterfaces = [\"lan0\"]\n[[peer]]\nname = \"hub\"\npublic_key = \"{}\"\n{extra}",
        key.trim(),
        peer.trim()
    );
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn a_key_file_is_private_and_never_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("private.key");
    let file = path.to_str().unwrap();
    let made = bentpipe(&["keygen", "--out", file], "");
    assert!(made.status.success(), "{}", stderr(&made));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let private = std::fs::read_to_string(&path).unwrap();
    assert_eq!(stdout(&bentpipe(&["keygen", "--public"], &private)), stdout(&made));
    let again = bentpipe(&["keygen", "--out", file], "");
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains(file) && stderr(&again).contains("overwrites no key"), "{}", stderr(&again));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), private);
}

#[test]
fn the_folders_of_a_key_file_are_made_for_its_owner() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("etc/bentpipe/private.key");
    let made = bentpipe(&["keygen", "--out", path.to_str().unwrap()], "");
    assert!(made.status.success(), "{}", stderr(&made));
    for folder in path.ancestors().skip(1).take(2) {
        assert_eq!(std::fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700, "{}", folder.display());
    }
}

/// Of the command line itself, and of what a command finds.
#[test]
fn with_json_a_fault_is_a_json_object_on_stderr() {
    for arguments in [&["predict", "--loss", "2", "--json"][..], &["simulate", "/nonexistent.toml", "--json"]] {
        let refused = bentpipe(arguments, "");
        let text = bentpipe(&arguments.iter().copied().filter(|one| *one != "--json").collect::<Vec<_>>(), "");
        assert_eq!((refused.status.code(), stdout(&refused).as_str()), (Some(2), ""), "{arguments:?}");
        let document: serde_json::Value = serde_json::from_str(&stderr(&refused)).unwrap();
        assert_eq!(document["exit_code"], 2);
        assert_eq!(format!("bentpipe: {}\n", document["error"].as_str().unwrap()), stderr(&text));
    }
}

#[test]
fn what_is_no_key_is_refused() {
    for input in ["", "short", &"A".repeat(5000)] {
        let output = bentpipe(&["keygen", "--public"], input);
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(stderr(&output).lines().count(), 1);
    }
}

#[test]
fn a_check_reports_every_fault_with_its_line_and_exit_code_2() {
    let directory = tempfile::tempdir().unwrap();
    let file = settings(directory.path(), "");
    let good = bentpipe(&["gateway", "--config", &file, "--check", "--elsewhere"], "");
    assert!(good.status.success(), "{}", stderr(&good));
    let checked = bentpipe(&["gateway", "--config", &file, "--check", "--elsewhere", "--json"], "");
    let document = serde_json::from_str(&stdout(&checked)).unwrap();
    published::assert_as_published("gateway-check", &document);
    assert_eq!((&document["config"], &document["valid"]), (&file.as_str().into(), &true.into()));
    assert_eq!(document["notes"], serde_json::json!([]));
    let on_the_link = std::fs::read_to_string(&file).unwrap().replace("lan0", "sat0");
    std::fs::write(&file, on_the_link).unwrap();
    let noted = bentpipe(&["gateway", "--config", &file, "--check", "--elsewhere", "--json"], "");
    let document: serde_json::Value = serde_json::from_str(&stdout(&noted)).unwrap();
    assert!(document["notes"][0].as_str().unwrap().starts_with("[intercept] interfaces names sat0"), "{document}");
    let bad =
        bentpipe(&["gateway", "--config", &settings(directory.path(), "wieght = 3\ncap = \"fast\"\n"), "--check"], "");
    assert_eq!(bad.status.code(), Some(2));
    let faults = stderr(&bad);
    assert!(faults.contains("gateway.toml:12:1: peer.hub.wieght: unknown key; did you mean weight?"), "{faults}");
    assert!(faults.contains("gateway.toml:13:7: peer.hub.cap = \"fast\": "), "{faults}");
    let missing = bentpipe(&["gateway", "--config", "/nowhere/gateway.toml"], "");
    assert_eq!(missing.status.code(), Some(2));
    assert!(stderr(&missing).contains("/nowhere/gateway.toml"));
}

#[test]
fn interfaces_that_this_machine_does_not_have_are_faults_of_a_check() {
    let directory = tempfile::tempdir().unwrap();
    let file = settings(directory.path(), "");
    let text = std::fs::read_to_string(&file).unwrap().replace("sat0", "l0").replace("lan0\"", "lo\", \"lan77\"");
    std::fs::write(&file, text).unwrap();
    let checked = bentpipe(&["gateway", "--config", &file, "--check"], "");
    assert_eq!(checked.status.code(), Some(2));
    let faults = stderr(&checked);
    assert!(
        faults.contains(
            "gateway.toml:6:13: link.interface = \"l0\": this machine has no such interface; did you mean lo?"
        ),
        "{faults}"
    );
    assert!(
        faults.contains("gateway.toml:8:21: intercept.interfaces = \"lan77\": this machine has no such"),
        "{faults}"
    );
    assert_eq!(faults.lines().count(), 2, "{faults}");
    for option in ["--elsewhere", "--without-interfaces"] {
        assert!(bentpipe(&["gateway", "--config", &file, "--check", option], "").status.success(), "{option}");
    }
}

#[test]
fn what_a_check_does_not_look_for_is_refused_with_what_is_no_check() {
    for option in ["--elsewhere", "--without-interfaces"] {
        for other in ["--dry-run", "--take-over"] {
            let output = bentpipe(&["gateway", "--config", "/no/such/file", other, option], "");
            assert_eq!(output.status.code(), Some(2));
            assert!(stderr(&output).contains(option), "{other} {option}: {}", stderr(&output));
        }
    }
}

#[test]
fn a_file_of_another_machine_is_checked_without_its_key() {
    let directory = tempfile::tempdir().unwrap();
    let file = settings(directory.path(), "");
    let text = std::fs::read_to_string(&file).unwrap();
    let key = text.lines().find(|line| line.starts_with("private_key")).unwrap();
    std::fs::write(&file, text.replace(key, "private_key_file = \"/nowhere/private.key\"")).unwrap();
    let check = |option| bentpipe(&["gateway", "--config", &file, "--check", option], "");
    let elsewhere = check("--elsewhere");
    assert!(elsewhere.status.success(), "{}", stderr(&elsewhere));
    let here = check("--without-interfaces");
    assert_eq!(here.status.code(), Some(2));
    assert!(stderr(&here).contains("private_key_file = \"/nowhere/private.key\": No such file"), "{}", stderr(&here));
}

#[test]
fn a_dry_run_prints_the_commands_and_runs_none() {
    let directory = tempfile::tempdir().unwrap();
    let output = bentpipe(&["gateway", "--config", &settings(directory.path(), ""), "--dry-run"], "");
    assert!(output.status.success(), "{}", stderr(&output));
    let script = stdout(&output);
    for part in ["ip -4 rule add fwmark 0x62700001 lookup 25200", "table inet bentpipe {", "tproxy ip6 to [::1]:4501"] {
        assert!(script.contains(part), "{part}: {script}");
    }
    let output = bentpipe(&["gateway", "--config", &settings(directory.path(), ""), "--dry-run", "--json"], "");
    let document: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    published::assert_as_published("gateway-dry-run", &document);
    assert_eq!(document["script"].as_str().unwrap().trim_end(), script.trim_end());
}

#[test]
fn a_watched_status_waits_for_the_gateway_until_its_reader_has_gone() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
    command.args(["gateway", "status", "--socket", "/nowhere/x.sock", "--watch", "10ms"]).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let shown: Vec<_> = (0..3).map(|_| lines.next().unwrap().unwrap()).collect();
    assert!(shown[0].contains("no gateway serves /nowhere/x.sock"), "{shown:?}");
    assert_eq!(shown[2], shown[0], "once more, after an empty line");
    drop(lines);
    assert!(child.wait().unwrap().success());
}

#[test]
fn commands_of_the_gateway_that_are_looked_for_elsewhere_are_found() {
    for (arguments, expected) in [
        (&["status"][..], "bentpipe gateway status"),
        (&["doctor"], "bentpipe gateway doctor --config FILE"),
        (&["gateway", "start"], "bentpipe gateway --config FILE runs a gateway"),
    ] {
        let output = bentpipe(arguments, "");
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
}

#[test]
fn the_status_of_no_gateway_is_a_failure_that_names_the_socket() {
    let output = bentpipe(&["gateway", "status", "--socket", "/nowhere/x.sock"], "");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("/nowhere/x.sock"));
}
