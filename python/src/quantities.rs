//! Quantities as texts.

use crate::errors::QuantityError;
use pyo3::prelude::*;
use units::{Bytes, Duration, Probability, Rate};

/// The quantity `text` in its base unit: seconds (`time`), bits per second (`rate`), bytes (`size`), or none (`probability`).
#[pyfunction]
pub(crate) fn quantity(kind: &str, text: &str) -> PyResult<f64> {
    let value = match kind {
        "time" => text.parse::<Duration>().map(Duration::as_secs_f64),
        "rate" => text.parse::<Rate>().map(|rate| rate.as_bps() as f64),
        "size" => text.parse::<Bytes>().map(|size| size.as_u64() as f64),
        "probability" => text.parse::<Probability>().map(Probability::as_f64),
        other => return Err(QuantityError::new_err(format!("{other}: expected time, rate, size or probability"))),
    };
    value.map_err(|error| QuantityError::new_err(error.to_string()))
}
