//! The estimator of a link's capacity: what follows from trains, from a queue that grows or stays, from losses, and from rates that are
//! tried.
//!
//! All of its arithmetic is in seconds and in IP bytes per second. Between a packet and the report of its arrival lies a round trip:
//! the queue of now is computed from the queue that a report shows and from what was sent since, so that one is drained once and not
//! once for each report.

use super::delays::{Counts, Point};
use super::estimate::{EstimateSource, EstimatorState};
use super::losses::Losses;
use super::own_growth::OwnGrowth;
use super::parts::{EstimatorPart, EstimatorParts};
use super::path_reports::{PointRule, Wander};
use super::pause::QueueTest;
use super::prior::Belief;
use super::probing::Probing;
use super::push::Push;
use super::quantities::{Carried, PACKET, RoundTrip, Sent};
use super::report::LostPacket;
use super::silence::Silence;
use super::trains::{Plan, Trains};
use crate::event::PeerId;
use crate::packet_number::PacketNumber;
use std::collections::VecDeque;
use units::Duration;

/// The estimate, and what it is based on.
#[derive(Debug)]
pub(super) struct Estimator {
    /// What is in use of what follows.
    pub(super) parts: EstimatorParts,
    pub(super) belief: Belief,
    /// Bytes per second: the estimate.
    pub(super) rate: f64,
    pub(super) why: EstimateSource,
    /// No train and no queue has answered yet.
    pub(super) is_guess: bool,
    /// Packets of the train that a guess begins with.
    pub(super) first_packets: f64,
    /// What the only train so far has found, if it is much less than the prior, and until when that bounds what is sent: a stall of a
    /// host makes a train look slow.
    pub(super) doubted: Option<(f64, f64)>,
    pub(super) rtt: RoundTrip,
    pub(super) trains: Trains,
    next_train: f64,
    /// The latest points, the newest last.
    pub(super) points: VecDeque<Point>,
    /// The queue that the newest point shows.
    pub(super) queue: f64,
    pub(super) newest: Option<Point>,
    /// Bytes that have entered the link.
    pub(super) position: f64,
    /// Bytes of cross traffic beyond those in it.
    pub(super) lag: f64,
    /// How many had when a higher capacity was reported, if any had: what arrived of those says how the link was before.
    rise_position: Option<f64>,
    /// The link bore out the last rise that was reported. After one that it did not, what was sent before goes on counting: a modem that is
    /// wrong again and again is not to fill the link's queue each time.
    trusts_rises: bool,
    /// What was measured before a higher capacity was reported, and what was carried since, if that is more: the link carries that much
    /// whatever the report is worth.
    pub(super) proven: Option<f64>,
    pub(super) noise: f64,
    /// Seconds of sending that arrive together.
    pub(super) frame: f64,
    /// Several peers are sent to, so that what a train finds may be its peer's own path.
    pub(super) is_shared: bool,
    /// The rate is set to what is sent as long as no queue grows, as that of a path that is not narrow: a queue that stays tells nothing.
    pub(super) follows: bool,
    /// Until when a queue is predicted to drain.
    pub(super) drains_until: f64,
    /// The estimate before trains changed it, as long as nothing else has.
    pub(super) before_trains: Option<f64>,
    /// How many peers there are.
    pub(super) peers: usize,
    /// One peer is sent to: all of the link is its own.
    pub(super) is_alone: bool,
    /// Others are on the link and have what room they take: a queue may be theirs, and says nothing of the link.
    pub(super) is_crowded: bool,
    /// How unevenly packets leave, as a factor.
    pub(super) slack: f64,
    pub(super) counts: Counts,
    pub(super) push: Push,
    /// The queue of the link when it last grew, if one peer alone saw it.
    pub(super) own_growth: Option<OwnGrowth>,
    /// Of what trains find, the share that is ours: others that are not measured have the rest.
    pub(super) ours: f64,
    /// What tells how much of the link is ours, once trains find as much again.
    pub(super) carried: Option<Carried>,
    pub(super) probing: Probing,
    pub(super) test: Option<QueueTest>,
    pub(super) silence: Silence,
    /// When the estimate was last raised by trains, and what they had found; when a queue was last seen to grow; when the estimate was
    /// last lowered.
    pub(super) raised_at: f64,
    pub(super) raised_by: Option<f64>,
    pub(super) grown_at: f64,
    pub(super) lowered_at: f64,
}

/// What a report says.
#[derive(Debug)]
pub(super) struct News<'a> {
    /// The newest packet whose arrival is reported.
    pub(super) newest: Sent,
    pub(super) largest: PacketNumber,
    pub(super) lost: &'a [LostPacket],
    pub(super) point: Option<Point>,
    pub(super) wander: Wander,
    pub(super) counts: Counts,
    /// The round-trip time of the peer that reports, if it is one of several.
    pub(super) rtt: Option<f64>,
}

/// What follows from a report at once.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Judgement {
    /// Data is to be held back until then.
    pub(super) hold_until: Option<f64>,
    /// So much of the delay is no queue, in seconds.
    pub(super) shift: Option<f64>,
}

impl Estimator {
    /// A train shows up to this multiple of the rate; its queue of 21 ms fits one of a tenth of the BDP of a geostationary satellite link.
    pub(super) const TRAIN: f64 = 8.0;
    /// The first train of a guess leaves this much faster: it may be ten times too low.
    const FIRST_TRAIN: f64 = 64.0;
    /// Its packets, and those of one where no more wait.
    pub(super) const FIRST_PACKETS: f64 = 16.0;
    /// Packets of the train that follows if all of the first arrived at once, as in a frame of the air interface: more than one frame has.
    const LONGER_PACKETS: f64 = super::Capacity::LONGER_START_PROBE as f64;
    /// How far apart such a train's packets arrive tells less the fewer frames it lasts.
    pub(super) const LONGER_TELLS: f64 = 0.4;
    const SHORT: u32 = 8;
    /// It is short, too, where a link would take longer than this for it.
    const LONGEST_FIRST: f64 = 0.25;
    /// Of many peers, one is not sent more at once than its part of this long, or than the scheduler remembers that it owes.
    const TURN: f64 = 0.25;
    const OWED: f64 = 8.0;
    /// Where too little waits for a train, it is looked for again after this long.
    const RETRY: f64 = 0.005;
    /// Packets of a train, at least; and the time that it takes the link. Sixteen milliseconds outlast what a host is late.
    const TRAIN_PACKETS: f64 = 12.0;
    const TRAIN_TIME: f64 = 0.016;
    const LONGEST_TRAIN_TIME: f64 = 0.04;
    /// A train lasts this many times as long as what arrives together, and a point.
    const TRAIN_FRAMES: f64 = 5.0;
    const POINT_FRAMES: f64 = 2.0;
    /// A path that trains find below this share of the link is narrower. Trains on it have so many packets, and are this much rarer.
    const NARROW: f64 = 0.9;
    const NARROW_PACKETS: f64 = 6.0;
    const SELDOM: f64 = 2.0;
    /// Packets to several peers do not leave evenly, so that more than one of a path's is waited for.
    const UNEVEN: f64 = 1.6;
    /// Below this rate (20 Mbit/s) no more than so many packets, which are what an acknowledgement path of that rate can report.
    const SLOW: f64 = 2.5e6;
    const SLOW_PACKETS: f64 = 64.0;
    /// Below this rate (10 Mbit/s) a queue of one BDP may be shorter than a train. On a faster link a train loses its end where the link falls.
    const SHORT_OF_ROOM: f64 = 1.25e6;
    /// Up to here trains are half of what is sent, or more: what they lose in a queue that has no room for them is no policer's doing. Nor
    /// is what the first trains lose.
    const MOSTLY_TRAINS: f64 = 0.24e6;
    /// What a guess may have under way until the link answers: bytes, and time at the prior's rate. A prior ten times too high costs six
    /// per cent of 10 MB then.
    const UNPROVEN: f64 = 512e3;
    const UNPROVEN_ROUNDS: f64 = 0.25;
    const UNPROVEN_PACE: f64 = 0.125;
    /// The pace of a link that is followed: a queue that should not be there drains.
    const FOLLOW: f64 = 0.995;
    /// A reported rate up to this multiple of the estimate is used without reserve.
    pub(super) const BELIEVED: f64 = 1.25;
    /// A rise that was reported is borne out by an estimate of this share of it.
    const BORNE_OUT: f64 = 0.8;
    const MAX_POINTS: usize = 200;
    /// Seconds of stamps that a point needs, and packets at most: they outlast a stall of a host.
    const POINT: f64 = 0.02;
    const LONGEST_POINT: f64 = 0.08;
    const POINT_PACKETS: f64 = 8.0;

    pub(super) fn new(belief: Belief, rtt: Duration) -> Self {
        let rtt = rtt.as_secs_f64();
        Self {
            parts: EstimatorParts::ALL,
            belief,
            rate: belief.rate,
            why: EstimateSource::Prior,
            is_guess: true,
            first_packets: Self::FIRST_PACKETS,
            doubted: None,
            rtt: RoundTrip { smoothed: rtt, variation: rtt / 8.0 },
            trains: Trains::default(),
            next_train: 0.0,
            points: VecDeque::new(),
            queue: 0.0,
            newest: None,
            position: 0.0,
            lag: 0.0,
            rise_position: None,
            trusts_rises: true,
            proven: None,
            noise: 0.0005,
            frame: 0.0,
            is_shared: false,
            follows: false,
            drains_until: f64::NEG_INFINITY,
            before_trains: None,
            peers: 1,
            is_alone: true,
            is_crowded: false,
            slack: 1.0,
            counts: Counts::default(),
            push: Push::default(),
            own_growth: None,
            ours: 1.0,
            carried: None,
            probing: Probing::default(),
            test: None,
            silence: Silence::default(),
            raised_at: f64::NEG_INFINITY,
            raised_by: None,
            grown_at: f64::NEG_INFINITY,
            lowered_at: f64::NEG_INFINITY,
        }
    }

    /// This one with these parts alone in use.
    pub(super) fn with(self, parts: EstimatorParts) -> Self {
        Self { parts, ..self }
    }

    /// This one as if nothing had been measured, with `rate` as a guess. What was sent remains.
    pub(super) fn restarted_at(&self, rate: f64, rtt: Duration) -> Self {
        let belief = Belief { rate, confidence: Belief::DOUBT, ..self.belief };
        let mut silence = self.silence.clone();
        silence.end();
        Self {
            position: self.position,
            lag: self.lag,
            counts: self.counts,
            peers: self.peers,
            noise: self.noise,
            frame: self.frame,
            silence,
            ..Self::new(belief, rtt).with(self.parts)
        }
    }

    /// The capacity is reported or configured, `why` says which: the estimate begins at `belief`.
    pub(super) fn begin_at(&mut self, belief: Belief, why: EstimateSource) {
        // What is much more than was thought has to prove itself like a guess.
        let is_rise = belief.rate > Self::BELIEVED * self.rate;
        self.proven =
            if is_rise && !self.is_guess { Some(self.rate) } else { self.proven.map(|proven| proven.min(belief.rate)) };
        if is_rise {
            self.is_guess = true;
            self.probing.doubt_limit();
        }
        // What has been sent says how the link was. Of a link that has become slower, its queue is still to be drained.
        if self.rise_position.is_some() {
            self.trusts_rises = self.rate >= Self::BORNE_OUT * self.belief.rate;
        }
        self.rise_position = (is_rise && self.position > 0.0).then_some(self.position);
        if self.trusts_rises {
            self.trains.forget_under_way();
        }
        self.belief = belief;
        self.set(belief.rate, why);
        self.points.clear();
        self.trains.forget_results();
        self.probing.abandon();
        self.probing.forget_carried();
        (self.raised_by, self.doubted) = (None, None);
        (self.ours, self.carried) = (1.0, None);
    }

    /// What is believed has other bounds.
    pub(super) fn bound(&mut self, belief: Belief) {
        self.belief = belief;
        self.set(self.rate, self.why);
    }

    /// How long the link takes for so many full packets.
    pub(super) fn packets(&self, count: f64) -> f64 {
        count * PACKET / self.rate
    }

    /// A queue of this length is one.
    pub(super) fn busy(&self) -> f64 {
        (0.003f64).max(1.5 * self.slot()).max(2.0 * self.noise).max(0.8 * self.frame)
    }

    /// A queue of this length is to be drained.
    pub(super) fn high(&self) -> f64 {
        (0.012f64).max(5.0 * self.slot()).max(4.0 * self.noise).max(1.5 * self.frame)
    }

    /// How long a packet takes where that is longest: one that came just before is waited for.
    pub(super) fn slot(&self) -> f64 {
        self.narrowest().map_or(self.packets(1.0), |found| Self::UNEVEN * PACKET / found)
    }

    /// The queue now, by the latest point and what has entered the link since.
    pub(super) fn predicted_queue(&self, now: f64) -> f64 {
        let Some(newest) = &self.newest else { return 0.0 };
        if self.probing.drops_surplus(now, self.rtt.smoothed) {
            return if self.queue > self.busy() { self.queue } else { 0.0 };
        }
        let rate = self.probing.trial_rate().unwrap_or(self.rate);
        (newest.queue + (self.position + self.lag - newest.entered()) / rate - (now - newest.sent)).max(0.0)
    }

    /// Whether reports are overdue by so much that the link is taken for cut.
    pub(super) fn is_silent(&self, now: f64) -> bool {
        self.parts.has(EstimatorPart::Silence) && self.silence.is_silent(now, &self.rtt)
    }

    /// Whether reports are overdue.
    fn is_quiet(&self, now: f64) -> bool {
        self.parts.has(EstimatorPart::Silence) && self.silence.is_quiet(now, &self.rtt)
    }

    pub(super) fn state(&self, now: f64) -> EstimatorState {
        if self.is_silent(now) {
            EstimatorState::Silent
        } else if self.is_guess {
            EstimatorState::Guess
        } else if self.is_quiet(now) {
            EstimatorState::Quiet
        } else {
            self.probing.state()
        }
    }

    /// Bytes per second to send now, a train that is leaving left out of account.
    pub(super) fn pace(&self, now: f64) -> f64 {
        if self.is_silent(now) {
            return (self.rate * Silence::SILENT_PACE).max(PACKET / self.silence.probe_interval(&self.rtt));
        }
        if let Some(rate) = self.probing.experiment_rate() {
            return rate;
        }
        if self.is_guess {
            let doubted = self.doubted.filter(|(_, until)| now < *until).map_or(f64::MAX, |(found, _)| found);
            return self.guessed_pace().min(doubted);
        }
        if self.is_quiet(now) {
            return self.rate * Silence::QUIET_PACE;
        }
        if let Some(rate) = self.probing.trial_rate() {
            return rate;
        }
        if self.test.as_ref().is_some_and(|test| now < test.until) {
            return self.rate * QueueTest::PACE;
        }
        if self.pushes() && !self.probing.is_limited && self.predicted_queue(now) < self.pushed_queue() {
            return self.rate * (1.0 + self.push.share);
        }
        self.rate * Self::FOLLOW
    }

    /// Bytes per second to send before any train or queue has answered.
    fn guessed_pace(&self) -> f64 {
        let most = Self::UNPROVEN.max(self.belief.rate * self.rtt.smoothed * Self::UNPROVEN_ROUNDS);
        let pace = self.rate * self.belief.confidence;
        let unproven = self.position - self.silence.reported();
        let is_limited = unproven > most && self.parts.has(EstimatorPart::StartLimit);
        let limit =
            if is_limited { self.proven.unwrap_or(0.0).max(self.belief.rate * Self::UNPROVEN_PACE) } else { f64::MAX };
        pace.min(limit) * 0.99
    }

    /// The queue that a push may build if there is no more than the estimate. Where trains say nothing of the link, a push is all that finds
    /// more.
    fn pushed_queue(&self) -> f64 {
        let trains_tell = self.trains_tell() && !self.paths_carry_more();
        if trains_tell { self.busy() } else { self.busy().max(self.push.share * self.rtt.smoothed) }
    }

    /// Whether more than the estimate is sent while no queue forms.
    pub(super) fn pushes(&self) -> bool {
        (self.push.is_on || self.trains.never_arrive()) && self.parts.has(EstimatorPart::Pushes)
    }

    /// The first train was not spaced out, though it was sent much faster than the link is thought to be. Whether a longer one is to
    /// follow: it takes another round trip, which pays where too high a rate would send more than that in vain.
    pub(super) fn lengthens_first_train(&mut self) -> bool {
        let longest = (Self::LONGEST_FIRST * self.rate / PACKET).min(Self::LONGER_PACKETS).floor();
        let is_costly = self.belief.rate * self.rtt.smoothed > Self::UNPROVEN;
        let is_first = self.first_packets == Self::FIRST_PACKETS;
        let is_worth_it = is_first && is_costly && longest >= 2.0 * Self::FIRST_PACKETS;
        if is_worth_it {
            self.first_packets = longest;
            self.trains.forget_results();
        }
        is_worth_it
    }

    /// Whether trains last longer than what arrives together: how far apart their packets arrive says something of the link.
    pub(super) fn trains_tell(&self) -> bool {
        self.frame * Self::TRAIN_FRAMES < Self::LONGEST_TRAIN_TIME
    }

    /// Takes back what trains have found if they show nothing of the link. Only a queue shows then whether there is more.
    fn doubt_trains(&mut self) {
        if self.trains_tell() {
            return;
        }
        self.push.is_on = true;
        self.doubted = None;
        if let Some(before) = self.before_trains.take() {
            self.set(before, EstimateSource::Prior);
        }
    }

    /// The train to begin now, if it is time for one.
    pub(super) fn plan_train(&self, now: f64) -> Option<Plan> {
        let is_free = self.trains.leaving_at().is_none() && now >= self.next_train;
        let is_free = is_free && self.parts.has(EstimatorPart::Trains) && (self.is_guess || self.trains_tell());
        if !is_free || self.probing.forbids_trains(now, self.rtt.smoothed) || self.is_silent(now) {
            return None;
        }
        // Where several peers have been sent more than the estimate for a while without a queue, the estimate is too low to predict one.
        let is_beyond = !self.is_alone && self.pushes() && self.push.share > Push::LEAST && self.queue <= self.busy();
        let queue = if is_beyond { self.queue } else { self.predicted_queue(now) };
        if queue > (0.004f64).max(self.packets(3.0)) {
            return None;
        }
        let time = Self::TRAIN_TIME
            .max((12.0 * self.noise).max(Self::TRAIN_FRAMES * self.frame).min(Self::LONGEST_TRAIN_TIME));
        let count = if self.is_guess && self.packets(Self::FIRST_PACKETS) > Self::LONGEST_FIRST {
            f64::from(Self::SHORT)
        } else if self.is_guess {
            self.first_packets
        } else {
            let longest = Self::LONGEST_TRAIN_TIME * self.rate / PACKET;
            let most = if self.rate < Self::SLOW { Self::SLOW_PACKETS } else { 512.0 };
            let fair = (self.rate * Self::TURN / PACKET / self.peers as f64).max(Self::OWED);
            let count = (self.rate * time / PACKET).max(Self::TRAIN_PACKETS).min(most).min(longest).min(fair).max(4.0);
            // On a path that is narrower than the link a train waits for longer than the pace makes up for.
            if self.narrowest().is_some() { count.min(Self::NARROW_PACKETS) } else { count }
        };
        // The queue of a slow link may have no room for as many.
        let count = if self.rate < Self::SHORT_OF_ROOM { count.min(f64::from(self.trains.room())) } else { count };
        let rate = if self.is_guess { self.guessed_pace() * Self::FIRST_TRAIN } else { self.pace(now) * Self::TRAIN };
        Some(Plan { count: count as u32, rate })
    }

    /// Begins a train with packet `number` of `peer` if it is time for one and enough waits to be sent.
    pub(super) fn begin_train_if_due(
        &mut self,
        now: f64,
        peer: PeerId,
        number: PacketNumber,
        has_waiting: impl Fn(u64) -> bool,
    ) {
        let Some(plan) = self.plan_train(now) else { return };
        let bytes = |count: u32| u64::from(count) * PACKET as u64;
        let least = plan.count.min(if self.is_guess { Self::SHORT } else { Self::TRAIN_PACKETS as u32 });
        let counts = [plan.count, plan.count / 2, plan.count / 4];
        match counts.into_iter().map(|count| count.max(least)).find(|count| has_waiting(bytes(*count))) {
            Some(count) => self.begin_train(now, peer, number, Plan { count, ..plan }),
            // It is looked for again a little later.
            None => self.next_train = now + Self::RETRY,
        }
    }

    /// A train begins with packet `number` of `peer`.
    fn begin_train(&mut self, now: f64, peer: PeerId, number: PacketNumber, plan: Plan) {
        self.trains.begin(now, peer, number, plan);
        // On a slow link no train begins before the one before has left it.
        let interval = (self.rtt.smoothed / 4.0).clamp(0.05, 0.15).max(self.packets(f64::from(plan.count)));
        let interval = if self.rate < Self::SHORT_OF_ROOM { interval * self.trains.apart() } else { interval };
        self.next_train = now + if self.narrowest().is_some() { Self::SELDOM * interval } else { interval };
    }

    /// What trains find of several peers' paths, if these are narrower than the link. They tell nothing of the link then, but that a
    /// path has become wide again.
    pub(super) fn narrowest(&self) -> Option<f64> {
        let found = if self.is_shared { self.trains_find() } else { None };
        found.filter(|found| *found < Self::NARROW * self.rate)
    }

    /// A packet of `ip_bytes` left, and `position` bytes have entered the link with it. `rtt` is that of its peer, if that is one of
    /// several.
    pub(super) fn on_sent(&mut self, now: f64, ip_bytes: usize, position: f64, rtt: Option<f64>) {
        self.position = position;
        self.silence.on_sent(now, ip_bytes as f64, position, rtt);
        self.probing.on_sent(now, position - ip_bytes as f64);
        if self.trains.leaving_at().is_some() {
            let pace = self.pace(now);
            self.trains.on_sent(ip_bytes, pace);
        }
    }

    /// Takes in what a report of `peer` says. Returns until when to hold data back, and what of its delay is no queue.
    pub(super) fn on_report(&mut self, now: f64, peer: PeerId, news: &News<'_>) -> Judgement {
        let Sent { at: sent, position } = news.newest;
        // Where several peers report, what counts is how long the link's points take: a near peer is ahead of others with each report.
        let is_typical = if self.peers > 1 { news.point.is_some() } else { position > self.silence.reported() };
        if is_typical {
            self.rtt.sample(now - sent);
        }
        self.silence.on_report(now, sent, position);
        if self.trains.conclude(now, peer, news.largest, news.rtt.unwrap_or(self.rtt.smoothed)) {
            self.on_trains(now);
        }
        let mut judgement = Judgement::default();
        if self.trusts_rises && self.rise_position.is_some_and(|rise| position < rise) {
            self.counts = news.counts;
            return judgement;
        }
        if let Some(point) = news.point {
            if self.parts.has(EstimatorPart::Noise) {
                (self.noise, self.frame) = (news.wander.noise, news.wander.frame);
                self.doubt_trains();
            }
            judgement.shift = self.on_point(now, point);
        }
        let lost = if self.parts.has(EstimatorPart::Losses) { news.lost } else { &[] };
        let trains_count = self.rate >= Self::MOSTLY_TRAINS && !self.is_guess;
        for lost in lost.iter().filter(|lost| trains_count || !lost.is_train) {
            self.probing.on_lost(lost.position as f64, f64::from(lost.ip_size));
        }
        self.counts = news.counts;
        self.on_round(now, sent, position);
        if news.point.is_some() {
            judgement.hold_until = self.judge_queue(now);
        } else if now < self.drains_until - QueueTest::WORTH && position >= self.position - 2.0 * PACKET {
            // Hardly anything is under way.
            judgement.hold_until = Some(self.end_drain(now));
        }
        judgement
    }

    /// How points are made of stamps.
    pub(super) fn point_rule(&self, now: f64) -> PointRule {
        let packets = self.packets(Self::POINT_PACKETS).min(Self::LONGEST_POINT);
        let length = Self::POINT.max(packets).max(Self::POINT_FRAMES * self.frame);
        PointRule { length, is_steady: now - self.grown_at > 2.0 * self.rtt.smoothed }
    }

    /// Whether much more is in flight at the prior's rate than is sent before the link has answered.
    pub(super) fn is_long(&self) -> bool {
        self.belief.rate * self.rtt.smoothed > 2.0 * Self::UNPROVEN
    }

    /// Takes in a point. Returns what of its delay turned out to be no queue.
    fn on_point(&mut self, now: f64, point: Point) -> Option<f64> {
        self.notice_jump(&point);
        self.queue = point.queue;
        self.newest = Some(point);
        self.points.push_back(point);
        if self.points.len() > Self::MAX_POINTS {
            self.points.pop_front();
        }
        let shift = self.conclude_test(now, &point);
        if shift.is_some() {
            self.queue = 0.0;
            self.newest = Some(Point { queue: 0.0, ..point });
            self.points.clear();
        }
        if let Some(point) = self.newest {
            self.on_stretches(now, &point);
        }
        shift
    }

    /// After an outage, points, trains and rounds begin again. The estimate stays.
    pub(super) fn restart(&mut self, now: f64) {
        self.probing.ignore_losses_before(now);
        self.silence.end();
        self.points.clear();
        self.newest = None;
        self.trains.forget_results();
        self.probing.abandon();
        self.test = None;
    }

    /// The link is again the one that carried `rate` before: what was found since says nothing of it.
    pub(super) fn return_to(&mut self, now: f64, rate: f64) {
        self.restart(now);
        self.trains.forget_under_way();
        self.probing.forget_carried();
        self.probing.carried = 0.0;
        self.probing.doubt_limit();
        (self.raised_by, self.carried, self.ours) = (None, None, 1.0);
        self.set(rate, self.why);
    }

    /// The estimate is `rate` from now on.
    pub(super) fn set(&mut self, rate: f64, why: EstimateSource) {
        self.before_trains = if why == EstimateSource::Trains { self.before_trains.or(Some(self.rate)) } else { None };
        self.rate = rate.clamp((self.belief.rate * self.belief.least).min(self.belief.ceiling), self.belief.ceiling);
        self.why = why;
    }

    /// The link has answered: the prior is no longer all there is.
    pub(super) fn end_guess(&mut self) {
        self.is_guess = false;
        self.doubted = None;
    }

    /// From here on losses count, and points too.
    pub(super) fn restart_points(&mut self) {
        self.points.clear();
        self.points.extend(self.newest);
    }
}

impl Losses {
    /// None yet, from the start of everything.
    pub(super) fn none() -> Self {
        Self::new(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::prior::Prior;
    use super::*;
    use units::Rate;

    #[test]
    fn a_reported_rise_is_measured_though_a_policer_was_found_before() {
        let rtt = Duration::from_millis(550);
        let belief = |bps: u64| Prior::Configured(Rate::from_bps(bps)).belief(rtt, None);
        let mut link = Estimator::new(belief(20_000_000), rtt);
        link.end_guess();
        (0..3).for_each(|_| link.probing.back_off(10.0, 0.55));
        link.begin_at(belief(24_000_000), EstimateSource::Reported);
        assert!(link.probing.is_limited && link.plan_train(10.0).is_none(), "it is hardly more");
        link.begin_at(belief(100_000_000), EstimateSource::Reported);
        assert!(!link.probing.is_limited && link.plan_train(10.0).is_some());
    }

    #[test]
    fn a_reported_rise_does_not_slow_down_what_is_under_way() {
        let rtt = Duration::from_millis(550);
        let belief = |mbit: u64| Prior::Configured(Rate::from_bps(mbit * 1_000_000)).belief(rtt, None);
        let pace_after = |reports: &[u64]| {
            let mut link = Estimator::new(belief(40), rtt);
            link.end_guess();
            // A round trip at 40 Mbit/s is not reported yet.
            (1..=1833u32).for_each(|k| link.on_sent(f64::from(k) * 3e-4, 1500, 1500.0 * f64::from(k), None));
            reports.iter().for_each(|mbit| link.begin_at(belief(*mbit), EstimateSource::Reported));
            link.pace(0.55) * 8e-6
        };
        assert!((0.98..1.0).contains(&(pace_after(&[60]) / 40.0)), "{}", pace_after(&[60]));
        assert!((0.98..1.0).contains(&(pace_after(&[60, 90]) / 40.0)), "{}", pace_after(&[60, 90]));
        assert!(pace_after(&[60, 5, 30]) < 5.0, "a fall counts, and the rise after it has to prove itself");
    }
}
