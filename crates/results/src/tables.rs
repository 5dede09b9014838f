//! The tables of a run: what each column holds.

use crate::run::Run;
use crate::table::{Column, Table, Values};
use sim::{CapacitySample, FlowReport, FlowSample, LinkReport, RttReport};
use std::sync::Arc;
use units::Instant;

/// The names of the tables that [`tables`] makes.
pub const TABLES: [&str; 5] = ["flows", "links", "samples", "queues", "capacity"];

/// The tables of a run, in the order of [`TABLES`]: a row for each flow, each direction of each link, each sample of a
/// flow, each sample of a queue, each superframe of a terminal on a carrier. Every row begins with the run's variant and seed.
///
/// Columns of flows and links have the names of [`RunDocument`](crate::RunDocument)'s fields; those of a field within a field join both
/// names by `_`. The other tables call a flow `flow` and a link `link`.
pub fn tables(run: &Run) -> [Table; 5] {
    [flows(run), links(run), samples(run), queues(run), capacity(run)]
}

/// The columns that identify runs, for `rows` rows.
fn labelled(run: &Run, rows: usize, columns: Vec<Column>) -> Table {
    let mut all = vec![
        Column { name: "variant".into(), values: Values::Text(vec![run.label.variant.clone(); rows]) },
        Column { name: "seed".into(), values: Values::Integer(vec![Some(run.label.seed); rows]) },
    ];
    all.extend(columns);
    Table { columns: all }
}

fn text<T>(rows: &[T], name: &'static str, value: impl Fn(&T) -> Option<Arc<str>>) -> Column {
    Column { name: name.into(), values: Values::Text(rows.iter().map(value).collect()) }
}

fn integer<T>(rows: &[T], name: &'static str, value: impl Fn(&T) -> Option<u64>) -> Column {
    Column { name: name.into(), values: Values::Integer(rows.iter().map(value).collect()) }
}

fn number<T>(rows: &[T], name: &'static str, value: impl Fn(&T) -> Option<f64>) -> Column {
    Column { name: name.into(), values: Values::Number(rows.iter().map(value).collect()) }
}

/// The table of a run's flows: a row for each.
pub fn flows(run: &Run) -> Table {
    let rows = &run.report.flows[..];
    let groups = run.groups.iter().map(|group| Some(Arc::from(group.as_str()))).collect();
    let rtt = |name, value: fn(&RttReport) -> f64| number(rows, name, move |flow| flow.rtt.as_ref().map(value));
    let count = |name, value: fn(&FlowReport) -> u64| integer(rows, name, move |flow| Some(value(flow)));
    let columns = vec![
        text(rows, "name", |flow| Some(flow.name.as_str().into())),
        Column { name: "group".into(), values: Values::Text(groups) },
        count("bytes", |flow| flow.bytes),
        number(rows, "start_s", |flow| flow.start_s),
        number(rows, "end_s", |flow| flow.end_s),
        number(rows, "until_s", |flow| flow.until_s),
        number(rows, "goodput_bps", |flow| flow.goodput_bps),
        Column { name: "complete".into(), values: Values::Flag(rows.iter().map(|flow| Some(flow.complete)).collect()) },
        text(rows, "failure", |flow| flow.failure.as_deref().map(Arc::from)),
        count("data_packets", |flow| flow.data_packets),
        count("retransmissions", |flow| flow.retransmissions),
        count("rtos", |flow| flow.rtos),
        count("received_packets", |flow| flow.received_packets),
        count("responses", |flow| flow.responses),
        rtt("rtt_min_s", |rtt| rtt.min_s),
        rtt("rtt_mean_s", |rtt| rtt.mean_s),
        rtt("rtt_max_s", |rtt| rtt.max_s),
        rtt("rtt_stddev_s", |rtt| rtt.stddev_s),
        rtt("rtt_median_s", |rtt| rtt.median_s),
        rtt("rtt_p95_s", |rtt| rtt.p95_s),
        rtt("rtt_p99_s", |rtt| rtt.p99_s),
    ];
    labelled(run, rows.len(), columns)
}

/// The table of a run's links: a row for each direction.
pub fn links(run: &Run) -> Table {
    let rows = &run.report.links[..];
    let mut columns = vec![
        text(rows, "name", |link| Some(link.name.as_str().into())),
        text(rows, "from", |link| Some(link.from.as_str().into())),
        text(rows, "to", |link| Some(link.to.as_str().into())),
    ];
    for (name, value) in LINK_COUNTS {
        columns.push(integer(rows, name, |link| Some(value(link))));
    }
    labelled(run, rows.len(), columns)
}

/// A count of a link's row.
type LinkCount = fn(&LinkReport) -> u64;

/// The columns of counts of the table of links.
const LINK_COUNTS: &[(&str, LinkCount)] = &[
    ("offered_packets", |link| link.counters.offered.packets),
    ("offered_bytes", |link| link.counters.offered.bytes),
    ("delivered_packets", |link| link.counters.delivered.packets),
    ("delivered_bytes", |link| link.counters.delivered.bytes),
    ("dropped_queue_full_packets", |link| link.counters.dropped_queue_full.packets),
    ("dropped_queue_full_bytes", |link| link.counters.dropped_queue_full.bytes),
    ("dropped_queue_delay_packets", |link| link.counters.dropped_queue_delay.packets),
    ("dropped_queue_delay_bytes", |link| link.counters.dropped_queue_delay.bytes),
    ("dropped_acks_packets", |link| link.counters.dropped_acks.packets),
    ("dropped_acks_bytes", |link| link.counters.dropped_acks.bytes),
    ("dropped_policed_packets", |link| link.counters.dropped_policed.packets),
    ("dropped_policed_bytes", |link| link.counters.dropped_policed.bytes),
    ("dropped_down_packets", |link| link.counters.dropped_down.packets),
    ("dropped_down_bytes", |link| link.counters.dropped_down.bytes),
    ("dropped_loss_packets", |link| link.counters.dropped_loss.packets),
    ("dropped_loss_bytes", |link| link.counters.dropped_loss.bytes),
    ("marked_packets", |link| link.counters.marked.packets),
    ("duplicated_packets", |link| link.counters.duplicated.packets),
    ("reordered_packets", |link| link.counters.reordered.packets),
];

fn samples(run: &Run) -> Table {
    let rows = &run.flow_samples[..];
    let names: Vec<Arc<str>> = run.report.flows.iter().map(|flow| flow.name.as_str().into()).collect();
    let bytes = |name, value: fn(&FlowSample) -> u64| integer(rows, name, move |sample| Some(value(sample)));
    let columns = vec![
        number(rows, "time_s", |sample| Some(sample.at.as_secs_f64())),
        text(rows, "flow", |sample| Some(names[sample.flow as usize].clone())),
        bytes("delivered_bytes", |sample| sample.delivered.as_u64()),
        Column { name: "goodput_bps".into(), values: Values::Number(goodputs(rows, names.len())) },
        bytes("cwnd_bytes", |sample| sample.cwnd.as_u64()),
        integer(rows, "ssthresh_bytes", |sample| sample.ssthresh.map(|bytes| bytes.as_u64())),
        number(rows, "srtt_s", |sample| sample.srtt.map(|srtt| srtt.as_secs_f64())),
        bytes("in_flight_bytes", |sample| sample.in_flight.as_u64()),
    ];
    labelled(run, rows.len(), columns)
}

/// Goodput, in bit/s, since the flow's sample before, or since the start; `flows` is their number.
pub fn goodputs(samples: &[FlowSample], flows: usize) -> Vec<Option<f64>> {
    let mut before = vec![(Instant::ZERO, 0); flows];
    let mut goodputs = Vec::with_capacity(samples.len());
    for sample in samples {
        let (at, delivered) = before[sample.flow as usize];
        let seconds = sample.at.since(at).as_secs_f64();
        let bits = (sample.delivered.as_u64() - delivered) as f64 * 8.0;
        goodputs.push((seconds > 0.0).then(|| bits / seconds));
        before[sample.flow as usize] = (sample.at, sample.delivered.as_u64());
    }
    goodputs
}

/// The names of each direction: its link, where it starts and where it ends.
fn directions(run: &Run) -> Vec<[Arc<str>; 3]> {
    let names = run.network.directions().iter().map(|direction| {
        let [from, to] = [direction.from, direction.to].map(|node| run.network.node_name(node).into());
        [direction.link.as_str().into(), from, to]
    });
    names.collect()
}

fn queues(run: &Run) -> Table {
    let rows = &run.queue_samples[..];
    let names = directions(run);
    let name = |column, part: usize| {
        let names = &names;
        text(rows, column, move |sample: &sim::QueueSample| Some(names[sample.direction.index()][part].clone()))
    };
    let columns = vec![
        number(rows, "time_s", |sample| Some(sample.at.as_secs_f64())),
        name("link", 0),
        name("from", 1),
        name("to", 2),
        integer(rows, "queued_bytes", |sample| Some(sample.bytes.as_u64())),
    ];
    labelled(run, rows.len(), columns)
}

fn capacity(run: &Run) -> Table {
    let rows = &run.capacity_samples[..];
    let names = directions(run);
    let name = |column, part: usize| {
        let names = &names;
        text(rows, column, move |row: &CapacitySample| Some(names[row.direction.index()][part].clone()))
    };
    let rate = |column, bytes: fn(&link::dama::Sample) -> u64| {
        number(rows, column, move |row| Some(bytes(&row.sample) as f64 * 8.0 / row.length.as_secs_f64()))
    };
    let columns = vec![
        number(rows, "time_s", |row| Some(row.sample.at.as_secs_f64())),
        name("link", 0),
        name("from", 1),
        name("to", 2),
        rate("requested_bps", |sample| sample.requested.as_u64()),
        rate("allocated_bps", |sample| sample.allocated.total()),
        rate("cra_bps", |sample| sample.allocated.cra),
        rate("rbdc_bps", |sample| sample.allocated.rbdc),
        rate("vbdc_bps", |sample| sample.allocated.vbdc),
        rate("fca_bps", |sample| sample.allocated.fca),
        rate("used_bps", |sample| sample.used.as_u64()),
        integer(rows, "queued_bytes", |row| Some(row.sample.queued.as_u64())),
    ];
    labelled(run, rows.len(), columns)
}
