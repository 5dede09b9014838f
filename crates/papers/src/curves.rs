//! Estimates as curves with their confidence intervals.

use crate::Estimate;
use results::chart::{Series, Style};

/// A curve through the means, in a band of the confidence intervals.
pub fn curve(name: impl Into<String>, points: impl IntoIterator<Item = (f64, Estimate)>) -> Series {
    let points: Vec<_> = points.into_iter().collect();
    let means = points.iter().map(|(x, estimate)| (*x, estimate.mean)).collect();
    let band = points.iter().map(|(x, estimate)| {
        let (low, high) = estimate.interval.unwrap_or((estimate.mean, estimate.mean));
        (*x, low, high)
    });
    Series::new(name, Style::Joined, means).with_band(band.collect())
}
