//! Rates that are tried: a higher one where trains find more than the estimate, a lower one where losses without a queue may be a
//! policer's. Losses alone say nothing of the capacity; that they become fewer at a lower rate does.

use super::delays::Counts;
use super::estimate::{EstimateSource, EstimatorState};
use super::estimator::{Estimator, PACKET};
use super::losses::{Losses, Lossiness};
use super::parts::EstimatorPart;
use super::queue_test::Doubt;
use super::trains::median;
use smallvec::SmallVec;

/// The first packet of something: bytes that had entered the link before it, and when it was sent.
#[derive(Debug, Clone, Copy)]
struct Start {
    position: f64,
    sent: f64,
}

/// A higher rate for a moment.
#[derive(Debug, Clone, Copy)]
struct Trial {
    rate: f64,
    before: f64,
    start: Option<Start>,
    /// Bytes of it that are sent before it is judged, or all until then.
    pulse: f64,
    /// When they had been.
    ended: Option<f64>,
    /// What passes may be what fits a policer's bucket, so that as much has to be sent as is to be believed.
    has_to_be_sent: bool,
}

impl Trial {
    /// Bytes per second that were sent from `start` on, while the trial lasted; it was judged by what was sent up to `end`.
    fn sent(&self, start: Start, end: Start) -> f64 {
        let (bytes, until) = self.ended.map_or((end.position - start.position, end.sent), |ended| (self.pulse, ended));
        bytes / (until - start.sent).max(1e-3)
    }
}

/// A lower rate for a moment.
#[derive(Debug, Clone, Copy)]
struct Experiment {
    rate: f64,
    /// Bytes per second that arrived before it, and what was lost.
    arrived: f64,
    lossiness: Lossiness,
    /// Trains were spaced out: the link has a queue, so that losses need not be a policer's.
    is_serial: bool,
    /// How many lower ones have followed the first.
    again: u32,
    start: Option<Start>,
}

/// A stretch over which losses are counted.
#[derive(Debug, Clone, Copy)]
struct Round {
    start: Start,
    began: f64,
    /// What had arrived by then.
    counts: Counts,
    longest_queue: f64,
}

/// What is being tried, what losses are usual, and when more may be tried.
#[derive(Debug)]
pub(super) struct Probing {
    losses: Losses,
    round: Option<Round>,
    /// The share of packets that is lost without congestion, and over how many packets that was measured.
    pub(super) usual: f64,
    measured: f64,
    /// What the latest round lost beyond that, if it was more than noise; and rounds in a row that did.
    pub(super) excess: f64,
    excesses: u32,
    trial: Option<Trial>,
    next_trial: f64,
    failed: u32,
    /// So much was lost lately that it may have been a policer's doing.
    suspected_until: f64,
    /// What is beyond the estimate is dropped without a queue.
    pub(super) is_limited: bool,
    /// The policer's rate is known to a hundredth; what is tried beyond it next.
    is_exact: bool,
    step: f64,
    experiment: Option<Experiment>,
    next_experiment: f64,
    /// The first of two experiments in a row has found fewer losses.
    found_once: bool,
    /// Rounds count that began later than this.
    counts_from: f64,
    /// When a trial lost what it sent beyond the estimate.
    overshot_at: f64,
    /// When the latest packet left.
    sent_at: f64,
    /// The most that arrived in a round, in bytes per second, and when.
    carried: f64,
    carried_at: f64,
    pub(super) doubt: Doubt,
}

impl Default for Probing {
    fn default() -> Self {
        Self {
            losses: Losses::none(),
            round: None,
            usual: 0.0,
            measured: 0.0,
            excess: 0.0,
            excesses: 0,
            trial: None,
            next_trial: f64::NEG_INFINITY,
            failed: 0,
            suspected_until: f64::NEG_INFINITY,
            is_limited: false,
            is_exact: false,
            step: Self::CREEP,
            experiment: None,
            next_experiment: f64::NEG_INFINITY,
            found_once: false,
            counts_from: f64::NEG_INFINITY,
            overshot_at: f64::NEG_INFINITY,
            sent_at: f64::NEG_INFINITY,
            carried: 0.0,
            carried_at: f64::NEG_INFINITY,
            doubt: Doubt::default(),
        }
    }
}

impl Probing {
    /// Packets that the usual loss remembers, and how many make up the first guess of it.
    const MEMORY: f64 = 2000.0;
    const FIRST: f64 = 1000.0;
    /// The usual loss is believed up to here.
    const MOST_USUAL: f64 = 0.2;
    /// Losses beyond the usual by this share are no noise.
    const EXCESS: f64 = 0.02;
    /// After a failed trial the next is this long in coming, in seconds and in round trips, and twice as long after each other one.
    const BACK_OFF: f64 = 10.0;
    const BACK_OFF_ROUNDS: f64 = 16.0;
    const MOST_FAILED: u32 = 5;
    /// A trial is judged after a quarter of a round trip within these numbers of packets, an experiment after so many.
    const TRIAL_PACKETS: [f64; 2] = [24.0, 200.0];
    /// Nothing waits to be sent where nothing is sent for so long, in seconds and in packets.
    const IDLE: f64 = 0.05;
    const IDLE_PACKETS: f64 = 4.0;
    /// Where a policer was found, a trial lasts long enough to empty its bucket: seconds.
    const BUCKET: f64 = 1.0;
    const EXPERIMENT_PACKETS: f64 = 256.0;
    /// A round has so many packets and lasts so long, at least.
    const ROUND_PACKETS: f64 = 160.0;
    const ROUND: f64 = 0.2;
    /// So many packets are enough where this share of them is lost beyond the usual.
    const FEW_PACKETS: f64 = 64.0;
    const MANY: f64 = 0.2;
    /// What is tried beyond a policer's rate as it was found: at first, and at most.
    const CREEP: f64 = 0.01;
    const MOST_STEP: f64 = 0.04;
    /// An experiment's rate is this share of the estimate at least: it has to end.
    const LEAST_RATE: f64 = 0.125;
    /// Where an experiment loses less than this share of what was lost before, losses are by the rate, and a lower one is tried, so often.
    const EASED: f64 = 0.75;
    const MOST_AGAIN: u32 = 3;
    /// No policer loses more than this: a prior would have to be twenty times too high.
    const BROKEN: f64 = 0.95;
    /// For so many seconds after many losses trials are short.
    const SUSPECTED: f64 = 30.0;
    /// How long what arrived in a round is remembered.
    const CARRIED: f64 = 60.0;

    /// A packet is about to leave, when `position` bytes have entered the link.
    pub(super) fn on_sent(&mut self, now: f64, position: f64) {
        let start = Start { position, sent: now };
        self.begin_again_after_idling(now, position);
        if let Some(Experiment { start: begins @ None, .. }) = &mut self.experiment {
            *begins = Some(start);
            self.losses = Losses::new(position);
        } else if let Some(Trial { start: begins @ None, .. }) = &mut self.trial {
            *begins = Some(start);
        }
        if let Some(Trial { start: Some(start), pulse, ended: ended @ None, .. }) = &mut self.trial
            && position > start.position + *pulse
        {
            *ended = Some(now);
        }
    }

    /// A trial that has hardly begun when nothing waits to be sent begins again: what arrives in idle time is not what the link carries.
    fn begin_again_after_idling(&mut self, now: f64, position: f64) {
        let idle = now - std::mem::replace(&mut self.sent_at, now);
        if let Some(Trial { start: begins @ Some(_), rate, .. }) = &mut self.trial {
            let is_idle = idle > Self::IDLE.max(Self::IDLE_PACKETS * PACKET / *rate);
            *begins = begins.filter(|start| !is_idle || position > start.position + Self::TRIAL_PACKETS[0] * PACKET);
        }
    }

    pub(super) fn on_lost(&mut self, position: f64, ip_bytes: f64) {
        self.losses.add(position, ip_bytes);
    }

    pub(super) fn state(&self) -> EstimatorState {
        match (&self.experiment, &self.trial) {
            (Some(_), _) => EstimatorState::Experiment,
            (None, Some(_)) => EstimatorState::Trial,
            (None, None) => EstimatorState::Track,
        }
    }

    pub(super) fn trial_rate(&self) -> Option<f64> {
        self.trial.filter(|trial| trial.ended.is_none()).map(|trial| trial.rate)
    }

    pub(super) fn experiment_rate(&self) -> Option<f64> {
        self.experiment.map(|experiment| experiment.rate)
    }

    pub(super) fn is_busy(&self) -> bool {
        self.trial.is_some() || self.experiment.is_some()
    }

    /// Whether what was sent beyond the estimate of late was dropped, so that it queues nowhere.
    pub(super) fn drops_surplus(&self, now: f64, rtt: f64) -> bool {
        self.is_limited || now - self.overshot_at < 1.5 * rtt + 0.1
    }

    /// Whether so much was lost lately that it may have been a policer's doing.
    pub(super) fn suspects_policer(&self, now: f64) -> bool {
        self.is_limited || now <= self.suspected_until
    }

    pub(super) fn forbids_trains(&self, now: f64, rtt: f64) -> bool {
        self.experiment.is_some() || (self.is_limited && now < self.next_trial - 2.0 * rtt)
    }

    /// What was being tried and counted tells nothing.
    pub(super) fn abandon(&mut self) {
        (self.trial, self.experiment, self.round) = (None, None, None);
    }

    /// The link is said to carry more: what limited it may be gone. That it was there once delays trials of yet more as before.
    pub(super) fn doubt_limit(&mut self) {
        (self.is_limited, self.is_exact) = (false, false);
        (self.excesses, self.found_once, self.next_experiment) = (0, false, f64::NEG_INFINITY);
    }

    /// Of what was sent before `now` losses say nothing.
    pub(super) fn ignore_losses_before(&mut self, now: f64) {
        self.counts_from = now;
    }

    pub(super) fn end_trial(&mut self) {
        self.trial = None;
    }

    /// More is not tried for a while.
    fn back_off(&mut self, now: f64, rtt: f64) {
        self.failed = (self.failed + 1).min(Self::MOST_FAILED);
        let seconds = Self::BACK_OFF.max(Self::BACK_OFF_ROUNDS * rtt);
        self.next_trial = now + seconds * f64::from(1u32 << self.failed);
        self.is_exact &= self.is_limited;
        (self.is_limited, self.step) = (true, Self::CREEP);
    }
}

impl Estimator {
    /// A train raises the estimate by this at once; more is tried first.
    const AT_ONCE: f64 = 1.25;
    /// Others that are not measured are left this share of what trains find, at most.
    const LEAST_OURS: f64 = 0.2;
    /// Trains that were spaced out at up to this multiple of the estimate are believed to be the link's doing.
    const SURE: f64 = 12.0;
    /// The rate of a link of which nothing is known is tried up to this multiple at once, until one was too much: each trial takes a round trip.
    const UNKNOWN: f64 = 64.0;
    /// Where trains find a rate that differs by more from what they found before, the link has changed.
    const SAME: f64 = 0.1;
    /// Seconds for which a host stalls now and then.
    const STALL: f64 = 0.012;
    /// Packets of one frame arrive as fast as a host takes them: at so many times the rate of the link.
    const MUCH_FASTER: f64 = 16.0;
    /// A rate below this share of what was carried lately is much less.
    const FALLEN: f64 = 0.4;
    /// What trains find has to differ from the estimate by.
    const TOLERANCE: f64 = 0.06;

    /// Trains tell of the last two round trips, the last second, and the last so many packets of a slow link.
    const REMEMBERED_PACKETS: f64 = 48.0;

    /// Draws what follows from the latest trains.
    pub(super) fn on_trains(&mut self, now: f64) {
        let rtt = if self.queue > self.high() { self.rtt.smoothed.min(self.empty_rtt(now)) } else { self.rtt.smoothed };
        let since = now - (2.0 * rtt).max(1.0).max(self.packets(Self::REMEMBERED_PACKETS));
        let mut latest: SmallVec<[_; 8]> = self.trains.results(since).copied().collect();
        // On a link that has become slow trains are rare, and it may be as fast again.
        let wanted = if self.is_guess {
            1
        } else if self.has_carried() {
            latest.drain(..latest.len().saturating_sub(2));
            // Of two the lesser counts: the other may have left before the link became slow.
            let least = latest.iter().map(|result| result.found).fold(f64::INFINITY, f64::min);
            latest.retain(|result| result.found <= Self::AT_ONCE * least);
            2
        } else {
            3
        };
        let tells = self.is_guess || self.trains_tell();
        if latest.len() < wanted || self.probing.experiment.is_some() || !tells {
            return;
        }
        let dispersed: SmallVec<[_; 8]> = latest.iter().filter(|result| result.is_dispersed()).copied().collect();
        self.push.is_on = dispersed.len() * 2 > latest.len();
        if !self.push.is_on {
            let mut lower: SmallVec<[f64; 8]> =
                latest.iter().filter(|result| !result.is_dispersed()).map(|result| result.found).collect();
            return self.on_lower_bound(now, median(&mut lower));
        }
        let mut found: SmallVec<[f64; 8]> = dispersed.iter().map(|result| result.found).collect();
        // A stall makes a train look slow, and nothing makes it look much faster than the link.
        let found = if self.is_guess { found.iter().copied().fold(0.0, f64::max) } else { median(&mut found) };
        let mut spans: SmallVec<[f64; 8]> = dispersed.iter().map(|result| result.span).collect();
        let noise = 1.2 * self.noise / median(&mut spans) / (dispersed.len() as f64 / 2.0).sqrt();
        let tolerance = Self::TOLERANCE.max(noise);
        if let Some(carried) = self.carried.take()
            && (found / carried.found - 1.0).abs() < Self::SAME
        {
            // Trains find the link's rate as before, and others have a part of it.
            self.ours = (carried.rate / found).clamp(Self::LEAST_OURS, 1.0);
        }
        let rate = found * self.ours;
        let both = |agrees: &dyn Fn(f64) -> bool| dispersed.iter().rev().take(2).all(|r| agrees(r.found * self.ours));
        if self.is_guess {
            let believed = self.rate * self.belief.confidence;
            let late_by = median(&mut spans) * (1.0 - found / believed);
            if rate > Self::MUCH_FASTER * self.rate && self.lengthens_first_train() {
                return;
            }
            let is_doubtful = rate * Self::AT_ONCE < believed && late_by < Self::STALL;
            if is_doubtful && self.doubted.is_none_or(|(_, until)| now >= until) {
                self.doubted = Some((rate, now + 2.0 * self.rtt.smoothed + 1.0));
                return;
            }
            self.end_guess();
            self.points.clear();
            self.trains.forget_results();
            self.grown_at = now;
            if rate > Self::AT_ONCE * self.rate {
                self.rate *= self.belief.confidence;
            }
            // The first train is short, and on a fast link as long as its noise: what it finds near the prior confirms that.
            let is_longer = self.first_packets > Self::FIRST_PACKETS;
            let is_confirmed = (rate / self.rate - 1.0).abs() < noise.min(Self::AT_ONCE - 1.0)
                || is_longer && rate > Self::LONGER_TELLS * self.rate;
            let (rate, found) = if is_confirmed { (self.rate, None) } else { (rate, Some(found)) };
            self.raise_to(now, rate, found);
            if is_longer {
                // It has outlasted a frame: that there are frames is no reason to take it back.
                self.before_trains = None;
            }
        } else if rate > self.rate * (1.0 + tolerance)
            && now - self.lowered_at > 1.2 * self.rtt.smoothed + 0.1
            && both(&|rate| rate > self.rate * (1.0 + tolerance / 2.0))
        {
            if self.probing.trial.is_none() {
                self.raise_to(now, rate, Some(found));
            }
        } else if rate < self.rate * (1.0 - tolerance)
            && now - self.raised_at > self.rtt.smoothed + 0.1
            && self.queue > self.busy()
            && !self.is_shared
            && !self.is_crowded
            && both(&|rate| rate < self.rate * (1.0 - tolerance / 2.0))
        {
            self.set(rate, EstimateSource::Trains);
            self.points.clear();
            self.trains.forget_results();
            self.probing.trial = None;
        }
    }

    /// Whether the link has carried much more of late, and neither a policer nor one of several paths is what limits it now.
    fn has_carried(&self) -> bool {
        self.is_alone && self.rate < Self::FALLEN * self.probing.carried && !self.probing.is_limited
    }

    /// Trains were not spaced out: the link carries `found` at least.
    fn on_lower_bound(&mut self, now: f64, found: f64) {
        if self.is_guess {
            if self.lengthens_first_train() {
                return;
            }
            self.end_guess();
            self.points.clear();
            self.rate *= self.belief.confidence;
            if self.belief.confidence == 1.0 {
                // There is no haste to try more than is believed: other trains follow, and the news of what was lost.
                return;
            }
        }
        let may = self.probing.trial.is_none()
            && now >= self.probing.next_trial
            && self.rate < self.belief.ceiling
            && (self.probing.excess == 0.0 || self.has_carried());
        if found > 1.1 * self.rate && may {
            self.raise_to(now, found, None);
        }
    }

    /// Trains say that the link carries `rate`: `found` if they were spaced out, more otherwise.
    fn raise_to(&mut self, now: f64, rate: f64, found: Option<f64>) {
        let rate = rate.min(self.belief.ceiling);
        let is_tried = self.parts.has(EstimatorPart::Trials);
        if !is_tried || rate <= Self::AT_ONCE * self.rate || rate <= 1.02 * self.probing.carried {
            self.raised_by = found.filter(|_| rate > self.rate);
            self.set(rate, EstimateSource::Trains);
        } else if now >= self.probing.next_trial {
            let most = match found {
                _ if self.probing.is_limited => Self::AT_ONCE,
                Some(_) if rate <= 4.0 * self.rate => 4.0,
                _ if self.belief.confidence < 1.0 && self.probing.overshot_at == f64::NEG_INFINITY => Self::UNKNOWN,
                Some(_) => 3.0,
                None => 2.0,
            };
            let rate = rate.min(most * self.rate);
            // Where trains were not spaced out the link may be a policer's: what is beyond its rate is lost, and has to be short.
            let is_sure = found.is_some_and(|found| found <= Self::SURE * self.rate)
                && most < Self::UNKNOWN
                && now > self.probing.suspected_until;
            let pulse = if is_sure { f64::INFINITY } else { self.trial_length(rate) };
            let has_to_be_sent = self.probing.is_limited || (!is_sure && most < Self::UNKNOWN);
            let trial = Trial { rate, before: self.rate, start: None, pulse, ended: None, has_to_be_sent };
            self.probing.trial = Some(trial);
            self.raised_by = found;
        } else {
            return;
        }
        self.raised_at = now;
        self.points.clear();
        self.trains.forget_results();
    }

    /// Bytes by which a trial is judged.
    fn trial_length(&self, rate: f64) -> f64 {
        let [least, most] = Probing::TRIAL_PACKETS.map(|packets| packets * PACKET);
        let bucket = if self.probing.is_limited { Probing::BUCKET * rate } else { 0.0 };
        (0.25 * self.rtt.smoothed * rate).clamp(least, most).max(bucket)
    }

    /// A report came, whose newest packet was sent at `sent` and ended at `position`: judges what was lost if it is time.
    pub(super) fn on_round(&mut self, now: f64, sent: f64, position: f64) {
        let queue = self.queue;
        let Some(round) = &mut self.probing.round else {
            if self.probing.experiment.is_none() {
                self.probing.losses = Losses::new(position);
            }
            let start = Start { position, sent };
            self.probing.round = Some(Round { start, began: now, counts: self.counts, longest_queue: queue });
            return;
        };
        round.longest_queue = round.longest_queue.max(queue);
        let round = *round;
        if let Some(experiment) = self.probing.experiment {
            let Some(start) = experiment.start else { return };
            if position >= start.position + Probing::EXPERIMENT_PACKETS * PACKET {
                self.judge_experiment(now, &experiment, (start, Start { position, sent }));
            }
        } else if let Some(trial) = self.probing.trial {
            let Some(start) = trial.start else { return };
            if position < start.position && self.loses_much(&round, position) {
                // There is too much already.
                self.probing.trial = None;
            } else if position >= start.position + self.trial_length(trial.rate) {
                self.judge_trial(now, &trial, (start, Start { position, sent }));
            }
        } else {
            let packets = (position - round.start.position) / PACKET;
            let is_long =
                now - round.began >= self.rtt.smoothed.max(Probing::ROUND) && packets >= Probing::ROUND_PACKETS;
            if is_long {
                self.judge_round(now, &round, Start { position, sent });
            } else if self.loses_much(&round, position) {
                // What a policer's bucket let through at first tells nothing of its rate.
                let middle =
                    Start { position: (round.start.position + position) / 2.0, sent: (round.start.sent + sent) / 2.0 };
                self.judge_round(now, &Round { start: middle, ..round }, Start { position, sent });
            }
        }
    }

    /// Whether so much of a round is lost that there is no need to wait for its end.
    fn loses_much(&mut self, round: &Round, position: f64) -> bool {
        let is_queued = round.longest_queue >= (0.012f64).max(self.packets(6.0));
        if is_queued || position - round.start.position < Probing::FEW_PACKETS * PACKET {
            return false;
        }
        let losses = &mut self.probing.losses;
        let may_be = losses.total() > Probing::MANY * (position - round.start.position);
        may_be && losses.between(round.start.position, position).median > Probing::MANY + self.probing.usual
    }

    /// A new round begins with what was sent after `end`.
    fn begin_round(&mut self, now: f64, end: Start) {
        self.probing.losses = Losses::new(end.position);
        self.probing.round = Some(Round { start: end, began: now, counts: self.counts, longest_queue: 0.0 });
    }

    fn judge_trial(&mut self, now: f64, trial: &Trial, (start, end): (Start, Start)) {
        let half = (start.position + end.position) / 2.0;
        let lossiness = self.probing.losses.between(half, end.position);
        let sent = (end.position - start.position) / (end.sent - start.sent).max(1e-3);
        let arrived = self.received_since((start.sent + end.sent) / 2.0).unwrap_or(sent * (1.0 - lossiness.mean));
        self.begin_round(now, end);
        self.note_excess(lossiness);
        self.probing.trial = None;
        let excess = lossiness.median - self.probing.usual;
        if excess > (0.03f64).max(0.2 * (1.0 - trial.before / trial.rate)) {
            self.probing.back_off(now, self.rtt.smoothed);
            self.probing.is_exact = false;
            let rate = (arrived / (1.0 - self.probing.usual)).min(trial.rate);
            self.set(rate * 0.99, EstimateSource::Losses);
            (self.probing.counts_from, self.probing.overshot_at) = (now, now);
        } else {
            self.pass_trial(now, trial, trial.sent(start, end));
        }
    }

    /// Nothing of a trial was lost, and `sent` bytes per second were sent during it.
    fn pass_trial(&mut self, now: f64, trial: &Trial, sent: f64) {
        let rate = if trial.has_to_be_sent { trial.rate.min(Self::AT_ONCE * sent) } else { trial.rate };
        if rate > trial.before {
            self.set(rate, EstimateSource::Trial);
            (self.probing.failed, self.probing.next_trial, self.probing.is_limited) = (0, now, false);
        } else {
            self.probing.next_trial = now + self.rtt.smoothed;
        }
    }

    /// The first point from `start` on: there may have been nothing to send before it.
    fn sent_at(&self, start: Start) -> Option<Start> {
        let first = self.points.iter().find(|point| point.position >= start.position)?;
        Some(Start { position: first.position, sent: first.sent })
    }

    /// Bytes per second that arrived of what was sent since `sent`; `None` if that was too short a time ago.
    fn received_since(&self, sent: f64) -> Option<f64> {
        let first = self.points.iter().find(|point| point.sent >= sent)?;
        let (before, after) = (&first.counts, &self.points.back()?.counts);
        let took = after.since(before).filter(|took| *took >= 0.04)?;
        Some((after.received - before.received) / took)
    }

    fn note_excess(&mut self, lossiness: Lossiness) {
        let excess = lossiness.median - self.probing.usual;
        self.probing.excess = if excess > Probing::EXCESS { excess } else { 0.0 };
    }

    fn judge_experiment(&mut self, now: f64, experiment: &Experiment, (start, end): (Start, Start)) {
        let lossiness = self.probing.losses.between(start.position, end.position);
        let (before, usual) = (experiment.lossiness, self.probing.usual);
        self.begin_round(now, end);
        self.note_excess(lossiness);
        self.probing.experiment = None;
        self.probing.counts_from = now;
        let is_third = |now: f64, before: f64| now <= usual + (before - usual) / 3.0;
        let has_fallen = is_third(lossiness.median, before.median) && is_third(lossiness.mean, before.mean);
        let is_clear = before.median > Probing::MANY;
        if has_fallen && experiment.is_serial && !is_clear && !self.probing.found_once {
            // Losses that come and go by themselves rarely do so twice with us.
            (self.probing.found_once, self.probing.excesses, self.probing.next_experiment) = (true, 1, now);
            return;
        }
        self.probing.found_once = false;
        let has_eased = lossiness.mean < Probing::EASED * before.mean && lossiness.mean > Probing::MANY / 2.0;
        if !has_fallen && is_clear && has_eased && experiment.again < Probing::MOST_AGAIN {
            // What a bucket had let through made the rate too high.
            let arrived = experiment.rate * (1.0 - lossiness.mean);
            let rate = (arrived * 0.95).max(self.least_experiment());
            let again = experiment.again + 1;
            self.probing.experiment = Some(Experiment { rate, arrived, again, start: None, ..*experiment });
            self.probing.round = None;
            return;
        }
        if has_fallen {
            // The experiment's rate is higher where nearly all was lost before.
            let arrived = experiment.arrived.max(experiment.rate * (1.0 - lossiness.mean));
            self.set(arrived * 0.995, EstimateSource::Losses);
            if let Some(found) = self.trains_find() {
                self.ours = (experiment.arrived / found).clamp(Self::LEAST_OURS, 1.0);
            }
            self.probing.back_off(now, self.rtt.smoothed);
            self.end_guess();
        } else if !self.is_unproven_rise() {
            self.probing.usual += 0.7 * (lossiness.mean - usual);
        }
        self.probing.next_experiment = now + (6.0 * self.rtt.smoothed).max(4.0);
    }

    /// Whether a higher capacity was reported than was measured, and the link has not carried it yet. A train that passes a policer's bucket
    /// ends the guess, and proves nothing.
    fn is_unproven_rise(&self) -> bool {
        self.proven.is_some_and(|proven| self.is_guess || self.rate > Self::BELIEVED * proven)
    }

    /// The least rate of an experiment. A policer may pass far less than what is reported, but not less than was measured before.
    fn least_experiment(&self) -> f64 {
        let least = self.rate * Probing::LEAST_RATE;
        let proven = self.proven.filter(|_| self.is_unproven_rise());
        proven.map_or(least, |proven| least.min(proven * 0.95))
    }

    /// What trains find, if they are spaced out.
    pub(super) fn trains_find(&self) -> Option<f64> {
        let all = self.trains.results(f64::NEG_INFINITY).count();
        let dispersed = self.trains.results(f64::NEG_INFINITY).filter(|result| result.is_dispersed());
        let mut found: SmallVec<[f64; 8]> = dispersed.map(|result| result.found).collect();
        (found.len() * 2 > all).then(|| median(&mut found))
    }

    fn judge_round(&mut self, now: f64, round: &Round, end: Start) {
        let lossiness = self.probing.losses.between(round.start.position, end.position);
        let began = self.sent_at(round.start).filter(|began| began.sent < end.sent).unwrap_or(round.start);
        self.begin_round(now, end);
        if round.start.sent < self.probing.counts_from {
            return;
        }
        let packets = (end.position - round.start.position) / PACKET;
        let sent = (end.position - began.position) / (end.sent - began.sent).max(1e-3);
        let arrived = sent * (1.0 - lossiness.mean);
        let is_empty = round.longest_queue < (0.012f64).max(self.packets(6.0));
        let took = self.counts.since(&round.counts);
        let counted = took.map(|took| (self.counts.received - round.counts.received) / took);
        let usual = self.probing.usual;
        let excess = lossiness.median - usual;
        let is_old = now - self.probing.carried_at > Probing::CARRIED;
        if (excess < Probing::EXCESS && arrived > self.probing.carried * 0.98) || is_old {
            self.probing.carried = arrived / (1.0 - usual.min(Probing::MOST_USUAL));
            self.probing.carried_at = now;
        }
        self.note_excess(lossiness);
        if excess > Probing::MANY {
            self.probing.suspected_until = now + Probing::SUSPECTED;
        }
        if is_empty && excess < Probing::EXCESS {
            self.proven = self.proven.map(|proven| proven.max(arrived.min(counted.unwrap_or(arrived))));
        }
        let noise = 2.0 * (usual.max(0.002) / packets).sqrt();
        // What was only late is not missing among what arrived.
        let is_missing = counted.is_none_or(|counted| counted < sent * (1.0 - excess / 2.0));
        // Where hardly anything arrives, the path is broken, or its MTU has shrunk.
        let is_broken = lossiness.mean > Probing::BROKEN;
        let is_more = excess > Probing::EXCESS.max(noise) && lossiness.mean - usual > Probing::EXCESS && is_missing;
        // Trains do not pass a policer that what is sent keeps busy: losses are all that answers a reported rise there, and what is reported
        // may be any multiple of what passes.
        let may_be_policed = self.is_unproven_rise() || !self.is_guess && !is_broken;
        if is_more && is_empty && may_be_policed {
            self.probing.excesses += 1;
            let is_sure = self.probing.excesses >= 2 || lossiness.median > Probing::MANY;
            let may = self.parts.has(EstimatorPart::Experiments);
            if may && now >= self.probing.next_experiment && is_sure {
                let is_serial = self.trains_find().is_some();
                let rate = arrived * if lossiness.median > Probing::MANY { 0.95 } else { 0.98 };
                let rate = rate.max(self.least_experiment());
                self.probing.experiment =
                    Some(Experiment { rate, arrived, lossiness, is_serial, again: 0, start: None });
                (self.probing.excesses, self.probing.round) = (0, None);
                return;
            }
        } else {
            self.probing.excesses = 0;
        }
        if self.probing.is_limited && !self.probing.is_exact {
            self.creep(lossiness, sent, arrived);
        } else {
            self.follow_usual(now, lossiness, packets, is_empty);
        }
        // A queue that overflows passes what the link carries. Where less was sent, as while a queue drains, it shows no limit.
        let carried = counted.unwrap_or(0.0).max(arrived);
        let is_loaded = sent > 0.95 * self.rate && carried < 0.97 * self.rate;
        if is_loaded && !is_empty && !is_broken && excess > 0.03 && now - self.lowered_at > self.rtt.smoothed {
            self.set(carried, EstimateSource::Losses);
            (self.lowered_at, self.probing.counts_from) = (now, now);
        }
        if self.ours < 1.0 && is_empty {
            self.ours = (self.ours * 1.01).min(1.0);
        }
    }

    /// What a short trial found of a policer is not exact: a little more each round, until that is lost.
    fn creep(&mut self, lossiness: Lossiness, sent: f64, arrived: f64) {
        if sent < 0.95 * self.rate {
            return;
        }
        if lossiness.mean - self.probing.usual > Probing::CREEP {
            self.probing.is_exact = true;
            self.set(arrived * 0.995, EstimateSource::Losses);
        } else {
            self.set(self.rate * (1.0 + self.probing.step), EstimateSource::Losses);
            self.probing.step = (2.0 * self.probing.step).min(Probing::MOST_STEP);
        }
    }

    /// Without a queue, and without more losses than usual, what is lost is the usual.
    fn follow_usual(&mut self, now: f64, lossiness: Lossiness, packets: f64, is_empty: bool) {
        let is_usual = lossiness.median - self.probing.usual <= Probing::EXCESS || now < self.probing.next_experiment;
        if !self.is_guess && is_empty && is_usual {
            let is_known = self.probing.measured > Probing::FIRST;
            let weight = if is_known { (packets / Probing::MEMORY).min(0.5) } else { 0.3 };
            self.probing.usual += weight * (lossiness.mean.min(Probing::MOST_USUAL) - self.probing.usual);
            self.probing.measured += packets;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::estimator::Carried;
    use super::super::prior::Prior;
    use super::super::trains::Plan;
    use super::*;
    use crate::event::PeerId;
    use crate::packet_number::PacketNumber;
    use units::{Duration, Rate};

    const PEER: PeerId = PeerId(0);

    /// A train of 16 packets that was sent at `offered` bytes per second has arrived at `found` by `now`.
    fn train_arrives(link: &mut Estimator, now: f64, first: PacketNumber, offered: f64, found: f64) {
        link.trains.begin(now - 0.6, PEER, first, Plan { count: 16, rate: offered });
        for k in 0..16 {
            assert!(link.trains.advance(PEER, first + k));
            link.trains.on_sent(1500, offered / 64.0);
            let position = 1500.0 * (k + 1) as f64;
            link.trains.on_stamp(PEER, first + k, position, now - 0.3 + position / found);
        }
        assert!(link.trains.conclude(now, PEER, first + 16, 0.6));
        link.on_trains(now);
    }

    /// What is believed of a link of `bps`, and the pace there, after first trains of 16 packets that arrived at `times` its rate.
    fn after_first_trains(bps: f64, times: &[f64]) -> [f64; 2] {
        let prior = Prior::Configured(Rate::from_bps(bps as u64));
        let mut link = Estimator::new(prior.belief(Duration::from_millis(600), None), Duration::from_millis(600));
        let (rate, mut now) = (bps / 8.0, 1.6);
        for (train, times) in (0..).zip(times) {
            train_arrives(&mut link, now, PacketNumber::new(train * 16), 64.0 * rate, times * rate);
            now += 0.15;
        }
        [link.rate / rate, link.pace(now) / rate]
    }

    #[test]
    fn a_first_train_that_is_as_short_as_the_noise_confirms_a_prior_near_by() {
        // Sixteen packets take 1 ms at 200 Mbit/s: hosts that take in arrivals in clumps shorten that.
        assert_eq!(after_first_trains(200e6, &[1.2])[0], 1.0);
        assert!((after_first_trains(6e6, &[1.2])[0] - 1.2).abs() < 0.01, "there they take 32 ms");
    }

    #[test]
    fn a_train_in_which_a_host_stalls_does_not_undo_a_prior() {
        let [rate, pace] = after_first_trains(200e6, &[0.1]);
        assert!(rate == 1.0 && pace < 0.11, "{rate}, {pace}: it waits for a second train");
        assert_eq!(after_first_trains(200e6, &[0.1, 0.98])[0], 1.0);
        let [rate, _] = after_first_trains(200e6, &[0.5, 0.52]);
        assert!((rate - 0.52).abs() < 0.01, "{rate}: the prior was twice too much");
    }

    /// The share of what trains find that is ours, where the link carried 2 MB/s after trains had found 8, and now find `found`.
    fn ours_after(found: f64) -> f64 {
        let prior = Prior::Configured(Rate::from_bps(64_000_000));
        let mut link = Estimator::new(prior.belief(Duration::from_millis(60), None), Duration::from_millis(60));
        link.end_guess();
        link.carried = Some(Carried { rate: 2e6, found: 8e6 });
        for train in 0..3 {
            train_arrives(&mut link, 1.0 + 0.1 * train as f64, PacketNumber::new(train * 16), 64e6, found);
        }
        link.ours
    }

    #[test]
    fn others_have_the_rest_of_a_link_whose_trains_find_as_much_as_before() {
        assert!((ours_after(8e6) - 0.25).abs() < 0.01, "{}", ours_after(8e6));
        for found in [6e6, 12e6] {
            assert_eq!(ours_after(found), 1.0, "the link has changed: {found}");
        }
    }

    #[test]
    fn a_trial_begins_with_what_is_sent_without_a_pause() {
        let trial =
            Trial { rate: 7.5e6, before: 2.5e6, start: None, pulse: f64::INFINITY, ended: None, has_to_be_sent: false };
        let mut probing = Probing { trial: Some(trial), ..Probing::default() };
        probing.on_sent(10.0, 100.0);
        // Nothing waited for two seconds.
        (0..40).for_each(|k| probing.on_sent(12.0 + f64::from(k) * 2e-4, 100.0 + 1500.0 * f64::from(k + 1)));
        let start = |probing: &Probing| probing.trial.expect("it goes on").start.expect("it has begun").sent;
        assert_eq!(start(&probing), 12.0);
        probing.on_sent(14.0, 70e3);
        assert_eq!(start(&probing), 12.0, "enough was sent by then");
    }

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

    #[test]
    fn a_rate_that_a_policer_still_drops_from_is_followed_by_a_lower_one() {
        let prior = Prior::Configured(Rate::from_bps(128_000_000));
        let mut link = Estimator::new(prior.belief(Duration::from_millis(600), None), Duration::from_millis(600));
        // A policer passes 2.5 MB/s; its bucket had let more through before.
        let lossiness = Lossiness { mean: 0.77, median: 0.77 };
        let first = Experiment { rate: 4e6, arrived: 4.2e6, lossiness, is_serial: false, again: 0, start: None };
        let end = |packets: f64| Start { position: 1500.0 * packets, sent: 2.0 };
        link.probing.losses = Losses::new(0.0);
        (0..256).filter(|k| k % 8 < 3).for_each(|k| link.probing.on_lost(1500.0 * f64::from(k + 1), 1500.0));
        link.judge_experiment(2.6, &first, (Start { position: 0.0, sent: 1.0 }, end(256.0)));
        let second = link.probing.experiment.expect("another one");
        assert!((second.arrived / 2.5e6 - 1.0).abs() < 0.02 && second.rate < second.arrived, "{second:?}");
        link.judge_experiment(4.6, &second, (end(256.0), end(512.0)));
        assert!(link.probing.experiment.is_none() && (link.rate / 2.5e6 - 1.0).abs() < 0.02, "{}", link.rate);
    }
}
