//! Draws charts with plotters.
//!
//! Plotters places everything on whole coordinates. They are sixteenths of a pixel here, so that slopes have no stairs at any
//! size; the document's `viewBox` scales them, and its text.

use super::legend::{self, CAPTION_SIZE, LABEL_SIZE, ROW};
use super::palette::{self, Look, Mark};
use super::scale::{Scale, coordinate};
use super::spread::Quartiles;
use super::{Chart, Series, Style, clip, thin};
use crate::error::Error;
use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Of a picture, in pixels.
pub(super) const WIDTH: u32 = 960;
/// Of a plot with its axes: alone, and as one of a stack.
const PLOT_HEIGHT: u32 = 430;
const STACKED_HEIGHT: u32 = 230;
const TITLE_HEIGHT: u32 = 34;
const CAPTION_ROW: u32 = 19;
pub(super) const MARGIN: u32 = 14;
pub(super) const Y_LABELS: u32 = 86;
const X_LABELS: u32 = 50;
pub(super) const FONT: &str = "sans-serif";
const TITLE_SIZE: u32 = 20;
const TICK: u32 = 4;
/// Units of the drawing in a pixel.
const FINE: u32 = 16;
const GRID: RGBColor = RGBColor(225, 225, 225);
const CAPTION: RGBColor = RGBColor(86, 86, 86);

pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Plot<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Scale, Scale>>;
pub(super) type Failed = Box<dyn std::error::Error>;

/// Pixels as units of the drawing.
pub(super) const fn px(pixels: u32) -> u32 {
    pixels * FINE
}

/// A line of so many pixels.
pub(super) fn stroke(look: Look, pixels: f64) -> ShapeStyle {
    look.colour.stroke_width((pixels * f64::from(FINE)).round() as u32)
}

pub(super) fn alone(chart: &Chart) -> Result<String, Error> {
    document("", &[chart], PLOT_HEIGHT)
}

pub(super) fn stacked(title: &str, charts: &[Chart]) -> Result<String, Error> {
    document(title, &charts.iter().collect::<Vec<_>>(), STACKED_HEIGHT)
}

fn document(title: &str, charts: &[&Chart], plot_height: u32) -> Result<String, Error> {
    let looks = palette::looks(charts).into_iter();
    let scaled = charts.iter().zip(looks).map(|(chart, looks)| Scaled::new(chart, looks, plot_height));
    let scaled: Vec<_> = scaled.collect::<Result<_, _>>()?;
    let svg = picture(title, &scaled, plot_height).map_err(|error| Error::Picture(error.to_string()))?;
    Ok(xml(svg))
}

/// `svg` with replacements for what XML does not allow: texts may come from names of files and from the command line.
fn xml(svg: String) -> String {
    let is_allowed =
        |letter: char| letter == '\n' || !(letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}'));
    if svg.chars().all(is_allowed) {
        return svg;
    }
    svg.chars().map(|letter| if is_allowed(letter) { letter } else { char::REPLACEMENT_CHARACTER }).collect()
}

/// A chart with known scales and looks.
struct Scaled<'a> {
    chart: &'a Chart,
    looks: Vec<Look>,
    /// Of each series, dash and gap in pixels.
    dashes: Vec<Option<(u32, u32)>>,
    x: Scale,
    y: Scale,
    /// Of the plot within its axes, in pixels.
    size: (f64, f64),
    /// Rows of the legend: numbers of series.
    legend: Vec<Vec<usize>>,
    caption: Vec<String>,
}

impl<'a> Scaled<'a> {
    fn new(chart: &'a Chart, looks: Vec<Look>, plot_height: u32) -> Result<Self, Error> {
        let points = || chart.series.iter().flat_map(|series| &series.points);
        let band = || chart.series.iter().flat_map(|series| series.band.iter().flatten());
        for series in &chart.series {
            let on = |log: bool, value: f64| log && value <= 0.0;
            if let Some((x, y)) = series.points.iter().find(|(x, y)| on(chart.x.log, *x) || on(chart.y.log, *y)) {
                let (axis, value) = if on(chart.x.log, *x) { (&chart.x, x) } else { (&chart.y, y) };
                let problem = format!("`{}` has {value} on the logarithmic axis `{}`", series.name, axis.label);
                return Err(Error::Picture(problem));
            }
        }
        let x = points().map(|point| point.0).chain(band().map(|part| part.0));
        let y = points().map(|point| point.1).chain(band().flat_map(|part| [part.1, part.2]));
        let (width, height) = (WIDTH - Y_LABELS - 3 * MARGIN, plot_height - X_LABELS - 2 * MARGIN);
        let mut scaled = Self {
            chart,
            looks,
            dashes: Vec::new(),
            x: Scale::new(&chart.x, x, false, 10)?,
            y: Scale::new(&chart.y, y, true, 8)?,
            size: (f64::from(width), f64::from(height)),
            legend: legend::rows(&chart.series, &chart.x.names),
            caption: legend::wrapped(&chart.caption),
        };
        scaled.dashes = (0..chart.series.len()).map(|number| scaled.dash(number)).collect();
        Ok(scaled)
    }

    /// Dash and gap of the series with this number, also in the legend.
    fn dash(&self, number: usize) -> Option<(u32, u32)> {
        let (series, look) = (&self.chart.series[number], self.looks[number]);
        let dash = look.dash.or((series.style == Style::Dashed).then_some((8, 5)))?;
        let (across, up) = self.pixels();
        let length_of = |piece: &Vec<(f64, f64)>| {
            let steps = piece.windows(2).map(|ends| (ends[1].0 - ends[0].0, ends[1].1 - ends[0].1));
            steps.map(|step| (step.0 * across).hypot(step.1 * up)).sum::<f64>()
        };
        let length: f64 = self.line(number).iter().map(length_of).sum();
        (length <= MOST_WIDTHS_DASHED * self.size.0).then_some(dash)
    }

    /// The pieces of the line through the points of the series with this number; none if they are not joined.
    fn line(&self, number: usize) -> Vec<Vec<(f64, f64)>> {
        let series = &self.chart.series[number];
        let points: Vec<_> = series.points.iter().map(|point| self.at(*point)).collect();
        let joined = match series.style {
            Style::Box | Style::Uprights | Style::Points => return Vec::new(),
            Style::Line | Style::Dashed | Style::Joined => points,
            Style::Steps => steps(&points),
        };
        let (x, y) = (self.x.span(), self.y.span());
        let across = self.pixels().0;
        let column = |at: f64| ((at - x.start) * across * COLUMNS_IN_PIXEL) as i64;
        clip::line(&joined, x, y).iter().map(|piece| thin::line(piece, column)).collect()
    }

    /// How many pixels one of the axes' units takes, across and up.
    fn pixels(&self) -> (f64, f64) {
        let (x, y) = (self.x.span(), self.y.span());
        (self.size.0 / (x.end - x.start), self.size.1 / (y.end - y.start))
    }

    /// Pixels above and below the plot.
    fn surroundings(&self) -> (u32, u32, u32) {
        let title = if self.chart.title.is_empty() { 0 } else { TITLE_HEIGHT };
        let caption = if self.caption.is_empty() { 0 } else { self.caption.len() as u32 * CAPTION_ROW + MARGIN };
        (title, self.legend.len() as u32 * ROW, caption)
    }

    /// Where a point stands.
    fn at(&self, point: (f64, f64)) -> (f64, f64) {
        (coordinate(&self.chart.x, point.0), coordinate(&self.chart.y, point.1))
    }

    /// The width of the lines of the series with this number: earlier ones are wider, so that one that covers another leaves its edges.
    fn width(&self, number: usize) -> f64 {
        let later = self.chart.series.len() - 1 - number;
        2.0 + (later as f64 * 0.5).min(1.5)
    }
}

fn picture(title: &str, charts: &[Scaled<'_>], plot_height: u32) -> Result<String, Failed> {
    let height_of = |chart: &Scaled<'_>| {
        let (title, legend, caption) = chart.surroundings();
        title + legend + plot_height + caption
    };
    let title_height = if title.is_empty() { 0 } else { TITLE_HEIGHT };
    let height = title_height + charts.iter().map(height_of).sum::<u32>();
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (px(WIDTH), px(height))).into_drawing_area();
        area.fill(&WHITE)?;
        let (head, mut rest) = area.split_vertically(px(title_height));
        heading(&head, title)?;
        for chart in charts {
            let (part, below) = rest.split_vertically(px(height_of(chart)));
            draw(chart, &part, plot_height)?;
            rest = below;
        }
        area.present()?;
    }
    // The view box keeps the fine units.
    let fine = format!("width=\"{}\" height=\"{}\"", px(WIDTH), px(height));
    Ok(svg.replacen(&fine, &format!("width=\"{WIDTH}\" height=\"{height}\""), 1))
}

fn heading(area: &Area<'_>, title: &str) -> Result<(), Failed> {
    let style = TextStyle::from((FONT, px(TITLE_SIZE))).pos(Pos::new(HPos::Center, VPos::Center));
    area.draw(&Text::new(title, (px(WIDTH / 2) as i32, px(TITLE_HEIGHT / 2 + 2) as i32), style))?;
    Ok(())
}

fn draw(chart: &Scaled<'_>, area: &Area<'_>, plot_height: u32) -> Result<(), Failed> {
    let (title, legend, _) = chart.surroundings();
    if title > 0 {
        heading(area, &chart.chart.title)?;
    }
    let below_title = area.split_vertically(px(title)).1;
    legend::draw(&chart.chart.series, &chart.looks, &chart.dashes, &chart.legend, &below_title)?;
    let (plot, caption) = below_title.split_vertically(px(legend)).1.split_vertically(px(plot_height));
    draw_plot(chart, &plot)?;
    let style = TextStyle::from((FONT, px(CAPTION_SIZE))).color(&CAPTION);
    for (row, text) in chart.caption.iter().enumerate() {
        let place = (px(MARGIN) as i32, px(row as u32 * CAPTION_ROW + 4) as i32);
        caption.draw(&Text::new(text.as_str(), place, style.clone()))?;
    }
    Ok(())
}

fn draw_plot(scaled: &Scaled<'_>, area: &Area<'_>) -> Result<(), Failed> {
    let mut plot = ChartBuilder::on(area)
        .margin(px(MARGIN))
        .margin_right(px(2 * MARGIN))
        .x_label_area_size(px(X_LABELS))
        .y_label_area_size(px(Y_LABELS))
        .build_cartesian_2d(scaled.x.clone(), scaled.y.clone())?;
    plot.configure_mesh()
        .x_desc(scaled.chart.x.label.as_str())
        .y_desc(scaled.chart.y.label.as_str())
        .axis_style(BLACK.stroke_width(FINE))
        .bold_line_style(GRID.stroke_width(FINE))
        .light_line_style(TRANSPARENT)
        .set_all_tick_mark_size(px(TICK))
        .label_style((FONT, px(LABEL_SIZE)))
        .axis_desc_style((FONT, px(LABEL_SIZE + 1)))
        .draw()?;
    for (series, look) in scaled.chart.series.iter().zip(&scaled.looks) {
        draw_band(scaled, &mut plot, *look, series)?;
    }
    for number in 0..scaled.chart.series.len() {
        draw_series(scaled, &mut plot, number)?;
    }
    Ok(())
}

fn draw_band(scaled: &Scaled<'_>, plot: &mut Plot<'_, '_>, look: Look, series: &Series) -> Result<(), Failed> {
    let (x, y) = (scaled.x.span(), scaled.y.span());
    // What is below zero on a logarithmic axis is below its lower end.
    let within = |value: f64| if value.is_nan() { y.start } else { value.clamp(y.start, y.end) };
    let parts = series.band.iter().flatten().map(|&(at, low, high)| (scaled.at((at, low)), scaled.at((at, high))));
    let parts: Vec<_> = parts.filter(|(low, _)| (x.start..=x.end).contains(&low.0)).collect();
    let lower = parts.iter().map(|(low, _)| (low.0, within(low.1)));
    let upper = parts.iter().rev().map(|(_, high)| (high.0, within(high.1)));
    let outline: Vec<_> = lower.chain(upper).collect();
    if parts.len() > 1 {
        plot.draw_series([Polygon::new(outline, look.colour.mix(0.18).filled())])?;
    }
    Ok(())
}

fn draw_series(scaled: &Scaled<'_>, plot: &mut Plot<'_, '_>, number: usize) -> Result<(), Failed> {
    let (series, look) = (&scaled.chart.series[number], scaled.looks[number]);
    let points = || series.points.iter().map(|point| scaled.at(*point)).collect::<Vec<_>>();
    match series.style {
        Style::Box => return draw_box(scaled, plot, look, series),
        Style::Uprights => return draw_uprights(scaled, plot, look, &points()),
        Style::Points => {}
        Style::Line | Style::Dashed | Style::Joined | Style::Steps => {
            let width = if series.style == Style::Joined { 1.0 } else { scaled.width(number) };
            draw_line(scaled, plot, number, stroke(look, width))?;
        }
    }
    if matches!(series.style, Style::Points | Style::Joined) {
        draw_marks(scaled, plot, look, points())?;
    }
    Ok(())
}

/// A line that is longer than so many widths of its plot covers it. Its dashes could not be seen, and each is an element.
const MOST_WIDTHS_DASHED: f64 = 40.0;
/// Points of a line closer than half a pixel, which is one of a PNG, are not told apart.
const COLUMNS_IN_PIXEL: f64 = 2.0;

/// The line of the series with this number.
fn draw_line(scaled: &Scaled<'_>, plot: &mut Plot<'_, '_>, number: usize, style: ShapeStyle) -> Result<(), Failed> {
    for piece in scaled.line(number) {
        match scaled.dashes[number] {
            Some((dash, gap)) => plot.draw_series([DashedPathElement::new(piece, px(dash), px(gap), style)])?,
            None => plot.draw_series([PathElement::new(piece, style)])?,
        };
    }
    Ok(())
}

fn draw_marks(scaled: &Scaled<'_>, plot: &mut Plot<'_, '_>, look: Look, points: Vec<(f64, f64)>) -> Result<(), Failed> {
    let (x, y) = (scaled.x.span(), scaled.y.span());
    let inside = points.into_iter().filter(|point| clip::contains(*point, x, y));
    match look.mark {
        Mark::Disc => plot.draw_series(inside.map(|point| Circle::new(point, px(4), look.colour.filled())))?,
        Mark::Ring => plot.draw_series(inside.map(|point| Circle::new(point, px(4), stroke(look, 1.5))))?,
        Mark::Triangle => {
            plot.draw_series(inside.map(|point| TriangleMarker::new(point, px(5), look.colour.filled())))?
        }
    };
    Ok(())
}

/// A line from bottom to top at each point.
fn draw_uprights(
    scaled: &Scaled<'_>,
    plot: &mut Plot<'_, '_>,
    look: Look,
    points: &[(f64, f64)],
) -> Result<(), Failed> {
    let (x, y) = (scaled.x.span(), scaled.y.span());
    let inside = points.iter().map(|point| point.0).filter(|at| (x.start..=x.end).contains(at));
    plot.draw_series(inside.map(|at| PathElement::new([(at, y.start), (at, y.end)], stroke(look, 1.0))))?;
    Ok(())
}

/// Half of the width of a box, in places of the axis.
const HALF_BOX: f64 = 0.28;

fn draw_box(scaled: &Scaled<'_>, plot: &mut Plot<'_, '_>, look: Look, series: &Series) -> Result<(), Failed> {
    let Some(found) = Quartiles::of(series.points.iter().map(|point| point.1)) else { return Ok(()) };
    let middle = series.points.first().map_or(0.0, |point| point.0);
    let at = |x: f64, y: f64| scaled.at((x, y));
    let (left, right) = (middle - HALF_BOX, middle + HALF_BOX);
    let corners = [at(left, found.first), at(right, found.first), at(right, found.third), at(left, found.third)];
    plot.draw_series([Polygon::new(corners, look.colour.mix(0.25).filled())])?;
    let outline = [corners[0], corners[1], corners[2], corners[3], corners[0]];
    let (cap_left, cap_right) = (middle - HALF_BOX / 2.0, middle + HALF_BOX / 2.0);
    let lines = [
        (outline.to_vec(), 1.5),
        (vec![at(left, found.median), at(right, found.median)], 3.0),
        (vec![at(middle, found.low_whisker), at(middle, found.first)], 1.5),
        (vec![at(middle, found.third), at(middle, found.high_whisker)], 1.5),
        (vec![at(cap_left, found.low_whisker), at(cap_right, found.low_whisker)], 1.5),
        (vec![at(cap_left, found.high_whisker), at(cap_right, found.high_whisker)], 1.5),
    ];
    plot.draw_series(lines.into_iter().map(|(line, width)| PathElement::new(line, stroke(look, width))))?;
    let beyond = found.beyond.into_iter().map(|value| Circle::new(at(middle, value), px(3), stroke(look, 1.0)));
    plot.draw_series(beyond)?;
    Ok(())
}

/// Corners of the line on which each point holds until the next.
fn steps(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut corners: Vec<(f64, f64)> = Vec::with_capacity(2 * points.len());
    for point in points {
        if let Some(last) = corners.last() {
            corners.push((point.0, last.1));
        }
        corners.push(*point);
    }
    corners
}
