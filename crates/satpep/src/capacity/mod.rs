//! What the link carries, and what of it is ours.
//!
//! The capacity is configured, estimated from arrivals, or reported while running; cross traffic is measured by
//! the driver. What is left, or a fair share where that is more, sets the pace.
//!
//! | file | idea |
//! | --- | --- |
//! | `mod.rs` | the pace |
//! | `estimator.rs` | the capacity estimator |
//! | `arrivals.rs` | one peer's reports: queueing delay on the way to it |
//! | `arrival_requests.rs` | the arrival times that the receiver reports |
//! | `train.rs` | short trains of packets that ask whether there is more |
//! | `cross_traffic.rs` | how much room cross traffic is given |

mod arrival_requests;
mod arrivals;
mod cross_traffic;
#[cfg(test)]
pub(crate) mod documented;
mod estimator;
mod train;

pub(crate) use arrival_requests::ArrivalRequests;
pub(crate) use arrivals::{Arrivals, Feedback, Report};
pub(crate) use train::Progress;

use crate::config::{CrossTrafficPolicy, EndpointConfig};
use crate::event::PeerId;
use crate::packet_number::PacketNumber;
use cross_traffic::CrossTraffic;
use estimator::CapacityEstimator;
use train::Trains;
use units::{Bytes, Duration, Instant, Rate};

/// The link's capacity, what others take of it, and what follows for the pace.
pub(crate) struct Capacity {
    /// As configured or last reported.
    nominal: Rate,
    gain: f64,
    estimator: Option<CapacityEstimator>,
    trains: Trains,
    cross_traffic: CrossTraffic,
    policy: CrossTrafficPolicy,
    rtt: Duration,
    /// Bytes of cross traffic so far, up to `cross_traffic_at`.
    cross_traffic_bytes: u64,
    cross_traffic_at: Instant,
    /// Bytes that have entered the link: ours.
    own_bytes: u64,
}

impl Capacity {
    /// The proxied traffic keeps at least this share of the link, whatever else is on it.
    const MIN_SHARE: f64 = 0.1;

    pub(crate) fn new(config: &EndpointConfig, now: Instant) -> Self {
        Self {
            nominal: config.capacity,
            gain: config.pacing_gain,
            estimator: config.estimate_capacity.then(|| CapacityEstimator::new(config.capacity, config.rtt, now)),
            trains: Trains::new(config.rtt, now),
            cross_traffic: CrossTraffic::new(config.rtt),
            policy: config.cross_traffic,
            rtt: config.rtt,
            cross_traffic_bytes: 0,
            cross_traffic_at: now,
            own_bytes: 0,
        }
    }

    /// The capacity of the link: configured, estimated or reported.
    pub(crate) fn rate(&self) -> Rate {
        self.estimator.as_ref().map_or(self.nominal, CapacityEstimator::estimate)
    }

    /// A capacity was reported: the estimate begins again from it.
    pub(crate) fn tell(&mut self, now: Instant, rate: Rate) {
        self.nominal = rate;
        if self.estimator.is_some() {
            self.estimator = Some(CapacityEstimator::new(rate, self.rtt, now));
        }
    }

    /// Cross traffic was measured at `rate`, while `flows` streams of ours had something to send.
    pub(crate) fn on_cross_traffic(&mut self, now: Instant, rate: Rate, flows: u32) {
        self.cross_traffic_bytes = self.cross_traffic_bytes(now);
        self.cross_traffic_at = now;
        self.cross_traffic.on_measured(now, rate, flows);
    }

    fn cross_traffic_bytes(&self, now: Instant) -> u64 {
        self.cross_traffic_bytes + self.cross_traffic.measured().bytes_in(now.since(self.cross_traffic_at)).as_u64()
    }

    /// Bytes that have entered the link so far, others' included as far as they are known.
    pub(crate) fn position(&self, now: Instant) -> u64 {
        self.own_bytes + if self.estimator.is_some() { self.cross_traffic_bytes(now) } else { 0 }
    }

    /// The pace: what cross traffic leaves of the capacity, more while a train is in flight.
    pub(crate) fn pace(&self) -> Rate {
        let capacity = self.rate();
        let free = match self.policy {
            CrossTrafficPolicy::Subtract => {
                capacity.saturating_sub(self.cross_traffic.measured()).max(capacity.mul_f64(Self::MIN_SHARE))
            }
            CrossTrafficPolicy::Fair => self.cross_traffic.ours(capacity),
        };
        let surplus = if self.trains.is_running() { capacity.mul_f64(Trains::SURPLUS) } else { Rate::ZERO };
        Rate::from_bps(free.mul_f64(self.gain).as_bps().saturating_add(surplus.as_bps()))
    }

    /// Counts a packet of ours.
    pub(crate) fn on_sent(&mut self, bytes: usize) {
        self.own_bytes += bytes as u64;
    }

    /// What the packet about to be sent, number `number` of `peer`, is to a train.
    pub(crate) fn advance_train(&mut self, now: Instant, peer: PeerId, number: PacketNumber) -> Progress {
        let position = self.position(now);
        match &self.estimator {
            // Reports begin with the first train.
            Some(estimator)
                if self.trains.is_running()
                    || estimator.has_room_for_train(now, position)
                    || (!estimator.is_in_touch(now) && self.trains.are_overdue(now, self.rtt * 3)) =>
            {
                self.trains.advance(now, peer, number, position, estimator.estimate())
            }
            _ => Progress::None,
        }
    }

    /// There is nothing more to send now: a train that is leaving tells nothing.
    pub(crate) fn on_idle(&mut self, now: Instant) {
        if let Some(estimator) = &self.estimator {
            let estimate = estimator.estimate();
            self.trains.abandon(now, self.position(now), estimate);
        }
    }

    /// Bytes that a train which ended lately sent ahead of the pace.
    pub(crate) fn take_surplus(&mut self) -> Bytes {
        self.trains.take_surplus()
    }

    /// A packet of a train with an ARRIVAL_REQUEST arrived, by its peer's clock.
    pub(crate) fn on_arrival(&mut self, peer: PeerId, number: PacketNumber, arrived: Duration) {
        if let (Some((offered, found)), Some(estimator)) =
            (self.trains.on_arrival(peer, number, arrived), &mut self.estimator)
        {
            estimator.on_train(offered, found);
        }
    }

    /// Updates the estimate by a peer's report. Returns until when to hold data back so that a queue can drain.
    pub(crate) fn on_feedback(&mut self, now: Instant, feedback: &Feedback) -> Option<Instant> {
        let position = self.position(now);
        let hold = self.estimator.as_mut()?.on_feedback(now, position, feedback);
        // A queue that others keep full is not ours to drain: they would have what we gave up.
        hold.filter(|_| self.policy == CrossTrafficPolicy::Subtract || !self.cross_traffic.has_others(self.rate()))
    }
}
