//! Sweeps: a scenario with each combination of some settings and each seed. What runs found is kept in [shards](Store), under a
//! [key](Key) that says which run it was, so that a sweep that is begun again makes only the runs that are missing.
//!
//! | type | what it is |
//! | --- | --- |
//! | [`Grid`] | the settings: each key's values, and their combinations |
//! | [`Key`] | which scenario, whatever its file is called or how it is written, and the sources of the simulator that runs it |
//! | [`rows`] | what is kept of a run: a row for each flow |
//! | [`Store`] | the files that keep it |
//! | [`summaries`] | what the runs of each point have in common |

mod error;
mod grid;
mod key;
mod rows;
mod store;
mod summary;

pub use error::Error;
pub use grid::{Axis, Grid};
pub use key::{Key, RunKey};
pub use rows::{encoded, joined, limits, rows};
pub use store::Store;
pub use summary::{Interval, PointSummary, summaries};
