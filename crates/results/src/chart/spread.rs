//! How values are spread: boxes and cumulative distributions.

use super::{Series, Style};

/// What a box shows of values: quartiles, whiskers to the last values within 1.5 interquartile ranges of the box (Tukey), and those
/// beyond them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Quartiles {
    pub(super) low_whisker: f64,
    pub(super) first: f64,
    pub(super) median: f64,
    pub(super) third: f64,
    pub(super) high_whisker: f64,
    pub(super) beyond: Vec<f64>,
}

impl Quartiles {
    /// Of `values`; none if there are none.
    pub(super) fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let sorted = sorted(values);
        let [first, median, third] = [0.25, 0.5, 0.75].map(|share| quantile(&sorted, share));
        let (first, median, third) = (first?, median?, third?);
        let reach = 1.5 * (third - first);
        let (within, beyond): (Vec<f64>, Vec<f64>) =
            sorted.iter().partition(|value| (first - reach..=third + reach).contains(*value));
        // A box that ends between two values may have no value within its reach at one side.
        let low_whisker = within.first().map_or(first, |value| value.min(first));
        let high_whisker = within.last().map_or(third, |value| value.max(third));
        Some(Self { low_whisker, first, median, third, high_whisker, beyond })
    }
}

/// Interpolated between the nearest two of `sorted` (Hyndman and Fan's type 7, that of R and NumPy).
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let at = share * (sorted.len().checked_sub(1)?) as f64;
    let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    Some(low + (high - low) * at.fract())
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

impl Series {
    /// The cumulative distribution of `values`: at each, the share of them that is not larger.
    pub fn distribution(name: impl Into<String>, values: impl IntoIterator<Item = f64>) -> Self {
        let sorted = sorted(values.into_iter());
        let count = sorted.len() as f64;
        let mut points: Vec<(f64, f64)> = sorted.first().map(|first| (*first, 0.0)).into_iter().collect();
        for (at, value) in sorted.iter().enumerate() {
            // Equal values are one step.
            if sorted.get(at + 1) != Some(value) {
                points.push((*value, (at + 1) as f64 / count));
            }
        }
        Self::new(name, Style::Steps, points)
    }

    /// A box of `values` in the place with this number along an axis of [`Axis::names`](super::Axis::names).
    pub fn spread(name: impl Into<String>, place: usize, values: impl IntoIterator<Item = f64>) -> Self {
        Self::new(name, Style::Box, values.into_iter().map(|value| (place as f64 + 0.5, value)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_has_quartiles_whiskers_and_what_is_beyond_them() {
        // R: quantile(c(1:9, 50)) gives 3.25, 5.5, 7.75.
        let found = Quartiles::of((1..10).map(f64::from).chain([50.0, f64::NAN])).expect("ten values");
        let expected = Quartiles {
            low_whisker: 1.0,
            first: 3.25,
            median: 5.5,
            third: 7.75,
            high_whisker: 9.0,
            beyond: vec![50.0],
        };
        assert_eq!(found, expected);
        assert_eq!(Quartiles::of(std::iter::empty()), None);
        assert_eq!(Quartiles::of([4.0].into_iter()).expect("one").high_whisker, 4.0);
    }

    #[test]
    fn a_distribution_rises_from_nothing_to_all() {
        let series = Series::distribution("rtt", [3.0, 1.0, 3.0, 2.0]);
        assert_eq!(series.points, [(1.0, 0.0), (1.0, 0.25), (2.0, 0.5), (3.0, 1.0)]);
        assert_eq!(Series::distribution("none", []).points, []);
    }
}
