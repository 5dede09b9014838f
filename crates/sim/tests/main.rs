//! The integration tests of the crate, as one program.

mod acks;
mod capacity;
mod classes;
mod dama;
mod gateways;
mod kernel;
mod ns2;
mod prediction;
mod refusals;
mod satpep2003;
mod scenarios;
mod simulation;
