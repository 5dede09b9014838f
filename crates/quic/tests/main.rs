//! The integration tests of the crate, as one program.
#![allow(clippy::single_range_in_vec_init, reason = "ranges of packet numbers that are acknowledged")]

mod conformance;
mod network;
mod path;
mod properties;
