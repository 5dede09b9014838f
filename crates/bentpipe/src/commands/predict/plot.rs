//! `--plot`: predictions against one parameter.

use super::super::shell::quoted;
use super::sweep::Sweep;
use super::{Args, Shown, report};
use crate::curves::{self, Curve, Label};
use crate::destination::Kind;
use crate::output::{Failure, Output};
use crate::picture::{self, Page};
use crate::text::Text;
use model::prediction::{self, Limit, Row};
use results::chart::{Axis, Chart, Series, Style};
use results::listing::{Listing, count, figure, text};
use serde::Serialize;
use std::fs;
use std::path::Path;
use units::{Quantity, Rate, significant};

/// One value of the parameter.
struct Point {
    value: f64,
    throughput: Rate,
    time_s: f64,
    binding: Limit,
    doubt: Option<String>,
    rows: Vec<Row>,
}

/// As JSON.
#[derive(Serialize)]
struct Document {
    command: String,
    parameter: &'static str,
    points: Vec<PointDocument>,
}

#[derive(Serialize)]
struct PointDocument {
    value: f64,
    throughput_bps: Option<u64>,
    time_s: f64,
    binding: String,
    valid: bool,
}

/// Predicts for every value and draws.
///
/// # Errors
/// If a value is not allowed, or the picture cannot be written.
pub fn run(args: &Args, sweep: &Sweep, output: &Output) -> Result<(), Failure> {
    let kind = args.out.as_deref().map(Kind::of).transpose()?;
    let log = sweep.is_log(args.axis)?;
    let points: Vec<_> =
        sweep.values(log).into_iter().map(|value| predict(args, sweep, value)).collect::<Result<_, _>>()?;
    let command = command();
    let title = title(&sweep.at(args, points[0].value), sweep)?;
    if let (Some(file), Some(kind)) = (&args.out, kind) {
        // A page has its title above.
        let chart = chart(args, sweep, &points, log, if kind == Kind::Page { "" } else { &title }, &command);
        let chart = chart.svg().map_err(Failure::failed)?;
        let drawn = match kind {
            Kind::Picture(format) => format.convert(chart).map_err(Failure::failed)?,
            Kind::Page => {
                let table = bindings(sweep, &points).render(None);
                let note = "Time counts from connect() to the receiver's last byte. Predicted by";
                picture::page(&Page { title: &title, picture: &chart, table: &table, note, command: &command }).into()
            }
        };
        write(file, &drawn)?;
        output.wrote(&[file]);
    }
    let document =
        Document { command, parameter: sweep.parameter.name, points: points.iter().map(Point::document).collect() };
    output.result(&document, |columns| {
        let mut text = Text::new(columns);
        text.lines(&title).blank();
        if args.out.is_none() {
            text.verbatim(on_terminal(args, sweep, &points, log, columns));
        }
        text.listing(&bindings(sweep, &points));
        text
    })
}

fn write(file: &Path, content: &[u8]) -> Result<(), Failure> {
    fs::write(file, content).map_err(|error| Failure::unwritable(format!("--out {}", file.display()), &error))
}

fn predict(args: &Args, sweep: &Sweep, value: f64) -> Result<Point, Failure> {
    let (link, transfer) = sweep.at(args, value).case()?;
    let prediction = prediction::predict(&link, &transfer)?.shared_by(args.flows);
    Ok(Point {
        value,
        throughput: prediction.throughput,
        time_s: prediction.time.value.as_secs_f64(),
        binding: prediction.binding,
        doubt: prediction.time.doubt,
        rows: prediction::table(&link, &transfer, args.flows)?,
    })
}

/// The command as it was given, quoted where a shell needs it.
fn command() -> String {
    let words = std::env::args_os().skip(1).map(|word| quoted(&word.to_string_lossy()));
    std::iter::once("bentpipe".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// What does not vary; `args` have a value of the parameter that is drawn.
fn title(args: &Args, sweep: &Sweep) -> Result<String, Failure> {
    let (link, transfer) = args.case()?;
    let mut parts: Vec<String> = Vec::new();
    for (name, text) in [
        ("size", transfer.size.to_string()),
        ("rate", link.rate.to_string()),
        ("rtt", format!("{} round trip", link.rtt)),
        ("loss", format!("loss {}", link.loss)),
    ] {
        if name != sweep.parameter.name {
            parts.push(text);
        }
    }
    let name = clap::ValueEnum::to_possible_value(&args.congestion_control).map(|value| value.get_name().to_owned());
    parts.extend(name);
    Ok(parts.join(", "))
}

impl Point {
    fn document(&self) -> PointDocument {
        PointDocument {
            value: self.value,
            throughput_bps: report::known_bps(self.throughput),
            time_s: self.time_s,
            binding: self.binding.to_string(),
            valid: self.doubt.is_none(),
        }
    }

    fn shown(&self, shown: Shown) -> f64 {
        match shown {
            Shown::Throughput => self.throughput.as_bps() as f64 / 1e6,
            Shown::Time => self.time_s,
        }
    }

    /// A model's figure where it holds.
    fn model(&self, name: &str, shown: Shown) -> Option<f64> {
        let row = self.rows.iter().find(|row| row.model == name && row.doubt.is_none())?;
        match shown {
            Shown::Throughput => row.throughput.map(|rate| rate.as_bps() as f64 / 1e6),
            Shown::Time => row.time.map(|time| time.as_secs_f64()),
        }
    }
}

/// Models beside the prediction, each where it holds.
const BESIDE: [&str; 7] =
    ["physical limit", "window", "Kruse, slow start", "Mathis", "PFTK, full, received", "CUBIC", "Cardwell"];

fn chart(args: &Args, sweep: &Sweep, points: &[Point], log: bool, title: &str, command: &str) -> Chart {
    let x = |point: &Point| point.value / sweep.parameter.unit;
    let mut series = Vec::new();
    for (number, name) in BESIDE.into_iter().enumerate() {
        let figures: Vec<_> =
            points.iter().map(|point| (x(point), point.model(name, args.show).unwrap_or(f64::NAN))).collect();
        // A lone figure makes no line.
        if figures.windows(2).any(|pair| pair.iter().all(|figure| figure.1.is_finite())) {
            series.push(Series::new(name, Style::Dashed, figures).with_colour(number + 1));
        }
    }
    let part = |name: &str, style, doubtful: bool| {
        // The line goes on to the first point of the other kind.
        let belongs = |at: usize| {
            let near = [Some(at), at.checked_sub(1)];
            near.into_iter().flatten().any(|at| points[at].doubt.is_some() == doubtful)
        };
        let of = |at: usize| if belongs(at) { points[at].shown(args.show) } else { f64::NAN };
        let figures = (0..points.len()).map(|at| (x(&points[at]), of(at))).collect();
        Series::new(name, style, figures).with_colour(0)
    };
    if points.iter().any(|point| point.doubt.is_some()) {
        series.push(part("prediction, doubtful", Style::Dashed, true));
    }
    if points.iter().any(|point| point.doubt.is_none()) {
        series.push(part("prediction", Style::Line, false));
    }
    let x_axis = if log { Axis::log(sweep.parameter.label) } else { Axis::linear(sweep.parameter.label) };
    let (label, most) = match args.show {
        Shown::Throughput => ("throughput, Mbit/s", 1.15),
        Shown::Time => ("time, s", 1.15),
    };
    let top = points.iter().map(|point| point.shown(args.show)).fold(f64::MIN_POSITIVE, f64::max) * most;
    let limit = points.iter().filter_map(|point| point.model("physical limit", args.show)).fold(0.0, f64::max) * 1.05;
    Chart {
        title: title.to_owned(),
        x: x_axis,
        y: Axis::linear(label).within(0.0, if args.show == Shown::Time { top } else { top.max(limit) }),
        series,
        caption: format!("{}.\n{command}", binding_sentence(sweep, points)),
    }
}

/// From where to where each limit binds.
fn ranges(points: &[Point]) -> Vec<(f64, f64, Limit)> {
    let mut ranges: Vec<(f64, f64, Limit)> = Vec::new();
    for point in points {
        match ranges.last_mut() {
            Some(last) if last.2 == point.binding => last.1 = point.value,
            _ => ranges.push((point.value, point.value, point.binding)),
        }
    }
    ranges
}

fn binding_sentence(sweep: &Sweep, points: &[Point]) -> String {
    let part = |(from, to, limit): (f64, f64, Limit)| {
        format!("{limit} ({} to {})", short(from / sweep.parameter.unit), short(to / sweep.parameter.unit))
    };
    let parts: Vec<_> = ranges(points).into_iter().map(part).collect();
    format!("What binds along {}: {}", sweep.parameter.label, parts.join(", "))
}

/// To three digits, without zeros at the end.
fn short(value: f64) -> String {
    let text = significant(value, 3);
    if text.contains('.') && !text.contains('e') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// Every range of the parameter in which one limit binds, and what is predicted at its ends.
fn bindings(sweep: &Sweep, points: &[Point]) -> Listing {
    let mut listing = Listing::new([
        count(sweep.parameter.label),
        figure("time", Quantity::Time),
        figure("throughput", Quantity::Rate),
        text("limited by"),
        text("holds"),
    ]);
    for (from, to, limit) in ranges(points) {
        let ends = if from == to { vec![from] } else { vec![from, to] };
        for end in ends {
            let Some(point) = points.iter().find(|point| point.value == end) else { continue };
            listing.add([
                short(end / sweep.parameter.unit).into(),
                point.time_s.into(),
                report::known_bps(point.throughput).map(|bps| bps as f64).into(),
                limit.to_string().into(),
                report::holds(point.doubt.as_deref()).into(),
            ]);
        }
    }
    listing
}

fn on_terminal(args: &Args, sweep: &Sweep, points: &[Point], log: bool, columns: Option<usize>) -> String {
    let x = |value: f64| if log { (value / sweep.parameter.unit).log10() } else { value / sweep.parameter.unit };
    let figures = points.iter().map(|point| (x(point.value), point.shown(args.show))).collect();
    let (name, y): (_, Label) = match args.show {
        Shown::Throughput => ("throughput", |mbit| format!("{} Mbit/s", significant(mbit, 3))),
        Shown::Time => ("time", |seconds| format!("{} s", significant(seconds, 3))),
    };
    let name = format!("{name} against {}", sweep.parameter.label);
    let top = points.iter().map(|point| point.shown(args.show)).fold(f64::MIN_POSITIVE, f64::max) * 1.05;
    let label: Label = if log { |power| short(10f64.powf(power)) } else { short };
    curves::line(
        &Curve { name, points: figures },
        x(points[0].value)..x(points[points.len() - 1].value),
        top,
        [label, y],
        columns,
    )
}
