//! What the runs of each point of a grid have in common.

use crate::rows::limits;
use results::{Statistic, Table, Together, Values};
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The flows of one name at one point of the grid, under one variant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PointSummary {
    /// The number of the point.
    pub point: usize,
    /// The variant, if the scenario has any.
    pub variant: Option<String>,
    /// The name of the flows in the scenario.
    pub group: String,
    /// How many runs there are.
    pub runs: usize,
    /// How many of them stopped at a limit of the scenario; the figures are without them.
    pub limited: usize,
    /// How many flows all runs have.
    pub flows: usize,
    /// How many of them completed.
    pub complete: usize,
    /// Goodput of all flows of a run together, over the time in which at least one of them ran; none if no flow began.
    pub goodput_bps: Option<Interval>,
    /// From start to end of a flow that completed, the mean of a run.
    pub time_s: Option<Interval>,
    /// Retransmissions of a run.
    pub retransmissions: Option<Interval>,
}

/// A mean across seeds and how well it is known.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// The mean, and the standard deviation.
    #[serde(flatten)]
    pub statistic: Statistic,
    /// Half the width of the mean's 95 % confidence interval (Student's t); none of fewer than two seeds.
    pub half_width_95: Option<f64>,
}

impl Interval {
    /// Of `values`; none if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let statistic = Statistic::of(values.iter().copied())?;
        let half_width = |deviation: f64| {
            let count = values.len() as f64;
            let quantile = StudentsT::new(0.0, 1.0, count - 1.0).ok()?.inverse_cdf(0.975);
            Some(quantile * deviation / count.sqrt())
        };
        Some(Self { statistic, half_width_95: statistic.stddev.and_then(half_width) })
    }
}

/// What one run says of a group of flows.
#[derive(Default)]
struct RunOf {
    together: Together,
    times: Vec<f64>,
    retransmissions: f64,
    flows: usize,
    complete: usize,
    is_limited: bool,
}

/// A group at a point, and the runs' figures by seed.
type Groups = BTreeMap<(usize, usize), BTreeMap<u64, RunOf>>;

/// A summary for each point, variant and group of flows, in the order in which they come first. `table` is of
/// [`crate::Store::rows`] or [`crate::rows`], and `points` has the point of each of its rows; nothing if it lacks a column.
pub fn summaries(table: &Table, points: &[usize]) -> Option<Vec<PointSummary>> {
    if table.columns.is_empty() {
        return Some(Vec::new());
    }
    let (Values::Text(variants), Values::Text(groups)) = (table.column("variant")?, table.column("group")?) else {
        return None;
    };
    let count = |name| match table.column(name) {
        Some(Values::Integer(values)) => Some(values),
        _ => None,
    };
    let (seeds, again, bytes) = (count("seed")?, count("retransmissions")?, count("bytes")?);
    let number = |name| match table.column(name) {
        Some(Values::Number(values)) => Some(values),
        _ => None,
    };
    let (starts, ends, until) = (number("start_s")?, number("end_s")?, number("until_s")?);
    let Values::Flag(complete) = table.column("complete")? else { return None };
    let limits = limits(table)?;
    let mut names: Vec<(Option<Arc<str>>, Arc<str>)> = Vec::new();
    let mut all = Groups::new();
    for (row, point) in points.iter().enumerate() {
        let name = (variants[row].clone(), groups[row].clone()?);
        let number = names.iter().position(|known| *known == name).unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        });
        let run = all.entry((*point, number)).or_default().entry(seeds[row]?).or_default();
        run.together.take(bytes[row].unwrap_or(0), starts[row], until[row]);
        let time = starts[row].zip(ends[row]).map(|(start, end)| end - start);
        run.times.extend(time.filter(|_| complete[row] == Some(true)));
        run.retransmissions += again[row].unwrap_or(0) as f64;
        run.flows += 1;
        run.complete += usize::from(complete[row] == Some(true));
        run.is_limited |= limits[row].is_some();
    }
    let summary = |((point, number), runs): ((usize, usize), BTreeMap<u64, RunOf>)| {
        let (variant, group) = names[number].clone();
        let unlimited = || runs.values().filter(|run| !run.is_limited);
        let of =
            |value: &dyn Fn(&RunOf) -> Option<f64>| Interval::of(&unlimited().filter_map(value).collect::<Vec<_>>());
        PointSummary {
            point,
            variant: variant.as_deref().map(str::to_owned),
            group: (*group).to_owned(),
            runs: runs.len(),
            limited: runs.len() - unlimited().count(),
            flows: runs.values().map(|run| run.flows).sum(),
            complete: runs.values().map(|run| run.complete).sum(),
            goodput_bps: of(&|run| run.together.goodput_bps()),
            time_s: of(&|run| Some(Statistic::of(run.times.iter().copied())?.mean)),
            retransmissions: of(&|run| Some(run.retransmissions)),
        }
    };
    Some(all.into_iter().map(summary).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_student_s() {
        let interval = Interval::of(&[1.0, 2.0, 3.0]).expect("values");
        assert_eq!(interval.statistic.mean, 2.0);
        // 4.3027 deviations of the mean for two degrees of freedom.
        assert!((interval.half_width_95.expect("three values") - 4.3027 / 3.0_f64.sqrt()).abs() < 1e-3);
        assert_eq!(Interval::of(&[1.0]).expect("a value").half_width_95, None);
        assert_eq!(Interval::of(&[]), None);
    }
}
