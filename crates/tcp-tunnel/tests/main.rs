//! The integration tests of the crate, as one program.

mod handshake;
mod model;
mod vectors;
