//! The integration tests of the crate, as one program.
#![allow(clippy::unwrap_used, reason = "tests")]

mod accounts;
mod changes;
mod conservation;
mod ended;
mod engine;
mod idle;
mod script;
mod vectors;
