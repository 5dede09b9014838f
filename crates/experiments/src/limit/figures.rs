//! The figures of a row, and how they follow from bytes and times.

use super::cases::{Case, FIRST, Kind, PAYLOAD, WATCHED};
use serde::Serialize;

/// Figures of one row, over its repeats: means of simulated ones, medians of real ones.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Figures {
    /// The limit over the time; where a link varies, payload over what full packets could carry.
    pub share: f64,
    /// Bytes that entered the link in the data's direction over payload bytes.
    pub overhead: f64,
    /// Jain's index over the flows' goodputs, where there are several.
    pub jain_index: Option<f64>,
    /// Goodput in its first 5 s over its fair share, of the flow that came late.
    pub latecomer: Option<f64>,
    /// 95th percentile of the link's queue in milliseconds, where the link varies: of its length, sampled, in simulations;
    /// of what packets waited for real.
    pub queue_ms: Option<f64>,
}

impl Figures {
    /// One for many, by `middle`.
    pub(super) fn over(runs: &[Figures], middle: impl Fn(&[f64]) -> f64) -> Self {
        let of = |figure: fn(&Figures) -> f64| middle(&runs.iter().map(figure).collect::<Vec<_>>());
        let of_some = |figure: fn(&Figures) -> Option<f64>| {
            let values: Vec<_> = runs.iter().filter_map(figure).collect();
            (!values.is_empty()).then(|| middle(&values))
        };
        Self {
            share: of(|run| run.share),
            overhead: of(|run| run.overhead),
            jain_index: of_some(|run| run.jain_index),
            latecomer: of_some(|run| run.latecomer),
            queue_ms: of_some(|run| run.queue_ms),
        }
    }
}

/// What a latecomer brought in its first seconds over its fair share of them.
pub(super) fn latecomer_share(case: &Case, bytes: f64) -> f64 {
    let fair = case.rate().as_bps() as f64 * PAYLOAD * (1.0 - case.loss()) / (case.flows + 1) as f64;
    bytes * 8.0 / FIRST.as_secs_f64() / fair
}

/// What was carried in whole periods of a link that varies over what full packets could carry.
pub(super) fn varying_share(case: &Case, bytes: f64) -> f64 {
    let Kind::Varying(_) = case.kind else { return f64::NAN };
    let mean = case.rate().as_bps() as f64 * 0.75 * PAYLOAD;
    bytes * 8.0 / WATCHED.as_secs_f64() / mean
}
