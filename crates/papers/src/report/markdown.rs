//! Tables for people, and `report.md`.

use super::numbers::{estimate, optional, percent, printed};
use super::{ItemReport, PaperReport, Row, figure_file};
use crate::printed::Content;
use crate::study::Verdict;
use results::PictureFormat;
use results::listing::{Cell, Column, Listing, count, text};
use std::ops::Range;

/// The names of columns.
pub const COLUMNS: [&str; 8] = ["entry", "printed", "model", "simulated", "measured", "deviation", "verdict", "note"];
/// Columns of numbers.
const NUMBERS: Range<usize> = 1..6;

impl Row {
    /// Its cells, in the order of [`COLUMNS`].
    pub(super) fn cells(&self) -> [String; 8] {
        let (key, value) = match &self.entry.content {
            Content::Value { printed: value, corrected: Some(corrected), .. } => {
                (self.entry.key.clone(), format!("{} ({})", printed(*value), printed(*corrected)))
            }
            Content::Value { printed: value, .. } => (self.entry.key.clone(), printed(*value)),
            Content::Claim { text, section } => {
                let section = section.as_ref().map(|section| format!(" (section {section})")).unwrap_or_default();
                (format!("{}: {text}{section}", self.entry.key), "-".to_owned())
            }
            Content::Ours(_) => (self.entry.key.clone(), "-".to_owned()),
        };
        [
            key,
            value,
            optional(self.found.model),
            estimate(self.found.simulated),
            optional(self.found.measured),
            percent(self.deviation),
            self.verdict_text(),
            self.note().unwrap_or_default(),
        ]
    }

    /// Why it deviates: what the paper contradicts, why an entry is ours, and the study's own note.
    pub(super) fn note(&self) -> Option<String> {
        let of_entry = match &self.entry.content {
            Content::Value { inconsistent, .. } => inconsistent.as_deref(),
            Content::Ours(reason) => Some(reason.as_str()),
            Content::Claim { .. } => None,
        };
        let notes: Vec<_> = [of_entry, self.found.note.as_deref()].into_iter().flatten().collect();
        (!notes.is_empty()).then(|| notes.join("; "))
    }
}

impl ItemReport {
    /// The title with its unit.
    pub fn heading(&self) -> String {
        if self.unit.is_empty() { self.title.clone() } else { format!("{} [{}]", self.title, self.unit) }
    }
}

/// The entries of an item, without columns that are empty.
pub fn item_table(item: &ItemReport) -> Listing {
    let rows: Vec<_> = item.rows.iter().map(Row::cells).collect();
    let is_empty = |column: usize| rows.iter().all(|row| matches!(row[column].as_str(), "" | "-"));
    let columns: Vec<usize> = (0..COLUMNS.len()).filter(|column| !is_empty(*column)).collect();
    let mut listing = Listing::new(columns.iter().map(|column| named(*column, COLUMNS[*column], NUMBERS)));
    for row in &rows {
        listing.add(
            columns
                .iter()
                .map(|column| Cell::from(Some(row[*column].as_str()).filter(|text| !matches!(*text, "" | "-")))),
        );
    }
    listing
}

/// The column at this place, where `numbers` are counts or figures.
fn named(at: usize, name: &str, numbers: Range<usize>) -> Column {
    if numbers.contains(&at) { count(name) } else { text(name) }
}

/// A line for each item: how many entries there are, and their outcomes.
pub fn summary_table(reports: &[PaperReport]) -> Listing {
    let names = SUMMARY_COLUMNS.iter().enumerate();
    let mut listing = Listing::new(names.map(|(at, name)| named(at, name, 2..5)));
    for (report, item) in reports.iter().flat_map(|report| report.items.iter().map(move |item| (report, item))) {
        listing.add(summary_cells(report, item).map(Cell::from));
    }
    listing
}

/// Columns of [`summary_table`].
pub(super) const SUMMARY_COLUMNS: [&str; 6] = ["paper", "item", "entries", "as printed", "not", "which"];

/// A line of [`summary_table`].
pub(super) fn summary_cells(report: &PaperReport, item: &ItemReport) -> [String; 6] {
    let is_found = |row: &&Row| matches!(row.verdict, Some(Verdict::Within | Verdict::Holds));
    let found = item.rows.iter().filter(is_found).count();
    let others: Vec<_> =
        item.rows.iter().filter(|row| !is_found(row) && row.verdict != Some(Verdict::Unprinted)).collect();
    let which: Vec<_> = others.iter().map(|row| format!("{} ({})", row.entry.key, row.verdict_text())).collect();
    [
        report.name.clone(),
        item.name.clone(),
        item.rows.len().to_string(),
        found.to_string(),
        others.len().to_string(),
        which.join(", "),
    ]
}

/// The whole report, its figures in files of `format`.
pub fn page(reports: &[PaperReport], format: PictureFormat) -> String {
    let mut page = format!("# Five papers, number by number\n\n{}", summary_table(reports).render(None));
    for report in reports {
        page.push_str(&format!("\n## {}\n\n{}\n", report.name, report.paper));
        for item in &report.items {
            page.push_str(&format!("\n### {}\n\n{}", item.heading(), item_table(item).render(None)));
            for (number, chart) in item.charts.iter().enumerate() {
                page.push_str(&format!("\n![{}]({})\n", chart.title, figure_file(report, item, number, format)));
            }
            for remark in &item.remarks {
                page.push_str(&format!("\n- {remark}\n"));
            }
            page.push_str(&format!("\n    {}\n", item.command));
        }
    }
    page
}
