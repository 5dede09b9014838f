//! Two connections over a chain of links, in virtual time.

use link::{LinkConfig, Packet};
use std::sync::Arc;
use tcp::{Config, Connection, Event, Failure, Metrics, Segment};
use testkit::Node;
use units::{Bytes, Ecn, Instant};

#[derive(Debug, Clone, Copy)]
pub struct Carried(pub Segment);

impl Packet for Carried {
    fn size(&self) -> Bytes {
        self.0.size()
    }

    fn ecn(&self) -> Ecn {
        self.0.ecn
    }

    fn mark(&mut self) {
        self.0.ecn = Ecn::CongestionExperienced;
    }
}

/// A connection and its user, who reads all that arrives and ends when the other end has.
pub struct End {
    connection: Connection,
    /// When it had so many bytes in order.
    last_byte_at: Instant,
    received: u64,
    failure: Option<Failure>,
    is_server: bool,
}

impl End {
    fn new(connection: Connection, is_server: bool) -> Self {
        Self { connection, last_byte_at: Instant::ZERO, received: 0, failure: None, is_server }
    }
}

impl Node for End {
    type Packet = Carried;

    fn poll_transmit(&mut self, now: Instant) -> Option<Carried> {
        self.connection.poll_transmit(now).map(Carried)
    }

    fn handle_packet(&mut self, now: Instant, packet: Carried) {
        self.connection.handle_segment(now, &packet.0);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.connection.handle_timeout(now);
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.connection.next_timeout()
    }

    fn run_user(&mut self, now: Instant) {
        while let Some(event) = self.connection.poll_event() {
            match event {
                Event::Readable if self.is_server => {
                    self.received += self.connection.read(now, u64::MAX);
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
        let config = Arc::new(config);
        let client = End::new(Connection::connect(config.clone(), Instant::ZERO), false);
        let server = End::new(Connection::listen(config), true);
        Self(testkit::Path::new([client, server], [forward, backward]))
    }

    /// Calls `tap` with each segment that enters the path: (now, from the client?, segment).
    pub fn set_tap(&mut self, mut tap: impl FnMut(Instant, bool, &Segment) + 'static) {
        self.0.tap = Some(Box::new(move |now, from, packet| tap(now, from == 0, &packet.0)));
    }

    pub fn now(&self) -> Instant {
        self.0.now()
    }

    pub fn client(&mut self) -> &mut Connection {
        &mut self.0.nodes[0].connection
    }

    pub fn server(&mut self) -> &mut Connection {
        &mut self.0.nodes[1].connection
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
        self.client().write(bytes);
        self.client().finish();
        let mut events: u64 = 0;
        while self.received() < bytes && self.failure().is_none() {
            self.step()?;
            events += 1;
            assert!(events < 50_000_000, "no end in sight at {:?}", self.now());
        }
        (self.received() >= bytes).then_some(self.0.nodes[1].last_byte_at)
    }

    /// Drains both ends, then moves to the next instant at which something happens. `None` if nothing ever will.
    pub fn step(&mut self) -> Option<()> {
        self.0.step()
    }

    pub fn metrics(&self) -> Metrics {
        self.0.nodes[0].connection.metrics()
    }
}
