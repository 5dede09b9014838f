//! The capacity estimator: the capacity from the rate of arrivals.
//!
//! A link that has a queue sends at its capacity: whatever then arrives between two packets tells it, and a queue that
//! grows tells that there is less than was thought. That there is more only [trains](super::train) can tell, which fill
//! the link for a moment. Losses alone say nothing: they lower the estimate only as far as they thin out what a full
//! queue lets through, beyond what is lost anyway.
//!
//! Between a packet and the report of its arrival lies a round trip. The queue of now is therefore computed from the
//! queue that the report shows and what was sent since, so that one is drained once and not once for each report.

use super::Feedback;
use units::{Bytes, Duration, Instant, Rate};

/// The estimate, and what it is based on.
#[derive(Debug)]
pub(crate) struct CapacityEstimator {
    /// What to fall back to.
    nominal: Rate,
    estimate: Rate,
    rtt: Duration,
    /// What happened since the queue began to grow.
    growth: Option<Growth>,
    latest: Option<Feedback>,
    latest_at: Instant,
    /// The share of packets that is lost while there is no queue.
    loss: f64,
}

/// A stretch of arrivals.
#[derive(Debug, Clone, Copy)]
struct Growth {
    from: Feedback,
    outcomes: u32,
    acknowledged: u32,
}

impl CapacityEstimator {
    /// A queue of this length, or of so many full packets, is let be.
    const TARGET: Duration = Duration::from_millis(12);
    const TARGET_PACKETS: u64 = 5;
    /// Over this long, and at least this many full packets, a rate is measured; a queue that has not grown by a tenth of
    /// that, or by a packet, in the longest stretch does not grow.
    const STRETCH: Duration = Duration::from_millis(30);
    const STRETCH_PACKETS: u64 = 12;
    const LONGEST_STRETCH: Duration = Duration::from_millis(400);
    /// An estimate without news is not trusted for longer than this, or so many round trips.
    const STALE: Duration = Duration::from_secs(30);
    const STALE_ROUNDS: u64 = 20;
    /// The estimate stays between these multiples of the configured or reported rate.
    const RANGE: [f64; 2] = [1.0 / 64.0, 16.0];
    /// Packets that the measured loss remembers.
    const LOSS_MEMORY: f64 = 2000.0;

    pub(crate) fn new(nominal: Rate, rtt: Duration, now: Instant) -> Self {
        Self { nominal, estimate: nominal, rtt, growth: None, latest: None, latest_at: now, loss: 0.0 }
    }

    pub(crate) fn estimate(&self) -> Rate {
        self.estimate
    }

    /// The longest queue that is let be.
    fn target(&self) -> Duration {
        Self::TARGET.max(self.packets(Self::TARGET_PACKETS))
    }

    fn packets(&self, count: u64) -> Duration {
        self.estimate.time_to_send(Bytes::new(1500 * count))
    }

    /// The queue now, by the latest report and what has entered the link since.
    pub(crate) fn queue(&self, now: Instant, position: u64) -> Duration {
        let Some(latest) = &self.latest else { return Duration::ZERO };
        let since = self.estimate.time_to_send(Bytes::new(position.saturating_sub(latest.after)));
        (latest.queued + since).saturating_sub(now.since(latest.sent))
    }

    /// Whether a train now would find the queue short.
    pub(crate) fn has_room_for_train(&self, now: Instant, position: u64) -> bool {
        self.is_in_touch(now) && self.queue(now, position) <= self.packets(2).max(Self::TARGET / 4)
    }

    /// Whether reports of the link as it is now come in.
    pub(crate) fn is_in_touch(&self, now: Instant) -> bool {
        self.latest.is_some() && now.since(self.latest_at) <= self.rtt * 3
    }

    /// A train was sent at the rate `offered` and arrived at the rate `found`.
    pub(crate) fn on_train(&mut self, offered: Rate, found: Rate) {
        let saturated = found < offered.mul_f64(0.93);
        // A link that kept up with the train carries as much at least.
        if saturated || found > self.estimate {
            let found = found.min(self.estimate.mul_f64(2.0));
            self.move_to(found, 0.5);
        }
    }

    /// Takes a report, when `position` bytes have entered the link. Returns until when to hold data back.
    pub(crate) fn on_feedback(&mut self, now: Instant, position: u64, feedback: &Feedback) -> Option<Instant> {
        self.forget_if_stale(now);
        (self.latest, self.latest_at) = (Some(*feedback), now);
        self.measure_loss(feedback);
        self.measure_growth(feedback);
        let queue = self.queue(now, position);
        (queue > self.target()).then(|| now + queue.saturating_sub(self.target() / 2))
    }

    /// After a long silence the link may be another one: at most what is configured is safe.
    fn forget_if_stale(&mut self, now: Instant) {
        if now.since(self.latest_at) > Self::STALE.max(self.rtt * Self::STALE_ROUNDS) {
            self.estimate = self.estimate.min(self.nominal);
            self.growth = None;
        }
    }

    fn measure_loss(&mut self, feedback: &Feedback) {
        if feedback.queued <= self.target() && feedback.outcomes > 0 {
            let weight = (f64::from(feedback.outcomes) / Self::LOSS_MEMORY).min(1.0);
            let lost = 1.0 - f64::from(feedback.acknowledged) / f64::from(feedback.outcomes);
            self.loss += weight * (lost - self.loss);
        }
    }

    /// Follows a queue that grows: what arrives meanwhile is what the link carries.
    fn measure_growth(&mut self, feedback: &Feedback) {
        let Some(growth) = &mut self.growth else {
            self.growth = Some(Growth { from: *feedback, outcomes: 0, acknowledged: 0 });
            return;
        };
        growth.outcomes += feedback.outcomes;
        growth.acknowledged += feedback.acknowledged;
        let growth = *growth;
        let from = growth.from;
        let took = feedback.arrived.saturating_sub(from.arrived);
        let stretch = Self::STRETCH.max(self.packets(Self::STRETCH_PACKETS));
        let longest = Self::LONGEST_STRETCH.max(stretch * 2);
        let grown = feedback.queued.saturating_sub(from.queued);
        let grows = took >= stretch && grown >= (stretch / 10).max(self.packets(1));
        // Where there was a queue all the time, what arrived is what the link carries, whatever the queue did.
        let is_full = from.queued.min(feedback.queued) > self.target();
        if grows || (is_full && took >= longest / 2) {
            let bytes = Bytes::new(feedback.after.saturating_sub(from.after));
            let carried = Rate::from_transfer(bytes, took).mul_f64(self.kept(&growth));
            self.growth = Some(Growth { from: *feedback, outcomes: 0, acknowledged: 0 });
            if grows && carried < self.estimate {
                self.move_to(carried, 0.7);
            } else if is_full {
                self.move_to(carried, 0.3);
            }
        } else if took > longest || (feedback.queued < from.queued && !is_full) {
            self.growth = Some(Growth { from: *feedback, outcomes: 0, acknowledged: 0 });
        }
    }

    /// The share of what was sent in a stretch that passed the queue: losses beyond the usual are the queue's.
    fn kept(&self, growth: &Growth) -> f64 {
        if growth.outcomes == 0 {
            return 1.0;
        }
        let acknowledged = f64::from(growth.acknowledged) / f64::from(growth.outcomes);
        (acknowledged / (1.0 - self.loss.min(0.9))).min(1.0)
    }

    fn move_to(&mut self, rate: Rate, weight: f64) {
        let (from, to) = (self.estimate.as_bps() as f64, rate.as_bps() as f64);
        let [least, most] = Self::RANGE.map(|multiple| self.nominal.mul_f64(multiple));
        self.estimate = Rate::from_bps((from + weight * (to - from)) as u64).max(least).min(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    /// A link of its own rate, and a sender at another: a report of each tenth packet of 1500 bytes.
    struct Link {
        carries: Rate,
        queued: Duration,
        most: Duration,
        position: u64,
        now: Instant,
        /// Of a thousand packets, how many are lost beside the queue.
        lost: u32,
    }

    impl Link {
        fn new(bps: u64) -> Self {
            let carries = Rate::from_bps(bps);
            let most = Duration::from_millis(100);
            Self { carries, queued: Duration::ZERO, most, position: 0, now: Instant::ZERO, lost: 0 }
        }

        fn run(&mut self, estimator: &mut CapacityEstimator, sends: Rate, for_: Duration) -> Option<Instant> {
            let (end, mut hold) = (self.now + for_, None);
            while self.now < end {
                let bytes = Bytes::new(15_000);
                self.now += sends.time_to_send(bytes);
                self.position += 15_000;
                let drained = sends.time_to_send(bytes);
                let offered = self.queued + self.carries.time_to_send(bytes);
                let wanted = offered.saturating_sub(drained);
                self.queued = wanted.min(self.most);
                let overflow = (wanted - self.queued).as_secs_f64() / self.carries.time_to_send(bytes).as_secs_f64();
                let acknowledged = 1000.0 * (1.0 - overflow) - f64::from(self.lost);
                let feedback = Feedback {
                    sent: self.now,
                    after: self.position,
                    arrived: Duration::from_secs(7) + (self.now + RTT / 2 + self.queued).since(Instant::ZERO),
                    queued: self.queued,
                    outcomes: 1000,
                    acknowledged: acknowledged as u32,
                };
                let later = RTT + self.queued;
                let position = self.position + sends.bytes_in(later).as_u64();
                hold = estimator.on_feedback(self.now + later, position, &feedback);
            }
            hold
        }
    }

    fn within(rate: Rate, bps: u64, share: f64) -> bool {
        (rate.as_bps() as f64 / bps as f64 - 1.0).abs() <= share
    }

    #[test]
    fn a_queue_that_grows_tells_the_rate_and_asks_for_a_pause() {
        let sends = Rate::from_bps(6_000_000);
        let mut estimator = CapacityEstimator::new(sends, RTT, Instant::ZERO);
        let mut link = Link::new(3_000_000);
        let hold = link.run(&mut estimator, sends, Duration::from_millis(400));
        assert!(within(estimator.estimate(), 3_000_000, 0.05), "{}", estimator.estimate());
        assert!(hold.is_some_and(|until| until > link.now + RTT));
    }

    #[test]
    fn losses_without_a_queue_change_nothing() {
        let sends = Rate::from_bps(6_000_000);
        let mut estimator = CapacityEstimator::new(sends, RTT, Instant::ZERO);
        let mut link = Link { lost: 100, ..Link::new(8_000_000) };
        let hold = link.run(&mut estimator, sends, Duration::from_secs(20));
        assert_eq!((estimator.estimate(), hold), (sends, None));
    }

    #[test]
    fn a_full_queue_that_overflows_tells_the_rate_by_what_is_lost_beyond_the_usual() {
        let sends = Rate::from_bps(6_000_000);
        let mut estimator = CapacityEstimator::new(sends, RTT, Instant::ZERO);
        let mut link = Link { lost: 20, ..Link::new(12_000_000) };
        link.run(&mut estimator, sends, Duration::from_secs(20));
        link.carries = Rate::from_bps(4_000_000);
        link.run(&mut estimator, sends, Duration::from_secs(10));
        assert!(within(estimator.estimate(), 4_000_000, 0.06), "{}", estimator.estimate());
    }

    #[test]
    fn a_train_that_arrives_as_sent_raises_the_estimate_and_a_stretched_one_sets_it() {
        let bps = Rate::from_bps;
        let mut estimator = CapacityEstimator::new(bps(3_000_000), RTT, Instant::ZERO);
        estimator.on_train(bps(6_000_000), bps(6_000_000));
        assert_eq!(estimator.estimate(), bps(4_500_000));
        for _ in 0..10 {
            estimator.on_train(bps(12_000_000), bps(6_000_000));
        }
        assert!(within(estimator.estimate(), 6_000_000, 0.01));
        estimator.on_train(bps(5_000_000), bps(4_990_000));
        assert!(within(estimator.estimate(), 6_000_000, 0.01), "a train slower than the link tells nothing");
    }

    #[test]
    fn a_stale_estimate_falls_back_to_what_is_configured() {
        let mut estimator = CapacityEstimator::new(Rate::from_bps(3_000_000), RTT, Instant::ZERO);
        for _ in 0..10 {
            estimator.on_train(Rate::from_bps(12_000_000), Rate::from_bps(6_000_000));
        }
        let mut link = Link { now: Instant::ZERO + Duration::from_secs(60), ..Link::new(8_000_000) };
        link.run(&mut estimator, Rate::from_bps(1_000_000), Duration::from_millis(150));
        assert_eq!(estimator.estimate(), Rate::from_bps(3_000_000));
    }
}
