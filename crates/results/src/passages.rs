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

/// The capacity of the busiest direction until `end`, in Mbit/s, if it is a rate.
pub(crate) fn capacity(run: &Run, end: f64) -> Option<Series> {
    let config = &run.busiest()?.0.config;
    if config.opportunities.is_some() || config.dama.is_some() {
        return None;
    }
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
    let period = run.busiest()?.0.config.handover?.period.as_secs_f64();
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
            not_captured: None,
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

    #[test]
    fn no_other_link_stands_in_for_one_whose_capacity_is_no_rate() {
        let capacity_behind = |bottleneck: &str| {
            let text = format!(
                r#"
                version = 1
                nodes = ["ground", "gateway", "sky"]
                carrier = [{{ name = "return", rate = "1Mbit/s" }}]
                [[link]]
                name = "lan"
                between = ["ground", "gateway"]
                rate = "1Gbit/s"
                queue = "100packets"
                [[link]]
                name = "sat"
                between = ["gateway", "sky"]
                delay = "10ms"
                queue = "100packets"
                {bottleneck}
                [[flow]]
                name = "flood"
                from = "ground"
                to = "sky"
                udp = {{ rate = "12Mbit/s" }}
                [stop]
                time = "3s"
                "#
            );
            capacity(&run(&text, 1), 3.0).map(|series| series.points[0].1)
        };
        assert_eq!(capacity_behind(r#"rate = "1Mbit/s""#), Some(1.0));
        assert_eq!(capacity_behind("opportunities = { millis = [6, 12] }"), None);
        let on_demand = r#"forward = { dama = { carrier = "return", rbdc = "1Mbit/s" } }"#;
        assert_eq!(capacity_behind(on_demand), None);
    }

    #[test]
    fn a_carrier_that_terminals_fill_together_is_used_more_than_a_link_behind_it() {
        const TEXT: &str = r#"
            version = 1
            nodes = ["one", "two", "hub", "server"]
            carrier = [{ name = "return", rate = "1Mbit/s" }]
            link = [
                { name = "sat-1", between = ["one", "hub"], delay = "250ms", queue = "100packets", forward = { dama = { carrier = "return", vbdc = "1MB" } } },
                { name = "sat-2", between = ["two", "hub"], delay = "250ms", queue = "100packets", forward = { dama = { carrier = "return", vbdc = "1MB" } } },
                { name = "lan", between = ["hub", "server"], rate = "1500kbit/s", queue = "100packets" },
            ]
            flow = [
                { name = "first", from = "one", to = "server", udp = { rate = "2Mbit/s" } },
                { name = "second", from = "two", to = "server", udp = { rate = "2Mbit/s" } },
            ]
            stop = { time = "30s" }
        "#;
        let run = run(TEXT, 1);
        let on_lan = run.report.links[4].counters.delivered.bytes as f64 * 8.0 / 30.0;
        assert!((0.8e6..1.0e6).contains(&on_lan), "the carrier is full: {on_lan} bit/s");
        assert!(run.busiest().is_some_and(|(direction, _)| direction.config.dama.is_some()));
        assert_eq!(capacity(&run, 30.0), None);
    }
}
