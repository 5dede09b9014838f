//! The integration tests of the crate, as one program.
#![allow(clippy::unwrap_used, reason = "a test")]

mod link_file;
mod resolved;
mod scenario;
