//! Curves, drawn with characters.

use results::listing::wrapped;
use std::ops::Range;
use textplots::{Chart, LabelBuilder, LabelFormat, Plot, Shape};
use units::significant;

/// What is drawn under one name.
#[derive(Debug, Clone)]
pub struct Curve {
    /// The name: a path.
    pub name: String,
    /// Of throughput against time: seconds, and Mbit/s in the interval that ends there.
    pub points: Vec<(f64, f64)>,
}

/// Dots of a braille character: two across, four down.
const WIDTH_DOTS: usize = 150;
const LEAST_DOTS: usize = 32;
const HEIGHT_DOTS: u32 = 28;

/// How the values of an axis are written.
pub type Label = fn(f64) -> String;

/// Draws the curves below one another on the same scales: as wide as the longest, as high as `height` Mbit/s.
pub fn draw(curves: &[Curve], height: f64, columns: Option<usize>) -> String {
    let end = curves.iter().filter_map(|curve| curve.points.last()).map(|point| point.0).fold(0.0, f64::max);
    let labels: [Label; 2] =
        [|seconds| format!("{} s", significant(seconds, 3)), |rate| format!("{} Mbit/s", significant(rate, 3))];
    curves.iter().map(|curve| plot(curve, 0.0..end, height, |points| Shape::Steps(points), labels, columns)).collect()
}

/// Draws one curve over `range`, joined, from zero to `height`.
pub fn line(curve: &Curve, range: Range<f64>, height: f64, labels: [Label; 2], columns: Option<usize>) -> String {
    plot(curve, range, height, |points| Shape::Lines(points), labels, columns)
}

fn plot(
    curve: &Curve,
    range: Range<f64>,
    height: f64,
    shape: for<'a> fn(&'a [(f32, f32)]) -> Shape<'a>,
    [x_label, y_label]: [Label; 2],
    columns: Option<usize>,
) -> String {
    let points: Vec<_> = curve.points.iter().map(|&(x, y)| (x as f32, y as f32)).collect();
    let shape = shape(&points);
    let (start, end) = (range.start as f32, range.end as f32);
    let width = width(columns, y_label(height).chars().count());
    let mut chart = Chart::new_with_y_range(width, HEIGHT_DOTS, start, end, 0.0, height as f32);
    let chart = chart
        .x_label_format(LabelFormat::Custom(Box::new(move |x| x_label(f64::from(x)))))
        .y_label_format(LabelFormat::Custom(Box::new(move |y| y_label(f64::from(y)))))
        .lineplot(&shape);
    chart.axis();
    chart.figures();
    format!("{}{chart}\n", wrapped(&curve.name, columns, ""))
}

/// Dots across, beside a label of so many characters at the right.
fn width(columns: Option<usize>, label: usize) -> u32 {
    let dots = columns.map_or(WIDTH_DOTS, |columns| 2 * columns.saturating_sub(label + 2));
    dots.clamp(LEAST_DOTS, WIDTH_DOTS) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_curve_is_named_and_shares_the_time_axis() {
        let curve = |name: &str, end: f64| Curve { name: name.into(), points: vec![(0.1, 1.0), (end, 5.0)] };
        let drawn = draw(&[curve("short", 1.0), curve("long", 8.0)], 6.0, None);
        assert!(drawn.contains("short\n") && drawn.contains("long\n"));
        assert_eq!(drawn.matches("8.00 s").count(), 2, "{drawn}");
    }

    #[test]
    fn curves_fit_the_terminal() {
        let curve = Curve { name: "path".into(), points: vec![(0.1, 1.0), (8.0, 5.0)] };
        for columns in [40, 60, 80, 120] {
            let drawn = draw(std::slice::from_ref(&curve), 6.0, Some(columns));
            assert!(drawn.lines().all(|line| line.chars().count() <= columns), "{columns}\n{drawn}");
        }
    }
}
