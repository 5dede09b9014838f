//! The transport's targets as shares of the physical limit: what the simulator finds over many seeds, and what gateways
//! over an emulated link come to, side by side.

mod real;
mod rows;
mod simulated;

use super::{Args, Findings, json, table};
use crate::output::Failure;
use rows::{Kind, Row};
use serde::Serialize;

/// The result of one row.
#[derive(Serialize)]
struct Measured {
    row: &'static str,
    /// The least that is claimed of the share.
    target: f64,
    limit_s: f64,
    simulated: Option<Figures>,
    real: Option<Figures>,
}

/// Figures of one row, over its repeats: means of simulated ones, medians of real ones.
#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Figures {
    /// The limit over the time; where a link varies, payload over what full packets could carry.
    share: f64,
    /// Bytes that entered the link in the data's direction over payload bytes.
    overhead: f64,
    /// Jain's index over the flows' goodputs, where there are several.
    jain_index: Option<f64>,
    /// Goodput in its first 5 s over its fair share, of the flow that came late.
    latecomer: Option<f64>,
    /// 95th percentile of the link's queue in milliseconds, where the link varies: of its length, sampled, in simulations;
    /// of what packets waited for real.
    queue_ms: Option<f64>,
}

/// A mechanism of the transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Mechanism {
    /// FEC repair symbols
    Repair,
    /// What repair takes of a full link beyond the losses
    RepairOverhead,
    /// Following a capacity that varies
    Learning,
}

pub fn run(args: &Args) -> Result<Findings, Failure> {
    let rows: Vec<Row> = rows::all().into_iter().filter(|row| row.name.contains(&args.only)).collect();
    if args.without.is_some() && !args.simulate_only {
        return Err(Failure::usage("--without needs --simulate-only: gateways run with all of the transport"));
    }
    if rows.is_empty() {
        let names: Vec<_> = rows::all().iter().map(|row| row.name).collect();
        return Err(Failure::usage(format!("--only {:?} names no row; there are: {}", args.only, names.join("; "))));
    }
    let measured = rows.iter().map(|row| measure(args, row)).collect::<Result<Vec<_>, _>>()?;
    let mut table =
        table(&["row", "limit", "target", "simulated", "real", "overhead", "Jain", "latecomer", "queue p95"]);
    for row in &measured {
        let both = |of: &dyn Fn(&Figures) -> Option<f64>| {
            let figures = [&row.simulated, &row.real].map(|figures| figures.as_ref().and_then(of));
            let text: Vec<_> = figures.into_iter().flatten().map(|figure| format!("{figure:.3}")).collect();
            text.join(" / ")
        };
        let share = |figures: &Option<Figures>| figures.map_or_else(String::new, |f| format!("{:.3}", f.share));
        table.add_row([
            row.row.to_owned(),
            format!("{:.3} s", row.limit_s),
            format!("{:.3}", row.target),
            share(&row.simulated),
            share(&row.real),
            both(&|figures| Some(figures.overhead)),
            both(&|figures| figures.jain_index),
            both(&|figures| figures.latecomer),
            queues(row),
        ]);
    }
    let claim = "shares of the physical limit reach their targets simulated (means), and less 0.01 for real (medians)";
    Ok(Findings { claim, table, rows: json(&measured)? })
}

/// Simulated and real, where there is one.
fn queues(row: &Measured) -> String {
    let figures = [&row.simulated, &row.real].into_iter().flatten().filter_map(|figures| figures.queue_ms);
    let text: Vec<_> = figures.map(|queue| format!("{queue:.0} ms")).collect();
    text.join(" / ")
}

fn measure(args: &Args, row: &Row) -> Result<Measured, Failure> {
    let experiment = row.experiment(args)?;
    let mut measured = Measured {
        row: row.name,
        target: row.target,
        limit_s: experiment.limit().as_secs_f64(),
        simulated: None,
        real: None,
    };
    if args.simulated > 0 {
        let seeds = (0..u64::from(args.simulated)).map(|repeat| args.seed.wrapping_add(repeat));
        let runs =
            seeds.map(|seed| simulated::run(row, &experiment, args.without, seed)).collect::<Result<Vec<_>, _>>()?;
        measured.simulated = Some(Figures::over(&runs, |values| values.iter().sum::<f64>() / values.len() as f64));
        tracing::info!(row = row.name, figures = ?measured.simulated, "simulated");
    }
    if !args.simulate_only {
        let runs = args.seeds().map(|seed| real::run(row, &experiment, seed)).collect::<Result<Vec<_>, _>>()?;
        measured.real = Some(Figures::over(&runs, super::median));
        tracing::info!(row = row.name, figures = ?measured.real, "measured");
    }
    Ok(measured)
}

impl Figures {
    /// One for many, by `middle`.
    fn over(runs: &[Figures], middle: impl Fn(&[f64]) -> f64) -> Self {
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
fn latecomer_share(row: &Row, bytes: f64) -> f64 {
    let fair = row.rate().as_bps() as f64 * rows::PAYLOAD * (1.0 - row.loss()) / (row.flows + 1) as f64;
    bytes * 8.0 / rows::FIRST.as_secs_f64() / fair
}

/// What was carried in whole periods of a link that varies over what full packets could carry.
fn varying_share(row: &Row, bytes: f64) -> f64 {
    let Kind::Varying(_) = row.kind else { return f64::NAN };
    let mean = row.rate().as_bps() as f64 * 0.75 * rows::PAYLOAD;
    bytes * 8.0 / rows::WATCHED.as_secs_f64() / mean
}
