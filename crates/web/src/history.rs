//! Bounded history in three resolutions: five minutes by second, an hour by ten seconds, a day by two minutes.

use crate::point::{FIELDS, Point};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::VecDeque;

/// A span of the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Span {
    /// Five minutes, by second.
    Minutes,
    /// An hour, by ten seconds.
    Hour,
    /// A day, by two minutes.
    Day,
}

impl Span {
    const ALL: [Self; 3] = [Self::Minutes, Self::Hour, Self::Day];

    /// The time between points, and the number of points.
    const fn resolution(self) -> (u32, usize) {
        match self {
            Self::Minutes => (1, 300),
            Self::Hour => (10, 360),
            Self::Day => (120, 720),
        }
    }
}

/// The history of a link. Points are added once a second; the coarser spans hold their means.
#[derive(Debug)]
pub struct History {
    rings: [Ring; 3],
}

#[derive(Debug)]
struct Ring {
    span: Span,
    points: VecDeque<(f64, Point)>,
    /// Points of a second that are not yet in a mean.
    waiting: Vec<Point>,
}

impl Default for History {
    fn default() -> Self {
        Self { rings: Span::ALL.map(|span| Ring { span, points: VecDeque::new(), waiting: Vec::new() }) }
    }
}

impl History {
    /// Adds the point of the second that ended at `time`, in seconds since 1970.
    pub(crate) fn push(&mut self, time: f64, point: Point) {
        self.rings.iter_mut().for_each(|ring| ring.push(time, point));
    }

    /// A span in columns: times, `lead` later than they were added with, then the values in the order of [`FIELDS`].
    pub(crate) fn columns(&self, span: Span, lead: f64) -> Value {
        let ring = &self.rings[span as usize];
        let column = |at: usize| ring.points.iter().map(|(_, point)| point.0[at]).collect::<Vec<_>>();
        let times: Vec<f64> = ring.points.iter().map(|(time, _)| time + lead).collect();
        json!({
            "span": span,
            "step_s": span.resolution().0,
            "fields": FIELDS,
            "times": times,
            "columns": (0..FIELDS.len()).map(column).collect::<Vec<_>>(),
        })
    }
}

impl Ring {
    fn push(&mut self, time: f64, point: Point) {
        let (step, length) = self.span.resolution();
        self.waiting.push(point);
        if self.waiting.len() < step as usize {
            return;
        }
        let mean = Point::mean(&self.waiting);
        self.waiting.clear();
        if self.points.len() == length {
            self.points.pop_front();
        }
        self.points.push_back((time, mean));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_stays_within_its_bounds_and_coarse_spans_hold_means() {
        let mut history = History::default();
        for second in 0..200_000u32 {
            history.push(second.into(), Point([second as f32; FIELDS.len()]));
        }
        for (span, length, step) in [(Span::Minutes, 300, 1.0), (Span::Hour, 360, 10.0), (Span::Day, 720, 120.0)] {
            let columns = history.columns(span, 0.0);
            let times: Vec<f64> = serde_json::from_value(columns["times"].clone()).unwrap();
            assert_eq!(times.len(), length);
            assert!(times.windows(2).all(|pair| pair[1] - pair[0] == step), "{span:?}");
            let last: Vec<f64> = serde_json::from_value(columns["columns"][0].clone()).unwrap();
            assert_eq!(last[length - 1], times[length - 1] - (step - 1.0) / 2.0, "the mean of the step {span:?}");
        }
    }

    #[test]
    fn what_is_not_known_is_null() {
        let mut history = History::default();
        history.push(1.0, Point::UNKNOWN);
        let columns = history.columns(Span::Minutes, 0.0);
        assert_eq!(columns["columns"].as_array().unwrap().len(), FIELDS.len());
        assert_eq!(columns["columns"][0][0], Value::Null);
        assert_eq!(history.columns(Span::Hour, 0.0)["times"], json!([]));
    }
}
