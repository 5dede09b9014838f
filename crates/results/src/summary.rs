//! Runs of many seeds in a few figures: means and standard deviations across seeds.

use crate::goodput::Together;
use crate::run::Run;
use serde::Serialize;
use std::collections::HashMap;
use std::sync::Arc;

/// Mean and standard deviation across seeds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Statistic {
    /// The mean.
    pub mean: f64,
    /// The sample standard deviation; none of fewer than two seeds.
    pub stddev: Option<f64>,
}

impl Statistic {
    /// Of `values`; none if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.into_iter().collect();
        let count = values.len() as f64;
        if values.is_empty() {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Some(Self { mean, stddev: (values.len() > 1).then(|| (squares / (count - 1.0)).sqrt()) })
    }
}

/// The runs of one variant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The variant.
    pub variant: Option<String>,
    /// How many runs there are.
    pub runs: usize,
    /// How many of them stopped at a limit of the scenario; the figures are without them.
    pub limited: usize,
    /// Flows, those alike together.
    pub flows: Vec<FlowSummary>,
    /// Directions of links that carried something.
    pub links: Vec<LinkSummary>,
}

/// The flows of one name in the scenario.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FlowSummary {
    /// The name.
    pub group: String,
    /// How many flows each run has.
    pub flows: usize,
    /// How many of all flows of all runs completed.
    pub complete: usize,
    /// How many failed.
    pub failed: usize,
    /// Goodput of all flows of a run together, over the time in which at least one of them ran; none if no flow began.
    pub goodput_bps: Option<Statistic>,
    /// From start to end of a flow that completed, the mean of a run.
    pub time_s: Option<Statistic>,
    /// Jain's index of fairness over the goodputs of the flows of a run that have started.
    pub jain_index: Option<Statistic>,
    /// The mean round-trip or response time of a run.
    pub rtt_s: Option<Statistic>,
    /// The median of each flow's round-trip or response times, the mean of a run.
    pub rtt_median_s: Option<Statistic>,
    /// What 99 of 100 of each flow's round-trip or response times do not exceed, the mean of a run.
    pub rtt_p99_s: Option<Statistic>,
    /// Retransmissions of a run.
    pub retransmissions: Option<Statistic>,
    /// Expiries of retransmission timers of a run.
    pub rtos: Option<Statistic>,
}

/// A direction of a link.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinkSummary {
    /// The link's name.
    pub name: String,
    /// Where it starts.
    pub from: String,
    /// Where it ends.
    pub to: String,
    /// The mean rate that it delivered.
    pub delivered_bps: Option<Statistic>,
    /// The fraction of the offered packets that its queue dropped.
    pub dropped_by_queue: Option<Statistic>,
    /// The fraction of the offered packets that were lost on the way.
    pub lost: Option<Statistic>,
}

impl Summary {
    /// One for each variant of `runs`, in the order in which the variants come first.
    pub fn of(runs: &[Run]) -> Vec<Self> {
        let mut variants: Vec<&Option<Arc<str>>> = Vec::new();
        for run in runs {
            if !variants.contains(&&run.label.variant) {
                variants.push(&run.label.variant);
            }
        }
        let of_variant = |variant: &Option<Arc<str>>| {
            let runs: Vec<_> = runs.iter().filter(|run| run.label.variant == *variant).collect();
            Self {
                variant: variant.as_deref().map(str::to_owned),
                runs: runs.len(),
                limited: runs.len() - unlimited(&runs).count(),
                flows: flows(&runs),
                links: links(&runs),
            }
        };
        variants.into_iter().map(of_variant).collect()
    }
}

/// Those that ended as the scenario wants.
fn unlimited<'r>(runs: &[&'r Run]) -> impl Iterator<Item = &'r Run> {
    runs.iter().copied().filter(|run| !is_limited(run))
}

/// Whether it stopped at a limit of the scenario.
fn is_limited(run: &Run) -> bool {
    run.report.stopped.limit().is_some()
}

fn flows(runs: &[&Run]) -> Vec<FlowSummary> {
    let Some(first) = runs.first() else { return Vec::new() };
    let mut groups: Vec<&String> = first.groups.iter().collect();
    groups.dedup();
    let runs: Vec<_> = runs.iter().map(|run| ByGroup::new(run)).collect();
    groups.into_iter().map(|group| flow_group(&runs, group)).collect()
}

/// The flows of a run by their name in the scenario.
struct ByGroup<'r> {
    is_limited: bool,
    flows: HashMap<&'r str, Vec<&'r sim::FlowReport>>,
}

impl<'r> ByGroup<'r> {
    fn new(run: &'r Run) -> Self {
        let mut flows: HashMap<_, Vec<_>> = HashMap::new();
        for (flow, group) in run.report.flows.iter().zip(run.groups.iter()) {
            flows.entry(group.as_str()).or_default().push(flow);
        }
        Self { is_limited: is_limited(run), flows }
    }

    fn members(&self, group: &str) -> &[&'r sim::FlowReport] {
        self.flows.get(group).map_or(&[], Vec::as_slice)
    }
}

fn flow_group(runs: &[ByGroup], group: &str) -> FlowSummary {
    let per_run = |value: fn(&[&sim::FlowReport]) -> Option<f64>| {
        let unlimited = runs.iter().filter(|run| !run.is_limited);
        Statistic::of(unlimited.filter_map(|run| value(run.members(group))))
    };
    let count = |what: fn(&sim::FlowReport) -> bool| {
        runs.iter().flat_map(|run| run.members(group)).filter(|flow| what(flow)).count()
    };
    FlowSummary {
        group: group.to_owned(),
        flows: runs.first().map_or(0, |run| run.members(group).len()),
        complete: count(|flow| flow.complete),
        failed: count(|flow| flow.failure.is_some()),
        goodput_bps: per_run(|flows| together(flows).goodput_bps()),
        time_s: per_run(|flows| {
            mean(flows.iter().filter(|flow| flow.complete).filter_map(|flow| Some(flow.end_s? - flow.start_s?)))
        }),
        // Flows that had no time have no goodput; those that stall have one of zero.
        jain_index: per_run(|flows| jain(flows.iter().filter_map(|flow| flow.goodput_bps))),
        rtt_s: per_run(|flows| mean(rtts(flows).map(|rtt| rtt.mean_s))),
        rtt_median_s: per_run(|flows| mean(rtts(flows).map(|rtt| rtt.median_s))),
        rtt_p99_s: per_run(|flows| mean(rtts(flows).map(|rtt| rtt.p99_s))),
        retransmissions: per_run(|flows| Some(flows.iter().map(|flow| flow.retransmissions as f64).sum())),
        rtos: per_run(|flows| Some(flows.iter().map(|flow| flow.rtos as f64).sum())),
    }
}

fn together(flows: &[&sim::FlowReport]) -> Together {
    let mut together = Together::default();
    flows.iter().for_each(|flow| together.take(flow.bytes, flow.start_s, flow.until_s));
    together
}

fn rtts(flows: &[&sim::FlowReport]) -> impl Iterator<Item = sim::RttReport> {
    flows.iter().filter_map(|flow| flow.rtt)
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    Statistic::of(values).map(|statistic| statistic.mean)
}

/// Jain's index: 1 if all are equal, 1/n if one has everything; none of fewer than two, or if all are zero.
pub fn jain(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    let (sum, squares) = (values.iter().sum::<f64>(), values.iter().map(|value| value * value).sum::<f64>());
    // Equal values may exceed 1 by a rounding error.
    (values.len() > 1 && squares > 0.0).then(|| (sum * sum / (values.len() as f64 * squares)).min(1.0))
}

fn links(runs: &[&Run]) -> Vec<LinkSummary> {
    let Some(first) = runs.first() else { return Vec::new() };
    let carried = |at: usize| runs.iter().any(|run| run.report.links[at].counters.offered.packets > 0);
    (0..first.report.links.len()).filter(|at| carried(*at)).map(|at| link(runs, at)).collect()
}

fn link(runs: &[&Run], at: usize) -> LinkSummary {
    let of = |value: fn(&link::Counters) -> u64| {
        Statistic::of(unlimited(runs).filter_map(|run| {
            let counters = &run.report.links[at].counters;
            (counters.offered.packets > 0).then(|| value(counters) as f64 / counters.offered.packets as f64)
        }))
    };
    let rates = unlimited(runs).filter(|run| run.report.end_s > 0.0);
    let link = &runs[0].report.links[at];
    LinkSummary {
        name: link.name.clone(),
        from: link.from.clone(),
        to: link.to.clone(),
        delivered_bps: Statistic::of(
            rates.map(|run| run.report.links[at].counters.delivered.bytes as f64 * 8.0 / run.report.end_s),
        ),
        dropped_by_queue: of(|counters| {
            counters.dropped_queue_full.packets
                + counters.dropped_queue_delay.packets
                + counters.dropped_acks.packets
                + counters.dropped_policed.packets
        }),
        lost: of(|counters| counters.dropped_loss.packets + counters.dropped_down.packets),
    }
}
