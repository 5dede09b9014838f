//! `bentpipe tune`: its advice, and what it changes in a private network namespace and puts back.
//! Where the machine does not allow namespaces, the tests that need them say so and pass.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: starts programs and waits for them")]

mod published;

use kernel::Namespace;
use kernel::network::IpBatch;
use kernel::route::Route;
use kernel::testing::namespace;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

const GEO: [&str; 4] = ["--rate", "6Mbit/s", "--rtt", "550ms"];
const BENTPIPE: &str = env!("CARGO_BIN_EXE_bentpipe");

fn tune(options: &[&str]) -> Output {
    Command::new(BENTPIPE).arg("tune").args(options).env_remove("BENTPIPE_LOG").output().unwrap()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn advice(options: &[&str]) -> Value {
    json(&tune(&[&GEO, &["--json"][..], options].concat()))
}

#[test]
fn advice_is_one_document_with_the_contracts_names() {
    let document = advice(&["--size", "1MB"]);
    assert!(document["initial_window_segments"].as_u64().unwrap() > 100);
    assert_eq!(document["window_bytes"], 412_500);
    assert_eq!(document["congestion_control"], "cubic");
    let predicted = &document["predicted"];
    let time = |key: &str| predicted[key].as_f64().unwrap();
    assert!(time("limit_s") < time("after_s") && time("after_s") < time("before_s"), "{predicted}");
    let gain = 100.0 * (time("before_s") - time("after_s")) / time("before_s");
    assert!((time("gain_percent") - gain).abs() < 1e-9);
    let commands: Vec<_> = document["commands"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    assert!(commands.iter().any(|line| line.starts_with("ip -4 route change $(ip -4 ") && line.contains("initcwnd")));
    assert!(commands.iter().any(|line| line.starts_with("sysctl -w net.ipv4.tcp_rmem=\"4096 ")));
    assert!(!document["warnings"].as_array().unwrap().is_empty());
}

#[test]
fn losses_that_the_prediction_does_not_cover_are_named() {
    let output = tune(&["--rate", "50Mbit/s", "--rtt", "550ms", "--size", "30MB", "--loss", "5e-2", "--no-verify"]);
    let text = String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("loss 0.05 is above 0.02: timeouts and lost repairs take over"), "{text}");
}

/// A product of this link is 1250 bytes.
#[test]
fn the_default_queue_holds_at_least_one_packet() {
    let slow = ["--rate", "500kbit/s", "--rtt", "20ms", "--no-verify", "--json"];
    let of_queue = |queue: &[&str]| json(&tune(&[&slow[..], queue].concat()))["predicted"].clone();
    assert_eq!(of_queue(&[]), of_queue(&["--queue", "1packets"]));
}

#[test]
fn the_papers_link_by_the_papers_rule() {
    let output =
        tune(&["--rate", "2.048Mbit/s", "--rtt", "0.57s", "--profile", "linux2.2", "--size", "2.8MB", "--json"]);
    let document = json(&output);
    assert_eq!(document["window_bytes"], 145_920);
    assert!((291_840..=320_000).contains(&document["buffer_bytes"].as_u64().unwrap()));
    let output = tune(&["--rate", "20Mbit/s", "--rtt", "0.55s", "--profile", "linux2.2", "--json"]);
    let document = json(&output);
    assert_eq!(document["window_bytes"], 1_375_000);
    assert!(document["window_scale"].as_u64().unwrap() >= 5);
}

#[test]
fn what_is_impossible_is_refused_with_its_range() {
    for (options, culprit) in [
        (vec!["--rate", "0bit/s", "--rtt", "550ms"], "--rate 0bit/s is not allowed; allowed: from 1kbit/s"),
        (vec!["--rate", "6Mbit/s", "--rtt", "0s"], "--rtt 0s is not allowed; allowed: above 0s"),
        (vec!["--rate", "6Mbit/s"], "--rtt"),
        ([&GEO[..], &["--loss", "-1"]].concat(), "--loss"),
        ([&GEO[..], &["--loss", "0.7"]].concat(), "from 0 to 0.5"),
        ([&GEO[..], &["--queue", "10B"]].concat(), "at least a packet"),
        ([&GEO[..], &["--queue", "unlimited"]].concat(), "--queue unlimited"),
        ([&GEO[..], &["--size", "0B"]].concat(), "--size 0B is not allowed; allowed:"),
        ([&GEO[..], &["--initial-window", "0"]].concat(), "--initial-window 0 is not allowed; allowed:"),
        ([&GEO[..], &["--controls", "warp"]].concat(), "warp"),
        ([&GEO[..], &["--to", "10.0.0.0/99"]].concat(), "/32"),
        ([&GEO[..], &["--check", "--apply"]].concat(), "--apply"),
        ([&GEO[..], &["--check", "--profile", "linux2.2"]].concat(), "linux2.2"),
        ([&GEO[..], &["--profile", "linux2.2", "--controls", "bbr"]].concat(), "--controls"),
        ([&GEO[..], &["--profile", "linux2.2", "--latency"]].concat(), "--latency"),
        (vec!["--rate", "1kbit/s", "--rtt", "550ms", "--size", "9000000000GB"], "584 years"),
    ] {
        let output = tune(&options);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{options:?}: {text}");
        assert!(text.contains(culprit), "{options:?}: {text}");
        assert_eq!(text.trim_end().lines().count(), 1, "{text}");
    }
}

#[test]
fn a_gain_that_simulation_does_not_bear_out_is_not_printed() {
    // The kernel took 4.57 s for this transfer, tuned, over the emulated link.
    let thin = ["--rate", "3.1Mbit/s", "--rtt", "620ms", "--size", "800kB", "--queue", "1BDP"];
    let document = json(&tune(&[&thin[..], &["--json"]].concat()));
    let simulated = &document["simulated"];
    assert_eq!(document["gain_percent"], simulated["gain_percent"], "verified without being asked");
    let (predicted, simulated) = (&document["predicted"]["gain_percent"], &simulated["gain_percent"]);
    let text = String::from_utf8(tune(&thin).stdout).unwrap();
    let row = text.lines().find(|line| line.starts_with("| predicted")).unwrap();
    let is_printed = !row.trim_end().ends_with("– |");
    assert_eq!(is_printed, simulated.as_f64().unwrap() >= predicted.as_f64().unwrap() - 2.0, "{text}");
    // Neither where it would take long, nor where it is not wanted.
    for options in [&["--size", "1GB"][..], &["--no-verify"]] {
        let document = advice(options);
        assert!(document["simulated"].is_null());
        assert_eq!(document["gain_percent"], document["predicted"]["gain_percent"]);
    }
}

#[test]
fn a_verification_that_fails_names_the_way_past_it() {
    let lossy = [&GEO[..], &["--loss", "0.4", "--size", "100kB"]].concat();
    let output = tune(&[&lossy[..], &["--seeds", "1"]].concat());
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("is not verified; --no-verify prints it"), "{text}");
    assert!(tune(&[&lossy[..], &["--no-verify"]].concat()).status.success());
}

#[test]
fn simulation_confirms_the_gain_or_the_advice_is_withdrawn() {
    let verify = ["--size", "300kB", "--verify", "--seeds", "2"];
    let document = advice(&verify);
    let (predicted, simulated) = (&document["predicted"], &document["simulated"]);
    for key in ["before_s", "after_s"] {
        let (predicted, simulated) = (predicted[key].as_f64().unwrap(), simulated[key].as_f64().unwrap());
        assert!((predicted / simulated - 1.0).abs() < 0.15, "{key}: {predicted} beside {simulated}");
    }
    assert_eq!(simulated["holds"], true);
    // One segment at a time is slower than what Linux does by itself.
    let output = tune(&[&GEO[..], &verify, &["--initial-window", "1", "--json"]].concat());
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("not recommended: simulated with 2 seeds"), "{text}");
    assert!(output.stdout.is_empty());
}

/// A host with a way out, in a namespace of its own.
struct Host {
    namespace: Namespace,
    folder: tempfile::TempDir,
}

/// What `tune` may change.
const SYSCTLS: [&str; 4] =
    ["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem", "net.ipv4.tcp_no_metrics_save", "net.ipv4.tcp_slow_start_after_idle"];

impl Host {
    fn new() -> Option<Self> {
        let host = Self { namespace: namespace()?, folder: tempfile::tempdir().unwrap() };
        IpBatch::new(&host.namespace)
            .add_veth("eth0", &host.namespace, "eth1")
            .add("link set eth0 up")
            .add("link set eth1 up")
            .add("address add 198.18.0.1/24 dev eth0")
            .add("route add default via 198.18.0.2 metric 7 congctl cubic")
            .run()
            .unwrap();
        Some(host)
    }

    fn state(&self) -> std::path::PathBuf {
        self.folder.path().join("state/tune.json")
    }

    /// `bentpipe tune` here, started by `through` if that names a program.
    fn tune_through(&self, through: &[&str], path: Option<&Path>, options: &[&str]) -> Output {
        let mut words = through.iter().chain([&BENTPIPE]);
        let mut command = self.namespace.command(words.next().unwrap());
        command.args(words).arg("tune").args(options).env_remove("BENTPIPE_LOG");
        if let Some(path) = path {
            command.env("PATH", format!("{}:{}", path.display(), std::env::var("PATH").unwrap()));
        }
        if options.contains(&"--apply") || options.contains(&"--undo") {
            command.arg("--state").arg(self.state());
        }
        command.output().unwrap()
    }

    fn tune(&self, options: &[&str]) -> Output {
        self.tune_through(&[], None, options)
    }

    /// Everything that could have been changed.
    fn settings(&self) -> Vec<String> {
        let read = || {
            let mut settings: Vec<_> = SYSCTLS.iter().map(|key| kernel::sysctl::read(key).unwrap()).collect();
            let routes = Command::new("ip").args(["-4", "-oneline", "route", "show"]).output().unwrap();
            settings.push(String::from_utf8(routes.stdout).unwrap());
            settings
        };
        self.namespace.run(read).unwrap()
    }

    fn route(&self, destination: &str) -> Route {
        let destination = if destination == "default" { "0.0.0.0/0" } else { destination }.parse().unwrap();
        self.namespace.run(|| Route::exactly(destination)).unwrap().unwrap().unwrap()
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const APPLY: [&str; 8] = ["--rate", "100Mbit/s", "--rtt", "550ms", "--size", "10MB", "--apply", "--json"];

#[test]
fn what_is_applied_is_there_and_undo_puts_back_exactly_what_was() {
    let Some(host) = Host::new() else { return };
    let before = host.settings();
    let document = json(&host.tune(&APPLY));
    let route = host.route("default");
    assert_eq!(route.metric("initcwnd"), Some(document["initial_window_segments"].to_string()));
    assert_eq!(route.priority(), Some(7));
    let after = host.settings();
    assert_eq!(after[0], document["tcp_rmem"].as_str().unwrap());
    assert_eq!(after[1], document["tcp_wmem"].as_str().unwrap());
    assert_eq!((after[2].as_str(), after[3].as_str()), ("1", "0"));
    // Those that belong to the whole host are named and left.
    let left_out = document["applied"]["left_out"].to_string();
    assert!(left_out.contains("net.core.rmem_max"), "{left_out}");
    // Twice would forget what was there at first.
    let again = host.tune(&[&APPLY[..], &["--initial-window", "20"]].concat());
    assert_eq!(again.status.code(), Some(2), "{}", stderr(&again));
    assert!(stderr(&again).contains(&format!("--undo --state {}", host.state().display())), "{}", stderr(&again));
    let undone = json(&host.tune(&["--undo", "--json"]));
    assert_eq!(undone["left"].as_array().unwrap().len(), 0);
    assert_eq!(host.settings(), before);
    assert!(!host.state().exists());
    let nothing = host.tune(&["--undo"]);
    assert_eq!(nothing.status.code(), Some(2), "{}", stderr(&nothing));
}

#[test]
fn a_network_gets_a_route_of_its_own_until_it_is_undone() {
    let Some(host) = Host::new() else { return };
    let before = host.settings();
    json(&host.tune(&[&APPLY[..], &["--to", "198.19.4.5/24"]].concat()));
    let route = host.route("198.19.4.0/24");
    assert_eq!(route.gateway(), Some("198.18.0.2".parse().unwrap()));
    assert!(route.metric("initcwnd").is_some());
    assert_eq!(host.route("default").metric("initcwnd"), None);
    // Changes by others are reported.
    host.namespace.run(|| kernel::sysctl::write("net.ipv4.tcp_no_metrics_save", "0")).unwrap().unwrap();
    host.namespace.run(|| kernel::sysctl::write("net.ipv4.tcp_wmem", "4096 16384 7000000")).unwrap().unwrap();
    let undone = json(&host.tune(&["--undo", "--json"]));
    assert!(undone["left"].to_string().contains("7000000"), "{undone}");
    published::assert_as_published("tune-undo", &undone);
    assert_eq!(host.settings()[1], "4096 16384 7000000");
    let again = host.tune(&["--undo"]);
    assert_eq!(again.status.code(), Some(2), "{}", stderr(&again));
    assert!(stderr(&again).contains("--undo --force"), "{}", stderr(&again));
    json(&host.tune(&["--undo", "--force", "--json"]));
    assert_eq!(host.settings(), before);
}

#[test]
fn a_step_that_fails_takes_the_others_back() {
    let Some(host) = Host::new() else { return };
    let before = host.settings();
    // A `tc` that knows what is there and cannot change it.
    let programs = host.folder.path().join("programs");
    std::fs::create_dir(&programs).unwrap();
    let tc = programs.join("tc");
    std::fs::write(&tc, "#!/bin/sh\ncase $2 in show) echo qdisc noqueue 0: root;; *) echo broken >&2; exit 1;; esac\n")
        .unwrap();
    std::fs::set_permissions(&tc, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let output = host.tune_through(&[], Some(&programs), &[&APPLY[..], &["--controls", "bbr"]].concat());
    if stderr(&output).contains("this kernel has no bbr") {
        eprintln!("skipped: {}", stderr(&output));
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("broken") && stderr(&output).contains("nothing is changed"),
        "{}",
        stderr(&output)
    );
    assert_eq!(host.settings(), before);
    assert!(!host.state().exists());
}

#[test]
fn without_the_right_it_says_what_is_missing_and_changes_nothing() {
    let Some(host) = Host::new() else { return };
    let before = host.settings();
    let without = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"];
    let output = host.tune_through(&without, None, &APPLY);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("CAP_NET_ADMIN"), "{}", stderr(&output));
    assert_eq!(host.settings(), before);
    // Settings of the whole host are not those of a namespace's root either.
    let output = host.tune(&[&APPLY[..], &["--host-wide"]].concat());
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("whole host"), "{}", stderr(&output));
    assert_eq!(host.settings(), before);
    assert!(!host.state().exists());
}

#[test]
fn a_check_names_what_limits_and_what_each_setting_costs() {
    let Some(host) = Host::new() else { return };
    let write = |key: &str, value: &str| host.namespace.run(|| kernel::sysctl::write(key, value)).unwrap().unwrap();
    write("net.ipv4.tcp_moderate_rcvbuf", "0");
    let before = host.settings();
    let document = json(&host.tune(&[&GEO[..], &["--size", "10MB", "--check", "--json"]].concat()));
    let present = &document["present"];
    assert_eq!(present["limited_by"], "receive window");
    assert_eq!(present["congestion_control"], "cubic");
    assert!(present["route"].as_str().unwrap().starts_with("default via 198.18.0.2 dev eth0"));
    let costs = present["settings"].as_array().unwrap();
    let cost = |name: &str| {
        costs.iter().find(|row| row["setting"] == name).map(|row| row["costs_s"].as_f64().unwrap()).unwrap()
    };
    assert!(cost("receive buffer") > 10.0 && cost("window scaling") == 0.0, "{costs:?}");
    assert!(document["commands"].to_string().contains("tcp_moderate_rcvbuf=1"));
    assert_eq!(host.settings(), before);
    let nowhere = host.tune(&[&GEO[..], &["--check", "-6"]].concat());
    assert_eq!(nowhere.status.code(), Some(2), "{}", stderr(&nowhere));
    assert!(stderr(&nowhere).contains("no route"), "{}", stderr(&nowhere));
}

#[test]
fn the_script_does_what_apply_does() {
    let Some(host) = Host::new() else { return };
    if Command::new("sysctl").arg("--version").output().is_err() {
        eprintln!("skipped: no sysctl program");
        return;
    }
    // A larger maximum would stay.
    let write = |key: &str, value: &str| host.namespace.run(|| kernel::sysctl::write(key, value)).unwrap().unwrap();
    write("net.ipv4.tcp_rmem", "4096 131072 5000000");
    let script = host.folder.path().join("tune.sh");
    let options = ["--size", "1MB", "--script", script.to_str().unwrap(), "--to", "198.19.4.0/24"];
    let document = advice(&options);
    let output = host.namespace.command(&script).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let window = document["initial_window_segments"].to_string();
    assert_eq!(host.route("198.19.4.0/24").metric("initcwnd"), Some(window));
    assert_eq!(host.settings()[0], document["tcp_rmem"].as_str().unwrap());
}

/// Runs in the namespace of `host` the script that `tune` writes with `options`; returns the advice and what the script printed.
fn run_script(host: &Host, options: &[&str]) -> (Value, Output) {
    let script = host.folder.path().join("tune.sh");
    let written = ["--size", "1MB", "--no-verify", "--script", script.to_str().unwrap()];
    let document = advice(&[&written[..], options].concat());
    (document, host.namespace.command(&script).output().unwrap())
}

/// Without a family, `ip` takes that of the next hop for the default route's.
#[test]
fn the_script_tunes_the_ipv4_route_where_its_next_hop_is_of_ipv6() {
    let Some(host) = Host::new() else { return };
    for route in
        ["-4 route replace default via inet6 fe80::9 dev eth0 metric 7", "-6 route add default via fe80::9 dev eth0"]
    {
        assert!(host.namespace.command("ip").args(route.split(' ')).status().unwrap().success(), "{route}");
    }
    let (document, output) = run_script(&host, &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    let window = document["initial_window_segments"].to_string();
    assert_eq!(host.route("default").metric("initcwnd"), Some(window));
    assert_eq!(host.route("::/0").metric("initcwnd"), None);
}

/// The lowest and the highest address of the first two networks are of the host itself or of networks that it is connected to.
#[test]
fn the_script_finds_the_route_between_the_ends_of_a_network() {
    let Some(host) = Host::new() else { return };
    IpBatch::new(&host.namespace).add("link set lo up").run().unwrap();
    for network in ["0.0.0.0/1", "198.18.0.0/15", "198.18.0.0/23"] {
        if network == "198.18.0.0/15" {
            IpBatch::new(&host.namespace).add("address add 198.19.255.1/24 dev eth1").run().unwrap();
        }
        let (document, output) = run_script(&host, &["--to", network]);
        assert!(output.status.success(), "{network}: {}", stderr(&output));
        let window = document["initial_window_segments"].to_string();
        assert_eq!(host.route(network).metric("initcwnd"), Some(window), "{network}");
    }
}

#[test]
fn the_script_refuses_a_network_whose_parts_take_different_tables() {
    let Some(host) = Host::new() else { return };
    IpBatch::new(&host.namespace)
        .add("route add default via 198.18.0.9 dev eth0 table 100")
        .add("rule add to 198.19.0.0/24 lookup 100")
        .run()
        .unwrap();
    let (_, output) = run_script(&host, &["--to", "198.19.0.0/16"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("no route leads to all of 198.19.0.0/16"), "{}", stderr(&output));
}
