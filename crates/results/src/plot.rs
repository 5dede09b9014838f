//! The traces of a run as SVG: goodput, window, round-trip time and queues against time, one above the other.

use crate::error::Error;
use crate::run::Run;
use crate::table::{Table, Values};
use crate::tables::tables;
use plotters::coord::Shift;
use plotters::prelude::*;
use std::collections::BTreeMap;

/// Of one picture.
const WIDTH: u32 = 960;
const PANEL_HEIGHT: u32 = 260;
const TITLE_HEIGHT: u32 = 30;
/// Colours that people with any colour vision tell apart (Okabe and Ito).
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 86, 86),
];
/// More names than this hide the curves.
const MOST_NAMES: usize = 12;

/// Curves over one axis of time.
struct Panel {
    label: &'static str,
    curves: BTreeMap<String, Vec<(f64, f64)>>,
}

/// The samples of `run` as a picture; nothing if there are none.
///
/// # Errors
/// If it cannot be drawn.
pub fn traces(run: &Run, title: &str) -> Result<Option<String>, Error> {
    let [_, _, samples, queues] = tables(run);
    let all = [
        panel(&samples, "goodput, Mbit/s", "flow", "goodput_bps", 1e-6),
        panel(&samples, "congestion window, kB", "flow", "cwnd_bytes", 1e-3),
        panel(&samples, "smoothed RTT, ms", "flow", "srtt_s", 1e3),
        panel(&queues, "queue, kB", "link", "queued_bytes", 1e-3),
    ];
    let panels: Vec<_> = all.into_iter().flatten().collect();
    if panels.is_empty() {
        return Ok(None);
    }
    draw(&panels, title).map(Some).map_err(|error| Error::Picture(error.to_string()))
}

/// The curves of `column` by `name`, those that are not always zero; nothing if all are.
fn panel(table: &Table, label: &'static str, name: &str, column: &str, scale: f64) -> Option<Panel> {
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
    (!curves.is_empty()).then_some(Panel { label, curves })
}

fn draw(panels: &[Panel], title: &str) -> Result<String, Box<dyn std::error::Error>> {
    let points = || panels.iter().flat_map(|panel| panel.curves.values().flatten());
    let end = points().map(|point| point.0).fold(f64::MIN_POSITIVE, f64::max);
    let mut svg = String::new();
    {
        let height = TITLE_HEIGHT + PANEL_HEIGHT * panels.len() as u32;
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        area.fill(&WHITE)?;
        let area = area.titled(title, ("sans-serif", 16))?;
        for (panel, part) in panels.iter().zip(area.split_evenly((panels.len(), 1))) {
            draw_panel(panel, &part, end)?;
        }
        area.present()?;
    }
    Ok(svg)
}

fn draw_panel(
    panel: &Panel,
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    end: f64,
) -> Result<(), Box<dyn std::error::Error>> {
    let top = panel.curves.values().flatten().map(|point| point.1).fold(f64::MIN_POSITIVE, f64::max) * 1.05;
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .x_label_area_size(36)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..end, 0.0..top)?;
    chart
        .configure_mesh()
        .x_desc("time, s")
        .y_desc(panel.label)
        .light_line_style(TRANSPARENT)
        .label_style(("sans-serif", 13))
        .draw()?;
    for ((name, points), colour) in panel.curves.iter().zip(COLOURS.iter().cycle()) {
        let series = chart.draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(1)))?;
        if panel.curves.len() <= MOST_NAMES {
            let sample = move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], colour.stroke_width(2));
            series.label(name.as_str()).legend(sample);
        }
    }
    if panel.curves.len() <= MOST_NAMES {
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE.mix(0.8))
            .label_font(("sans-serif", 12))
            .draw()?;
    }
    Ok(())
}
