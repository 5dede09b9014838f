//! What the study's figures have in common.

use super::shares::{Curve, Group, Shares};
use crate::Context;
use crate::printed::Item;
use results::chart::{Axis, Chart, Series, Style};

/// The time of the paper's runs in seconds.
const TIME_S: f64 = 6000.0;

/// Curves over the paper's time.
pub fn over_time(item: &Item, y: Axis, series: Vec<Series>, context: &Context<'_>) -> Chart {
    let x = Axis::linear("time, s").within(0.0, TIME_S);
    Chart { title: item.title.clone(), x, y, series, caption: context.command() }
}

/// Per cent of the bottleneck; what was held up arrives at more than its rate.
pub fn share_axis(of: &str) -> Axis {
    Axis::linear(format!("{of}, % of the bottleneck")).within(0.0, 105.0)
}

/// The mean share of each of `groups` over time, with a band over seeds.
pub fn shares(runs: &[Shares], groups: &[Group]) -> Vec<Series> {
    let curve = |group: &Group| {
        let runs: Vec<_> = runs.iter().map(|shares| shares.over_time(*group)).collect();
        series(group.text(), *group, Curve::of(&runs))
    };
    groups.iter().map(curve).collect()
}

/// A curve in the colour of its group.
pub fn series(name: &str, group: Group, curve: Curve) -> Series {
    let series = Series::new(name, Style::Line, curve.points).with_colour(group as usize);
    match curve.band {
        Some(band) => series.with_band(band),
        None => series,
    }
}
