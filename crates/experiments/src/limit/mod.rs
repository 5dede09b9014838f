//! The transport's targets as shares of the physical limit: what the simulator finds over many seeds, and what gateways
//! over an emulated link come to, side by side.

mod cases;
mod real;
mod simulated;

use crate::setup::median;
use crate::{Error, Setup};
use cases::{Case, Kind};
use serde::Serialize;

/// What is claimed.
pub const CLAIM: &str =
    "shares of the physical limit reach their targets simulated (means), and less 0.01 for real (medians)";

/// What is measured of each row.
#[derive(Debug, Clone, Copy)]
pub struct Runs {
    /// How many seeds are simulated; 0 for none.
    pub simulated: u16,
    /// Whether gateways over an emulated link are measured, too.
    pub real: bool,
    /// The mechanism that simulated gateways lack, if any; real ones have all.
    pub without: Option<Mechanism>,
}

/// A mechanism of the transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// FEC repair symbols.
    Repair,
    /// The repair overhead: what repair takes of a full link beyond the losses.
    RepairOverhead,
    /// Following a capacity that varies.
    Estimation,
}

/// The result of one row.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Its name.
    pub row: &'static str,
    /// The least that is claimed of the share.
    pub target: f64,
    /// The shortest time that the link allows, in seconds.
    pub limit_s: f64,
    /// Over the seeds that were simulated.
    pub simulated: Option<Figures>,
    /// Over the repeats for real.
    pub real: Option<Figures>,
}

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

/// The names of the rows.
pub fn names() -> impl Iterator<Item = &'static str> {
    cases::all().into_iter().map(|case| case.name)
}

/// Measures each row whose name contains `only`.
///
/// # Errors
/// If the machine lacks something or a transfer fails or does not verify.
pub fn run(setup: &Setup, runs: &Runs, only: &str) -> Result<Vec<Row>, Error> {
    let cases = cases::all().into_iter().filter(|case| case.name.contains(only));
    cases.map(|case| measure(setup, runs, &case)).collect()
}

fn measure(setup: &Setup, runs: &Runs, case: &Case) -> Result<Row, Error> {
    let experiment = case.experiment(setup)?;
    let limit_s = experiment.limit().as_secs_f64();
    let mut row = Row { row: case.name, target: case.target, limit_s, simulated: None, real: None };
    if runs.simulated > 0 {
        let seeds = setup.seeds(runs.simulated);
        let figures = seeds.map(|seed| simulated::run(case, &experiment, runs.without, seed));
        let figures = figures.collect::<Result<Vec<_>, _>>()?;
        row.simulated = Some(Figures::over(&figures, |values| values.iter().sum::<f64>() / values.len() as f64));
        tracing::info!(row = case.name, figures = ?row.simulated, "simulated");
    }
    if runs.real {
        let figures = setup.seeds(setup.repeats).map(|seed| real::run(case, &experiment, seed));
        let figures = figures.collect::<Result<Vec<_>, _>>()?;
        row.real = Some(Figures::over(&figures, median));
        tracing::info!(row = case.name, figures = ?row.real, "measured");
    }
    Ok(row)
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
fn latecomer_share(case: &Case, bytes: f64) -> f64 {
    let fair = case.rate().as_bps() as f64 * cases::PAYLOAD * (1.0 - case.loss()) / (case.flows + 1) as f64;
    bytes * 8.0 / cases::FIRST.as_secs_f64() / fair
}

/// What was carried in whole periods of a link that varies over what full packets could carry.
fn varying_share(case: &Case, bytes: f64) -> f64 {
    let Kind::Varying(_) = case.kind else { return f64::NAN };
    let mean = case.rate().as_bps() as f64 * 0.75 * cases::PAYLOAD;
    bytes * 8.0 / cases::WATCHED.as_secs_f64() / mean
}
