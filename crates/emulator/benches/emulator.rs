//! How fast and how punctual the emulator is with one TCP connection through it: `cargo bench -p bentpipe-emulator`, or some
//! of the cases: `cargo bench -p bentpipe-emulator -- "1 Gbit/s, 10 ms"`.
//! Every packet is of wire size; processor time is that of the emulator's thread, delivery to the receiver included.
#![allow(clippy::disallowed_methods, reason = "starts threads and waits on the real clock")]

#[path = "../tests/hosts/mod.rs"]
#[allow(dead_code, reason = "the tests need more of it")]
mod hosts;

use emulator::{Config, DirectionReport};
use hosts::{Hosts, RIGHT_IPV4};
use kernel::network::set_sysctls;
use link::{LinkConfig, QueueLimit};
use socket2::{Domain, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time;
use units::{Bytes, Duration, Rate};

/// The bytes of one IP packet that a full segment of TCP with timestamps carries.
const SEGMENT: u64 = 1448;
const PACKET: u64 = 1500;

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
    println!("  {measured}, {}", error(measured.as_bps() as f64, rate));
    print_lateness("  ", &report.up);
}

/// How far a rate is from that of the link.
fn error(measured_bps: f64, rate: Rate) -> String {
    format!("{:+.3} % of the link's rate", (measured_bps / rate.as_bps() as f64 - 1.0) * 100.0)
}

fn print_lateness(name: &str, direction: &DirectionReport) {
    let late = direction.lateness_us;
    println!(
        "{name}lateness, us: p50 {:.0}, p99 {:.0}, p99.9 {:.0}, max {:.0}",
        late.p50, late.p99, late.p999, late.max
    );
}

struct Case {
    name: &'static str,
    rate: Option<Rate>,
    delay: Duration,
    time: time::Duration,
    spin: Duration,
}

fn main() {
    let only: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let is_wanted = |name: &str| only.is_empty() || only.iter().any(|only| only == name);
    for mbit in [6, 50, 300] {
        let name = format!("{mbit} Mbit/s, saturated by UDP");
        if is_wanted(&name) {
            println!("{name}");
            saturate(Rate::from_bps(mbit * 1_000_000));
        }
    }
    let spin = Duration::from_micros(80);
    let mbit = |mbit: u64| Some(Rate::from_bps(mbit * 1_000_000));
    let (short, long) = (Duration::from_millis(5), Duration::from_millis(275));
    let seconds = time::Duration::from_secs;
    let sleeps = Duration::ZERO;
    for case in [
        Case { name: "6 Mbit/s, 550 ms", rate: mbit(6), delay: long, time: seconds(15), spin: sleeps },
        Case { name: "6 Mbit/s, 550 ms, spin", rate: mbit(6), delay: long, time: seconds(15), spin },
        Case { name: "300 Mbit/s, 10 ms", rate: mbit(300), delay: short, time: seconds(6), spin: sleeps },
        Case { name: "300 Mbit/s, 10 ms, spin", rate: mbit(300), delay: short, time: seconds(6), spin },
        Case { name: "1 Gbit/s, 10 ms", rate: mbit(1000), delay: short, time: seconds(6), spin: sleeps },
        Case { name: "1 Gbit/s, 10 ms, spin", rate: mbit(1000), delay: short, time: seconds(6), spin },
        Case { name: "no limit", rate: None, delay: Duration::ZERO, time: seconds(6), spin: sleeps },
    ] {
        if is_wanted(case.name) {
            println!("{}", case.name);
            run(&case);
        }
    }
}

fn run(case: &Case) {
    let link = |stream| {
        let limited = LinkConfig::new(case.rate.unwrap_or(Rate::from_bps(1)), case.delay);
        LinkConfig { rate: case.rate, queue: QueueLimit::Unlimited, stream, ..limited }
    };
    let config = Config { spin: case.spin, ..Config::new(link(1), link(0)) };
    let Some(hosts) = Hosts::start(config, false) else { return };
    // Windows of twice what fills the link.
    let in_flight = case.rate.unwrap_or(Rate::from_bps(1_000_000_000)).bytes_in(case.delay * 2);
    let sizes = format!("4096 1000000 {}", (in_flight * 4).max(Bytes::new(1_000_000)).as_u64());
    for host in [&hosts.left, &hosts.right] {
        set_sysctls(host, &[("ipv4/tcp_rmem", &sizes), ("ipv4/tcp_wmem", &sizes)]).expect("sysctl");
    }
    let (bytes, time) = send_for(&hosts, case.time);
    let report = hosts.finish();
    let wire_rate = bytes as f64 * 8.0 / time.as_secs_f64() * PACKET as f64 / SEGMENT as f64;
    let packets = report.up.delivered.packets + report.down.delivered.packets;
    match case.rate {
        Some(rate) => println!("  {:.3} Mbit/s of IP packets, {}", wire_rate / 1e6, error(wire_rate, rate)),
        None => println!("  {:.3} Mbit/s of IP packets", wire_rate / 1e6),
    }
    println!("  {:.0} packets/s of one processor ({packets} in {:.2} s)", packets as f64 / report.cpu_s, report.cpu_s);
    print_lateness("  data: ", &report.up);
    print_lateness("  acknowledgements: ", &report.down);
    println!("  dropped: {:?}", report.up.dropped);
}

/// Sends over TCP for `span` from left to right; returns the bytes that came after the first fifth of it, and in what time.
fn send_for(hosts: &Hosts, span: time::Duration) -> (u64, time::Duration) {
    let listener = hosts.right.run(|| TcpListener::bind((RIGHT_IPV4, 7))).expect("a namespace").expect("bind");
    let receiver = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("accept");
        let (mut buffer, start) = (vec![0; 1 << 18], time::Instant::now());
        let (mut received, mut mark, mut last) = (0, None, start);
        loop {
            let count = stream.read(&mut buffer).expect("read");
            if count == 0 {
                break;
            }
            last = time::Instant::now();
            received += count as u64;
            if mark.is_none() && last - start > span / 5 {
                mark = Some((received, last));
            }
        }
        let (first, since) = mark.expect("some data");
        (received - first, last - since)
    });
    let connect = || -> io::Result<TcpStream> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        // Of controls that pace by timers the rate would be another.
        socket.set_tcp_congestion(b"cubic")?;
        let address: Ipv4Addr = RIGHT_IPV4.parse().map_err(io::Error::other)?;
        socket.connect(&SocketAddr::from((address, 7)).into())?;
        Ok(socket.into())
    };
    let mut stream = hosts.left.run(connect).expect("a namespace").expect("connect");
    let (data, start) = (vec![0; 1 << 18], time::Instant::now());
    while start.elapsed() < span {
        stream.write_all(&data).expect("send");
    }
    drop(stream);
    receiver.join().expect("no panic")
}
