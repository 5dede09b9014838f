//! What is wrong with a document, and where.

use crate::origin::Origin;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One fault, before it is known how its place is called.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    origin: Origin,
    text: String,
    /// The keys that lead to the culprit, for those who ask whether a part of the document is sound.
    path: Vec<String>,
}

impl Fault {
    /// What is wrong at `origin`, with the key in the text.
    pub fn new(origin: Origin, text: impl Into<String>) -> Self {
        Self::at(origin, &[], text)
    }

    /// What is wrong at `origin`, which the keys of `path` lead to.
    pub fn at(origin: Origin, path: &[String], text: impl Into<String>) -> Self {
        Self { origin, text: escaped(cut_words(text.into())), path: path.to_vec() }
    }

    /// Whether the fault lies in the part of the document that `path` leads to.
    pub fn lies_within(&self, path: &[&str]) -> bool {
        self.path.len() >= path.len() && self.path.iter().zip(path).all(|(a, b)| a == b)
    }
}

/// Everything that is wrong with a document: one line for each fault, `FILE:LINE:COLUMN: KEY …`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct Faults(pub Vec<String>);

/// Faults as they are found, each once, with the variants that have it.
#[derive(Debug, Default)]
pub struct Found {
    /// The numbers of the variants; none of a fault that is not a variant's.
    faults: BTreeMap<Fault, Vec<usize>>,
}

impl Found {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    /// Faults that are not a variant's.
    pub fn add(&mut self, faults: impl IntoIterator<Item = Fault>) {
        self.faults.extend(faults.into_iter().map(|fault| (fault, Vec::new())));
    }

    /// Faults of variant `number`; those of the document as it stands, `plain`, are not the variant's own.
    pub fn add_of_variant(&mut self, number: usize, faults: Vec<Fault>, plain: &BTreeSet<Fault>) {
        for fault in faults {
            let is_its_own = !plain.contains(&fault);
            let variants = self.faults.entry(fault).or_default();
            if is_its_own && variants.last() != Some(&number) {
                variants.push(number);
            }
        }
    }

    /// Names the places in `text`, called `file`, in `overrides`, and the `variants`.
    pub fn say(self, text: &str, file: &str, overrides: &[String], variants: &[Arc<str>]) -> Faults {
        let lines = Lines::new(text);
        let line = |(fault, numbers): (Fault, Vec<usize>)| {
            let place = match &fault.origin {
                Origin::File(offset) => {
                    let (line, column) = lines.position(*offset);
                    format!("{file}:{line}:{column}")
                }
                Origin::Override(number) => {
                    format!("--set {}", cut(overrides.get(*number).map_or("", String::as_str)))
                }
            };
            let names = numbers.iter().map(|number| &*variants[*number]);
            let of = match numbers.len() {
                0 => String::new(),
                1 => format!(" (variant {})", list(names)),
                _ => format!(" (variants {})", list(names)),
            };
            escaped(format!("{place}: {}{of}", fault.text))
        };
        Faults(self.faults.into_iter().map(line).collect())
    }
}

/// Where the lines of a text begin.
pub(crate) struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let starts = [0].into_iter().chain(text.match_indices('\n').map(|(at, _)| at + 1));
        Self { text, starts: starts.collect() }
    }

    /// Line and column, from 1, of byte `offset`.
    pub(crate) fn position(&self, offset: usize) -> (usize, usize) {
        let offset = offset.min(self.text.len());
        let line = self.starts.partition_point(|start| *start <= offset);
        let before = &self.text.as_bytes()[self.starts[line - 1]..offset];
        (line, 1 + String::from_utf8_lossy(before).chars().count())
    }
}

/// More characters than this of one text hide what a fault says of it.
const MAX_CHARACTERS: usize = 60;
/// More names than this in a row, too.
const MAX_NAMES: usize = 24;

/// `text`, cut off where it is too long to be read.
pub fn cut(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MAX_CHARACTERS) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// `text` with its words cut off where they are too long to be read: the path of a setting is one.
fn cut_words(text: String) -> String {
    const MAX: usize = 4 * MAX_CHARACTERS;
    if text.len() <= MAX || text.split(' ').all(|word| word.len() <= MAX) {
        return text;
    }
    let words = text.split(' ').map(|word| if word.len() <= MAX { Cow::Borrowed(word) } else { cut(word) });
    words.collect::<Vec<_>>().join(" ")
}

/// `text` with its control characters escaped: keys and names come from the file, and a terminal must not obey them.
fn escaped(text: String) -> String {
    if !text.contains(char::is_control) {
        return text;
    }
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() { escaped.extend(letter.escape_debug()) } else { escaped.push(letter) }
    }
    escaped
}

/// `a, b and 7 more`.
fn list<'a>(names: impl Iterator<Item = &'a str> + Clone) -> String {
    let shown: Vec<_> = names.clone().take(MAX_NAMES).map(cut).collect();
    match names.skip(MAX_NAMES).count() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// `; did you mean X?` if some name is near enough, else what there is.
pub fn suggestion<'a>(written: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    nearest(written, known.clone()).unwrap_or_else(|| match known.clone().next() {
        Some(_) => format!("; known are {}", list(known)),
        None => String::new(),
    })
}

/// `; did you mean X?` if some name is near enough: few letters apart, and fewer than half of them.
pub fn nearest<'a>(written: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let most = 1 + written.len() / 4;
    let near = |name: &&str| name.len().abs_diff(written.len()) <= most;
    let distances = known.filter(near).map(|name| (strsim::damerau_levenshtein(written, name), name));
    let (distance, name) = distances.min_by_key(|(distance, _)| *distance)?;
    let is_near = distance <= most && 2 * distance <= written.len().max(name.len());
    is_near.then(|| format!("; did you mean {name}?"))
}
