//! Draws charts with plotters.

use super::clip;
use super::scale::{Scale, coordinate};
use super::{Chart, Series, Style};
use crate::error::Error;
use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Of a picture, in pixels.
const WIDTH: u32 = 960;
/// Of a plot with its axes: alone, and as one of a stack.
const PLOT_HEIGHT: u32 = 430;
const STACKED_HEIGHT: u32 = 230;
const TITLE_HEIGHT: u32 = 34;
const LEGEND_ROW: u32 = 22;
const CAPTION_ROW: u32 = 19;
const MARGIN: u32 = 14;
const Y_LABELS: u32 = 86;
const X_LABELS: u32 = 50;
const FONT: &str = "sans-serif";
/// Of tick labels and the legend, of the caption, and of titles.
const LABEL_SIZE: u32 = 15;
const CAPTION_SIZE: u32 = 14;
const TITLE_SIZE: u32 = 20;
/// The mean width of a letter over the height of the font.
const LETTER: f64 = 0.46;
/// Colours that people with any colour vision can distinguish (Okabe and Ito), without yellow, which white hides.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(86, 86, 86),
];
const GRID: RGBColor = RGBColor(225, 225, 225);
const CAPTION: RGBColor = RGBColor(86, 86, 86);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Plot<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Scale, Scale>>;
type Failed = Box<dyn std::error::Error>;

pub(super) fn alone(chart: &Chart) -> Result<String, Error> {
    document("", &[chart], PLOT_HEIGHT)
}

pub(super) fn stacked(title: &str, charts: &[Chart]) -> Result<String, Error> {
    document(title, &charts.iter().collect::<Vec<_>>(), STACKED_HEIGHT)
}

fn document(title: &str, charts: &[&Chart], plot_height: u32) -> Result<String, Error> {
    let scaled: Vec<_> = charts.iter().map(|chart| Scaled::new(chart)).collect::<Result<_, _>>()?;
    picture(title, &scaled, plot_height).map_err(|error| Error::Picture(error.to_string()))
}

/// A chart with known scales.
struct Scaled<'a> {
    chart: &'a Chart,
    x: Scale,
    y: Scale,
    /// Rows of the legend: numbers of series.
    legend: Vec<Vec<usize>>,
    caption: Vec<String>,
}

impl<'a> Scaled<'a> {
    fn new(chart: &'a Chart) -> Result<Self, Error> {
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
        Ok(Self {
            chart,
            x: Scale::new(&chart.x, x, false, 10)?,
            y: Scale::new(&chart.y, y, true, 8)?,
            legend: legend_rows(&chart.series),
            caption: wrapped(&chart.caption),
        })
    }

    /// Pixels above and below the plot.
    fn surroundings(&self) -> (u32, u32, u32) {
        let title = if self.chart.title.is_empty() { 0 } else { TITLE_HEIGHT };
        let caption = if self.caption.is_empty() { 0 } else { self.caption.len() as u32 * CAPTION_ROW + MARGIN };
        (title, self.legend.len() as u32 * LEGEND_ROW, caption)
    }

    /// Where a point stands.
    fn at(&self, point: (f64, f64)) -> (f64, f64) {
        (coordinate(&self.chart.x, point.0), coordinate(&self.chart.y, point.1))
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
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        area.fill(&WHITE)?;
        let (head, mut rest) = area.split_vertically(title_height);
        heading(&head, title)?;
        for chart in charts {
            let (part, below) = rest.split_vertically(height_of(chart));
            draw(chart, &part, plot_height)?;
            rest = below;
        }
        area.present()?;
    }
    Ok(svg)
}

fn heading(area: &Area<'_>, title: &str) -> Result<(), Failed> {
    let style = TextStyle::from((FONT, TITLE_SIZE)).pos(Pos::new(HPos::Center, VPos::Center));
    area.draw(&Text::new(title, (WIDTH as i32 / 2, TITLE_HEIGHT as i32 / 2 + 2), style))?;
    Ok(())
}

fn draw(chart: &Scaled<'_>, area: &Area<'_>, plot_height: u32) -> Result<(), Failed> {
    let (title, legend, _) = chart.surroundings();
    if title > 0 {
        heading(area, &chart.chart.title)?;
    }
    let below_title = area.split_vertically(title).1;
    draw_legend(chart, &below_title)?;
    let (plot, caption) = below_title.split_vertically(legend).1.split_vertically(plot_height);
    draw_plot(chart, &plot)?;
    let style = TextStyle::from((FONT, CAPTION_SIZE)).color(&CAPTION);
    for (row, text) in chart.caption.iter().enumerate() {
        caption.draw(&Text::new(text.as_str(), (MARGIN as i32, row as i32 * CAPTION_ROW as i32 + 4), style.clone()))?;
    }
    Ok(())
}

fn draw_plot(scaled: &Scaled<'_>, area: &Area<'_>) -> Result<(), Failed> {
    let mut plot = ChartBuilder::on(area)
        .margin(MARGIN)
        .margin_right(2 * MARGIN)
        .x_label_area_size(X_LABELS)
        .y_label_area_size(Y_LABELS)
        .build_cartesian_2d(scaled.x.clone(), scaled.y.clone())?;
    plot.configure_mesh()
        .x_desc(scaled.chart.x.label.as_str())
        .y_desc(scaled.chart.y.label.as_str())
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .label_style((FONT, LABEL_SIZE))
        .axis_desc_style((FONT, LABEL_SIZE + 1))
        .draw()?;
    for (number, series) in scaled.chart.series.iter().enumerate() {
        draw_band(scaled, &mut plot, number, series)?;
    }
    for (number, series) in scaled.chart.series.iter().enumerate() {
        draw_series(scaled, &mut plot, number, series)?;
    }
    Ok(())
}

fn draw_band(scaled: &Scaled<'_>, plot: &mut Plot<'_, '_>, number: usize, series: &Series) -> Result<(), Failed> {
    let (x, y) = (scaled.x.span(), scaled.y.span());
    // What is below zero on a logarithmic axis is below its lower end.
    let within = |value: f64| if value.is_nan() { y.start } else { value.clamp(y.start, y.end) };
    let parts = series.band.iter().flatten().map(|&(at, low, high)| (scaled.at((at, low)), scaled.at((at, high))));
    let parts: Vec<_> = parts.filter(|(low, _)| (x.start..=x.end).contains(&low.0)).collect();
    let lower = parts.iter().map(|(low, _)| (low.0, within(low.1)));
    let upper = parts.iter().rev().map(|(_, high)| (high.0, within(high.1)));
    let outline: Vec<_> = lower.chain(upper).collect();
    if parts.len() > 1 {
        plot.draw_series([Polygon::new(outline, colour(number, series).mix(0.18).filled())])?;
    }
    Ok(())
}

fn draw_series(scaled: &Scaled<'_>, plot: &mut Plot<'_, '_>, number: usize, series: &Series) -> Result<(), Failed> {
    let (x, y) = (scaled.x.span(), scaled.y.span());
    let colour = colour(number, series);
    let points: Vec<_> = series.points.iter().map(|point| scaled.at(*point)).collect();
    let joined = if series.style == Style::Steps { steps(&points) } else { points.clone() };
    let pieces = || clip::line(&joined, x, y).into_iter();
    match series.style {
        Style::Line | Style::Steps => {
            plot.draw_series(pieces().map(|piece| PathElement::new(piece, colour.stroke_width(2))))?;
        }
        Style::Joined => {
            plot.draw_series(pieces().map(|piece| PathElement::new(piece, colour.stroke_width(1))))?;
        }
        Style::Dashed => {
            for piece in pieces() {
                plot.draw_series(DashedLineSeries::new(piece, 8, 5, colour.stroke_width(2)))?;
            }
        }
        Style::Points => {}
    }
    if matches!(series.style, Style::Points | Style::Joined) {
        let inside = points.into_iter().filter(|point| clip::contains(*point, x, y));
        plot.draw_series(inside.map(|point| Circle::new(point, 4, colour.filled())))?;
    }
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

fn colour(number: usize, series: &Series) -> RGBColor {
    COLOURS[series.colour.unwrap_or(number) % COLOURS.len()]
}

/// Pixels of a sample in the legend, and of what follows it.
const SAMPLE: i32 = 26;
const SAMPLE_GAP: i32 = 6;

/// What an entry of the legend takes, in pixels.
fn entry_width(series: &Series) -> i32 {
    SAMPLE + SAMPLE_GAP + text_width(&series.name, LABEL_SIZE) as i32 + 20
}

fn text_width(text: &str, size: u32) -> f64 {
    text.chars().count() as f64 * f64::from(size) * LETTER
}

/// The named series, as many in a row as fit.
fn legend_rows(series: &[Series]) -> Vec<Vec<usize>> {
    let room = (WIDTH - Y_LABELS - 3 * MARGIN) as i32;
    let mut rows: Vec<Vec<usize>> = Vec::new();
    let mut used = 0;
    for (number, entry) in series.iter().enumerate().filter(|(_, series)| !series.name.is_empty()) {
        let width = entry_width(entry);
        match rows.last_mut() {
            Some(row) if used + width <= room => row.push(number),
            _ => {
                rows.push(vec![number]);
                used = 0;
            }
        }
        used += width;
    }
    rows
}

fn draw_legend(scaled: &Scaled<'_>, area: &Area<'_>) -> Result<(), Failed> {
    let style = TextStyle::from((FONT, LABEL_SIZE)).pos(Pos::new(HPos::Left, VPos::Center));
    for (row, entries) in scaled.legend.iter().enumerate() {
        let y = (row as u32 * LEGEND_ROW + LEGEND_ROW / 2) as i32 + 4;
        let mut x = (Y_LABELS + MARGIN) as i32;
        for &number in entries {
            let series = &scaled.chart.series[number];
            let colour = colour(number, series);
            let stroke = colour.stroke_width(if series.style == Style::Joined { 1 } else { 2 });
            let ends = [(x, y), (x + SAMPLE, y)];
            match series.style {
                Style::Points => {}
                Style::Dashed => area.draw(&DashedPathElement::new(ends, 8, 5, stroke))?,
                Style::Line | Style::Steps | Style::Joined => area.draw(&PathElement::new(ends, stroke))?,
            }
            if matches!(series.style, Style::Points | Style::Joined) {
                area.draw(&Circle::new((x + SAMPLE / 2, y), 4, colour.filled()))?;
            }
            area.draw(&Text::new(series.name.as_str(), (x + SAMPLE + SAMPLE_GAP, y), style.clone()))?;
            x += entry_width(series);
        }
    }
    Ok(())
}

/// `text` in lines that fit the picture.
fn wrapped(text: &str) -> Vec<String> {
    let room = f64::from(WIDTH - 2 * MARGIN);
    let mut lines: Vec<String> = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        for word in paragraph.split_whitespace() {
            if !line.is_empty() && text_width(&line, CAPTION_SIZE) + text_width(word, CAPTION_SIZE) + 6.0 > room {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        if !line.is_empty() {
            lines.push(line);
        }
    }
    lines
}
