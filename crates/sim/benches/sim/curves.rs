//! How the cost of a packet depends on the number of flows and of packets in flight, without loss and with.

use crate::cases::{bulk, chain, ms};
use crate::{Case, RUN_CELL, process, run};
use link::{GilbertElliott, LinkConfig, LossModel, QueueLimit};
use sim::{Network, Record};
use tcp::control::ControlKind;
use tcp::{Allocation, Capacity, Config, Profile};
use units::{Duration, Probability, Rate};

const LOSSES: [&str; 4] = ["none", "1e-3", "1e-2", "bursts"];
const FLOWS: [u64; 5] = [1, 10, 100, 1_000, 10_000];
const IN_FLIGHT: [u64; 5] = [10, 100, 1_000, 10_000, 100_000];
/// Packets in flight while the number of flows changes: one for each flow at least.
const SHARED: u64 = 20_000;
/// Propagation of the round trip.
const RTT: Duration = Duration::from_millis(500);
const SIZE: u64 = 1500;

/// Prints both curves: nanoseconds of CPU for each data packet, and megabytes at the peak; and what the packet of many flows costs in
/// packets of few.
pub fn print() {
    println!("\ncurves: ns (MB) by loss{:>21}{:>16}{:>16}{:>16}", LOSSES[0], LOSSES[1], LOSSES[2], LOSSES[3]);
    for flows in FLOWS {
        print_row(&format!("{flows} flows, {SHARED} in flight"), flows, SHARED / flows);
    }
    let [few, many] = [100, 10_000].map(|flows| nanos(flows, SHARED / flows));
    println!("a packet of 10000 flows costs {:.2} times that of 100 without losses", many / few);
    for in_flight in IN_FLIGHT {
        print_row(&format!("1 flow, {in_flight} in flight"), 1, in_flight);
    }
}

fn print_row(name: &str, flows: u64, window: u64) {
    let cells: String = LOSSES.map(|loss| format!("{:>16}", cell(flows, window, loss).trim())).concat();
    println!("{name:30}{cells}");
}

fn cell(flows: u64, window: u64, loss: &str) -> String {
    process::output_of_self(&[RUN_CELL, &flows.to_string(), &window.to_string(), loss])
}

/// Nanoseconds of CPU for each data packet without losses.
fn nanos(flows: u64, window: u64) -> f64 {
    cell(flows, window, "none").split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(f64::NAN)
}

/// Runs one cell and prints it.
pub fn print_cell(flows: &str, window: &str, loss: &str) {
    let number = |text: &str| text.parse().expect("a number");
    let (report, cpu) = run(case(number(flows), number(window), loss));
    println!("{:.0} ({})", cpu * 1e9 / report.data_packets as f64, process::peak_kb() / 1000);
}

/// Flows that keep `window` packets in flight each whatever is lost, paced, over three links each way of which the second
/// is filled.
fn case(flows: u64, window: u64, loss: &str) -> Case {
    let in_flight = flows * window;
    let rate = Rate::from_bps(in_flight * SIZE * 8 * 1000 / RTT.as_nanos().div_ceil(1_000_000));
    let mut network = Network::new();
    let nodes = chain(&mut network, 4);
    let access = LinkConfig { queue: QueueLimit::Unlimited, ..LinkConfig::new(rate.mul_f64(10.0), ms(1)) };
    let delay = Duration::from_nanos(RTT.as_nanos() / 2 - 2 * access.delay.as_nanos());
    let back = LinkConfig { queue: QueueLimit::Unlimited, ..LinkConfig::new(rate.mul_f64(1.1), delay) };
    let there = LinkConfig { loss: model(loss), ..back.clone() };
    network.add_link("a", nodes[0], nodes[1], access.clone(), access.clone()).expect("new");
    network.add_link("b", nodes[1], nodes[2], there, back).expect("new");
    network.add_link("c", nodes[2], nodes[3], access.clone(), access).expect("new");
    let config = Config {
        control: ControlKind::by_name("cross-layer").expect("its name"),
        capacity: Some(Capacity::new(Allocation::new(rate, flows as u32), RTT)),
        max_expiries: u32::MAX,
        ..Config::new(Profile::Rfc)
    };
    let flow = |i| bulk(&format!("{i}"), nodes[0], nodes[3], config.clone(), Duration::ZERO, RTT);
    let packets = 500_000.max(10 * in_flight);
    Case {
        network,
        flows: (0..flows).map(flow).collect(),
        length: RTT * (packets / in_flight + 3),
        record: Record::default(),
    }
}

fn model(loss: &str) -> LossModel {
    let probability = |p| Probability::new(p).expect("valid");
    match loss {
        "none" => LossModel::None,
        // One packet in a hundred, in bursts of ten.
        "bursts" => LossModel::GilbertElliott(GilbertElliott {
            p: probability(0.1 / 99.0),
            r: probability(0.1),
            loss_good: probability(0.0),
            loss_bad: probability(1.0),
        }),
        p => LossModel::Bernoulli(probability(p.parse().expect("a probability"))),
    }
}
