//! docs/cli.md is what `--help` prints; what BENTPIPE_LOG takes.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// The page's width: longer lines are broken there.
const COLUMNS: &str = "120";

/// `bentpipe PATH --help`, without what every command repeats.
fn help(path: &[String]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
    let output = command.args(path).arg("--help").env("COLUMNS", COLUMNS).output().unwrap();
    assert!(output.status.success(), "{path:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let text = text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    if path.is_empty() { text } else { without_output_options(&text) }
}

/// `text` without its section "Output:", whose options are those of the whole program.
fn without_output_options(text: &str) -> String {
    let mut is_kept = true;
    let kept = text.lines().filter(|line| {
        if !line.is_empty() && !line.starts_with(' ') {
            is_kept = *line != "Output:";
        }
        is_kept
    });
    kept.collect::<Vec<_>>().join("\n")
}

/// The commands that `help` lists, but for `help` itself.
fn subcommands(help: &str) -> Vec<String> {
    let section = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = section.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.map(|line| line.split_whitespace().next().unwrap().to_owned()).filter(|name| name != "help").collect()
}

/// Writes the command at `path`, then those below it.
fn describe(path: &[String], page: &mut String) {
    let help = help(path);
    let title = [&["bentpipe".to_owned()], path].concat().join(" ");
    writeln!(page, "\n## {title}\n\n```text\n{}\n```", help.trim_end()).unwrap();
    for name in subcommands(&help) {
        describe(&[path, &[name]].concat(), page);
    }
}

#[test]
fn the_page_of_the_command_line_is_what_help_prints() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once("<!-- help -->\n").expect("a place for the help");
    let (written, after) = rest.split_once("<!-- end of the help -->").expect("an end of the help");
    let mut help = String::new();
    describe(&[], &mut help);
    help.push('\n');
    if std::env::var_os("BENTPIPE_WRITE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}<!-- help -->\n{help}<!-- end of the help -->{after}")).unwrap();
    } else {
        assert_eq!(written, help, "BENTPIPE_WRITE_DOCS=1 cargo test -p bentpipe --test cli writes it");
    }
}

#[test]
fn a_filter_of_the_log_that_cannot_be_read_is_said() {
    let logged = |filter: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
        let output = command.args(["predict", "--size", "5kB"]).env("BENTPIPE_LOG", filter).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    for filter in ["loud=very", "info,satpep=9"] {
        let log = logged(filter);
        assert!(log.contains("BENTPIPE_LOG is ignored"), "{filter}: {log}");
    }
    for filter in ["", "off", "debug", "info,satpep=trace"] {
        assert_eq!(logged(filter), "", "{filter}");
    }
}
