//! Proportional integral controller enhanced (RFC 8033): what arrives is dropped, or marked, with a probability that follows the
//! queueing delay.

use super::fifo::Fifo;
use super::{Fate, Signal};
use units::{Bytes, Duration, Instant};

/// PIE's parameters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Law {
    pub(crate) target: Duration,
    /// How often the probability is calculated.
    pub(crate) update: Duration,
    /// A burst that begins on an idle link is let through for so long.
    pub(crate) max_burst: Duration,
    pub(crate) ecn: bool,
}

/// Gains of the deviation from the target and of the delay's change, in 1/s (section 4.2).
const ALPHA: f64 = 0.125;
const BETA: f64 = 1.25;
/// Above this probability packets are dropped even if their transport reads marks (section 5.1).
const MARKS_BELOW: f64 = 0.1;
/// The probability rises by at most so much at a time once it is high (section 5.5, "cap drop adjustment").
const LARGEST_STEP: f64 = 0.02;
/// Below this probability a delay of less than half of the target lets everything pass (section 4.1).
const SAFE_BELOW: f64 = 0.2;
/// So many full packets always find room (section 4.1).
const MEAN_PACKET: Bytes = Bytes::new(1500);
/// Drops keep these distances, in sums of probabilities (section 5.4, de-randomization).
const NO_DROP_BELOW: f64 = 0.85;
const DROP_FROM: f64 = 8.5;

/// Where the control of a queue stands.
#[derive(Debug)]
pub(super) struct State {
    probability: f64,
    /// Sum of probabilities since the last drop.
    accumulated: f64,
    /// Of the packet that left last; zero once the queue is empty.
    delay: Duration,
    delay_before: Duration,
    burst_allowance: Duration,
    next_update: Option<Instant>,
}

impl State {
    pub(super) fn new(law: &Law) -> Self {
        Self {
            probability: 0.0,
            accumulated: 0.0,
            delay: Duration::ZERO,
            delay_before: Duration::ZERO,
            burst_allowance: law.max_burst,
            next_update: None,
        }
    }

    /// Amid congestion, with this probability.
    #[cfg(test)]
    pub(super) fn congested(probability: f64) -> Self {
        Self {
            probability,
            accumulated: 0.0,
            delay: Duration::from_secs(1),
            delay_before: Duration::from_secs(1),
            burst_allowance: Duration::ZERO,
            next_update: None,
        }
    }

    /// What becomes of a packet that arrives at `now`, by a draw from 0 to 1 (section 4.1).
    pub(super) fn admit<P>(&mut self, now: Instant, law: &Law, fifo: &Fifo<P>, draw: f64) -> Fate {
        self.catch_up(now, law);
        let has_little_delay = self.delay_before < law.target / 2 && self.probability < SAFE_BELOW;
        if !self.burst_allowance.is_zero() || has_little_delay || fifo.bytes() <= MEAN_PACKET * 2 {
            return Fate::Enters;
        }
        if self.probability == 0.0 {
            self.accumulated = 0.0;
        }
        self.accumulated += self.probability;
        let is_hit = self.accumulated >= DROP_FROM || self.accumulated >= NO_DROP_BELOW && draw < self.probability;
        if !is_hit {
            return Fate::Enters;
        }
        self.accumulated = 0.0;
        Fate::Signals(if law.ecn && self.probability < MARKS_BELOW { Signal::MarkOrDrop } else { Signal::Drop })
    }

    /// A packet found no room (appendix A, `enque`).
    pub(super) fn on_refused(&mut self) {
        self.accumulated = 0.0;
    }

    /// A packet leaves at `now` that has waited for `delay`.
    pub(super) fn on_popped<P>(&mut self, now: Instant, law: &Law, fifo: &Fifo<P>, delay: Duration) {
        self.catch_up(now, law);
        self.delay = if fifo.packets() == 0 { Duration::ZERO } else { delay };
    }

    /// The queue is empty at `now`, though no packet left it.
    pub(super) fn on_emptied(&mut self, now: Instant, law: &Law) {
        self.catch_up(now, law);
        self.delay = Duration::ZERO;
    }

    /// Calculates the probability as often as it was due until `now`.
    fn catch_up(&mut self, now: Instant, law: &Law) {
        let mut next = self.next_update.unwrap_or(now + law.update);
        while next <= now {
            self.update(law);
            if self.is_at_rest(law) {
                // Nothing changes any more until a packet comes.
                let periods = now.since(next).as_nanos() / law.update.as_nanos().max(1) + 1;
                next += Duration::from_nanos(periods.saturating_mul(law.update.as_nanos()));
                break;
            }
            next += law.update;
        }
        self.next_update = Some(next);
    }

    fn is_at_rest(&self, law: &Law) -> bool {
        self.probability == 0.0
            && self.delay.is_zero()
            && self.delay_before.is_zero()
            && self.burst_allowance == law.max_burst
    }

    /// Section 4.2, with the corrections of sections 4.2 and 5.
    fn update(&mut self, law: &Law) {
        let (delay, before, target) =
            (self.delay.as_secs_f64(), self.delay_before.as_secs_f64(), law.target.as_secs_f64());
        let mut step = ALPHA * (delay - target) + BETA * (delay - before);
        step /= match self.probability {
            p if p < 1e-6 => 2048.0,
            p if p < 1e-5 => 512.0,
            p if p < 1e-4 => 128.0,
            p if p < 1e-3 => 32.0,
            p if p < 1e-2 => 8.0,
            p if p < 0.1 => 2.0,
            _ => 1.0,
        };
        if self.probability >= 0.1 {
            step = step.min(LARGEST_STEP);
        }
        self.probability += step;
        if self.delay.is_zero() && self.delay_before.is_zero() {
            self.probability *= 0.98;
        }
        self.probability = self.probability.clamp(0.0, 1.0);
        let is_calm = self.delay < law.target / 2 && self.delay_before < law.target / 2;
        self.delay_before = self.delay;
        self.burst_allowance = if self.probability == 0.0 && is_calm {
            law.max_burst
        } else {
            self.burst_allowance.saturating_sub(law.update)
        };
    }
}
