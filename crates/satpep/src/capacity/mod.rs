//! The capacity of the link, what of it is ours, and the pace that follows.
//!
//! | file | idea |
//! | --- | --- |
//! | `mod.rs` | the pace, of the link and of each path over it |
//! | `report.rs` | what an acknowledgement says of arrivals |
//! | `arrival_log.rs` | the receiver's side: what was accepted, and the arrivals that are stamped |
//! | `path_reports.rs`, `delays.rs` | one peer's reports: queueing delays on its clock alone |
//! | `frames.rs` | packets that arrive together |
//! | `paths.rs` | what of a delay is the link's queue, and what a path's own |
//! | `addresses.rs` | a peer that returns to an address |
//! | `lone.rs` | one peer that is sent to alone |
//! | `estimator.rs` | the estimator |
//! | `quantities.rs` | what its files measure in |
//! | `prior.rs` | what is believed before anything is measured |
//! | `trains.rs` | packets sent faster than the link |
//! | `stretches.rs` | a queue that grows, or stays |
//! | `own_growth.rs` | one that grew as one of several peers saw it |
//! | `push.rs` | a little more than the estimate, to find whether there is more |
//! | `losses.rs` | where packets were lost |
//! | `probing/mod.rs` | rates that are tried |
//! | `probing/leap.rs` | whether a policer's bucket let a much higher rate pass |
//! | `probing/train_verdict.rs` | what follows from trains |
//! | `probing/round_verdict.rs` | what follows from losses |
//! | `drain.rs` | a queue that is drained, or distinguished from a longer path |
//! | `pause.rs` | the pause in sending that distinguishes them |
//! | `silence.rs` | reports that do not come |
//! | `cross_traffic.rs` | how much room cross traffic is given |
//! | `lag.rs` | how much of it had entered the link when a packet left |
//! | `parts.rs` | what experiments may leave out |
//! | `estimate.rs` | what is said of it outside |
//! | `tests/mod.rs` | tests: what bounds the capacity |
//! | `tests/model.rs`, `tests/table.rs` | tests: a packet model, and how the estimator fares on it |
//! | `documented.rs` | tests: limits of arrivals in docs/protocol.md |

mod addresses;
mod arrival_log;
mod cross_traffic;
mod delays;
#[cfg(test)]
pub(crate) mod documented;
mod drain;
mod estimate;
mod estimator;
mod frames;
mod lag;
mod lone;
mod losses;
mod own_growth;
mod parts;
mod path_reports;
mod paths;
mod pause;
mod prior;
mod probing;
mod push;
mod quantities;
pub(crate) mod report;
mod silence;
mod stretches;
#[cfg(test)]
mod tests;
mod trains;

pub use arrival_log::Mark;
pub(crate) use arrival_log::{AcceptedPacket, ArrivalLog, Detail};
pub use estimate::{Estimate, EstimateSource, EstimatorState};
pub use parts::{EstimatorPart, EstimatorParts};
pub use prior::Prior;

use crate::config::{CrossTrafficPolicy, EndpointConfig};
use crate::event::PeerId;
use crate::packet_number::PacketNumber;
use addresses::Addresses;
use cross_traffic::CrossTraffic;
use estimator::{Estimator, News};
use lag::Lag;
use lone::Lone;
use paths::{Paths, Shared};
use prior::Belief;
use quantities::PACKET;
use report::Report;
use std::net::IpAddr;
use units::{Bytes, Duration, Instant, Rate};

/// The link's capacity, what others take of it, and what follows for the pace.
pub(crate) struct Capacity {
    /// Used by force.
    fixed: Option<Rate>,
    gain: f64,
    ceiling: Option<Rate>,
    rtt: Duration,
    /// What is configured.
    prior: Prior,
    /// What says more than that: what an earlier run has measured, or what was reported last.
    known: Option<Prior>,
    /// The report that is in force.
    reported: Option<Rate>,
    estimator: Estimator,
    paths: Paths,
    lone: Lone,
    addresses: Addresses,
    cross_traffic: CrossTraffic,
    policy: CrossTrafficPolicy,
    /// Half of the link is left to another process of this gateway, which takes over from this one.
    leaves_half: bool,
    /// Bytes of cross traffic so far, up to `cross_traffic_at`.
    cross_traffic_bytes: u64,
    cross_traffic_at: Instant,
    /// What they lag behind, as far as is known.
    lag: Lag,
    /// Bytes that have entered the link: ours.
    own_bytes: u64,
}

/// Until when data is to be held back so that a queue drains.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Holds {
    pub(crate) link: Option<Instant>,
    /// Data to the peer whose report it was.
    pub(crate) peer: Option<Instant>,
}

fn rate(bytes_per_second: f64) -> Rate {
    Rate::from_bps((bytes_per_second * 8.0) as u64)
}

fn instant(seconds: f64) -> Instant {
    Instant::ZERO + Duration::from_secs_f64(seconds)
}

impl Capacity {
    /// The proxied traffic keeps at least this share of the link, whatever else is on it.
    const MIN_SHARE: f64 = 0.1;
    /// Packets of a start probe, each as long as the path carries.
    pub(crate) const START_PROBE: u32 = 16;
    /// Packets of the one that follows where all of the first arrived at once, at most.
    pub(crate) const LONGER_START_PROBE: u32 = 128;
    /// A start probe would keep a slower link busy for longer.
    const LONGEST_START_PROBE: Duration = Duration::from_millis(250);

    pub(crate) fn new(config: &EndpointConfig, now: Instant) -> Self {
        let prior = config.prior.unwrap_or(Prior::Configured(config.capacity));
        let belief = Self::belief_of(prior, config.remembered, config.rtt, config.ceiling);
        Self {
            fixed: config.capacity_is_fixed.then_some(config.capacity),
            gain: config.pacing_gain,
            ceiling: config.ceiling,
            rtt: config.rtt,
            prior,
            known: config.remembered,
            reported: None,
            estimator: Estimator::new(belief, config.rtt).with(config.estimator_parts),
            paths: Paths::default(),
            lone: Lone::new(belief.rate),
            addresses: Addresses::default(),
            cross_traffic: CrossTraffic::new(config.rtt),
            policy: config.cross_traffic,
            leaves_half: false,
            cross_traffic_bytes: 0,
            cross_traffic_at: now,
            lag: Lag::default(),
            own_bytes: 0,
        }
    }

    /// The capacity of the link.
    pub(crate) fn rate(&self) -> Rate {
        self.fixed.unwrap_or(rate(self.estimator.rate))
    }

    /// What is believed of the capacity, and why.
    pub(crate) fn estimate(&self, now: Instant) -> Estimate {
        let why = match self.fixed {
            Some(_) => EstimateSource::Fixed,
            None => self.estimator.why,
        };
        let confidence =
            if self.fixed.is_some() || !self.estimator.is_guess { 1.0 } else { self.estimator.belief.confidence };
        let state = match self.fixed {
            Some(_) => EstimatorState::Track,
            // Without a session, nobody reports.
            None if self.paths.len() == 0 && !self.estimator.is_guess => EstimatorState::Silent,
            None => self.estimator.state(now.as_secs_f64()),
        };
        Estimate { rate: self.rate(), why, confidence, state, is_policed: self.estimator.probing.is_limited }
    }

    /// A capacity was reported: the estimate is that, until the link says otherwise.
    pub(crate) fn set_reported(&mut self, reported: Rate) {
        if self.fixed.is_some() {
            self.fixed = Some(reported);
        }
        if self.reported.replace(reported) == Some(reported) {
            // It was said before, and the link has answered since.
            return;
        }
        self.known = Some(Prior::Configured(reported));
        self.begin_at_belief(EstimateSource::Reported);
    }

    /// The report that was in force is withdrawn: the estimate goes on, and the same report is news again.
    pub(crate) fn withdraw(&mut self) {
        self.reported = None;
    }

    /// Another rate is configured: the estimate begins there.
    pub(crate) fn configure(&mut self, rate: Rate, prior: Prior) {
        if self.fixed.is_some() {
            self.fixed = Some(rate);
        }
        (self.prior, self.known, self.reported) = (prior, None, None);
        self.begin_at_belief(EstimateSource::Prior);
    }

    fn belief(&self) -> Belief {
        Self::belief_of(self.prior, self.known, self.rtt, self.ceiling)
    }

    /// What is believed before anything is measured. What is known may have been measured or reported in a fade: the estimate's bound is
    /// no lower than without it, and its least value no higher.
    fn belief_of(configured: Prior, known: Option<Prior>, rtt: Duration, ceiling: Option<Rate>) -> Belief {
        let configured = configured.belief(rtt, ceiling);
        let Some(known) = known.map(|known| known.belief(rtt, ceiling)) else { return configured };
        let least = known.least.min(configured.least * configured.rate / known.rate);
        Belief { ceiling: known.ceiling.max(configured.ceiling), least, ..known }
    }

    fn begin_at_belief(&mut self, why: EstimateSource) {
        let belief = self.belief();
        self.estimator.begin_at(belief, why);
        self.paths.bound(belief);
        self.lone = Lone::new(self.estimator.rate);
        self.addresses = Addresses::default();
    }

    /// Another rate is configured, or none any more, while a report or what was measured says more: the estimate has the bounds that
    /// follow, and goes on.
    pub(crate) fn set_prior(&mut self, prior: Prior) {
        self.prior = prior;
        self.bound();
    }

    /// Another bound of the estimate is configured, or none but that of the prior.
    pub(crate) fn set_ceiling(&mut self, ceiling: Option<Rate>) {
        self.ceiling = ceiling;
        self.bound();
    }

    /// What is believed has other bounds.
    fn bound(&mut self) {
        let belief = self.belief();
        self.estimator.bound(belief);
        self.paths.bound(belief);
    }

    /// Cross traffic was measured at `rate`, and `total` so far, while `flows` streams of ours had something to send.
    pub(crate) fn on_cross_traffic(&mut self, now: Instant, rate: Rate, total: Bytes, flows: u32) {
        let counted = self.cross_traffic_bytes(now);
        self.lag.on_reading(now, total, counted - self.cross_traffic_bytes);
        (self.cross_traffic_bytes, self.cross_traffic_at) = (counted, now);
        self.estimator.lag = self.lag.at(now);
        let flows = if self.leaves_half { 1 } else { flows };
        self.cross_traffic.on_measured(now, rate, flows);
    }

    /// Cross traffic may be that of another process of this gateway, which takes over from this one: from now on it may grow until it has
    /// half of the link, whatever the policy says. Two processes that leave one another what the other sends would keep the shares that they
    /// began with. Where the policy is to subtract, cross traffic keeps what it has beyond half of the link.
    pub(crate) fn leave_half(&mut self) {
        self.leaves_half = true;
    }

    fn cross_traffic_bytes(&self, now: Instant) -> u64 {
        self.cross_traffic_bytes + self.cross_traffic.measured().bytes_in(now.since(self.cross_traffic_at)).as_u64()
    }

    /// Bytes that have entered the link so far, others' included as far as they are known.
    pub(crate) fn position(&self, now: Instant) -> u64 {
        self.own_bytes + if self.fixed.is_none() { self.cross_traffic_bytes(now) } else { 0 }
    }

    /// The pace: what cross traffic leaves of the capacity, more while a train is leaving.
    pub(crate) fn pace(&self, now: Instant) -> Rate {
        if self.fixed.is_some() {
            return self.share();
        }
        let now = now.as_secs_f64();
        match self.estimator.trains.leaving_at().or(self.paths.train_leaving_at()) {
            Some(train) => rate(train),
            None => self.free_of(rate(self.estimator.pace(now))),
        }
    }

    /// What cross traffic leaves of the capacity: the pace but for what the estimate tries.
    pub(crate) fn share(&self) -> Rate {
        self.fixed.map_or_else(|| self.free_of(self.rate()), |fixed| self.free_of(fixed).mul_f64(self.gain))
    }

    /// What of `capacity` is ours.
    fn free_of(&self, capacity: Rate) -> Rate {
        match self.policy {
            CrossTrafficPolicy::Subtract => {
                let others = &self.cross_traffic;
                let theirs = if self.leaves_half { others.room_or_least(capacity) } else { others.measured() };
                capacity.saturating_sub(theirs).max(capacity.mul_f64(Self::MIN_SHARE))
            }
            CrossTrafficPolicy::Fair => self.cross_traffic.ours(capacity),
        }
    }

    /// The pace to one peer, where its own path is narrower than the link.
    pub(crate) fn peer_pace(&self, now: Instant, peer: PeerId) -> Option<Rate> {
        self.paths.pace(now.as_secs_f64(), peer).map(rate)
    }

    /// Packet `number` of `peer` is about to leave. Whether it is one of a train; `has_waiting` says whether so many bytes wait
    /// to be sent to the peer.
    pub(crate) fn advance_train(
        &mut self,
        now: Instant,
        peer: PeerId,
        number: PacketNumber,
        has_waiting: impl Fn(u64) -> bool,
    ) -> bool {
        if self.fixed.is_some() {
            return false;
        }
        let now = now.as_secs_f64();
        let is_leaving = self.estimator.trains.leaving_at().or(self.paths.train_leaving_at()).is_some();
        let estimator = self.paths.narrow(peer).unwrap_or(&mut self.estimator);
        if !is_leaving {
            estimator.begin_train_if_due(now, peer, number, has_waiting);
        }
        let is_of_train = estimator.trains.advance(peer, number);
        if is_of_train {
            self.paths.on_train(peer);
        }
        is_of_train
    }

    /// `peer` has data. Returns whether what is believed of the link begins again: what was measured is the path of another, which had the
    /// link to itself.
    pub(crate) fn on_data(&mut self, peer: PeerId) -> bool {
        let Some((lone, most)) = self.lone.others_fall(peer, self.estimator.rate) else { return false };
        self.paths.set_narrow(lone, self.estimator.rate);
        self.estimator = self.estimator.restarted_at(most, self.rtt);
        self.lone = Lone::new(most);
        true
    }

    /// `peer` is at the address `to` now, and was at `from`. Where it alone has shown what the link carries, and has been at `to` before,
    /// the estimate is again what it was then: it may have another path from each address.
    pub(crate) fn on_moved(&mut self, now: Instant, peer: PeerId, from: IpAddr, to: IpAddr) {
        if self.fixed.is_some() {
            return;
        }
        let at = now.as_secs_f64();
        self.addresses.on_left(at, peer.own(), from, self.estimator.rate);
        let before = self.addresses.take(at, peer.own(), to);
        if let Some(rate) = before.filter(|_| self.lone.is(peer)) {
            self.estimator.return_to(at, rate);
            self.lone.begin_at(self.estimator.rate);
        }
    }

    /// Whether a train of full packets is worth sending before there is anything to send: nothing is known of the capacity that is
    /// trusted, or data would soon have to wait for an answer, and the train does not keep the link busy for long. Where a rate is configured, the first data are that train: a
    /// flock of terminals that come up at once on one carrier does not fill it with trains.
    pub(crate) fn wants_start_probe(&self) -> bool {
        let bytes = Bytes::new(u64::from(Self::START_PROBE) * 1500);
        let is_doubted = self.estimator.belief.confidence < 1.0 || self.estimator.is_long();
        let is_guess = self.fixed.is_none() && self.estimator.is_guess;
        let parts = self.estimator.parts;
        let is_in_use = parts.has(EstimatorPart::StartProbe) && parts.has(EstimatorPart::Trains);
        is_in_use && is_guess && is_doubted && self.rate().time_to_send(bytes) <= Self::LONGEST_START_PROBE
    }

    /// Packets of the start probe that is to follow one that was not spaced out.
    pub(crate) fn longer_start_probe(&self) -> Option<u32> {
        let packets = self.estimator.first_packets as u32;
        (packets > Self::START_PROBE && self.wants_start_probe()).then_some(packets)
    }

    /// Which peer a train is leaving to.
    pub(crate) fn train_leaves_to(&self) -> Option<PeerId> {
        self.estimator.trains.leaving_to().or_else(|| self.paths.train_leaves_to())
    }

    /// A packet of ours left, `ip_bytes` long. `peer` is whom it asks for a report, if it does.
    pub(crate) fn on_sent(&mut self, now: Instant, peer: Option<PeerId>, ip_bytes: usize) {
        self.own_bytes += ip_bytes as u64;
        if let (Some(peer), None) = (peer, self.fixed) {
            let position = self.position(now) as f64;
            let now = now.as_secs_f64();
            self.estimator.on_sent(now, ip_bytes, position, self.paths.rtt(peer));
            self.paths.on_sent(now, peer, ip_bytes);
        }
    }

    /// Whether a train has ended that the pace has yet to make up for.
    pub(crate) fn has_train_ended(&self) -> bool {
        self.estimator.trains.is_ahead() || self.paths.is_ahead()
    }

    /// Bytes that a train which ended lately sent ahead of the pace of a peer's narrow path, and of the link's.
    pub(crate) fn take_peer_ahead(&mut self, now: Instant, peer: PeerId) -> [Bytes; 2] {
        let pace = self.estimator.pace(now.as_secs_f64());
        let Some(estimator) = self.paths.narrow(peer) else { return [Bytes::ZERO; 2] };
        let ahead = estimator.trains.take_ahead();
        let share = 1.0 - pace / (Estimator::TRAIN * estimator.rate);
        [ahead, ahead * share.max(0.0)].map(|bytes| Bytes::new(bytes as u64))
    }

    /// There is nothing more to send now: a train that is leaving is as long as it is.
    pub(crate) fn on_idle(&mut self) {
        self.estimator.trains.end();
        self.paths.on_idle();
    }

    /// Bytes that a train which ended lately sent ahead of the pace. More than a quarter of a round trip is not made up for, but for a
    /// first train.
    pub(crate) fn take_ahead(&mut self) -> Bytes {
        let ahead = self.estimator.trains.take_ahead();
        let most = self.estimator.rate * (self.estimator.rtt.smoothed / 4.0).max(0.04);
        let most = most.max(Estimator::FIRST_PACKETS * PACKET);
        Bytes::new(ahead.min(most) as u64)
    }

    /// Updates the estimate by a peer's report.
    pub(crate) fn on_report(&mut self, now: Instant, peer: PeerId, report: &Report) -> Holds {
        if self.fixed.is_some() {
            return Holds::default();
        }
        let seconds = now.as_secs_f64();
        if self.estimator.is_silent(seconds) {
            self.estimator.restart(seconds);
            self.paths.restart(seconds);
        }
        let Some((mut reading, wander)) = self.paths.read(seconds, peer, report, &mut self.estimator) else {
            return Holds::default();
        };
        if let Some(point) = &mut reading.point {
            point.lag = self.lag.at(instant(point.sent));
        }
        let tells_paths_apart = self.estimator.parts.has(EstimatorPart::Paths);
        let shared = if tells_paths_apart {
            self.paths.share_out(peer, &reading, self.estimator.packets(1.0))
        } else {
            Shared { link: reading.point, own: None, has_others: self.paths.len() > 1 }
        };
        if reading.point.is_some() {
            self.estimator.is_shared = shared.has_others;
            self.lone.on_report(peer, shared.has_others, self.estimator.rate);
        }
        self.estimator.peers = self.paths.len();
        self.estimator.is_alone = self.paths.len() == 1;
        self.estimator.is_crowded =
            self.policy == CrossTrafficPolicy::Fair && self.cross_traffic.may_fill_queue(self.rate());
        let counts = self.paths.counts();
        let is_own_loss = tells_paths_apart && self.paths.loses_alone(peer);
        let lost = if is_own_loss { &[][..] } else { &report.lost[..] };
        let (newest, largest) = (reading.newest, report.largest);
        let news = News { newest, largest, lost, point: shared.link, wander, counts, rtt: self.paths.rtt(peer) };
        let judgement = self.estimator.on_report(seconds, peer, &news);
        if let Some(shift) = judgement.shift {
            self.paths.shift_all(peer, shift);
        }
        // A queue that others keep full is not ours to drain: they would have what we gave up.
        let link = judgement.hold_until.filter(|_| !self.estimator.is_crowded).map(instant);
        let own = self.paths.on_report(seconds, peer, report, &reading, shared.own, self.estimator.rate);
        Holds { link, peer: own.map(instant) }
    }

    /// The session with a peer is over.
    pub(crate) fn forget(&mut self, peer: PeerId) {
        self.paths.forget(peer);
        self.estimator.trains.forget(peer);
        if self.paths.len() == 0 {
            // What was under way to it is not going to be reported.
            self.estimator.silence.end();
        }
    }

    /// How many paths are known.
    #[cfg(test)]
    pub(crate) fn known_paths(&self) -> usize {
        self.paths.len()
    }

    /// A peer claims what cannot be true of what was sent to it: what it says next does not follow from what it said.
    pub(crate) fn on_implausible(&mut self, peer: PeerId) {
        self.paths.interrupt(peer);
    }
}
