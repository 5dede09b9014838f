//! Two connections over a chain of links, in virtual time.

use link::LinkConfig;
use quic::{Config, Connection, Event, Failure, Metrics, Packet};
use std::sync::Arc;
use testkit::Node;
use units::{Bytes, Ecn, Instant};

#[derive(Debug, Clone)]
pub struct Carried {
    pub packet: Packet,
    ecn: Ecn,
}

impl link::Packet for Carried {
    fn size(&self) -> Bytes {
        Bytes::new(u64::from(self.packet.size))
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn mark(&mut self) {
        self.ecn = Ecn::CongestionExperienced;
    }
}

/// A connection and its user, who reads all that arrives and ends when the other end has.
pub struct End {
    connection: Connection,
    received: u64,
    last_byte_at: Instant,
    failure: Option<Failure>,
    is_server: bool,
    /// When it was last run.
    now: Instant,
}

impl Node for End {
    type Packet = Carried;

    fn poll_transmit(&mut self, now: Instant) -> Option<Carried> {
        let packet = self.connection.poll_transmit(now)?;
        Some(Carried { packet, ecn: self.connection.ecn() })
    }

    fn handle_packet(&mut self, now: Instant, carried: Carried) {
        self.now = now;
        self.connection.handle_packet(now, &carried.packet, carried.ecn);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        self.connection.handle_timeout(now);
    }

    fn next_timeout(&self) -> Option<Instant> {
        // A round-trip time that turns out shorter may put a timer into the past: it is due at once.
        Some(self.connection.next_at().max(self.now)).filter(|at| *at < Instant::FAR_FUTURE)
    }

    fn run_user(&mut self, now: Instant) {
        while let Some(event) = self.connection.poll_event() {
            match event {
                Event::Readable if self.is_server => {
                    self.received += self.connection.read(u64::MAX);
                    self.last_byte_at = now;
                }
                Event::PeerFinished if self.is_server => self.connection.finish(),
                Event::Failed(failure) => self.failure = Some(failure),
                _ => {}
            }
        }
    }
}

/// A client that sends a file to a server over links in a row, and back over their mirror images.
pub struct Path(testkit::Path<End>);

impl Path {
    pub fn new(config: Config, forward: Vec<LinkConfig>, backward: Vec<LinkConfig>) -> Self {
        assert_eq!(config.validate(), Ok(()));
        let config = Arc::new(config);
        let end = |connection, is_server| End {
            connection,
            received: 0,
            last_byte_at: Instant::ZERO,
            failure: None,
            is_server,
            now: Instant::ZERO,
        };
        let client = end(Connection::connect(config.clone(), Instant::ZERO), false);
        let server = end(Connection::listen(config), true);
        Self(testkit::Path::new([client, server], [forward, backward]))
    }

    /// Calls `tap` with each packet that enters the path: (now, from the client?, packet).
    pub fn set_tap(&mut self, mut tap: impl FnMut(Instant, bool, &Packet) + 'static) {
        self.0.tap = Some(Box::new(move |now, from, carried| tap(now, from == 0, &carried.packet)));
    }

    pub fn now(&self) -> Instant {
        self.0.now()
    }

    /// Bytes that the server has read.
    pub fn received(&self) -> u64 {
        self.0.nodes[1].received
    }

    /// Why the client's connection ended, or the server's.
    pub fn failure(&self) -> Option<Failure> {
        self.0.nodes[0].failure.or(self.0.nodes[1].failure)
    }

    /// Sends `bytes` from the client to the server and closes; returns when the last byte arrived, if it did.
    pub fn transfer(&mut self, bytes: u64) -> Option<Instant> {
        let client = &mut self.0.nodes[0].connection;
        client.write(bytes);
        client.finish();
        let mut events: u64 = 0;
        while self.received() < bytes && self.failure().is_none() {
            self.0.step()?;
            events += 1;
            assert!(events < 20_000_000, "no end in sight at {:?}", self.now());
        }
        (self.received() >= bytes).then_some(self.0.nodes[1].last_byte_at)
    }

    /// Goes on until both ends have closed; whether they have.
    pub fn close(&mut self) -> bool {
        while !self.0.nodes.iter().all(|end| end.connection.is_closed()) {
            if self.0.step().is_none() {
                return false;
            }
        }
        true
    }

    /// Where the client stands.
    pub fn metrics(&self) -> Metrics {
        self.0.nodes[0].connection.metrics()
    }
}
