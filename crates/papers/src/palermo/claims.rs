//! The claims of sections 6 and 7, judged by runs over what the paper leaves open.

use super::shares::{Group, Shares};
use super::statements::{MIXED, Observed, STATEMENTS, Statement, VARIANTS};
use super::truth::{Truth, verdict};
use super::worlds::{FACTORS, SHORT_PERIOD, World};
use crate::{Context, Error, Found, Reproduction};
use replicas::Replica;
use results::chart::{Axis, Chart, Series, Style};
use std::collections::BTreeMap;

/// The shares of each variant's runs.
type OfVariants = BTreeMap<&'static str, Vec<Shares>>;

/// Judges every claim: as chosen with five seeds, and with one factor (or all) different with one.
///
/// # Errors
/// If it cannot be run.
pub fn judge(context: &Context<'_>) -> Result<Reproduction, Error> {
    let varied = if context.full() { World::all() } else { World::one_at_a_time() };
    let worlds: Vec<_> = [World::base()].into_iter().chain(varied).collect();
    let shares = simulate(&worlds, context)?;
    let base = &shares[0];
    let found = STATEMENTS.iter().map(|statement| {
        let truths: Vec<_> = shares.iter().map(|shares| (statement.truth)(&Observed { shares, base })).collect();
        let verdict = verdict(truths[0], truths[1..].iter().copied());
        let found = Found::new(statement.key).verdict(verdict).note(note(statement, &worlds, &truths));
        match statement.about {
            Some((variant, period)) => found.simulated(satellite(&base[variant], period)),
            None => found,
        }
    });
    let remarks = vec![
        format!(
            "As chosen: packets of 1000 B, windows of 20 packets, a queue of 50, UDP at 1 Mbit/s, jitter of up to one \
             packet of the bottleneck. {}. Simulated is the satellite's share that the claim is about; periods take 500 s \
             each here.",
            if context.full() { "Varied together" } else { "Varied one at a time" }
        ),
        "A claim holds where its 95 % interval is on one side of the limit. A single run is taken to scatter as the runs as \
         chosen do. The verdict is `depends` where runs as chosen do not settle it, or another choice says the opposite."
            .to_owned(),
        "`kept phases` is the same without jitter, as ns-2's agents are: see item `phase`.".to_owned(),
    ];
    let found = found.collect();
    // Charts have one factor on an axis.
    let charts = if context.full() { Vec::new() } else { sensitivity(&worlds, &shares, context) };
    Ok(Reproduction { found, charts, remarks })
}

/// The satellite's share in a period, the first being 1, of each run.
fn satellite(runs: &[Shares], period: f64) -> Vec<f64> {
    let (from, to) = ((period - 1.0) * SHORT_PERIOD, period * SHORT_PERIOD);
    runs.iter().map(|shares| shares.between(Group::Satellite, from, to)).collect()
}

/// The shares of all variants in each world, the first with more seeds.
fn simulate(worlds: &[World], context: &Context<'_>) -> Result<Vec<OfVariants>, Error> {
    let mut replicas = Vec::new();
    let mut places = Vec::new();
    for (at, world) in worlds.iter().enumerate() {
        let variants = world.variants()?;
        for name in VARIANTS.into_iter().chain([MIXED]) {
            let scenario = variants.get(name)?;
            for seed in context.seeds(if at == 0 { 5 } else { 1 }) {
                replicas.push(Replica { scenario: scenario.clone(), seed });
                places.push((at, name));
            }
        }
    }
    let mut shares = vec![OfVariants::new(); worlds.len()];
    for ((at, name), (run, replica)) in places.iter().zip(context.simulate(&replicas)?.iter().zip(&replicas)) {
        shares[*at].entry(name).or_default().push(Shares::of(run, &replica.scenario));
    }
    Ok(shares)
}

/// What a claim takes, and where it is true.
fn note(statement: &Statement, worlds: &[World], truths: &[Truth]) -> String {
    let mut text = format!("{}; as chosen: {}", statement.criterion, truths[0].text());
    let of = |truth| worlds.iter().zip(truths).skip(1).filter(move |(_, of)| **of == truth);
    let varied = truths.len() - 1;
    for truth in [Truth::Holds, Truth::Fails, Truth::Open] {
        let count = of(truth).count();
        if count == varied {
            text.push_str(&format!("; {}: all other choices", truth.text()));
        } else if count > MOST_LABELS {
            text.push_str(&format!("; {}: {count} of {varied} other choices", truth.text()));
        } else if count > 0 {
            let labels: Vec<_> = of(truth).map(|(world, _)| world.label()).collect();
            text.push_str(&format!("; {}: {}", truth.text(), labels.join("; ")));
        }
    }
    text
}

/// For each factor with an order, the satellite's mean share in the second and the third period against it.
fn sensitivity(worlds: &[World], shares: &[OfVariants], context: &Context<'_>) -> Vec<Chart> {
    let mut charts = Vec::new();
    for (at, levels) in FACTORS.iter().enumerate() {
        for (period, beside) in [(2.0, "terrestrial connections"), (3.0, "terrestrial connections and UDP")] {
            let of_variant = |variant: &'static str| {
                // Every world in which no other factor is varied.
                let alone =
                    |world: &World| world.levels.iter().enumerate().all(|(of, level)| of == at || level.is_base());
                let mut points: Vec<(f64, f64)> = worlds
                    .iter()
                    .zip(shares)
                    .filter(|(world, _)| alone(world))
                    .filter_map(|(world, shares)| {
                        Some((world.levels[at].x?, mean(&satellite(&shares[variant], period))))
                    })
                    .collect();
                points.sort_by(|one, other| one.0.total_cmp(&other.0));
                // TIBET's colour again where it has Reno beside it.
                match VARIANTS.iter().position(|name| *name == variant) {
                    Some(colour) => Series::new(variant, Style::Joined, points).with_colour(colour),
                    None => Series::new(variant, Style::Dashed, points).with_colour(VARIANTS.len() - 1),
                }
            };
            if levels.iter().all(|level| level.x.is_some()) {
                charts.push(Chart {
                    title: format!("The satellite's share beside {beside}"),
                    x: Axis::linear(levels[0].factor),
                    y: Axis::linear("satellite's share, % of the bottleneck"),
                    series: VARIANTS.into_iter().chain([MIXED]).map(of_variant).collect(),
                    caption: context.command(),
                });
            }
        }
    }
    charts
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// More labels than this say less than their number.
const MOST_LABELS: usize = 9;
