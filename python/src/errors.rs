//! The exceptions of the package, with the texts of the command line.

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

create_exception!(
    bentpipe,
    BentpipeError,
    PyException,
    "What bentpipe raises: every other exception of the package is one."
);
create_exception!(
    bentpipe,
    InputError,
    BentpipeError,
    "An argument, a file or a setting that cannot be; the text says what would fit."
);
create_exception!(
    bentpipe,
    ScenarioError,
    InputError,
    "A scenario that cannot be. `faults` has every fault, each with its place, its key and what would fit."
);
create_exception!(bentpipe, QuantityError, InputError, "A quantity, or an argument of a model, that means nothing.");
create_exception!(
    bentpipe,
    LimitError,
    BentpipeError,
    "Runs that stopped at a limit of their scenario. `result` has what was found, those runs marked by `stopped`; None of a single episode."
);
create_exception!(
    bentpipe,
    ResultsError,
    BentpipeError,
    "Results that cannot be written or read; what was finished is kept."
);
create_exception!(
    bentpipe,
    CommandError,
    BentpipeError,
    "The command `bentpipe` ran and failed. `document` has what it printed; None if that is no document."
);
create_exception!(bentpipe, MissingError, BentpipeError, "This machine lacks something, which the text names.");

/// A [`ScenarioError`] with these faults.
pub(crate) fn scenario_error(py: Python<'_>, faults: Vec<String>) -> PyErr {
    let error = ScenarioError::new_err(faults.join("\n"));
    // Without the attribute the text still says everything.
    let _ = error.value(py).setattr("faults", faults);
    error
}

/// What [`replicas`] could not do.
pub(crate) fn run_error(py: Python<'_>, error: replicas::Error) -> PyErr {
    match error {
        replicas::Error::Scenario(fault) => scenario_error(py, vec![fault]),
        replicas::Error::Failed(problem) => ResultsError::new_err(problem),
    }
}
