//! The figures of a row.

use serde::Serialize;

/// Figures of one run, or of many: means of simulated ones, medians of real ones.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Figures {
    /// The limit over the time; 0 for a transfer that did not end.
    pub share: f64,
    /// IP bytes that entered the link in the data's direction over payload bytes.
    pub overhead: f64,
    /// 95th percentile of the time that the bottleneck's queue takes to send, in seconds, while the transfer runs.
    pub queue_p95_s: Option<f64>,
    /// Jain's index over the flows' goodputs, where there are several.
    pub jain_index: Option<f64>,
    /// From the end of a fade or an outage until the link is given 95 % of its rate again, in round trips.
    pub back_rtt: Option<f64>,
    /// IP bytes that entered the link during an outage over payload bytes.
    pub sent_into_outage: Option<f64>,
    /// 95th percentile of requests beside the transfer less that on an idle link, in seconds.
    pub requests_s: Option<f64>,
    /// Packets that a policer dropped over those that it was given.
    pub policed: Option<f64>,
    /// Shares of a hub before, during and after the trouble, each from three round trips after the change; `share` is the least of them.
    pub phase_shares: Option<[f64; 3]>,
}

impl Figures {
    /// One for many, by `middle`.
    pub(super) fn over(runs: &[Figures], middle: impl Fn(&[f64]) -> f64) -> Self {
        let of = |figure: fn(&Figures) -> f64| middle(&runs.iter().map(figure).collect::<Vec<_>>());
        let of_some = |figure: fn(&Figures) -> Option<f64>| {
            let values: Vec<_> = runs.iter().filter_map(figure).collect();
            (!values.is_empty()).then(|| middle(&values))
        };
        let phases: Vec<_> = runs.iter().filter_map(|run| run.phase_shares).collect();
        let of_phase = |phase: usize| middle(&phases.iter().map(|shares| shares[phase]).collect::<Vec<_>>());
        Self {
            share: of(|run| run.share),
            overhead: of(|run| run.overhead),
            queue_p95_s: of_some(|run| run.queue_p95_s),
            jain_index: of_some(|run| run.jain_index),
            back_rtt: of_some(|run| run.back_rtt),
            sent_into_outage: of_some(|run| run.sent_into_outage),
            requests_s: of_some(|run| run.requests_s),
            policed: of_some(|run| run.policed),
            phase_shares: (!phases.is_empty()).then(|| std::array::from_fn(of_phase)),
        }
    }
}
