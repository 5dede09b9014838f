//! Rows with named columns: a table, or in terminals that are too narrow for it a record for each row.

use comfy_table::{Table, presets};

/// What is listed.
#[derive(Debug)]
pub struct Listing {
    header: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Listing {
    /// A listing without rows.
    pub fn new(header: &[&'static str]) -> Self {
        Self { header: header.to_vec(), rows: Vec::new() }
    }

    /// Adds a row of as many cells as there are columns.
    pub fn add(&mut self, row: Vec<String>) {
        debug_assert_eq!(row.len(), self.header.len());
        self.rows.push(row);
    }

    /// As text of lines not longer than `columns`, if that is known and a single cell allows it.
    pub fn render(&self, columns: Option<usize>) -> String {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING).set_header(&self.header).add_rows(&self.rows);
        let table = table.to_string();
        let width = table.lines().map(|line| line.trim_end().chars().count()).max().unwrap_or(0);
        match columns {
            Some(columns) if columns < width => self.rows.iter().map(|row| self.record(row, columns)).collect(),
            _ => table + "\n",
        }
    }

    /// The first cell, and below it the others with their names, as many in a line as fit.
    fn record(&self, row: &[String], columns: usize) -> String {
        const INDENT: &str = "  ";
        let mut cells = self.header.iter().zip(row).map(|(name, cell)| format!("{name} {cell}"));
        let mut text = cells.next().unwrap_or_default() + "\n";
        let mut line = String::new();
        for cell in cells {
            if !line.is_empty() && (INDENT.len() + line.chars().count() + 3 + cell.chars().count()) > columns {
                text += &format!("{INDENT}{line}\n");
                line.clear();
            }
            line += if line.is_empty() { "" } else { ", " };
            line += &cell;
        }
        text + INDENT + &line + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers() -> Listing {
        let mut listing = Listing::new(&["peer", "state", "sent", "lost"]);
        listing.add(["hub", "up", "1.5MB", "12 (0.1 %)"].map(str::to_owned).to_vec());
        listing.add(["terminal-2", "unresponsive", "0B", "0"].map(str::to_owned).to_vec());
        listing
    }

    #[test]
    fn what_fits_is_a_table() {
        for columns in [None, Some(80)] {
            let text = peers().render(columns);
            let lines: Vec<_> =
                text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
            assert_eq!(lines, ["peer state sent lost", "hub up 1.5MB 12 (0.1 %)", "terminal-2 unresponsive 0B 0"]);
        }
    }

    #[test]
    fn what_does_not_fit_is_a_record_for_each_row() {
        let text = peers().render(Some(30));
        assert_eq!(
            text,
            "peer hub\n  state up, sent 1.5MB\n  lost 12 (0.1 %)\npeer terminal-2\n  state unresponsive, sent 0B\n  lost 0\n"
        );
        assert!(text.lines().all(|line| line.chars().count() <= 30), "{text}");
    }
}
