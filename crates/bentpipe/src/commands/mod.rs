//! The commands, one file for each. A command's file holds its arguments (`Args`) and `run(&Args, &Output)`. What several commands
//! share has a file of its own, such as `private_lab.rs` and `direction.rs`.

mod bench;
mod cc;
mod chaos;
mod completions;
mod connection;
mod demo;
mod direction;
mod emulate;
mod gateway;
mod initial_window;
mod keygen;
mod lab;
mod load;
mod manual;
mod modem;
mod papers;
mod partial_file;
mod predict;
mod private_lab;
mod receive;
mod send;
mod shell;
mod simulate;
mod top;
mod tune;

use crate::output::{Failure, Output};
use clap::Subcommand;

/// Shown at the end of `bentpipe --help`.
pub const EXAMPLES: &str = "\
Examples:
  bentpipe demo                                 # compare bentpipe with TCP end to end
  bentpipe COMMAND --help                       # the help of a command, with examples
  bentpipe predict --rate 6Mbit/s --rtt 550ms   # time and throughput over a link, by formula
  bentpipe simulate scenarios/geo-bulk.toml     # TCP variants over a satellite, in virtual time
  bentpipe tune --rate 6Mbit/s --rtt 550ms      # TCP settings for a link, and their gain
  bentpipe emulate --between link0 link1        # a geostationary link between two interfaces
  bentpipe receive --listen 127.0.0.1:7000      # receive in one terminal,
  bentpipe send --to 127.0.0.1:7000 --size 1GB  # send in another

Quantities carry units (6Mbit/s, 550ms, 1MB, 320KiB); losses are plain probabilities (1e-3).
Exit codes: 0 done; 1 ran and failed; 2 wrong usage or input; 3 this machine lacks something.";

/// What bentpipe can do.
#[derive(Subcommand)]
pub enum Command {
    Demo(demo::Args),
    Emulate(Box<emulate::Args>),
    Simulate(simulate::Args),
    Lab(lab::Args),
    Papers(papers::Args),
    Predict(predict::Args),
    Tune(Box<tune::Args>),
    Cc(cc::Args),
    Send(send::Args),
    Receive(receive::Args),
    Gateway(gateway::Args),
    Top(top::Args),
    Keygen(keygen::Args),
    Bench(bench::Args),
    Chaos(chaos::Args),
    Load(load::Args),
    Completions(completions::Args),
    Manual(manual::Args),
}

/// Runs `command`.
///
/// # Errors
/// As the command says; the failure knows its exit code.
pub fn run(command: &Command, output: &Output) -> Result<(), Failure> {
    match command {
        Command::Demo(args) => demo::run(args, output),
        Command::Emulate(args) => emulate::run(args, output),
        Command::Simulate(args) => simulate::run(args, output),
        Command::Lab(args) => lab::run(args, output),
        Command::Papers(args) => papers::run(args, output),
        Command::Predict(args) => predict::run(args, output),
        Command::Tune(args) => tune::run(args, output),
        Command::Cc(args) => cc::run(args, output),
        Command::Send(args) => send::run(args, output),
        Command::Receive(args) => receive::run(args, output),
        Command::Gateway(args) => gateway::run(args, output),
        Command::Top(args) => top::run(args, output),
        Command::Keygen(args) => keygen::run(args, output),
        Command::Bench(args) => bench::run(args, output),
        Command::Chaos(args) => chaos::run(args, output),
        Command::Load(args) => load::run(args),
        Command::Completions(args) => completions::run(args, crate::command_line(), output),
        Command::Manual(args) => manual::run(args, crate::command_line(), output),
    }
}
