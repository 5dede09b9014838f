//! What `bentpipe tune --apply` gains for the kernel's own TCP over the emulated link, beside what it predicts, and on random
//! links: `cargo test --release -p bentpipe --test tune_for_real -- --ignored --nocapture`, fifteen minutes.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: starts programs and waits for them")]

mod published;

use kernel::Namespace;
use kernel::route::Route;
use lab::transfer::Checksum;
use lab::{Direction, Ends, Family, LinkParameters, Satellite, Topology, Workload, flows};
use link::QueueLimit;
use serde_json::Value;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use units::{Bytes, CounterRandom, Duration, Probability, Rate};

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
    try_tune(host, state, options).unwrap_or_else(|problem| panic!("{problem}"))
}

/// What `tune` printed, or why it failed.
fn try_tune(host: &Namespace, state: &Path, options: &[&str]) -> Result<Value, String> {
    let mut command = host.command(env!("CARGO_BIN_EXE_bentpipe"));
    let output = command.args(["tune", "--json", "--state"]).arg(state).args(options).output().unwrap();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    published::assert_as_published(if document["undone"].is_null() { "tune" } else { "tune-undo" }, &document);
    Ok(document)
}

fn workload(direction: Direction, size: Bytes) -> Workload {
    Workload {
        direction,
        size,
        checksum: Checksum::Sha256,
        family: Family::V4,
        congestion_control: None,
        send_buffer: None,
        receive_buffer: None,
        timeout: Duration::from_secs(60),
        seed: 1,
    }
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
            let workload = workload(direction, Bytes::parse(size).unwrap());
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

/// A satellite link and a transfer over it, drawn from a seed.
#[derive(Debug)]
struct RandomLink {
    seed: u64,
    rate: Rate,
    rtt: Duration,
    loss: f64,
    /// Bandwidth-delay products.
    queue: f64,
    size: Bytes,
    direction: Direction,
}

/// What was measured on one.
struct Measured {
    link: RandomLink,
    /// Seconds: Linux as it comes, and tuned, with the same seeds of the losses.
    times: [Vec<f64>; 2],
    settings: String,
}

impl RandomLink {
    /// 0.5 to 20 Mbit/s, 250 to 700 ms, on every other link losses of 1e-4 to 1e-2, a queue of 0.1 to 2 bandwidth-delay products,
    /// 50 kB to 5 MB but no more than the link carries in six seconds, all by their logarithms, down three times of four.
    fn draw(seed: u64) -> Self {
        let random = CounterRandom::new(seed, 0);
        let between = |number, least: f64, most: f64| least * (most / least).powf(random.unit_at(number));
        let rate = Rate::from_bps(between(0, 5e2, 2e4).round() as u64 * 1_000);
        let most = (rate.as_bps() as f64 / 8.0 * 6.0).min(5e6);
        Self {
            seed,
            rate,
            rtt: Duration::from_millis(between(1, 125.0, 350.0).round() as u64 * 2),
            loss: if random.unit_at(2) < 0.5 { 0.0 } else { (between(3, 1e-4, 1e-2) * 1e6).round() / 1e6 },
            queue: (between(4, 0.1, 2.0) * 100.0).round() / 100.0,
            size: Bytes::new(between(5, 5e4, most).round() as u64 / 1_000 * 1_000),
            direction: if random.unit_at(6) < 0.25 { Direction::Up } else { Direction::Down },
        }
    }

    fn way(&self) -> &'static str {
        if self.direction == Direction::Up { "up" } else { "down" }
    }

    /// The link with this seed of its losses.
    fn satellite(&self, seed: u64) -> Satellite {
        let loss = Probability::new(self.loss).unwrap();
        let mut satellite = LinkParameters { rate: self.rate, rtt: self.rtt, loss, seed, ..LINK }.satellite();
        for direction in [&mut satellite.forward, &mut satellite.return_link] {
            direction.queue = QueueLimit::bandwidth_delay_product(self.rate, self.rtt.mul_f64(self.queue));
        }
        satellite
    }

    /// The seconds of one transfer between hosts that never met: their kernels remember nothing of the path.
    fn time(&self, seed: u64, tuned: bool, settings: &mut String) -> f64 {
        let topology = Topology::without_ipv6(1, Some(self.satellite(seed))).unwrap();
        topology.set_host_sysctls(&DEFAULTS).unwrap();
        let hosts = [&topology.terminals[0].host, &topology.hub.host];
        hosts.into_iter().for_each(use_cubic);
        let folder = tempfile::tempdir().unwrap();
        if tuned {
            let [rate, rtt] = [self.rate.to_string(), self.rtt.to_string()];
            let [loss, queue, size] =
                [self.loss.to_string(), format!("{}BDP", self.queue), format!("{}B", self.size.as_u64())];
            let options = ["--rate", &rate, "--rtt", &rtt, "--loss", &loss, "--queue", &queue, "--size", &size];
            let options = [&options[..], &["--direction", self.way(), "--apply"]].concat();
            let advice: Result<Vec<_>, _> =
                (0..2).map(|end| try_tune(hosts[end], &folder.path().join(end.to_string()), &options)).collect();
            *settings = match advice {
                Ok(advice) => {
                    let sender = &advice[usize::from(self.direction == Direction::Down)];
                    format!("initcwnd {}, {}", sender["initial_window_segments"], sender["congestion_control"])
                }
                // What simulation finds to be slower is not applied.
                Err(problem) if problem.contains("not recommended") => "left as it is".to_owned(),
                Err(problem) => panic!("{problem}"),
            };
        }
        let workload = workload(self.direction, self.size);
        let ends = [Ends { client: &topology.terminals[0], server: &topology.hub }];
        let flow = flows::run(&ends, &workload).unwrap().remove(0);
        assert!(flow.verified);
        flow.time().as_secs_f64()
    }

    fn measure(self) -> Measured {
        let (mut times, mut settings) = ([Vec::new(), Vec::new()], String::new());
        for repeat in 0..3 {
            for (tuned, times) in [false, true].into_iter().zip(&mut times) {
                times.push(self.time(self.seed * 10 + repeat, tuned, &mut settings));
            }
        }
        Measured { link: self, times, settings }
    }
}

impl Measured {
    fn means(&self) -> [f64; 2] {
        [0, 1].map(|tuned| self.times[tuned].iter().sum::<f64>() / self.times[tuned].len() as f64)
    }

    fn row(&self) -> String {
        let RandomLink { seed, rate, rtt, loss, queue, size, .. } = &self.link;
        let [before, after] = self.means();
        let (change, way) = (100.0 * (after / before - 1.0), self.link.way());
        let times = self.times.each_ref().map(|t| t.iter().map(|s| format!("{s:.2}")).collect::<Vec<_>>().join(" "));
        format!(
            "| {seed} | {rate} | {rtt} | {loss} | {queue} | {size} {way} | {before:.2} | {after:.2} | {change:+.1} | {} | {} / {} |",
            self.settings, times[0], times[1]
        )
    }
}

/// A variable of the environment that changes what is measured.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

/// LINKS (50) links from SEED (1) on, AT_ONCE (6) at a time: the links are slow, the processors are not what is measured.
#[test]
#[ignore = "ten minutes of real transfers"]
fn no_random_link_is_worse_for_being_tuned() {
    let (links, first, at_once) = (setting("LINKS", 50), setting("SEED", 1), setting("AT_ONCE", 6));
    let (next, all) = (AtomicU64::new(first), Mutex::new(Vec::new()));
    println!("| seed | rate | RTT | loss | queue, BDP | size | Linux, s | tuned, s | change, % | settings | each, s |");
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + links {
                        return;
                    }
                    let measured = RandomLink::draw(seed).measure();
                    println!("{}", measured.row());
                    all.lock().unwrap().push(measured);
                }
            });
        }
    });
    let all = all.into_inner().unwrap();
    assert_eq!(all.len() as u64, links);
    let worse: Vec<_> =
        all.iter().filter(|measured| measured.means()[1] > 1.02 * measured.means()[0]).map(Measured::row).collect();
    println!("{} of {links} links are worse by more than 2 %", worse.len());
    assert!(worse.is_empty(), "{}", worse.join("\n"));
}
