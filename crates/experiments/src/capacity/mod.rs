//! The estimate of the link's capacity: from priors that are right, wrong or missing, over links that change, mislead and are shared.

mod cases;
mod figures;
mod links;
mod simulated;
mod starlink;
mod targets;
mod watch;

pub use figures::Figures;
pub use targets::Targets;

use crate::{Error, Setup};
use cases::Case;
use lab::Direction;
use replicas::Pool;
use serde::Serialize;

/// What is claimed.
pub const CLAIM: &str =
    "shares of what the link carries, whatever the gateways were told of it, simulated (means of seeds)";

/// What is measured of each row.
#[derive(Debug, Clone, Copy)]
pub struct Runs {
    /// How many seeds are simulated.
    pub seeds: u16,
    /// Whether the configured rate is kept by force, without the estimator.
    pub fixed: bool,
}

/// The result of one row.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Its name.
    pub case: String,
    /// The data's direction.
    pub direction: Direction,
    /// How many seeds were simulated.
    pub seeds: u16,
    /// The least that is claimed of the share.
    pub target: f64,
    /// The means over the seeds.
    #[serde(flatten)]
    pub simulated: Figures,
    /// The least share of a seed.
    pub least_share: f64,
    /// All that is claimed.
    pub targets: Targets,
    /// The figures that miss their target.
    pub missed: Vec<&'static str>,
    /// The medians over the repeats for real.
    pub real: Option<Figures>,
}

/// The names of the cases.
pub fn names() -> impl Iterator<Item = String> {
    cases::all().into_iter().map(|case| case.name)
}

/// Measures each case whose name contains `only`, both ways, on all of the pool's jobs.
///
/// # Errors
/// If a simulation cannot be.
pub fn run(setup: &Setup, runs: &Runs, only: &str, pool: &Pool) -> Result<Vec<Row>, Error> {
    let cases = cases::all().into_iter().filter(|case| case.name.contains(only));
    // A rate that is kept by force has to be there.
    let cases = cases.filter(|case| !runs.fixed || case.told().is_some());
    let ways = cases.flat_map(|case| [(case.clone(), Direction::Up), (case, Direction::Down)]);
    let rows: Vec<_> = ways.map(|(case, direction)| (runs.seeds.min(case.most_seeds), case, direction)).collect();
    let seeds = |row: usize| setup.seeds(rows[row].0).map(move |seed| (row, seed));
    let all: Vec<_> = (0..rows.len()).flat_map(seeds).collect();
    let figures = pool.runs("capacity", all.len(), |number| {
        let (row, seed) = all[number];
        let (_, case, direction) = &rows[row];
        simulated::run(case, *direction, runs.fixed, seed)
            .map_err(|error| Error::failed(format!("{}, simulated with seed {seed}: {error}", case.name)))
    })?;
    let mut figures = figures.into_iter();
    Ok(rows
        .iter()
        .map(|(seeds, case, direction)| {
            let of_seeds: Vec<_> = figures.by_ref().take(usize::from(*seeds)).collect();
            row(case, *direction, *seeds, &of_seeds)
        })
        .collect())
}

fn row(case: &Case, direction: Direction, seeds: u16, figures: &[Figures]) -> Row {
    let simulated = Figures::over(figures, |values| values.iter().sum::<f64>() / values.len() as f64);
    Row {
        case: case.name.clone(),
        direction,
        seeds,
        target: case.targets.share,
        simulated,
        least_share: figures.iter().map(|run| run.share).fold(f64::INFINITY, f64::min),
        missed: case.targets.missed(&simulated),
        targets: case.targets,
        real: None,
    }
}
