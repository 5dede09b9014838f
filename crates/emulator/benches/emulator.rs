//! How fast and how punctual the emulator is with one TCP connection through it: `cargo bench -p bentpipe-emulator`.
//! Every packet is of wire size; processor time is that of the emulator's thread, delivery to the receiver included.
#![allow(clippy::disallowed_methods, reason = "starts threads and waits on the real clock")]

#[path = "../tests/hosts/mod.rs"]
#[allow(dead_code, reason = "the tests need more of it")]
mod hosts;

use emulator::Config;
use hosts::{Hosts, RIGHT_IPV4, payload, transfer};
use kernel::network::set_sysctls;
use link::{LinkConfig, QueueLimit};
use std::net::UdpSocket;
use std::time;
use units::{Bytes, Duration, Rate};

/// Offers a little more than the link's rate for some seconds, and compares the rate of what arrives.
fn saturate(rate: Rate) {
    const PAYLOAD: usize = 1472;
    let wire = Bytes::new(PAYLOAD as u64 + 28);
    let link = LinkConfig { queue: QueueLimit::Packets(100), ..LinkConfig::new(rate, Duration::from_millis(5)) };
    let Some(hosts) = Hosts::start(Config::new(link.clone(), link), false) else { return };
    let receiver = hosts.right.run(|| UdpSocket::bind((RIGHT_IPV4, 7))).expect("a namespace").expect("bind");
    receiver.set_read_timeout(Some(time::Duration::from_millis(500))).expect("timeout");
    let counter = std::thread::spawn(move || {
        let (mut arrivals, mut first, mut last) = (0u64, None, time::Instant::now());
        while receiver.recv_from(&mut [0; PAYLOAD]).is_ok() || arrivals == 0 {
            // The first hundred come from an empty queue.
            arrivals += 1;
            last = time::Instant::now();
            if arrivals == 100 {
                first = Some(last);
            }
        }
        (arrivals - 100, last - first.expect("more than a hundred packets"))
    });
    let sender = hosts.left.run(|| UdpSocket::bind("198.18.0.1:0")).expect("a namespace").expect("bind");
    let (start, interval) = (time::Instant::now(), time::Duration::from(rate.mul_f64(1.2).time_to_send(wire)));
    let mut sent = 0;
    while start.elapsed() < time::Duration::from_secs(10) {
        while interval * sent < start.elapsed() {
            sender.send_to(&[0; PAYLOAD], (RIGHT_IPV4, 7)).expect("send");
            sent += 1;
        }
        std::thread::sleep(time::Duration::from_micros(500));
    }
    let (packets, time) = counter.join().expect("no panic");
    let measured = Rate::from_transfer(wire * packets, time.into());
    let report = hosts.finish();
    let share = measured.as_bps() as f64 / rate.as_bps() as f64;
    println!("{rate}, saturated for 10 s by UDP: {measured}, {share:.5} of it");
    println!("  lateness, us: {:?}", report.up.lateness_us);
}

struct Case {
    name: &'static str,
    rate: Option<Rate>,
    delay: Duration,
    size: usize,
    spin: Duration,
}

fn main() {
    for mbit in [6, 50, 300] {
        saturate(Rate::from_bps(mbit * 1_000_000));
    }
    let spin = Duration::from_micros(80);
    let mbit = |mbit: u64| Some(Rate::from_bps(mbit * 1_000_000));
    let (short, long) = (Duration::from_millis(5), Duration::from_millis(275));
    for case in [
        Case { name: "6 Mbit/s, 550 ms", rate: mbit(6), delay: long, size: 12_000_000, spin: Duration::ZERO },
        Case { name: "6 Mbit/s, 550 ms, spin", rate: mbit(6), delay: long, size: 12_000_000, spin },
        Case { name: "300 Mbit/s, 10 ms", rate: mbit(300), delay: short, size: 200_000_000, spin: Duration::ZERO },
        Case { name: "300 Mbit/s, 10 ms, spin", rate: mbit(300), delay: short, size: 200_000_000, spin },
        Case { name: "no limit", rate: None, delay: Duration::ZERO, size: 500_000_000, spin: Duration::ZERO },
    ] {
        run(&case);
    }
}

fn run(case: &Case) {
    let link = |stream| {
        let limited = LinkConfig::new(case.rate.unwrap_or(Rate::from_bps(1)), case.delay);
        LinkConfig { rate: case.rate, queue: QueueLimit::Bytes(Bytes::new(4_000_000)), stream, ..limited }
    };
    let config = Config { spin: case.spin, ..Config::new(link(1), link(0)) };
    let Some(hosts) = Hosts::start(config, false) else { return };
    for host in [&hosts.left, &hosts.right] {
        let buffers = [("ipv4/tcp_rmem", "4096 1000000 8000000"), ("ipv4/tcp_wmem", "4096 1000000 8000000")];
        set_sysctls(host, &buffers).expect("sysctl");
    }
    let (bytes, time) = transfer(&hosts, RIGHT_IPV4, &payload(case.size));
    let report = hosts.finish();
    let wire_rate = bytes as f64 * 8.0 / time.as_secs_f64() * 1500.0 / 1448.0;
    let packets = report.up.delivered.packets + report.down.delivered.packets;
    println!("{}: {:.3} Mbit/s of IP packets", case.name, wire_rate / 1e6);
    if let Some(rate) = case.rate {
        println!("  {:.4} of the link's rate", wire_rate / rate.as_bps() as f64);
    }
    println!("  {:.0} packets/s of one processor ({packets} in {:.2} s)", packets as f64 / report.cpu_s, report.cpu_s);
    println!("  lateness of data, us: {:?}", report.up.lateness_us);
    println!("  dropped: {:?}", report.up.dropped);
}
