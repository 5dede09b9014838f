//! Values that change at given times.

use document::{Interval, Time};
use schemars::JsonSchema;

/// Values that change at given times: `steps` or `file`. Before the first time, the plain value applies.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it describes")]
pub(crate) struct Steps<T> {
    /// Rising times, each with the value from then on: `[["10s", …], ["20s", …]]`.
    #[schemars(length(min = 1))]
    steps: Option<Vec<(Time, T)>>,
    /// A file with one step per line, such as `10s 3Mbit/s`. Its path is relative to the scenario's folder.
    file: Option<String>,
    /// Period after which the steps start again. By default they do not.
    repeat: Option<Interval>,
}
