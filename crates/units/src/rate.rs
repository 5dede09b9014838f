//! Data rates in bits per second.

use crate::parse::{Grammar, text_form, write_scaled};
use crate::rounding::rounded;
use crate::{Bytes, Duration, QuantityError};

/// A bit sent at one bit per second takes so many nanoseconds, a byte eight times as long.
const BIT_NANOS_OF_A_BYTE: u64 = 8_000_000_000;

/// A data rate in whole bits per second. Zero is a rate: a link at zero sends nothing, for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rate(u64);

impl Rate {
    /// Nothing moves.
    pub const ZERO: Rate = Rate(0);

    /// Units to write it in, the largest first.
    const SCALE: &[(&str, u64)] = &[
        ("Tbit/s", 1_000_000_000_000),
        ("Gbit/s", 1_000_000_000),
        ("Mbit/s", 1_000_000),
        ("kbit/s", 1_000),
        ("bit/s", 1),
    ];
    const GRAMMAR: Grammar = Grammar {
        quantity: "rate",
        example: "6Mbit/s",
        units: &[("bit/s", 1.0), ("kbit/s", 1e3), ("Mbit/s", 1e6), ("Gbit/s", 1e9), ("Tbit/s", 1e12)],
    };

    /// `bps` bits per second.
    pub const fn from_bps(bps: u64) -> Self {
        Self(bps)
    }

    /// Reads `6Mbit/s`, `384kbit/s`, `1.536Mbit/s`.
    ///
    /// # Errors
    /// If `text` is not a number followed by a unit of rate.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        Self::GRAMMAR.parse(text).map(Self)
    }

    /// Bits per second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }

    /// Time to send `bytes` at this rate, rounded to the nearest nanosecond; [`Duration::MAX`] at rate zero (unless
    /// there is nothing to send).
    pub fn time_to_send(self, bytes: Bytes) -> Duration {
        if bytes.as_u64() == 0 {
            return Duration::ZERO;
        }
        if self.0 == 0 {
            return Duration::MAX;
        }
        // Of a packet, all of this fits 64 bits, whose division takes a fraction of the time.
        let half = self.0 / 2;
        let short = bytes.as_u64().checked_mul(BIT_NANOS_OF_A_BYTE).and_then(|bit_nanos| bit_nanos.checked_add(half));
        Duration::from_nanos(short.map_or_else(|| self.long_time_to_send(bytes), |bit_nanos| bit_nanos / self.0))
    }

    #[cold]
    fn long_time_to_send(self, bytes: Bytes) -> u64 {
        let bit_nanos = u128::from(bytes.as_u64()) * u128::from(BIT_NANOS_OF_A_BYTE);
        let rate = u128::from(self.0);
        u64::try_from((bit_nanos + rate / 2) / rate).unwrap_or(u64::MAX)
    }

    /// Whole bytes that this rate carries in `duration`.
    pub fn bytes_in(self, duration: Duration) -> Bytes {
        if let Some(bit_nanos) = self.0.checked_mul(duration.as_nanos()) {
            return Bytes::new(bit_nanos / BIT_NANOS_OF_A_BYTE);
        }
        let bytes = u128::from(self.0) * u128::from(duration.as_nanos()) / u128::from(BIT_NANOS_OF_A_BYTE);
        Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    /// The mean rate of `bytes` over `duration`; zero if no time passed.
    pub fn from_transfer(bytes: Bytes, duration: Duration) -> Rate {
        if duration.is_zero() {
            return Rate::ZERO;
        }
        if let Some(bit_nanos) = bytes.as_u64().checked_mul(BIT_NANOS_OF_A_BYTE) {
            return Rate(bit_nanos / duration.as_nanos());
        }
        let bps = u128::from(bytes.as_u64()) * u128::from(BIT_NANOS_OF_A_BYTE) / u128::from(duration.as_nanos());
        Rate(u64::try_from(bps).unwrap_or(u64::MAX))
    }

    /// This rate times `factor` (not negative), rounded.
    pub fn mul_f64(self, factor: f64) -> Rate {
        Rate(rounded(self.0 as f64 * factor))
    }

    /// `self - other`, or zero.
    pub const fn saturating_sub(self, other: Rate) -> Rate {
        Rate(self.0.saturating_sub(other.0))
    }
}

impl std::fmt::Display for Rate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write_scaled(f, self.0, Self::SCALE)
    }
}

text_form!(Rate);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_units_of_rate() {
        assert_eq!(Rate::parse("6Mbit/s"), Ok(Rate::from_bps(6_000_000)));
        assert_eq!(Rate::parse("1.536Mbit/s"), Ok(Rate::from_bps(1_536_000)));
        assert_eq!(Rate::parse("1Tbit/s"), Ok(Rate::from_bps(1_000_000_000_000)));
        assert_eq!(Rate::from_bps(1_000_000_000_000).to_string(), "1Tbit/s");
        assert!(Rate::parse("6MB/s").is_err());
        assert!(Rate::parse("6").is_err());
    }

    #[test]
    fn a_packet_of_1500_bytes_takes_2_ms_at_6_mbit() {
        assert_eq!(Rate::from_bps(6_000_000).time_to_send(Bytes::new(1500)), Duration::from_millis(2));
    }

    #[test]
    fn zero_rate_never_finishes() {
        assert_eq!(Rate::ZERO.time_to_send(Bytes::new(1)), Duration::MAX);
        assert_eq!(Rate::ZERO.time_to_send(Bytes::ZERO), Duration::ZERO);
    }

    /// At most and just above what 64 bits hold in between.
    #[test]
    fn large_figures_are_as_exact_as_small_ones() {
        let bytes = Bytes::new(u64::MAX / 8_000_000_000);
        let rate = Rate::from_bps(1_000_000_000);
        for bytes in [bytes, bytes + Bytes::new(1), bytes + bytes] {
            let time = rate.time_to_send(bytes);
            assert_eq!(time.as_nanos(), bytes.as_u64() * 8, "{bytes}");
            assert_eq!(rate.bytes_in(time), bytes);
            assert_eq!(Rate::from_transfer(bytes, time), rate);
        }
        assert_eq!(Rate::from_bps(3).time_to_send(bytes).as_nanos(), 6_148_914_690_666_666_667);
        assert_eq!(Rate::from_bps(1).time_to_send(bytes + bytes), Duration::from_nanos(u64::MAX));
    }

    #[test]
    fn bytes_and_time_are_inverse() {
        let rate = Rate::from_bps(8_000_000);
        assert_eq!(rate.bytes_in(Duration::from_millis(500)), Bytes::new(500_000));
        assert_eq!(Rate::from_transfer(Bytes::new(500_000), Duration::from_millis(500)), rate);
    }
}
