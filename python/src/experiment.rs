//! A scenario file, read and checked.

use crate::errors::{BentpipeError, scenario_error};
use kernel::text_file;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;

/// A scenario with its variants, checked; it never changes.
#[pyclass(frozen, module = "bentpipe._bentpipe")]
pub(crate) struct Experiment {
    pub(crate) scenarios: Vec<Arc<scenario::Scenario>>,
    name: Option<String>,
    about: Option<String>,
}

#[pymethods]
impl Experiment {
    /// Reads `text`, which faults call `file`, with the settings `overrides` (`key=value`). Files that it names lie in `folder`.
    #[new]
    #[pyo3(signature = (text, file, overrides, folder=None))]
    fn new(py: Python<'_>, text: &str, file: &str, overrides: Vec<String>, folder: Option<PathBuf>) -> PyResult<Self> {
        let read = |name: &str| match &folder {
            Some(folder) => text_file::read(&folder.join(name), text_file::RECORDED).map_err(|error| error.to_string()),
            None => Err("the scenario is no file: give the folder of the files that it names".to_owned()),
        };
        let loaded = py.detach(|| scenario::load(text, file, &overrides, &read));
        let loaded = loaded.map_err(|faults| scenario_error(py, faults.0))?;
        let scenarios = loaded.scenarios.into_iter().map(Arc::new).collect();
        Ok(Self { scenarios, name: loaded.name, about: loaded.about })
    }

    /// What results call it.
    #[getter]
    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// What it shows.
    #[getter]
    fn about(&self) -> Option<&str> {
        self.about.as_deref()
    }

    /// The names of its variants, in the order of the file.
    #[getter]
    fn variants(&self) -> Vec<String> {
        self.scenarios.iter().filter_map(|scenario| scenario.variant.clone()).collect()
    }

    /// The first and the last seed that each variant asks for, or the scenario itself if it has none.
    #[getter]
    fn seeds(&self) -> Vec<(u64, u64)> {
        self.scenarios.iter().map(|scenario| (*scenario.seeds.start(), *scenario.seeds.end())).collect()
    }
}

/// The settings of a scenario with `overrides`, as written, as JSON.
#[pyfunction]
pub(crate) fn settings(py: Python<'_>, text: &str, file: &str, overrides: Vec<String>) -> PyResult<String> {
    let settings = scenario::settings(text, file, &overrides).map_err(|faults| scenario_error(py, faults.0))?;
    Ok(settings.to_string())
}

/// The TOML text of a document that is given as JSON.
#[pyfunction]
pub(crate) fn to_toml(document: &str) -> PyResult<String> {
    let failed =
        |error: &dyn std::fmt::Display| BentpipeError::new_err(format!("the scenario is no document: {error}"));
    let value: toml::Value = serde_json::from_str(document).map_err(|error| failed(&error))?;
    toml::to_string(&value).map_err(|error| failed(&error))
}
