//! A server with a made gateway behind it.

use serde_json::Value;
use status::{Capacity, Link, Peer, PeerState, Snapshot, Stream};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use web::{Access, Detail, Server, Tls};

const PATIENCE: Duration = Duration::from_secs(20);

/// A server; what its gateway reports can be changed. Counters grow with each sample.
pub struct Site {
    server: Server,
    state: Arc<Mutex<Snapshot>>,
}

/// Two terminals and twenty streams on a link of 6 Mbit/s.
pub fn state() -> Snapshot {
    let peer = |n: u64| Peer {
        name: format!("terminal-{n}"),
        state: PeerState::Up,
        rtt_s: Some(0.6),
        mtu: 1500,
        streams: 10,
        ..Peer::default()
    };
    let stream = |n: u16| Stream {
        stream: n.into(),
        peer: format!("terminal-{}", n % 2 + 1),
        client: Some(([10, 0, 0, n as u8], 1000 + n).into()),
        server: Some(([192, 0, 2, 1], 443).into()),
        class: Some("default".into()),
        state: "established".into(),
        age_s: f64::from(n),
        ..Stream::default()
    };
    Snapshot {
        name: "gw".into(),
        transport: "satpep".into(),
        rate_bps: 6_000_000,
        capacity: Capacity { basis: "queue".into(), ..Capacity::default() },
        cross_traffic_bps: Some(500_000),
        link: Link { rate_bps: 6_000_000, receive_rate_bps: 6_000_000, rtt_s: 0.55, ..Link::default() },
        peers: (1..3).map(peer).collect(),
        streams: (0..20).map(stream).collect(),
        ..Snapshot::default()
    }
}

impl Site {
    pub fn start(access: Access) -> Self {
        Self::at(TcpListener::bind("127.0.0.1:0").unwrap(), access)
    }

    pub fn at(listener: TcpListener, access: Access) -> Self {
        Self::with(listener, access, None)
    }

    pub fn with(listener: TcpListener, access: Access, tls: Option<Tls>) -> Self {
        let state = Arc::new(Mutex::new(state()));
        let reported = Arc::clone(&state);
        let mut sampled = 0u32;
        let source = move |detail| {
            sampled += 1;
            let mut state = reported.lock().unwrap().clone();
            state.uptime_s = f64::from(sampled);
            (state.satellite.sent_ip_bytes, state.satellite.sent_packets) = (u64::from(sampled) * 250_000, 1);
            // The second terminal downloads.
            for (peer, (sent, received)) in state.peers.iter_mut().zip([(20_000, 10_000), (10_000, 100_000)]) {
                peer.sent_bytes = u64::from(sampled) * sent;
                peer.received_bytes = u64::from(sampled) * received;
            }
            if detail == Detail::Peers {
                state.streams.clear();
            }
            Some(state)
        };
        Self { server: Server::start(listener, access, tls, source).unwrap(), state }
    }

    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    pub fn change(&self, change: impl FnOnce(&mut Snapshot)) {
        change(&mut self.state.lock().unwrap());
    }

    pub fn get(&self, path: &str, headers: &str) -> String {
        self.ask("GET", path, headers)
    }

    pub fn ask(&self, method: &str, path: &str, headers: &str) -> String {
        let address = self.address();
        self.raw(&format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n"))
    }

    pub fn raw(&self, request: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// The documents that a page with this view is told.
    pub fn documents(&self, view: &str) -> impl Iterator<Item = Value> + use<> {
        let mut stream = self.connect();
        write!(stream, "GET /events?{view} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let lines = BufReader::new(stream).lines().map_while(Result::ok);
        lines.filter_map(|line| Some(serde_json::from_str(line.strip_prefix("data: ")?).unwrap()))
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }
}
