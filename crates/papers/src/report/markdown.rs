//! Tables for people, and `report.md`.

use super::numbers::{estimate, optional, percent, printed};
use super::{ItemReport, PaperReport, Row, figure_file};
use crate::printed::Content;
use crate::study::Verdict;
use comfy_table::{CellAlignment, Table, presets};

/// The names of columns.
pub const COLUMNS: [&str; 8] = ["entry", "printed", "model", "simulated", "measured", "deviation", "verdict", "note"];
/// Columns of numbers.
const NUMBERS: std::ops::Range<usize> = 1..6;

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

/// The entries of an item as a table of Markdown, without columns that are empty.
pub fn item_table(item: &ItemReport) -> String {
    let rows: Vec<_> = item.rows.iter().map(Row::cells).collect();
    let is_empty = |column: usize| rows.iter().all(|row| matches!(row[column].as_str(), "" | "-"));
    let columns: Vec<usize> = (0..COLUMNS.len()).filter(|column| !is_empty(*column)).collect();
    let mut table = markdown_table();
    table.set_header(columns.iter().map(|column| COLUMNS[*column]));
    for row in &rows {
        table.add_row(columns.iter().map(|column| row[*column].replace('|', "\\|")));
    }
    let mut shown = table.column_iter_mut().zip(&columns);
    shown.by_ref().filter(|(_, column)| NUMBERS.contains(*column)).for_each(|(shown, _)| {
        shown.set_cell_alignment(CellAlignment::Right);
    });
    unpadded(&table)
}

/// A line for each item: how many entries there are, and their outcomes.
pub fn summary_table(reports: &[PaperReport]) -> String {
    let mut table = markdown_table();
    table.set_header(SUMMARY_COLUMNS);
    for (report, item) in reports.iter().flat_map(|report| report.items.iter().map(move |item| (report, item))) {
        table.add_row(summary_cells(report, item));
    }
    table.column_iter_mut().skip(2).take(3).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    unpadded(&table)
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

/// The table with its last column, whose texts differ much in length, as long as each text is.
fn unpadded(table: &Table) -> String {
    let line = |line: String| match line.strip_suffix('|') {
        Some(rule) if rule.ends_with('-') => format!("{}---|", rule.trim_end_matches('-')),
        Some(row) => format!("{} |", row.trim_end()),
        None => line,
    };
    table.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn markdown_table() -> Table {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table
}

/// The whole report.
pub fn page(reports: &[PaperReport]) -> String {
    let mut page = format!("# Five papers, number by number\n\n{}\n", summary_table(reports));
    for report in reports {
        page.push_str(&format!("\n## {}\n\n{}\n", report.name, report.paper));
        for item in &report.items {
            page.push_str(&format!("\n### {}\n\n{}\n", item.heading(), item_table(item)));
            for (number, chart) in item.charts.iter().enumerate() {
                page.push_str(&format!("\n![{}]({})\n", chart.title, figure_file(report, item, number)));
            }
            for remark in &item.remarks {
                page.push_str(&format!("\n- {remark}\n"));
            }
            page.push_str(&format!("\n    {}\n", item.command));
        }
    }
    page
}
