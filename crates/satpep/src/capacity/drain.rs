//! A delay that stays: a queue is drained. If a pause in sending does not make the delay shorter, it is a longer path, or a clock was set.

use super::delays::Point;
use super::estimator::Estimator;
use super::parts::EstimatorPart;
use super::pause::QueueTest;
use super::probing::Probing;

impl Estimator {
    /// A queue does not come faster than its bytes: notes a delay that did.
    pub(super) fn notice_jump(&mut self, point: &Point) {
        let step = point.queue - self.queue;
        let bytes = self.points.back().map(|previous| point.entered() - previous.entered());
        let is_step = step > (0.008f64).max(4.0 * self.noise);
        if bytes.is_some_and(|bytes| is_step && bytes / self.rate < 2.5 * step + 0.03) {
            self.probing.doubt.jump = step;
        } else if point.queue < self.busy() {
            self.probing.doubt.jump = 0.0;
        }
    }

    /// Until when to hold data back so that a queue drains, or shows whether it is one.
    pub(super) fn judge_queue(&mut self, now: f64) -> Option<f64> {
        let (queue, high) = (self.predicted_queue(now), self.high());
        if self.probing.experiment_rate().is_some() {
            return None;
        }
        if queue <= high {
            // The queue is gone much sooner than was predicted.
            let is_over = queue <= high / 3.0 && now < self.drains_until - QueueTest::WORTH;
            return is_over.then(|| self.end_drain(now));
        }
        if now - self.grown_at < self.rtt.smoothed + self.queue + 0.3 {
            if !self.parts.has(EstimatorPart::Drain) {
                return None;
            }
            self.drains_until = now + (queue - high / 3.0).min(self.empty_rtt(now) + QueueTest::LONGEST_DRAIN);
            return Some(self.drains_until);
        }
        if !self.may_test() {
            return None;
        }
        let least = QueueTest::SHORTEST.max(self.packets(QueueTest::PACKETS)).max(QueueTest::NOISE * self.noise);
        // What came at once hardly is a queue: the shortest pause tells.
        let is_jump = self.probing.doubt.jump >= QueueTest::AT_ONCE * self.queue;
        let longest = if is_jump { least } else { (self.queue / 2.0).max(least) };
        let pause = (queue - high / 3.0).min(QueueTest::LONGEST).min(longest);
        self.begin_test(now, pause);
        Some(now + pause)
    }

    /// There is no queue left to wait for.
    pub(super) fn end_drain(&mut self, now: f64) -> f64 {
        self.drains_until = now;
        now
    }

    /// The round trip of the newest point without its queue: what is reported by then, or lost, tells how much is left of a queue.
    pub(super) fn empty_rtt(&self, now: f64) -> f64 {
        self.newest.map_or(self.rtt.smoothed, |newest| now - newest.sent - newest.queue)
    }

    /// Whether a pause may begin.
    pub(super) fn may_test(&self) -> bool {
        self.test.is_none() && self.parts.has(EstimatorPart::QueueTest)
    }

    pub(super) fn begin_test(&mut self, now: f64, pause: f64) {
        self.test = Some(QueueTest { pause, until: now + pause, queue: self.queue });
    }

    /// The first point sent after a pause ends the test. Returns what of the delay is no queue.
    pub(super) fn conclude_test(&mut self, now: f64, point: &Point) -> Option<f64> {
        let test = self.test.filter(|test| point.sent >= test.until)?;
        self.test = None;
        let fell = test.queue - point.queue;
        let stayed = fell < QueueTest::FELL * test.pause && fell > -0.5 * test.pause - 0.003;
        let Probing { doubt, .. } = &mut self.probing;
        if !stayed || now - self.grown_at <= self.rtt.smoothed {
            doubt.vain = 0;
            return None;
        }
        if point.queue <= self.high() {
            self.probing.doubt.vain = 0;
            return None;
        }
        let doubt = &mut self.probing.doubt;
        doubt.vain += 1;
        let is_none = doubt.vain >= QueueTest::VAIN || doubt.jump >= QueueTest::AT_ONCE * point.queue;
        is_none.then(|| {
            doubt.vain = 0;
            point.queue
        })
    }
}
