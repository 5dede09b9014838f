//! `bentpipe completions`: what a shell needs to complete bentpipe's commands and options.

use crate::output::Failure;
use clap_complete::Shell;
use std::io::Write;

const EXAMPLES: &str = "\
Examples:
  bentpipe completions bash > /usr/share/bash-completion/completions/bentpipe
  bentpipe completions zsh > /usr/share/zsh/site-functions/_bentpipe
  bentpipe completions fish > /usr/share/fish/vendor_completions.d/bentpipe.fish";

/// Print a completion script for a shell
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub fn run(args: &Args, mut command: clap::Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "bentpipe", &mut script);
    std::io::stdout().write_all(&script).map_err(|error| Failure::failed(format!("standard output: {error}")))
}
