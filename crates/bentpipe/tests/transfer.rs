//! `bentpipe send` and `bentpipe receive` over loopback: both directions, and every way in which a transfer can fail.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: moves real data over real sockets")]

mod published;

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};

/// A `bentpipe` that listens, and where.
struct Listening {
    child: Child,
    address: String,
}

fn bentpipe(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
    command.args(args).env_remove("BENTPIPE_LOG").stdin(Stdio::null());
    command
}

fn run(args: &[&str]) -> Output {
    bentpipe(args).output().unwrap()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
    let document = serde_json::from_slice(&output.stdout).unwrap();
    published::assert_as_published("transfers", &document);
    document
}

fn exit_code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

impl Listening {
    /// Starts `bentpipe` with `args` and `--listen` on a free port of `host`, and waits until it listens.
    fn start(host: &str, args: &[&str]) -> Self {
        let mut child = bentpipe(args)
            .args(["--listen", &format!("{host}:0"), "--log-format", "json", "--json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let address = listening_address(child.stderr.as_mut().unwrap());
        Self { child, address }
    }

    fn end(self) -> Output {
        self.child.wait_with_output().unwrap()
    }
}

/// Reads the first log line byte by byte, so that the rest stays in the pipe for the caller that collects the output.
fn listening_address(log: &mut impl Read) -> String {
    let mut line = Vec::new();
    BufReader::with_capacity(1, log).read_until(b'\n', &mut line).unwrap();
    let log: Value = serde_json::from_slice(&line).unwrap();
    log["fields"]["address"].as_str().unwrap().to_owned()
}

#[test]
fn a_file_arrives_whole_from_a_sender_that_connects() {
    let directory = tempfile::tempdir().unwrap();
    let (source, target) = (directory.path().join("source"), directory.path().join("target"));
    let data: Vec<u8> = (0..300_000u32).map(|n| (n.wrapping_mul(n) >> 7) as u8).collect();
    std::fs::write(&source, &data).unwrap();

    let receiver = Listening::start("127.0.0.1", &["receive", "--out", target.to_str().unwrap()]);
    let sent = json(&run(&["send", "--to", &receiver.address, source.to_str().unwrap(), "--json"]));
    let received = json(&receiver.end());

    assert_eq!(std::fs::read(&target).unwrap(), data);
    for report in [&sent, &received] {
        assert_eq!(report["transfers"][0]["bytes"], 300_000);
        assert_eq!(report["transfers"][0]["verified"], true);
        assert!(report["transfers"][0]["goodput_bps"].as_u64().unwrap() > 0);
    }
    assert_eq!(sent["transfers"][0]["time_s"], received["transfers"][0]["time_s"], "measured once, at the receiver");
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 2, "no partial file stays");
}

#[test]
fn data_arrives_whole_from_a_sender_that_listens_over_ipv6_with_options_and_a_trace() {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("trace.csv");
    let sender = Listening::start("[::1]", &["send", "--size", "2MB", "--congestion-control", "reno"]);
    let mut args = vec!["receive", "--from", &sender.address, "--trace", trace.to_str().unwrap()];
    args.extend(["--receive-buffer", "100kB", "--trace-interval", "1ms", "--json"]);
    let received = json(&run(&args));
    assert_eq!(received["transfers"][0]["bytes"], 2_000_000);
    assert_eq!(json(&sender.end())["transfers"][0]["verified"], true);

    let trace = std::fs::read_to_string(trace).unwrap();
    let rows: Vec<Vec<f64>> =
        trace.lines().skip(1).map(|line| line.split(',').map(|field| field.parse().unwrap()).collect()).collect();
    assert!(trace.starts_with("time_s,bytes,throughput_bps\n"));
    assert_eq!(rows.last().unwrap()[1], 2_000_000.0);
    assert!(rows.windows(2).all(|pair| pair[0][0] < pair[1][0] && pair[0][1] <= pair[1][1]), "{trace}");
}

#[test]
fn several_transfers_run_side_by_side() {
    let receiver = Listening::start("127.0.0.1", &["receive", "--count", "3"]);
    let send = ["send", "--to", &receiver.address, "--size", "100kB"];
    let senders: Vec<_> = (0..3).map(|_| bentpipe(&send).stdout(Stdio::null()).spawn().unwrap()).collect();
    for mut sender in senders {
        assert!(sender.wait().unwrap().success());
    }
    assert_eq!(json(&receiver.end())["transfers"].as_array().unwrap().len(), 3);
}

/// Stands between a sender and a receiver and treats the sender's bytes with `f`; then passes on what comes back.
fn in_between(receiver: &str, f: impl FnOnce(&mut Vec<u8>) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let receiver = receiver.to_owned();
    std::thread::spawn(move || {
        let (mut near, _) = listener.accept().unwrap();
        let mut far = TcpStream::connect(receiver).unwrap();
        let mut bytes = Vec::new();
        near.read_to_end(&mut bytes).unwrap();
        f(&mut bytes);
        far.write_all(&bytes).unwrap();
        far.shutdown(std::net::Shutdown::Write).unwrap();
        // The receiver may hang up instead of answering: that is the case under test.
        let _ = std::io::copy(&mut far, &mut near);
    });
    address
}

#[test]
fn one_flipped_bit_fails_both_ends_and_leaves_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("target");
    let receiver = Listening::start("127.0.0.1", &["receive", "--out", target.to_str().unwrap()]);
    let address = in_between(&receiver.address, |bytes| bytes[5000] ^= 1);
    let sent = run(&["send", "--to", &address, "--size", "10kB"]);
    let received = receiver.end();
    assert_eq!((exit_code(&sent), exit_code(&received)), (1, 1));
    assert!(stderr(&sent).contains("did not verify"), "{}", stderr(&sent));
    assert_eq!(serde_json::from_slice::<Value>(&received.stdout).unwrap()["transfers"][0]["verified"], false);
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
}

#[test]
fn bytes_beyond_the_end_do_not_verify() {
    let receiver = Listening::start("127.0.0.1", &["receive"]);
    let address = in_between(&receiver.address, |bytes| bytes.push(0));
    assert_eq!(exit_code(&run(&["send", "--to", &address, "--size", "10kB"])), 1);
    assert_eq!(exit_code(&receiver.end()), 1);
}

#[test]
fn a_truncated_transfer_fails_with_what_was_missing() {
    let receiver = Listening::start("127.0.0.1", &["receive"]);
    // 19 bytes of header, then 5,000 of data.
    let address = in_between(&receiver.address, |bytes| bytes.truncate(5019));
    let sent = run(&["send", "--to", &address, "--size", "10kB"]);
    let received = receiver.end();
    assert_eq!((exit_code(&sent), exit_code(&received)), (1, 1));
    assert!(stderr(&received).contains("5kB of 10kB"), "{}", stderr(&received));
}

#[test]
fn a_refused_connection_is_reported_with_its_address() {
    // A port that was free a moment ago.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let output = run(&["send", "--to", &address, "--size", "1kB"]);
    assert_eq!(exit_code(&output), 1);
    assert!(stderr(&output).contains(&format!("cannot connect to {address}: Connection refused")), "{output:?}");
}

#[test]
fn two_senders_and_strangers_are_told_apart() {
    let sender = Listening::start("127.0.0.1", &["send", "--size", "1kB"]);
    let output = run(&["send", "--to", &sender.address, "--size", "1kB"]);
    assert_eq!((exit_code(&output), exit_code(&sender.end())), (1, 1));

    let receiver = Listening::start("127.0.0.1", &["receive"]);
    TcpStream::connect(&receiver.address).unwrap().write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let output = receiver.end();
    assert_eq!(exit_code(&output), 1);
    assert!(stderr(&output).contains("does not speak the protocol"), "{}", stderr(&output));
}

#[test]
fn a_silent_peer_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let output = run(&["receive", "--from", &address, "--timeout", "100ms"]);
    assert_eq!(exit_code(&output), 1);
    assert!(stderr(&output).contains("nothing moved for 100ms"), "{}", stderr(&output));
}

#[test]
fn wrong_usage_is_one_line_that_names_the_culprit_with_exit_code_2() {
    for (args, culprit) in [
        (&["send", "--to", "127.0.0.1:1", "--size", "10"][..], "--size"),
        (&["send", "--to", "127.0.0.1:1"], "FILE"),
        (&["send", "--size", "1MB"], "--to"),
        (&["send", "--to", "nonsense", "--size", "1MB"], "--to nonsense"),
        (&["send", "--to", "127.0.0.1:1", "/no/such/file"], "/no/such/file"),
        (&["receive", "--from", "127.0.0.1:1", "--timeout", "0s"], "--timeout"),
        (&["receive", "--listen", "127.0.0.1:0", "--count", "0"], "--count"),
        (&["receive", "--listen", "127.0.0.1:0", "--out", "/no/such/directory/x", "--count", "2"], "--out"),
        (&["send", "--listen", "127.0.0.1:0", "--size", "1MB", "--initial-window", "20"], "--initial-window"),
        (&["send", "--to", "127.0.0.1:1", "--size", "1MB", "--initial-window", "20"], "--initial-window"),
        (&["receive", "--sizes"], "--sizes"),
        (&["transmit"], "transmit"),
    ] {
        let output = run(args);
        let message = stderr(&output);
        assert_eq!(exit_code(&output), 2, "{args:?}: {message}");
        assert!(message.contains(culprit), "{args:?}: {message}");
        assert_eq!(message.lines().count(), 1, "{args:?}: {message}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn an_unknown_congestion_control_is_something_the_machine_lacks() {
    let output = run(&["send", "--to", "127.0.0.1:1", "--size", "1MB", "--congestion-control", "nosuch"]);
    assert_eq!(exit_code(&output), 3);
    assert!(stderr(&output).contains("congestion control to nosuch"), "{}", stderr(&output));
}

#[test]
fn every_help_has_examples() {
    for command in ["send", "receive"] {
        let output = run(&[command, "--help"]);
        assert_eq!(exit_code(&output), 0);
        assert!(String::from_utf8_lossy(&output.stdout).contains("Examples:\n  bentpipe "), "{command}");
    }
}
