//! What the link carries, and what of it is ours.
//!
//! The capacity is configured, told while running, or learnt from what arrives; other traffic on the link is measured by
//! the driver. What is left, or a fair share where that is more, sets the pace.
//!
//! | file | idea |
//! | --- | --- |
//! | `mod.rs` | the pace |
//! | `learner.rs` | the capacity by what arrives how fast |
//! | `arrivals.rs` | one peer's reports: queueing delay on the way to it |
//! | `marks.rs` | what the receiver tells of arrivals |
//! | `train.rs` | short trains of datagrams that ask whether there is more |
//! | `sharing.rs` | how much room other traffic is given |

mod arrivals;
#[cfg(test)]
pub(crate) mod documented;
mod learner;
mod marks;
mod sharing;
mod train;

pub(crate) use arrivals::{Arrivals, Feedback, Report};
pub(crate) use marks::Marks;
pub(crate) use train::Progress;

use crate::config::{EndpointConfig, Share};
use crate::event::PeerId;
use learner::Learner;
use sharing::Sharing;
use train::Trains;
use units::{Bytes, Duration, Instant, Rate};

/// The link's capacity, what others take of it, and what follows for the pace.
pub(crate) struct Capacity {
    /// As configured or last told.
    nominal: Rate,
    gain: f64,
    learner: Option<Learner>,
    trains: Trains,
    sharing: Sharing,
    share: Share,
    rtt: Duration,
    /// Bytes of other traffic so far, up to `outside_at`.
    outside_bytes: u64,
    outside_at: Instant,
    /// Bytes that have entered the link: ours.
    own_bytes: u64,
}

impl Capacity {
    /// The proxied traffic keeps at least this share of the link, whatever else is on it.
    const LEAST_SHARE: f64 = 0.1;

    pub(crate) fn new(config: &EndpointConfig, now: Instant) -> Self {
        Self {
            nominal: config.capacity,
            gain: config.pacing_gain,
            learner: config.learn.then(|| Learner::new(config.capacity, config.rtt, now)),
            trains: Trains::new(config.rtt, now),
            sharing: Sharing::new(config.rtt),
            share: config.share,
            rtt: config.rtt,
            outside_bytes: 0,
            outside_at: now,
            own_bytes: 0,
        }
    }

    /// What the link is thought to carry now.
    pub(crate) fn rate(&self) -> Rate {
        self.learner.as_ref().map_or(self.nominal, Learner::estimate)
    }

    /// The capacity was told: what was learnt before no longer counts.
    pub(crate) fn tell(&mut self, now: Instant, rate: Rate) {
        self.nominal = rate;
        if self.learner.is_some() {
            self.learner = Some(Learner::new(rate, self.rtt, now));
        }
    }

    /// Other traffic was measured at `rate`, while `flows` streams of ours had something to send.
    pub(crate) fn on_outside(&mut self, now: Instant, rate: Rate, flows: u32) {
        self.outside_bytes = self.outside_bytes(now);
        self.outside_at = now;
        self.sharing.on_measured(now, rate, flows);
    }

    fn outside_bytes(&self, now: Instant) -> u64 {
        self.outside_bytes + self.sharing.measured().bytes_in(now.since(self.outside_at)).as_u64()
    }

    /// Bytes that have entered the link so far, others' included as far as they are known.
    pub(crate) fn position(&self, now: Instant) -> u64 {
        self.own_bytes + if self.learner.is_some() { self.outside_bytes(now) } else { 0 }
    }

    /// The pace: what other traffic leaves of the capacity, more while a train is under way.
    pub(crate) fn pace(&self) -> Rate {
        let capacity = self.rate();
        let free = match self.share {
            Share::Assigned => {
                capacity.saturating_sub(self.sharing.measured()).max(capacity.mul_f64(Self::LEAST_SHARE))
            }
            Share::Fair => self.sharing.ours(capacity),
        };
        let surplus = if self.trains.is_running() { capacity.mul_f64(Trains::SURPLUS) } else { Rate::ZERO };
        Rate::from_bps(free.mul_f64(self.gain).as_bps().saturating_add(surplus.as_bps()))
    }

    /// Counts a datagram of ours.
    pub(crate) fn on_sent(&mut self, bytes: usize) {
        self.own_bytes += bytes as u64;
    }

    /// What the datagram about to be sent, number `number` of `peer`, is to a train.
    pub(crate) fn advance_train(&mut self, now: Instant, peer: PeerId, number: u64) -> Progress {
        let position = self.position(now);
        match &self.learner {
            // Reports begin with the first train.
            Some(learner)
                if self.trains.is_running()
                    || learner.has_room_for_train(now, position)
                    || (!learner.is_in_touch(now) && self.trains.are_overdue(now, self.rtt * 3)) =>
            {
                self.trains.advance(now, peer, number, position, learner.estimate())
            }
            _ => Progress::None,
        }
    }

    /// There is nothing more to send now: a train that is leaving tells nothing.
    pub(crate) fn on_idle(&mut self, now: Instant) {
        if let Some(learner) = &self.learner {
            let estimate = learner.estimate();
            self.trains.abandon(now, self.position(now), estimate);
        }
    }

    /// Bytes that a train which ended lately sent ahead of the pace.
    pub(crate) fn take_surplus(&mut self) -> Bytes {
        self.trains.take_surplus()
    }

    /// A marked datagram of a train arrived, by its peer's clock.
    pub(crate) fn on_arrival(&mut self, peer: PeerId, number: u64, arrived: Duration) {
        if let (Some((offered, found)), Some(learner)) =
            (self.trains.on_arrival(peer, number, arrived), &mut self.learner)
        {
            learner.on_train(offered, found);
        }
    }

    /// Learns from a peer's report. Returns until when to hold data back so that a queue can drain.
    pub(crate) fn on_feedback(&mut self, now: Instant, feedback: &Feedback) -> Option<Instant> {
        let position = self.position(now);
        let hold = self.learner.as_mut()?.on_feedback(now, position, feedback);
        // A queue that others keep full is not ours to drain: they would have what we gave up.
        hold.filter(|_| self.share == Share::Assigned || !self.sharing.has_others(self.rate()))
    }
}
