//! What of a scenario the kernel is given, and what is refused because it is not.
#![allow(clippy::unwrap_used, reason = "a test")]

use super::{RealScenario, origin};
use crate::Error;
use units::{Bytes, Duration};

const SCENARIO: &str = r#"
version = 1
nodes = ["client", "server"]
[[link]]
name = "sat"
between = ["client", "server"]
rate = "10Mbit/s"
delay = "50ms"
queue = "200packets"
[[flow]]
name = "file"
from = "client"
to = "server"
tcp = "host"
bulk = { size = "1MB" }
[tcp.host]
profile = "linux"
control = "reno"
"#;

fn real(setting: &str) -> Result<RealScenario, Error> {
    real_of(SCENARIO, &[setting])
}

fn real_of(text: &str, settings: &[&str]) -> Result<RealScenario, Error> {
    let settings: Vec<_> = settings.iter().map(|setting| (*setting).to_owned()).collect();
    let no_files = |_: &str| Err(String::new());
    RealScenario::new(&scenario::load(text, "lab.toml", &settings, &no_files).unwrap().scenarios.remove(0))
}

#[test]
fn what_the_kernel_is_not_given_is_refused_by_its_key_and_value() {
    for (key, value) in [
        ("window_scaling", "false"),
        ("dsack", "false"),
        ("ecn", "ect0"),
        ("initial_ssthresh", "20segments"),
        ("max_window", "20segments"),
        ("slow_start_limit", "2"),
        ("pacing", "true"),
        ("limited_transmit", "false"),
        ("proportional_rate_reduction", "false"),
        ("restart_after_idle", "false"),
        ("growth_counts_acks", "true"),
        ("grow_when_not_limited", "true"),
        ("delayed_ack.every", "1"),
        ("delayed_ack.delay", "100ms"),
        ("delayed_ack.quick", "0"),
        ("initial_rto", "3s"),
        ("min_rto", "1s"),
        ("max_rto", "60s"),
        ("max_expiries", "3"),
        ("receive_buffer_max", "8MB"),
        ("receive_buffer_share", "0.5"),
        ("tuning.vegas_base_window", "10s"),
        ("tuning.slow_start_exit", "hystart"),
        ("tuning.westwood_tau", "1s"),
        ("tuning.tibet_pole", "0.5"),
        ("tuning.tibet_time", "2s"),
        ("tuning.hybla_rtt0", "50ms"),
        ("tuning.clock_phase", "1ms"),
    ] {
        assert_refused(&format!("tcp.host.{key}={value}"), &format!("flow `file`: {key} = {value}"));
    }
    for (setting, expected) in [
        ("flow.file.stop=2s", "flow `file`: stop = 2s"),
        ("flow.file.start=1h", "flow `file`: it starts at 3600s, when the run has ended (`stop.time` = 3600s)"),
        ("tcp.host.profile=ns2", "flow `file`: profile = ns2"),
        ("tcp.host.tuning.vegas=[1, 2, 1]", "flow `file`: tuning.vegas = [1.0, 2.0, 1.0]"),
        (
            "tcp.host.resume={ window = \"1MB\", rtt = \"100ms\" }",
            "flow `file`: resume = { window = 1MB, rtt = 100ms }",
        ),
        ("tcp.host={ ecn = \"ect0\", accurate_ecn = true }", "flow `file`: ecn = ect0"),
    ] {
        assert_refused(setting, expected);
    }
}

fn assert_refused(setting: &str, expected: &str) {
    match real(setting) {
        Err(Error::Input(problem)) => assert!(problem.starts_with(expected), "{setting}: {problem}"),
        other => panic!("{setting}: {other:?}"),
    }
}

/// A key with its default is no deviation.
#[test]
fn what_the_kernel_does_by_itself_is_accepted() {
    for setting in ["tcp.host.pacing=false", "tcp.host.delayed_ack.every=2", "tcp.host.min_rto=200ms"] {
        real(setting).unwrap();
    }
    for (control, limit) in [("reno", 2), ("cubic", 8)] {
        let tcp = format!(
            "tcp.host={{ profile = \"rfc\", recovery = \"sack\", control = \"{control}\", slow_start_limit = {limit} }}"
        );
        real(&tcp).unwrap();
        assert_refused(&tcp.replace(&format!("= {limit}"), "= 3"), "flow `file`: slow_start_limit = 3segments");
    }
}

/// Schedules of the link do not wait for the first flow.
#[test]
fn times_count_from_the_beginning_and_not_from_the_first_flow() {
    let start = std::time::Instant::now();
    let flow = |late_ms, planned_s| {
        let planned = Duration::from_secs(planned_s);
        (start + std::time::Duration::from_millis(late_ms) + planned.into(), planned)
    };
    assert_eq!(origin([flow(0, 10), flow(3, 12)].into_iter()), Some(start));
    assert_eq!(origin([flow(2, 0), flow(1, 5)].into_iter()), Some(start + std::time::Duration::from_millis(1)));
    assert_eq!(origin(std::iter::empty()), None);
}

/// The kernel doubles the option (`sock_setsockopt` of Linux 6.18), so that half of the scenario's buffer is set.
#[test]
fn the_send_buffer_is_the_scenarios() {
    let buffer = |setting| real(setting).unwrap().flows.remove(0).workload.send_buffer;
    assert_eq!(buffer("tcp.host.send_buffer=30kB"), Some(Bytes::new(15_000)));
    assert_eq!(buffer("tcp.host.timestamps=true"), None, "the kernel's own grows");
}

/// The simulator's segments have the payload that the scenario says, and no more than the other end takes.
#[test]
fn segments_are_the_scenarios() {
    let mtus = |setting: &str| {
        let flow = real(setting).unwrap().flows.remove(0);
        (flow.route.mtu, flow.receiver_route.mtu)
    };
    assert_eq!(mtus("tcp.host.mss=1448B"), (None, None), "what an Ethernet carries");
    assert_eq!(mtus("tcp.host.timestamps=false"), (Some(1488), Some(1488)), "less than an Ethernet carries");
    assert_eq!(mtus("tcp.host={ mss = \"1460B\", timestamps = false, profile = \"linux\" }"), (None, None));
    assert_eq!(mtus("tcp.host.mss=536B"), (Some(588), Some(588)));
    let received = |mss: &str| {
        let other = format!("tcp.other={{ profile = \"linux\", control = \"reno\", mss = \"{mss}\" }}");
        let flow = real_of(SCENARIO, &[&other, "flow.file.server_tcp=other"]).unwrap().flows.remove(0);
        (flow.route.mtu, flow.receiver_route.mtu)
    };
    assert_eq!(received("536B"), (None, Some(588)), "the receiver's SYN says so");
    assert_eq!(received("100B"), (Some(152), Some(152)), "no SYN says so");
    assert_eq!(received("9000B"), (None, None), "the sender has the Ethernet's");
    assert_refused("tcp.host.mss=8960B", "flow `file`: mss = 8960B");
    assert_refused("tcp.host.mss=1460B", "flow `file`: mss = 1460B");
}

/// Flows between the same hosts, one each way.
#[test]
fn a_host_has_one_size_of_segments() {
    let real = |back: &str| {
        let more = "[[flow]]\nname = \"back\"\nfrom = \"server\"\nto = \"client\"\nbulk = { size = \"1MB\" }\n";
        let tcp = "[tcp.back]\nprofile = \"linux\"\ncontrol = \"reno\"\n";
        let text = format!("{SCENARIO}{tcp}mss = \"{back}\"\n{more}tcp = \"back\"\n");
        real_of(&text, &[])
    };
    real("1448B").unwrap();
    let problem = real("1000B").unwrap_err().to_string();
    assert!(problem.starts_with("flows `file` and `back` leave a host and come to it with"), "{problem}");
}

/// Before a run of another variant takes its time.
#[test]
fn what_only_simulated_links_do_is_refused_before_the_run() {
    assert_refused("link.sat.reverse.acks=filter", "link `sat`");
}

/// A pair around a carrier.
const OVER_CARRIER: &str = r#"
version = 1
nodes = ["client", "t", "h", "server"]
[[carrier]]
name = "return"
rate = "8Mbit/s"
[[link]]
name = "lan"
between = ["client", "t"]
[[link]]
name = "sat"
between = ["t", "h"]
delay = "50ms"
queue = "200packets"
forward = { dama = { carrier = "return", DAMA } }
reverse = { rate = "8Mbit/s" }
[[link]]
name = "wan"
between = ["h", "server"]
[[flow]]
name = "file"
from = "client"
to = "server"
tcp = "host"
bulk = { size = "1MB" }
[tcp.host]
profile = "linux"
control = "reno"
[tcp.hop]
profile = "linux"
control = "cross-layer"
capacity = { rate = "8Mbit/s", rtt = "100ms", target_queue = "20ms", connections = 1 }
[[gateway]]
name = "pep"
nodes = ["t", "h"]
transport = "tcp"
tcp = "hop"
follow_allocation = true
"#;

/// Nobody asks for capacity but the terminal, for what has arrived: windows that follow an allocation would stay small.
#[test]
fn gateways_follow_a_constant_allocation_only() {
    let real = |dama: &str| real_of(&OVER_CARRIER.replace("DAMA", dama), &[]);
    real("cra = \"2Mbit/s\"").unwrap();
    let Err(Error::Input(problem)) = real("cra = \"1Mbit/s\", rbdc = \"2Mbit/s\"") else { panic!("it is accepted") };
    assert!(problem.starts_with("gateway `pep`: follow_allocation") && problem.contains("rbdc"), "{problem}");
}

/// Real gateways are given their control, and nothing else of TCP.
#[test]
fn what_gateways_are_not_given_is_refused_by_its_key_and_value() {
    let real = |settings: &[&str]| {
        let link = |[a, b]: [&str; 2]| format!("[[link]]\nname = \"{a}-{b}\"\nbetween = [\"{a}\", \"{b}\"]\n");
        let text =
            SCENARIO.replace("[\"client\", \"server\"]\n[[link]]", "[\"client\", \"t\", \"h\", \"server\"]\n[[link]]");
        let text = text.replace("between = [\"client\", \"server\"]", "between = [\"t\", \"h\"]");
        let links = [["client", "t"], ["h", "server"]].map(link).concat();
        let pair = "[[gateway]]\nname = \"pep\"\nnodes = [\"t\", \"h\"]\ntransport = \"tcp\"\ntcp = \"hop\"\n";
        let text = format!("{text}{links}{pair}[tcp.hop]\nprofile = \"linux\"\ncontrol = \"cubic\"\n");
        real_of(&text, settings)
    };
    real(&["tcp.hop.control=reno"]).unwrap();
    real(&["tcp.hop.send_buffer=4MiB", "tcp.hop.mss=1448B"]).unwrap();
    for (settings, expected) in [
        (["tcp.hop.initial_window=20segments", "stop.time=60s"], "initial_window = 20segments"),
        (["tcp.hop.mss=1000B", "stop.time=60s"], "mss = 1000B"),
        (["tcp.hop.send_buffer=30kB", "stop.time=60s"], "send_buffer = 30kB"),
        (["tcp.hop.receive_buffer=30kB", "stop.time=60s"], "receive_buffer = 30kB"),
        (["tcp.hop.timestamps=false", "stop.time=60s"], "timestamps = false"),
        (["gateway.pep.hosts_tcp=\"host\"", "tcp.host.control=reno"], "hosts_tcp: control = reno"),
        (
            ["gateway.pep.hosts_tcp=\"host\"", "tcp.host={ profile = \"linux\", control = \"cubic\", mss = \"900B\" }"],
            "hosts_tcp: mss = 900B",
        ),
    ] {
        match real(&settings) {
            Err(Error::Input(problem)) => {
                assert!(problem.starts_with(&format!("gateway `pep`: {expected}")), "{settings:?}: {problem}");
            }
            other => panic!("{settings:?}: {other:?}"),
        }
    }
}
