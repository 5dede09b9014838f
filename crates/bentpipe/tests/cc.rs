//! `bentpipe cc` as a user has it. Where nothing can be loaded (not root of the machine, no BTF), the tests that load say so
//! and pass.
#![allow(clippy::disallowed_methods, reason = "a test: runs programs in real time")]

mod published;

use socket2::{Domain, Socket, Type};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn bentpipe(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bentpipe")).args(arguments).output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a command prints with `--json`, which is what the schema says.
fn printed(schema: &str, arguments: &[&str]) -> serde_json::Value {
    let output = bentpipe(&[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    let document = serde_json::from_slice(&output.stdout).expect("JSON");
    published::assert_as_published(schema, &document);
    document
}

/// Whether the kernel has a control of this name now.
fn is_available(name: &str) -> bool {
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    std::fs::read_to_string(path).expect("the kernel tells").split_whitespace().any(|available| available == name)
}

/// Whether `name` can be loaded here; a user of this machine may have it already.
fn is_possible(name: &str) -> bool {
    let why = match congestion::requirements::check() {
        Ok(()) if !is_available(name) => return true,
        Ok(()) => format!("{name} is loaded already"),
        Err(error) => error.to_string(),
    };
    eprintln!("SKIPPED: {why}");
    false
}

fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Ended when the test ends, however it does.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn what_is_loaded_stays_until_it_is_unloaded() {
    if !is_possible("bp_tibet") {
        return;
    }
    let loaded = printed("cc-load", &["cc", "load", "bp_tibet"]);
    assert_eq!((&loaded["loaded"][0], &loaded["pinned"]), (&"bp_tibet".into(), &true.into()));
    assert!(is_available("bp_tibet"));
    let list = printed("cc-list", &["cc", "list"]);
    let controls = list["controls"].as_array().expect("a list");
    let tibet = controls.iter().find(|control| control["name"] == "bp_tibet").expect("it is listed");
    assert_eq!((&tibet["available"], &tibet["pinned"]), (&true.into(), &true.into()), "{tibet}");
    let again = bentpipe(&["cc", "load", "bp_tibet"]);
    assert_eq!(again.status.code(), Some(3));
    assert!(text(&again.stderr).contains("already"), "{}", text(&again.stderr));
    let unloaded = printed("cc-unload", &["cc", "unload", "bp_tibet"]);
    assert_eq!(unloaded["unloaded"][0], "bp_tibet");
    wait_for("it goes", || !is_available("bp_tibet"));
    assert_eq!(bentpipe(&["cc", "unload", "bp_tibet"]).status.code(), Some(2));
}

#[test]
fn what_a_process_holds_goes_with_it_when_it_is_killed() {
    if !is_possible("bp_cross") {
        return;
    }
    // Connections go on under what held them; it is nobody's then, and does not stand in the way of the next.
    let connections = [(); 2].map(|()| hold_and_kill());
    drop(connections);
}

/// Loads the cross-layer control for as long as a process runs, tells it of links, and has a connection outlive that process.
fn hold_and_kill() -> Socket {
    let hold = Command::new(env!("CARGO_BIN_EXE_bentpipe"))
        .args(["cc", "load", "bp_cross", "--rate", "8Mbit/s", "--run"])
        .stdout(Stdio::null())
        .spawn()
        .expect("it runs");
    let mut hold = Running(hold);
    wait_for("it is loaded", || is_available("bp_cross"));
    for (arguments, code) in [
        (&["cc", "link", "--rate", "4Mbit/s"][..], 0),
        (&["cc", "link", "--rate", "1Mbit/s", "--mark", "7", "--valid-for", "3s", "--fallback", "64kbit/s"], 0),
        (&["cc", "link", "--remove", "--mark", "0x7"], 0),
        (&["cc", "link", "--remove", "--mark", "7"], 1),
    ] {
        let message = bentpipe(arguments);
        assert_eq!(message.status.code(), Some(code), "{arguments:?}: {}", text(&message.stderr));
    }
    let set = printed(
        "cc-link",
        &["cc", "link", "--rate", "2Mbit/s", "--mark", "9", "--valid-for", "1min", "--fallback", "64kbit/s"],
    );
    assert_eq!((&set["mark"], &set["rate_bps"]), (&9.into(), &2_000_000.into()));
    let links = printed("cc-links", &["cc", "links"]);
    // The table's unit is coarser than a bit per second.
    let is_close =
        |link: &serde_json::Value| link["fallback_bps"].as_f64().is_some_and(|bps| (bps / 64_000.0 - 1.0).abs() < 1e-3);
    assert!(links["links"].as_array().expect("a list").iter().any(is_close), "{links}");
    let removed = printed("cc-link", &["cc", "link", "--remove", "--mark", "9"]);
    assert!(removed["rate_bps"].is_null(), "{removed}");
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_tcp_congestion(b"bp_cross").expect("it is there");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    socket.connect(&listener.local_addr().expect("an address").into()).expect("a connection");
    hold.0.kill().expect("it runs");
    wait_for("it goes", || !is_available("bp_cross"));
    socket
}

#[test]
fn a_command_that_runs_with_a_control_ends_with_sigterm() {
    if !is_possible("bp_vegas") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let number = folder.path().join("number");
    let script = format!("echo $$ > {0}.part && mv {0}.part {0} && exec sleep 600", number.display());
    let run = Command::new(env!("CARGO_BIN_EXE_bentpipe"))
        .args(["cc", "load", "bp_vegas", "--run", "--", "sh", "-c", &script])
        .spawn()
        .expect("it runs");
    let mut run = Running(run);
    wait_for("the command runs", || number.exists());
    let signalled = Command::new("kill").args(["-TERM", &run.0.id().to_string()]).status().expect("kill");
    assert!(signalled.success());
    let deadline = Instant::now() + Duration::from_secs(20);
    let status = loop {
        if let Some(status) = run.0.try_wait().expect("a child") {
            break status;
        }
        assert!(Instant::now() < deadline, "it goes on");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(status.code(), Some(1), "as if its command had been killed alone");
    let command = std::fs::read_to_string(&number).expect("a number");
    assert!(!Path::new("/proc").join(command.trim()).exists(), "the command has ended");
    assert!(!is_available("bp_vegas"), "the control goes with it");
}

#[test]
fn wrong_arguments_are_refused_before_anything_is_loaded() {
    for (arguments, expected) in [
        (&["load", "bbr"][..], "bp_cross"),
        (&["load", "bp_cross"], "--rate"),
        (&["load", "bp_hybla", "--rate", "1Mbit/s"], "bp_cross"),
        (&["load", "bp_cross", "--rate", "1Mbit/s", "--header-share=-1"], "0 to 10"),
        (&["link", "--rate", "1Mbit/s", "--target-queue", "2s"], "at most 1s"),
        (&["load", "bp_cross", "--rate", "1Mbit/s", "--connections", "0"], "connections"),
        (&["load", "bp_cross", "--rate", "1Mbit/s", "--valid-for", "3s"], "--fallback"),
        (&["link"], "--rate"),
    ] {
        let output = bentpipe(&[&["cc"], arguments].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
}
