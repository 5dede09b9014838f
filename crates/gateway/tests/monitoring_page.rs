//! docs/monitoring.md explains every warning and error of the gateway to operators.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::Path;

/// What the page explains, in the order of the page: the words in backticks of the first column.
fn explained(page: &str) -> Vec<String> {
    let section = page.split("\n### What the log says\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    rows.flat_map(|cell| cell.trim_end_matches('`').split("`, `").map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// The texts of all warnings and errors in the files below `directory`.
fn said(directory: &Path, texts: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            said(&path, texts);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(&path).unwrap();
            for call in ["tracing::warn!(", "tracing::error!("] {
                let calls = source.split(call).skip(1);
                texts.extend(calls.map(|rest| (path.display().to_string(), text(rest))));
            }
        }
    }
}

/// The string literals of a macro's arguments, put together.
fn text(rest: &str) -> String {
    let (mut depth, mut text, mut is_in_text, mut is_escaped) = (1, String::new(), false, false);
    for letter in rest.chars() {
        match letter {
            _ if is_escaped => {
                text.push(if letter == '\n' { ' ' } else { letter });
                is_escaped = false;
            }
            '\\' if is_in_text => is_escaped = true,
            '"' => is_in_text = !is_in_text,
            _ if is_in_text => text.push(letter),
            '(' => depth += 1,
            ')' if depth == 1 => break,
            ')' => depth -= 1,
            _ => {}
        }
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_page_explains_every_warning_and_error() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("../../docs/monitoring.md")).unwrap();
    let explained = explained(&page);
    let mut texts = Vec::new();
    said(&root.join("src"), &mut texts);
    said(&root.join("../dlep-io/src"), &mut texts);
    assert!(texts.len() > 30, "the texts were found: {texts:?}");
    let known = |text: &str| explained.iter().any(|words| text.contains(words.as_str()));
    let missing: Vec<_> = texts.iter().filter(|(_, text)| !known(text)).collect();
    assert!(missing.is_empty(), "docs/monitoring.md, \"What the log says\", lacks:\n{missing:#?}");
}
