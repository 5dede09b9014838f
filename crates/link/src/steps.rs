//! Values that change at given times: fades, handovers, recorded rates and delays.

use crate::ConfigError;
use crate::trace::{self, TraceError};
use serde::{Deserialize, Serialize};
use units::{CounterRandom, Duration};

/// A value that changes at given times after the link's start; before the first of them the link's plain value holds.
/// Written `{ steps = [["10s", "3Mbit/s"], ["20s", "6Mbit/s"]] }`, or `{ file = "rain.trace" }` with a line such as
/// `10s 3Mbit/s` for each step; `repeat = "30s"` starts the whole again every 30 s.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Steps<T> {
    /// When each value begins to hold, and the value. Times rise.
    #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<(Duration, T)>,
    /// The file that holds the steps, until [`crate::LinkConfig::read_files`] has read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// After how long everything starts again, the plain value included; `None` (left out) is never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<Duration>,
}

impl<T: Copy> Steps<T> {
    /// Values that hold each from its time on.
    pub fn new(steps: Vec<(Duration, T)>) -> Self {
        Self { steps, file: None, repeat: None }
    }

    /// Reads a trace: a line such as `10s 3Mbit/s` for each step, times rising, `#` for comments.
    ///
    /// # Errors
    /// Names the line that is wrong.
    pub fn parse(text: &str) -> Result<Self, TraceError>
    where
        T: std::str::FromStr<Err: std::fmt::Display>,
    {
        Ok(Self::new(trace::steps(text)?))
    }

    pub(crate) fn validate(&self, key: &'static str) -> Result<(), ConfigError> {
        let Some((last, _)) = self.steps.last() else {
            return Err(ConfigError::new(key, "it has no steps; write for example steps = [[\"10s\", …]]"));
        };
        if let Some(pair) = self.steps.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
            return Err(ConfigError::new(key, &format!("{} does not come after {}", pair[1].0, pair[0].0)));
        }
        match self.repeat {
            Some(repeat) if repeat <= *last => {
                Err(ConfigError::new(key, &format!("it repeats after {repeat}, before its last step at {last}")))
            }
            _ => Ok(()),
        }
    }

    /// The value at time 0, where `plain` holds before the first step.
    pub(crate) fn at_start(&self, plain: T) -> T {
        self.steps.first().filter(|(at, _)| at.is_zero()).map_or(plain, |(_, value)| *value)
    }

    /// The values over time, as numbers.
    pub(crate) fn timeline(&self, plain: T, number: impl Fn(T) -> u64) -> Timeline {
        Timeline::Steps {
            plain: number(plain),
            steps: self.steps.iter().map(|(at, value)| (at.as_nanos(), number(*value))).collect(),
            repeat: self.repeat.map(Duration::as_nanos),
        }
    }
}

/// A piecewise constant function of the nanoseconds since the link's start.
#[derive(Debug)]
pub(crate) enum Timeline {
    /// Given values.
    Steps { plain: u64, steps: Vec<(u64, u64)>, repeat: Option<u64> },
    /// A value drawn uniformly from `low` to `high` in each period: draw n for the n-th.
    Drawn { period: u64, low: u64, high: u64, draws: CounterRandom },
}

/// The value at some time, and until when it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) value: u64,
    pub(crate) until: u64,
}

impl Timeline {
    pub(crate) fn at(&self, nanos: u64) -> Segment {
        match self {
            Timeline::Steps { plain, steps, repeat } => {
                let start = repeat.map_or(0, |repeat| nanos - nanos % repeat);
                let next = steps.partition_point(|(at, _)| *at <= nanos - start);
                let value = next.checked_sub(1).map_or(*plain, |current| steps[current].1);
                let end = steps.get(next).map(|(at, _)| *at).or(*repeat);
                Segment { value, until: end.map_or(u64::MAX, |end| start.saturating_add(end)) }
            }
            Timeline::Drawn { period, low, high, draws } => {
                let n = nanos / period;
                let value = low + (draws.unit_at(n) * (high - low) as f64).round() as u64;
                Segment { value, until: (n + 1).saturating_mul(*period) }
            }
        }
    }

    /// The length of one repetition, and the integral over it; `None` if it does not repeat.
    pub(crate) fn cycle(&self) -> Option<(u64, u128)> {
        let Timeline::Steps { repeat: Some(repeat), .. } = self else { return None };
        let (mut nanos, mut integral) = (0, 0);
        while nanos < *repeat {
            let Segment { value, until } = self.at(nanos);
            integral += u128::from(value) * u128::from(until - nanos);
            nanos = until;
        }
        Some((*repeat, integral))
    }

    /// Whether it is above zero at some time, however late one looks.
    pub(crate) fn recurs_above_zero(&self) -> bool {
        match self {
            Timeline::Steps { repeat: Some(_), .. } => self.cycle().is_some_and(|(_, integral)| integral > 0),
            Timeline::Steps { steps, .. } => steps.last().is_some_and(|(_, value)| *value > 0),
            Timeline::Drawn { low, .. } => *low > 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(timeline: &Timeline, times: &[u64]) -> Vec<(u64, u64)> {
        times.iter().map(|nanos| timeline.at(*nanos)).map(|segment| (segment.value, segment.until)).collect()
    }

    fn nanos(steps: &[(u64, u64)], repeat: Option<u64>) -> Timeline {
        Timeline::Steps { plain: 7, steps: steps.to_vec(), repeat }
    }

    #[test]
    fn a_step_holds_from_its_time_to_the_next() {
        let timeline = nanos(&[(10, 3), (20, 0)], None);
        let expected = [(7, 10), (7, 10), (3, 20), (3, 20), (0, u64::MAX), (0, u64::MAX)];
        assert_eq!(values(&timeline, &[0, 9, 10, 19, 20, 1_000_000]), expected);
        assert!(!timeline.recurs_above_zero());
    }

    #[test]
    fn a_repetition_starts_with_the_plain_value() {
        let timeline = nanos(&[(10, 3), (20, 0)], Some(30));
        let expected = [(0, 30), (7, 40), (3, 50), (0, 60), (7, 3_010)];
        assert_eq!(values(&timeline, &[29, 30, 40, 59, 3_000]), expected);
        assert_eq!(timeline.cycle(), Some((30, 100)));
        assert!(timeline.recurs_above_zero());
    }

    #[test]
    fn a_trace_that_begins_at_zero_needs_no_plain_value() {
        assert_eq!(values(&nanos(&[(0, 5), (4, 6)], Some(8)), &[0, 4, 8]), [(5, 4), (6, 8), (5, 12)]);
    }

    #[test]
    fn drawn_values_depend_on_the_period_alone() {
        let timeline = Timeline::Drawn { period: 100, low: 10, high: 30, draws: CounterRandom::new(1, 0) };
        assert_eq!(timeline.at(250), timeline.at(299));
        assert_eq!(timeline.at(250).until, 300);
        let drawn: Vec<_> = (0..1000).map(|n| timeline.at(n * 100).value).collect();
        assert!(drawn.iter().all(|value| (10..=30).contains(value)));
        let mean = drawn.iter().sum::<u64>() as f64 / 1000.0;
        assert!((mean - 20.0).abs() < 1.0, "{mean}");
    }
}
