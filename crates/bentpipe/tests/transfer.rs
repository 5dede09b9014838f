//! `bentpipe send` and `bentpipe receive` over loopback: both directions, and every way in which a transfer can fail.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: moves real data over real sockets")]

mod published;

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::thread::JoinHandle;

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
fn a_trace_that_would_overwrite_the_data_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    std::fs::write(at("data"), "of before").unwrap();
    std::os::unix::fs::symlink(at("data"), at("link")).unwrap();
    for (out, trace) in [("data", "data"), ("data", "data.part"), ("link", "data.part")] {
        // Nobody is there: it is refused before any connection.
        let args = ["receive", "--from", "127.0.0.1:9", "--out", &at(out), "--trace", &at(trace)];
        let output = run(&args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains("--trace") && said.contains("overwrite"), "{said}");
    }
    assert_eq!(std::fs::read_to_string(at("data")).unwrap(), "of before");
}

#[test]
fn a_trace_that_cannot_be_written_hides_no_result() {
    let sender = Listening::start("127.0.0.1", &["send", "--size", "1MB"]);
    let output = run(&["receive", "--from", &sender.address, "--trace", "/dev/full", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("/dev/full"), "{said}");
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["transfers"][0]["verified"], true);
    sender.end();
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

/// Bytes before a sender's data: magic, version, kind, checksum, beginning and size.
const HEADER: usize = 8 + 1 + 1 + 1 + 8 + 8;

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

/// Stands between a sender that connects and a receiver, and counts what the sender sends.
fn counted(receiver: &str) -> (String, JoinHandle<u64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let receiver = receiver.to_owned();
    let count = std::thread::spawn(move || {
        let (mut near, _) = listener.accept().unwrap();
        let mut far = TcpStream::connect(receiver).unwrap();
        let (mut back, mut answer) = (far.try_clone().unwrap(), near.try_clone().unwrap());
        let answers = std::thread::spawn(move || std::io::copy(&mut back, &mut answer));
        let count = std::io::copy(&mut near, &mut far).unwrap();
        far.shutdown(std::net::Shutdown::Write).unwrap();
        answers.join().unwrap().unwrap();
        count
    });
    (address, count)
}

/// Bytes that do not repeat.
fn data(length: u32) -> Vec<u8> {
    (0..length).map(|n| (n.wrapping_mul(n) >> 7) as u8).collect()
}

/// A folder with a file to send, and the paths of the file to receive and of its partial file.
struct Files {
    directory: tempfile::TempDir,
    source: String,
    target: String,
    partial: String,
}

impl Files {
    fn new(data: &[u8]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        let (source, target, partial) = (path("source"), path("target"), path("target.part"));
        std::fs::write(&source, data).unwrap();
        Self { directory, source, target, partial }
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.directory).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn an_interrupted_transfer_resumes_and_what_is_there_is_not_sent_again() {
    let data = data(1_000_000);
    let files = Files::new(&data);
    let receiver = Listening::start("127.0.0.1", &["receive", "--out", &files.target]);
    let address = in_between(&receiver.address, |bytes| bytes.truncate(HEADER + 900_000));
    let (sent, received) = (run(&["send", "--to", &address, &files.source]), receiver.end());
    assert_eq!((exit_code(&sent), exit_code(&received)), (1, 1));
    let message = stderr(&received);
    assert!(message.contains("target.part keeps the first 900kB") && message.contains("--resume"), "{message}");
    assert_eq!(files.names(), ["source", "target.part"]);

    let receiver = Listening::start("127.0.0.1", &["receive", "--out", &files.target, "--resume"]);
    let (address, count) = counted(&receiver.address);
    let sent = json(&run(&["send", "--to", &address, &files.source, "--resume", "--json"]));
    let received = json(&receiver.end());
    for report in [&sent, &received] {
        let transfer = &report["transfers"][0];
        assert_eq!((&transfer["bytes"], &transfer["kept_bytes"]), (&100_000.into(), &900_000.into()), "{transfer}");
        assert_eq!(transfer["verified"], true);
    }
    let sent = count.join().unwrap();
    assert!((100_000..100_200).contains(&sent), "{sent}");
    assert_eq!(std::fs::read(&files.target).unwrap(), data);
    assert_eq!(files.names(), ["source", "target"]);
}

#[test]
fn a_receiver_that_connects_over_ipv6_resumes_even_with_nothing_left_to_send() {
    let data = data(300_000);
    let files = Files::new(&data);
    for kept in [0, 1, 299_999, 300_000] {
        std::fs::write(&files.partial, &data[..kept]).unwrap();
        let sender = Listening::start("[::1]", &["send", &files.source]);
        let received =
            json(&run(&["receive", "--from", &sender.address, "--out", &files.target, "--resume", "--json"]));
        assert_eq!(received["transfers"][0]["kept_bytes"], kept);
        assert_eq!(received["transfers"][0]["bytes"], 300_000 - kept);
        assert_eq!(json(&sender.end())["transfers"][0]["kept_bytes"], kept);
        assert_eq!(std::fs::read(&files.target).unwrap(), data);
    }
}

#[test]
fn a_source_that_has_changed_is_refused_rather_than_spliced() {
    let data = data(100_000);
    let files = Files::new(&data);
    let mut changed = data[..60_000].to_vec();
    changed[30_000] ^= 1;
    let longer = [&data[..], b"x"].concat();
    for kept in [&changed, &longer] {
        std::fs::write(&files.partial, kept).unwrap();
        let receiver = Listening::start("127.0.0.1", &["receive", "--out", &files.target, "--resume"]);
        let sent = run(&["send", "--to", &receiver.address, &files.source, "--resume"]);
        for output in [&sent, &receiver.end()] {
            assert_eq!(exit_code(output), 1);
            assert!(stderr(output).contains("is not how the sender's data begin"), "{}", stderr(output));
        }
        assert_eq!(files.names(), ["source", "target.part"]);
        assert_eq!(&std::fs::read(&files.partial).unwrap(), kept, "as it was");
    }
}

#[test]
fn a_partial_file_is_never_begun_anew_unasked() {
    let data = data(100_000);
    let files = Files::new(&data);
    std::fs::write(&files.partial, &data[..60_000]).unwrap();
    // The receiver does not even listen.
    let output = run(&["receive", "--listen", "127.0.0.1:0", "--out", &files.target]);
    assert_eq!(exit_code(&output), 2);
    let message = stderr(&output);
    assert!(message.contains("has 60kB of an interrupted transfer") && message.lines().count() == 1, "{message}");
    // The sender does not ask.
    let receiver = Listening::start("127.0.0.1", &["receive", "--out", &files.target, "--resume"]);
    let sent = run(&["send", "--to", &receiver.address, &files.source]);
    for output in [&sent, &receiver.end()] {
        assert_eq!(exit_code(output), 1);
        assert!(stderr(output).contains("`bentpipe send` needs --resume, too"), "{}", stderr(output));
    }
    assert_eq!(std::fs::read(&files.partial).unwrap(), &data[..60_000]);
}

#[test]
fn two_receivers_do_not_write_one_file() {
    let files = Files::new(&data(1000));
    let first = Listening::start("127.0.0.1", &["receive", "--out", &files.target, "--resume"]);
    let second = run(&["receive", "--listen", "127.0.0.1:0", "--out", &files.target, "--resume"]);
    assert_eq!(exit_code(&second), 2);
    assert!(stderr(&second).contains("another bentpipe receive writes it"), "{}", stderr(&second));
    assert!(run(&["send", "--to", &first.address, &files.source]).status.success());
    assert!(first.end().status.success());
    assert_eq!(files.names(), ["source", "target"]);
}

#[test]
fn a_file_without_bytes_arrives() {
    let files = Files::new(b"");
    let receiver = Listening::start("127.0.0.1", &["receive", "--out", &files.target]);
    let sent = json(&run(&["send", "--to", &receiver.address, &files.source, "--json"]));
    let received = json(&receiver.end());
    for report in [&sent, &received] {
        assert_eq!((&report["transfers"][0]["bytes"], &report["transfers"][0]["verified"]), (&0.into(), &true.into()));
    }
    assert_eq!(files.names(), ["source", "target"]);
    assert_eq!(std::fs::read(&files.target).unwrap(), b"");
}

/// A shell that may mount file systems that nobody else sees; `None` where the machine does not allow it.
fn private_mounts(script: &str, arguments: &[&str]) -> Option<Command> {
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", script]).stdin(Stdio::null());
        command
    };
    let is_allowed = unshare("mount -t tmpfs none /mnt").stderr(Stdio::null()).status().is_ok_and(|s| s.success());
    if !is_allowed {
        eprintln!("skipped: no private mounts on this machine");
        return None;
    }
    let mut command = unshare(script);
    command.args(arguments).env_remove("BENTPIPE_LOG").stdout(Stdio::piped()).stderr(Stdio::piped());
    Some(command)
}

#[test]
fn a_full_disk_keeps_what_came_and_says_how_to_go_on() {
    let files = Files::new(&data(3_000_000));
    let folder = files.directory.path().join("small");
    std::fs::create_dir(&folder).unwrap();
    let script = "
        receive() { \"$0\" receive --listen 127.0.0.1:0 --log-format json --json --out target \"$@\"; echo code $?; }
        mount -t tmpfs -o size=1m none \"$1\" && cd \"$1\" && receive && ls && mount -o remount,size=8m \"$1\" &&
        receive --resume && ls && cmp target \"$2\" && echo same";
    let arguments = [env!("CARGO_BIN_EXE_bentpipe"), folder.to_str().unwrap(), &files.source];
    let Some(mut command) = private_mounts(script, &arguments) else { return };
    let mut child = command.spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let address = listening_address(&mut log);
    let sent = run(&["send", "--to", &address, &files.source]);
    assert_eq!(exit_code(&sent), 1);
    assert!(stderr(&sent).contains("the receiver could not store the data"), "{}", stderr(&sent));
    let mut error = String::new();
    log.read_line(&mut error).unwrap();
    assert!(error.contains("target.part: No space left on device") && error.contains("keeps the first"), "{error}");
    let address = listening_address(&mut log);
    let sent = json(&run(&["send", "--to", &address, &files.source, "--resume", "--json"]));
    let kept = sent["transfers"][0]["kept_bytes"].as_u64().unwrap();
    assert!((900_000..=1_048_576).contains(&kept), "{kept}");
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.starts_with("code 1\ntarget.part\n") && said.ends_with("code 0\ntarget\nsame\n"), "{said}");
}

#[test]
fn what_cannot_be_written_is_known_before_the_receiver_listens() {
    let files = Files::new(b"");
    let directory = files.directory.path().to_str().unwrap();
    let missing = format!("{directory}/missing/target");
    let dangling = format!("{directory}/dangling");
    std::os::unix::fs::symlink(&missing, &dangling).unwrap();
    for (arguments, culprit) in [
        (&["--out", &missing][..], "missing"),
        (&["--trace", &missing], "missing"),
        (&["--out", directory], "regular file"),
        (&["--out", "/dev/null"], "regular file"),
        (&["--out", "/dev/stdout"], "regular file"),
        (&["--out", &dangling], "leads nowhere"),
        (&["--resume"], "--out"),
    ] {
        let output = run(&[&["receive", "--listen", "127.0.0.1:0"][..], arguments].concat());
        assert_eq!(exit_code(&output), 2, "{arguments:?}: {output:?}");
        assert!(stderr(&output).contains(culprit), "{arguments:?}: {}", stderr(&output));
    }
    assert_eq!(files.names(), ["dangling", "source"]);
}

#[test]
fn a_link_is_followed_and_the_file_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt as _;
    let files = Files::new(b"new data");
    std::fs::write(&files.target, "old").unwrap();
    std::fs::set_permissions(&files.target, std::fs::Permissions::from_mode(0o600)).unwrap();
    let link = format!("{}/link", files.directory.path().display());
    std::os::unix::fs::symlink("target", &link).unwrap();
    let receiver = Listening::start("127.0.0.1", &["receive", "--out", &link]);
    assert_eq!(exit_code(&run(&["send", "--to", &receiver.address, &files.source])), 0);
    assert_eq!(exit_code(&receiver.end()), 0);
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(std::fs::read(&files.target).unwrap(), b"new data");
    assert_eq!(std::fs::metadata(&files.target).unwrap().permissions().mode() & 0o777, 0o600);
}

/// Until it has verified, it is as secret as the file that it replaces, but its owner may go on with it.
#[test]
fn a_partial_file_can_be_read_by_no_more_than_the_file_and_written_by_its_owner() {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |path: &str| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for (before, partial) in [(0o600, 0o600), (0o440, 0o640)] {
        let files = Files::new(b"new data");
        std::fs::write(&files.target, "old").unwrap();
        std::fs::set_permissions(&files.target, std::fs::Permissions::from_mode(before)).unwrap();
        let receiver = Listening::start("127.0.0.1", &["receive", "--out", &files.target]);
        assert_eq!(mode(&files.partial), partial);
        assert_eq!(exit_code(&run(&["send", "--to", &receiver.address, &files.source])), 0);
        assert_eq!(exit_code(&receiver.end()), 0);
        assert_eq!(mode(&files.target), before);
    }
}

#[test]
fn a_partial_file_is_no_link() {
    let files = Files::new(b"");
    let victim = format!("{}/victim", files.directory.path().display());
    std::fs::write(&victim, "").unwrap();
    std::os::unix::fs::symlink("victim", &files.partial).unwrap();
    let output = run(&["receive", "--listen", "127.0.0.1:0", "--out", &files.target, "--wait", "100ms"]);
    assert_eq!(exit_code(&output), 2, "{}", stderr(&output));
    assert!(stderr(&output).contains("target.part"), "{}", stderr(&output));
}

/// The sender may remove its data once it reports success.
#[test]
fn a_file_that_cannot_have_its_name_fails_both_ends() {
    let files = Files::new(b"data");
    let receiver = Listening::start("127.0.0.1", &["receive", "--out", &files.target]);
    std::fs::create_dir(&files.target).unwrap();
    let (sent, received) = (run(&["send", "--to", &receiver.address, &files.source]), receiver.end());
    assert_eq!((exit_code(&sent), exit_code(&received)), (1, 1), "{} {}", stderr(&sent), stderr(&received));
    assert!(stderr(&sent).contains("the receiver could not store the data"), "{}", stderr(&sent));
    let message = stderr(&received);
    assert!(message.contains("target: ") && message.contains("target.part keeps the first 4B"), "{message}");
    assert_eq!(std::fs::read(&files.partial).unwrap(), b"data");
}

/// What an end of another release sends first: a prefix that only begins like this release's.
const OF_ANOTHER_RELEASE: &[u8] = b"bentpipe\xee!";

#[test]
fn ends_of_different_releases_say_so_at_both() {
    for arguments in [&["receive"][..], &["send", "--size", "10MB"]] {
        let listening = Listening::start("127.0.0.1", arguments);
        let mut other = TcpStream::connect(&listening.address).unwrap();
        other.write_all(OF_ANOTHER_RELEASE).unwrap();
        let mut answer = Vec::new();
        // It hangs up with bytes of ours unread.
        let _ = other.read_to_end(&mut answer);
        assert!(answer.starts_with(b"bentpipe") && answer.len() > 8, "{arguments:?}: {answer:?}");
        let output = listening.end();
        assert_eq!(exit_code(&output), 1);
        assert!(stderr(&output).contains("speaks version 238"), "{}", stderr(&output));
    }
    // A receiver that answers the first bytes of many.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let receiver = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0; 10]).unwrap();
        stream.write_all(&[OF_ANOTHER_RELEASE, &[1]].concat()).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(200));
    });
    let sent = run(&["send", "--to", &address, "--size", "100MB"]);
    receiver.join().unwrap();
    assert_eq!(exit_code(&sent), 1);
    assert!(stderr(&sent).contains("speaks version 238"), "{}", stderr(&sent));
}

#[test]
fn two_receivers_tell_each_other_and_end() {
    let listening = Listening::start("127.0.0.1", &["receive"]);
    let connecting = run(&["receive", "--from", &listening.address]);
    for output in [&connecting, &listening.end()] {
        assert_eq!(exit_code(output), 1);
        assert!(stderr(output).contains("both ends receive"), "{}", stderr(output));
    }
}

#[test]
fn one_failure_among_several_transfers_does_not_hide_the_others() {
    let receiver = Listening::start("127.0.0.1", &["receive", "--count", "3"]);
    TcpStream::connect(&receiver.address).unwrap().write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    for _ in 0..2 {
        assert!(run(&["send", "--to", &receiver.address, "--size", "100kB"]).status.success());
    }
    let output = receiver.end();
    assert_eq!(exit_code(&output), 1);
    assert!(stderr(&output).contains("1 of 3 transfers failed"), "{}", stderr(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["transfers"].as_array().unwrap().len(), 2);
}

#[test]
fn an_end_that_listens_waits_no_longer_than_it_is_told() {
    for command in [&["receive"][..], &["send", "--size", "1kB"]] {
        let output = run(&[command, &["--listen", "127.0.0.1:0", "--wait", "100ms"]].concat());
        assert_eq!(exit_code(&output), 1);
        assert!(stderr(&output).contains("no connection came within 100ms"), "{}", stderr(&output));
    }
}

#[test]
#[ignore = "reads and digests 10 GiB at both ends: a minute of two processors"]
fn ten_gibibytes_arrive() {
    let files = Files::new(b"");
    // Without blocks on the disk.
    std::fs::File::options().write(true).open(&files.source).unwrap().set_len(10 << 30).unwrap();
    let receiver = Listening::start("127.0.0.1", &["receive"]);
    let sent = json(&run(&["send", "--to", &receiver.address, &files.source, "--json"]));
    eprintln!("{sent:#}");
    assert_eq!(sent["transfers"][0]["bytes"], 10u64 << 30);
    assert_eq!(json(&receiver.end())["transfers"][0]["verified"], true);
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
    let address = in_between(&receiver.address, |bytes| bytes.truncate(HEADER + 5000));
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
    for output in [run(&["send", "--to", &sender.address, "--size", "1kB"]), sender.end()] {
        assert_eq!(exit_code(&output), 1);
        assert!(stderr(&output).contains("both ends send"), "{}", stderr(&output));
    }

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
        (&["send", "--to", "127.0.0.1:1", "--size", "1MB", "--count", "2"], "--count"),
        (&["receive", "--from", "127.0.0.1:1", "--wait", "1s"], "--wait"),
        (&["receive", "--from", "127.0.0.1:1", "--trace-interval", "1us"], "--trace-interval"),
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
