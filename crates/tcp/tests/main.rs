//! The integration tests of the crate, as one program.

mod accurate_ecn;
mod adversity;
mod conformance;
mod control_given;
mod controls;
mod corners;
mod ecn;
mod network;
mod ns2;
mod ns2_means;
mod pacing;
mod pairs;
mod path;
mod phases;
mod satpep;
mod scheduler;
mod transfer;
