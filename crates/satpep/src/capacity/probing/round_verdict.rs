//! What follows from losses: those of a trial, of an experiment, and of a round in which nothing was tried.

use super::super::estimate::EstimateSource;
use super::super::estimator::Estimator;
use super::super::losses::{Losses, Lossiness};
use super::super::parts::EstimatorPart;
use super::super::quantities::PACKET;
use super::{Experiment, Leap, Probing, Round, Start, Trial};

/// What a round shows of the link.
struct RoundFigures {
    packets: f64,
    /// Bytes per second that were sent, and that arrived if nothing was lost but what is known to be.
    sent: f64,
    arrived: f64,
    /// Bytes per second that the receiver counted, if one clock timed them.
    counted: Option<f64>,
    lossiness: Lossiness,
    /// The share of packets that was lost beyond the usual.
    excess: f64,
    /// There was no queue.
    is_empty: bool,
}

impl RoundFigures {
    /// Whether hardly anything arrives: the path is broken, or its MTU has shrunk.
    fn is_broken(&self) -> bool {
        self.lossiness.mean > Probing::BROKEN
    }
}

impl Estimator {
    /// Bytes by which a trial is judged.
    pub(super) fn trial_length(&self, rate: f64) -> f64 {
        let [least, most] = Probing::TRIAL_PACKETS.map(|packets| packets * PACKET);
        let bucket = if self.probing.is_limited { Probing::BUCKET * rate } else { 0.0 };
        (0.25 * self.rtt.smoothed * rate).clamp(least, most).max(bucket)
    }

    /// A report came, whose newest packet was sent at `sent` and ended at `position`: judges what was lost if it is time.
    pub(in super::super) fn on_round(&mut self, now: f64, sent: f64, position: f64) {
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
            if self.losses_have_ended(&experiment, position) {
                self.probing.experiment = None;
                return self.begin_round(now, Start { position, sent });
            }
            let Some(start) = experiment.start else { return };
            if position >= start.position + Probing::EXPERIMENT_PACKETS * PACKET {
                self.judge_experiment(now, &experiment, (start, Start { position, sent }));
            }
        } else if let Some(trial) = self.probing.trial {
            let Some(start) = trial.start else { return };
            if position < start.position && self.loses_much(&round, position) {
                // There is too much already.
                self.probing.trial = None;
                self.judge_lossy_round(now, &round, Start { position, sent });
            } else if position >= start.position + self.trial_length(trial.rate) {
                self.judge_trial(now, &trial, (start, Start { position, sent }));
            }
        } else {
            let packets = (position - round.start.position) / PACKET;
            let is_long =
                now - round.began >= self.rtt.smoothed.max(Probing::ROUND) && packets >= Probing::ROUND_PACKETS;
            if is_long {
                self.judge_round(now, &round, Start { position, sent });
            } else if (self.probing.leap.is_some() || !self.carries(now, 0.0)) && self.loses_much(&round, position) {
                self.judge_lossy_round(now, &round, Start { position, sent });
            }
        }
    }

    /// Whether there was a queue in a round.
    fn has_queued(&self, round: &Round) -> bool {
        round.longest_queue >= (0.012f64).max(self.packets(6.0))
    }

    /// Whether the link has carried the estimate of late, and not by the bucket of a policer that passes `arrived` bytes per second. What it
    /// loses now may be a handover's or an obstacle's doing.
    fn carries(&self, now: f64, arrived: f64) -> bool {
        let (rate, at) = self.probing.carried_whole;
        match self.probing.leap {
            Some(leap) => leap.exceeds_policer(now, self.counts.received, arrived),
            None => rate >= Probing::CARRIES * self.rate && now - at < Probing::CARRIED,
        }
    }

    /// Whether so much of a round is lost that there is no need to wait for its end.
    fn loses_much(&mut self, round: &Round, position: f64) -> bool {
        if self.has_queued(round) || position - round.start.position < Probing::FEW_PACKETS * PACKET {
            return false;
        }
        let losses = &mut self.probing.losses;
        let may_be = losses.total() > Probing::MANY * (position - round.start.position);
        may_be && losses.between(round.start.position, position).median > Probing::MANY + self.probing.usual
    }

    /// Whether the many losses that led to `experiment` ended before a lower rate was sent: of what was sent since, up to `position`, much
    /// more arrives. A policer whose bucket is empty passes no more, whatever pauses there are.
    fn losses_have_ended(&self, experiment: &Experiment, position: f64) -> bool {
        let is_before = experiment.start.is_none_or(|start| position < start.position);
        let Some(newest) = self.points.back().filter(|_| is_before && experiment.is_clear()) else { return false };
        let is_long = newest.sent - experiment.shown > Probing::ENDED.max(self.packets(Probing::FEW_PACKETS));
        let arrived = self.received_since(experiment.shown).filter(|_| is_long);
        arrived.is_some_and(|arrived| arrived > (experiment.arrived + self.rate) / 2.0)
    }

    /// Whether the many losses that led to `experiment` went on when it was sent, from `start` to `end`, and ended then. A policer's end with
    /// what was sent before.
    fn losses_outlast(&mut self, experiment: &Experiment, start: Start, end: Start) -> bool {
        let (before, usual) = (experiment.lossiness, self.probing.usual);
        let (head, half) = (Probing::EXPERIMENT_HEAD * PACKET, (start.position + end.position) / 2.0);
        let losses = &mut self.probing.losses;
        let first = losses.between(start.position, start.position + head).mean;
        let last = losses.between(half, end.position).mean;
        experiment.is_clear() && first - usual > (before.mean - usual) / 2.0 && last - usual < Probing::EXCESS
    }

    /// A new round begins with what was sent after `end`.
    fn begin_round(&mut self, now: f64, end: Start) {
        self.probing.losses = Losses::new(end.position);
        self.probing.round = Some(Round { start: end, began: now, counts: self.counts, longest_queue: 0.0 });
    }

    fn judge_trial(&mut self, now: f64, trial: &Trial, (start, end): (Start, Start)) {
        let half = (start.position + end.position) / 2.0;
        let lossiness = self.probing.losses.between(half, end.position);
        let passed = trial.sent(start, end) * (1.0 - lossiness.mean);
        // What the receiver counted is also that of the time after a short trial.
        let arrived = self.received_since((start.sent + end.sent) / 2.0).unwrap_or(0.0).max(passed);
        let is_short =
            (end.position - half) / PACKET < Probing::FEW_PACKETS / 2.0 || trial.lasted(start, end) < Probing::BRIEF;
        self.begin_round(now, end);
        self.note_excess(lossiness);
        self.probing.trial = None;
        let excess = lossiness.median - self.probing.usual;
        if excess > (0.03f64).max(0.2 * (1.0 - trial.before / trial.rate)) {
            self.probing.back_off(now, self.rtt.smoothed);
            self.probing.is_exact = false;
            // So few packets tell no rate: what passed before still does. Of more, the time that is counted may be that after the trial, too.
            let least = trial.before * if is_short { 1.0 } else { Probing::LEAST_LEFT };
            let rate = (arrived / (1.0 - self.probing.usual)).max(least).min(trial.rate);
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
            if rate > Self::BELIEVED * trial.before {
                let before = self.probing.leap.map_or(trial.before, |leap| leap.before);
                self.probing.leap = Some(Leap { before, at: now, received: self.counts.received });
            }
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
        let outlast = self.losses_outlast(experiment, start, end);
        self.begin_round(now, end);
        if self.counts.late - experiment.late > Probing::MOSTLY * experiment.lost {
            // What led to it was late, not lost: there is nothing to be found.
            (self.probing.experiment, self.probing.counts_from, self.probing.found_once) = (None, now, false);
            self.probing.next_experiment = now + (6.0 * self.rtt.smoothed).max(4.0);
            return;
        }
        self.note_excess(lossiness);
        self.probing.experiment = None;
        self.probing.counts_from = now;
        if outlast {
            return;
        }
        let is_third = |now: f64, before: f64| now <= usual + (before - usual) / 3.0;
        let has_fallen = is_third(lossiness.median, before.median) && is_third(lossiness.mean, before.mean);
        let is_clear = experiment.is_clear();
        let is_doubtful = experiment.is_serial && (!is_clear || self.carries(now, experiment.arrived));
        if has_fallen && is_doubtful && !self.probing.found_once {
            // Losses that come and go by themselves rarely do so twice with us.
            (self.probing.found_once, self.probing.excesses, self.probing.next_experiment) = (true, 1, now);
            return;
        }
        self.probing.found_once = false;
        let has_eased = lossiness.mean < Probing::EASED * before.mean && lossiness.mean > Probing::MANY / 2.0;
        if !has_fallen && is_clear && has_eased && experiment.again < Probing::MOST_AGAIN {
            // What a bucket had let through made the rate too high.
            let arrived = experiment.rate * (1.0 - lossiness.mean);
            let least = self.least_experiment().min(experiment.rate) * Probing::LEAST_RATE;
            let rate = (arrived * Probing::FAR_BELOW).max(least);
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
            self.probing.usual += 0.7 * (lossiness.mean.min(Probing::MOST_USUAL) - usual);
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

    /// Judges a round that loses much, before its end, by its second half: what a policer's bucket let through at first tells nothing of its
    /// rate.
    fn judge_lossy_round(&mut self, now: f64, round: &Round, end: Start) {
        let start =
            Start { position: (round.start.position + end.position) / 2.0, sent: (round.start.sent + end.sent) / 2.0 };
        self.judge_round(now, &Round { start, ..*round }, end);
    }

    /// Judges a round in which nothing was tried, by what was sent in it up to `end`.
    fn judge_round(&mut self, now: f64, round: &Round, end: Start) {
        let figures = self.figures(round, end);
        self.begin_round(now, end);
        if round.start.sent < self.probing.counts_from {
            return;
        }
        self.note_carried(now, &figures);
        if self.tries_policer(now, &figures) {
            return;
        }
        if self.is_guess && self.trains.never_arrive() && self.probing.excess == 0.0 {
            // No train will answer, and what was sent arrives.
            self.rate *= self.belief.confidence;
            self.end_guess();
        }
        if self.probing.is_limited && !self.probing.is_exact {
            self.creep(figures.lossiness, figures.sent, figures.arrived);
        } else {
            self.follow_usual(now, figures.lossiness, figures.packets, figures.is_empty);
        }
        self.lower_by_overflow(now, &figures);
        if self.ours < 1.0 && figures.is_empty {
            self.ours = (self.ours * Probing::OURS_GROWS).min(1.0);
        }
    }

    /// What a round shows.
    fn figures(&mut self, round: &Round, end: Start) -> RoundFigures {
        let lossiness = self.probing.losses.between(round.start.position, end.position);
        let began = self.sent_at(round.start).filter(|began| began.sent < end.sent).unwrap_or(round.start);
        let sent = (end.position - began.position) / (end.sent - began.sent).max(1e-3);
        let took = self.counts.since(&round.counts);
        RoundFigures {
            packets: (end.position - round.start.position) / PACKET,
            sent,
            arrived: sent * (1.0 - lossiness.mean),
            counted: took.map(|took| (self.counts.received - round.counts.received) / took),
            lossiness,
            excess: lossiness.median - self.probing.usual,
            is_empty: !self.has_queued(round),
        }
    }

    /// Notes what the link carried, and what it lost.
    fn note_carried(&mut self, now: f64, figures: &RoundFigures) {
        let RoundFigures { sent, arrived, counted, lossiness, excess, is_empty, .. } = *figures;
        let is_old = now - self.probing.carried_at > Probing::CARRIED;
        let is_most = excess < Probing::EXCESS && arrived > self.probing.carried * Probing::AS_MUCH;
        if is_most || is_old {
            self.probing.carried = arrived / (1.0 - self.probing.usual.min(Probing::MOST_USUAL));
            self.probing.carried_at = now;
        }
        let loses_nothing = lossiness.mean - self.probing.usual < Probing::EXCESS;
        let is_whole = loses_nothing && sent >= Probing::CARRIES * self.rate;
        self.probing.whole = if is_whole { self.probing.whole + 1 } else { 0 };
        if self.probing.whole >= Probing::WHOLE {
            self.probing.carried_whole = (sent, now);
        }
        self.note_excess(lossiness);
        if excess > Probing::MANY {
            self.probing.suspected_until = now + Probing::SUSPECTED;
        }
        if is_empty && excess < Probing::EXCESS {
            self.proven = self.proven.map(|proven| proven.max(arrived.min(counted.unwrap_or(arrived))));
            self.probing.leap = self.probing.leap.filter(|leap| !leap.is_over(now));
        }
    }

    /// Whether a lower rate is tried now, as losses without a queue may be a policer's: after one round with very many, or two in a row.
    fn tries_policer(&mut self, now: f64, figures: &RoundFigures) -> bool {
        if !self.may_be_policed(figures) {
            self.probing.excesses = 0;
            return false;
        }
        if self.probing.excesses == 0 {
            self.probing.excess_from = now;
        }
        self.probing.excesses += 1;
        let RoundFigures { packets, arrived, lossiness, .. } = *figures;
        let has_many = lossiness.median > Probing::MANY;
        let has_lasted = now - self.probing.excess_from >= Probing::LASTING;
        let is_sure = if has_many { has_lasted || !self.carries(now, arrived) } else { self.probing.excesses >= 2 };
        let may = self.parts.has(EstimatorPart::Experiments);
        if !may || now < self.probing.next_experiment || !is_sure {
            return false;
        }
        let is_serial = self.trains_find().is_some();
        let rate = arrived * if has_many { Probing::FAR_BELOW } else { Probing::BELOW };
        // Where hardly anything of a leap arrives, it tells little of the policer's rate.
        let leap = self.probing.leap.filter(|_| figures.is_broken());
        let least = leap.map_or(f64::MAX, |leap| leap.before * Probing::FAR_BELOW).min(self.least_experiment());
        let rate = rate.max(least);
        let (lost, late) = (lossiness.mean * packets * PACKET, self.counts.late);
        let shown = self.points.back().map_or(now, |newest| newest.sent);
        self.probing.experiment =
            Some(Experiment { rate, arrived, lossiness, lost, late, is_serial, shown, again: 0, start: None });
        (self.probing.excesses, self.probing.round) = (0, None);
        // The rest of a train would lose more than the experiment's rate does.
        self.trains.end();
        true
    }

    /// Whether a round lost more than usual without a queue, as a policer makes it do.
    fn may_be_policed(&self, figures: &RoundFigures) -> bool {
        let RoundFigures { packets, sent, counted, lossiness, excess, is_empty, .. } = *figures;
        let usual = self.probing.usual;
        let noise = 2.0 * (usual.max(0.002) / packets).sqrt();
        // What was only late is not missing among what arrived.
        let is_missing = counted.is_none_or(|counted| counted < sent * (1.0 - excess / 2.0));
        let is_more = excess > Probing::EXCESS.max(noise) && lossiness.mean - usual > Probing::EXCESS && is_missing;
        // Trains do not pass a policer that what is sent keeps busy: losses are all that answers a prior or a reported rise there, and what
        // is given may be any multiple of what passes.
        let is_unanswered = self.is_guess && self.trains.are_mute();
        let is_unproven = self.is_unproven_rise() || self.probing.leap.is_some();
        let may_be = is_unanswered || is_unproven || !self.is_guess && !figures.is_broken();
        is_more && is_empty && may_be
    }

    /// A queue that overflows passes what the link carries. Where less was sent, as while a queue drains, it shows no limit.
    fn lower_by_overflow(&mut self, now: f64, figures: &RoundFigures) {
        let carried = figures.counted.unwrap_or(0.0).max(figures.arrived);
        let is_loaded = figures.sent > Probing::LOADED * self.rate && carried < Probing::OVERFLOWS * self.rate;
        let overflows = is_loaded && !figures.is_empty && figures.excess > Probing::OVERFLOW_LOSS;
        if overflows && !figures.is_broken() && now - self.lowered_at > self.rtt.smoothed {
            self.set(carried, EstimateSource::Losses);
            (self.lowered_at, self.probing.counts_from) = (now, now);
        }
    }

    /// What a short trial found of a policer is not exact: a little more each round, until that is lost.
    fn creep(&mut self, lossiness: Lossiness, sent: f64, arrived: f64) {
        if sent < Probing::LOADED * self.rate {
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
    use super::super::super::prior::Prior;
    use super::*;
    use units::{Duration, Rate};

    #[test]
    fn a_rate_that_a_policer_still_drops_from_is_followed_by_a_lower_one() {
        let prior = Prior::Configured(Rate::from_bps(128_000_000));
        let mut link = Estimator::new(prior.belief(Duration::from_millis(600), None), Duration::from_millis(600));
        // A policer passes 2.5 MB/s; its bucket had let more through before.
        let lossiness = Lossiness { mean: 0.77, median: 0.77 };
        let (lost, late) = (lossiness.mean * 64.0 * PACKET, 0.0);
        let (shown, again) = (0.0, 0);
        let first = Experiment {
            rate: 4e6,
            arrived: 4.2e6,
            lossiness,
            lost,
            late,
            is_serial: false,
            shown,
            again,
            start: None,
        };
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
