//! A server with a made gateway behind it.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use web::{Access, Detail, Link, Peer, Sample, Server, Stream};

const PATIENCE: Duration = Duration::from_secs(20);

/// A server; what its gateway reports can be changed. Counters grow with each sample.
pub struct Site {
    server: Server,
    sample: Arc<Mutex<Sample>>,
}

/// Two terminals and twenty streams on a link of 6 Mbit/s.
pub fn sample() -> Sample {
    let peer = |n: u64| Peer {
        name: format!("terminal-{n}"),
        state: "up",
        rtt_s: Some(0.6),
        mtu: 1500,
        streams: 10,
        ..Peer::default()
    };
    let stream = |n: u16| Stream {
        stream: n.into(),
        peer: usize::from(n % 2),
        client: Some(([10, 0, 0, n as u8], 1000 + n).into()),
        server: Some(([192, 0, 2, 1], 443).into()),
        class: Some("default".into()),
        state: "established".into(),
        age_s: f64::from(n),
        ..Stream::default()
    };
    Sample {
        name: "gw".into(),
        transport: "satpep".into(),
        capacity_bps: 6e6,
        capacity_source: "estimated",
        cross_traffic_bps: 0.5e6,
        link: Link { source: "configured", rate_bps: 6e6, receive_rate_bps: 6e6, rtt_s: 0.55, age_s: 0.0 },
        peers: (1..3).map(peer).collect(),
        streams: Some((0..20).map(stream).collect()),
        ..Sample::default()
    }
}

impl Site {
    pub fn start(access: Access) -> Self {
        Self::at(TcpListener::bind("127.0.0.1:0").unwrap(), access)
    }

    pub fn at(listener: TcpListener, access: Access) -> Self {
        let sample = Arc::new(Mutex::new(sample()));
        let reported = Arc::clone(&sample);
        let mut sampled = 0u32;
        let source = move |detail| {
            sampled += 1;
            let mut sample = reported.lock().unwrap().clone();
            (sample.uptime_s, sample.sent_ip_bytes) = (f64::from(sampled), u64::from(sampled) * 250_000);
            if detail == Detail::Peers {
                sample.streams = None;
            }
            Some(sample)
        };
        Self { server: Server::start(listener, access, source).unwrap(), sample }
    }

    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    pub fn change(&self, change: impl FnOnce(&mut Sample)) {
        change(&mut self.sample.lock().unwrap());
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
