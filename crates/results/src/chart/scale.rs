//! From the values of an axis to where they stand on it, and the values that are written beside it.

use super::Axis;
use crate::error::Error;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use std::ops::Range;

/// An axis whose range is known. Its coordinates are values on a linear axis, decimal logarithms on a logarithmic one.
#[derive(Debug, Clone)]
pub(super) struct Scale {
    log: bool,
    range: Range<f64>,
    /// What is written beside it, in coordinates.
    ticks: Vec<f64>,
    /// Decimals of what is written on a linear axis.
    decimals: usize,
    /// Written instead of numbers: the first from 0 to 1, and so on.
    names: Vec<String>,
}

impl Scale {
    /// The axis with its own range, or around `values`: from zero if `from_zero` and nothing is below.
    pub(super) fn new(
        axis: &Axis,
        values: impl Iterator<Item = f64>,
        from_zero: bool,
        most_ticks: usize,
    ) -> Result<Self, Error> {
        let range = match axis.range {
            Some((low, high)) if low < high && (low > 0.0 || !axis.log) && high.is_finite() => {
                coordinate(axis, low)..coordinate(axis, high)
            }
            Some((low, high)) => {
                let least = if axis.log { ", and above zero on a logarithmic axis" } else { "" };
                let problem = format!("the axis `{}` cannot go from {low} to {high}: it must rise{least}", axis.label);
                return Err(Error::Picture(problem));
            }
            None => around(values.map(|value| coordinate(axis, value)), from_zero && !axis.log, from_zero),
        };
        let middles = || (0..axis.names.len()).map(|place| place as f64 + 0.5).collect();
        let (ticks, decimals) = match axis.log {
            _ if !axis.names.is_empty() => (middles(), 0),
            true => (decades(&range, most_ticks), 0),
            false => even_steps(&range, most_ticks),
        };
        Ok(Self { log: axis.log, range, ticks, decimals, names: axis.names.clone() })
    }

    /// From where to where, in coordinates.
    pub(super) fn span(&self) -> &Range<f64> {
        &self.range
    }
}

/// Where `value` stands on `axis`; not a number where it cannot.
pub(super) fn coordinate(axis: &Axis, value: f64) -> f64 {
    match (axis.log, value > 0.0) {
        (true, true) => value.log10(),
        (true, false) => f64::NAN,
        (false, _) => value,
    }
}

/// What holds all finite coordinates, with some air if `air`, and never empty.
fn around(coordinates: impl Iterator<Item = f64>, from_zero: bool, air: bool) -> Range<f64> {
    let finite = coordinates.filter(|coordinate| coordinate.is_finite());
    let (low, high) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), c| (low.min(c), high.max(c)));
    if low > high {
        return 0.0..1.0;
    }
    let low = if from_zero && low > 0.0 { 0.0 } else { low };
    if low == high {
        return if low == 0.0 { 0.0..1.0 } else { low - low.abs() / 2.0..high + high.abs() / 2.0 };
    }
    let margin = if air { (high - low) * 0.05 } else { 0.0 };
    (if from_zero && low == 0.0 { low } else { low - margin })..high + margin
}

/// Multiples of 1, 2 or 5 times a power of ten within `range`, at most `most` of them, and how many decimals they need.
fn even_steps(range: &Range<f64>, most: usize) -> (Vec<f64>, usize) {
    let rough = (range.end - range.start) / most.max(1) as f64;
    let power = rough.log10().floor();
    let holds = |factor: &f64| factor * 10f64.powf(power) >= rough * (1.0 - 1e-9);
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(holds).unwrap_or(10.0);
    let step = factor * 10f64.powf(power);
    // A range that is some multiple of a step may miss its ends by rounding.
    let (first, last) = ((range.start / step - 1e-9).ceil(), (range.end / step + 1e-9).floor());
    let ticks = (0..=(last - first).max(0.0) as usize).map(|number| (first + number as f64) * step).collect();
    (ticks, (-step.log10().floor()).clamp(0.0, 12.0) as usize)
}

/// Powers of ten within `range`; with 2 and 5 times them where there are few; only some of them where there are many.
fn decades(range: &Range<f64>, most: usize) -> Vec<f64> {
    let (low, high) = (range.start - 1e-9, range.end + 1e-9);
    let factors: &[f64] = match range.end - range.start {
        span if span * 9.0 <= most as f64 => &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
        span if span * 3.0 <= most as f64 => &[1.0, 2.0, 5.0],
        _ => &[1.0],
    };
    let every = ((high - low) / most.max(1) as f64).ceil().max(1.0) as usize;
    let powers = (low.floor() as i64..=high.floor() as i64).filter(|power| power % every as i64 == 0);
    let ticks = powers.flat_map(|power| factors.iter().map(move |factor| power as f64 + factor.log10()));
    ticks.filter(|tick| (low..=high).contains(tick)).collect()
}

impl Ranged for Scale {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, pixels: (i32, i32)) -> i32 {
        let share = (value - self.range.start) / (self.range.end - self.range.start);
        pixels.0 + (f64::from(pixels.1 - pixels.0) * share).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Scale {
    fn format_ext(&self, coordinate: &f64) -> String {
        if let Some(name) = self.names.get(*coordinate as usize) {
            return name.clone();
        }
        if !self.log {
            // Zero is not negative.
            return format!("{:.*}", self.decimals, if coordinate.abs() < 1e-12 { 0.0 } else { *coordinate });
        }
        let value = 10f64.powf(*coordinate);
        let power = (coordinate + 1e-9).floor();
        if (-3.0..5.0).contains(&power) {
            format!("{value:.*}", (-power).max(0.0) as usize)
        } else {
            format!("{value:.0e}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(axis: &Axis, most: usize) -> Vec<String> {
        let scale = Scale::new(axis, std::iter::empty(), false, most).expect("an axis");
        scale.ticks.iter().map(|tick| scale.format_ext(tick)).collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(written(&Axis::linear("").within(0.0, 7.3), 8), ["0", "1", "2", "3", "4", "5", "6", "7"]);
        assert_eq!(written(&Axis::linear("").within(-0.1, 0.2), 3), ["-0.1", "0.0", "0.1", "0.2"]);
        assert_eq!(written(&Axis::log("").within(1e-5, 1e-2), 5), ["1e-5", "1e-4", "0.001", "0.01"]);
        assert_eq!(written(&Axis::log("").within(1.0, 30.0), 6), ["1", "2", "5", "10", "20"]);
        assert_eq!(written(&Axis::log("").within(1e-9, 1.0), 5), ["1e-8", "1e-6", "1e-4", "0.01", "1"]);
        assert_eq!(written(&Axis::linear("").within(1e6, 5e6), 2), ["2000000", "4000000"]);
    }
}
