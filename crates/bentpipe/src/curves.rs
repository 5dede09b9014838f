//! Curves of throughput against time, drawn with characters.

use textplots::{Chart, LabelBuilder, LabelFormat, Plot, Shape};

/// Throughput of one path.
#[derive(Debug, Clone)]
pub struct Curve {
    /// The path.
    pub name: String,
    /// Seconds, and Mbit/s in the interval that ends there.
    pub points: Vec<(f64, f64)>,
}

/// Dots of a braille character: two across, four down.
const WIDTH_DOTS: u32 = 150;
const HEIGHT_DOTS: u32 = 28;

/// Draws the curves below one another on the same scales: as wide as the longest, as high as `height` Mbit/s.
pub fn draw(curves: &[Curve], height: f64) -> String {
    let end = curves.iter().filter_map(|curve| curve.points.last()).map(|point| point.0).fold(0.0, f64::max);
    let mut text = String::new();
    for curve in curves {
        let steps: Vec<_> = curve.points.iter().map(|&(time, rate)| (time as f32, rate as f32)).collect();
        let shape = Shape::Steps(&steps);
        let mut chart = Chart::new_with_y_range(WIDTH_DOTS, HEIGHT_DOTS, 0.0, end as f32, 0.0, height as f32);
        let chart = chart
            .x_label_format(LabelFormat::Custom(Box::new(|seconds| format!("{seconds:.1} s"))))
            .y_label_format(LabelFormat::Custom(Box::new(|rate| format!("{rate:.1} Mbit/s"))))
            .lineplot(&shape);
        chart.axis();
        chart.figures();
        text.push_str(&format!("{}\n{chart}\n", curve.name));
    }
    text
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
