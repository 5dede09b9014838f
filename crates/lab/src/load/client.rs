//! The end that opens connections.

use super::{Order, PATIENCE, Tally, message};
use crate::Error;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use slab::Slab;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Connections that wait for their answer while others are opened to be kept.
const AT_ONCE: usize = 256;

/// Opens connections to servers, and keeps those that an order names.
#[derive(Debug)]
pub struct Client {
    servers: Vec<SocketAddr>,
    poll: Poll,
    connections: Slab<Connection>,
    /// The number of the next message.
    next: u64,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    begun: Instant,
    message: Vec<u8>,
    sent: usize,
    received: usize,
}

/// The outcome of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Answered(Duration),
    Wrong,
    Refused,
    Reset,
}

/// An order that is being carried out.
struct Work {
    begun_at: Instant,
    /// Connections to begin; none if those that are open are used.
    planned: u64,
    bytes: usize,
    per_second: Option<u32>,
    keeps: bool,
    /// Connections that have been begun or used, and how many of them wait.
    begun: u64,
    waiting: u64,
    last_begun: Instant,
    times: Vec<Duration>,
    tally: Tally,
}

impl Client {
    /// Without connections; those that it opens go to each of `servers` in turn.
    ///
    /// # Errors
    /// If the system gives out no poll.
    pub fn new(servers: Vec<SocketAddr>) -> Result<Self, Error> {
        Ok(Self { servers, poll: Poll::new().map_err(Error::failed)?, connections: Slab::new(), next: 0 })
    }

    /// Carries out an order; returns when each connection has had its answer or has failed.
    ///
    /// # Errors
    /// If the poll fails.
    pub fn carry_out(&mut self, order: Order) -> Result<Tally, Error> {
        let now = Instant::now();
        let mut work = Work::new(order, now);
        if let Order::Use { bytes } = order {
            self.use_all(now, bytes, &mut work);
        }
        let mut events = Events::with_capacity(1024);
        while !work.is_over(Instant::now()) {
            for _ in 0..work.due(Instant::now()) {
                self.begin(&mut work);
            }
            match self.poll.poll(&mut events, Some(work.pause(Instant::now()))) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(Error::failed(error)),
                _ => {}
            }
            for event in &events {
                self.advance(event.token().0, &mut work);
            }
        }
        // What has had no answer is of no use any more.
        self.connections.retain(|_, connection| connection.is_idle());
        Ok(work.tally())
    }

    fn use_all(&mut self, now: Instant, bytes: usize, work: &mut Work) {
        for (_, connection) in &mut self.connections {
            self.next += 1;
            (connection.begun, connection.message) = (now, message(self.next, bytes));
            (connection.sent, connection.received) = (0, 0);
        }
        let keys: Vec<usize> = self.connections.iter().map(|(key, _)| key).collect();
        (work.begun, work.waiting) = (keys.len() as u64, keys.len() as u64);
        keys.into_iter().for_each(|key| self.advance(key, work));
    }

    fn begin(&mut self, work: &mut Work) {
        let server = self.servers[(self.next % self.servers.len() as u64) as usize];
        self.next += 1;
        work.last_begun = Instant::now();
        work.begun += 1;
        let entry = self.connections.vacant_entry();
        let token = Token(entry.key());
        let connected = TcpStream::connect(server).and_then(|mut stream| {
            self.poll.registry().register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
            stream.set_nodelay(true).map(|()| stream)
        });
        match connected {
            Ok(stream) => {
                let (begun, message) = (work.last_begun, message(self.next, work.bytes));
                entry.insert(Connection { stream, begun, message, sent: 0, received: 0 });
                work.waiting += 1;
            }
            Err(_) => work.tally.failed += 1,
        }
    }

    /// Moves what connection `key` lets pass.
    fn advance(&mut self, key: usize, work: &mut Work) {
        // The event may be about one that is closed by now.
        let Some(connection) = self.connections.get_mut(key).filter(|connection| !connection.is_idle()) else { return };
        let Some(outcome) = connection.advance() else { return };
        let is_kept = work.keeps && matches!(outcome, Outcome::Answered(_));
        work.settle(outcome);
        if is_kept {
            connection.message.clear();
        } else {
            self.connections.remove(key);
        }
    }
}

impl Connection {
    /// Whether it is kept, and waits for nothing.
    fn is_idle(&self) -> bool {
        self.message.is_empty()
    }

    fn advance(&mut self) -> Option<Outcome> {
        match self.exchange() {
            Ok(outcome) => outcome,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => None,
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => Some(Outcome::Refused),
            Err(_) => Some(Outcome::Reset),
        }
    }

    /// Sends what the socket takes, and reads what has come back.
    fn exchange(&mut self) -> io::Result<Option<Outcome>> {
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        // Not connected yet, as its error says.
        self.stream.peer_addr()?;
        let mut buffer = [0; 16 << 10];
        loop {
            let mut is_full = false;
            while self.sent < self.message.len() && !is_full {
                match self.stream.write(&self.message[self.sent..]) {
                    Ok(count) => self.sent += count,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => is_full = true,
                    Err(error) => return Err(error),
                }
            }
            let count = self.stream.read(&mut buffer)?;
            let expected = &self.message[self.received..];
            if count == 0 {
                return Ok(Some(Outcome::Reset));
            } else if !expected.starts_with(&buffer[..count]) {
                return Ok(Some(Outcome::Wrong));
            }
            self.received += count;
            if self.received == self.message.len() {
                return Ok(Some(Outcome::Answered(self.begun.elapsed())));
            }
        }
    }
}

impl Work {
    fn new(order: Order, now: Instant) -> Self {
        let (planned, bytes, per_second, keeps) = match order {
            Order::Open { connections, bytes } => (connections, bytes, None, true),
            Order::Use { bytes } => (0, bytes, None, true),
            Order::Rate { connections, per_second, bytes } => (connections, bytes, Some(per_second), false),
        };
        let (begun, waiting, times, tally) = (0, 0, Vec::new(), Tally::default());
        Self { begun_at: now, planned, bytes, per_second, keeps, begun, waiting, last_begun: now, times, tally }
    }

    /// How many connections are to be begun now.
    fn due(&self, now: Instant) -> u64 {
        let left = self.planned.saturating_sub(self.begun);
        left.min(match self.per_second {
            None => (AT_ONCE as u64).saturating_sub(self.waiting),
            Some(rate) => {
                let due = (now - self.begun_at).as_secs_f64() * f64::from(rate);
                (due as u64 + 1).saturating_sub(self.begun)
            }
        })
    }

    /// How long to wait for events.
    fn pause(&self, now: Instant) -> Duration {
        match self.per_second {
            Some(rate) if self.begun < self.planned => {
                let next = self.begun_at + Duration::from_secs_f64(self.begun as f64 / f64::from(rate));
                next.saturating_duration_since(now)
            }
            _ => Duration::from_millis(100),
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        self.begun >= self.planned && (self.waiting == 0 || now > self.last_begun + PATIENCE)
    }

    fn settle(&mut self, outcome: Outcome) {
        self.waiting -= 1;
        match outcome {
            Outcome::Answered(time) => {
                self.tally.answered += 1;
                self.times.push(time);
            }
            Outcome::Wrong => self.tally.wrong += 1,
            Outcome::Refused => self.tally.refused += 1,
            Outcome::Reset => self.tally.reset += 1,
        }
    }

    fn tally(mut self) -> Tally {
        self.times.sort_unstable();
        let at = |share: f64| {
            let index = (self.times.len() as f64 * share) as usize;
            let time = self.times.get(index.min(self.times.len().saturating_sub(1)));
            time.map_or(0.0, |time| time.as_secs_f64() * 1e3)
        };
        let begun_in = (self.last_begun - self.begun_at).as_secs_f64();
        Tally {
            connections: self.begun,
            unanswered: self.waiting,
            // Between n connections there are n - 1 intervals.
            begun_per_second: if begun_in > 0.0 { self.begun.saturating_sub(1) as f64 / begun_in } else { 0.0 },
            elapsed_s: self.begun_at.elapsed().as_secs_f64(),
            median_ms: at(0.5),
            p99_ms: at(0.99),
            longest_ms: at(1.0),
            ..self.tally
        }
    }
}
