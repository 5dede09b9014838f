//! Requests through real gateways, and pings past them, beside ten bulk connections over an emulated satellite.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test: real processes, sockets and waiting")]

use lab::{Family, GatewayOptions, Gateways, Satellite, Site, Topology};
use link::{LinkConfig, QueueLimit};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use units::Rate;

const RTT: units::Duration = units::Duration::from_millis(550);
/// How long requests and pings are measured.
const TIME: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(10);

/// What a connection is for, by its first byte.
const EXCHANGES: u8 = b'x';
const UPLOAD: u8 = b'u';
const DOWNLOAD: u8 = b'd';

fn serve(mut stream: TcpStream) {
    let (mut kind, mut buffer) = ([0], vec![0; 1 << 16]);
    if stream.read_exact(&mut kind).is_err() {
        return;
    }
    stream.set_nodelay(true).unwrap();
    // Each goes on until the client has gone.
    match kind[0] {
        EXCHANGES => while stream.read_exact(&mut buffer[..100]).is_ok() && stream.write_all(&buffer[..300]).is_ok() {},
        UPLOAD => while stream.read(&mut buffer).is_ok_and(|count| count > 0) {},
        _ => while stream.write_all(&buffer).is_ok() {},
    }
}

fn bulk(mut stream: TcpStream, kind: u8) {
    let mut buffer = vec![0; 1 << 16];
    match kind {
        UPLOAD => while stream.write_all(&buffer).is_ok() {},
        _ => while stream.read(&mut buffer).is_ok_and(|count| count > 0) {},
    }
}

fn connect(client: &Site, server: SocketAddr, kind: u8) -> TcpStream {
    let mut stream = client.host.run(|| TcpStream::connect_timeout(&server, PATIENCE)).unwrap().unwrap();
    stream.set_nodelay(true).unwrap();
    stream.write_all(&[kind]).unwrap();
    stream
}

/// Round-trip times of requests of 100 bytes and responses of 300, with a pause between.
fn exchange(mut stream: TcpStream) -> Vec<f64> {
    let (mut times, mut buffer) = (Vec::new(), [0; 300]);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let begun = Instant::now();
    for turn in 0u64.. {
        let sent = Instant::now();
        stream.write_all(&buffer[..100]).unwrap();
        stream.read_exact(&mut buffer).unwrap();
        times.push(sent.elapsed().as_secs_f64() * 1e3);
        if begun.elapsed() > TIME {
            break;
        }
        thread::sleep(Duration::from_millis(20 + turn * 37 % 100));
    }
    times
}

/// Round-trip times of echo requests (ICMP, RFC 792), one after the other.
fn ping(socket: &Socket, server: SocketAddr) -> Vec<f64> {
    let mut times = Vec::new();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.connect(&SockAddr::from(SocketAddr::new(server.ip(), 0))).unwrap();
    let begun = Instant::now();
    for turn in 0u16.. {
        let mut request = [0; 64];
        request[0] = 8;
        request[6..8].copy_from_slice(&turn.to_be_bytes());
        // The checksum of an echo request with nothing but a type and a number.
        let sum = !(0x0800u32 + u32::from(turn));
        request[2..4].copy_from_slice(&(sum as u16).to_be_bytes());
        let sent = Instant::now();
        socket.send(&request).unwrap();
        let mut answer = [0; 256];
        loop {
            let length = (&*socket).read(&mut answer).unwrap();
            // Behind the IP header: an echo reply of that number.
            if length >= 28 && answer[20] == 0 && answer[26..28] == turn.to_be_bytes() {
                break;
            }
        }
        times.push(sent.elapsed().as_secs_f64() * 1e3);
        if begun.elapsed() > TIME {
            break;
        }
        thread::sleep(Duration::from_millis(20 + u64::from(turn) * 37 % 100));
    }
    times
}

/// Median and 99th percentile.
fn ranks(mut times: Vec<f64>) -> [f64; 2] {
    times.sort_by(f64::total_cmp);
    [0.5, 0.99].map(|share| times[((share * times.len() as f64).ceil() as usize).clamp(1, times.len()) - 1])
}

/// Medians and 99th percentiles of exchanges and pings beside as many bulk connections.
fn measure(topology: &Topology, server: SocketAddr, bulks: usize, kind: u8) -> [[f64; 2]; 2] {
    let client = &topology.terminals[0];
    let streams: Vec<_> = (0..bulks).map(|_| connect(client, server, kind)).collect();
    for stream in &streams {
        let stream = stream.try_clone().unwrap();
        thread::spawn(move || bulk(stream, kind));
    }
    let stream = connect(client, server, EXCHANGES);
    let icmp = client.host.run(|| Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4))).unwrap().unwrap();
    // The bulk has begun and the first round trips are over.
    thread::sleep(Duration::from_secs(4));
    let pings = thread::spawn(move || ping(&icmp, server));
    let times = [exchange(stream), pings.join().unwrap()].map(ranks);
    for stream in &streams {
        let _ = stream.shutdown(std::net::Shutdown::Both);
    }
    times
}

#[test]
#[ignore = "two minutes, and it measures the times of a machine that does nothing else"]
fn requests_and_pings_pass_ten_bulk_connections() {
    let rate = Rate::from_bps(6_000_000);
    let queue = QueueLimit::bandwidth_delay_product(rate, RTT);
    let link = LinkConfig { queue, ..LinkConfig::new(rate, RTT / 2) };
    let topology = match Topology::new(1, Some(Satellite { forward: link.clone(), return_link: link })) {
        Err(lab::Error::Missing(what)) => return eprintln!("skipped: {what}"),
        other => other.unwrap(),
    };
    let directory = tempfile::tempdir().unwrap();
    let options = GatewayOptions {
        directory: directory.path().to_owned(),
        family: Family::V4,
        clear: false,
        show_logs: false,
        capacity: lab::CapacityMode::default(),
        configured_rates: None,
        link_updates: false,
        transport: lab::Transport::Satpep,
        congestion_control: None,
        target_queue: None,
        max_streams: None,
        repair: true,
        workers: None,
    };
    let program = Path::new(env!("CARGO_BIN_EXE_bentpipe"));
    let gateways = Gateways::start(program, &topology, [rate, rate], RTT, &options).unwrap();
    let server = SocketAddr::new(topology.hub.host_address(Family::V4), 7);
    let listener = topology.hub.host.run(|| TcpListener::bind(server)).unwrap().unwrap();
    thread::spawn(move || {
        listener.incoming().for_each(|stream| {
            thread::spawn(|| serve(stream.unwrap()));
        });
    });
    let alone = measure(&topology, server, 0, UPLOAD);
    eprintln!("alone: exchanges and pings, median and p99 in ms: {alone:.1?}");
    let mut extras = Vec::new();
    for (name, kind) in [("up", UPLOAD), ("down", DOWNLOAD)] {
        let beside = measure(&topology, server, 10, kind);
        eprintln!("beside ten bulk connections {name}: {beside:.1?}");
        extras.extend(beside.iter().zip(alone).map(|(beside, alone)| [0, 1].map(|rank| beside[rank] - alone[0])));
        // What the bulk left in buffers drains.
        thread::sleep(Duration::from_secs(8));
    }
    drop(gateways);
    assert!(extras.iter().all(|[median, p99]| *median <= 10.0 && *p99 <= 30.0), "beyond the base: {extras:.1?}");
}
