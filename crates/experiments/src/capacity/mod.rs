//! The estimate of the link's capacity: from priors that are right, wrong or missing, over links that change, mislead and are shared.
//!
//! | file | idea |
//! | --- | --- |
//! | `cases.rs`, `targets.rs` | what is measured, and what is claimed of it |
//! | `links.rs`, `starlink.rs` | the links of a case, and the least time in which they carry its data |
//! | `simulated.rs`, `watch.rs`, `figures.rs` | one run, and what is seen of it |
//! | `left_out.rs` | what the gateways of a simulation may lack |
//! | `trace.rs` | the estimate of one run beside the truth |
//! | `real.rs` | one run over the emulated link |
//! | `hub/` | a hub and its terminals |

mod cases;
mod figures;
mod hub;
mod left_out;
mod links;
mod real;
mod simulated;
mod starlink;
mod targets;
mod trace;
mod watch;

pub use figures::Figures;
pub use left_out::LeftOut;
pub use targets::Targets;
pub use trace::{Trace, TracePoint};

use crate::setup::median;
use crate::{Error, Setup};
use cases::{Case, Prior};
use hub::HubCase;
use lab::Direction;
use replicas::Pool;
use serde::Serialize;

/// What is claimed.
pub const CLAIM: &str = "shares of what the link carries, whatever prior the gateways had, simulated (means of seeds) and for real (medians)";

/// What is measured of each row.
#[derive(Debug, Clone, Copy)]
pub struct Runs {
    /// How many seeds are simulated.
    pub seeds: u16,
    /// What the simulated gateways lack, if anything.
    pub without: Option<LeftOut>,
    /// Whether gateways over an emulated link are measured, too, where a case allows that.
    pub real: bool,
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
    /// What the gateways lacked; null if nothing.
    pub without: Option<&'static str>,
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
    /// The medians over the repeats for real; null if they were not asked for, or the case is simulated only.
    pub real: Option<Figures>,
    /// Why the case is simulated only; null if it is not.
    pub simulated_only: Option<&'static str>,
}

const DIRECTIONS: [Direction; 2] = [Direction::Up, Direction::Down];

/// What is run for a row.
enum Subject {
    Path(Box<Case>, Direction),
    Hub(HubCase),
}

/// The names of the cases.
pub fn names() -> impl Iterator<Item = String> {
    let paths = cases::all().into_iter().map(|case| case.name);
    paths.chain(hub::all().into_iter().map(|case| case.name))
}

/// Measures each case whose name contains `only`, in both directions: simulated on all of the pool's jobs, then for real if asked for.
///
/// # Errors
/// If a simulation cannot be, the machine lacks something, or a transfer fails or does not verify.
pub fn run(setup: &Setup, runs: &Runs, only: &str, pool: &Pool) -> Result<Vec<Row>, Error> {
    let subjects = subjects(runs, only);
    let seeds = |row: usize| setup.seeds(subjects[row].seeds(runs)).map(move |seed| (row, seed));
    let all: Vec<_> = (0..subjects.len()).flat_map(seeds).collect();
    let figures = pool.runs("capacity", all.len(), |number| {
        let (row, seed) = all[number];
        let subject = &subjects[row];
        let figures = match subject {
            Subject::Path(case, direction) => simulated::run(case, *direction, runs.without, seed),
            Subject::Hub(case) => case.run(runs.without, seed),
        };
        figures.map_err(|error| Error::failed(format!("{}, simulated with seed {seed}: {error}", subject.name())))
    })?;
    let mut figures = figures.into_iter();
    let rows = subjects.iter().map(|subject| {
        let of_seeds: Vec<_> = figures.by_ref().take(usize::from(subject.seeds(runs))).collect();
        let mut row = row(subject, runs, &of_seeds);
        row.real = if runs.real { subject.measure(setup)? } else { None };
        Ok(row)
    });
    rows.collect()
}

/// The estimate beside the truth, of one run with the setup's seed of each case whose name contains `only`, in both directions. Hubs
/// have none.
///
/// # Errors
/// If a simulation cannot be.
pub fn traces(setup: &Setup, runs: &Runs, only: &str) -> Result<Vec<Trace>, Error> {
    let traces = subjects(runs, only).into_iter().filter_map(|subject| match subject {
        Subject::Path(case, direction) => Some(simulated::trace(&case, direction, runs.without, setup.seed)),
        Subject::Hub(_) => None,
    });
    traces.collect()
}

fn subjects(runs: &Runs, only: &str) -> Vec<Subject> {
    let cases = cases::all().into_iter().filter(|case| case.name.contains(only));
    // A rate that is kept by force has to be there.
    let is_forced = runs.without == Some(LeftOut::Estimation);
    let cases = cases.filter(|case| !is_forced || case.configured().is_some());
    let paths = cases.flat_map(|case| DIRECTIONS.map(|direction| Subject::Path(Box::new(case.clone()), direction)));
    let hubs = hub::all().into_iter().filter(|case| case.name.contains(only));
    let hubs = hubs.filter(|case| !is_forced || case.prior != Prior::Nothing);
    paths.chain(hubs.map(Subject::Hub)).collect()
}

impl Subject {
    fn name(&self) -> &str {
        match self {
            Self::Path(case, _) => &case.name,
            Self::Hub(case) => &case.name,
        }
    }

    fn seeds(&self, runs: &Runs) -> u16 {
        match self {
            Self::Path(case, _) => runs.seeds.min(case.most_seeds),
            Self::Hub(_) => runs.seeds,
        }
    }

    /// Why it is simulated only, if it is.
    fn obstacle(&self) -> Option<&'static str> {
        match self {
            Self::Path(case, _) => real::obstacle(case),
            Self::Hub(case) => hub::real::obstacle(case),
        }
    }

    /// The medians of the setup's repeats for real; `None` if it is simulated only.
    fn measure(&self, setup: &Setup) -> Result<Option<Figures>, Error> {
        if self.obstacle().is_some() {
            return Ok(None);
        }
        let figures = setup.seeds(setup.repeats).map(|seed| match self {
            Self::Path(case, direction) => real::run(setup, case, *direction, seed),
            Self::Hub(case) => hub::real::run(setup, case, seed),
        });
        let figures = figures.collect::<Result<Vec<_>, _>>()?;
        let medians = Figures::over(&figures, median);
        let [share, overhead] = [medians.share, medians.overhead].map(|figure| format!("{figure:.3}"));
        tracing::info!(case = self.name(), share, overhead, "measured");
        Ok(Some(medians))
    }
}

fn row(subject: &Subject, runs: &Runs, figures: &[Figures]) -> Row {
    let simulated = Figures::over(figures, |values| values.iter().sum::<f64>() / values.len() as f64);
    let (targets, direction) = match subject {
        Subject::Path(case, direction) => (case.targets, *direction),
        Subject::Hub(case) => (case.targets, Direction::Down),
    };
    Row {
        case: subject.name().to_owned(),
        direction,
        seeds: subject.seeds(runs),
        without: runs.without.map(LeftOut::name),
        target: targets.share,
        simulated,
        least_share: figures.iter().map(|run| run.share).fold(f64::INFINITY, f64::min),
        missed: targets.missed(&simulated),
        targets,
        real: None,
        simulated_only: subject.obstacle(),
    }
}
