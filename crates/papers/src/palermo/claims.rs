//! The claims of sections 6 and 7, judged by runs over what the paper leaves open.

use super::shares::{Group, Shares};
use super::statements::{MIXED, Observed, STATEMENTS, Statement, VARIANTS};
use super::truth::Truth;
use super::worlds::{FACTORS, Level, SHORT_PERIOD, World};
use crate::{Context, Error, Found, Readings, Reproduction};
use replicas::Replica;
use results::chart::{Axis, Chart, Series, Style};
use std::collections::BTreeMap;

/// The shares of each variant's runs.
type OfVariants = BTreeMap<&'static str, Vec<Shares>>;

/// Judges every claim: as ns-2 has what the paper leaves open with three seeds, and under every other reading with one.
///
/// # Errors
/// If it cannot be run.
pub fn judge(context: &Context<'_>) -> Result<Reproduction, Error> {
    let worlds = if context.full() { World::all() } else { World::most_likely() };
    let shares = simulate(&worlds, context)?;
    let base = &shares[0];
    let mut found = Vec::new();
    let mut all = Vec::new();
    for statement in &STATEMENTS {
        let truths: Vec<_> = shares.iter().map(|shares| (statement.truth)(&Observed { shares })).collect();
        let holds = truths.iter().filter(|truth| **truth == Truth::Holds).count();
        let judged = Found::new(statement.key).over(Readings { holds, of: worlds.len() });
        let judged = judged.note(note(statement, &worlds, &truths));
        found.push(match statement.about {
            Some((variant, period)) => judged.simulated(satellite(&base[variant], period)),
            None => judged,
        });
        all.push(truths);
    }
    // Charts have one factor on an axis.
    let charts = if context.full() { Vec::new() } else { sensitivity(&worlds, &shares, context) };
    let charts = [map(&all, context)].into_iter().chain(charts).collect();
    Ok(Reproduction { found, charts, remarks: remarks(context) })
}

fn remarks(context: &Context<'_>) -> Vec<String> {
    let varied = if context.full() { "all together" } else { "the first three together, the others one at a time" };
    let factors = FACTORS.map(|levels| levels.iter().map(|level| level.text).collect::<Vec<_>>().join(", ")).join("; ");
    vec![
        format!(
            "Readings: {factors}; the first of each is ns-2's, and the 263.7 ms are those of 34.5 degrees west; varied {varied}. \
             Simulated is the satellite's share that the claim is about, in the first reading; periods take 500 s each here."
        ),
        "A claim holds in a reading where its 95 % interval is on one side of the limit. A single run, as there is of \
         every reading but the first, is taken to scatter by 2 points to either side. What holds in no reading is open: nobody knows what it took."
            .to_owned(),
        "In the first picture claims are numbered in the order of the table from the top, readings in the order above with the \
         last factor changing fastest: 9 for each phase, 3 for each packet size of them, one for each queue."
            .to_owned(),
    ]
}

/// Where each claim holds: readings against claims.
fn map(all: &[Vec<Truth>], context: &Context<'_>) -> Chart {
    let points = |wanted: Truth| {
        let of_claim = |(at, truths): (usize, &Vec<Truth>)| {
            let those = truths.iter().enumerate().filter(|(_, truth)| **truth == wanted);
            those.map(|(reading, _)| (reading as f64 + 1.0, -(at as f64 + 1.0))).collect::<Vec<_>>()
        };
        all.iter().enumerate().flat_map(of_claim).collect::<Vec<_>>()
    };
    let series = |truth: Truth| Series::new(truth.text(), Style::Points, points(truth));
    Chart {
        title: "Which claims hold in which readings".to_owned(),
        x: Axis::linear("reading").within(0.0, all.first().map_or(1.0, |truths| truths.len() as f64 + 1.0)),
        y: Axis::linear("claim, the first at -1").within(-(all.len() as f64 + 1.0), 0.0),
        series: [Truth::Holds, Truth::Fails, Truth::Open].map(series).into(),
        caption: context.command(),
    }
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
            for seed in context.seeds(if at == 0 { 3 } else { 1 }) {
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
    let mut text = format!("{}; with ns-2's defaults: {}", statement.criterion, truths[0].text());
    let holding: Vec<_> = worlds.iter().zip(truths).filter(|(_, truth)| **truth == Truth::Holds).collect();
    if (1..=MAX_LABELS).contains(&holding.len()) {
        let label = |world: &World| if world.label().is_empty() { "ns-2's defaults".to_owned() } else { world.label() };
        let labels: Vec<_> = holding.iter().map(|(world, _)| label(world)).collect();
        text.push_str(&format!("; holds with {}", labels.join("; ")));
    } else if !holding.is_empty() && holding.len() < worlds.len() {
        for levels in &FACTORS {
            let of = |level: &Level| {
                let has = |world: &World| world.levels.iter().any(|of| std::ptr::eq(*of, level));
                let holds = holding.iter().filter(|(world, _)| has(world)).count();
                format!("{} {holds} of {}", level.text, worlds.iter().filter(|world| has(world)).count())
            };
            text.push_str(&format!("; {}", levels.iter().map(of).collect::<Vec<_>>().join(", ")));
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
const MAX_LABELS: usize = 6;
