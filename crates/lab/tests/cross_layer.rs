//! What the cross-layer window brings for real: sessions without an end over a link of 8 Mbit/s and 500 ms whose capacity the
//! control is told. Where controls cannot be loaded, the tests say so and pass. `-- --ignored --nocapture` runs longer.
#![allow(clippy::disallowed_methods, reason = "a test: moves real traffic in real time")]

mod kernel_flow;

use congestion::{Control, LinkEntry, LoadedControl};
use kernel::testing::best_of_three;
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

fn entry(capacity: Rate) -> LinkEntry {
    LinkEntry { capacity, header_share: HEADER_SHARE, connections: None, target_queue: Duration::ZERO, expiry: None }
}

/// The control under a name of its own, with the link's rate; `None` if it cannot be loaded.
fn load_with_capacity() -> Option<LoadedControl> {
    let held = load(Control::by_name("bp_cross").expect("it exists"))?;
    held.links().expect("it has a table").set(0, entry(RATE)).expect("room");
    Some(held)
}

fn link(queue: u64) -> LinkConfig {
    LinkConfig { queue: QueueLimit::Bytes(Bytes::new(queue)), ..LinkConfig::new(RATE, RTT / 2) }
}

/// Runs `sessions` until `time`.
fn send(topology: &Topology, held: &LoadedControl, sessions: u32, time: Duration) -> Vec<Flow> {
    let workload = upload(held.name(), Bytes::ZERO);
    let ends = Ends { client: &topology.terminals[0], server: &topology.hub };
    let windows = Some(Duration::from_millis(20));
    let plan = Plan { ends, workload: &workload, start: Duration::ZERO, windows };
    bulk::run(&vec![plan; sessions as usize], time, None).expect("the sessions run")
}

/// What sessions carry, once there is a steady state, over what equation 1 allows them; and Jain's index.
#[derive(Clone, Copy)]
struct Share {
    /// At the link's round-trip time.
    of_the_equation: f64,
    /// At the round-trip time that the sessions see, which is longer on a host that is late.
    at_measured_rtt: f64,
    jain: f64,
    /// Whether the windows together are, most of the time, that of one session: what rounding leaves each is shared out. The
    /// smallest round-trip time is between the link's and what the sessions see.
    is_whole: bool,
}

/// The median over time, from `begin` to `end`, of the sum of what the windows are.
fn windows_together(flows: &[Flow], begin: Duration, end: Duration) -> u32 {
    let step = Duration::from_millis(50);
    let at = |flow: &Flow, time: Duration| {
        let after = flow.windows.partition_point(|sample| sample.at <= time);
        flow.windows[..after].last().map_or(0, |sample| sample.info.cwnd)
    };
    let times = (0..(end - begin).as_nanos() / step.as_nanos()).map(|k| begin + step * k);
    let mut sums: Vec<u32> = times.map(|time| flows.iter().map(|flow| at(flow, time)).sum()).collect();
    sums.sort_unstable();
    sums[sums.len() / 2]
}

/// Runs `sessions` for `time` after their start; `None` where controls cannot be loaded.
fn share_of_the_equation(error_rate: f64, sessions: u32, time: Duration) -> Option<Share> {
    let held = load_with_capacity()?;
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
    let of_the_equation = sum / time.as_secs_f64() / allowed;
    let rtts: Vec<_> = flows
        .iter()
        .flat_map(|flow| flow.windows.iter().filter(|sample| sample.at >= begin))
        .map(|sample| Duration::from(sample.info.srtt).as_secs_f64())
        .collect();
    let rtt = rtts.iter().sum::<f64>() / rtts.len() as f64;
    let windows = windows_together(&flows, begin, begin + time);
    println!(
        "BER {error_rate:e}, {sessions} sessions: {of_the_equation:.4} of the equation, Jain {jain:.4}, mean RTT {rtt:.4} s, \
         windows of {windows} segments"
    );
    let late = rtt / RTT.as_secs_f64();
    let whole = window(RATE, 1)..=(window(RATE, 1) + 1.0) * late;
    Some(Share {
        of_the_equation,
        at_measured_rtt: of_the_equation * late,
        jain,
        is_whole: whole.contains(&f64::from(windows)),
    })
}

/// All at once, each over a link of its own; `None` where controls cannot be loaded.
fn shares(points: &[(f64, u32)], time: Duration) -> Option<Vec<Share>> {
    thread::scope(|scope| {
        let runs: Vec<_> = points
            .iter()
            .map(|(error_rate, sessions)| scope.spawn(move || share_of_the_equation(*error_rate, *sessions, time)))
            .collect();
        runs.into_iter().map(|run| run.join().expect("it ended")).collect()
    })
}

#[test]
fn the_window_carries_what_the_equation_allows_and_is_shared() {
    best_of_three(|| {
        let points = [(0.0, 1), (1e-6, 1), (1e-6, 3), (1e-6, 10)];
        let Some(found) = shares(&points, Duration::from_secs(12)) else { return Ok(()) };
        // In so short a time one retransmission that is lost again counts for more.
        let good = found.iter().all(|share| share.at_measured_rtt >= 0.94 && share.jain >= 0.98);
        good.then_some(()).ok_or_else(|| "less than 0.94 of the equation, or unfair".to_owned())?;
        let is_whole = found.iter().all(|share| share.is_whole);
        is_whole.then_some(()).ok_or_else(|| "windows together are not the equation's of one".to_owned())
    });
}

#[test]
#[ignore = "half a minute of real traffic over ten links"]
fn error_rates_and_sessions_for_half_a_minute() {
    let points =
        [(0.0, 1), (1e-8, 1), (1e-7, 1), (1e-6, 1), (1e-6, 2), (1e-6, 3), (1e-6, 5), (1e-6, 7), (1e-6, 10), (0.0, 10)];
    let Some(found) = shares(&points, Duration::from_secs(30)) else { return };
    for ((error_rate, sessions), share) in points.iter().zip(found) {
        let Share { of_the_equation, jain, .. } = share;
        assert!(
            of_the_equation >= 0.97 && jain >= 0.98,
            "BER {error_rate:e}, {sessions} sessions: {of_the_equation} {jain}"
        );
    }
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

/// Halves the capacity and restores it under one session.
fn follow_the_capacity() -> Result<(), String> {
    const HALVED: Duration = Duration::from_secs(5);
    const RESTORED: Duration = Duration::from_secs(10);
    const END: Duration = Duration::from_secs(14);
    let Some(held) = load_with_capacity() else { return Ok(()) };
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
                links.set(0, entry(rate)).expect("room");
            }
        });
        send(&topology, &held, 1, END).remove(0)
    });
    let report = topology.stop().expect("it ran to the end").expect("there is a satellite");
    if report.up.dropped.queue_full.packets > 0 {
        return Err("a loss burst".to_owned());
    }
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
        if far > 2.0 || queue > Duration::from_millis(50) {
            return Err(format!("{rate}: {far} segments from {expected}, queue of {queue}"));
        }
    }
    Ok(())
}

#[test]
fn the_window_follows_half_the_capacity_and_all_of_it_again() {
    best_of_three(follow_the_capacity);
}
