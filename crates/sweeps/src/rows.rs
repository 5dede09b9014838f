//! What is kept of a run.

use crate::{Error, Key};
use results::{Column, Format, Run, Table, TableWriter, Values};
use sim::Stopped;
use std::sync::Arc;

/// The columns that say which run a row is of.
pub(crate) const KEYS: [&str; 2] = ["scenario", "seed"];

/// What is kept of `run`, which is one of the scenario `key`: a row for each flow, behind what identifies the run and says how it
/// ended.
pub fn rows(key: Key, run: &Run) -> Table {
    let mut columns = results::flows(run).columns;
    let rows = columns.first().map_or(0, |column| column.values.len());
    let text = |name: &'static str, text: String| Column {
        name: name.into(),
        values: Values::Text(vec![Some(Arc::from(text)); rows]),
    };
    let stopped = serde_json::to_value(run.report.stopped).ok();
    let stopped = stopped.as_ref().and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
    // Behind variant and seed.
    columns.insert(2, text("stopped", stopped));
    columns.insert(3, Column { name: "run_end_s".into(), values: Values::Number(vec![Some(run.report.end_s); rows]) });
    columns.insert(0, text("version", env!("CARGO_PKG_VERSION").to_owned()));
    columns.insert(0, text("scenario", key.to_string()));
    Table { columns }
}

/// The limit at which the run of each row of such a table stopped, if it was one; nothing if the table does not say.
pub fn limits(table: &Table) -> Option<Vec<Option<&'static str>>> {
    let Values::Text(stopped) = table.column("stopped")? else { return None };
    let limit = |name: &Option<Arc<str>>| {
        let stopped: Stopped = serde_json::from_value(name.as_deref()?.into()).ok()?;
        stopped.limit()
    };
    Some(stopped.iter().map(limit).collect())
}

/// Tables of equal columns as one shard: Parquet, one row group, so that many short runs take little room.
///
/// # Errors
/// If they cannot be encoded.
pub fn encoded(tables: Vec<Table>) -> Result<Vec<u8>, Error> {
    let mut writer = TableWriter::new(Vec::new(), Format::Parquet, "shard");
    if let Some(table) = joined(tables) {
        writer.append(&table)?;
    }
    Ok(writer.finish()?)
}

/// Tables of equal columns below one another; nothing if there are none.
pub fn joined(tables: Vec<Table>) -> Option<Table> {
    let mut tables = tables.into_iter();
    let mut all = tables.next()?;
    for table in tables {
        for (column, more) in all.columns.iter_mut().zip(table.columns) {
            column.values.extend(more.values);
        }
    }
    Some(all)
}
