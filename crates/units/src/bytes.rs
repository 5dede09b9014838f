//! Volumes of data in bytes.

use crate::QuantityError;
use crate::parse::{Grammar, text_form, write_scaled};
use std::ops::{Add, AddAssign, Mul, Sub};

/// A volume of data in bytes, never negative. Subtraction stops at zero, addition and multiplication saturate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(u64);

impl Bytes {
    /// Nothing.
    pub const ZERO: Bytes = Bytes(0);

    /// Units to write it in, the largest first.
    const SCALE: &[(&str, u64)] = &[("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000), ("B", 1)];
    const GRAMMAR: Grammar = Grammar {
        quantity: "size",
        example: "1MB",
        units: &[
            ("B", 1.0),
            ("kB", 1e3),
            ("MB", 1e6),
            ("GB", 1e9),
            ("KiB", 1024.0),
            ("MiB", 1_048_576.0),
            ("GiB", 1_073_741_824.0),
        ],
    };

    /// `bytes` bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Reads `1MB` (10^6), `320KiB` (320 x 1024), `1500B`.
    ///
    /// # Errors
    /// If `text` is not a number followed by a unit of size.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        Self::GRAMMAR.parse(text).map(Self)
    }

    /// The number of bytes.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// The number of bytes as a length in memory (saturating on 32-bit hosts).
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    /// The number of bits.
    pub const fn bits(self) -> u64 {
        self.0.saturating_mul(8)
    }
}

impl From<usize> for Bytes {
    fn from(bytes: usize) -> Self {
        Self(bytes as u64)
    }
}

impl Add for Bytes {
    type Output = Bytes;
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Bytes) {
        *self = *self + other;
    }
}

impl Sub for Bytes {
    type Output = Bytes;
    fn sub(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(other.0))
    }
}

impl Mul<u64> for Bytes {
    type Output = Bytes;
    fn mul(self, factor: u64) -> Bytes {
        Bytes(self.0.saturating_mul(factor))
    }
}

impl std::fmt::Display for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write_scaled(f, self.0, Self::SCALE)
    }
}

text_form!(Bytes);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_and_binary_prefixes_differ() {
        assert_eq!(Bytes::parse("1MB"), Ok(Bytes::new(1_000_000)));
        assert_eq!(Bytes::parse("320KiB"), Ok(Bytes::new(327_680)));
        assert!(Bytes::parse("1000").is_err());
        assert!(Bytes::parse("1Mbit").is_err());
    }

    #[test]
    fn text_round_trips() {
        for text in ["1MB", "1.5kB", "1500B", "0B"] {
            let bytes = Bytes::parse(text).expect(text);
            assert_eq!(Bytes::parse(&bytes.to_string()), Ok(bytes));
        }
    }
}
