//! Two connections over a chain of links, in virtual time.
#![allow(dead_code, reason = "each test program uses its part")]

use link::{Link, LinkConfig, Outcome, Packet};
use std::sync::Arc;
use tcp::{Config, Connection, Event, Failure, Metrics, Segment};
use units::{Bytes, Instant};

#[derive(Debug, Clone, Copy)]
pub struct Carried(pub Segment);

impl Packet for Carried {
    fn size(&self) -> Bytes {
        self.0.size()
    }
}

/// What looks at segments: (now, from the client?, segment).
pub type Tap = dyn FnMut(Instant, bool, &Segment);

/// A client that sends a file to a server over links in a row, and back over their mirror images.
pub struct Path {
    pub now: Instant,
    pub client: Connection,
    pub server: Connection,
    forward: Vec<Link<Carried>>,
    backward: Vec<Link<Carried>>,
    pub failure: Option<Failure>,
    /// When the server had so many bytes in order.
    pub last_byte_at: Instant,
    pub received: u64,
    /// Called with each segment that enters the path: (now, from the client?, segment).
    #[allow(dead_code, reason = "not every test looks at segments")]
    pub tap: Option<Box<Tap>>,
}

impl Path {
    pub fn new(config: Config, forward: Vec<LinkConfig>, backward: Vec<LinkConfig>) -> Self {
        let config = Arc::new(config);
        let links = |configs: Vec<LinkConfig>| {
            configs.into_iter().map(|config| Link::new(config).expect("a valid link")).collect()
        };
        Self {
            now: Instant::ZERO,
            client: Connection::connect(config.clone(), Instant::ZERO),
            server: Connection::listen(config),
            forward: links(forward),
            backward: links(backward),
            failure: None,
            last_byte_at: Instant::ZERO,
            received: 0,
            tap: None,
        }
    }

    /// Sends `bytes` from the client to the server and closes; returns when the last byte arrived, if it did.
    pub fn transfer(&mut self, bytes: u64) -> Option<Instant> {
        self.client.write(bytes);
        self.client.finish();
        let mut events: u64 = 0;
        while self.received < bytes && self.failure.is_none() {
            self.step()?;
            events += 1;
            assert!(events < 50_000_000, "no end in sight at {:?}", self.now);
        }
        (self.received >= bytes).then_some(self.last_byte_at)
    }

    /// Drains both ends, then moves to the next instant at which something happens. `None` if nothing ever will.
    pub fn step(&mut self) -> Option<()> {
        self.drain();
        let links = self.forward.iter().chain(&self.backward).filter_map(Link::next_timeout);
        let ends = [self.client.next_timeout(), self.server.next_timeout()].into_iter().flatten();
        let next = links.chain(ends).min()?;
        assert!(next >= self.now, "an event in the past");
        self.now = next;
        self.move_packets();
        self.client.handle_timeout(self.now);
        self.server.handle_timeout(self.now);
        Some(())
    }

    fn drain(&mut self) {
        loop {
            let from_client = self.client.poll_transmit(self.now);
            if let Some(segment) = from_client {
                if let Some(tap) = &mut self.tap {
                    tap(self.now, true, &segment);
                }
                self.forward[0].enqueue(self.now, Carried(segment));
            }
            let from_server = self.server.poll_transmit(self.now);
            if let Some(segment) = from_server {
                if let Some(tap) = &mut self.tap {
                    tap(self.now, false, &segment);
                }
                self.backward[0].enqueue(self.now, Carried(segment));
            }
            self.events();
            if from_client.is_none() && from_server.is_none() {
                return;
            }
        }
    }

    fn events(&mut self) {
        while let Some(event) = self.server.poll_event() {
            match event {
                Event::Readable => {
                    self.received += self.server.read(self.now, u64::MAX);
                    self.last_byte_at = self.now;
                }
                Event::PeerFinished => self.server.finish(),
                Event::Failed(failure) => self.failure = Some(failure),
                _ => {}
            }
        }
        while let Some(event) = self.client.poll_event() {
            if let Event::Failed(failure) = event {
                self.failure = Some(failure);
            }
        }
    }

    fn move_packets(&mut self) {
        let now = self.now;
        for to_server in [true, false] {
            for at in 0..if to_server { self.forward.len() } else { self.backward.len() } {
                while let Some(outcome) = self.links(to_server)[at].poll(now) {
                    let Outcome::Departure { packet, .. } = outcome else { continue };
                    if let Some(next) = self.links(to_server).get_mut(at + 1) {
                        next.enqueue(now, packet);
                        continue;
                    }
                    let end = if to_server { &mut self.server } else { &mut self.client };
                    end.handle_segment(now, &packet.0);
                    self.drain();
                }
            }
        }
    }

    fn links(&mut self, to_server: bool) -> &mut Vec<Link<Carried>> {
        if to_server { &mut self.forward } else { &mut self.backward }
    }

    pub fn metrics(&self) -> Metrics {
        self.client.metrics()
    }
}
