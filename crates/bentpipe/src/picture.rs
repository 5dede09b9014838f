//! A page with a picture of the curves, in one file that needs nothing else.

use crate::curves::Curve;
use crate::output::Failure;
use plotters::prelude::*;

const SIZE: (u32, u32) = (960, 420);
/// Colours that people with any colour vision tell apart (Okabe and Ito).
const COLOURS: [RGBColor; 5] =
    [RGBColor(0, 114, 178), RGBColor(213, 94, 0), RGBColor(0, 158, 115), RGBColor(204, 121, 167), RGBColor(86, 86, 86)];

/// An HTML page: what was done, the command that does it again, the table and the curves.
///
/// # Errors
/// If the picture cannot be drawn.
pub fn page(title: &str, command: &str, table: &str, curves: &[Curve]) -> Result<String, Failure> {
    let picture = svg(curves)?;
    let (title, command, table) = (escape(title), escape(command), escape(table));
    Ok(format!(
        r#"<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>bentpipe: {title}</title>
<style>body {{ font-family: sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em }} svg {{ width: 100%; height: auto }}</style>
<h1>{title}</h1>
{picture}
<pre>{table}</pre>
<p>Time counts from the client's connect() to the receiver's last byte. Measured by</p>
<pre>{command}</pre>
</html>
"#
    ))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The curves as SVG.
///
/// # Errors
/// If the picture cannot be drawn.
pub fn svg(curves: &[Curve]) -> Result<String, Failure> {
    draw(curves).map_err(|error| Failure::failed(format!("cannot draw the picture: {error}")))
}

fn draw(curves: &[Curve]) -> Result<String, Box<dyn std::error::Error>> {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let end = points().map(|point| point.0).fold(f64::MIN_POSITIVE, f64::max);
    let top = points().map(|point| point.1).fold(f64::MIN_POSITIVE, f64::max) * 1.05;
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .margin(12)
            .x_label_area_size(45)
            .y_label_area_size(60)
            .build_cartesian_2d(0.0..end, 0.0..top)?;
        chart
            .configure_mesh()
            .x_desc("seconds since connect()")
            .y_desc("Mbit/s at the receiver")
            .light_line_style(TRANSPARENT)
            .label_style(("sans-serif", 14))
            .draw()?;
        for (curve, colour) in curves.iter().zip(COLOURS.iter().cycle()) {
            let line = LineSeries::new(curve.points.iter().copied(), colour.stroke_width(2));
            chart
                .draw_series(line)?
                .label(curve.name.as_str())
                .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 20, y)], colour.stroke_width(2)));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK)
            .label_font(("sans-serif", 14))
            .draw()?;
        area.present()?;
    }
    Ok(svg)
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
        let page = page("a < b", "bentpipe demo", "| table |", &curves).unwrap();
        for expected in ["<svg", "bentpipe", "cubic", "a &lt; b", "| table |"] {
            assert!(page.contains(expected), "{expected}");
        }
        assert!(page.matches("<polyline").count() >= 2);
    }
}
