//! Figures 2 to 8 and 11: who has the bottleneck in each of the three periods.

use super::charts::{over_time, share_axis};
use super::shares::{Group, Shares};
use super::{FILE, PACKETS_OF_1000_B, PHASES, charts};
use crate::printed::Item;
use crate::{Context, Error, Found, Reproduction, Variants};
use replicas::Replica;
use scenario::Scenario;
use std::sync::Arc;

/// Names of the paper's three periods, with their begin and end in seconds.
const PERIODS: [(&str, f64, f64); 3] =
    [("0-2000 s", 0.0, 2000.0), ("2000-4000 s", 2000.0, 4000.0), ("4000-6000 s", 4000.0, 6000.0)];

/// One figure: the shares with one variant.
///
/// # Errors
/// If it cannot be run.
pub fn figure(variant: &str, item: &Item, context: &Context<'_>) -> Result<Reproduction, Error> {
    let scenario = Variants::load(PHASES, FILE, &[])?.get(variant)?;
    let shares = simulate(&scenario, 4, context)?;
    let found =
        item.entries.iter().filter_map(|entry| Some(Found::new(&entry.key).simulated(of_key(&entry.key, &shares)?)));
    let remarks = vec![
        "Packets of 1000 B and 40 B of headers, windows of 20 packets, queues of 50 and hosts that take no time are ns-2's; 1 \
         Mbit/s of UDP is ours. Item `claims` varies all of it, item `phase` the satellite's delay."
            .to_owned(),
        "Shares count headers. That 100 % is printed stands for \"very close to the 100%\"; the bands are those of 95 % confidence."
            .to_owned(),
    ];
    let chart = over_time(item, share_axis("throughput"), charts::shares(&shares, &Group::ALL), context);
    Ok(Reproduction { found: found.collect(), charts: vec![chart], remarks })
}

/// Our shares where the scenario is that of the recorded runs of ns-2: in each entry's key the variant stands first.
///
/// # Errors
/// If it cannot be run.
pub fn as_in_ns2(item: &Item, context: &Context<'_>) -> Result<Reproduction, Error> {
    let settings = ["link.sat.delay=260ms", PACKETS_OF_1000_B[0], PACKETS_OF_1000_B[1]].map(str::to_owned);
    let variants = Variants::load(PHASES, FILE, &settings)?;
    let mut found = Vec::new();
    for variant in ["tahoe", "reno", "newreno", "sack", "vegas"] {
        let shares = simulate(&variants.get(variant)?, 1, context)?;
        let of_variant = |key: &str| of_key(key.strip_prefix(variant)?.strip_prefix(", ")?, &shares);
        found.extend(
            item.entries.iter().filter_map(|entry| Some(Found::new(&entry.key).simulated(of_variant(&entry.key)?))),
        );
    }
    let remarks = vec![
        "ns-2 and the simulator agree: docs/validation.md has 20 seeds of each. Without jitter the seeds draw little more \
         than the starts; UDP's share scatters all the same."
            .to_owned(),
    ];
    Ok(Reproduction { found, charts: Vec::new(), remarks })
}

/// The shares of each run of `scenario`.
fn simulate(scenario: &Arc<Scenario>, seeds: u64, context: &Context<'_>) -> Result<Vec<Shares>, Error> {
    let replicas: Vec<_> = context.seeds(seeds).map(|seed| Replica { scenario: Arc::clone(scenario), seed }).collect();
    Ok(context.simulate(&replicas)?.iter().map(|run| Shares::of(run, scenario)).collect())
}

/// What an entry such as `2000-4000 s, satellite` is in each run.
fn of_key(key: &str, runs: &[Shares]) -> Option<Vec<f64>> {
    let (period, group) = key.split_once(", ")?;
    let (_, from, to) = PERIODS.into_iter().find(|(name, ..)| *name == period)?;
    let group = Group::ALL.into_iter().find(|of| of.text() == group)?;
    Some(runs.iter().map(|shares| shares.between(group, from, to)).collect())
}
