//! The times of events as ns-2 adds them up: seconds in floating point, beside the nanoseconds of the simulator.
//!
//! With delayed acknowledgements a delay comes back a round trip later as a gap between packets of just its length, so that
//! the next delayed acknowledgement and the packet after the gap are due at one instant. In ns-2 the last bit of sums then says
//! which is first; only the same sums give the same order. Where connections with ns-2's delayed acknowledgements run, the
//! network therefore carries along when each packet arrives by ns-2's account (delay.cc and queue.cc of ns-2 2.35: a packet
//! arrives its time of sending and the delay after its sending begins, the next one's begins the time of sending after).

use crate::packet::ParcelId;
use scenario::{Direction, Network};
use units::{Duration, Instant};

/// An event's time by this account and by the simulator's differ by rounding, each link's to a nanosecond, and by less than
/// this.
pub(crate) const ROUNDING: Duration = Duration::from_nanos(50);

/// When ns-2 runs an event: earlier ones first, of those at one time the one that was scheduled first (scheduler.cc).
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd)]
pub(crate) struct EventTime {
    /// Seconds since the start.
    pub(crate) at: f64,
    /// When it was scheduled.
    pub(crate) scheduled: f64,
}

impl EventTime {
    /// The simulator's time that is nearest.
    pub(crate) fn nearest(self) -> Instant {
        Instant::from_nanos((self.at * 1e9).round() as u64)
    }
}

/// ns-2's times of the packets under way.
#[derive(Debug)]
pub(crate) struct Ns2Times {
    /// The time of the event that is being handled.
    pub(crate) now: f64,
    hops: Vec<Hop>,
    /// When each packet came to the node where it is, or to which it is on its way.
    arrivals: Vec<EventTime>,
}

/// One direction of a link.
#[derive(Debug)]
struct Hop {
    /// Bits per second.
    rate: f64,
    /// Bits around each packet.
    overhead: f64,
    delay: f64,
    /// When the latest packet was sent.
    free_at: f64,
}

impl Ns2Times {
    pub(crate) fn new(network: &Network) -> Self {
        Self { now: 0.0, hops: network.directions().iter().map(Hop::new).collect(), arrivals: Vec::new() }
    }

    /// A packet leaves an endpoint.
    pub(crate) fn on_sent(&mut self, id: ParcelId) {
        if self.arrivals.len() <= id.index() {
            self.arrivals.resize(id.index() + 1, EventTime::default());
        }
        self.arrivals[id.index()] = EventTime { at: self.now, scheduled: self.now };
    }

    /// A packet has a copy that goes the same way.
    pub(crate) fn on_copied(&mut self, original: ParcelId, copy: ParcelId) {
        self.now = self.arrival(original).at;
        self.on_sent(copy);
    }

    /// A packet of `size` bytes has come to the end of a link at `arrived`, or was lost on it. Those of one link come in the
    /// order in which it sends them.
    #[inline(never)]
    pub(crate) fn on_crossed(&mut self, direction: u32, id: ParcelId, size: u32, arrived: Instant) {
        let hop = &mut self.hops[direction as usize];
        let arrival = &mut self.arrivals[id.index()];
        *arrival = hop.cross(arrival.at, size, arrived);
    }

    /// When a packet came to where it is.
    pub(crate) fn arrival(&self, id: ParcelId) -> EventTime {
        self.arrivals[id.index()]
    }
}

impl Hop {
    fn new(direction: &Direction) -> Self {
        let config = &direction.config;
        Self {
            rate: config.rate.map_or(f64::INFINITY, |rate| rate.as_bps() as f64),
            overhead: 8.0 * config.overhead.as_u64() as f64,
            delay: config.delay.as_secs_f64(),
            free_at: 0.0,
        }
    }

    /// When a packet arrives that was here at `ready`. Links that ns-2 does not have (a rate that changes, slots, copies)
    /// take other times: there the simulator's counts.
    fn cross(&mut self, ready: f64, size: u32, arrived: Instant) -> EventTime {
        let start = ready.max(self.free_at);
        let sending = (8.0 * f64::from(size) + self.overhead) / self.rate;
        let seen = arrived.as_secs_f64();
        let at = start + (sending + self.delay);
        if (at - seen).abs() < ROUNDING.as_secs_f64() {
            self.free_at = start + sending;
            return EventTime { at, scheduled: start };
        }
        self.free_at = seen - self.delay;
        EventTime { at: seen, scheduled: self.free_at }
    }
}
