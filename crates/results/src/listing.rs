//! Rows with named columns, for people: a table of Markdown, or where that is too wide a record for each row. Each column of figures
//! has one unit, which stands in its head.

use comfy_table::{CellAlignment, Table, presets};
use textwrap::core::display_width;
use units::{Quantity, Unit, significant};

/// What is listed.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    is_transposed: bool,
}

/// A column, or in a transposed table a row.
#[derive(Debug, Clone)]
pub struct Column {
    name: String,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    /// Of text that ends with a figure, or of whole numbers.
    Right,
    Figure(Quantity),
}

/// A column of text.
pub fn text(name: impl Into<String>) -> Column {
    Column { name: name.into(), kind: Kind::Text }
}

/// A column of whole numbers, or of texts that belong at the right.
pub fn count(name: impl Into<String>) -> Column {
    Column { name: name.into(), kind: Kind::Right }
}

/// A column of figures.
pub fn figure(name: impl Into<String>, quantity: Quantity) -> Column {
    Column { name: name.into(), kind: Kind::Figure(quantity) }
}

/// A cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Nothing is known: `-`.
    Missing,
    /// As it stands.
    Text(String),
    /// Figures in the quantity's base unit, with `between` them.
    Figures {
        /// From the left to the right.
        figures: Vec<f64>,
        /// What separates them.
        between: &'static str,
    },
    /// A mean and its deviation, with as many decimals.
    Spread {
        /// In the quantity's base unit.
        mean: f64,
        /// In the quantity's base unit.
        deviation: f64,
    },
}

impl Cell {
    /// A mean, and its deviation if there is one.
    pub fn spread(mean: f64, deviation: Option<f64>) -> Self {
        deviation.map_or_else(|| mean.into(), |deviation| Self::Spread { mean, deviation })
    }

    /// The figures that choose the unit: means do, not how they vary.
    fn figures(&self) -> &[f64] {
        match self {
            Self::Figures { figures, .. } => figures,
            Self::Spread { mean, .. } => std::slice::from_ref(mean),
            Self::Missing | Self::Text(_) => &[],
        }
    }

    fn shown(&self, unit: Option<Unit>) -> String {
        match self {
            Self::Missing => "-".to_owned(),
            Self::Text(text) => text.clone(),
            Self::Figures { figures, between } => {
                let number = |figure: &f64| unit.map_or_else(|| significant(*figure, 3), |unit| unit.number(*figure));
                figures.iter().map(number).collect::<Vec<_>>().join(between)
            }
            Self::Spread { mean, deviation } => {
                let number = |figure: f64| unit.map_or_else(|| significant(figure, 3), |unit| unit.number(figure));
                let (mean, deviation) = (number(*mean), number(*deviation));
                format!("{mean} ± {}", with_decimals_of(&mean, &deviation).unwrap_or(deviation))
            }
        }
    }
}

/// `figure` with as many decimals as `like` has; `None` if that is written with an exponent, or zero.
fn with_decimals_of(like: &str, figure: &str) -> Option<String> {
    let decimals = like.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let is_plain = like != "0" && !like.contains('e');
    let figure: f64 = figure.parse().ok().filter(|_| is_plain)?;
    Some(format!("{figure:.decimals$}"))
}

impl From<f64> for Cell {
    fn from(figure: f64) -> Self {
        Self::Figures { figures: vec![figure], between: "" }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Self {
        Self::Text(count.to_string())
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Missing, Into::into)
    }
}

impl Listing {
    /// A listing without rows.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self { columns: columns.into_iter().collect(), ..Self::default() }
    }

    /// The same as a table with a row for each column.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self { is_transposed: true, ..self }
    }

    /// Adds a row of as many cells as there are columns.
    pub fn add(&mut self, row: impl IntoIterator<Item = Cell>) {
        self.rows.push(row.into_iter().collect());
        debug_assert_eq!(self.rows.last().map(Vec::len), Some(self.columns.len()));
    }

    /// The heads of the columns, with their units.
    pub fn heads(&self) -> Vec<String> {
        let head = |(column, unit): (&Column, Option<Unit>)| match unit {
            Some(unit) if !unit.name.is_empty() => format!("{}, {}", column.name, unit.name),
            _ => column.name.clone(),
        };
        self.columns.iter().zip(self.units()).map(head).collect()
    }

    /// The cells as text.
    pub fn cells(&self) -> Vec<Vec<String>> {
        let units = self.units();
        self.rows.iter().map(|row| row.iter().zip(&units).map(|(cell, unit)| cell.shown(*unit)).collect()).collect()
    }

    /// As text of lines not longer than `columns`, if that is given.
    pub fn render(&self, columns: Option<usize>) -> String {
        let table = self.table();
        match columns {
            Some(columns) if table.lines().any(|line| display_width(line) > columns) => {
                let names: Vec<_> = self.columns.iter().map(|column| column.name.clone()).collect();
                let units = self.units();
                self.rows.iter().map(|row| record(&names, row, &units, columns)).collect()
            }
            _ => table,
        }
    }

    /// The unit of each column.
    fn units(&self) -> Vec<Option<Unit>> {
        let unit = |(at, column): (usize, &Column)| match column.kind {
            Kind::Figure(quantity) => {
                let figures = self.rows.iter().flat_map(|row| row[at].figures());
                Some(quantity.common_unit(figures.copied()))
            }
            Kind::Text | Kind::Right => None,
        };
        self.columns.iter().enumerate().map(unit).collect()
    }

    fn table(&self) -> String {
        let mut table = Table::new();
        table.load_preset(presets::ASCII_MARKDOWN);
        let (heads, cells) = (self.heads(), self.cells());
        let is_right: Vec<bool> = if self.is_transposed {
            table.set_header(heads.first().into_iter().chain(cells.iter().filter_map(|row| row.first())));
            for (at, head) in heads.iter().enumerate().skip(1) {
                table.add_row(std::iter::once(head).chain(cells.iter().map(|row| &row[at])));
            }
            std::iter::once(false).chain(cells.iter().map(|_| true)).collect()
        } else {
            table.set_header(heads);
            let escaped = |row: Vec<String>| row.into_iter().map(|cell| cell.replace('|', "\\|"));
            table.add_rows(cells.into_iter().map(escaped));
            self.columns.iter().map(|column| column.kind != Kind::Text).collect()
        };
        for (column, _) in table.column_iter_mut().zip(is_right).filter(|(_, is_right)| *is_right) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        unpadded(&table)
    }
}

/// Texts that are longer make a last column that is not padded.
const LONG: usize = 50;

/// The table with its last column, if its texts differ much in length, as long as each text is.
fn unpadded(table: &Table) -> String {
    let last = table.row_iter().filter_map(|row| row.cell_iter().last());
    let is_long = last.map(comfy_table::Cell::content).any(|text| text.chars().count() > LONG);
    let line = |line: String| match line.strip_suffix('|') {
        Some(rule) if is_long && rule.ends_with('-') => format!("{}---|\n", rule.trim_end_matches('-')),
        Some(row) if is_long => format!("{} |\n", row.trim_end()),
        _ => line + "\n",
    };
    table.lines().map(line).collect()
}

/// The first cell, and below it the others with their names, as many in a line as fit. What is not known is left out.
fn record(names: &[String], row: &[Cell], units: &[Option<Unit>], columns: usize) -> String {
    const INDENT: &str = "  ";
    let is_known = |((_, cell), _): &((&String, &Cell), &Option<Unit>)| !matches!(cell, Cell::Missing);
    let named = |((name, cell), unit): ((&String, &Cell), &Option<Unit>)| {
        let shown_unit = unit.filter(|unit| !unit.name.is_empty() && !cell.figures().is_empty());
        let name_of_unit = shown_unit.map_or_else(String::new, |unit| format!(" {}", unit.name));
        format!("{name} {}{name_of_unit}", cell.shown(*unit))
    };
    let mut cells = names.iter().zip(row).zip(units).filter(is_known).map(named);
    let mut text = wrapped(&cells.next().unwrap_or_default(), Some(columns), "");
    let mut line = String::new();
    for cell in cells {
        if !line.is_empty() && INDENT.len() + display_width(&line) + 3 + display_width(&cell) > columns {
            text += &wrapped(&format!("{INDENT}{line}"), Some(columns), INDENT);
            line.clear();
        }
        line += if line.is_empty() { "" } else { ", " };
        line += &cell;
    }
    if !line.is_empty() {
        text += &wrapped(&format!("{INDENT}{line}"), Some(columns), INDENT);
    }
    text
}

/// `text` in lines of at most so many columns, if that is given; each begins with `indent`, but for the first. A word that is longer
/// than a line is broken.
pub fn wrapped(text: &str, columns: Option<usize>, indent: &str) -> String {
    let Some(columns) = columns else { return format!("{text}\n") };
    let options = textwrap::Options::new(columns.max(1))
        .subsequent_indent(indent)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .wrap_algorithm(textwrap::WrapAlgorithm::FirstFit);
    textwrap::fill(text, options) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers() -> Listing {
        let mut listing =
            Listing::new([text("peer"), text("state"), figure("sent", Quantity::Bytes), count("lost"), text("says")]);
        listing.add(["hub".into(), "up".into(), 1.5e6.into(), 12.into(), Cell::Missing]);
        listing.add(["terminal-2".into(), "unresponsive".into(), 20e3.into(), 0.into(), "a | b".into()]);
        listing
    }

    #[test]
    fn what_fits_is_a_table_with_a_unit_for_each_column() {
        let expected = "\
| peer       | state        | sent, kB | lost | says   |
|------------|--------------|----------|------|--------|
| hub        | up           |     1500 |   12 | -      |
| terminal-2 | unresponsive |     20.0 |    0 | a \\| b |
";
        for columns in [None, Some(80), Some(57)] {
            assert_eq!(peers().render(columns), expected);
        }
    }

    #[test]
    fn what_does_not_fit_is_a_record_for_each_row() {
        let expected = "\
peer hub
  state up, sent 1500 kB
  lost 12
peer terminal-2
  state unresponsive
  sent 20.0 kB, lost 0
  says a | b
";
        assert_eq!(peers().render(Some(25)), expected);
    }

    #[test]
    fn no_line_is_longer_than_the_terminal() {
        let mut listing = peers();
        listing.add([
            "terminal-with-a-name-longer-than-the-terminal".into(),
            "a state of several words that says more than fits".into(),
            0.0.into(),
            Cell::Missing,
            "日本語の状態".into(),
        ]);
        for columns in [20, 40, 60, 80, 120] {
            let text = listing.render(Some(columns));
            assert!(text.lines().all(|line| display_width(line) <= columns), "{columns}\n{text}");
        }
    }

    #[test]
    fn a_transposed_table_has_a_row_for_each_column() {
        let mut listing = Listing::new([text("packets"), count("offered"), figure("mean rate", Quantity::Rate)]);
        listing.add(["up".into(), 7.into(), 2e6.into()]);
        listing.add(["down".into(), 9.into(), 6.5e6.into()]);
        let expected = "\
| packets           |   up | down |
|-------------------|------|------|
| offered           |    7 |    9 |
| mean rate, Mbit/s | 2.00 | 6.50 |
";
        assert_eq!(listing.clone().transposed().render(None), expected);
        assert_eq!(listing.transposed().render(Some(30)).lines().next(), Some("packets up"));
    }

    #[test]
    fn deviations_do_not_choose_the_unit() {
        let mut listing = Listing::new([figure("time", Quantity::Time)]);
        listing.add([Cell::spread(1.5, Some(1e-4))]);
        assert_eq!(
            (listing.heads(), listing.cells()),
            (vec!["time, s".to_owned()], vec![vec!["1.50 ± 0.00".to_owned()]])
        );
    }
}
