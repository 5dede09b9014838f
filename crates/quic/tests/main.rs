//! The integration tests of the crate, as one program.

mod conformance;
mod network;
mod path;
mod properties;
