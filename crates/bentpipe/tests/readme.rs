//! What the README and the tutorials print of commands is what these print now: in virtual time and by formula to the character,
//! over real links within a tolerance. `BENTPIPE_WRITE_DOCS=1 cargo test -p bentpipe --test readme` writes the pages.
//!
//! A console block has commands after `$ `, each with a part of its output below it: consecutive lines, from any line on.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// The pages with console blocks whose commands are run.
const PAGES: [&str; 4] = ["README.md", "docs/quickstart.md", "docs/simulate.md", "docs/lab.md"];
/// Commands that run in real time, and how much their figures may differ from the printed ones.
const REAL: [&str; 2] = ["demo", "lab"];
const TOLERANCE: f64 = 0.25;
/// Runs of a command in real time, of which one must print what the page has: a busy host makes a run worse.
const REAL_RUNS: usize = 3;
/// Exit code of a command that the machine lacks something for.
const MISSING: i32 = 3;

/// A command of a page, and the lines of its output that the page has.
struct Example {
    /// Without `$ ` and `bentpipe`.
    arguments: Vec<String>,
    /// The first line of the output in the page, and the line after the last.
    lines: std::ops::Range<usize>,
}

impl Example {
    fn is_real(&self) -> bool {
        REAL.contains(&self.arguments[0].as_str())
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The lines of each fenced block whose fence says `language`.
fn blocks(page: &[String], language: &str) -> Vec<std::ops::Range<usize>> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, bool)> = None;
    for (at, line) in page.iter().enumerate() {
        match (open, line.strip_prefix("```")) {
            (None, Some(info)) => open = Some((at + 1, info == language)),
            (Some((start, is_wanted)), Some("")) => {
                blocks.extend(is_wanted.then_some(start..at));
                open = None;
            }
            _ => {}
        }
    }
    blocks
}

/// The commands of a page that are shown with output.
fn examples(page: &[String]) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    for block in blocks(page, "") {
        let mut at = block.start;
        while at < block.end {
            let Some(command) = page[at].strip_prefix("$ bentpipe ") else {
                at += 1;
                continue;
            };
            let mut command = command.to_owned();
            while let Some(begun) = command.strip_suffix('\\') {
                at += 1;
                command = format!("{begun} {}", page[at].trim());
            }
            assert!(!command.contains(['\'', '"', '|', '>']), "a command without quotes and pipes: {command}");
            let start = at + 1;
            at = (start..block.end).find(|at| page[*at].starts_with("$ ")).unwrap_or(block.end);
            let end = (start..at).rfind(|at| !page[*at].is_empty()).map_or(start, |last| last + 1);
            let arguments = command.split_whitespace().map(str::to_owned).collect();
            examples.extend((end > start).then_some(Example { arguments, lines: start..end }));
        }
    }
    examples
}

/// Writes the files that a page has its reader save, and links what the repository has.
fn folder(page: &[String]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(root().join("scenarios"), folder.path().join("scenarios")).unwrap();
    for block in blocks(page, "toml") {
        let before = page[..block.start - 1].iter().rfind(|line| !line.is_empty()).unwrap();
        let name = before.strip_prefix("Save as `").and_then(|rest| rest.strip_suffix("`:"));
        if let Some(name) = name {
            std::fs::write(folder.path().join(name), page[block].join("\n")).unwrap();
        }
    }
    folder
}

/// What the command prints now; `None` if the machine cannot run it.
fn printed_now(example: &Example, folder: &Path) -> Option<Vec<String>> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
    let output = command.args(&example.arguments).current_dir(folder).env_remove("COLUMNS").output().unwrap();
    if output.status.code() == Some(MISSING) {
        eprintln!("skipped: {}", String::from_utf8_lossy(&output.stderr));
        return None;
    }
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    Some(text.lines().map(|line| line.trim_end().to_owned()).collect())
}

/// Of what the command prints, as many lines as the page has, from one on that begins like its first.
fn excerpt(example: &Example, page: &[String], lines: &[String]) -> Vec<String> {
    let beginning = |line: &str| line.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    let first = beginning(&page[example.lines.start]);
    let start = lines.iter().position(|line| beginning(line) == first);
    let start = start.unwrap_or_else(|| panic!("{:?} prints no line like `{first}`: {lines:#?}", example.arguments));
    lines[start..].iter().take(example.lines.len()).cloned().collect()
}

/// Whether a line of a real run is as printed: the same words, and figures within the tolerance.
fn is_near(printed: &str, now: &str) -> bool {
    let is_rule = |line: &str| line.starts_with("|--");
    let [printed_words, words] = [printed, now].map(|line| line.split_whitespace().collect::<Vec<_>>());
    let near = |(printed, now): (&&str, &&str)| match (printed.parse::<f64>(), now.parse::<f64>()) {
        (Ok(printed), Ok(now)) => (printed - now).abs() <= TOLERANCE * printed.abs().max(1.0),
        _ => printed == now,
    };
    (is_rule(printed) && is_rule(now))
        || (printed_words.len() == words.len() && printed_words.iter().zip(&words).all(near))
}

/// Pages are read and written by one test at a time. What commands have printed that was written: pages that show the same command show
/// one run of it.
static PAGE: Mutex<BTreeMap<Vec<String>, Option<Vec<String>>>> = Mutex::new(BTreeMap::new());

/// Runs the commands of a page that run in real time, or those that do not.
fn check(name: &str, is_real: bool) {
    let mut written = PAGE.lock().unwrap_or_else(PoisonError::into_inner);
    let path = root().join(name);
    let mut page: Vec<_> = std::fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect();
    let folder = folder(&page);
    let examples: Vec<_> = examples(&page).into_iter().filter(|example| example.is_real() == is_real).collect();
    for example in &examples {
        let now = || printed_now(example, folder.path());
        if std::env::var_os("BENTPIPE_WRITE_DOCS").is_some() {
            let Some(now) = written.entry(example.arguments.clone()).or_insert_with(now) else { continue };
            let now = excerpt(example, &page, now);
            assert_eq!(now.len(), example.lines.len(), "{:?} prints fewer lines", example.arguments);
            page.splice(example.lines.clone(), now);
            std::fs::write(&path, page.join("\n") + "\n").unwrap();
            continue;
        }
        let printed = &page[example.lines.clone()];
        let is_same = |(printed, now): (&String, &String)| if is_real { is_near(printed, now) } else { printed == now };
        let all_same = |now: &Vec<String>| printed.len() == now.len() && printed.iter().zip(now).all(is_same);
        let runs = if is_real { REAL_RUNS } else { 1 };
        for run in 1..=runs {
            let Some(now) = now() else { break };
            let now = excerpt(example, &page, &now);
            if all_same(&now) {
                break;
            }
            let difference = format!(
                "{name}: `bentpipe {}` prints\n{}\nbut the page has\n{}",
                example.arguments.join(" "),
                now.join("\n"),
                printed.join("\n")
            );
            assert!(run < runs, "{difference}");
            println!("not this time: {difference}");
        }
    }
}

#[test]
fn simulations_and_predictions_print_what_the_pages_have() {
    PAGES.iter().for_each(|page| check(page, false));
}

#[test]
fn real_runs_print_about_what_the_pages_have() {
    PAGES.iter().for_each(|page| check(page, true));
}

fn page(name: &str) -> Vec<String> {
    std::fs::read_to_string(root().join(name)).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn pages_that_show_the_same_command_show_the_same_run_of_it() {
    let mut shown: BTreeMap<Vec<String>, (&str, Vec<String>)> = BTreeMap::new();
    for name in PAGES {
        let page = page(name);
        for example in examples(&page) {
            let lines = page[example.lines].to_vec();
            let (first, before) = shown.entry(example.arguments).or_insert_with(|| (name, lines.clone()));
            // A page may have more of the output than the other.
            let (more, less) = if before.len() > lines.len() { (&*before, &lines) } else { (&lines, &*before) };
            assert!(
                more.windows(less.len()).any(|window| window == less),
                "{first} and {name}: {before:#?} {lines:#?}"
            );
        }
    }
}

#[test]
fn the_pages_have_commands_with_output() {
    let commands: Vec<_> =
        PAGES.iter().flat_map(|name| examples(&page(name))).map(|example| example.arguments[0].clone()).collect();
    for command in ["demo", "tune", "simulate", "lab"] {
        assert!(commands.iter().any(|found| found == command), "{command} of {commands:?}");
    }
}

#[test]
fn a_real_line_is_near_if_its_words_are_the_same_and_its_figures_close() {
    assert!(is_near("| cubic |   4.36 |  yes |", "| cubic | 4.75 | yes |"));
    assert!(!is_near("| cubic | 4.36 | yes |", "| cubic | 6.00 | yes |"));
    assert!(!is_near("| cubic | 4.36 | yes |", "| cubic | 4.36 | NO |"));
    assert!(is_near("|----|---|", "|-------|--|"));
}
