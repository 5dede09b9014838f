//! Figures 9 and 10: TIBET over the satellite and Reno on the ground, each with 40 % of the bottleneck to send.

use super::charts::{self, over_time, share_axis};
use super::shares::{Curve, Group, Shares};
use crate::printed::Item;
use crate::{Context, Error, Found, Reproduction, Variants};
use replicas::Replica;
use results::Run;
use results::chart::{Axis, Series, Style};
use scenario::Scenario;
use std::sync::Arc;
use units::Bytes;

/// How much of the runs counts: from when both kinds have been there for long, in seconds.
const BOTH: (f64, f64) = (4000.0, 6000.0);
/// Bytes of payload in a segment.
const MSS: f64 = 960.0;
/// Variants of the scenario, what their entries' keys begin with, and how many seeds they need.
const VARIANTS: [(&str, &str, u64); 2] = [("even", "", 1), ("bursts", "bursts, ", 3)];
/// Who has a window.
const GROUPS: [Group; 2] = [Group::Satellite, Group::Terrestrial];

/// Figure 9: shares.
///
/// # Errors
/// If it cannot be run.
pub fn shares(item: &Item, context: &Context<'_>) -> Result<Reproduction, Error> {
    let (mut found, mut series) = (Vec::new(), Vec::new());
    for (prefix, scenario, runs) in simulate(context)? {
        let shares: Vec<_> = runs.iter().map(|run| Shares::of(run, &scenario)).collect();
        for group in GROUPS {
            let values = shares.iter().map(|shares| shares.between(group, BOTH.0, BOTH.1));
            found.push(Found::new(format!("{prefix}{}", group.text())).simulated(values));
        }
        series.extend(with_prefix(prefix, charts::shares(&shares, &GROUPS)));
    }
    let chart = over_time(item, share_axis("throughput"), series, context);
    Ok(Reproduction { found, charts: vec![chart], remarks: vec![HOW.to_owned()] })
}

/// Figure 10: windows.
///
/// # Errors
/// If it cannot be run.
pub fn windows(item: &Item, context: &Context<'_>) -> Result<Reproduction, Error> {
    let (mut found, mut series) = (Vec::new(), Vec::new());
    for (prefix, _, runs) in simulate(context)? {
        for group in GROUPS {
            let windows: Vec<_> = runs.iter().map(|run| mean_windows(run, group)).collect();
            let values = windows.iter().map(|windows| mean_of_end(windows));
            found.push(Found::new(format!("{prefix}{}", group.text())).simulated(values));
            series.extend(with_prefix(prefix, vec![charts::series(group.text(), group, Curve::of(&windows))]));
        }
    }
    let remarks = vec![
        HOW.to_owned(),
        "ns-2's senders open their windows at every acknowledgement, needed or not: without a loss nothing ends that, and \
         the receiver's 20 packets alone bound what is sent."
            .to_owned(),
    ];
    let chart = over_time(item, Axis::linear("mean congestion window, segments").within(0.0, 300.0), series, context);
    Ok(Reproduction { found, charts: vec![chart], remarks })
}

const HOW: &str = "How the load is kept low is not said: 15 applications of either kind write 0.8 Mbit/s together, evenly, or \
                   in exponential bursts and pauses of 0.5 s in the mean.";

/// The series of a variant whose keys begin with `prefix`: dashed, in the same colours, if it is not the first.
fn with_prefix(prefix: &str, series: Vec<Series>) -> impl Iterator<Item = Series> {
    let style = if prefix.is_empty() { Style::Line } else { Style::Dashed };
    series.into_iter().map(move |one| Series { name: format!("{prefix}{}", one.name), style, ..one })
}

/// What the keys of a variant's entries begin with, the variant and its runs.
type OfVariant = (&'static str, Arc<Scenario>, Vec<Run>);

fn simulate(context: &Context<'_>) -> Result<Vec<OfVariant>, Error> {
    let text = include_str!("../../../../scenarios/papers/palermo/low-load.toml");
    let variants = Variants::load(text, "scenarios/papers/palermo/low-load.toml", &[])?;
    let mut replicas = Vec::new();
    let mut counts = Vec::new();
    for (variant, prefix, seeds) in VARIANTS {
        let scenario = variants.get(variant)?;
        let before = replicas.len();
        replicas.extend(context.seeds(seeds).map(|seed| Replica { scenario: Arc::clone(&scenario), seed }));
        counts.push((prefix, scenario, replicas.len() - before));
    }
    let mut runs = context.simulate(&replicas)?.into_iter();
    Ok(counts
        .into_iter()
        .map(|(prefix, scenario, count)| (prefix, scenario, runs.by_ref().take(count).collect()))
        .collect())
}

/// The mean window of the connections of `group` over time, in segments.
fn mean_windows(run: &Run, group: Group) -> Vec<(f64, f64)> {
    let of_group = |flow: u32| run.groups[flow as usize] == group.text();
    let samples: Vec<_> =
        run.flow_samples.iter().filter(|sample| of_group(sample.flow) && sample.cwnd > Bytes::ZERO).collect();
    let mean = |samples: &[&sim::FlowSample]| {
        let sum: f64 = samples.iter().map(|sample| sample.cwnd.as_u64() as f64 / MSS).sum();
        (samples[0].at.as_secs_f64(), sum / samples.len() as f64)
    };
    samples.chunk_by(|one, next| one.at == next.at).map(mean).collect()
}

/// The mean of what a curve is in [`BOTH`].
fn mean_of_end(curve: &[(f64, f64)]) -> f64 {
    let values: Vec<_> = curve.iter().filter(|(at, _)| *at > BOTH.0 && *at <= BOTH.1).map(|(_, value)| value).collect();
    values.iter().copied().sum::<f64>() / values.len() as f64
}
