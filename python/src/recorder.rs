//! From runs, as they end, to the columns of tables.

use crate::table::{Table, array, batch};
use arrow_array::{ArrayRef, Float64Array, RecordBatch, UInt32Array, UInt64Array};
use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use results::{Column, Run, Values};
use sim::{CapacitySample, FlowSample, QueueSample};
use std::sync::Arc;

/// What ended runs found, as columns.
#[derive(Default)]
pub(crate) struct Recorder {
    runs: u32,
    tables: [Growing; 3],
    samples: Batches,
    queues: Batches,
    capacity: Batches,
}

/// Columns of numbers by which tables are joined: of the type that traces have.
const IDS: [&str; 3] = ["run", "flow", "direction"];

/// A table to which rows are added.
#[derive(Default)]
struct Growing(Vec<(String, Values)>);

/// Batches of one schema, one for each run that has rows; the first may have none.
#[derive(Default)]
struct Batches(Vec<RecordBatch>);

/// The tables of all runs.
pub(crate) struct Recorded {
    pub(crate) runs: Table,
    pub(crate) flows: Table,
    pub(crate) links: Table,
    pub(crate) samples: Table,
    pub(crate) queues: Table,
    pub(crate) capacity: Table,
}

impl Growing {
    fn append(&mut self, columns: Vec<(String, Values)>) {
        if self.0.is_empty() {
            self.0 = columns;
            return;
        }
        for ((_, all), (_, more)) in self.0.iter_mut().zip(columns) {
            all.extend(more);
        }
    }

    fn table(self) -> PyResult<Table> {
        let column = |(name, values): (String, Values)| match values {
            Values::Integer(numbers) if IDS.contains(&name.as_str()) => {
                let numbers = numbers.into_iter().map(|number| number.map(|number| number as u32));
                (name, Arc::new(numbers.collect::<UInt32Array>()) as ArrayRef)
            }
            values => (name, array(&values)),
        };
        Table::of_columns(self.0.into_iter().map(column).collect())
    }
}

impl Batches {
    fn append(&mut self, columns: Vec<(&str, ArrayRef)>) -> PyResult<()> {
        let batch = batch(columns.into_iter().map(|(name, array)| (name.to_owned(), array)).collect())?;
        if self.0.is_empty() || batch.num_rows() > 0 {
            self.0.push(batch);
        }
        Ok(())
    }

    fn table(self) -> Table {
        let schema: SchemaRef =
            self.0.first().map_or_else(|| Arc::new(arrow_schema::Schema::empty()), RecordBatch::schema);
        Table::new(schema, self.0)
    }
}

impl Recorder {
    /// Adds a run. Its samples are given up.
    pub(crate) fn append(&mut self, mut run: Run) -> PyResult<()> {
        let number = self.runs;
        self.runs += 1;
        let [runs, flows, links] = &mut self.tables;
        runs.append(of_run(number, &run));
        flows.append(numbered(number, "flow", results::flows(&run).columns));
        links.append(numbered(number, "direction", results::links(&run).columns));
        let (names, rows) = (run.report.flows.len(), std::mem::take(&mut run.flow_samples));
        self.samples.append(samples(number, &rows, names))?;
        self.queues.append(queues(number, &std::mem::take(&mut run.queue_samples)))?;
        self.capacity.append(capacity(number, &std::mem::take(&mut run.capacity_samples)))
    }

    /// The tables.
    pub(crate) fn finish(self) -> PyResult<Recorded> {
        let [runs, flows, links] = self.tables;
        Ok(Recorded {
            runs: runs.table()?,
            flows: flows.table()?,
            links: links.table()?,
            samples: self.samples.table(),
            queues: self.queues.table(),
            capacity: self.capacity.table(),
        })
    }
}

fn one(name: &str, values: Values) -> (String, Values) {
    (name.to_owned(), values)
}

fn of_run(number: u32, run: &Run) -> Vec<(String, Values)> {
    let integer = |value: u64| Values::Integer(vec![Some(value)]);
    let stopped = serde_json::to_value(run.report.stopped).ok();
    let stopped = stopped.as_ref().and_then(serde_json::Value::as_str).map(Arc::from);
    vec![
        one("run", integer(number.into())),
        one("variant", Values::Text(vec![run.label.variant.clone()])),
        one("seed", integer(run.label.seed)),
        one("stopped", Values::Text(vec![stopped])),
        one("end_s", Values::Number(vec![Some(run.report.end_s)])),
        one("events", integer(run.report.events)),
        one("data_packets", integer(run.report.data_packets)),
    ]
}

/// The columns of a run's flows or links behind the numbers of run and row.
fn numbered(run: u32, id: &str, columns: Vec<Column>) -> Vec<(String, Values)> {
    let rows = columns.first().map_or(0, |column| column.values.len()) as u64;
    let mut columns = columns.into_iter().map(|column| (column.name.into_owned(), column.values)).collect::<Vec<_>>();
    columns.insert(0, one("run", Values::Integer(vec![Some(run.into()); rows as usize])));
    columns.insert(3, one(id, Values::Integer((0..rows).map(Some).collect())));
    columns
}

fn samples(run: u32, rows: &[FlowSample], flows: usize) -> Vec<(&'static str, ArrayRef)> {
    vec![
        numbers("run", rows, |_| run),
        numbers("flow", rows, |sample| sample.flow),
        times("time_s", rows, |sample| sample.at.as_secs_f64()),
        bytes("delivered_bytes", rows, |sample| sample.delivered.as_u64()),
        ("goodput_bps", Arc::new(Float64Array::from(results::goodputs(rows, flows)))),
        bytes("cwnd_bytes", rows, |sample| sample.cwnd.as_u64()),
        (
            "ssthresh_bytes",
            Arc::new(rows.iter().map(|sample| sample.ssthresh.map(|bytes| bytes.as_u64())).collect::<UInt64Array>()),
        ),
        (
            "srtt_s",
            Arc::new(rows.iter().map(|sample| sample.srtt.map(|srtt| srtt.as_secs_f64())).collect::<Float64Array>()),
        ),
        bytes("in_flight_bytes", rows, |sample| sample.in_flight.as_u64()),
    ]
}

fn queues(run: u32, rows: &[QueueSample]) -> Vec<(&'static str, ArrayRef)> {
    vec![
        numbers("run", rows, |_| run),
        numbers("direction", rows, |sample| sample.direction.index() as u32),
        times("time_s", rows, |sample| sample.at.as_secs_f64()),
        bytes("queued_packets", rows, |sample| sample.packets),
        bytes("queued_bytes", rows, |sample| sample.bytes.as_u64()),
    ]
}

fn capacity(run: u32, rows: &[CapacitySample]) -> Vec<(&'static str, ArrayRef)> {
    let rate = |name, bytes: fn(&CapacitySample) -> u64| {
        times(name, rows, move |row| bytes(row) as f64 * 8.0 / row.length.as_secs_f64())
    };
    vec![
        numbers("run", rows, |_| run),
        numbers("direction", rows, |row| row.direction.index() as u32),
        times("time_s", rows, |row| row.sample.at.as_secs_f64()),
        rate("requested_bps", |row| row.sample.requested.as_u64()),
        rate("allocated_bps", |row| row.sample.allocated.total()),
        rate("cra_bps", |row| row.sample.allocated.cra),
        rate("rbdc_bps", |row| row.sample.allocated.rbdc),
        rate("vbdc_bps", |row| row.sample.allocated.vbdc),
        rate("fca_bps", |row| row.sample.allocated.fca),
        rate("used_bps", |row| row.sample.used.as_u64()),
        bytes("queued_bytes", rows, |row| row.sample.queued.as_u64()),
    ]
}

fn numbers<T>(name: &'static str, rows: &[T], value: impl Fn(&T) -> u32) -> (&'static str, ArrayRef) {
    (name, Arc::new(UInt32Array::from(rows.iter().map(value).collect::<Vec<_>>())))
}

fn bytes<T>(name: &'static str, rows: &[T], value: impl Fn(&T) -> u64) -> (&'static str, ArrayRef) {
    (name, Arc::new(UInt64Array::from(rows.iter().map(value).collect::<Vec<_>>())))
}

fn times<T>(name: &'static str, rows: &[T], value: impl Fn(&T) -> f64) -> (&'static str, ArrayRef) {
    (name, Arc::new(Float64Array::from(rows.iter().map(value).collect::<Vec<_>>())))
}
