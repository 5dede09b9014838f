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
use results::chart::Chart;
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
    /// Its figures.
    pub charts: Vec<Chart>,
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

/// The file of a figure: `NAME-ITEM.svg`, further ones `NAME-ITEM-2.svg` and so on.
fn figure_file(report: &PaperReport, item: &ItemReport, number: usize) -> String {
    match number {
        0 => format!("{}-{}.svg", report.name, item.name),
        _ => format!("{}-{}-{}.svg", report.name, item.name, number + 1),
    }
}

/// Writes all files to `directory`, which is made if it is not there.
///
/// # Errors
/// If a file cannot be written.
pub fn write(reports: &[PaperReport], directory: &Path) -> Result<(), Error> {
    fs::create_dir_all(directory).map_err(|error| Error::Input(format!("{}: {error}", directory.display())))?;
    let mut files = vec![
        ("report.html".to_owned(), html::page(reports)?),
        ("report.md".to_owned(), markdown::page(reports)),
        ("entries.csv".to_owned(), csv::entries(reports).map_err(Error::failed)?),
    ];
    for (report, item) in reports.iter().flat_map(|report| report.items.iter().map(move |item| (report, item))) {
        for (number, chart) in item.charts.iter().enumerate() {
            files.push((figure_file(report, item, number), chart.svg().map_err(Error::failed)?));
        }
    }
    for (name, content) in files {
        let path = directory.join(name);
        fs::write(&path, content).map_err(|error| Error::failed(format!("{}: {error}", path.display())))?;
    }
    Ok(())
}
