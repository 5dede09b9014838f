//! Many scenarios with many seeds at once.

use crate::{Context, Error};
use replicas::Replica;
use results::Run;
use scenario::Scenario;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Runs each scenario with each seed, all side by side; gives for each scenario its runs in the order of the seeds.
///
/// # Errors
/// As [`Context::simulate`].
pub fn sweep(
    context: &Context<'_>,
    scenarios: &[Arc<Scenario>],
    seeds: RangeInclusive<u64>,
) -> Result<Vec<Vec<Run>>, Error> {
    let replica = |scenario: &Arc<Scenario>, seed| Replica { scenario: scenario.clone(), seed };
    let replicas: Vec<_> =
        scenarios.iter().flat_map(|scenario| seeds.clone().map(move |seed| replica(scenario, seed))).collect();
    let mut runs = context.simulate(&replicas)?.into_iter();
    Ok(scenarios.iter().map(|_| runs.by_ref().take(seeds.clone().count()).collect()).collect())
}
