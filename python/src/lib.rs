//! The native module of the Python package (docs/python.md). What users see is in `bentpipe/`: this module has what Python
//! cannot do at speed, and every quantity here is in its base unit (seconds, bits per second, bytes).
#![allow(clippy::disallowed_methods, reason = "an IO shell: it starts threads")]

mod control;
mod controlled;
mod episode;
mod errors;
mod experiment;
mod models;
mod quantities;
mod recorder;
mod simulate;
mod sweeps;
mod table;
mod waiting;

#[pyo3::pymodule]
mod _bentpipe {
    use pyo3::prelude::*;
    use pyo3::types::PyList;

    #[pymodule_export]
    use super::control::{PyAck, PyLoss, PySent, PyStart, PyWindow};
    #[pymodule_export]
    use super::controlled::simulate_controlled;
    #[pymodule_export]
    use super::episode::{Episode, Observation};
    #[pymodule_export]
    use super::errors::{
        BentpipeError, CommandError, InputError, LimitError, MissingError, QuantityError, ResultsError, ScenarioError,
    };
    #[pymodule_export]
    use super::experiment::{Experiment, settings, to_toml};
    #[pymodule_export]
    use super::models::{link_limit, loss_model, predict, queue_utilisation, window_throughput};
    #[pymodule_export]
    use super::quantities::quantity;
    #[pymodule_export]
    use super::simulate::{Result, at_limits, check, simulate};
    #[pymodule_export]
    use super::sweeps::{Cancel, PyStore, sweep_chunk, sweep_keys};
    #[pymodule_export]
    use super::table::Table;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let py = module.py();
        // Of exceptions that a caller makes.
        py.get_type::<LimitError>().setattr("result", py.None())?;
        py.get_type::<CommandError>().setattr("document", py.None())?;
        py.get_type::<ScenarioError>().setattr("faults", PyList::empty(py))?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
