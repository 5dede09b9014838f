//! The command line: parses arguments, starts logging, runs one command and turns its outcome into an exit code.
#![allow(clippy::disallowed_methods, reason = "an IO shell: it reads clocks and starts threads")]

mod commands;
mod curves;
mod destination;
mod help;
mod jobs;
mod logging;
mod named_files;
mod output;
mod picture;
mod replay;
mod text;
mod version;

use clap::{CommandFactory as _, FromArgMatches as _, Parser};
use output::Output;
use std::process::ExitCode;

#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// bentpipe makes TCP run at the speed of a satellite link: a gateway at each end of the link splits TCP connections and
/// carries them over a transport that sends at the link's estimated capacity and recovers losses by forward erasure correction
#[derive(Parser)]
#[command(name = "bentpipe", version = version::SHORT, long_version = version::LONG, max_term_width = help::MOST_COLUMNS, after_help = commands::EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: commands::Command,
    #[command(flatten)]
    output: output::Options,
}

/// The command line, for everything that reads or shows it.
fn command_line() -> clap::Command {
    help::flowing(Cli::command())
}

fn main() -> ExitCode {
    let parsed = command_line().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return output::exit_with_usage(&error),
    };
    logging::start(&cli.output.log);
    let output = Output::new(&cli.output);
    match commands::run(&cli.command, &output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => output.failure(&failure),
    }
}
