//! The transport's targets as shares of the physical limit: what the simulator finds over many seeds, and what gateways
//! over an emulated link come to, side by side.

mod cases;
mod figures;
mod real;
mod simulated;

pub use figures::Figures;
pub use simulated::Mechanism;

use crate::setup::median;
use crate::{Error, Setup};
use cases::Case;
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
        log(case.name, row.simulated.as_ref(), "simulated");
    }
    if runs.real {
        let figures = setup.seeds(setup.repeats).map(|seed| real::run(case, &experiment, seed));
        let figures = figures.collect::<Result<Vec<_>, _>>()?;
        row.real = Some(Figures::over(&figures, median));
        log(case.name, row.real.as_ref(), "measured");
    }
    Ok(row)
}

fn log(row: &str, figures: Option<&Figures>, how: &str) {
    if let Some(Figures { share, overhead, .. }) = figures {
        tracing::info!(row, share = format!("{share:.3}"), overhead = format!("{overhead:.3}"), "{how}");
    }
}
