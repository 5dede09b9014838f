//! `bentpipe emulate` as modem and `bentpipe gateway` as router, with real processes. Where the machine may not create network
//! namespaces, the test says so and passes.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: real processes, sockets and waiting")]

use kernel::Namespace;
use kernel::network::IpBatch;
use kernel::testing::namespace;
use satpep::PrivateKey;
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

/// Processes that end with the test.
struct Running(Vec<Child>);

impl Drop for Running {
    fn drop(&mut self) {
        for child in &mut self.0 {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

fn start(namespace: &Namespace, arguments: &[&str]) -> Child {
    let mut command = namespace.command(env!("CARGO_BIN_EXE_bentpipe"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
}

/// A terminal's gateway with interfaces `sat` and `mgmt`, and an emulator between `sat` and a hub, at the other end of `mgmt`.
fn network() -> Option<[Namespace; 3]> {
    let [satellite, gateway, hub] = [namespace()?, namespace()?, namespace()?];
    IpBatch::new(&satellite)
        .add_veth("near", &gateway, "sat")
        .add_veth("far", &hub, "sat")
        .add_veth("mgmt", &gateway, "mgmt")
        .add("address add 198.18.9.1/24 dev mgmt")
        .add("link set far mtu 1400")
        .add_all(["near", "far", "mgmt"].map(|interface| format!("link set {interface} up")))
        .run()
        .unwrap();
    IpBatch::new(&gateway)
        .add("address add 198.18.8.2/24 dev sat")
        .add("address add 198.18.9.2/24 dev mgmt")
        .add_all(["lo", "sat", "mgmt"].map(|interface| format!("link set {interface} up")))
        .run()
        .unwrap();
    Some([satellite, gateway, hub])
}

/// Settings of a gateway that asks its modem, with `more` in `[gateway]`.
fn settings(directory: &Path, more: &str) -> String {
    let key = PrivateKey::from_random([1; 32]);
    format!(
        "[gateway]\nprivate_key = \"{}\"\n{more}[link]\ninterface = \"sat\"\nrate = \"10Mbit/s\"\nrtt = \"100ms\"\n\
         [dlep]\ninterface = \"mgmt\"\n[control]\nsocket = \"{}\"\n\
         [[peer]]\nname = \"hub\"\npublic_key = \"{}\"\n",
        key.to_base64(),
        directory.join("sock").display(),
        PrivateKey::from_random([2; 32]).public_key(),
    )
}

/// Waits until the gateway sends at `mbit` Mbit/s by an update of `source`; returns its status.
fn wait(directory: &Path, mbit: u64, source: &str) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let status = gateway::status(&directory.join("sock")).unwrap_or(Value::Null);
        if (&status["rate_bps"], &status["link"]["source"]) == (&(mbit * 1_000_000).into(), &source.into()) {
            return status;
        }
        assert!(Instant::now() < deadline, "not {mbit} Mbit/s by {source}: {status:#}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_gateway_follows_the_emulated_modem_and_does_without_it() {
    let Some([satellite, gateway, _hub]) = network() else { return };
    let directory = tempfile::tempdir().unwrap();
    let (config, link) = (directory.path().join("gateway.toml"), directory.path().join("link.toml"));
    // The `tcp` transport passes reported rates to the cross-layer congestion control, if that can be loaded.
    let is_loadable = congestion::requirements::check().inspect_err(|error| eprintln!("SKIPPED: {error}")).is_ok();
    let transport = "transport = \"tcp\"\n[tcp]\ncongestion_control = \"bp_cross\"\n";
    std::fs::write(&config, settings(directory.path(), if is_loadable { transport } else { "" })).unwrap();
    let assert_handed_on = |mbit: u64| {
        let deadline = Instant::now() + Duration::from_secs(2);
        let capacity = || {
            gateway::status(&directory.path().join("sock")).unwrap()["satellite"]["cross_layer"]["capacity_bps"]
                .as_u64()
        };
        while is_loadable && capacity() != Some(mbit * 1_000_000) {
            assert!(Instant::now() < deadline, "{:?} instead of {mbit} Mbit/s", capacity());
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    // The steps come when a busy host, too, has looked at what there is before.
    let up = "[up]\nrate = \"6Mbit/s\"\ndelay = \"50ms\"\nrate_steps = { steps = [[\"12s\", \"3Mbit/s\"]] }\n\
              delay_steps = { steps = [[\"14s\", \"150ms\"]] }\n";
    std::fs::write(&link, format!("{up}[down]\nrate = \"8Mbit/s\"\ndelay = \"50ms\"\n")).unwrap();

    let mut running = Running(vec![start(&gateway, &["gateway", "--config", config.to_str().unwrap()])]);
    wait(directory.path(), 10, "configured");
    let link = link.to_str().unwrap();
    let emulator =
        ["emulate", "--between", "near", "far", "--link", link, "--dlep", "mgmt", "--dlep-heartbeat", "500ms"];
    running.0.push(start(&satellite, &emulator));
    let status = wait(directory.path(), 6, "dlep");
    assert_eq!((&status["link"]["receive_rate_bps"], &status["link"]["rtt_s"]), (&8_000_000.into(), &0.1.into()));
    assert_eq!((&status["modem"]["name"], &status["modem"]["mtu"]), (&"bentpipe emulate".into(), &1400.into()));
    let shown = gateway
        .command(env!("CARGO_BIN_EXE_bentpipe"))
        .args(["gateway", "status", "--socket"])
        .arg(directory.path().join("sock"))
        .output()
        .unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("reported by dlep for") && shown.contains("6Mbit/s transmit, 8Mbit/s receive"), "{shown}");
    assert!(shown.contains("(bentpipe emulate), link up"), "{shown}");
    assert_eq!(shown.contains(" divides 6Mbit/s between 1 with data"), is_loadable, "{shown}");
    wait(directory.path(), 3, "dlep");
    assert_handed_on(3);
    // Where the way is longer, all destinations are.
    let deadline = Instant::now() + PATIENCE;
    while wait(directory.path(), 3, "dlep")["link"]["rtt_s"] != 0.3 {
        assert!(Instant::now() < deadline, "the latency was not reported");
        std::thread::sleep(Duration::from_millis(20));
    }

    // A modem that stands still sends no heartbeats.
    let signal = |name: &str| {
        let pid = running.0[1].id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    };
    signal("-STOP");
    let stopped = Instant::now();
    wait(directory.path(), 10, "configured");
    assert!(stopped.elapsed() < Duration::from_secs(5), "{:?}", stopped.elapsed());
    signal("-CONT");
    wait(directory.path(), 3, "dlep");
}

#[test]
fn a_gateway_follows_what_its_terminal_is_given_of_a_carrier() {
    let Some([satellite, gateway, _hub]) = network() else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let [config, link, log, arrivals] = ["gateway.toml", "link.toml", "capacity.csv", "arrivals.csv"].map(file);
    std::fs::write(&config, settings(directory.path(), "")).unwrap();
    // Rain takes half of the carrier, and with it what nobody has asked for.
    let carrier = "[carrier.return]\nrate = \"4Mbit/s\"\nslot = \"50B\"\nfca = true\n\
                   rate_steps = { steps = [[\"12s\", \"2Mbit/s\"]] }\n";
    let terminal = "[[terminal]]\nname = \"one\"\nnetworks = [\"198.18.8.2/32\"]\ndlep = \"mgmt\"\n\
                    up = { delay = \"50ms\", dama = { carrier = \"return\", cra = \"1Mbit/s\" } }\n";
    let text = format!("{carrier}{terminal}[down]\nrate = \"8Mbit/s\"\ndelay = \"50ms\"\n");
    std::fs::write(&link, text).unwrap();

    let mut running = Running(vec![start(&gateway, &["gateway", "--config", &config])]);
    wait(directory.path(), 10, "configured");
    let emulator = ["emulate", "--between", "near", "far", "--link", &link, "--capacity-log", &log];
    let emulator = [&emulator[..], &["--arrival-log", &arrivals]].concat();
    running.0.push(start(&satellite, &emulator));
    wait(directory.path(), 4, "dlep");
    wait(directory.path(), 2, "dlep");
    // The plan was announced; its superframe is still to come.
    std::thread::sleep(Duration::from_secs(1));
    let pid = running.0[1].id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert!(running.0[1].wait().unwrap().success());
    let arrivals = std::fs::read_to_string(&arrivals).unwrap();
    let headers: Vec<_> = arrivals.lines().take(3).collect();
    assert!(headers[0].starts_with("# up {\"carrier\":{\"rate\":\"4Mbit/s\""), "{arrivals}");
    assert_eq!(headers[2], "direction,number,arrived_ns,bytes,flow,ecn,outcome,at_ns,terminal");
    let log = std::fs::read_to_string(&log).unwrap();
    let mut lines = log.lines();
    let columns: Vec<_> = lines.next().unwrap().split(',').collect();
    let column = |name: &str| columns.iter().position(|column| *column == name).unwrap();
    let [terminal, allocated, constant] = ["terminal", "allocated_bps", "cra_bps"].map(column);
    let rows: Vec<Vec<_>> = lines.map(|line| line.split(',').collect()).collect();
    assert!(rows.len() > 30, "ten superframes a second: {log}");
    assert!(rows.iter().all(|row| (row[terminal], row[constant]) == ("one", "1000000")), "{log}");
    assert_eq!((rows[0][allocated], rows[rows.len() - 1][allocated]), ("4000000", "2000000"), "{log}");
}

#[test]
fn a_gateway_at_the_hub_follows_the_rate_of_the_carrier() {
    let Some([satellite, gateway, _hub]) = network() else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let [config, link] = ["gateway.toml", "link.toml"].map(file);
    std::fs::write(&config, settings(directory.path(), "")).unwrap();
    let carrier =
        "[carrier.return]\nrate = \"4Mbit/s\"\nslot = \"50B\"\nrate_steps = { steps = [[\"3s\", \"2Mbit/s\"]] }\n";
    let terminal = "[[terminal]]\nname = \"one\"\nnetworks = [\"198.18.8.2/32\"]\n\
                    up = { delay = \"50ms\", dama = { carrier = \"return\", cra = \"1Mbit/s\" } }\n";
    let down = "[down]\nopportunities = { millis = [2] }\ndelay = \"50ms\"\n";
    std::fs::write(&link, format!("{carrier}{terminal}{down}")).unwrap();

    let mut running = Running(vec![start(&gateway, &["gateway", "--config", &config])]);
    wait(directory.path(), 10, "configured");
    running.0.push(start(&satellite, &["emulate", "--between", "near", "far", "--link", &link, "--dlep-hub", "mgmt"]));
    let deadline = Instant::now() + PATIENCE;
    while wait(directory.path(), 6, "dlep")["link"]["receive_rate_bps"] != 2_000_000 {
        assert!(Instant::now() < deadline, "the carrier's rate was not reported");
        std::thread::sleep(Duration::from_millis(20));
    }
}
