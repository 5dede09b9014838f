//! `bentpipe emulate`: real packets through it in private namespaces, and what it says to wrong arguments.
//! Where the machine does not allow namespaces, the tests that need them say so and pass.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: starts programs and waits for them")]

mod published;

use kernel::Namespace;
use kernel::network::{IpBatch, set_sysctls};
use kernel::testing::{best_of_three, namespace};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const BENTPIPE: &str = env!("CARGO_BIN_EXE_bentpipe");

fn run(options: &str) -> Output {
    Command::new(BENTPIPE).arg("emulate").args(options.split_whitespace()).env_remove("BENTPIPE_LOG").output().unwrap()
}

/// The exit code, and the only line on stderr.
fn complaint(options: &str) -> (i32, String) {
    let output = run(options);
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(output.stdout.is_empty());
    (output.status.code().unwrap(), line)
}

#[test]
fn wrong_arguments_end_with_code_2_and_a_line_that_names_the_culprit() {
    for (options, culprit) in [
        ("", "--between"),
        ("--between a", "--between"),
        ("--between lo lo", "two ends"),
        ("--between nosuch0 nosuch1", "nosuch0"),
        ("--between no-such-namespace:a b", "no-such-namespace"),
        ("--between a b --rate 6", "6Mbit/s"),
        ("--between a b --rate 0bit/s", "rate"),
        ("--between a b --preset mars", "mars"),
        ("--between a b --lost 1", "--lost"),
        ("--between a b --delay 2h", "delay"),
        ("--between a b --queue 0packets", "queue"),
        ("--between a b --link /no/such/link.toml", "/no/such/link.toml"),
        ("--between a b --loss 0.9 --burst 1", "--burst"),
        ("--between a b --burst 3", "--loss"),
        ("--between a b --reorder 0.1 --reorder-delay 0s", "reorder"),
    ] {
        let (code, line) = complaint(options);
        assert_eq!(code, 2, "{options}: {line}");
        assert!(line.contains(culprit), "{options}: {line}");
    }
}

#[test]
fn without_the_privilege_it_ends_with_code_3_and_says_which() {
    let command = || {
        let mut command = Command::new(BENTPIPE);
        command.args(["emulate", "--between", "lo", "lo2"]).env_remove("BENTPIPE_LOG");
        command
    };
    // As nobody; a process that may not become nobody has no privilege either.
    let output = command().uid(65534).output().or_else(|_| command().output()).unwrap();
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{line}");
    assert!(line.contains("interface lo") && line.contains("CAP_NET_RAW"), "{line}");
}

/// Two hosts whose interfaces lead to `port1` and `port2` of a third namespace.
fn hosts() -> Option<[Namespace; 3]> {
    let spaces = [namespace()?, namespace()?, namespace()?];
    let [left, middle, right] = &spaces;
    for space in &spaces {
        set_sysctls(space, &[("ipv6/conf/default/disable_ipv6", "1")]).unwrap();
    }
    for (host, port, number) in [(left, "port1", 1), (right, "port2", 2)] {
        IpBatch::new(middle).add_veth(port, host, "eth0").add(format!("link set {port} up")).run().unwrap();
        let address = format!("addr add 198.18.0.{number}/24 dev eth0");
        IpBatch::new(host).add(address).add("link set eth0 up").run().unwrap();
    }
    Some(spaces)
}

#[test]
fn the_report_counts_what_crossed_in_each_direction() {
    best_of_three(count_what_crossed);
}

fn count_what_crossed() -> Result<(), String> {
    let Some([left, middle, right]) = hosts() else { return Ok(()) };
    let options = "--between port1 port2 --rate-up 8Mbit/s --rtt 20ms --loss-down 1 --json";
    let child = middle
        .command(BENTPIPE)
        .arg("emulate")
        .args(options.split_whitespace())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let near = left.run(|| UdpSocket::bind("198.18.0.1:7")).unwrap().unwrap();
    let far = right.run(|| UdpSocket::bind("198.18.0.2:7")).unwrap().unwrap();
    far.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    // The first ones may come before the emulator: the hosts ask for the address until it answers.
    let mut sent = 0;
    while far.recv_from(&mut [0; 8]).is_err() {
        near.send_to(b"up", "198.18.0.2:7").unwrap();
        sent += 1;
        assert!(sent < 300, "nothing crossed");
    }
    for _ in 0..5 {
        far.send_to(b"down", "198.18.0.1:7").unwrap();
    }
    cross_last(&near, &far);
    let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    published::assert_as_published("emulate", &report);
    assert_eq!(report["links"]["up"]["rate"], "8Mbit/s");
    assert_eq!(report["up"]["from"], "port1");
    assert!(report["up"]["delivered"]["packets"].as_u64().unwrap() >= 1, "{report}");
    assert_eq!(report["up"]["dropped"]["loss"]["packets"], 0);
    assert_eq!(report["down"]["offered"]["packets"], 5);
    assert_eq!(report["down"]["dropped"]["loss"]["packets"], 5);
    assert!(report["up"]["lateness_us"]["p999"].as_f64().unwrap() > 0.0);
    // Half of the round-trip time, and 30 bytes at 8 Mbit/s; more only where packets met in the queue.
    let quickest = report["up"]["transit_us"]["p50"].as_f64().unwrap();
    assert!(quickest >= 10_020.0, "{quickest}");
    assert_eq!(report["down"]["transit_us"]["max"], 0.0, "what is lost does not count");
    if quickest < 10_500.0 { Ok(()) } else { Err(format!("{quickest} us")) }
}

#[test]
fn what_was_measured_until_an_interface_was_removed_is_reported() {
    let Some([left, middle, right]) = hosts() else { return };
    let talk = Talk::new(&left, &right);
    let emulator = emulate(&middle, &[]);
    talk.await_link();
    // The report is at most 50 ms behind.
    std::thread::sleep(Duration::from_millis(200));
    IpBatch::new(&middle).add("link del port2").run().unwrap();
    let output = emulator.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("interface port2"), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["up"]["delivered"]["packets"].as_u64().unwrap() >= 1, "{report}");
}

#[test]
fn a_run_whose_terminal_is_closed_reports_unless_it_is_to_outlive_the_terminal() {
    let Some([left, middle, right]) = hosts() else { return };
    let talk = Talk::new(&left, &right);
    let hang_up = |child: &std::process::Child| {
        assert!(Command::new("kill").args(["-HUP", &child.id().to_string()]).status().unwrap().success());
    };
    let emulator = emulate(&middle, &[]);
    talk.await_link();
    hang_up(&emulator);
    let output = emulator.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &report["up"]["from"]), (Some(0), &"port1".into()));
    let mut command = middle.command("nohup");
    command.args([BENTPIPE, "emulate", "--between", "port1", "port2", "--json"]).stdin(Stdio::null());
    let stays = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while talk.far.recv_from(&mut [0; 8]).is_ok() {}
    talk.await_link();
    hang_up(&stays);
    talk.await_link();
    interrupt(stays);
}

#[test]
fn a_duration_ends_it() {
    let Some([_left, middle, _right]) = hosts() else { return };
    let options = ["emulate", "--between", "port1", "port2", "--duration", "200ms"];
    let output = middle.command(BENTPIPE).args(options).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("lateness") && table.contains("up (port1 to port2)"), "{table}");
}

#[test]
fn an_interface_with_an_address_or_another_emulator_is_refused() {
    let Some([_left, middle, _right]) = hosts() else { return };
    let command = |duration: &str| {
        let mut command = middle.command(BENTPIPE);
        command.args(["emulate", "--between", "port1", "port2", "--duration", duration]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let refused = || {
        let output = command("100ms").output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let mut first = command("1min").spawn().unwrap();
    let mut line = String::new();
    let mut log = BufReader::new(first.stderr.take().unwrap());
    // It says what it emulates once it has both interfaces.
    log.read_line(&mut line).unwrap();
    let while_another_runs = refused();
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(while_another_runs.contains("another bentpipe emulate has port1"), "{while_another_runs}");
    IpBatch::new(&middle).add("addr add 198.18.9.1/24 dev port2").run().unwrap();
    let with_address = refused();
    assert!(with_address.contains("port2 has the address 198.18.9.1"), "{with_address}");
    IpBatch::new(&middle).add("addr flush dev port2").run().unwrap();
    set_sysctls(&middle, &[("ipv6/conf/port2/disable_ipv6", "0")]).unwrap();
    IpBatch::new(&middle).add("addr add 2001:db8::1/64 dev port2").run().unwrap();
    let with_address = refused();
    assert!(with_address.contains("sysctl -w net/ipv6/conf/port2/disable_ipv6=1"), "{with_address}");
    IpBatch::new(&middle).add("addr flush dev port2").run().unwrap();
    // Not every kernel has bridges.
    if IpBatch::new(&middle).add("link add br0 type bridge").add("link set port2 master br0").run().is_ok() {
        let of_a_bridge = refused();
        assert!(of_a_bridge.contains("port2 belongs to br0"), "{of_a_bridge}");
        IpBatch::new(&middle).add("link set port2 nomaster").run().unwrap();
    }
    let output = command("100ms").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let log = String::from_utf8(output.stderr).unwrap();
    let warnings: Vec<_> = log.lines().filter(|line| line.contains("this host has IPv6 at this interface")).collect();
    assert!(warnings.len() == 1 && warnings[0].contains("port2"), "{log}");
    set_sysctls(&middle, &[("ipv6/conf/port2/disable_ipv6", "1")]).unwrap();
    let output = command("100ms").output().unwrap();
    assert!(!String::from_utf8(output.stderr).unwrap().contains("IPv6"));
}

#[test]
fn the_two_ends_of_one_pair_are_refused() {
    let Some(space) = namespace() else { return };
    IpBatch::new(&space).add("link add one type veth peer name two").run().unwrap();
    let output = space.command(BENTPIPE).args(["emulate", "--between", "one", "two"]).output().unwrap();
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{line}");
    assert!(line.contains("the two ends of one pair"), "{line}");
}

/// Waits until something has crossed that is sent now: the emulator has taken what was sent before it.
fn cross_last(near: &UdpSocket, far: &UdpSocket) {
    let before = far.read_timeout().unwrap();
    far.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    near.send_to(b"last", "198.18.0.2:7").unwrap();
    let mut word = [0; 8];
    while far.recv_from(&mut word).unwrap().0 != 4 || !word.starts_with(b"last") {}
    far.set_read_timeout(before).unwrap();
}

/// Two hosts' sockets that talk across an emulator.
struct Talk {
    near: UdpSocket,
    far: UdpSocket,
}

impl Talk {
    fn new(left: &Namespace, right: &Namespace) -> Self {
        let near = left.run(|| UdpSocket::bind("198.18.0.1:0")).unwrap().unwrap();
        let far = right.run(|| UdpSocket::bind("198.18.0.2:7")).unwrap().unwrap();
        far.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        Self { near, far }
    }

    /// Sends until something crosses.
    fn await_link(&self) {
        for _ in 0..300 {
            self.near.send_to(b"up", "198.18.0.2:7").unwrap();
            if self.far.recv_from(&mut [0; 2000]).is_ok() {
                return;
            }
        }
        panic!("nothing crossed");
    }
}

fn emulate(middle: &Namespace, options: &[&str]) -> std::process::Child {
    let mut command = middle.command(BENTPIPE);
    command.args(["emulate", "--between", "port1", "port2", "--json"]).args(options).env_remove("BENTPIPE_LOG");
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Interrupts the emulator; returns its report and what it logged.
fn interrupt(child: std::process::Child) -> (Value, String) {
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{log}");
    let report = serde_json::from_slice(&output.stdout).unwrap();
    published::assert_as_published("emulate", &report);
    (report, log)
}

#[test]
fn packets_longer_than_the_mtu_are_counted_by_name_and_logged_once() {
    let Some([left, middle, right]) = hosts() else { return };
    IpBatch::new(&middle).add("link set port2 mtu 1000").run().unwrap();
    let emulator = emulate(&middle, &["--rate", "unlimited", "--rtt", "0s"]);
    let talk = Talk::new(&left, &right);
    talk.await_link();
    for _ in 0..5 {
        talk.near.send_to(&[0; 1400], "198.18.0.2:7").unwrap();
        std::thread::sleep(Duration::from_millis(300));
    }
    cross_last(&talk.near, &talk.far);
    let (report, log) = interrupt(emulator);
    assert_eq!(report["up"]["dropped"]["oversize"]["packets"], 5, "{report}");
    assert_eq!(report["down"]["dropped"]["oversize"]["packets"], 0);
    let warnings: Vec<_> = log.lines().filter(|line| line.contains("longer than the MTU")).collect();
    assert!(warnings.len() == 1 && warnings[0].contains("port2"), "{log}");
}

/// What waits meanwhile has arrived when it did, however many batches it takes to receive it.
#[test]
fn an_emulator_that_was_held_up_makes_no_burst_of_what_has_waited() {
    let Some([left, middle, right]) = hosts() else { return };
    let options = ["--rate", "100Mbit/s", "--rtt", "2ms", "--queue", "20packets"];
    let emulator = emulate(&middle, &options);
    let talk = Talk::new(&left, &right);
    talk.await_link();
    let signal = |name: &str| {
        assert!(Command::new("kill").args([name, &*emulator.id().to_string()]).status().unwrap().success());
    };
    for _ in 0..4 {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..600 {
                    talk.near.send_to(&[0; 500], "198.18.0.2:7").unwrap();
                    std::thread::sleep(Duration::from_micros(300));
                }
            });
            std::thread::sleep(Duration::from_millis(20));
            signal("-STOP");
            std::thread::sleep(Duration::from_millis(120));
            signal("-CONT");
        });
    }
    let (report, _) = interrupt(emulator);
    assert!(report["up"]["offered"]["packets"].as_u64().unwrap() >= 2400, "{report}");
    assert_eq!(report["up"]["dropped"]["queue_full"]["packets"], 0, "{report}");
}

#[test]
fn every_preset_is_the_link_that_its_help_says() {
    let Some([_left, middle, _right]) = hosts() else { return };
    for (preset, rates, delay) in [
        ("geo", ["6Mbit/s", "6Mbit/s"], "275ms"),
        ("acts-t1", ["1.536Mbit/s", "1.536Mbit/s"], "280ms"),
        ("dvb-rcs", ["2Mbit/s", "8Mbit/s"], "250ms"),
    ] {
        let output = emulate(&middle, &["--preset", preset, "--duration", "100ms"]).wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        for (direction, rate) in ["up", "down"].into_iter().zip(rates) {
            assert_eq!(report["links"][direction]["rate"], rate, "{preset}");
            assert_eq!(report["links"][direction]["delay"], delay, "{preset}");
        }
    }
}

#[test]
fn a_killed_emulator_leaves_a_log_and_interfaces_for_the_next_one() {
    best_of_three(leave_a_log_and_interfaces);
}

fn leave_a_log_and_interfaces() -> Result<(), String> {
    let Some([left, middle, right]) = hosts() else { return Ok(()) };
    let folder = tempfile::tempdir().unwrap();
    let [link, log] = ["link.toml", "arrivals.csv"].map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    // 1500 bytes may leave every 20 ms: twenty packets of 1028 bytes take 14 of these.
    std::fs::write(folder.path().join("trace"), "20\n40\n60\n").unwrap();
    let text =
        "[up]\nopportunities = { file = \"trace\" }\ndelay = \"1ms\"\n[down]\nrate = \"8Mbit/s\"\ndelay = \"1ms\"\n";
    std::fs::write(&link, text).unwrap();
    let options = ["--link", &link, "--arrival-log", &log];
    let talk = Talk::new(&left, &right);
    let run = || {
        let emulator = emulate(&middle, &options);
        talk.await_link();
        cross_last(&talk.near, &talk.far);
        let start = Instant::now();
        for _ in 0..20 {
            talk.near.send_to(&[1; 1000], "198.18.0.2:7").unwrap();
        }
        talk.far.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        for _ in 0..20 {
            talk.far.recv_from(&mut [0; 2000]).unwrap();
        }
        let took = start.elapsed();
        talk.far.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        (emulator, took)
    };
    let (mut killed, first) = run();
    // The log is at most a second behind.
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let text = std::fs::read_to_string(&log).unwrap();
        if text.lines().skip(3).filter(|line| line.split(',').count() == 8).count() >= 20 {
            break;
        }
        assert!(Instant::now() < deadline, "{text}");
        std::thread::sleep(Duration::from_millis(50));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    let (next, second) = run();
    assert!(first.min(second) >= Duration::from_millis(240), "the trace's pace: {first:?}, {second:?}");
    let (report, _) = interrupt(next);
    let delivered = report["up"]["delivered"]["packets"].as_u64().unwrap();
    let again = std::fs::read_to_string(&log).unwrap();
    let logged = again.lines().filter(|line| line.starts_with("up,") && line.contains(",delivered,")).count();
    assert_eq!(logged as u64, delivered, "the log of the second run alone");
    let is_soon = first.max(second) < Duration::from_millis(2000);
    if is_soon { Ok(()) } else { Err(format!("the trace's pace: {first:?}, {second:?}")) }
}
