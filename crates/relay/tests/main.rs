//! The integration tests of the crate, as one program.

mod engine;
mod script;
mod vectors;
