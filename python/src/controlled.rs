//! Simulations with congestion controls in Python: one run after the other, on the thread of the caller, since Python's lock
//! lets no two of them run anyway. So an exception, Ctrl-C's included, comes from the method in which it is raised.

use crate::control::{Raised, Written};
use crate::errors::{run_error, scenario_error};
use crate::experiment::Experiment;
use crate::recorder::Recorder;
use crate::simulate::{Result, check, recording, replicas};
use pyo3::prelude::*;
use replicas::{Cost, Replica};
use scenario::{Scenario, Traffic};
use sim::Simulation;
use std::time::Instant;

/// Which flows a control is for, by their name in the scenario (every TCP flow without one), and what makes it.
type Maker = (Option<String>, Py<PyAny>);

/// Runs each of `runs`, a variant's number in `experiment` and a seed. The flows that `controls` names send with congestion
/// controls of Python's: what stands there is called for each flow of each run and gives the control's methods by name. With
/// `records`, what the scenario records is kept. `report` is called with the number of runs that have ended.
#[pyfunction]
#[pyo3(signature = (experiment, runs, controls, records=true, report=None))]
pub(crate) fn simulate_controlled(
    py: Python<'_>,
    experiment: &Experiment,
    runs: Vec<(usize, u64)>,
    controls: Vec<Maker>,
    records: bool,
    report: Option<Py<PyAny>>,
) -> PyResult<Result> {
    check(py, experiment, runs.iter().map(|(variant, _)| *variant).collect())?;
    let recording = recording(records);
    let begun = (Instant::now(), kernel::clock::thread_cpu_time());
    let mut recorder = Recorder::default();
    for (number, replica) in replicas(py, experiment, runs)?.iter().enumerate() {
        let raised = Raised::default();
        let written = written(py, replica, &controls, &raised)?;
        let prepare = |simulation: &mut Simulation| {
            written.into_iter().try_for_each(|(flow, control)| simulation.set_control(flow, Box::new(control)))
        };
        let goes_on = |_| {
            if let Err(error) = Python::attach(|py| py.check_signals()) {
                // An earlier exception counts.
                let _ = raised.set(error);
            }
            raised.get().is_none()
        };
        let run = py.detach(|| replicas::single(replica, &recording, prepare, goes_on));
        if let Some(error) = raised.get() {
            return Err(error.clone_ref(py));
        }
        if let Some(run) = run.map_err(|error| run_error(py, error))? {
            recorder.append(run)?;
        }
        if let Some(report) = &report {
            report.call1(py, (number as u64 + 1,))?;
        }
    }
    let cpu = kernel::clock::thread_cpu_time().saturating_sub(begun.1);
    Ok(Result::new(recorder.finish()?, Cost { wall: begun.0.elapsed(), cpu }))
}

/// The controls of a run's flows, with the flows' numbers.
fn written(py: Python<'_>, replica: &Replica, controls: &[Maker], raised: &Raised) -> PyResult<Vec<(usize, Written)>> {
    let mut all = Vec::new();
    for (name, make) in controls {
        for flow in flows(py, &replica.scenario, name.as_deref())? {
            all.push((flow, Written::new(py, make, raised)?));
        }
    }
    Ok(all)
}

/// The numbers of the flows of this name, or of every TCP flow.
pub(crate) fn flows(py: Python<'_>, scenario: &Scenario, name: Option<&str>) -> PyResult<Vec<usize>> {
    let is_wanted = |number: &usize| match name {
        Some(name) => scenario.groups[*number] == name,
        None => matches!(scenario.flows[*number].traffic, Traffic::Tcp { .. }),
    };
    let found: Vec<_> = (0..scenario.flows.len()).filter(is_wanted).collect();
    if found.is_empty() {
        let mut known = scenario.groups.to_vec();
        known.dedup();
        let wanted = name.map_or_else(|| "TCP flow".to_owned(), |name| format!("flow {name}"));
        return Err(scenario_error(py, vec![format!("the scenario has no {wanted}; it has {}", known.join(", "))]));
    }
    Ok(found)
}
