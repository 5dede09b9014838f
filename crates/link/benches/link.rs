//! What a packet costs on its way through a link: `cargo bench -p bentpipe-link`.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use link::{Link, LinkConfig, LossModel, Outcome, Packet, QueueLimit};
use std::collections::VecDeque;
use std::hint::black_box;
use std::time;
use units::{Bytes, Duration, Instant, Probability, Rate};

/// As large as the packets of the simulator.
#[derive(Clone, Copy)]
struct Segment {
    size: u64,
    fields: [u64; 12],
}

impl Packet for Segment {
    fn size(&self) -> Bytes {
        Bytes::new(self.size)
    }
}

const PACKETS: u64 = 1_000_000;

/// Sends packets at `load` times the rate of the link, polling at each timeout; nanoseconds for each packet.
fn nanoseconds_per_packet(config: &LinkConfig, load: f64) -> f64 {
    let mut link = Link::<Segment>::new(config.clone()).expect("a valid link");
    let rate = config.rate.expect("a link with a rate");
    let gap = rate.time_to_send(Bytes::new(1500)).mul_f64(1.0 / load);
    let (mut now, mut sum) = (Instant::ZERO, 0);
    let start = time::Instant::now();
    for number in 0..PACKETS {
        now += gap;
        while let Some(due) = link.next_timeout().filter(|due| *due <= now) {
            while let Some(Outcome::Departure { packet, .. } | Outcome::Drop { packet, .. }) = link.poll(due) {
                sum += packet.fields[0];
            }
        }
        link.enqueue(now, black_box(Segment { size: 1500, fields: [number; 12] }));
    }
    black_box(sum);
    start.elapsed().as_nanos() as f64 / PACKETS as f64
}

/// The best of several runs: the one that other programs disturbed least.
fn best(run: impl Fn() -> f64) -> f64 {
    (0..9).map(|_| run()).fold(f64::INFINITY, f64::min)
}

/// What it costs to put the same packets into a plain ring and take them out: the floor of all others.
fn nanoseconds_of_a_ring(length: usize) -> f64 {
    let (mut ring, mut sum) = (VecDeque::new(), 0);
    let start = time::Instant::now();
    for number in 0..PACKETS {
        ring.push_back(black_box(Segment { size: 1500, fields: [number; 12] }));
        if ring.len() > length {
            sum += ring.pop_front().map_or(0, |segment| black_box(segment).fields[0]);
        }
    }
    black_box(sum);
    start.elapsed().as_nanos() as f64 / PACKETS as f64
}

fn main() {
    let geo = LinkConfig::new(Rate::from_bps(50_000_000), Duration::from_millis(250));
    let lossy = |p| LossModel::Bernoulli(Probability::new(p).expect("a probability"));
    let cases = [
        ("drop-tail, idle", geo.clone(), 0.5),
        ("drop-tail, saturated", LinkConfig { queue: QueueLimit::Packets(100), ..geo.clone() }, 1.0),
        ("drop-tail, 10 % overload", LinkConfig { queue: QueueLimit::Packets(100), ..geo.clone() }, 1.1),
        ("rate that does not divide", LinkConfig { rate: Some(Rate::from_bps(7_777_777)), ..geo.clone() }, 1.1),
        ("Bernoulli loss 1e-3", LinkConfig { loss: lossy(1e-3), ..geo.clone() }, 1.0),
    ];
    println!("{:32} {:6.1} ns/packet", "a ring alone", best(|| nanoseconds_of_a_ring(1_000)));
    for (name, config, load) in cases {
        println!("{name:32} {:6.1} ns/packet", best(|| nanoseconds_per_packet(&config, load)));
    }
}
