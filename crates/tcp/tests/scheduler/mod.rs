//! Two connections over a path of ns-2's making: times are seconds in floating point, added up in ns-2's order, and the events of
//! one instant run in the order in which they were scheduled (scheduler.cc, delay.cc and queue.cc of ns-2 2.35).
//!
//! A delayed acknowledgement comes back a round trip later as a gap between packets that is as long as the delay. Whether the next
//! timer or the packet after the gap is first is then a matter of the last bit of sums, and only the same sums give the same order.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashSet, VecDeque};
use std::sync::Arc;
use tcp::{Config, Connection, Event, Metrics, Segment};
use units::Instant;

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq)]
enum What {
    /// A segment leaves a link at its far end.
    Arrival(usize, Segment),
    /// A link has sent a packet, and may send the next.
    Free(usize),
    /// The timer of an end, which was then due at this instant.
    Timer(usize, Instant),
}

/// An event: the earliest is the greatest, of two at one time that which was scheduled first.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Scheduled {
    at: f64,
    number: u64,
    what: What,
}

impl Eq for Scheduled {}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> Ordering {
        other.at.total_cmp(&self.at).then(other.number.cmp(&self.number))
    }
}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// One direction of a hop.
#[derive(Debug)]
struct Hop {
    rate: f64,
    delay: f64,
    waiting: VecDeque<Segment>,
    is_busy: bool,
    /// Packets sent so far, and the numbers of those that are lost on the way.
    sent: u64,
    drops: HashSet<u64>,
}

/// One end, and its clock in whole nanoseconds.
#[derive(Debug)]
struct End {
    connection: Connection,
    now: Instant,
    deadline: Option<Instant>,
}

const CLIENT: usize = 0;
const SERVER: usize = 1;
/// So many nanoseconds from its deadline, an arrival is before it for the receiver too.
const CLEAR: u64 = 10;

/// A path and its two ends.
#[derive(Debug)]
pub struct Scheduler {
    now: f64,
    scheduled: u64,
    events: BinaryHeap<Scheduled>,
    /// Those of the way there, then those of the way back.
    hops: Vec<Hop>,
    ends: [End; 2],
    received: u64,
    last_byte_at: f64,
}

impl Scheduler {
    /// A path of hops with rate (bit/s) and delay (ms), of which one loses the packets with these numbers.
    pub fn new(config: Config, hops: &[(u64, u64)], lossy: usize, drops: Vec<u64>) -> Self {
        let config = Arc::new(config);
        let hop = |&(rate, delay_ms): &(u64, u64)| Hop {
            rate: rate as f64,
            delay: 1e-3 * delay_ms as f64,
            waiting: VecDeque::new(),
            is_busy: false,
            sent: 0,
            drops: HashSet::new(),
        };
        let mut hops: Vec<Hop> = hops.iter().chain(hops.iter().rev()).map(hop).collect();
        hops[lossy].drops = drops.into_iter().collect();
        let ends = [Connection::connect(config.clone(), Instant::ZERO), Connection::listen(config)];
        Self {
            now: 0.0,
            scheduled: 0,
            events: BinaryHeap::new(),
            hops,
            ends: ends.map(|connection| End { connection, now: Instant::ZERO, deadline: None }),
            received: 0,
            last_byte_at: 0.0,
        }
    }

    /// Sends `bytes` from the client to the server. Returns when the last of them arrived, and what the client says when all is
    /// acknowledged.
    pub fn transfer(&mut self, bytes: u64) -> (f64, Metrics) {
        let client = &mut self.ends[CLIENT].connection;
        client.write(bytes);
        client.finish();
        self.serve(CLIENT);
        while !self.ends[CLIENT].connection.is_closed() {
            let event = self.events.pop().expect("something is to happen until the end");
            self.now = event.at;
            self.run(event.what);
        }
        assert_eq!(self.received, bytes);
        (self.last_byte_at, self.ends[CLIENT].connection.metrics())
    }

    fn run(&mut self, what: What) {
        match what {
            What::Arrival(hop, segment) => match self.next_hop(hop) {
                Ok(next) => self.enqueue(next, segment),
                Err(end) => self.arrive(end, &segment),
            },
            What::Free(hop) => {
                self.hops[hop].is_busy = false;
                self.start(hop);
            }
            What::Timer(end, deadline) if self.ends[end].deadline == Some(deadline) => {
                let end_now = &mut self.ends[end].now;
                *end_now = deadline.max(*end_now);
                let now = *end_now;
                self.ends[end].connection.handle_timeout(now);
                self.serve(end);
            }
            What::Timer(..) => {}
        }
    }

    /// The hop after this one, or the end to which it leads.
    fn next_hop(&self, hop: usize) -> Result<usize, usize> {
        match hop + 1 {
            next if next == self.hops.len() / 2 => Err(SERVER),
            next if next == self.hops.len() => Err(CLIENT),
            next => Ok(next),
        }
    }

    fn schedule(&mut self, after: f64, what: What) {
        self.scheduled += 1;
        self.events.push(Scheduled { at: self.now + after, number: self.scheduled, what });
    }

    fn enqueue(&mut self, number: usize, segment: Segment) {
        self.hops[number].waiting.push_back(segment);
        self.start(number);
    }

    fn start(&mut self, number: usize) {
        let hop = &mut self.hops[number];
        if hop.is_busy {
            return;
        }
        let Some(segment) = hop.waiting.pop_front() else { return };
        hop.is_busy = true;
        let sending = 8.0 * segment.size().as_u64() as f64 / hop.rate;
        let way = sending + hop.delay;
        let is_lost = hop.drops.contains(&hop.sent);
        hop.sent += 1;
        if !is_lost {
            self.schedule(way, What::Arrival(number, segment));
        }
        self.schedule(sending, What::Free(number));
    }

    /// A timer that is due has run before; one that has not is due later, though perhaps by less than the end's clock can tell.
    fn arrive(&mut self, number: usize, segment: &Segment) {
        let end = &mut self.ends[number];
        let mut now = Instant::from_nanos((self.now * 1e9).round() as u64);
        if let Some(deadline) = end.deadline {
            now = now.min(Instant::from_nanos(deadline.as_nanos().saturating_sub(CLEAR)));
        }
        end.now = now.max(end.now);
        end.connection.handle_segment(end.now, segment);
        self.serve(number);
    }

    /// Reads what is there, sends what is to be sent, and sets the timer.
    fn serve(&mut self, number: usize) {
        let end = &mut self.ends[number];
        while let Some(event) = end.connection.poll_event() {
            if event == Event::Readable && number == SERVER {
                self.received += end.connection.read(end.now, u64::MAX);
                self.last_byte_at = self.now;
            }
        }
        let first = if number == CLIENT { 0 } else { self.hops.len() / 2 };
        while let Some(segment) = self.ends[number].connection.poll_transmit(self.ends[number].now) {
            self.enqueue(first, segment);
        }
        let end = &mut self.ends[number];
        let deadline = end.connection.next_timeout();
        if deadline == end.deadline {
            return;
        }
        end.deadline = deadline;
        if let Some(deadline) = deadline {
            let after = deadline.since(end.now).as_nanos() as f64 / 1e9;
            self.schedule(after, What::Timer(number, deadline));
        }
    }
}
