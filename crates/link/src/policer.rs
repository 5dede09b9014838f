//! A policer: a token bucket in front of the queue.

use crate::{ConfigError, Policer};
use units::{Bytes, Instant};

/// A byte takes so many tokens: one accrues in each nanosecond for each bit per second of the rate.
const TOKENS_OF_A_BYTE: u128 = 8_000_000_000;

/// The largest burst: the memory of a fast router's whole line card. What is above is a mistake.
const MAX_BURST: Bytes = Bytes::new(1 << 30);

impl Policer {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        if self.rate.as_bps() == 0 {
            return Err(ConfigError::new("policer.rate", "0bit/s lets nothing pass"));
        }
        if self.burst < Bytes::new(1500) || self.burst > MAX_BURST {
            let problem = format!("{} is not from 1500B, one full packet, to {MAX_BURST}", self.burst);
            return Err(ConfigError::new("policer.burst", &problem));
        }
        Ok(())
    }
}

/// The state of a [`Policer`]. The bucket is full at the start.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    bits_per_second: u128,
    depth: u128,
    tokens: u128,
    filled: Instant,
}

impl TokenBucket {
    pub(crate) fn new(policer: Policer, start: Instant) -> Self {
        let depth = u128::from(policer.burst.as_u64()) * TOKENS_OF_A_BYTE;
        Self { bits_per_second: u128::from(policer.rate.as_bps()), depth, tokens: depth, filled: start }
    }

    /// Whether a packet of `size` passes at `now`; if so, it has taken its tokens.
    pub(crate) fn admit(&mut self, now: Instant, size: Bytes) -> bool {
        let accrued = u128::from(now.since(self.filled).as_nanos()) * self.bits_per_second;
        self.tokens = (self.tokens + accrued).min(self.depth);
        self.filled = now;
        let cost = u128::from(size.as_u64()) * TOKENS_OF_A_BYTE;
        let passes = cost <= self.tokens;
        if passes {
            self.tokens -= cost;
        }
        passes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Duration, Rate};

    #[test]
    fn a_burst_passes_and_then_what_the_rate_allows() {
        let policer = Policer { rate: Rate::from_bps(8_000_000), burst: Bytes::new(3_000) };
        let mut bucket = TokenBucket::new(policer, Instant::ZERO);
        let mut admit = |micros| bucket.admit(Instant::ZERO + Duration::from_micros(micros), Bytes::new(1_000));
        assert_eq!([0, 0, 0, 0].map(&mut admit), [true, true, true, false]);
        // A byte each microsecond; what is refused takes nothing.
        assert_eq!([999, 1_000, 1_000, 2_500, 3_000].map(&mut admit), [false, true, false, true, true]);
        assert_eq!([1_000_000; 4].map(admit), [true, true, true, false], "the bucket holds no more than a burst");
    }

    #[test]
    fn refuses_what_is_no_policer() {
        let of = |bps, burst| Policer { rate: Rate::from_bps(bps), burst: Bytes::new(burst) }.validate();
        assert_eq!(of(1, 1_500), Ok(()));
        for (bps, burst, key) in
            [(0, 30_000, "policer.rate"), (1, 1_499, "policer.burst"), (1, 1 << 31, "policer.burst")]
        {
            assert_eq!(of(bps, burst).expect_err(key).key(), key);
        }
    }
}
