//! UDP at a constant rate, steady or in bursts.

use super::outcome::{Outcome, Progress};
use super::place::Place;
use crate::OnOff;
use crate::packet::{Body, CLIENT};
use crate::wire::Wire;
use units::{Bytes, CounterRandom, Duration, Instant, Rate};

/// IPv4 and UDP headers.
pub(crate) const HEADERS: u64 = 28;

/// Sender and receiver of a flow.
#[derive(Debug)]
pub(crate) struct Udp {
    place: Place,
    rate: Rate,
    size: Bytes,
    on_off: Option<OnOff>,
    random: CounterRandom,
    stop: Instant,
    /// When the present burst began and ends, and how many packets of it are sent.
    burst: Instant,
    burst_ends: Instant,
    sent_in_burst: u64,
    sent: u64,
    start: Option<Instant>,
    received: u64,
    last: Option<Instant>,
}

impl Udp {
    pub(crate) fn new(
        place: Place,
        rate: Rate,
        size: Bytes,
        on_off: Option<OnOff>,
        random: CounterRandom,
        stop: Instant,
    ) -> Self {
        let never = Instant::FAR_FUTURE;
        Self {
            place,
            rate,
            size,
            on_off,
            random,
            stop,
            burst: Instant::ZERO,
            burst_ends: never,
            sent_in_burst: 0,
            sent: 0,
            start: None,
            received: 0,
            last: None,
        }
    }

    /// Sends the next packet, or begins the next burst.
    pub(crate) fn handle_timeout(&mut self, wire: &mut Wire) -> Progress {
        let now = wire.now;
        if now >= self.stop {
            self.place.wake_application(wire, Instant::FAR_FUTURE);
            return Progress::GoesOn;
        }
        if self.start.is_none() {
            self.start = Some(now);
            self.begin_burst(now);
        } else if now >= self.burst_ends {
            self.begin_burst(now);
        }
        self.place.send(wire, CLIENT, self.size.as_u64() as u32, Body::Udp { number: self.sent });
        self.sent += 1;
        self.sent_in_burst += 1;
        wire.data_packets += 1;
        let next = self.burst + self.rate.time_to_send(Bytes::new(self.size.as_u64() * self.sent_in_burst));
        let next = if next < self.burst_ends { next } else { self.next_burst() };
        self.place.wake_application(wire, next);
        Progress::GoesOn
    }

    pub(crate) fn handle_packet(&mut self, wire: &mut Wire) -> Progress {
        self.received += 1;
        self.last = Some(wire.now);
        Progress::GoesOn
    }

    pub(crate) fn outcome(&self) -> Outcome {
        Outcome {
            start: self.start,
            end: self.last,
            bytes: self.received * (self.size.as_u64() - HEADERS),
            data_packets: self.sent,
            received_packets: self.received,
            ..Outcome::default()
        }
    }

    fn begin_burst(&mut self, now: Instant) {
        self.burst = now;
        self.sent_in_burst = 0;
        if let Some(on_off) = &self.on_off {
            self.burst_ends = now + on_off.on.sample(&mut self.random);
        }
    }

    /// When the next burst begins, at which the present one is over in any case.
    fn next_burst(&mut self) -> Instant {
        let off = self.on_off.map_or(Duration::ZERO, |on_off| on_off.off.sample(&mut self.random));
        // A burst of no length still sends one packet: time must go on, by its time at least.
        let least = self.burst + self.rate.time_to_send(self.size);
        (self.burst_ends + off).max(least)
    }
}
