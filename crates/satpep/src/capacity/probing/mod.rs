//! Rates that are tried: a higher one where trains find more than the estimate, a lower one where losses without a queue may be a
//! policer's. Losses alone say nothing of the capacity; that they become fewer at a lower rate does.

mod leap;
mod round_verdict;
mod train_verdict;

use super::delays::Counts;
use super::estimate::EstimatorState;
use super::losses::{Losses, Lossiness};
use super::pause::Doubt;
use super::quantities::PACKET;
use leap::Leap;

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
    /// For how many seconds it was sent.
    fn lasted(&self, start: Start, end: Start) -> f64 {
        self.ended.unwrap_or(end.sent).min(end.sent) - start.sent
    }

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
    /// The bytes of that, and those that had been counted as lost before and arrived after all by then.
    lost: f64,
    late: f64,
    /// Trains were spaced out: the link has a queue, so that losses need not be a policer's.
    is_serial: bool,
    /// When the last of what showed those losses was sent.
    shown: f64,
    /// How many lower ones have followed the first.
    again: u32,
    start: Option<Start>,
}

impl Experiment {
    /// Whether so much was lost that it tells at once.
    fn is_clear(&self) -> bool {
        self.lossiness.median > Probing::MANY
    }
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
    /// When the first of those ended.
    excess_from: f64,
    trial: Option<Trial>,
    /// The latest rise by trials of much more than the estimate.
    leap: Option<Leap>,
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
    pub(super) carried: f64,
    carried_at: f64,
    /// Rounds in a row that loaded the link and lost no more than usual; and what was sent in the latest that followed another, in bytes
    /// per second, and when.
    whole: u32,
    carried_whole: (f64, f64),
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
            excess_from: f64::NEG_INFINITY,
            trial: None,
            leap: None,
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
            whole: 0,
            carried_whole: (0.0, f64::NEG_INFINITY),
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
    /// A trial that fails leaves this share of the estimate at least; all of it, if the trial was sent within so many seconds, which is no
    /// measurement of a rate.
    const LEAST_LEFT: f64 = 0.5;
    const BRIEF: f64 = 0.04;
    /// Where a policer was found, a trial lasts long enough to empty its bucket: seconds.
    const BUCKET: f64 = 1.0;
    const EXPERIMENT_PACKETS: f64 = 256.0;
    /// Losses that go on in so many packets of an experiment do not follow its rate.
    const EXPERIMENT_HEAD: f64 = 16.0;
    /// Whether losses have ended is seen in so many seconds.
    const ENDED: f64 = 0.05;
    /// A round has so many packets and lasts so long, at least.
    const ROUND_PACKETS: f64 = 160.0;
    const ROUND: f64 = 0.2;
    /// So many packets are enough where this share of them is lost beyond the usual.
    const FEW_PACKETS: f64 = 64.0;
    const MANY: f64 = 0.2;
    /// A link that has carried this share of the estimate carries it, if it has done so in so many rounds in a row: a policer's bucket may
    /// outlast one.
    const CARRIES: f64 = 0.9;
    const WHOLE: u32 = 2;
    /// Many losses of such a link have to last for so many seconds before a policer is looked for.
    const LASTING: f64 = 1.0;
    /// What is tried beyond a policer's rate as it was found: at first, and at most.
    const CREEP: f64 = 0.01;
    const MOST_STEP: f64 = 0.04;
    /// An experiment's rate is this share of the estimate at least: it has to end.
    const LEAST_RATE: f64 = 0.125;
    /// Where an experiment loses less than this share of what was lost before, losses are by the rate, and a lower one is tried, so often.
    const EASED: f64 = 0.75;
    /// Where more than this share of the losses that led to an experiment has arrived after all, they were none.
    const MOSTLY: f64 = 0.5;
    const MOST_AGAIN: u32 = 3;
    /// No policer loses more than this: a prior would have to be twenty times too high.
    const BROKEN: f64 = 0.95;
    /// For so many seconds after many losses trials are short.
    const SUSPECTED: f64 = 30.0;
    /// How long what arrived in a round is remembered.
    const CARRIED: f64 = 60.0;
    /// What arrives at this share of that is as much.
    const AS_MUCH: f64 = 0.98;
    /// An experiment's rate is this share of what arrived before, and the lesser one where many packets were lost.
    const BELOW: f64 = 0.98;
    const FAR_BELOW: f64 = 0.95;
    /// What is sent at this share of the estimate loads the link.
    const LOADED: f64 = 0.95;
    /// A queue overflows where a loaded link carries less than this share of the estimate, and loses more than this beyond the usual.
    const OVERFLOWS: f64 = 0.97;
    const OVERFLOW_LOSS: f64 = 0.03;
    /// The share of the link that is ours grows by this factor in each round without a queue.
    const OURS_GROWS: f64 = 1.01;

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

    /// Another capacity was reported: what the link carried of the former says nothing.
    pub(super) fn forget_carried(&mut self) {
        (self.whole, self.carried_whole, self.leap) = (0, (0.0, f64::NEG_INFINITY), None);
    }

    /// Of what was sent before `now` losses say nothing.
    pub(super) fn ignore_losses_before(&mut self, now: f64) {
        self.counts_from = now;
    }

    pub(super) fn end_trial(&mut self) {
        self.trial = None;
    }

    /// More is not tried for a while.
    pub(super) fn back_off(&mut self, now: f64, rtt: f64) {
        self.failed = (self.failed + 1).min(Self::MOST_FAILED);
        let seconds = Self::BACK_OFF.max(Self::BACK_OFF_ROUNDS * rtt);
        self.next_trial = now + seconds * f64::from(1u32 << self.failed);
        self.is_exact &= self.is_limited;
        (self.is_limited, self.step) = (true, Self::CREEP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
