//! Probabilities.

use crate::QuantityError;
use crate::parse::Grammar;

/// A probability from 0 to 1, written as a number (`1e-3`, `0`, `0.25`) or in per cent (`0.1%`).
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default, serde::Serialize)]
pub struct Probability(f64);

impl Probability {
    /// Never.
    pub const ZERO: Probability = Probability(0.0);

    const GRAMMAR: Grammar = Grammar { quantity: "probability", example: "1e-3 or 0.1%", units: &[] };

    /// The probability `value`.
    ///
    /// # Errors
    /// If `value` is not from 0 to 1.
    pub fn new(value: f64) -> Result<Self, QuantityError> {
        if (0.0..=1.0).contains(&value) {
            Ok(Self(value))
        } else {
            Err(Self::GRAMMAR.error(&value.to_string(), "it is not from 0 to 1"))
        }
    }

    /// Reads `1e-3` or `0.1%`.
    ///
    /// # Errors
    /// If `text` is not a number from 0 to 1.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let (number, scale) = match text.trim().strip_suffix('%') {
            Some(per_cent) => (per_cent.trim_end(), 100.0),
            None => (text.trim(), 1.0),
        };
        let value: f64 = number.parse().map_err(|_| Self::GRAMMAR.error(text, "it is not a number"))?;
        Self::new(value / scale).map_err(|_| Self::GRAMMAR.error(text, "it is not from 0 to 1"))
    }

    /// The value, from 0 to 1.
    pub const fn as_f64(self) -> f64 {
        self.0
    }
}

impl std::str::FromStr for Probability {
    type Err = QuantityError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl std::fmt::Display for Probability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0 != 0.0 && self.0 < 1e-2 { write!(f, "{:e}", self.0) } else { write!(f, "{}", self.0) }
    }
}

impl<'de> serde::Deserialize<'de> for Probability {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(f64::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_zero_to_one() {
        assert_eq!(Probability::parse("1e-3").expect("valid").as_f64(), 1e-3);
        assert_eq!(Probability::parse("1%").expect("valid").as_f64(), 0.01);
        assert_eq!(Probability::parse("0.1 %").expect("valid").as_f64(), 1e-3);
        for text in ["1.1", "-0.1", "NaN", "", "101%", "%", "1%%"] {
            assert!(Probability::parse(text).is_err(), "{text}");
        }
    }
}
