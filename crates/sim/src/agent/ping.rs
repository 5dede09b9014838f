//! ICMP echo: requests at an interval, and what their answers say of the round trip.

use super::outcome::{Outcome, Progress};
use super::place::Place;
use super::rtt::RttStatistics;
use crate::packet::{Body, CLIENT, SERVER};
use crate::wire::Wire;
use std::collections::BTreeSet;
use units::{Bytes, Duration, Instant};

/// How long the last answer is awaited at least.
const LINGER: Duration = Duration::from_secs(10);

/// Of more requests without an answer the oldest are given up, so that lost ones do not fill memory.
const MAX_AWAITED: usize = 1 << 16;

/// Client and server of a flow.
#[derive(Debug)]
pub(crate) struct Ping {
    place: Place,
    interval: Duration,
    size: Bytes,
    count: u64,
    stop: Instant,
    start: Option<Instant>,
    sent: u64,
    answered: u64,
    /// The requests without an answer.
    awaited: BTreeSet<u64>,
    last: Option<Instant>,
    rtt: RttStatistics,
    /// Whether no more requests leave, and only answers are waited for.
    is_over: bool,
    /// Until when, then.
    until: Instant,
    has_ended: bool,
}

impl Ping {
    pub(crate) fn new(place: Place, interval: Duration, size: Bytes, count: Option<u64>, stop: Instant) -> Self {
        Self {
            place,
            interval,
            size,
            count: count.unwrap_or(u64::MAX),
            stop,
            start: None,
            sent: 0,
            answered: 0,
            awaited: BTreeSet::new(),
            last: None,
            rtt: RttStatistics::default(),
            is_over: false,
            until: Instant::ZERO,
            has_ended: false,
        }
    }

    /// Sends the next request, or waits for answers no longer.
    pub(crate) fn handle_timeout(&mut self, wire: &mut Wire) -> Progress {
        let now = wire.now;
        if self.is_over {
            self.place.wake_application(wire, Instant::FAR_FUTURE);
            return self.end();
        }
        if now >= self.stop {
            return self.wait_for_answers(wire);
        }
        let start = *self.start.get_or_insert(now);
        self.send(wire, CLIENT, Body::EchoRequest { number: self.sent, sent: now });
        self.awaited.insert(self.sent);
        if self.awaited.len() > MAX_AWAITED {
            self.awaited.pop_first();
        }
        self.sent += 1;
        wire.data_packets += 1;
        if self.sent == self.count {
            return self.wait_for_answers(wire);
        }
        self.place.wake_application(wire, (start + self.interval * self.sent).min(self.stop));
        Progress::GoesOn
    }

    fn wait_for_answers(&mut self, wire: &mut Wire) -> Progress {
        self.is_over = true;
        if self.awaited.is_empty() {
            self.place.wake_application(wire, Instant::FAR_FUTURE);
            return self.end();
        }
        self.linger(wire);
        Progress::GoesOn
    }

    /// Awaits the next answer: for twice the longest round trip so far, as iputils' ping does, or that of idle links.
    fn linger(&mut self, wire: &mut Wire) {
        let [there, back] = [CLIENT, SERVER].map(|port| self.place.idle_time(wire, port, self.size));
        let linger = LINGER.max((there + back).max(self.rtt.longest()) * 2);
        self.until = self.until.max(wire.now + linger);
        self.place.wake_application(wire, self.until);
    }

    /// Answers a request, or counts an answer.
    pub(crate) fn handle_packet(&mut self, wire: &mut Wire, body: Body) -> Progress {
        match body {
            Body::EchoRequest { number, sent } => self.send(wire, SERVER, Body::EchoReply { number, sent }),
            // The answer to a request that a link copied, or a copy of an answer, is no other answer.
            Body::EchoReply { number, sent } if self.awaited.remove(&number) => {
                self.answered += 1;
                self.last = Some(wire.now);
                self.rtt.add(wire.now.since(sent));
                if self.is_over && self.awaited.is_empty() {
                    return self.end();
                }
                if self.is_over && wire.now < self.until {
                    // Others may wait behind it in a queue.
                    self.linger(wire);
                }
            }
            Body::EchoReply { .. } | Body::Tcp(_) | Body::Quic { .. } | Body::Udp { .. } | Body::Datagram(_) => {}
        }
        Progress::GoesOn
    }

    fn end(&mut self) -> Progress {
        let has_end = self.count < u64::MAX;
        let ends_now = has_end && !std::mem::replace(&mut self.has_ended, true);
        if ends_now { Progress::Ended } else { Progress::GoesOn }
    }

    pub(crate) fn outcome(&self) -> Outcome {
        Outcome {
            start: self.start,
            end: self.last,
            bytes: self.answered * (self.size.as_u64() - super::udp::HEADERS),
            complete: self.answered >= self.count,
            data_packets: self.sent,
            received_packets: self.answered,
            rtt: self.rtt.report(),
            ..Outcome::default()
        }
    }

    fn send(&self, wire: &mut Wire, from: u32, body: Body) {
        self.place.send(wire, from, self.size.as_u64() as u32, body);
    }
}
