//! `bentpipe completions`: what a shell needs to complete bentpipe's commands and options.

use crate::output::{Failure, Output};
use clap_complete::Shell;

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

/// Prints the script.
///
/// # Errors
/// If stdout cannot be written.
pub fn run(args: &Args, mut command: clap::Command, output: &Output) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "bentpipe", &mut script);
    let script = String::from_utf8_lossy(&script);
    output.result(&serde_json::json!({ "shell": args.shell.to_string(), "script": script }), |_| &script)
}
