//! Sweeps: the runs of a chunk, and the store of shards.

use crate::errors::{BentpipeError, ResultsError};
use crate::experiment::Experiment;
use crate::simulate::Failure;
use crate::table::{Table, array};
use crate::waiting::wait;
use ::sweeps::{Key, RunKey, Store};
use arrow_array::{ArrayRef, UInt64Array};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use replicas::{Interrupt, Jobs, Pool, Recording, Replica};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// A run as Python names it: the text of its scenario's key, and the seed.
type Named = (String, u64);

/// The key of each variant of `experiment`.
#[pyfunction]
pub(crate) fn sweep_keys(py: Python<'_>, experiment: &Experiment) -> Vec<String> {
    py.detach(|| experiment.scenarios.iter().map(|scenario| Key::of(scenario).to_string()).collect())
}

/// Ends chunks early, those that run on other threads.
#[pyclass(frozen, module = "bentpipe._bentpipe")]
#[derive(Default)]
pub(crate) struct Cancel(Interrupt);

#[pymethods]
impl Cancel {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Ends them.
    fn set(&self) {
        self.0.set();
    }
}

/// Makes runs, each the number of one of `experiments`, that of a variant and a seed, one after the other. Gives them as a shard,
/// with their names, and the seconds that they took. What `cancel` ended early is not among them.
#[pyfunction]
#[pyo3(signature = (experiments, runs, cancel=None))]
pub(crate) fn sweep_chunk<'py>(
    py: Python<'py>,
    experiments: Vec<PyRef<'py, Experiment>>,
    runs: Vec<(usize, usize, u64)>,
    cancel: Option<PyRef<'py, Cancel>>,
) -> PyResult<(Bound<'py, PyBytes>, Vec<Named>, f64)> {
    let replica = |(experiment, variant, seed): &(usize, usize, u64)| {
        let scenario = experiments.get(*experiment).and_then(|experiment| experiment.scenarios.get(*variant));
        let scenario = scenario.ok_or_else(|| BentpipeError::new_err("a chunk names a scenario that it lacks"))?;
        Ok(Replica { scenario: Arc::clone(scenario), seed: *seed })
    };
    let replicas = runs.iter().map(replica).collect::<PyResult<Vec<_>>>()?;
    let interrupt = cancel.map_or_else(Interrupt::default, |cancel| cancel.0.clone());
    let pool = Pool { jobs: Jobs::new(1), interrupt: interrupt.clone(), shows_progress: false, huge_pages: false };
    let work = |_: std::sync::mpsc::Sender<()>| {
        let (mut tables, mut names) = (Vec::with_capacity(replicas.len()), Vec::with_capacity(replicas.len()));
        let mut next = replicas.iter();
        let mut key: Option<(Arc<scenario::Scenario>, Key)> = None;
        let cost = pool.run("", &replicas, &Recording::Nothing, |run| {
            // Runs come in the order of the replicas.
            let Some(replica) = next.next() else { return Ok(()) };
            let known = key.take().filter(|(scenario, _)| Arc::ptr_eq(scenario, &replica.scenario));
            let known = known.unwrap_or_else(|| (Arc::clone(&replica.scenario), Key::of(&replica.scenario)));
            tables.push(::sweeps::rows(known.1, &run));
            names.push((known.1.to_string(), run.label.seed));
            key = Some(known);
            Ok::<(), Failure>(())
        })?;
        let shard = ::sweeps::encoded(tables).map_err(|error| Failure::Raised(failed(&error)))?;
        Ok::<_, Failure>((shard, names, cost.wall.as_secs_f64()))
    };
    let done = wait(py, &interrupt, work, |_, ()| Ok(()))?;
    let (shard, names, seconds) = done.map_err(|failure| failure.raised(py))?;
    Ok((PyBytes::new(py, &shard), names, seconds))
}

/// The results of sweeps in a folder.
#[pyclass(frozen, name = "Store", module = "bentpipe._bentpipe")]
pub(crate) struct PyStore(Mutex<Store>);

#[pymethods]
impl PyStore {
    /// The store in `folder`, which is made if it is not there.
    #[new]
    fn new(py: Python<'_>, folder: PathBuf) -> PyResult<Self> {
        py.detach(|| Store::open(&folder)).map(|store| Self(Mutex::new(store))).map_err(|error| failed(&error))
    }

    /// Whether it has the results of a run.
    fn has(&self, key: &str, seed: u64) -> PyResult<bool> {
        Ok(self.store().has((parse(key)?, seed)))
    }

    /// How many runs it has.
    fn __len__(&self) -> usize {
        self.store().len()
    }

    /// Keeps a shard of these runs.
    fn put(&self, py: Python<'_>, runs: Vec<Named>, shard: &[u8]) -> PyResult<()> {
        let runs = keys(&runs)?;
        py.detach(|| self.store().put(&runs, shard)).map_err(|error| failed(&error))
    }

    /// The rows of `wanted` runs, in that order, behind `place`, the place of each row's run in `wanted`.
    fn rows(&self, py: Python<'_>, wanted: Vec<Named>) -> PyResult<Table> {
        let wanted = keys(&wanted)?;
        let (table, places) = py.detach(|| self.store().rows(&wanted)).map_err(|error| failed(&error))?;
        let places: ArrayRef = Arc::new(places.into_iter().map(|place| Some(place as u64)).collect::<UInt64Array>());
        let columns = table.columns.into_iter().map(|column| (column.name.into_owned(), array(&column.values)));
        Table::of_columns(std::iter::once(("place".to_owned(), places)).chain(columns).collect())
    }
}

impl PyStore {
    fn store(&self) -> std::sync::MutexGuard<'_, Store> {
        // What it has is whole whatever became of the thread that changed it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn keys(named: &[Named]) -> PyResult<Vec<RunKey>> {
    named.iter().map(|(key, seed)| Ok((parse(key)?, *seed))).collect()
}

fn parse(key: &str) -> PyResult<Key> {
    Key::parse(key).ok_or_else(|| ResultsError::new_err(format!("{key} is no key of a scenario")))
}

fn failed(error: &::sweeps::Error) -> PyErr {
    ResultsError::new_err(error.to_string())
}
