//! The traces of a run as SVG: goodput, window, round-trip time and queues against time, one above the other, with the capacity of
//! the link and its handovers.

use crate::chart::{self, Axis, Chart, Series, Style};
use crate::error::Error;
use crate::passages;
use crate::run::Run;
use crate::table::{Table, Values};
use crate::tables::tables;
use std::collections::BTreeMap;

/// More names than this fill the page.
const MAX_NAMES: usize = 12;

/// The samples of `run` as a picture; nothing if there are none.
///
/// # Errors
/// If it cannot be drawn.
pub fn traces(run: &Run, title: &str) -> Result<Option<String>, Error> {
    let [_, _, samples, queues, capacity] = tables(run);
    let all = [
        panel(&samples, "goodput, Mbit/s", "flow", "goodput_bps", 1e-6),
        panel(&samples, "congestion window, kB", "flow", "cwnd_bytes", 1e-3),
        panel(&samples, "smoothed RTT, ms", "flow", "srtt_s", 1e3),
        panel(&queues, "queue, kB", "link", "queued_bytes", 1e-3),
    ];
    let [goodput, others @ ..] = all;
    let mut panels: Vec<_> = goodput.map(|panel| with_capacity(panel, run)).into_iter().collect();
    panels.extend(others.into_iter().flatten().chain(terminals(&capacity)));
    if panels.is_empty() {
        return Ok(None);
    }
    let points = panels.iter().flat_map(|panel| &panel.series).filter(|series| series.style != Style::Uprights);
    let end = points.flat_map(|series| &series.points).map(|point| point.0).fold(f64::MIN_POSITIVE, f64::max);
    // What a variant does has the colour of its control; its flows are told apart by theirs.
    let control = run.label.variant.as_deref().and_then(chart::look_of_control).filter(|_| run.report.flows.len() == 1);
    let flow = run.report.flows.first().map_or("", |flow| &flow.name);
    for panel in &mut panels {
        panel.x.range = Some((0.0, end));
        let own = panel.series.iter_mut().filter(|series| series.name == flow);
        own.for_each(|series| series.colour = control.or(series.colour));
        panel.series.extend(passages::handovers(run, end));
    }
    chart::stacked(title, &panels).map(Some)
}

/// The rates of goodput and, behind them, the capacity of the link that was used most.
fn with_capacity(mut panel: Chart, run: &Run) -> Chart {
    let points = panel.series.iter().flat_map(|series| &series.points);
    let end = points.map(|point| point.0).fold(0.0, f64::max);
    panel.series.splice(0..0, passages::capacity(run, end));
    panel.caption =
        "Bytes count when they are delivered in order: what waited for a retransmission counts at once.".into();
    panel
}

/// More terminals than this do not fit on a page.
const MAX_TERMINALS: usize = 4;

/// What was asked for, given and used, a panel for each of the first terminals.
fn terminals(table: &Table) -> Vec<Chart> {
    let columns = [("requested", "requested_bps"), ("allocated", "allocated_bps"), ("used", "used_bps")];
    let mut panels: BTreeMap<String, Vec<Series>> = BTreeMap::new();
    for (name, column) in columns {
        let Some(Chart { series, .. }) = panel(table, "", "link", column, 1e-6) else { continue };
        for series in series {
            let steps = Series::new(name, Style::Steps, series.points);
            panels.entry(series.name).or_default().push(steps);
        }
    }
    let chart = |(terminal, series): (String, Vec<Series>)| {
        // A volume is asked for at once: as a rate it would dwarf what it gets.
        let given = series.iter().filter(|series| series.name != "requested").flat_map(|series| &series.points);
        let most = given.map(|point| point.1).fold(0.0, f64::max);
        let y = Axis::linear(format!("{terminal}, Mbit/s"));
        let y = if most > 0.0 { y.within(0.0, most * 1.5) } else { y };
        Chart { title: String::new(), x: Axis::linear("time, s"), y, series, caption: String::new() }
    };
    panels.into_iter().take(MAX_TERMINALS).map(chart).collect()
}

/// The curves of `column` by `name`, those that are not always zero; nothing if all are.
fn panel(table: &Table, label: &'static str, name: &str, column: &str, scale: f64) -> Option<Chart> {
    let (Some(Values::Number(times)), Some(Values::Text(names))) = (table.column("time_s"), table.column(name)) else {
        return None;
    };
    // A link is drawn for each direction.
    let ends = match (table.column("from"), table.column("to")) {
        (Some(Values::Text(from)), Some(Values::Text(to))) => Some((from, to)),
        _ => None,
    };
    let mut curves: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for row in 0..table.rows() {
        let value = match table.column(column)? {
            Values::Integer(values) => values[row].map(|value| value as f64),
            Values::Number(values) => values[row],
            Values::Text(_) | Values::Flag(_) => None,
        };
        if let (Some(time), Some(name), Some(value)) = (times[row], &names[row], value) {
            let text = |values: &[Option<std::sync::Arc<str>>]| values[row].as_deref().unwrap_or_default().to_owned();
            let name =
                ends.map_or_else(|| name.to_string(), |(from, to)| format!("{name}: {} to {}", text(from), text(to)));
            curves.entry(name).or_default().push((time, value * scale));
        }
    }
    curves.retain(|_, points| points.iter().any(|point| point.1 > 0.0));
    let named = curves.len() <= MAX_NAMES;
    let series = |(at, (name, points))| {
        let look = if named { None } else { Some(at) };
        Series { colour: look, ..Series::new(if named { name } else { String::new() }, Style::Line, points) }
    };
    (!curves.is_empty()).then(|| Chart {
        title: String::new(),
        x: Axis::linear("time, s"),
        y: Axis::linear(label),
        series: curves.into_iter().enumerate().map(series).collect(),
        caption: String::new(),
    })
}
