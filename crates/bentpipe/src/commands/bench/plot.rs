//! `--plot`: pictures of the capacity's estimate beside the truth.

use crate::output::Failure;
use experiments::capacity::{Trace, TracePoint};
use kernel::directory::OpenDirectory;
use lab::Direction;
use results::PictureFormat;
use results::chart::{self, Axis, Chart, Series, Style};
use std::path::PathBuf;

/// More points than these do not fit on a line of a picture.
const MOST_POINTS: usize = 900;
/// What is sent may be drawn up to this multiple of the link's rate: a prior that is ten times too high would dwarf the rest.
const HIGHEST: f64 = 2.2;

/// Draws each of `traces` into `directory`. Returns the files.
///
/// # Errors
/// If a picture cannot be drawn or written.
pub(super) fn write(
    directory: &OpenDirectory,
    traces: &[Trace],
    format: PictureFormat,
) -> Result<Vec<PathBuf>, Failure> {
    let one = |trace: &Trace| {
        let name = format!("{}.{}", file_stem(trace), format.extension());
        let file = directory.path().join(&name);
        let picture = format.convert(draw(trace)?).map_err(Failure::failed)?;
        let failed = |error| Failure::failed(format!("{}: {error}", file.display()));
        directory.write(name, picture).map_err(failed)?;
        Ok(file)
    };
    traces.iter().map(one).collect()
}

fn direction(trace: &Trace) -> &'static str {
    if trace.direction == Direction::Up { "up" } else { "down" }
}

/// The case's name as a file's: letters, digits and hyphens.
fn file_stem(trace: &Trace) -> String {
    let name = format!("{} {}", trace.case, direction(trace)).to_lowercase().replace('%', " percent");
    let words = name.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '.');
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
}

fn draw(trace: &Trace) -> Result<String, Failure> {
    let points = thinned(&trace.points);
    let series = |name: &str, style, of: &dyn Fn(&TracePoint) -> Option<f64>| {
        let curve = points.iter().filter_map(|point| Some((point.at.as_secs_f64(), of(point)?)));
        Series::new(name, style, curve.collect())
    };
    let mbit = |rate: units::Rate| rate.as_bps() as f64 / 1e6;
    let end = points.last().map_or(1.0, |point| point.at.as_secs_f64());
    let highest = points.iter().map(|point| mbit(point.capacity)).fold(f64::MIN_POSITIVE, f64::max);
    let drawn = points.iter().map(|point| mbit(point.estimate.max(point.sent))).fold(highest, f64::max);
    let x = |label: &str| Axis::linear(label).within(0.0, end);
    let rates = Chart {
        title: String::new(),
        x: x(""),
        y: Axis::linear("rate, Mbit/s").within(0.0, (1.1 * drawn).min(HIGHEST * highest)),
        series: vec![
            series("sent", Style::Line, &|point| Some(mbit(point.sent))),
            series("capacity", Style::Steps, &|point| Some(mbit(point.capacity))),
            series("estimate", Style::Steps, &|point| Some(mbit(point.estimate))),
        ],
        caption: String::new(),
    };
    let queue = Chart {
        title: String::new(),
        x: x("time since the transfers began, s"),
        y: Axis::linear("queueing delay, ms"),
        series: vec![series("", Style::Line, &|point| point.queue.map(|queue| queue.as_millis_f64()))],
        caption: "Capacity: what the link can carry. Sent: IP packets that entered the link, over a tenth of a second."
            .to_owned(),
    };
    let title = format!("{}, {}", trace.case, direction(trace));
    chart::stacked(&title, &[rates, queue]).map_err(Failure::failed)
}

/// A point of every few: of the rates the last, of the queue the longest.
fn thinned(points: &[TracePoint]) -> Vec<TracePoint> {
    let of = points.len().div_ceil(MOST_POINTS).max(1);
    let longest = |some: &[TracePoint]| some.iter().filter_map(|point| point.queue).max();
    points.chunks(of).filter_map(|some| Some(TracePoint { queue: longest(some), ..*some.last()? })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Duration, Rate};

    fn trace(points: u64) -> Trace {
        let point = |k: u64| TracePoint {
            at: Duration::from_millis(10 * k),
            capacity: Rate::from_bps(6_000_000),
            estimate: Rate::from_bps(5_900_000),
            sent: Rate::from_bps(5_800_000),
            queue: (k != 1000).then_some(Duration::from_millis(if k == 1234 { 77 } else { 3 })),
        };
        Trace { case: "30 % for 10 s".to_owned(), direction: Direction::Down, points: (0..points).map(point).collect() }
    }

    #[test]
    fn a_long_run_is_thinned_and_keeps_its_longest_queue() {
        let thin = thinned(&trace(5000).points);
        assert!((450..=MOST_POINTS).contains(&thin.len()), "{}", thin.len());
        assert_eq!(thin.iter().filter_map(|point| point.queue).max(), Some(Duration::from_millis(77)));
        assert_eq!(thinned(&trace(7).points).len(), 7);
    }

    #[test]
    fn a_picture_names_its_curves_and_its_file_the_case() {
        assert_eq!(file_stem(&trace(1)), "30-percent-for-10-s-down");
        let svg = draw(&trace(2000)).unwrap();
        for text in ["30 % for 10 s, down", "estimate", "capacity", "sent", "queueing delay, ms"] {
            assert!(svg.contains(text), "{text}");
        }
        assert!(svg.len() < 150_000, "{}", svg.len());
    }
}
