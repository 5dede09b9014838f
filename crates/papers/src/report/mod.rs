//! What studies came to, and the files that say so: `report.html` with everything in it, `report.md`, `entries.csv` and the
//! figures as SVG.

mod csv;
mod document;
mod html;
mod markdown;
mod numbers;

pub use document::{Document, EntryDocument, ItemDocument, PaperDocument};
pub use markdown::{item_table, summary_table};

use crate::Error;
use crate::printed::Entry;
use crate::study::{Found, Verdict};
use std::fs;
use std::path::Path;

/// A study's results.
#[derive(Debug, Clone)]
pub struct PaperReport {
    /// Its name on the command line.
    pub name: String,
    /// Author, title, where and when.
    pub paper: String,
    /// What was run of its items.
    pub items: Vec<ItemReport>,
}

/// An item's results.
#[derive(Debug, Clone)]
pub struct ItemReport {
    /// Its name on the command line.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// The unit of its values.
    pub unit: String,
    /// The command that finds it again.
    pub command: String,
    /// Its entries, in the paper's order.
    pub rows: Vec<Row>,
    /// What holds for all of them.
    pub remarks: Vec<String>,
}

/// An entry, what was found of it, and what follows.
#[derive(Debug, Clone)]
pub struct Row {
    /// What is printed.
    pub entry: Entry,
    /// What was found.
    pub found: Found,
    /// Relative, see [`crate::verdict::deviation`].
    pub deviation: Option<f64>,
    /// None if it was not run.
    pub verdict: Option<Verdict>,
}

/// All entries of `reports` whose printed value or claim was not found again.
pub fn contradictions(reports: &[PaperReport]) -> usize {
    let rows = reports.iter().flat_map(|report| &report.items).flat_map(|item| &item.rows);
    rows.filter(|row| row.verdict.is_some_and(Verdict::is_contradiction)).count()
}

/// Writes all files to `directory`, which is made if it is not there.
///
/// # Errors
/// If a file cannot be written.
pub fn write(reports: &[PaperReport], directory: &Path) -> Result<(), Error> {
    fs::create_dir_all(directory).map_err(|error| Error::Input(format!("{}: {error}", directory.display())))?;
    let files = [
        ("report.html", html::page(reports)),
        ("report.md", markdown::page(reports)),
        ("entries.csv", csv::entries(reports).map_err(Error::failed)?),
    ];
    for (name, content) in files {
        let path = directory.join(name);
        fs::write(&path, content).map_err(|error| Error::failed(format!("{}: {error}", path.display())))?;
    }
    Ok(())
}
