//! When the next packet may leave (RFC 9002, section 7.7).

use units::{Bytes, Duration, Instant, Rate};

/// Packets that may leave together: as many as the initial window has.
const BURST: u64 = 10;
/// How long what leaves together may take at the pace where queues mark early: what comes at once waits for one another there (RFC 9331,
/// section 4.3; 250 us in draft-briscoe-iccrg-prague-congestion-control).
const L4S_BURST: Duration = Duration::from_micros(250);

/// A leaky bucket, by the time at which it would be empty.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pacer {
    /// Bursts are short.
    is_l4s: bool,
    empty_at: Instant,
    /// The rate at which it leaks, once that is known.
    rate: Option<Rate>,
    /// How long a burst takes at that rate.
    burst: Duration,
}

impl Pacer {
    /// For a control that lets packets leave at the pace of its window, with no more at once than [`L4S_BURST`], or for any other.
    pub(crate) fn new(is_l4s: bool) -> Self {
        Self { is_l4s, empty_at: Instant::ZERO, rate: None, burst: Duration::ZERO }
    }

    /// When the next packet may leave.
    pub(crate) fn next_at(&self) -> Instant {
        self.empty_at.before(self.burst)
    }

    /// Packets leave at `rate` from now on, full ones having `full` bytes. What is in the bucket leaks at that rate, too.
    pub(crate) fn set_rate(&mut self, now: Instant, rate: Rate, full: u64) {
        if let Some(before) = self.rate.replace(rate).filter(|before| *before != rate) {
            let left = before.bytes_in(self.empty_at.since(now));
            self.empty_at = now + rate.time_to_send(left);
        }
        let burst = rate.time_to_send(Bytes::new((BURST - 1) * full));
        self.burst = if self.is_l4s { burst.min(L4S_BURST) } else { burst };
    }

    /// A packet of `bytes` leaves, full ones having `full`.
    pub(crate) fn on_sent(&mut self, now: Instant, bytes: u64, full: u64, rate: Rate) {
        self.set_rate(now, rate, full);
        self.empty_at = self.empty_at.max(now) + rate.time_to_send(Bytes::new(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_of_ten_leaves_at_once_and_the_rest_at_the_rate() {
        let mut pacer = Pacer::new(false);
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

    #[test]
    fn where_queues_mark_early_only_what_takes_250_us_leaves_at_once() {
        let leave_at_once = |rate| {
            let mut pacer = Pacer::new(true);
            let now = Instant::ZERO + Duration::from_secs(1);
            let mut count = 0;
            while pacer.next_at() <= now {
                pacer.on_sent(now, 1000, 1000, rate);
                count += 1;
            }
            count
        };
        // 8, 80 and 400 us for each.
        assert_eq!([1_000_000_000, 100_000_000, 20_000_000].map(|bps| leave_at_once(Rate::from_bps(bps))), [10, 4, 1]);
    }

    #[test]
    fn what_was_booked_at_a_low_rate_does_not_hold_up_a_high_one() {
        let mut pacer = Pacer::new(false);
        let now = Instant::ZERO + Duration::from_secs(1);
        // Ten packets of 100 ms each, before the round-trip time is known.
        (0..10).for_each(|_| pacer.on_sent(now, 1000, 1000, Rate::from_bps(80_000)));
        let fast = Rate::from_bps(8_000_000);
        let later = now + Duration::from_millis(40);
        pacer.set_rate(later, fast, 1000);
        // What has not leaked yet takes a hundredth of the time: 960 ms of 1 s are left, 9.6 ms, of which a burst is 9.
        let waits = pacer.next_at().since(later).as_millis_f64();
        assert!((waits - 0.6).abs() < 0.01, "{waits}");
    }
}
