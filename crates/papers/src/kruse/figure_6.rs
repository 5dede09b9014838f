//! Figure 6: the sequence of segments and acknowledgements.

use super::ftp::{self, Plan};
use super::judged;
use super::theory::{self, T1, WINDOW};
use crate::{Context, Error, Found, Reproduction};
use results::chart::{Axis, Chart, Series, Style};

/// Segments of a window.
const SEGMENTS: usize = 48;
/// Every so many segments are drawn.
const DRAWN: usize = 4;
/// A silence of so many seconds is a waiting interval.
const SILENCE: f64 = 0.1;

/// The times of the sequence, and its picture.
pub(super) fn figure_6(context: &Context<'_>) -> Result<Reproduction, Error> {
    let runs = ftp::run(&[Plan::new("2MB-doubling")], context)?;
    let times = theory::sequence(T1, WINDOW)?;
    // Between two bursts in the long run: from the last arrival of one to the first of the next, less what that took to send.
    let bursts = runs.first().map_or_else(Vec::new, |run| run.bursts(20.0, 30.0, SILENCE));
    let waits: Vec<f64> = bursts.windows(2).map(|pair| (pair[1].start - pair[0].end) * 1e3 - times.segment).collect();
    let wait = waits.iter().sum::<f64>() / waits.len() as f64;
    let window_ms = times.segment * SEGMENTS as f64;
    let found = vec![
        Found::new("t_i").model(times.segment),
        Found::new("t_ack").model(times.acknowledgement),
        Found::new("t_w")
            .model(times.wait)
            .simulated([wait])
            .note("with r = 1: the first acknowledgement is for two segments; simulated with doubling windows"),
        judged(
            "the window ends first",
            window_ms < times.acknowledgement,
            format!("{window_ms:.0} ms for the window, {:.0} ms for an acknowledgement", times.acknowledgement),
        ),
    ];
    let remarks = vec!["Drawn to scale with the model's times; the paper's figure is a sketch.".to_owned()];
    Ok(Reproduction { found, charts: vec![chart(&times, context)], remarks })
}

/// Two windows as lines between the networks.
fn chart(times: &theory::Sequence, context: &Context<'_>) -> Chart {
    let way = theory::SATELLITE.as_millis_f64();
    let cycle = times.segment * SEGMENTS as f64 + times.wait;
    let mut segments = Vec::new();
    let mut acknowledgements = Vec::new();
    for window in 0..2 {
        for segment in (DRAWN..=SEGMENTS).step_by(DRAWN) {
            let sent = cycle * f64::from(window) + times.segment * segment as f64;
            segments.extend([(sent, 0.0), (sent + way, 1.0), (f64::NAN, f64::NAN)]);
            let back = sent + times.acknowledgement;
            acknowledgements.extend([(sent + way, 1.0), (back, 0.0), (f64::NAN, f64::NAN)]);
        }
    }
    let from = times.segment * SEGMENTS as f64;
    Chart {
        title: "Segments and acknowledgements over the satellite".into(),
        x: Axis::linear("time, ms").within(0.0, 1300.0),
        y: Axis::linear("way from the sender (0) to the receiver (1)").within(-0.1, 1.1),
        series: vec![
            Series::new("segments, every fourth", Style::Line, segments),
            Series::new("their acknowledgements", Style::Line, acknowledgements),
            Series::new("the sender waits (t_w)", Style::Joined, vec![(from, -0.05), (from + times.wait, -0.05)]),
        ],
        caption: format!("W = 24,576 bytes at 1.536 Mbit/s, two windows in the long run. {}", context.command()),
    }
}
