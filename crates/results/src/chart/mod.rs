//! Charts as SVG: lines, points, steps, boxes and distributions over linear or logarithmic axes, with confidence bands, a legend
//! above the plot where it hides nothing, and a caption below it. Twelve series and more are told apart by colour, dash and mark.

mod clip;
mod draw;
mod legend;
mod palette;
mod scale;
mod spread;
mod thin;

use crate::error::Error;

/// A chart. Points outside the axes' ranges are not drawn, lines and bands are cut there.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// What it shows, above it; may be empty.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// What is drawn, the first at the bottom.
    pub series: Vec<Series>,
    /// Below it, wrapped: where the data come from, the command that draws it again. May be empty.
    pub caption: String,
}

/// An axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// The quantity and its unit.
    pub label: String,
    /// From where to where; what the data fill if not given (from zero on vertical linear axes).
    pub range: Option<(f64, f64)>,
    /// Whether it is logarithmic.
    pub log: bool,
    /// Names of places, each one wide, beside the axis instead of numbers; none if it has numbers.
    pub names: Vec<String>,
}

/// Data under one name.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// In the legend; not there if empty.
    pub name: String,
    /// How the points are drawn.
    pub style: Style,
    /// In the order in which they are joined; one that is not finite interrupts the line.
    pub points: Vec<(f64, f64)>,
    /// A band (x, low, high) around them, such as a confidence interval.
    pub band: Option<Vec<(f64, f64, f64)>>,
    /// The number of its colour and dash, for series that belong together. By default that of the congestion control that its name
    /// names, else one that no other name has.
    pub colour: Option<usize>,
}

/// How points are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Style {
    /// Joined by straight lines.
    #[default]
    Line,
    /// Joined by dashed lines.
    Dashed,
    /// Marks alone.
    Points,
    /// Marks, joined by thin lines.
    Joined,
    /// Each holds until the next.
    Steps,
    /// A line from bottom to top at each point, such as a handover.
    Uprights,
    /// One box of all points: quartiles, whiskers, and points beyond them.
    Box,
}

impl Chart {
    /// The chart as one SVG document, 960 pixels wide.
    ///
    /// # Errors
    /// If a range is empty, or a logarithmic axis has a value that is not above zero.
    pub fn svg(&self) -> Result<String, Error> {
        draw::alone(self)
    }
}

/// The number of the colour and dash of the congestion control that `name` names, for [`Series::with_colour`].
pub fn look_of_control(name: &str) -> Option<usize> {
    palette::control(name)
}

/// Charts one above the other under one title, as one SVG document.
///
/// # Errors
/// As [`Chart::svg`].
pub fn stacked(title: &str, charts: &[Chart]) -> Result<String, Error> {
    draw::stacked(title, charts)
}

impl Axis {
    /// A linear axis over the data.
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), range: None, log: false, names: Vec::new() }
    }

    /// An axis of named places.
    pub fn names(label: impl Into<String>, names: Vec<String>) -> Self {
        let range = Some((0.0, names.len().max(1) as f64));
        Self { range, names, ..Self::linear(label) }
    }

    /// A logarithmic axis over the data.
    pub fn log(label: impl Into<String>) -> Self {
        Self { log: true, ..Self::linear(label) }
    }

    /// This axis from `low` to `high`.
    #[must_use]
    pub fn within(self, low: f64, high: f64) -> Self {
        Self { range: Some((low, high)), ..self }
    }
}

impl Series {
    /// Data without a band.
    pub fn new(name: impl Into<String>, style: Style, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), style, points, band: None, colour: None }
    }

    /// These data with a band (x, low, high).
    #[must_use]
    pub fn with_band(self, band: Vec<(f64, f64, f64)>) -> Self {
        Self { band: Some(band), ..self }
    }

    /// These data in the colour with this number.
    #[must_use]
    pub fn with_colour(self, number: usize) -> Self {
        Self { colour: Some(number), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(series: Vec<Series>) -> Chart {
        Chart {
            title: "goodput & loss".into(),
            x: Axis::log("loss probability"),
            y: Axis::linear("goodput, Mbit/s"),
            series,
            caption: "bentpipe predict --plot loss=1e-6..1e-1 ".repeat(6),
        }
    }

    fn line(points: Vec<(f64, f64)>) -> Series {
        Series::new("a < b", Style::Line, points)
    }

    /// Names of files and texts of the command line may have them, XML may not.
    #[test]
    fn control_characters_are_replaced() {
        let mut chart = chart(vec![Series::new("a\u{1}b", Style::Line, vec![(1e-6, 5.0), (1e-3, 3.0)])]);
        (chart.title, chart.caption) = ("x\u{1}\u{1b}[31m".into(), "bentpipe simulate x\u{1b}[31m".into());
        chart.y.label = "goodput\u{ffff}".into();
        let svg = chart.svg().expect("drawn");
        assert!(svg.contains("x\u{fffd}\u{fffd}[31m") && svg.contains("a\u{fffd}b"), "{svg}");
        assert!(!svg.contains(|letter: char| letter != '\n' && (letter.is_control() || letter == '\u{ffff}')), "{svg}");
        crate::PictureFormat::Png.convert(svg).expect("it is XML");
    }

    #[test]
    fn everything_is_named_escaped_and_wrapped() {
        let points = vec![(1e-6, 5.0), (1e-3, 3.0), (1e-1, 0.1)];
        let band = points.iter().map(|&(x, y)| (x, y * 0.9, y * 1.1)).collect();
        let svg = chart(vec![line(points.clone()).with_band(band), Series::new("dots", Style::Points, points)])
            .svg()
            .expect("drawn");
        for expected in ["goodput &amp; loss", "loss probability", "goodput, Mbit/s", "a &lt; b", "dots", "1e-6", "0.1"]
        {
            assert!(svg.contains(expected), "{expected} in {svg}");
        }
        assert_eq!(svg.matches("<circle").count(), 3 + 1, "three points and one in the legend");
        assert_eq!(svg.matches("<polygon").count(), 1);
        assert!(svg.matches("bentpipe predict").count() == 6 && !svg.contains(&chart(vec![]).caption));
    }

    #[test]
    fn gaps_interrupt_and_edges_cut() {
        let mut gap = chart(vec![line(vec![(1.0, 1.0), (2.0, 2.0), (3.0, f64::NAN), (4.0, 1.0), (5.0, 2.0)])]);
        gap.x = Axis::linear("x").within(0.0, 4.5);
        let svg = gap.svg().expect("drawn");
        let curves = svg.matches(r##"stroke="#0072B2""##).count();
        assert_eq!(curves, 2 + 1, "two pieces and the legend: {svg}");
    }

    /// Each dash is an element, of which converters refuse more than a million.
    #[test]
    fn a_picture_of_any_number_of_points_is_small() {
        let points = |count: u32| (0..count).map(|at| (f64::from(at), f64::from(at % 7) + 1.0)).collect::<Vec<_>>();
        let drawn = |series: Series| {
            let x = Axis::linear("x");
            Chart { x, ..chart(vec![series]) }.svg().expect("drawn")
        };
        let dashes = |count| drawn(line(points(count)).with_colour(14)).matches("<polyline").count();
        assert!(dashes(30) > 100, "dashes that can be seen are drawn");
        assert!((1..1000).contains(&dashes(300_000)), "{} elements", dashes(300_000));
        assert!(drawn(line(points(300_000))).len() < 300_000);
        // Where they cannot be seen, the legend has none either.
        let noisy = drawn(line(points(300_000)).with_colour(14));
        assert_eq!(noisy.matches(r##"stroke="#0072B2""##).count(), 1 + 1, "the line and its legend");
    }

    #[test]
    fn nothing_and_a_single_point_can_be_drawn() {
        for points in [vec![], vec![(3.0, 0.0)], vec![(3.0, -2.0)]] {
            chart(vec![line(points)]).svg().expect("drawn");
        }
    }

    #[test]
    fn what_cannot_be_on_an_axis_is_refused() {
        let zero = chart(vec![line(vec![(0.0, 1.0)])]).svg().expect_err("zero on a logarithmic axis").to_string();
        assert!(zero.contains("a < b") && zero.contains("loss probability"), "{zero}");
        let mut empty = chart(vec![]);
        empty.y.range = Some((2.0, 2.0));
        let empty = empty.svg().expect_err("an empty range").to_string();
        assert!(empty.contains("goodput, Mbit/s"), "{empty}");
        let mut below_zero = chart(vec![]);
        below_zero.x.range = Some((0.0, 2.0));
        assert!(below_zero.svg().is_err());
    }

    #[test]
    fn stacked_charts_share_one_document() {
        let svg = stacked("traces", &[chart(vec![line(vec![(1.0, 1.0), (2.0, 2.0)])]), chart(vec![])]).expect("drawn");
        assert_eq!(svg.matches("<svg").count(), 1);
        assert_eq!(svg.matches("goodput, Mbit/s").count(), 2);
    }
}
