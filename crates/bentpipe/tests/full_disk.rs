//! A stdout or stderr that cannot be written is an exit code, not a panic.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

fn full() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
}

fn bentpipe(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
    command.args(arguments);
    command
}

#[test]
fn a_full_stderr_keeps_the_exit_code() {
    for arguments in
        [&["predict", "--rate", "6"][..], &["predict", "--rate", "6", "--json"], &["simulate", "/nonexistent"]]
    {
        let status = bentpipe(arguments).stderr(full()).stdout(Stdio::null()).status().unwrap();
        assert_eq!(status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn a_full_stdout_is_a_failure_that_says_so() {
    for arguments in [&["predict", "--rate", "6Mbit/s", "--rtt", "550ms"][..], &["completions", "bash"], &["--help"]] {
        let output = bentpipe(arguments).stdout(full()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.starts_with("bentpipe: ") && text.contains("No space left"), "{text}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    for arguments in [&["papers", "--list"][..], &["completions", "bash"], &["--help"]] {
        let mut child = bentpipe(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stderr.is_empty()), (Some(0), true), "{output:?}");
    }
}

#[test]
fn a_full_disk_is_a_failure_and_a_name_that_cannot_be_is_wrong_usage() {
    let folder = tempfile::tempdir().unwrap();
    let full = folder.path().join("full.svg");
    std::os::unix::fs::symlink("/dev/full", &full).unwrap();
    let missing = folder.path().join("missing/file.svg");
    let link = ["--rate", "6Mbit/s", "--rtt", "550ms"];
    for (command, rest) in
        [("predict", &["--plot", "loss=1e-6..1e-1", "--out"][..]), ("tune", &["--no-verify", "--script"])]
    {
        for (file, expected) in [(&full, 1), (&missing, 2)] {
            let output = bentpipe(&[&[command], &link[..], rest].concat()).arg(file).output().unwrap();
            let text = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(expected), "{command}: {text}");
            assert!(text.contains(file.to_str().unwrap()), "{command}: {text}");
        }
    }
}

#[test]
fn a_report_that_finds_a_full_disk_is_printed_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let reproduce = |out: &std::path::Path| {
        let output = bentpipe(&["papers", "marchese", "--item", "table-3", "--out"]).arg(out).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    std::os::unix::fs::symlink("/dev/full", folder.path().join("report.html")).unwrap();
    let (code, printed, said) = reproduce(folder.path());
    assert_eq!(code, Some(1), "{said}");
    assert!(printed.contains("IW=10") && said.contains("report.html: No space left"), "{printed}{said}");
    // What can never be is said before anything runs.
    std::fs::write(folder.path().join("file"), "").unwrap();
    let (code, printed, said) = reproduce(&folder.path().join("file/report"));
    assert_eq!((code, printed.as_str()), (Some(2), ""), "{said}");
}

/// `simulate` of geo-bulk.toml with two seeds into `out`, where files may not grow beyond `kilobytes`, as if the disk were full.
/// Its exit code, and what it prints on stdout and stderr.
fn simulate_within(kilobytes: u32, out: &Path, more: &[&str]) -> (Option<i32>, String, String) {
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/geo-bulk.toml");
    let limited = format!("trap '' XFSZ; ulimit -f {kilobytes}; exec \"$0\" \"$@\"");
    let mut command = Command::new("bash");
    command.args(["-c", &limited, env!("CARGO_BIN_EXE_bentpipe"), "simulate", scenario, "--seeds", "2", "--out"]);
    let output = command.arg(out).args(more).output().unwrap();
    let [printed, said] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.code(), printed, said)
}

fn names(folder: &Path) -> Vec<String> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn results_of_simulations_that_find_a_full_disk_are_printed_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (code, printed, said) = simulate_within(6, folder.path(), &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("File too large") && printed.contains("cubic"), "{printed}{said}");
}

#[test]
fn pictures_that_cannot_be_written_cost_no_tables() {
    let folder = tempfile::tempdir().unwrap();
    let (code, printed, said) = simulate_within(12, folder.path(), &["--set", "flow.file.bulk.size=100kB"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(".svg: File too large") && printed.contains("cubic"), "{printed}{said}");
    let flows = fs::read_to_string(folder.path().join("flows.csv")).unwrap();
    assert_eq!(flows.lines().count(), 1 + 2 * 5, "{flows}");
    let names = names(folder.path());
    assert!(!names.iter().any(|name| name.ends_with(".svg") || name.ends_with(".part")), "{names:?}");
}

#[test]
fn a_page_that_cannot_be_written_leaves_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let (out, page) = (folder.path().join("out"), folder.path().join("run.html"));
    let simulate = || simulate_within(12, &out, &["--variants", "cubic", "--page", page.to_str().unwrap()]);
    let (code, printed, said) = simulate();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("run.html: File too large") && printed.contains("cubic"), "{printed}{said}");
    assert!(!page.exists());
    fs::write(&page, "an earlier page").unwrap();
    assert_eq!(simulate().0, Some(1));
    assert_eq!(fs::read_to_string(&page).unwrap(), "an earlier page");
    let names = names(folder.path());
    assert!(!names.iter().any(|name| name.ends_with(".part")), "{names:?}");
}

#[test]
fn packets_that_cannot_be_written_cost_no_runs() {
    let folder = tempfile::tempdir().unwrap();
    let packets = ["--set", "record.packets=[\"client\"]", "--variants", "cubic", "--json"];
    let quiet = ["--set", "record.interval=\"10s\"", "--set", "record.queue_interval=\"10s\""];
    let (code, printed, said) = simulate_within(64, folder.path(), &[&packets[..], &quiet].concat());
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("packets-cubic-1-client.pcapng: packet capture: File too large"), "{said}");
    let document: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(document["runs"].as_array().unwrap().len(), 2);
    let names = names(folder.path());
    assert!(names.iter().any(|name| name == "flows.csv"), "{names:?}");
    assert!(!names.iter().any(|name| name.ends_with(".pcapng") || name.ends_with(".part")), "{names:?}");
}

#[test]
fn a_log_that_cannot_be_written_ends_nothing() {
    // It logs each row.
    let rows = ["bench", "limit", "--simulate-only", "--seeds", "1", "--json"];
    let output = bentpipe(&rows).stderr(full()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stdout.starts_with(b"{"));
}
