//! What the link itself does during a run: its capacity over time, and its handovers.

use crate::chart::{Series, Style};
use crate::run::Run;
use link::{Link, LinkConfig, Packet};
use units::{Bytes, Duration, Instant};

/// More changes than this are no longer seen one by one.
const MOST: usize = 2000;
/// The look of capacity and handovers: grey, dashed where it is a line.
const LOOK: usize = 6;

/// A link that only says its rate carries nothing.
#[derive(Clone)]
struct Nothing;

impl Packet for Nothing {
    fn size(&self) -> Bytes {
        Bytes::ZERO
    }
}

/// The direction that carried the largest part of its capacity.
fn busiest(run: &Run) -> Option<&LinkConfig> {
    let used = run.network.directions().iter().zip(&run.report.links).filter_map(|(direction, report)| {
        let rate = mean_rate(&direction.config)?;
        Some((report.counters.delivered.bytes as f64 / rate, &direction.config))
    });
    used.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, config)| config)
}

/// About what it carries, in bit/s.
fn mean_rate(config: &LinkConfig) -> Option<f64> {
    let drawn = config.handover.and_then(|handover| handover.rate);
    let between = drawn.map(|[low, high]| (low.as_bps() + high.as_bps()) as f64 / 2.0);
    between.or_else(|| config.rate.map(|rate| rate.as_bps() as f64)).filter(|rate| *rate > 0.0)
}

/// The capacity of the busiest direction until `end`, in Mbit/s, if it is a rate.
pub(crate) fn capacity(run: &Run, end: f64) -> Option<Series> {
    let config = busiest(run).filter(|config| config.opportunities.is_none() && config.dama.is_none())?;
    let link = Link::<Nothing>::new(LinkConfig { seed: run.label.seed, ..config.clone() }).ok()?;
    let mut points = Vec::new();
    let mut now = Instant::ZERO;
    while now.as_secs_f64() < end && points.len() < MOST {
        let (rate, until) = link.rate(now)?;
        points.push((now.as_secs_f64(), rate.as_bps() as f64 / 1e6));
        now = until.max(now + Duration::from_nanos(1));
    }
    let last = points.last()?.1;
    points.push((end, last));
    Some(Series::new("capacity of the link", Style::Steps, points).with_colour(LOOK))
}

/// The handovers of the busiest direction until `end`.
pub(crate) fn handovers(run: &Run, end: f64) -> Option<Series> {
    let period = busiest(run)?.handover?.period.as_secs_f64();
    let times = (1..).map(|count| f64::from(count) * period).take_while(|time| *time < end).take(MOST);
    let points: Vec<_> = times.map(|time| (time, f64::NAN)).collect();
    (!points.is_empty()).then(|| Series::new("handover", Style::Uprights, points).with_colour(LOOK))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Label;
    use sim::Simulation;
    use std::sync::Arc;

    /// The run of `text`, which has no variants.
    fn run(text: &str, seed: u64) -> Run {
        let loaded = scenario::load(text, "link.toml", &[], &|_| Err("none".into()));
        let scenario = loaded.expect("sound").scenarios.remove(0);
        let mut simulation = Simulation::of(&scenario, seed, true).expect("sound");
        simulation.run();
        Run {
            label: Label { variant: None, seed },
            report: simulation.report(),
            groups: Arc::clone(&scenario.groups),
            network: Arc::clone(&scenario.network),
            flow_samples: simulation.take_flow_samples(),
            queue_samples: simulation.take_queue_samples(),
            capacity_samples: simulation.take_capacity_samples(),
        }
    }

    #[test]
    fn drawn_rates_are_those_of_the_run() {
        const TEXT: &str = r#"
            version = 1
            nodes = ["ground", "sky"]
            [[link]]
            name = "leo"
            between = ["ground", "sky"]
            queue = "100packets"
            handover = { period = "1s", delay = ["1ms", "1ms"], rate = ["1Mbit/s", "9Mbit/s"] }
            [[flow]]
            name = "flood"
            from = "ground"
            to = "sky"
            udp = { rate = "12Mbit/s" }
            [stop]
            time = "10s"
        "#;
        let mut curves = Vec::new();
        for seed in [1, 2] {
            let run = run(TEXT, seed);
            let curve = capacity(&run, 10.0).expect("a rate").points;
            let capacity: f64 = curve.windows(2).map(|ends| (ends[1].0 - ends[0].0) * ends[0].1).sum();
            let delivered = run.report.links[0].counters.delivered.bytes as f64 * 8.0 / 1e6;
            assert!((0.99..=1.0).contains(&(delivered / capacity)), "seed {seed}: {delivered} of {capacity} Mbit");
            curves.push(curve);
        }
        assert_ne!(curves[0], curves[1]);
    }
}
