//! Curves, drawn with characters.

use std::ops::Range;
use textplots::{Chart, LabelBuilder, LabelFormat, Plot, Shape};

/// What is drawn under one name.
#[derive(Debug, Clone)]
pub struct Curve {
    /// The name: a path.
    pub name: String,
    /// Of throughput against time: seconds, and Mbit/s in the interval that ends there.
    pub points: Vec<(f64, f64)>,
}

/// Dots of a braille character: two across, four down.
const WIDTH_DOTS: u32 = 150;
const HEIGHT_DOTS: u32 = 28;

/// How the values of an axis are written.
pub type Label = fn(f64) -> String;

/// Draws the curves below one another on the same scales: as wide as the longest, as high as `height` Mbit/s.
pub fn draw(curves: &[Curve], height: f64) -> String {
    let end = curves.iter().filter_map(|curve| curve.points.last()).map(|point| point.0).fold(0.0, f64::max);
    let labels: [Label; 2] = [|seconds| format!("{seconds:.1} s"), |rate| format!("{rate:.1} Mbit/s")];
    curves.iter().map(|curve| plot(curve, 0.0..end, height, |points| Shape::Steps(points), labels)).collect()
}

/// Draws one curve over `range`, joined, from zero to `height`.
pub fn line(curve: &Curve, range: Range<f64>, height: f64, labels: [Label; 2]) -> String {
    plot(curve, range, height, |points| Shape::Lines(points), labels)
}

fn plot(
    curve: &Curve,
    range: Range<f64>,
    height: f64,
    shape: for<'a> fn(&'a [(f32, f32)]) -> Shape<'a>,
    [x_label, y_label]: [Label; 2],
) -> String {
    let points: Vec<_> = curve.points.iter().map(|&(x, y)| (x as f32, y as f32)).collect();
    let shape = shape(&points);
    let (start, end) = (range.start as f32, range.end as f32);
    let mut chart = Chart::new_with_y_range(WIDTH_DOTS, HEIGHT_DOTS, start, end, 0.0, height as f32);
    let chart = chart
        .x_label_format(LabelFormat::Custom(Box::new(move |x| x_label(f64::from(x)))))
        .y_label_format(LabelFormat::Custom(Box::new(move |y| y_label(f64::from(y)))))
        .lineplot(&shape);
    chart.axis();
    chart.figures();
    format!("{}\n{chart}\n", curve.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_curve_is_named_and_shares_the_time_axis() {
        let curve = |name: &str, end: f64| Curve { name: name.into(), points: vec![(0.1, 1.0), (end, 5.0)] };
        let drawn = draw(&[curve("short", 1.0), curve("long", 8.0)], 6.0);
        assert!(drawn.contains("short\n") && drawn.contains("long\n"));
        assert_eq!(drawn.matches("8.0 s").count(), 2, "{drawn}");
    }
}
