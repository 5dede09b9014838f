//! Simulations side by side.

use crate::errors::{run_error, scenario_error};
use crate::experiment::Experiment;
use crate::recorder::{Recorded, Recorder};
use crate::table::Table;
use crate::waiting::wait;
use pyo3::prelude::*;
use pyo3::types::PyType;
use replicas::{Cost, Interrupt, Jobs, Pool, Recording, Replica};
use sim::Stopped;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// What a result is made of: runs, flows, links, samples, queues and capacity, and the times of the runs in nanoseconds.
type Parts = ([Table; 6], u64, u64);

/// What simulations found, as tables.
#[pyclass(frozen, module = "bentpipe._bentpipe")]
pub(crate) struct Result {
    recorded: Recorded,
    cost: Cost,
}

impl Result {
    pub(crate) fn new(recorded: Recorded, cost: Cost) -> Self {
        Self { recorded, cost }
    }
}

#[pymethods]
impl Result {
    /// A row for each run: its variant and seed, why and when it ended.
    #[getter]
    fn runs(&self) -> Table {
        self.recorded.runs.clone()
    }

    /// A row for each flow of each run.
    #[getter]
    fn flows(&self) -> Table {
        self.recorded.flows.clone()
    }

    /// A row for each direction of each link of each run.
    #[getter]
    fn links(&self) -> Table {
        self.recorded.links.clone()
    }

    /// A row for each sample of each flow.
    #[getter]
    fn samples(&self) -> Table {
        self.recorded.samples.clone()
    }

    /// A row for each sample of each queue.
    #[getter]
    fn queues(&self) -> Table {
        self.recorded.queues.clone()
    }

    /// A row for each superframe of each terminal.
    #[getter]
    fn capacity(&self) -> Table {
        self.recorded.capacity.clone()
    }

    /// `columns` of the samples of flows, with run, flow and time before them.
    fn trace(&self, columns: Vec<String>) -> PyResult<Table> {
        let names: Vec<&str> =
            ["run", "flow", "time_s"].into_iter().chain(columns.iter().map(String::as_str)).collect();
        self.recorded.samples.select(&names)
    }

    /// For pickle: the tables, and the times of the runs.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Parts)> {
        let Self { recorded: Recorded { runs, flows, links, samples, queues, capacity }, cost } = slf.get();
        let tables = [runs, flows, links, samples, queues, capacity].map(Clone::clone);
        let wall_ns = u64::try_from(cost.wall.as_nanos()).unwrap_or(u64::MAX);
        Ok((slf.get_type().getattr("_of_parts")?, (tables, wall_ns, cost.cpu.as_nanos())))
    }

    /// The result whose parts `__reduce__` gave.
    #[classmethod]
    fn _of_parts(_: &Bound<'_, PyType>, tables: [PyRef<'_, Table>; 6], wall_ns: u64, cpu_ns: u64) -> Self {
        let [runs, flows, links, samples, queues, capacity] = tables.map(|table| table.clone());
        let cost = Cost { wall: Duration::from_nanos(wall_ns), cpu: units::Duration::from_nanos(cpu_ns) };
        Self::new(Recorded { runs, flows, links, samples, queues, capacity }, cost)
    }

    /// From the first run to the last, in seconds.
    #[getter]
    fn wall_s(&self) -> f64 {
        self.cost.wall.as_secs_f64()
    }

    /// Processor time of all runs, in seconds.
    #[getter]
    fn cpu_s(&self) -> f64 {
        self.cost.cpu.as_secs_f64()
    }
}

/// Runs each of `runs`, a variant's number in `experiment` and a seed, `jobs` at a time. With `records`, what the scenario
/// records is kept. `report` is called with the number of runs that have ended, whenever one has.
#[pyfunction]
#[pyo3(signature = (experiment, runs, jobs, records=true, report=None))]
pub(crate) fn simulate(
    py: Python<'_>,
    experiment: &Experiment,
    runs: Vec<(usize, u64)>,
    jobs: usize,
    records: bool,
    report: Option<Py<PyAny>>,
) -> PyResult<Result> {
    check(py, experiment, runs.iter().map(|(variant, _)| *variant).collect())?;
    let replicas = replicas(py, experiment, runs)?;
    let recording = recording(records);
    let interrupt = Interrupt::default();
    let pool = Pool { jobs: Jobs::new(jobs), interrupt: interrupt.clone(), shows_progress: false, huge_pages: false };
    let title = format!("{} runs", replicas.len());
    let mut recorder = Recorder::default();
    let (outcome, recorder) = wait(
        py,
        &interrupt,
        |sender| {
            let mut ended = 0_u64;
            let cost = pool.run(&title, &replicas, &recording, |run| {
                recorder.append(run).map_err(Failure::Raised)?;
                ended += 1;
                // Nobody listens any more after an exception.
                let _ = sender.send(ended);
                Ok::<(), Failure>(())
            });
            (cost, recorder)
        },
        |py, ended| report.as_ref().map_or(Ok(()), |report| report.call1(py, (ended,)).map(|_| ())),
    )?;
    let cost = outcome.map_err(|failure| failure.raised(py))?;
    Ok(Result::new(recorder.finish()?, cost))
}

/// Sets up a run of each of these variants, by their number in `experiment`, and makes none.
#[pyfunction]
pub(crate) fn check(py: Python<'_>, experiment: &Experiment, variants: BTreeSet<usize>) -> PyResult<()> {
    let first_seed = |variant: usize| experiment.scenarios.get(variant).map_or(0, |scenario| *scenario.seeds.start());
    let runs = variants.into_iter().map(|variant| (variant, first_seed(variant))).collect();
    let replicas = replicas(py, experiment, runs)?;
    py.detach(|| replicas.iter().try_for_each(replicas::check)).map_err(|error| run_error(py, error))
}

/// The runs of these variants, by their number in `experiment`, with these seeds.
pub(crate) fn replicas(py: Python<'_>, experiment: &Experiment, runs: Vec<(usize, u64)>) -> PyResult<Vec<Replica>> {
    let replica = |(variant, seed): (usize, u64)| {
        let scenario = experiment.scenarios.get(variant).map(Arc::clone);
        scenario
            .map(|scenario| Replica { scenario, seed })
            .ok_or_else(|| scenario_error(py, vec![format!("there is no variant with the number {variant}")]))
    };
    runs.into_iter().map(replica).collect()
}

/// What runs keep.
pub(crate) fn recording(records: bool) -> Recording {
    if records { Recording::Samples } else { Recording::Nothing }
}

/// Why runs ended early.
pub(crate) enum Failure {
    Runs(replicas::Error),
    Raised(PyErr),
}

impl From<replicas::Error> for Failure {
    fn from(error: replicas::Error) -> Self {
        Self::Runs(error)
    }
}

impl Failure {
    pub(crate) fn raised(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Runs(error) => run_error(py, error),
            Self::Raised(error) => error,
        }
    }
}

/// What to say of those of `runs`, each with its name and why it stopped, that stopped at a limit; nothing if there are none.
#[pyfunction]
pub(crate) fn at_limits(runs: Vec<(String, String)>) -> Option<String> {
    let limited = runs.into_iter().filter_map(|(name, stopped)| {
        let stopped: Stopped = serde_json::from_value(stopped.into()).ok()?;
        Some((name, stopped.limit()?))
    });
    results::at_limits(limited)
}
