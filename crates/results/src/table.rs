//! A table in memory: named columns of one type each.

use std::borrow::Cow;
use std::sync::Arc;

/// A table. All columns have the same length.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// The columns, in order.
    pub columns: Vec<Column>,
}

/// A named column.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Its name; it ends in its unit (`_s`, `_bps`, `_bytes`) if it has one.
    pub name: Cow<'static, str>,
    /// Its values.
    pub values: Values,
}

/// Values of one type, any of which may be missing.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Texts.
    Text(Vec<Option<Arc<str>>>),
    /// Counts.
    Integer(Vec<Option<u64>>),
    /// Quantities.
    Number(Vec<Option<f64>>),
    /// Yes or no.
    Flag(Vec<Option<bool>>),
}

/// One value of a [`Table`].
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[serde(untagged)]
pub(crate) enum Cell<'a> {
    Missing,
    Text(&'a str),
    Integer(u64),
    Number(f64),
    Flag(bool),
}

impl Table {
    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |column| column.values.len())
    }

    /// The column `name`.
    pub fn column(&self, name: &str) -> Option<&Values> {
        self.columns.iter().find(|column| column.name == name).map(|column| &column.values)
    }

    /// The values of row `row`, in the order of the columns.
    pub(crate) fn row(&self, row: usize) -> impl Iterator<Item = Cell<'_>> {
        self.columns.iter().map(move |column| column.values.cell(row))
    }
}

impl Values {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Values::Text(values) => values.len(),
            Values::Integer(values) => values.len(),
            Values::Number(values) => values.len(),
            Values::Flag(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends `more`, which is of the same type.
    ///
    /// # Panics
    /// If it is not.
    pub fn extend(&mut self, more: Values) {
        match (self, more) {
            (Values::Text(values), Values::Text(more)) => values.extend(more),
            (Values::Integer(values), Values::Integer(more)) => values.extend(more),
            (Values::Number(values), Values::Number(more)) => values.extend(more),
            (Values::Flag(values), Values::Flag(more)) => values.extend(more),
            (values, more) => panic!("columns of two types: {values:?}, {more:?}"),
        }
    }

    /// The values of `rows`, in that order.
    ///
    /// # Panics
    /// If there is no such row.
    #[must_use]
    pub fn take(&self, rows: &[usize]) -> Values {
        match self {
            Values::Text(values) => Values::Text(rows.iter().map(|row| values[*row].clone()).collect()),
            Values::Integer(values) => Values::Integer(rows.iter().map(|row| values[*row]).collect()),
            Values::Number(values) => Values::Number(rows.iter().map(|row| values[*row]).collect()),
            Values::Flag(values) => Values::Flag(rows.iter().map(|row| values[*row]).collect()),
        }
    }

    fn cell(&self, row: usize) -> Cell<'_> {
        let cell = match self {
            Values::Text(values) => values[row].as_deref().map(Cell::Text),
            Values::Integer(values) => values[row].map(Cell::Integer),
            Values::Number(values) => values[row].map(Cell::Number),
            Values::Flag(values) => values[row].map(Cell::Flag),
        };
        cell.unwrap_or(Cell::Missing)
    }
}
