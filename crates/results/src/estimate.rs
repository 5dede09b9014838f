//! Means with their confidence.

use crate::summary::Statistic;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// A mean over seeds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// The interval that holds the mean of all seeds with 95 % confidence (Student's t); none of a single run.
    pub interval: Option<(f64, f64)>,
    /// How many runs there were.
    pub runs: usize,
}

impl Estimate {
    /// Of `values`, one for each seed; none if there are none.
    ///
    /// ```
    /// let estimate = results::Estimate::of([9.0, 10.0, 11.0]).expect("three values");
    /// assert_eq!((estimate.mean, estimate.runs), (10.0, 3));
    /// let (low, high) = estimate.interval.expect("of several values");
    /// assert!((low - 7.516).abs() < 1e-3 && (high - 12.484).abs() < 1e-3);
    /// ```
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.into_iter().collect();
        let statistic = Statistic::of(values.iter().copied())?;
        let runs = values.len();
        let interval = statistic.stddev.and_then(|stddev| {
            let quantile = StudentsT::new(0.0, 1.0, (runs - 1) as f64).ok()?.inverse_cdf(0.975);
            let half = quantile * stddev / (runs as f64).sqrt();
            Some((statistic.mean - half, statistic.mean + half))
        });
        Some(Self { mean: statistic.mean, interval, runs })
    }
}
