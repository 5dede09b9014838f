//! What the quantities share: a decimal number followed by a unit.

/// A quantity that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {quantity}: {problem}; write for example {example}")]
pub struct QuantityError {
    pub(crate) text: String,
    pub(crate) quantity: &'static str,
    pub(crate) problem: String,
    pub(crate) example: &'static str,
}

/// What a kind of quantity is called, how it is written, and the factor of each of its units.
pub(crate) struct Grammar {
    pub(crate) quantity: &'static str,
    pub(crate) example: &'static str,
    pub(crate) units: &'static [(&'static str, f64)],
}

impl Grammar {
    /// Reads `text` as a non-negative multiple of the base unit, rounded to an integer.
    pub(crate) fn parse(&self, text: &str) -> Result<u64, QuantityError> {
        let trimmed = text.trim();
        let split =
            trimmed.char_indices().find(|&(at, c)| !is_number_char(trimmed, at, c)).map_or(trimmed.len(), |(at, _)| at);
        let (number, unit) = trimmed.split_at(split);
        let value: f64 = number.trim().parse().map_err(|_| self.error(text, "it does not start with a number"))?;
        let unit = unit.trim();
        if unit.is_empty() {
            return Err(self.error(text, "it has no unit"));
        }
        let factor = self.units.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor).ok_or_else(|| {
            let known: Vec<_> = self.units.iter().map(|(name, _)| *name).collect();
            self.error(text, &format!("`{unit}` is none of {}", known.join(", ")))
        })?;
        let scaled = value * factor;
        if !scaled.is_finite() || scaled < 0.0 {
            return Err(self.error(text, "it is negative or not finite"));
        }
        if scaled >= u64::MAX as f64 {
            return Err(self.error(text, "it is too large"));
        }
        Ok(scaled.round() as u64)
    }

    pub(crate) fn error(&self, text: &str, problem: &str) -> QuantityError {
        QuantityError {
            text: text.to_owned(),
            quantity: self.quantity,
            problem: problem.to_owned(),
            example: self.example,
        }
    }
}

/// Whether the character at `at` still belongs to the number. An `e` does only before a digit or a signed digit, so
/// that units may begin with one.
fn is_number_char(text: &str, at: usize, c: char) -> bool {
    let after = &text.as_bytes()[at + c.len_utf8()..];
    match c {
        '0'..='9' | '.' => true,
        '+' | '-' => at == 0 || matches!(text.as_bytes()[at - 1], b'e' | b'E'),
        'e' | 'E' => match after {
            [b'+' | b'-', digit, ..] => digit.is_ascii_digit(),
            [digit, ..] => digit.is_ascii_digit(),
            [] => false,
        },
        _ => false,
    }
}

/// Gives a quantity with a `SCALE` of units `FromStr`, and serde by its text form. What is serialised reads back as the
/// very same value.
macro_rules! text_form {
    ($type:ty) => {
        impl std::str::FromStr for $type {
            type Err = crate::QuantityError;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::parse(text)
            }
        }
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str> as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&crate::parse::exact_text(self.0, Self::SCALE))
            }
        }
    };
}
pub(crate) use text_form;

/// `value` in the largest unit in which three decimals hold it exactly.
pub(crate) fn exact_text(value: u64, units: &[(&str, u64)]) -> String {
    let is_exact = |factor: u64| value >= factor && u128::from(value) * 1_000 % u128::from(factor) == 0;
    match units.iter().find(|(_, factor)| is_exact(*factor)) {
        Some((name, factor)) if *factor > 1 => {
            let text = format!("{}.{:03}", value / factor, u128::from(value % factor) * 1_000 / u128::from(*factor));
            format!("{}{name}", text.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => format!("{value}{}", units[units.len() - 1].0),
    }
}

/// Writes `value` in the largest unit that it fills, with at most three decimals.
pub(crate) fn write_scaled(f: &mut std::fmt::Formatter<'_>, value: u64, units: &[(&str, u64)]) -> std::fmt::Result {
    let &(name, factor) = units.iter().find(|(_, factor)| value >= *factor).unwrap_or(&units[units.len() - 1]);
    let text = format!("{:.3}", value as f64 / factor as f64);
    f.pad(&format!("{}{name}", text.trim_end_matches('0').trim_end_matches('.')))
}

#[cfg(test)]
mod tests {
    use crate::{Bytes, Duration, Rate};
    use serde::Serialize;
    use serde::de::IntoDeserializer;
    use serde::de::value::{Error, StrDeserializer};

    fn read<'de, T: serde::Deserialize<'de>>(text: &'de str) -> T {
        let deserializer: StrDeserializer<'de, Error> = text.into_deserializer();
        T::deserialize(deserializer).expect(text)
    }

    /// Serialises by way of a formatter, which takes any string.
    fn written(value: &impl Serialize) -> String {
        struct Text<'a, T>(&'a T);
        impl<T: Serialize> std::fmt::Display for Text<'_, T> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.serialize(f)
            }
        }
        Text(value).to_string()
    }

    #[test]
    fn what_is_serialised_reads_back_exactly() {
        for nanos in
            [0, 1, 999, 1_000, 1_001, 275_000_000, 263_728_123, 1_500_000_000, 1_000_000_001, 86_400_000_000_007]
        {
            let duration = Duration::from_nanos(nanos);
            assert_eq!(read::<Duration>(&written(&duration)), duration);
        }
        for bps in [0, 1, 999, 7_777_777, 1_536_000, 40_000_000_001] {
            assert_eq!(read::<Rate>(&written(&Rate::from_bps(bps))), Rate::from_bps(bps));
            assert_eq!(read::<Bytes>(&written(&Bytes::new(bps))), Bytes::new(bps));
        }
        assert_eq!(written(&Duration::from_millis(1_536)), "1.536s");
        assert_eq!(written(&Rate::from_bps(7_777_777)), "7777.777kbit/s");
    }
}
