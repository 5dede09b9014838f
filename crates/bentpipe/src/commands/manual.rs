//! `bentpipe manual`: the help of all commands as manual pages.

use crate::output::{Failure, Output};
use clap::builder::{Resettable, StyledStr};
use clap_mangen::roff::{Roff, roman};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  bentpipe manual --out /usr/local/share/man/man1";

/// The line above the examples in a command's help.
const EXAMPLES_HEADING: &str = "Examples:";

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
    let failed = |error: std::io::Error| Failure::unwritable(format!("--out {}", args.out.display()), &error);
    crate::named_files::make_directory("--out", &args.out)?;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let written = write(&command, "bentpipe", &args.out).map_err(failed)?;
    output.result(&Written { pages: written }, |_| format!("{written} manual pages in {}", args.out.display()))
}

/// Writes the page of `command`, whose name in full is `name`, and those of its subcommands. Returns how many were written.
fn write(command: &clap::Command, name: &str, folder: &Path) -> std::io::Result<usize> {
    std::fs::write(folder.join(format!("{name}.1")), page(command, name)?)?;
    let visible = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
    visible
        .map(|subcommand| write(subcommand, &format!("{name}-{}", subcommand.get_name()), folder))
        .try_fold(1, |all, written| written.map(|written| all + written))
}

fn page(command: &clap::Command, name: &str) -> std::io::Result<String> {
    let mut text = Vec::new();
    let last = command.get_after_long_help().or_else(|| command.get_after_help()).map(ToString::to_string);
    let none = || Resettable::<StyledStr>::Reset;
    let rest = command.clone().after_help(none()).after_long_help(none());
    clap_mangen::Man::new(rest)
        .title(name.to_uppercase())
        .date(crate::version::COMMIT_DATE)
        .source(concat!("bentpipe ", env!("CARGO_PKG_VERSION")))
        .manual("bentpipe manual")
        .render(&mut text)?;
    if let Some(last) = last {
        after_options(&last).to_writer(&mut text)?;
    }
    // The library breaks the line before and after an empty one, which breaks it itself.
    let text = String::from_utf8_lossy(&text).replace("\n.br\n\n.br\n", "\n.sp\n");
    Ok(text.replace("\n\n.br\n", "\n.sp\n"))
}

/// What follows the options in the help. Indented lines (examples, files) stay as they are; others are paragraphs.
fn after_options(text: &str) -> Roff {
    let mut page = Roff::new();
    if !text.starts_with(EXAMPLES_HEADING) {
        page.control("SH", ["NOTES"]);
    }
    let mut is_filled = true;
    for line in text.lines() {
        let fills = !line.starts_with(' ');
        if fills != is_filled {
            page.control(if fills { "fi" } else { "nf" }, []);
            is_filled = fills;
        }
        match line {
            EXAMPLES_HEADING => page.control("SH", ["EXAMPLES"]),
            "" => page.control("PP", []),
            line => page.text([roman(line)]),
        };
    }
    if !is_filled {
        page.control("fi", []);
    }
    page
}
