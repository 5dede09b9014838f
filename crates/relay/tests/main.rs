//! The integration tests of the crate, as one program.

mod changes;
mod conservation;
mod engine;
mod script;
mod vectors;
