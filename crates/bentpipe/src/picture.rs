//! A page with a picture of the curves, in one file that needs nothing else.

use crate::curves::Curve;
use crate::output::Failure;
use results::chart::{Axis, Chart, Series, Style};

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
        let page = page("a < b", "bentpipe demo", "| table |", &curves).unwrap();
        for expected in ["<svg", "bentpipe", "cubic", "a &lt; b", "| table |"] {
            assert!(page.contains(expected), "{expected}");
        }
        assert!(page.matches("<polyline").count() >= 2);
    }
}
