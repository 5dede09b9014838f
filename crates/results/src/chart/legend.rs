//! The legend above a plot, and text that fits the picture.

use super::draw::{Area, FONT, Failed, MARGIN, WIDTH, Y_LABELS, px, stroke};
use super::palette::{Look, Mark};
use super::{Series, Style};
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Of the legend's text, and of the caption's.
pub(super) const LABEL_SIZE: u32 = 15;
pub(super) const CAPTION_SIZE: u32 = 14;
pub(super) const ROW: u32 = 22;
/// The mean width of a letter over the height of the font: that of the widest of the usual fonts without serifs (DejaVu Sans, Verdana).
const LETTER: f64 = 0.57;
/// Of a sample, and of what follows it.
const SAMPLE: u32 = 34;
const SAMPLE_GAP: u32 = 6;

/// What an entry takes, in pixels.
fn entry_width(series: &Series) -> u32 {
    SAMPLE + SAMPLE_GAP + text_width(&series.name, LABEL_SIZE).ceil() as u32 + 18
}

fn text_width(text: &str, size: u32) -> f64 {
    text.chars().count() as f64 * f64::from(size) * LETTER
}

/// The named series by number, as many in a row as fit. Each name stands there once, and not if it is one of `places` of an axis.
pub(super) fn rows(series: &[Series], places: &[String]) -> Vec<Vec<usize>> {
    let room = WIDTH - Y_LABELS - 3 * MARGIN;
    let mut rows: Vec<Vec<usize>> = Vec::new();
    let mut used = 0;
    let is_first = |number: usize| !series[..number].iter().any(|other| other.name == series[number].name);
    for (number, entry) in series.iter().enumerate().filter(|(_, series)| !series.name.is_empty()) {
        if !is_first(number) || places.contains(&entry.name) {
            continue;
        }
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

/// Draws the rows.
pub(super) fn draw(
    series: &[Series],
    looks: &[Look],
    dashes: &[Option<(u32, u32)>],
    rows: &[Vec<usize>],
    area: &Area<'_>,
) -> Result<(), Failed> {
    let style = TextStyle::from((FONT, px(LABEL_SIZE))).pos(Pos::new(HPos::Left, VPos::Center));
    for (row, entries) in rows.iter().enumerate() {
        let y = px(row as u32 * ROW + ROW / 2 + 4) as i32;
        let mut x = px(Y_LABELS + MARGIN) as i32;
        for &number in entries {
            let entry = &series[number];
            sample(entry, looks[number], dashes[number], (x, y), area)?;
            let text = (x + px(SAMPLE + SAMPLE_GAP) as i32, y);
            area.draw(&Text::new(entry.name.as_str(), text, style.clone()))?;
            x += px(entry_width(entry)) as i32;
        }
    }
    Ok(())
}

/// What a series looks like, from `left` on; `dash` is dash and gap in pixels.
fn sample(
    series: &Series,
    look: Look,
    dash: Option<(u32, u32)>,
    left: (i32, i32),
    area: &Area<'_>,
) -> Result<(), Failed> {
    let right = left.0 + px(SAMPLE) as i32;
    let middle = (left.0 + px(SAMPLE / 2) as i32, left.1);
    let (ends, half) = ([left, (right, left.1)], px(ROW / 2 - 2) as i32);
    match (series.style, dash) {
        (Style::Points, _) => {}
        (Style::Uprights, _) => {
            area.draw(&PathElement::new(
                [(middle.0, middle.1 - half), (middle.0, middle.1 + half)],
                stroke(look, 1.0),
            ))?;
        }
        (_, Some((dash, gap))) => {
            area.draw(&DashedPathElement::new(ends, px(dash), px(gap), stroke(look, 2.0)))?;
        }
        (style, None) => {
            area.draw(&PathElement::new(ends, stroke(look, if style == Style::Joined { 1.0 } else { 2.0 })))?;
        }
    }
    if matches!(series.style, Style::Points | Style::Joined) {
        match look.mark {
            Mark::Disc => area.draw(&Circle::new(middle, px(4), look.colour.filled()))?,
            Mark::Ring => area.draw(&Circle::new(middle, px(4), stroke(look, 1.5)))?,
            Mark::Triangle => area.draw(&TriangleMarker::new(middle, px(5), look.colour.filled()))?,
        }
    }
    Ok(())
}

/// `text` in lines that fit the picture.
pub(super) fn wrapped(text: &str) -> Vec<String> {
    let letters = f64::from(WIDTH - 2 * MARGIN) / (f64::from(CAPTION_SIZE) * LETTER);
    let lines = textwrap::wrap(text, letters as usize);
    // No text is one empty line.
    lines.into_iter().filter(|line| !line.is_empty()).map(|line| line.into_owned()).collect()
}
