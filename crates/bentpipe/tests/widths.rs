//! No line of a command's text is longer than the terminal is wide, in wide and in narrow terminals.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;
use std::process::Command;

const WIDTHS: [usize; 4] = [40, 60, 80, 120];

/// Commands that need no privileges, and print at once.
const COMMANDS: &[&str] = &[
    "predict --rate 6Mbit/s --rtt 550ms",
    "predict --rate 6Mbit/s --rtt 550ms --loss 1e-2 --congestion-control reno",
    "predict --rate 6Mbit/s --rtt 550ms --plot rtt=1ms..1s",
    "predict --rate 6Mbit/s --rtt 550ms --plot loss=1e-5..0.1 --show time",
    "predict --rate 6Mbit/s --rtt 550ms --plot size=1kB..1GB",
    "simulate scenarios/geo-bulk.toml --seeds 2 --variants cubic,bbr --set flow.file.bulk.size=100kB",
    "papers --list",
    "papers kruse --item table-1",
    "tune --rate 6Mbit/s --rtt 550ms --loss 1e-3 --size 1MB",
    "cc list",
    "chaos --transfers 20",
];

/// What `command` prints on a terminal of this width, without the lines of a script, which are not to be broken.
fn lines(command: &str, columns: usize) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut bentpipe = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
    let bentpipe = bentpipe.args(command.split_whitespace()).current_dir(root);
    let output = bentpipe.env("COLUMNS", columns.to_string()).output().unwrap();
    assert!(!output.stdout.is_empty(), "{command}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().take_while(|line| !line.starts_with("#!")).map(str::to_owned).collect()
}

#[test]
fn no_line_is_longer_than_the_terminal() {
    for command in COMMANDS {
        for columns in WIDTHS {
            let long: Vec<_> =
                lines(command, columns).into_iter().filter(|line| line.chars().count() > columns).collect();
            assert!(long.is_empty(), "{command} at {columns} columns:\n{}", long.join("\n"));
        }
    }
}

#[test]
fn a_table_that_does_not_fit_is_a_record_for_each_row() {
    let narrow = lines("papers --list", 60).join("\n");
    assert!(!narrow.contains('|') && narrow.contains("\n  item "), "{narrow}");
    let wide = lines("papers --list", 200).join("\n");
    assert!(wide.starts_with("| paper "), "{wide}");
}
