//! `bentpipe manual`: the help of all commands as manual pages.

use crate::output::{Failure, Output};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  bentpipe manual --out /usr/local/share/man/man1";

/// Write a manual page for each command, for man(1)
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The folder for the pages, made if it is missing
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// What was written, for `--json`.
#[derive(serde::Serialize)]
struct Written {
    pages: usize,
}

pub fn run(args: &Args, command: clap::Command, output: &Output) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::failed(format!("--out {}: {error}", args.out.display()));
    std::fs::create_dir_all(&args.out).map_err(failed)?;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let written = write(&command, "bentpipe", &args.out).map_err(failed)?;
    output.result(&Written { pages: written }, |_| format!("{written} manual pages in {}", args.out.display()))
}

/// Writes the page of `command`, whose name in full is `name`, and those of its subcommands. Returns how many were written.
fn write(command: &clap::Command, name: &str, folder: &Path) -> std::io::Result<usize> {
    let page = clap_mangen::Man::new(command.clone()).title(name.to_uppercase()).manual("bentpipe");
    let mut text = Vec::new();
    page.render(&mut text)?;
    std::fs::write(folder.join(format!("{name}.1")), text)?;
    let visible = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
    visible
        .map(|subcommand| write(subcommand, &format!("{name}-{}", subcommand.get_name()), folder))
        .try_fold(1, |all, written| written.map(|written| all + written))
}
