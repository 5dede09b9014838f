//! A page with a picture of the curves, in one file that needs nothing else.

use crate::curves::Curve;
use crate::output::Failure;
use maud::html;
use results::chart::{Axis, Chart, Series, Style};

/// What a page shows.
pub struct Page<'a> {
    /// Its heading.
    pub title: &'a str,
    /// The picture, as SVG.
    pub picture: &'a str,
    /// A table below it.
    pub table: &'a str,
    /// How to read it.
    pub note: &'a str,
    /// What makes it again.
    pub command: &'a str,
}

/// An HTML page in one file.
pub fn page(page: &Page<'_>) -> String {
    let body = html! {
        (results::page::figure(page.picture))
        pre { (page.table) }
        p.note { (page.note) }
        pre { (page.command) }
    };
    results::page::page(page.title, &body)
}

/// The curves as SVG.
///
/// # Errors
/// If the picture cannot be drawn.
pub fn svg(curves: &[Curve]) -> Result<String, Failure> {
    let points = curves.iter().flat_map(|curve| &curve.points);
    let end = points.map(|point| point.0).fold(f64::MIN_POSITIVE, f64::max);
    let series = |curve: &Curve| Series::new(curve.name.as_str(), Style::Line, curve.points.clone());
    let chart = Chart {
        title: String::new(),
        x: Axis::linear("seconds since connect()").within(0.0, end),
        y: Axis::linear("Mbit/s at the receiver"),
        series: curves.iter().map(series).collect(),
        caption: String::new(),
    };
    chart.svg().map_err(Failure::failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_holds_every_curve_and_no_markup_of_the_caller() {
        let curves = [
            Curve { name: "bentpipe".into(), points: vec![(0.5, 0.0), (1.0, 5.8)] },
            Curve { name: "cubic".into(), points: vec![(0.5, 0.1), (4.0, 1.0)] },
        ];
        let picture = svg(&curves).unwrap();
        let parts =
            Page { title: "a < b", picture: &picture, table: "| table |", note: "a note", command: "bentpipe demo" };
        let page = page(&parts);
        for expected in ["<svg", "bentpipe", "cubic", "a &lt; b", "| table |", "a note"] {
            assert!(page.contains(expected), "{expected}");
        }
        assert!(page.matches("<polyline").count() >= 2);
    }
}
