//! When the next packet may leave (RFC 9002, section 7.7).

use units::{Bytes, Duration, Instant, Rate};

/// Packets that may leave together: as many as the initial window has.
const BURST: u64 = 10;

/// A leaky bucket, by the time at which it would be empty.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pacer {
    empty_at: Instant,
    /// How long a burst takes at the rate of the latest packet.
    burst: Duration,
}

impl Pacer {
    pub(crate) fn new() -> Self {
        Self { empty_at: Instant::ZERO, burst: Duration::ZERO }
    }

    /// When the next packet may leave.
    pub(crate) fn next_at(&self) -> Instant {
        self.empty_at.before(self.burst)
    }

    /// A packet of `bytes` leaves, full ones having `full`.
    pub(crate) fn on_sent(&mut self, now: Instant, bytes: u64, full: u64, rate: Rate) {
        self.burst = rate.time_to_send(Bytes::new((BURST - 1) * full));
        self.empty_at = self.empty_at.max(now) + rate.time_to_send(Bytes::new(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_of_ten_leaves_at_once_and_the_rest_at_the_rate() {
        let mut pacer = Pacer::new();
        let mut now = Instant::ZERO + Duration::from_secs(1);
        let mut times = Vec::new();
        for _ in 0..13 {
            now = now.max(pacer.next_at());
            times.push(now.since(Instant::ZERO + Duration::from_secs(1)).as_millis_f64());
            // A packet takes a millisecond.
            pacer.on_sent(now, 1000, 1000, Rate::from_bps(8_000_000));
        }
        assert_eq!(times[..10], [0.0; 10]);
        assert_eq!(times[10..], [1.0, 2.0, 3.0]);
    }
}
