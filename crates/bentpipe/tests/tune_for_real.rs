//! What `bentpipe tune --apply` gains for the kernel's own TCP over the emulated link, beside what it predicts:
//! `cargo test --release -p bentpipe --test tune_for_real -- --ignored --nocapture`, three minutes.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: starts programs and waits for them")]

mod published;

use kernel::Namespace;
use kernel::route::Route;
use lab::transfer::Checksum;
use lab::{Direction, Ends, Family, LinkParameters, Topology, Workload, flows};
use serde_json::Value;
use std::path::Path;
use units::{Bytes, Duration, Probability, Rate};

const LINK: LinkParameters = LinkParameters {
    rate: Rate::from_bps(6_000_000),
    rtt: Duration::from_millis(550),
    loss: Probability::ZERO,
    reorder: Probability::ZERO,
    duplicate: Probability::ZERO,
    seed: 1,
};

/// Linux defaults.
const DEFAULTS: [(&str, &str); 4] = [
    ("ipv4/tcp_rmem", "4096 131072 6291456"),
    ("ipv4/tcp_wmem", "4096 16384 4194304"),
    ("ipv4/tcp_moderate_rcvbuf", "1"),
    ("ipv4/tcp_slow_start_after_idle", "1"),
];

fn use_cubic(host: &Namespace) {
    let change = || {
        Route::exactly("0.0.0.0/0".parse().unwrap())
            .unwrap()
            .unwrap()
            .with_metric("congctl", Some("cubic"))
            .unwrap()
            .replace()
    };
    host.run(change).unwrap().unwrap();
}

fn tune(host: &Namespace, state: &Path, options: &[&str]) -> Value {
    let mut command = host.command(env!("CARGO_BIN_EXE_bentpipe"));
    let output = command.args(["tune", "--json", "--state"]).arg(state).args(options).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    published::assert_as_published(if document["undone"].is_null() { "tune" } else { "tune-undo" }, &document);
    document
}

#[test]
#[ignore = "three minutes of real transfers"]
fn transfers_by_the_kernel_before_and_after() {
    let folder = tempfile::tempdir().unwrap();
    for loss in [0.0, 1e-2] {
        let link = LinkParameters { loss: Probability::new(loss).unwrap(), ..LINK };
        for (size, direction) in
            [("1MB", Direction::Down), ("1MB", Direction::Up), ("10MB", Direction::Down), ("10MB", Direction::Up)]
        {
            // Where packets are lost, once is enough.
            if loss > 0.0 && size == "10MB" {
                continue;
            }
            let topology = Topology::without_ipv6(1, Some(link.satellite())).unwrap();
            topology.set_host_sysctls(&DEFAULTS).unwrap();
            let hosts = [&topology.terminals[0].host, &topology.hub.host];
            hosts.into_iter().for_each(use_cubic);
            let workload = Workload {
                direction,
                size: Bytes::parse(size).unwrap(),
                checksum: Checksum::Sha256,
                family: Family::V4,
                congestion_control: None,
                send_buffer: None,
                receive_buffer: None,
                timeout: Duration::from_secs(60),
                seed: 1,
            };
            let ends = [Ends { client: &topology.terminals[0], server: &topology.hub }];
            let time = || {
                let flow = flows::run(&ends, &workload).unwrap().remove(0);
                assert!(flow.verified);
                flow.time().as_secs_f64()
            };
            let before = time();
            let (loss, way) = (loss.to_string(), if direction == Direction::Up { "up" } else { "down" });
            let options = ["--rate", "6Mbit/s", "--rtt", "550ms", "--loss", &loss, "--size", size, "--direction", way];
            let states = ["terminal", "hub"].map(|name| folder.path().join(name));
            let apply = [&options[..], &["--apply"]].concat();
            let advice = [0, 1].map(|end| tune(hosts[end], &states[end], &apply));
            let predicted = &advice[1]["predicted"];
            let after = time();
            hosts.into_iter().zip(&states).for_each(|(host, state)| drop(tune(host, state, &["--undo"])));
            let restored = time();
            println!(
                "{size} {way}, loss {loss}: {before:.2} s -> {after:.2} s, gain {:.1} % (predicted {:.2} s -> {:.2} s, {:.1} %), initcwnd {}, {}; undone {restored:.2} s",
                (100.0 * (before - after) / before).max(0.0),
                predicted["before_s"].as_f64().unwrap(),
                predicted["after_s"].as_f64().unwrap(),
                predicted["gain_percent"].as_f64().unwrap(),
                advice[1]["initial_window_segments"],
                advice[1]["congestion_control"],
            );
            if loss == "0" {
                assert!(after < before, "{after} is not less than {before}");
                assert!((restored / before - 1.0).abs() < 0.1, "{restored} is not {before}");
            }
        }
    }
}
