//! What is claimed of a case.

use super::figures::Figures;
use serde::Serialize;

/// The least, or the most, that is claimed of each figure; nothing is claimed of one that is missing.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Targets {
    /// The least share of the limit.
    pub share: f64,
    /// The most bytes on the link over payload bytes.
    pub overhead: Option<f64>,
    /// The longest 95th percentile of queueing, in seconds.
    pub queue_p95_s: Option<f64>,
    /// The least of Jain's index over the flows.
    pub jain_index: Option<f64>,
    /// The longest time until the link is full again after a change, in round trips.
    pub back_rtt: Option<f64>,
    /// The most that is sent into an outage, over payload.
    pub sent_into_outage: Option<f64>,
    /// The most that a bulk transfer beside them adds to the 95th percentile of requests, in seconds.
    pub requests_s: Option<f64>,
    /// The most that a policer drops, over what it was given.
    pub policed: Option<f64>,
}

impl Targets {
    /// At least this share.
    pub(super) const fn share(share: f64) -> Self {
        Self {
            share,
            overhead: None,
            queue_p95_s: None,
            jain_index: None,
            back_rtt: None,
            sent_into_outage: None,
            requests_s: None,
            policed: None,
        }
    }

    /// At most so many per cent of bytes beyond payload.
    pub(super) const fn overhead(self, percent: f64) -> Self {
        Self { overhead: Some(1.0 + percent / 100.0), ..self }
    }

    /// At most so many milliseconds of queueing.
    pub(super) const fn queue(self, millis: f64) -> Self {
        Self { queue_p95_s: Some(millis / 1e3), ..self }
    }

    /// The names of the figures that miss their target.
    pub(super) fn missed(&self, figures: &Figures) -> Vec<&'static str> {
        let is_above = |value: Option<f64>, most: Option<f64>| matches!((value, most), (Some(v), Some(m)) if v > m);
        let is_below = |value: Option<f64>, least: Option<f64>| matches!((value, least), (Some(v), Some(l)) if v < l);
        let misses = [
            ("share", is_below(Some(figures.share), Some(self.share))),
            ("overhead", is_above(Some(figures.overhead), self.overhead)),
            ("queue_p95_s", is_above(figures.queue_p95_s, self.queue_p95_s)),
            ("jain_index", is_below(figures.jain_index, self.jain_index)),
            ("back_rtt", is_above(figures.back_rtt, self.back_rtt)),
            ("sent_into_outage", is_above(figures.sent_into_outage, self.sent_into_outage)),
            ("requests_s", is_above(figures.requests_s, self.requests_s)),
            ("policed", is_above(figures.policed, self.policed)),
        ];
        misses.into_iter().filter(|(_, misses)| *misses).map(|(name, _)| name).collect()
    }
}
