//! Instants and durations in integer nanoseconds.

use crate::QuantityError;
use crate::parse::{Grammar, text_form, write_scaled};
use crate::rounding::rounded;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

/// A point in time: nanoseconds since an origin that the driver chose (the start of a simulation, the boot of the host).
///
/// Protocol code compares and subtracts instants and never asks a clock for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

/// A length of time in nanoseconds, never negative. Arithmetic saturates: nothing in a protocol lasts 584 years.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Duration(u64);

impl Instant {
    /// The origin.
    pub const ZERO: Instant = Instant(0);
    /// Later than anything that happens.
    pub const FAR_FUTURE: Instant = Instant(u64::MAX);

    /// The instant `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the origin.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Time from `earlier` to `self`; zero if `earlier` is later.
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }

    /// This instant moved back by `duration`, at most to the origin.
    pub const fn before(self, duration: Duration) -> Instant {
        Instant(self.0.saturating_sub(duration.0))
    }
}

impl Duration {
    /// No time at all.
    pub const ZERO: Duration = Duration(0);
    /// The longest duration that can be written.
    pub const MAX: Duration = Duration(u64::MAX);

    /// Units to write it in, the largest first.
    const SCALE: &[(&str, u64)] = &[("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
    const GRAMMAR: Grammar = Grammar {
        quantity: "duration",
        example: "550ms",
        units: &[("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9), ("h", 3600e9)],
    };

    /// `nanos` nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// `micros` microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// `secs` seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// `secs` seconds, rounded to a nanosecond; negative and not-a-number become zero, too long becomes [`Duration::MAX`].
    #[inline]
    pub fn from_secs_f64(secs: f64) -> Self {
        Self(rounded(secs * 1e9))
    }

    /// Reads `550ms`, `1.5s`, `250us`, `2min`.
    ///
    /// # Errors
    /// If `text` is not a number followed by a unit of time.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        Self::GRAMMAR.parse(text).map(Self)
    }

    /// This duration in nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// This duration in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// This duration in milliseconds.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Whether this is no time at all.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// `self - other`, or zero.
    pub const fn saturating_sub(self, other: Duration) -> Duration {
        Duration(self.0.saturating_sub(other.0))
    }

    /// This duration times `factor` (not negative), rounded.
    pub fn mul_f64(self, factor: f64) -> Duration {
        Duration(rounded(self.0 as f64 * factor))
    }
}

impl From<Duration> for std::time::Duration {
    fn from(duration: Duration) -> Self {
        std::time::Duration::from_nanos(duration.0)
    }
}

impl From<std::time::Duration> for Duration {
    fn from(duration: std::time::Duration) -> Self {
        Duration(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;
    fn add(self, duration: Duration) -> Instant {
        Instant(self.0.saturating_add(duration.0))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Add for Duration {
    type Output = Duration;
    fn add(self, other: Duration) -> Duration {
        Duration(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Duration {
    fn add_assign(&mut self, other: Duration) {
        *self = *self + other;
    }
}

impl Sub for Duration {
    type Output = Duration;
    fn sub(self, other: Duration) -> Duration {
        self.saturating_sub(other)
    }
}

impl SubAssign for Duration {
    fn sub_assign(&mut self, other: Duration) {
        *self = *self - other;
    }
}

impl Mul<u64> for Duration {
    type Output = Duration;
    fn mul(self, factor: u64) -> Duration {
        Duration(self.0.saturating_mul(factor))
    }
}

impl Div<u64> for Duration {
    type Output = Duration;
    fn div(self, divisor: u64) -> Duration {
        Duration(self.0 / divisor)
    }
}

impl std::fmt::Display for Duration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0 == 0 {
            return f.pad("0s");
        }
        write_scaled(f, self.0, Self::SCALE)
    }
}

text_form!(Duration);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_units_of_time() {
        assert_eq!(Duration::parse("550ms"), Ok(Duration::from_millis(550)));
        assert_eq!(Duration::parse(" 1.5 s "), Ok(Duration::from_millis(1500)));
        assert_eq!(Duration::parse("2min"), Ok(Duration::from_secs(120)));
        assert_eq!(Duration::parse("1e3us"), Ok(Duration::from_millis(1)));
    }

    #[test]
    fn refuses_what_could_be_misread_and_says_how_to_mend_it() {
        for text in ["550", "ms", "", "-1s", "5 parsecs", "1e400s", "NaNs"] {
            let error = Duration::parse(text).expect_err(text).to_string();
            assert!(error.contains("550ms"), "{error}");
        }
    }

    #[test]
    fn text_round_trips() {
        for text in ["550ms", "1.5s", "250us", "17ns", "0s"] {
            assert_eq!(Duration::parse(text).expect(text).to_string(), text);
        }
    }

    #[test]
    fn subtraction_stops_at_zero() {
        assert_eq!(Instant::from_nanos(3).since(Instant::from_nanos(5)), Duration::ZERO);
        assert_eq!(Duration::from_nanos(3) - Duration::from_nanos(5), Duration::ZERO);
        assert_eq!(Instant::FAR_FUTURE + Duration::MAX, Instant::FAR_FUTURE);
    }
}
