//! What is wrong with a scenario, and where.

use super::document::Origin;

/// One fault, before it is known how its place is called.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Fault {
    origin: Origin,
    text: String,
    /// The keys that lead to the culprit, for those who ask whether a part of the document is sound.
    path: Vec<String>,
}

impl Fault {
    pub(super) fn new(origin: Origin, text: impl Into<String>) -> Self {
        Self { origin, text: text.into(), path: Vec::new() }
    }

    pub(super) fn at(origin: Origin, path: &[String], text: impl Into<String>) -> Self {
        Self { origin, text: text.into(), path: path.to_vec() }
    }

    /// Whether the fault lies in the part of the document that `path` leads to.
    pub(super) fn lies_within(&self, path: &[&str]) -> bool {
        self.path.len() >= path.len() && self.path.iter().zip(path).all(|(a, b)| a == b)
    }
}

/// Everything that is wrong with a scenario: one line for each fault, `FILE:LINE:COLUMN: KEY …`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct Faults(pub Vec<String>);

impl Faults {
    /// Names the places in `text`, called `file`, and in `overrides`.
    pub(super) fn new(mut faults: Vec<Fault>, text: &str, file: &str, overrides: &[String]) -> Self {
        faults.sort();
        faults.dedup();
        let line = |fault: &Fault| match &fault.origin {
            Origin::File(offset) => {
                let (line, column) = position(text, *offset);
                format!("{file}:{line}:{column}: {}", fault.text)
            }
            Origin::Override(number) => {
                format!("--set {}: {}", overrides.get(*number).map_or("", String::as_str), fault.text)
            }
        };
        Self(faults.iter().map(line).collect())
    }
}

/// Line and column, from 1, of byte `offset`.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = &text.as_bytes()[..offset.min(text.len())];
    let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
    let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    (line, 1 + String::from_utf8_lossy(&before[start..]).chars().count())
}

/// `; did you mean X?` if some name is near enough, else what there is.
pub(super) fn suggestion<'a>(written: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let nearest = known
        .clone()
        .map(|name| (strsim::damerau_levenshtein(written, name), name))
        .min_by_key(|(distance, _)| *distance);
    match nearest {
        Some((distance, name)) if distance <= 1 + written.len() / 4 => format!("; did you mean {name}?"),
        Some(_) => format!("; known are {}", known.collect::<Vec<_>>().join(", ")),
        None => String::new(),
    }
}
