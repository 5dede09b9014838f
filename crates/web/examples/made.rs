//! The page of a made gateway, to look at and to measure: `cargo run --release -p bentpipe-web --example made [PORT [PEERS [STREAMS]]]`.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a program of its own")]

use status::{Capacity, Link, Modem, Peer, PeerState, Snapshot, Source, Stall, StallCause, Stream, Trouble};
use std::net::TcpListener;
use web::{Access, Detail, Server};

/// A hub whose terminals are used unevenly; every 97th dies for 20 s in a minute, and capacity falls in rain every two minutes.
struct Hub {
    second: u64,
    state: Snapshot,
    streams: Vec<Stream>,
}

impl Hub {
    fn new(peers: u64, streams: u64) -> Self {
        let peer = |n| Peer {
            name: format!("terminal-{n:04}"),
            state: PeerState::Up,
            rtt_s: Some(0.55),
            mtu: 1500,
            streams: streams / peers,
            ..Peer::default()
        };
        let stream = |n: u64| Stream {
            stream: n / peers,
            peer: format!("terminal-{:04}", n % peers),
            client: Some(([10, 1, (n >> 8) as u8, n as u8], 40_000).into()),
            server: Some(([192, 0, 2, 1], 443).into()),
            class: Some("default".into()),
            state: "established".into(),
            ..Stream::default()
        };
        let state = Snapshot {
            name: "hub".into(),
            transport: "satpep".into(),
            capacity: Capacity { basis: "reported".into(), ..Capacity::default() },
            modem: Some(Modem { address: Some(([10, 0, 0, 1], 854).into()), link_is_up: true, ..Modem::default() }),
            peers: (0..peers).map(peer).collect(),
            ..Snapshot::default()
        };
        Self { second: 0, state, streams: (0..streams).map(stream).collect() }
    }

    fn step(&mut self) {
        self.second += 1;
        let second = self.second;
        let is_raining = second % 120 > 80;
        let rate = if is_raining { 240_000_000 } else { 400_000_000 };
        let load = 0.55 + 0.35 * (second as f64 / 17.0).sin().abs();
        self.state.uptime_s = second as f64;
        self.state.rate_bps = rate;
        self.state.link =
            Link { source: Source::Dlep, rate_bps: rate, receive_rate_bps: 100_000_000, rtt_s: 0.55, age_s: 1.0 };
        self.state.cross_traffic_bps = Some((12e6 + 6e6 * (second as f64 / 5.0).cos()) as u64);
        self.state.satellite.sent_ip_bytes += (rate as f64 * load / 8.0) as u64;
        self.state.satellite.received_ip_bytes += (rate as f64 * load / 40.0) as u64;
        if second.is_multiple_of(45) {
            *self.state.bypassed.entry("unserved".into()).or_default() += second % 7 + 1;
        }
        for (n, peer) in (0u64..).zip(&mut self.state.peers) {
            let is_dead = n.is_multiple_of(97) && second % 60 > 40;
            peer.state = if is_dead { PeerState::Unresponsive } else { PeerState::Up };
            peer.trouble = is_dead.then(|| Trouble::new("no_answer", "it has answered nothing for some seconds"));
            peer.rtt_s = Some(0.55 + 0.002 * ((n + second) % 40) as f64);
            let packets = if is_dead { 0 } else { 2000 / (n + 2) + (n + second) % 5 };
            peer.sent_packets += packets;
            self.state.satellite.sent_packets += packets;
            peer.lost_packets += u64::from((n * 7 + second).is_multiple_of(11)) * packets.div_ceil(50);
            peer.sent_bytes += packets * 1300;
            peer.received_bytes += packets * 250;
            peer.repair_bytes += packets * if is_raining { 60 } else { 20 };
            peer.retransmitted_bytes += packets * 13;
            peer.send_buffered_bytes = packets * 900;
        }
        for (n, stream) in (0u64..).zip(&mut self.streams) {
            stream.age_s = (second + n % 300) as f64;
            stream.from_tcp_bytes += (n + second) % 3 * 700;
            stream.to_tcp_bytes += (n + second) % 7 * 300;
            let stall = Stall { cause: StallCause::Host, time_s: (second % 40) as f64 };
            stream.stall = (n.is_multiple_of(501) && stall.time_s > 0.0).then_some(stall);
            stream.send_buffered_bytes = Some(n % 3 * 500);
        }
    }
}

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).map(|argument| argument.parse().unwrap()).collect();
    let number = |at: usize, default| numbers.get(at).copied().unwrap_or(default);
    let mut hub = Hub::new(number(1, 1000), number(2, 20_000));
    let source = move |detail| {
        hub.step();
        let streams = if detail == Detail::Streams { hub.streams.clone() } else { Vec::new() };
        Some(Snapshot { streams, ..hub.state.clone() })
    };
    let listener = TcpListener::bind(("127.0.0.1", number(0, 8080) as u16)).unwrap();
    let server = Server::start(listener, Access::Local, None, source).unwrap();
    println!("http://{}/", server.address());
    loop {
        std::thread::park();
    }
}
