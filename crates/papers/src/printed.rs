//! What a paper prints, as data: `scenarios/papers/NAME/printed.toml`.
//!
//! ```
//! let text = r#"
//! paper = "Author, Title, where, year"
//! [[item]]
//! name = "table-1"
//! title = "Table I: transmission time against the buffer"
//! unit = "s"
//! entries = [
//!     { key = "64 kB", printed = 4.42 },
//!     { key = "640 kB", printed = 26.67, inconsistent = "its own gain, 61.03 %, means 19.18 s", corrected = 19.18 },
//!     { key = "large buffers", claim = "buffers above 384 kB overflow the router", section = "4", found = "depends" },
//!     { key = "1 MB", ours = "beyond the paper's range" },
//! ]
//! "#;
//! let printed = papers::printed::parse(text, "printed.toml").expect("no faults");
//! assert_eq!(printed.items[0].tolerance, 0.05);
//! assert_eq!(printed.items[0].entries.len(), 4);
//!
//! let error = papers::printed::parse(&text.replace("printed = 4.42", "printd = 4.42"), "printed.toml");
//! let error = error.expect_err("a fault").to_string();
//! assert!(error.starts_with("printed.toml:8:22: item.0.entries.0.printd: unknown field `printd`"), "{error}");
//! ```

use crate::{Error, Verdict};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::ops::Range;
use toml::Spanned;

/// The printed values of a paper.
#[derive(Debug, Clone, PartialEq)]
pub struct Printed {
    /// Author, title, where and when.
    pub paper: String,
    /// Its tables, figures and claims, in order.
    pub items: Vec<Item>,
}

/// A table, a figure or a set of claims.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// On the command line, such as `table-3`.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// The unit of its values; empty if they have none.
    pub unit: String,
    /// The relative deviation up to which a value is reproduced.
    pub tolerance: f64,
    /// Its values and claims.
    pub entries: Vec<Entry>,
}

/// One value or claim.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Tells it from the others of its item.
    pub key: String,
    /// What the paper says.
    pub content: Content,
    /// The verdict that was found and is documented, where it is not what one expects: that the value is within the
    /// tolerance, or the claim holds.
    pub documented: Option<Verdict>,
}

/// What a paper says of an entry.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// A number.
    Value {
        /// As printed.
        printed: f64,
        /// Why it contradicts the paper itself, if it does.
        inconsistent: Option<String>,
        /// What the paper must have meant, if that can be told.
        corrected: Option<f64>,
        /// The relative deviation up to which it is reproduced, if not the item's.
        tolerance: Option<f64>,
    },
    /// A sentence, in our words.
    Claim {
        /// The sentence.
        text: String,
        /// The paper's section.
        section: Option<String>,
    },
    /// Nothing: the entry is ours, for this reason.
    Ours(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    paper: String,
    item: Vec<ItemTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ItemTable {
    name: Spanned<String>,
    title: String,
    #[serde(default)]
    unit: String,
    tolerance: Option<Spanned<f64>>,
    entries: Spanned<Vec<EntryTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryTable {
    key: Spanned<String>,
    printed: Option<Spanned<f64>>,
    inconsistent: Option<String>,
    corrected: Option<Spanned<f64>>,
    tolerance: Option<Spanned<f64>>,
    claim: Option<String>,
    section: Option<String>,
    ours: Option<String>,
    found: Option<Spanned<String>>,
}

/// Reads `text`, which faults call `file`.
///
/// # Errors
/// With every fault, one a line: `FILE:LINE:COLUMN: KEY: what is wrong and what would fit`. Of text that is not TOML or
/// lacks a key, the first.
pub fn parse(text: &str, file: &str) -> Result<Printed, Error> {
    let deserializer = toml::Deserializer::parse(text)
        .map_err(|error| Error::Input(format!("{}: {}", place(text, file, error.span()), error.message())))?;
    let document: Document = serde_path_to_error::deserialize(deserializer).map_err(|error| {
        let path = key_path(error.path());
        let error = error.into_inner();
        Error::Input(format!("{}: {path}: {}", place(text, file, error.span()), error.message()))
    })?;
    let mut reader = Reader { text, file, faults: Vec::new() };
    let items = reader.items(document.item);
    if reader.faults.is_empty() {
        Ok(Printed { paper: document.paper, items })
    } else {
        Err(Error::Input(reader.faults.join("\n")))
    }
}

/// Such as `item.0.entries.1.printed`, without what [`Spanned`] puts between.
fn key_path(path: &serde_path_to_error::Path) -> String {
    let segments = path.iter().map(ToString::to_string).filter(|segment| !segment.contains("$__serde_spanned"));
    let plain = segments.map(|segment| segment.trim_matches(['[', ']']).to_owned());
    plain.collect::<Vec<_>>().join(".")
}

/// `FILE:LINE:COLUMN`, counted from 1.
fn place(text: &str, file: &str, span: Option<Range<usize>>) -> String {
    let Some(before) = span.and_then(|span| text.get(..span.start)) else { return file.to_owned() };
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|character| *character != '\n').count() + 1;
    format!("{file}:{line}:{column}")
}

/// Checks what types alone do not say.
struct Reader<'a> {
    text: &'a str,
    file: &'a str,
    faults: Vec<String>,
}

impl Reader<'_> {
    fn fault(&mut self, span: Range<usize>, key: &str, problem: &str) {
        self.faults.push(format!("{}: {key}: {problem}", place(self.text, self.file, Some(span))));
    }

    fn items(&mut self, tables: Vec<ItemTable>) -> Vec<Item> {
        let mut names = BTreeSet::new();
        tables.into_iter().map(|table| self.item(table, &mut names)).collect()
    }

    fn item(&mut self, table: ItemTable, names: &mut BTreeSet<String>) -> Item {
        let (span, name) = (table.name.span(), table.name.into_inner());
        let is_word = |name: &str| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        };
        if !is_word(&name) {
            self.fault(span.clone(), &format!("item `{name}`: name"), "a name has lower-case letters, digits and `-`");
        }
        if !names.insert(name.clone()) {
            self.fault(span, &format!("item `{name}`: name"), "another item has this name: each needs its own");
        }
        if table.entries.get_ref().is_empty() {
            self.fault(
                table.entries.span(),
                &format!("item `{name}`: entries"),
                "there are none: it needs at least one",
            );
        }
        let tolerance = self.tolerance(table.tolerance, &name).unwrap_or(DEFAULT_TOLERANCE);
        let mut keys = BTreeSet::new();
        let entries = table.entries.into_inner().into_iter().map(|table| self.entry(table, &name, &mut keys)).collect();
        Item { title: table.title, unit: table.unit, tolerance, entries, name }
    }

    fn tolerance(&mut self, tolerance: Option<Spanned<f64>>, of: &str) -> Option<f64> {
        let tolerance = tolerance?;
        if !(*tolerance.get_ref() > 0.0 && *tolerance.get_ref() <= 1.0) {
            let problem = format!("{} is not above 0 and at most 1", tolerance.get_ref());
            self.fault(tolerance.span(), &format!("`{of}`: tolerance"), &problem);
        }
        Some(tolerance.into_inner())
    }

    fn entry(&mut self, table: EntryTable, item: &str, keys: &mut BTreeSet<String>) -> Entry {
        let (span, key) = (table.key.span(), table.key.into_inner());
        let name = format!("item `{item}`: entry `{key}`");
        if !keys.insert(key.clone()) {
            self.fault(span.clone(), &name, "another entry of the item has this key: each needs its own");
        }
        let tolerance = self.tolerance(table.tolerance, &key);
        for (value, which) in [(&table.printed, "printed"), (&table.corrected, "corrected")] {
            if let Some(value) = value.as_ref().filter(|value| !value.get_ref().is_finite()) {
                self.fault(value.span(), &format!("{name}: {which}"), "it is not a finite number");
            }
        }
        if table.corrected.is_some() && table.inconsistent.is_none() {
            self.fault(span.clone(), &name, "`corrected` needs `inconsistent`, which says why");
        }
        let number = |value: Option<Spanned<f64>>| value.map(Spanned::into_inner);
        let content = match (table.printed, table.claim, table.ours) {
            (Some(printed), None, None) => Content::Value {
                printed: printed.into_inner(),
                inconsistent: table.inconsistent,
                corrected: number(table.corrected),
                tolerance,
            },
            (None, Some(text), None) => Content::Claim { text, section: table.section },
            (None, None, Some(reason)) => Content::Ours(reason),
            _ => {
                self.fault(span, &name, "it needs one of `printed`, `claim` and `ours`");
                Content::Ours(String::new())
            }
        };
        let documented = table.found.and_then(|found| self.documented(found, &name));
        Entry { key, content, documented }
    }

    fn documented(&mut self, found: Spanned<String>, of: &str) -> Option<Verdict> {
        let verdict = Verdict::by_text(found.get_ref()).filter(|verdict| !verdict.is_expected());
        if verdict.is_none() {
            let problem = format!("`{}` is not one of off, does not hold, depends, open", found.get_ref());
            self.fault(found.span(), &format!("{of}: found"), &problem);
        }
        verdict
    }
}

/// The relative deviation up to which a value is reproduced, unless its item says otherwise.
const DEFAULT_TOLERANCE: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;

    const ITEM: &str = "paper = \"p\"\n[[item]]\nname = \"a\"\ntitle = \"t\"\n";

    fn faults(rest: &str) -> String {
        parse(&format!("{ITEM}{rest}"), "f").expect_err("faults").to_string()
    }

    #[test]
    fn faults_name_their_place_and_key() {
        assert_eq!(
            faults("entries = [{ key = \"k\" }]"),
            "f:5:20: item `a`: entry `k`: it needs one of `printed`, `claim` and `ours`"
        );
        assert_eq!(
            faults("tolerance = 2\nentries = [{ key = \"k\", printed = nan }, { key = \"k\", ours = \"\" }]"),
            "f:5:13: `a`: tolerance: 2 is not above 0 and at most 1\n\
             f:6:35: item `a`: entry `k`: printed: it is not a finite number\n\
             f:6:50: item `a`: entry `k`: another entry of the item has this key: each needs its own"
        );
        assert_eq!(
            faults("entries = [{ key = \"k\", claim = \"c\", found = \"holds\" }]"),
            "f:5:46: item `a`: entry `k`: found: `holds` is not one of off, does not hold, depends, open"
        );
        let of_type = faults("entries = [{ key = 5, printed = 1 }]");
        assert!(of_type.starts_with("f:5:20: item.0.entries.0.key: invalid type"), "{of_type}");
        let syntax = faults("entries = [");
        assert!(syntax.starts_with("f:5:"), "{syntax}");
        assert!(parse("paper = \"p\"", "f").expect_err("a fault").to_string().contains("missing field `item`"));
    }
}
