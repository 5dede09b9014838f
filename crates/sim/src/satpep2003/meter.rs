//! How busy the link is, as the gateway at its end sees it: all IP packets count, those of other traffic and those sent
//! again too.

use units::{Bytes, Duration, Instant, Rate};

/// How throughput is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Measurement {
    /// Bytes that arrived in an epoch over its length.
    Window,
    /// As the paper says: the spacing of two packets in a row (the packet pair of Keshav 1991), smoothed by 1/8, and zero
    /// once nothing has come for `idle`. Within a burst that gives the capacity of the link, not its use.
    PacketPair {
        /// The idle timer.
        idle: Duration,
    },
}

/// A throughput under measurement.
#[derive(Debug)]
pub(super) struct Meter {
    measurement: Measurement,
    capacity: f64,
    /// Bytes since the epoch began.
    bytes: u64,
    last: Option<Instant>,
    /// Smoothed, in bit/s.
    pairs: f64,
}

impl Meter {
    pub(super) fn new(measurement: Measurement, capacity: Rate) -> Self {
        Self { measurement, capacity: capacity.as_bps() as f64, bytes: 0, last: None, pairs: 0.0 }
    }

    /// A packet has arrived.
    #[inline]
    pub(super) fn on_packet(&mut self, now: Instant, size: Bytes) {
        self.bytes += size.as_u64();
        if let Measurement::PacketPair { idle } = self.measurement {
            self.on_pair(now, size, idle);
        }
    }

    fn on_pair(&mut self, now: Instant, size: Bytes, idle: Duration) {
        let Some(last) = self.last.replace(now) else { return };
        let gap = now.since(last);
        if gap > idle {
            self.pairs = 0.0;
        }
        let pair = (8.0 * size.as_u64() as f64 / gap.as_secs_f64()).min(self.capacity);
        self.pairs = 0.875 * self.pairs + 0.125 * pair;
    }

    /// Whether nothing has arrived since the epoch began.
    pub(super) fn is_idle(&self) -> bool {
        self.bytes == 0
    }

    /// An epoch of length `epoch` ends at `now`: its throughput in bit/s, at most the capacity.
    pub(super) fn end_epoch(&mut self, now: Instant, epoch: Duration) -> f64 {
        let bytes = std::mem::take(&mut self.bytes);
        match self.measurement {
            Measurement::Window => (8.0 * bytes as f64 / epoch.as_secs_f64()).min(self.capacity),
            Measurement::PacketPair { idle } => {
                if self.last.is_none_or(|last| now.since(last) > idle) {
                    self.pairs = 0.0;
                }
                self.pairs
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bursts of 10 packets each 100 ms, back to back at 6 Mbit/s: 1.2 Mbit/s in all.
    fn measured(measurement: Measurement) -> f64 {
        let mut meter = Meter::new(measurement, Rate::from_bps(6_000_000));
        for burst in 0..11 {
            for packet in 0..10 {
                meter.on_packet(Instant::from_nanos(burst * 100_000_000 + packet * 2_000_000), Bytes::new(1500));
            }
        }
        meter.end_epoch(Instant::from_nanos(1_100_000_000), Duration::from_millis(1100))
    }

    #[test]
    fn the_window_measures_use_and_packet_pairs_measure_capacity_or_nothing() {
        assert!((measured(Measurement::Window) / 1.2e6 - 1.0).abs() < 1e-9);
        let patient = measured(Measurement::PacketPair { idle: Duration::from_millis(137) });
        assert!((4.5e6..=6e6).contains(&patient), "{patient}");
        assert_eq!(measured(Measurement::PacketPair { idle: Duration::from_millis(50) }), 0.0, "the idle timer");
    }
}
