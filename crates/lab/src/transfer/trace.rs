//! Throughput against time.

use serde::Serialize;
use std::time::Instant;
use units::{Bytes, Duration, Rate};

/// How much had arrived when. Bounded: a long transfer is recorded at a coarser grain.
#[derive(Debug, Clone)]
pub struct Trace {
    start: Instant,
    interval: Duration,
    /// Time since the start and bytes so far.
    points: Vec<(Duration, Bytes)>,
}

/// One interval of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Sample {
    /// End of the interval, seconds since the start.
    pub time_s: f64,
    /// Bytes that had arrived by then.
    pub bytes: u64,
    /// Mean throughput in the interval, bits per second.
    pub throughput_bps: u64,
}

impl Trace {
    const FIRST_INTERVAL: Duration = Duration::from_millis(10);
    const MAX_POINTS: usize = 4096;

    /// Nothing has arrived yet; time counts from `start`.
    pub fn new(start: Instant) -> Self {
        Self { start, interval: Self::FIRST_INTERVAL, points: vec![(Duration::ZERO, Bytes::ZERO)] }
    }

    /// When time began to count.
    pub fn start(&self) -> Instant {
        self.start
    }

    /// `bytes` have arrived by `now`.
    pub fn record(&mut self, now: Instant, bytes: Bytes) {
        let time: Duration = now.duration_since(self.start).into();
        if time.saturating_sub(self.last().0) < self.interval {
            return;
        }
        self.points.push((time, bytes));
        if self.points.len() > Self::MAX_POINTS {
            self.coarsen();
        }
    }

    /// The last byte arrived at `now`.
    pub fn end(&mut self, now: Instant, bytes: Bytes) {
        if self.last().1 < bytes {
            self.points.push((now.duration_since(self.start).into(), bytes));
        }
    }

    /// The same trace with time counted from `start`, which lies before its own start.
    pub fn counted_from(mut self, start: Instant) -> Self {
        let shift: Duration = self.start.saturating_duration_since(start).into();
        self.start = start;
        self.points.iter_mut().for_each(|point| point.0 += shift);
        self.points.insert(0, (Duration::ZERO, Bytes::ZERO));
        self
    }

    /// Bytes that had arrived at `time`, between two points by interpolation.
    pub fn bytes_at(&self, time: Duration) -> f64 {
        let after = self.points.partition_point(|point| point.0 <= time);
        let (t0, b0) = self.points[after - 1];
        let Some(&(t1, b1)) = self.points.get(after) else { return b0.as_u64() as f64 };
        if t1 == t0 {
            return b1.as_u64() as f64;
        }
        let part = (time - t0).as_secs_f64() / (t1 - t0).as_secs_f64();
        b0.as_u64() as f64 + part * (b1 - b0).as_u64() as f64
    }

    /// Throughput in steps of `step`, to the end.
    pub fn samples(&self, step: Duration) -> Vec<Sample> {
        let (end, total) = self.last();
        let steps = end.as_nanos().div_ceil(step.as_nanos().max(1));
        let mut before = (0, 0.0);
        (1..=steps)
            .map(|k| {
                let time = (step * k).min(end);
                let bytes = if k == steps { total.as_u64() as f64 } else { self.bytes_at(time) };
                let arrived = Bytes::new((bytes - before.1).round() as u64);
                let throughput = Rate::from_transfer(arrived, time - Duration::from_nanos(before.0));
                before = (time.as_nanos(), bytes);
                Sample { time_s: time.as_secs_f64(), bytes: bytes as u64, throughput_bps: throughput.as_bps() }
            })
            .collect()
    }

    fn last(&self) -> (Duration, Bytes) {
        // There is always the first point.
        self.points.last().copied().unwrap_or_default()
    }

    /// Keeps every second point, the first and the last among them.
    fn coarsen(&mut self) {
        self.interval = self.interval * 2;
        let last = self.points.len() - 1;
        let mut index = 0;
        self.points.retain(|_| {
            let keep = index % 2 == 0 || index == last;
            index += 1;
            keep
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration as StdDuration;

    fn steady(seconds: u64) -> Trace {
        let start = Instant::now();
        let mut trace = Trace::new(start);
        let mut bytes = Bytes::ZERO;
        for k in 1..=seconds * 100 {
            bytes += Bytes::new(1000);
            trace.record(start + StdDuration::from_millis(10 * k), bytes);
        }
        trace.end(start + StdDuration::from_secs(seconds), bytes);
        trace
    }

    #[test]
    fn a_steady_flow_has_a_steady_throughput() {
        let samples = steady(3).samples(Duration::from_millis(500));
        assert_eq!(samples.len(), 6);
        assert!(samples.iter().all(|sample| sample.throughput_bps == 800_000), "{samples:?}");
        assert_eq!(samples[5].bytes, 300_000);
    }

    #[test]
    fn a_long_trace_is_bounded_and_keeps_its_shape() {
        let trace = steady(1000);
        assert!(trace.points.len() <= Trace::MAX_POINTS);
        let samples = trace.samples(Duration::from_secs(100));
        assert_eq!(samples.len(), 10);
        assert!(samples.iter().all(|sample| (sample.throughput_bps as i64 - 800_000).abs() < 1000), "{samples:?}");
    }

    #[test]
    fn the_last_interval_may_be_short() {
        let samples = steady(1).samples(Duration::from_millis(300));
        assert_eq!(samples.len(), 4);
        assert_eq!(samples[3].time_s, 1.0);
        assert_eq!(samples[3].throughput_bps, 800_000);
    }
}
