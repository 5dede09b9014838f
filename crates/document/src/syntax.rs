//! What is wrong with text that is not TOML: the setting in which the reader stopped, and what may be meant.

use crate::fault::Fault;
use crate::origin::Origin;
use std::collections::BTreeSet;
use units::{Bytes, Duration, Rate};

/// The fault of `text` at which the reader stopped. The values of the keys `secrets` are not shown.
pub(crate) fn fault(text: &str, error: &toml::de::Error, secrets: &BTreeSet<&str>) -> Fault {
    let at = error.span().map_or(0, |span| span.start).min(text.len());
    let place = Place::of(text, at);
    let problem = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
    let hint = match problem.as_str() {
        "duplicate key" => place.first_line(text).map(|line| format!("it is set in line {line} already")),
        _ if secrets.contains(place.key()) => Some("a text is written in quotes".to_owned()),
        _ => place.value().and_then(hint),
    };
    let path = place.path(text);
    let start = if path.is_empty() { String::new() } else { format!("{path}: ") };
    let end = hint.map_or_else(String::new, |hint| format!("; {hint}"));
    Fault::new(Origin::File(at), format!("{start}{problem}{end}"))
}

/// What `value` should have been.
fn hint(value: &str) -> Option<String> {
    let word = value.split([',', '#', '}', ']']).next().unwrap_or(value).trim();
    if word.is_empty() {
        return Some("there is no value behind the `=`".to_owned());
    }
    let is_quantity = Rate::parse(word).is_ok()
        || Bytes::parse(word).is_ok()
        || Duration::parse(word).is_ok()
        || ["BDP", "packets", "segments"].iter().any(|unit| word.ends_with(unit));
    if is_quantity {
        return Some(format!("a quantity with a unit is a text: \"{word}\""));
    }
    if let Some(digits) = word.strip_prefix('.')
        && digits.starts_with(|first: char| first.is_ascii_digit())
    {
        return Some(format!("a number begins with a digit: 0{word}"));
    }
    let is_name = word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    (is_name && word.starts_with(|first: char| first.is_ascii_alphabetic()))
        .then(|| format!("a text is written in quotes: \"{word}\""))
}

/// The line at which the reader stopped.
struct Place<'a> {
    /// Where it begins in the text.
    start: usize,
    line: &'a str,
}

impl<'a> Place<'a> {
    fn of(text: &'a str, at: usize) -> Self {
        let at = (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let end = text[at..].find('\n').map_or(text.len(), |newline| at + newline);
        Self { start, line: &text[start..end] }
    }

    /// The key of the line; empty if it has none.
    fn key(&self) -> &'a str {
        let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '"' | '\'');
        let line = self.line.trim_start();
        let key = &line[..line.find(|c| !is_key(c)).unwrap_or(line.len())];
        if line.starts_with('[') { "" } else { key }
    }

    /// What stands behind the key.
    fn value(&self) -> Option<&'a str> {
        self.line.split_once('=').filter(|_| !self.key().is_empty()).map(|(_, value)| value.trim())
    }

    /// The keys that lead to the line's, with the name of the section's item if it has one.
    fn path(&self, text: &str) -> String {
        let section = self.section(text);
        let header = |line: &str| line.trim().trim_matches(['[', ']']).trim().to_owned();
        if self.line.trim_start().starts_with('[') {
            return header(self.line);
        }
        let name = |line: &str| {
            let (key, value) = line.split_once('=')?;
            let value = value.trim();
            (key.trim() == "name" && value.len() > 2).then(|| value.trim_matches('"').to_owned())
        };
        let mut lines = section.lines();
        let head = lines.next().filter(|line| line.trim_start().starts_with('['));
        let item = head.filter(|head| head.trim_start().starts_with("[[")).and_then(|_| lines.find_map(name));
        let keys = [head.map(header), item, Some(self.key().to_owned())];
        keys.into_iter().flatten().filter(|key| !key.is_empty()).collect::<Vec<_>>().join(".")
    }

    /// The text from the header above the line to the line.
    fn section<'t>(&self, text: &'t str) -> &'t str {
        let before = &text[..self.start];
        let start = if before.starts_with('[') { Some(0) } else { None };
        let start = before.rfind("\n[").map(|newline| newline + 1).or(start);
        &before[start.unwrap_or(0)..]
    }

    /// The line, from 1, in which the line's key or header stands first: within its section, or in the whole text.
    fn first_line(&self, text: &str) -> Option<usize> {
        let is_header = self.line.trim_start().starts_with('[');
        let section = if is_header { &text[..self.start] } else { self.section(text) };
        let is_first = |line: &str| {
            if is_header {
                line.trim() == self.line.trim()
            } else {
                line.split_once('=').is_some_and(|(key, _)| key.trim() == self.key())
            }
        };
        let at = section.lines().position(is_first)?;
        let section_starts = self.start - section.len();
        Some(text[..section_starts].matches('\n').count() + at + 1)
    }
}
