//! The commands, one file for each. A command's file holds its arguments (`Args`) and `run(Args, &Output)`.

use crate::output::{Failure, Output};
use clap::Subcommand;

/// Shown at the end of `bentpipe --help`.
pub const EXAMPLES: &str = "\
Examples:
  bentpipe COMMAND --help                       what a command does, with examples

Quantities carry units (6Mbit/s, 550ms, 1MB, 320KiB); losses are plain probabilities (1e-3).
Exit codes: 0 done; 1 ran and failed; 2 wrong usage or input; 3 this machine lacks something.";

/// What bentpipe can do.
#[derive(Subcommand)]
pub enum Command {}

/// Runs `command`.
///
/// # Errors
/// As the command says; the failure knows its exit code.
pub fn run(command: Command, _output: &Output) -> Result<(), Failure> {
    match command {}
}
