//! What the cross-layer window brings for real: sessions without an end over a link of 8 Mbit/s and 500 ms whose capacity the
//! control is told. Where controls cannot be loaded, the tests say so and pass. `-- --ignored --nocapture` runs longer.
#![allow(clippy::disallowed_methods, reason = "a test: moves real traffic in real time")]

mod kernel_flow;

use congestion::{Control, Held, LinkWord};
use kernel_flow::{load, network, upload};
use lab::flows::Plan;
use lab::{Ends, Flow, Satellite, Topology, bulk};
use link::{LinkConfig, LossModel, QueueLimit, Steps};
use std::thread;
use std::time::Instant;
use units::{Bytes, Duration, Probability, Rate};

const RATE: Rate = Rate::from_bps(8_000_000);
const HALF: Rate = Rate::from_bps(4_000_000);
const RTT: Duration = Duration::from_millis(500);
/// Payload of a full segment, the bytes of headers for each of its bytes, and the bits of the packet.
const SEGMENT: f64 = 1448.0;
const HEADER_SHARE: f64 = 52.0 / SEGMENT;
const PACKET_BITS: f64 = 1500.0 * 8.0;

/// The window of equation 1, in segments.
fn window(rate: Rate, sessions: u32) -> f64 {
    model::cross_layer::segments(rate, RTT, HEADER_SHARE, Bytes::new(SEGMENT as u64), sessions)
}

fn word(capacity: Rate) -> LinkWord {
    LinkWord { capacity, header_share: HEADER_SHARE, sessions: None, expiry: None }
}

/// The control under a name of its own, told the link's rate; `None` where it cannot be loaded.
fn load_told() -> Option<Held> {
    let held = load(Control::by_name("bp_cross").expect("it exists"))?;
    held.links().expect("it has a table").set(0, word(RATE)).expect("room");
    Some(held)
}

fn link(queue: u64) -> LinkConfig {
    LinkConfig { queue: QueueLimit::Bytes(Bytes::new(queue)), ..LinkConfig::new(RATE, RTT / 2) }
}

/// Runs `sessions` until `time`.
fn send(topology: &Topology, held: &Held, sessions: u32, time: Duration) -> Vec<Flow> {
    let workload = upload(held.name(), Bytes::ZERO);
    let ends = Ends { client: &topology.terminals[0], server: &topology.hub };
    let windows = Some(Duration::from_millis(20));
    let plan = Plan { ends, workload: &workload, start: Duration::ZERO, windows };
    bulk::run(&vec![plan; sessions as usize], time).expect("the sessions run")
}

/// What `sessions` carry in `time`, once there is a steady state, over what equation 1 allows; and Jain's index.
fn share_of_the_equation(error_rate: f64, sessions: u32, time: Duration) -> Option<(f64, f64)> {
    let held = load_told()?;
    let errors = LossModel::BitErrorRate(Probability::new(error_rate).expect("a probability"));
    let up = LinkConfig { loss: errors, seed: 7, stream: 1, ..link(500_000) };
    let topology = network(Satellite { forward: link(500_000), return_link: up });
    // By then bytes have waited for others that were lost, as they do at the end.
    let begin = RTT * 5;
    let flows = send(&topology, &held, sessions, begin + time);
    topology.stop().expect("it ran to the end");
    let carried: Vec<_> =
        flows.iter().map(|flow| flow.trace.bytes_at(begin + time) - flow.trace.bytes_at(begin)).collect();
    let sum: f64 = carried.iter().sum();
    let jain = sum * sum / (f64::from(sessions) * carried.iter().map(|bytes| bytes * bytes).sum::<f64>());
    let lost = 1.0 - (1.0 - error_rate).powf(PACKET_BITS);
    let allowed = f64::from(sessions) * window(RATE, sessions) * SEGMENT / RTT.as_secs_f64() * (1.0 - lost);
    let share = sum / time.as_secs_f64() / allowed;
    println!("BER {error_rate:e}, {sessions} sessions: {share:.4} of the equation, Jain {jain:.4}");
    Some((share, jain))
}

/// All at once, each over a link of its own; each brings `least` of what the equation allows.
fn shares(points: &[(f64, u32)], time: Duration, least: f64) {
    let found: Vec<_> = thread::scope(|scope| {
        let runs: Vec<_> = points
            .iter()
            .map(|(error_rate, sessions)| scope.spawn(move || share_of_the_equation(*error_rate, *sessions, time)))
            .collect();
        runs.into_iter().map(|run| run.join().expect("it ended")).collect()
    });
    for ((error_rate, sessions), found) in points.iter().zip(found) {
        let Some((share, jain)) = found else { return };
        assert!(share >= least && jain >= 0.98, "BER {error_rate:e}, {sessions} sessions: {share} {jain}");
    }
}

#[test]
fn the_window_carries_what_the_equation_allows_and_is_shared() {
    // In so short a time one retransmission that is lost again, or a host that is busy, counts for more.
    shares(&[(0.0, 1), (1e-6, 1), (1e-6, 3), (1e-6, 10)], Duration::from_secs(12), 0.94);
}

#[test]
#[ignore = "half a minute of real traffic over ten links"]
fn error_rates_and_sessions_for_half_a_minute() {
    let points =
        [(0.0, 1), (1e-8, 1), (1e-7, 1), (1e-6, 1), (1e-6, 2), (1e-6, 3), (1e-6, 5), (1e-6, 7), (1e-6, 10), (0.0, 10)];
    shares(&points, Duration::from_secs(30), 0.97);
}

/// When the emulator of `topology` started: its report tells how long it has been running, up to 50 ms ago.
fn emulation_start(topology: &Topology) -> Instant {
    let start = || {
        let wall = topology.satellite_report().expect("there is a satellite").wall_s;
        Instant::now() - std::time::Duration::from_secs_f64(wall)
    };
    let tries = (0..200).map(|_| {
        thread::sleep(std::time::Duration::from_millis(1));
        start()
    });
    tries.min().expect("some")
}

#[test]
fn the_window_follows_half_the_capacity_and_all_of_it_again() {
    const HALVED: Duration = Duration::from_secs(5);
    const RESTORED: Duration = Duration::from_secs(10);
    const END: Duration = Duration::from_secs(14);
    let Some(held) = load_told() else { return };
    let steps = Steps::new(vec![(Duration::ZERO, RATE), (HALVED, HALF), (RESTORED, RATE)]);
    let up = LinkConfig { rate_steps: Some(steps), ..link(500_000) };
    let topology = network(Satellite { forward: link(500_000), return_link: up });
    let start = emulation_start(&topology);
    let flow = thread::scope(|scope| {
        let links = held.links().expect("a table");
        scope.spawn(move || {
            for (at, rate) in [(HALVED, HALF), (RESTORED, RATE)] {
                let at: std::time::Duration = at.into();
                thread::sleep((start + at).saturating_duration_since(Instant::now()));
                links.set(0, word(rate)).expect("room");
            }
        });
        send(&topology, &held, 1, END).remove(0)
    });
    let report = topology.stop().expect("it ran to the end").expect("there is a satellite");
    assert_eq!(report.up.dropped.queue_full.packets, 0, "a loss burst");
    // Times since the emulation's start.
    let opened: Duration = flow.start.saturating_duration_since(start).into();
    let samples = |from: Duration, to: Duration| {
        let samples = flow.windows.iter().filter(move |sample| (from..to).contains(&(sample.at + opened)));
        samples.map(|sample| sample.info).collect::<Vec<_>>()
    };
    for (at, rate, until) in [(HALVED, HALF, RESTORED), (RESTORED, RATE, opened + END)] {
        let followed = samples(at + RTT * 6 / 5, until);
        let expected = window(rate, 1);
        let far = followed.iter().map(|info| (f64::from(info.cwnd) - expected).abs()).fold(0.0, f64::max);
        let queue = samples(at + RTT * 2, until).iter().map(|info| Duration::from(info.srtt).saturating_sub(RTT)).max();
        let queue = queue.expect("there are samples");
        println!("{rate}: at most {far} segments from {expected}; at most {queue} of queue two round trips later");
        assert!(far <= 2.0, "{rate}: {far} segments from {expected}");
        assert!(queue <= Duration::from_millis(50), "{rate}: {queue}");
    }
}
