//! What is said of the estimate of the link's capacity: in status and metrics, and in the log where it has really changed.

use satpep::{Estimate, EstimateSource, EstimatorState};
use std::collections::BTreeMap;
use units::Rate;

/// A change of the estimate by less than this share is not worth a line.
const WORTH_A_LINE: f64 = 0.1;

/// Looks at the estimate from time to time.
#[derive(Debug, Default)]
pub(super) struct CapacityWatch {
    /// The estimate and the state that were last logged.
    logged: Option<(Rate, Standing)>,
    /// How often it has changed by a tenth or more, by what it then rested on.
    changes: BTreeMap<String, u64>,
    /// It began with what an earlier run had measured.
    is_remembered: bool,
}

/// What matters of a state: trials and the like are over before anybody could look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Guess,
    Measured,
    Silent,
}

impl CapacityWatch {
    /// Of an estimate that begins with what an earlier run has measured, or not.
    pub(super) fn new(is_remembered: bool) -> Self {
        Self { is_remembered, ..Self::default() }
    }

    /// The configuration has changed: the estimate starts again from it.
    pub(super) fn on_configured(&mut self) {
        self.is_remembered = false;
    }

    /// Logs and counts what has changed since it was last logged.
    pub(super) fn look(&mut self, estimate: &Estimate) {
        let standing = match estimate.state {
            EstimatorState::Guess => Standing::Guess,
            EstimatorState::Silent => Standing::Silent,
            _ => Standing::Measured,
        };
        let Some((rate, before)) = self.logged.replace((estimate.rate, standing)) else { return };
        let [old, new] = [rate, estimate.rate].map(|rate| rate.as_bps() as f64);
        let has_moved = (new - old).abs() > WORTH_A_LINE * old;
        let basis = self.basis(estimate.why);
        if has_moved {
            *self.changes.entry(basis.to_owned()).or_default() += 1;
        } else if standing == before {
            self.logged = Some((rate, before));
            return;
        }
        tracing::info!(
            rate = %estimate.rate, before = %rate, basis, state = state(estimate.state),
            confidence = estimate.confidence, policed = estimate.is_policed, "capacity estimate"
        );
    }

    /// What is said of the estimate, which began with the rate `prior`, if with any.
    pub(super) fn report(&self, estimate: &Estimate, prior: Option<Rate>) -> status::Capacity {
        status::Capacity {
            rate_bps: estimate.rate.as_bps(),
            prior_bps: prior.map(Rate::as_bps),
            basis: self.basis(estimate.why).into(),
            state: state(estimate.state).into(),
            confidence: estimate.confidence,
            policed: estimate.is_policed,
            changes: self.changes.clone(),
        }
    }

    fn basis(&self, source: EstimateSource) -> &'static str {
        match source {
            EstimateSource::Prior if self.is_remembered => "remembered",
            EstimateSource::Prior => "prior",
            EstimateSource::Reported => "reported",
            EstimateSource::Trains => "trains",
            EstimateSource::Queue => "queue",
            EstimateSource::Trial => "trial",
            EstimateSource::Losses => "losses",
            EstimateSource::Fixed => "fixed",
        }
    }
}

fn state(state: EstimatorState) -> &'static str {
    match state {
        EstimatorState::Guess => "guess",
        EstimatorState::Track => "track",
        EstimatorState::Trial => "trial",
        EstimatorState::Experiment => "experiment",
        EstimatorState::Quiet => "quiet",
        EstimatorState::Silent => "silent",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_from_an_earlier_run_is_told_until_another_rate_is_configured() {
        let prior = Estimate {
            rate: Rate::from_bps(6_000_000),
            why: EstimateSource::Prior,
            confidence: 1.0,
            state: EstimatorState::Guess,
            is_policed: false,
        };
        let mut watch = CapacityWatch::new(true);
        assert_eq!(watch.report(&prior, None).basis, "remembered");
        let measured = Estimate { why: EstimateSource::Trains, ..prior };
        assert_eq!(watch.report(&measured, None).basis, "trains");
        watch.on_configured();
        assert_eq!(watch.report(&prior, None).basis, "prior");
    }

    #[test]
    fn small_steps_are_no_news_until_they_add_up() {
        let mut watch = CapacityWatch::default();
        let mut look = |kbit: u64, state| {
            let rate = Rate::from_bps(kbit * 1000);
            watch.look(&Estimate { rate, why: EstimateSource::Queue, confidence: 1.0, state, is_policed: false });
            watch.changes.values().sum::<u64>()
        };
        let counts = [6000, 5800, 5600, 5300, 5000, 5000].map(|kbit| look(kbit, EstimatorState::Track));
        assert_eq!(counts, [0, 0, 0, 1, 1, 1]);
        assert_eq!(look(5000, EstimatorState::Silent), 1, "another state is news, but no change of the rate");
        assert_eq!(watch.logged, Some((Rate::from_bps(5_000_000), Standing::Silent)));
    }
}
