//! What a study does: it finds again what its paper prints.

use crate::{Context, Error, printed::Item};
use results::Estimate;
use results::chart::Chart;
use serde::Serialize;

/// A paper and how its figures are found again. [`crate`] has an example.
pub trait Study: Sync {
    /// Its name on the command line; also the folder of its data below `scenarios/papers`.
    fn name(&self) -> &'static str;

    /// The text of `scenarios/papers/NAME/printed.toml`, by `include_str!`.
    fn printed(&self) -> &'static str;

    /// Finds one item of [`Study::printed`] again: called once for each, in their order, unless the user chose some.
    ///
    /// What is random or takes threads comes from `context`; equal contexts give equal results.
    ///
    /// # Errors
    /// If it cannot be run; that a value deviates is a result.
    fn reproduce(&self, item: &Item, context: &Context<'_>) -> Result<Reproduction, Error>;
}

/// What was found of an item.
#[derive(Debug, Clone, Default)]
pub struct Reproduction {
    /// What was found of its entries, in any order; an entry that is missing was not run.
    pub found: Vec<Found>,
    /// The figures, redrawn with the paper's axes.
    pub charts: Vec<Chart>,
    /// What holds for the item as a whole: choices, reasons, what a reader must know.
    pub remarks: Vec<String>,
}

/// What was found of an entry.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    /// The entry's key.
    pub key: String,
    /// By closed form, in the item's unit.
    pub model: Option<f64>,
    /// By simulation.
    pub simulated: Option<Estimate>,
    /// With the kernel's TCP over the emulated link.
    pub measured: Option<f64>,
    /// Of claims, and where a verdict does not follow from the numbers: see [`crate::verdict`].
    pub verdict: Option<Verdict>,
    /// Of claims judged under several readings of what the paper leaves open: in how many it holds.
    pub readings: Option<Readings>,
    /// Why it deviates, or what a claim depends on.
    pub note: Option<String>,
}

impl Found {
    /// Nothing yet of the entry `key`.
    pub fn new(key: impl Into<String>) -> Self {
        Self { key: key.into(), ..Self::default() }
    }

    /// With the value of a closed form.
    #[must_use]
    pub fn model(self, value: f64) -> Self {
        Self { model: Some(value), ..self }
    }

    /// With simulated values, one for each seed; none if there are none.
    #[must_use]
    pub fn simulated(self, values: impl IntoIterator<Item = f64>) -> Self {
        Self { simulated: Estimate::of(values), ..self }
    }

    /// With a measured value, if there is one.
    #[must_use]
    pub fn measured(self, value: Option<f64>) -> Self {
        Self { measured: value, ..self }
    }

    /// With a verdict.
    #[must_use]
    pub fn verdict(self, verdict: Verdict) -> Self {
        Self { verdict: Some(verdict), ..self }
    }

    /// With the verdict that `readings` give.
    #[must_use]
    pub fn over(self, readings: Readings) -> Self {
        Self { verdict: Some(readings.verdict()), readings: Some(readings), ..self }
    }

    /// With a note.
    #[must_use]
    pub fn note(self, note: impl Into<String>) -> Self {
        Self { note: Some(note.into()), ..self }
    }
}

/// In how many readings of what a paper leaves open a claim holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Readings {
    /// In so many.
    pub holds: usize,
    /// Of so many.
    pub of: usize,
}

impl Readings {
    /// Over all of them.
    pub fn verdict(self) -> Verdict {
        match self.holds {
            0 => Verdict::Open,
            holds if holds == self.of => Verdict::Holds,
            _ => Verdict::DependsOn,
        }
    }
}

/// What was found, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The value is reproduced within the tolerance.
    Within,
    /// It is not.
    Off,
    /// The printed value contradicts the paper itself.
    Inconsistent,
    /// The claim holds.
    Holds,
    /// It does not.
    DoesNotHold,
    /// It holds in some cases, which the note names.
    DependsOn,
    /// No reading of what the paper leaves open reproduces it.
    Open,
    /// The paper prints nothing to compare with.
    Unprinted,
}

impl Verdict {
    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            Verdict::Within => "within",
            Verdict::Off => "off",
            Verdict::Inconsistent => "paper inconsistent",
            Verdict::Holds => "holds",
            Verdict::DoesNotHold => "does not hold",
            Verdict::DependsOn => "depends",
            Verdict::Open => "open",
            Verdict::Unprinted => "not printed",
        }
    }

    /// As a CSS class.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Verdict::Within | Verdict::Holds => "found",
            Verdict::Off | Verdict::DoesNotHold => "contradicted",
            Verdict::Inconsistent | Verdict::DependsOn | Verdict::Open | Verdict::Unprinted => "open",
        }
    }

    /// Whether the paper's statement is found again, or nobody could.
    pub fn is_expected(self) -> bool {
        matches!(self, Verdict::Within | Verdict::Holds | Verdict::Inconsistent | Verdict::Unprinted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_reading_reproduces_is_open() {
        let verdict = |holds| Readings { holds, of: 3 }.verdict();
        assert_eq!([0, 1, 3].map(verdict), [Verdict::Open, Verdict::DependsOn, Verdict::Holds]);
    }
}
