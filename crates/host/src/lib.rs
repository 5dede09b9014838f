//! The TCP settings of this host: what they are, which changes lead to a recommendation, and a journal by which every change can be
//! undone.
//!
//! ```text
//! Target::route ──> Present::read ──> Plan::new ──> Journal::apply ··· Journal::undo
//! ```
//!
//! A [`Target`] names the route to tune. [`Present`] is what the host has set for the route now. A [`Plan`] lists the [`Change`]s from
//! there to the settings of [`model::tuning`]. [`Journal::apply`] records the present settings in a file, then makes all changes or
//! none; [`Journal::undo`] puts back what the file says, and leaves what others have changed since.

mod change;
mod error;
mod journal;
mod present;
mod recorded_route;
mod target;

pub use change::{Change, Outcome, Plan, is_enough};
pub use error::{Blame, Error};
pub use journal::{Journal, Left, Undone};
pub use present::Present;
pub use recorded_route::RecordedRoute;
pub use target::{Network, Target, TargetRoute};
