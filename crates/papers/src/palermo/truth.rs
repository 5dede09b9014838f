//! Whether a sentence about shares is true, as far as the scatter of runs lets one say.

use crate::{Estimate, Verdict};

/// What is assumed of a single run: so many percentage points to either side.
const SCATTER_OF_ONE: f64 = 2.0;

/// A mean and how far from it the truth may be, with 95 % confidence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measure {
    /// The mean.
    pub mean: f64,
    /// Half the interval.
    pub half: f64,
}

impl Measure {
    /// Of one value for each run.
    pub fn of(values: &[f64]) -> Self {
        let interval = Estimate::of(values.iter().copied()).and_then(|estimate| estimate.interval);
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        Self { mean, half: interval.map_or(SCATTER_OF_ONE, |(low, high)| (high - low) / 2.0) }
    }

    /// Whether it is above `limit`.
    pub fn above(self, limit: f64) -> Truth {
        if self.mean - self.half > limit {
            Truth::Holds
        } else if self.mean + self.half < limit {
            Truth::Fails
        } else {
            Truth::Open
        }
    }

    /// Whether it is below `limit`.
    pub fn below(self, limit: f64) -> Truth {
        Self { mean: -self.mean, half: self.half }.above(-limit)
    }

    /// Whether it is above `other`.
    pub fn exceeds(self, other: Self) -> Truth {
        Self { mean: self.mean - other.mean, half: self.half.hypot(other.half) }.above(0.0)
    }
}

/// Whether a sentence is true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truth {
    /// It is, beyond the scatter of runs.
    Holds,
    /// It is not.
    Fails,
    /// The runs do not say.
    Open,
}

impl Truth {
    /// Whether all of `parts` are true.
    pub fn all(parts: impl IntoIterator<Item = Self>) -> Self {
        parts.into_iter().fold(Self::Holds, |whole, part| match (whole, part) {
            (Self::Fails, _) | (_, Self::Fails) => Self::Fails,
            (Self::Open, _) | (_, Self::Open) => Self::Open,
            _ => Self::Holds,
        })
    }

    /// Whether more than half of `parts` are true.
    pub fn most(parts: impl IntoIterator<Item = Self>) -> Self {
        let parts: Vec<_> = parts.into_iter().collect();
        let count = |truth: Self| parts.iter().filter(|part| **part == truth).count();
        if 2 * count(Self::Holds) > parts.len() {
            Self::Holds
        } else if !parts.is_empty() && 2 * count(Self::Fails) >= parts.len() {
            Self::Fails
        } else {
            Self::Open
        }
    }

    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            Truth::Holds => "holds",
            Truth::Fails => "does not hold",
            Truth::Open => "the runs do not settle it",
        }
    }
}

/// The verdict on a claim from its truth as chosen (`base`) and where one or more settings are others (`varied`): it
/// holds, or does not, where `base` says so and none of the others says the opposite.
pub fn verdict(base: Truth, varied: impl IntoIterator<Item = Truth>) -> Verdict {
    let varied: Vec<_> = varied.into_iter().collect();
    match base {
        Truth::Holds if !varied.contains(&Truth::Fails) => Verdict::Holds,
        Truth::Fails if !varied.contains(&Truth::Holds) => Verdict::DoesNotHold,
        _ => Verdict::DependsOn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_decide() {
        let measure = Measure { mean: 10.0, half: 2.0 };
        assert_eq!(measure.above(7.9), Truth::Holds);
        assert_eq!(measure.above(9.0), Truth::Open);
        assert_eq!(measure.above(12.1), Truth::Fails);
        assert_eq!(measure.below(12.1), Truth::Holds);
        assert_eq!(measure.exceeds(Measure { mean: 13.0, half: 2.0 }), Truth::Fails, "3 against the root of 8");
        assert_eq!(measure.exceeds(Measure { mean: 12.0, half: 2.0 }), Truth::Open);
    }

    #[test]
    fn several_runs_tell_how_they_scatter() {
        let of_two = Measure::of(&[9.0, 11.0]);
        assert!((of_two.half - 12.706).abs() < 1e-3, "Student's t of one degree of freedom times the error 1");
        assert_eq!(Measure::of(&[5.0]), Measure { mean: 5.0, half: SCATTER_OF_ONE });
    }

    #[test]
    fn one_part_that_fails_is_enough() {
        assert_eq!(Truth::all([Truth::Holds, Truth::Open, Truth::Fails]), Truth::Fails);
        assert_eq!(Truth::all([Truth::Holds, Truth::Open]), Truth::Open);
        assert_eq!(Truth::all([]), Truth::Holds);
        assert_eq!(Truth::most([Truth::Holds, Truth::Holds, Truth::Fails]), Truth::Holds);
        assert_eq!(Truth::most([Truth::Holds, Truth::Fails]), Truth::Fails);
        assert_eq!(Truth::most([Truth::Holds, Truth::Open]), Truth::Open);
        assert_eq!(Truth::most([]), Truth::Open);
    }

    #[test]
    fn a_verdict_needs_agreement() {
        assert_eq!(verdict(Truth::Holds, [Truth::Open]), Verdict::Holds);
        assert_eq!(verdict(Truth::Fails, [Truth::Fails]), Verdict::DoesNotHold);
        assert_eq!(verdict(Truth::Fails, [Truth::Holds]), Verdict::DependsOn);
        assert_eq!(verdict(Truth::Open, [Truth::Holds]), Verdict::DependsOn);
    }
}
