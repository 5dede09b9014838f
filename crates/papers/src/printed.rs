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
//! assert!(error.starts_with("printed.toml:8:22: item.table-1.entries.0.printd: unknown key; did you mean printed?"), "{error}");
//! ```

use crate::{Error, Verdict};
use document::{Document, Form, Format, Node, form};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeSet;

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
        /// What the paper must have meant, if that can be inferred.
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

/// What a file of printed values may say.
#[derive(Deserialize, JsonSchema)]
struct File {
    /// Author, title, where and when.
    paper: String,
    /// Its tables, figures and claims, in order.
    item: Vec<ItemTable>,
}

/// A table, a figure or a set of claims.
#[derive(Deserialize, JsonSchema)]
struct ItemTable {
    /// On the command line.
    name: ItemName,
    /// What it shows.
    title: String,
    /// The unit of its values; empty if they have none.
    #[serde(default)]
    unit: String,
    /// The relative deviation up to which a value is reproduced.
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = 1))]
    tolerance: Option<f64>,
    /// Its values and claims.
    #[schemars(length(min = 1))]
    entries: Vec<EntryTable>,
}

/// One value or claim: it has `printed`, `claim` or `ours`.
#[derive(Deserialize, JsonSchema)]
struct EntryTable {
    /// Tells it from the others of its item.
    key: String,
    /// The value, as printed.
    printed: Option<f64>,
    /// Why the value contradicts the paper itself.
    inconsistent: Option<String>,
    /// What the paper must have meant.
    corrected: Option<f64>,
    /// The relative deviation up to which it is reproduced, if not the item's.
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = 1))]
    tolerance: Option<f64>,
    /// A sentence of the paper, in our words.
    claim: Option<String>,
    /// The paper's section.
    section: Option<String>,
    /// Why there is an entry that the paper has not.
    ours: Option<String>,
    /// The verdict that was found, where it is not what one expects.
    found: Option<Found>,
}

form!(
    /// The name of an item.
    ItemName(String), "item-name", "a name of lower-case letters, digits and -, such as \"table-3\"", "^[a-z0-9-]+$",
    |text| {
        let is_word = !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        is_word.then(|| text.to_owned()).ok_or_else(|| format!("expected {}", ItemName::EXPECTED))
    }
);

/// A verdict that is not what one expects.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Found {
    Off,
    #[serde(rename = "does not hold")]
    DoesNotHold,
    Depends,
    Open,
}

impl From<Found> for Verdict {
    fn from(found: Found) -> Self {
        match found {
            Found::Off => Self::Off,
            Found::DoesNotHold => Self::DoesNotHold,
            Found::Depends => Self::DependsOn,
            Found::Open => Self::Open,
        }
    }
}

/// Reads `text`, called `file` in faults.
///
/// # Errors
/// With the place, the key and the problem of every fault.
pub fn parse(text: &str, file: &str) -> Result<Printed, Error> {
    let format = Format::of::<File>().with::<ItemName>();
    let read = Document::read(text, file, &format).and_then(|mut document| {
        let written: Option<File> = document.typed(&[]);
        let printed =
            written.map(|written| Printed { paper: written.paper, items: items(&mut document, written.item) });
        document.finish(printed)
    });
    read.map_err(|faults| Error::Input(faults.to_string()))
}

fn items(document: &mut Document<'_>, tables: Vec<ItemTable>) -> Vec<Item> {
    let mut names = BTreeSet::new();
    let nodes = document.items("item");
    let mut items = Vec::new();
    for (table, node) in tables.into_iter().zip(nodes) {
        let name = table.name.0;
        if !names.insert(name.clone()) {
            document.fault_at(node.at("name").origin.clone(), &["item", &name], ": another item has this name");
        }
        let nodes = node.get("entries").map_or(&[][..], Node::items);
        let mut keys = BTreeSet::new();
        let mut entries = Vec::new();
        for (table, node) in table.entries.into_iter().zip(nodes) {
            let key = table.key.clone();
            let path = ["item", &*name, "entries", &*key];
            let mut fault = |key: &str, problem: &str| document.fault_at(node.at(key).origin.clone(), &path, problem);
            if !keys.insert(table.key.clone()) {
                fault("key", ": another entry of the item has this key");
            }
            if table.corrected.is_some() && table.inconsistent.is_none() {
                fault("corrected", ".corrected needs `inconsistent`, which says why");
            }
            match entry(table) {
                Some(entry) => entries.push(entry),
                None => fault("key", ": it needs one of `printed`, `claim` and `ours`"),
            }
        }
        let tolerance = table.tolerance.unwrap_or(DEFAULT_TOLERANCE);
        items.push(Item { name, title: table.title, unit: table.unit, tolerance, entries });
    }
    items
}

/// `None` if the table does not say, once, what the entry is.
fn entry(table: EntryTable) -> Option<Entry> {
    let EntryTable { key, printed, inconsistent, corrected, tolerance, claim, section, ours, found } = table;
    let content = match (printed, claim, ours) {
        (Some(printed), None, None) => Content::Value { printed, inconsistent, corrected, tolerance },
        (None, Some(text), None) => Content::Claim { text, section },
        (None, None, Some(reason)) => Content::Ours(reason),
        _ => return None,
    };
    Some(Entry { key, content, documented: found.map(Verdict::from) })
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
            "f:5:20: item.a.entries.k: it needs one of `printed`, `claim` and `ours`"
        );
        assert_eq!(
            faults("tolerance = 2\nentries = [{ key = \"k\", printed = nan }]"),
            "f:5:13: item.a.tolerance = 2: expected a number above 0 and at most 1\n\
             f:6:35: item.a.entries.0.printed = nan: expected a number"
        );
        assert_eq!(
            faults("entries = [{ key = \"k\", ours = \"\" }, { key = \"k\", corrected = 1, ours = \"\" }]"),
            "f:5:46: item.a.entries.k: another entry of the item has this key\n\
             f:5:63: item.a.entries.k.corrected needs `inconsistent`, which says why"
        );
        assert_eq!(
            faults("entries = [{ key = \"k\", claim = \"c\", found = \"holds\" }]"),
            "f:5:46: item.a.entries.0.found = \"holds\": expected \"off\", \"does not hold\", \"depends\", \"open\""
        );
        let of_type = faults("entries = [{ key = 5, printed = 1 }]");
        assert_eq!(of_type, "f:5:20: item.a.entries.0.key = 5: expected a text");
        let syntax = faults("entries = [");
        assert!(syntax.starts_with("f:5:"), "{syntax}");
        let without = parse("paper = \"p\"", "f").expect_err("a fault").to_string();
        assert_eq!(without, "f:1:1: item is missing: expected at least one table headed [[item]]");
    }
}
