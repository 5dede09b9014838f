//! When the last bit of each packet is sent.

use units::{Bytes, Instant, Rate};

/// A bit sent at one bit per second takes so many nanoseconds, a byte eight times as long.
const NANOS_OF_A_BYTE: u64 = 8_000_000_000;

/// Sends one packet after the other at a constant rate, exactly over the long run: the part of a nanosecond that an
/// instant cannot hold is carried to the next packet.
#[derive(Debug)]
pub(crate) struct Transmitter {
    rate: Option<Rate>,
    free_at: Instant,
    /// By how much `free_at` is too early, in units of 1/rate nanoseconds (below one nanosecond).
    remainder: u64,
    /// What the latest size takes: packets of a direction have few sizes, and a division costs as much as all the rest.
    latest: Cost,
}

/// The time that a packet of some size takes: whole nanoseconds, and a rest in units of 1/rate nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    size: Bytes,
    nanos: u64,
    rest: u64,
}

impl Cost {
    fn of(size: Bytes, rate: Rate) -> Self {
        let work = u128::from(size.as_u64()) * u128::from(NANOS_OF_A_BYTE);
        let rate = u128::from(rate.as_bps());
        let nanos = u64::try_from(work / rate).unwrap_or(u64::MAX);
        Self { size, nanos, rest: (work % rate) as u64 }
    }
}

impl Transmitter {
    pub(crate) fn new(rate: Option<Rate>) -> Self {
        Self { rate, free_at: Instant::ZERO, remainder: 0, latest: Cost::default() }
    }

    /// When it has sent all that it was given.
    pub(crate) fn free_at(&self) -> Instant {
        self.free_at
    }

    /// Sends a packet that is there at `now`, as soon as the transmitter is free; returns when its last bit is sent.
    pub(crate) fn send(&mut self, now: Instant, size: Bytes) -> Instant {
        if now > self.free_at {
            self.free_at = now;
            self.remainder = 0;
        }
        if let Some(rate) = self.rate {
            if self.latest.size != size {
                self.latest = Cost::of(size, rate);
            }
            let Cost { mut nanos, rest, .. } = self.latest;
            // Both are below the rate, so that their sum reaches it at most once.
            match self.remainder.checked_add(rest) {
                Some(sum) if sum < rate.as_bps() => self.remainder = sum,
                _ => {
                    self.remainder = self.remainder.wrapping_add(rest).wrapping_sub(rate.as_bps());
                    nanos = nanos.saturating_add(1);
                }
            }
            self.free_at += units::Duration::from_nanos(nanos);
        }
        self.free_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    const START: Instant = Instant::from_nanos(17);

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(2), ..ProptestConfig::default() })]

        #[test]
        fn n_packets_take_n_times_one(bps in 1_000u64..40_000_000_000, size in 20u64..9_000, n in 1u64..2_000) {
            let mut transmitter = Transmitter::new(Some(Rate::from_bps(bps)));
            let end = (0..n).map(|_| transmitter.send(START, Bytes::new(size))).last().expect("n > 0");
            let exact = u128::from(n) * u128::from(size) * 8_000_000_000 / u128::from(bps);
            prop_assert_eq!(u128::from(end.since(START).as_nanos()), exact);
        }
    }

    #[test]
    fn a_rate_that_does_not_divide_is_exact_over_an_hour() {
        // 12,000 bits at 7,777,777 bit/s take 1,542,857.3… ns: an hour holds 2,333,333.1 of them.
        let rate = Rate::from_bps(7_777_777);
        let mut transmitter = Transmitter::new(Some(rate));
        let end = (0..2_333_333).map(|_| transmitter.send(Instant::ZERO, Bytes::new(1500))).last().expect("some");
        let exact_nanos = 2_333_333u128 * 12_000 * 1_000_000_000 / 7_777_777;
        assert_eq!(u128::from(end.as_nanos()), exact_nanos);
    }

    #[test]
    fn an_idle_transmitter_starts_at_once_and_saves_nothing_up() {
        let mut transmitter = Transmitter::new(Some(Rate::from_bps(8_000)));
        assert_eq!(transmitter.send(Instant::ZERO, Bytes::new(1)).as_nanos(), 1_000_000);
        assert_eq!(transmitter.send(Instant::from_nanos(5_000_000), Bytes::new(1)).as_nanos(), 6_000_000);
        assert_eq!(transmitter.send(Instant::from_nanos(5_500_000), Bytes::new(1)).as_nanos(), 7_000_000);
    }

    #[test]
    fn an_unlimited_rate_takes_no_time() {
        let mut transmitter = Transmitter::new(None);
        assert_eq!(transmitter.send(START, Bytes::new(65_535)), START);
    }
}
