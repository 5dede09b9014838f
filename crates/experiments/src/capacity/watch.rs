//! What is seen of the bottleneck over time.

use super::cases::Case;
use sim::QueueSample;
use units::{Bytes, Duration, Instant, Rate};

/// Samples of the link that the data enter.
#[derive(Default)]
pub(super) struct Watch {
    samples: Vec<Sample>,
}

#[derive(Clone, Copy)]
struct Sample {
    at: Instant,
    /// What a packet that comes then waits.
    queue: Duration,
    /// What the link was given until then.
    offered: Bytes,
}

impl Watch {
    /// Between two samples.
    pub(super) const INTERVAL: Duration = Duration::from_millis(10);

    pub(super) fn take<'s>(&mut self, case: &Case, samples: impl Iterator<Item = &'s QueueSample>) {
        self.samples.extend(samples.map(|sample| Sample {
            at: sample.at,
            queue: case.time_to_send(sample.at, sample.bytes),
            offered: sample.offered,
        }));
    }

    /// The link was given `offered` until `at`, which is not before the latest note; of its queue nothing is known.
    pub(super) fn note(&mut self, at: Instant, offered: Bytes) {
        if self.samples.last().is_none_or(|latest| latest.at < at) {
            self.samples.push(Sample { at, queue: Duration::ZERO, offered });
        }
    }

    /// 95th percentile of the queue from `start` to `end`, in seconds.
    pub(super) fn queue_p95(&self, start: f64, end: f64) -> f64 {
        let is_within = |sample: &&Sample| (start..=end).contains(&sample.at.as_secs_f64());
        let mut queues: Vec<_> = self.samples.iter().filter(is_within).map(|sample| sample.queue).collect();
        queues.sort_unstable();
        queues.get(queues.len() * 95 / 100).map_or(0.0, |queue| queue.as_secs_f64())
    }

    /// The times of all samples, and the queues then.
    pub(super) fn queues(&self) -> impl Iterator<Item = (Instant, Duration)> {
        self.samples.iter().map(|sample| (sample.at, sample.queue))
    }

    /// The rate at which the link was given bytes in the `span` until `at`.
    pub(super) fn offered_rate(&self, at: Instant, span: Duration) -> Rate {
        let before = self.offered_by(at.before(span));
        Rate::from_transfer(self.offered_by(at) - before, span)
    }

    /// What the link was given until `at`.
    fn offered_by(&self, at: Instant) -> Bytes {
        let next = self.samples.partition_point(|sample| sample.at <= at);
        next.checked_sub(1).map_or(Bytes::ZERO, |latest| self.samples[latest].offered)
    }

    /// What the link was given while it was worse, if it was.
    pub(super) fn sent_while_bad(&self, case: &Case) -> Option<u64> {
        let [from, to] = case.bad_times()?;
        Some(self.offered_by(to).as_u64() - self.offered_by(from).as_u64())
    }

    /// From the end of a fade or outage until the link is given 95 % of its rate for half a round trip, in round trips.
    pub(super) fn back_rtt(&self, case: &Case) -> Option<f64> {
        let [_, end] = case.bad_times()?;
        let window = (case.rtt / 2).max(Self::INTERVAL * 5);
        let enough = case.rate.bytes_in(window).as_u64() as f64 * 0.95;
        let first = self.samples.partition_point(|sample| sample.at < end);
        let after = &self.samples[first..];
        let is_full = |sample: &&Sample| {
            (self.offered_by(sample.at + window).as_u64() - sample.offered.as_u64()) as f64 >= enough
        };
        let back = after.iter().find(is_full).or(after.last())?;
        Some(back.at.since(end).as_secs_f64() / case.rtt.as_secs_f64())
    }
}
