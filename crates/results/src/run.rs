//! One run's results.

use sim::{CapacitySample, Direction, DirectionId, FlowSample, LinkReport, Network, QueueSample, Report};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Which run it was.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Label {
    /// The variant of the scenario, if it has any.
    pub variant: Option<Arc<str>>,
    /// The seed.
    pub seed: u64,
}

impl Label {
    /// `VARIANT-SEED`, or the seed alone: for names of files.
    pub fn file_stem(&self) -> String {
        match &self.variant {
            Some(variant) => format!("{variant}-{}", self.seed),
            None => self.seed.to_string(),
        }
    }

    /// `VARIANT, seed SEED`, or `seed SEED` alone: for people.
    pub fn title(&self) -> String {
        match &self.variant {
            Some(variant) => format!("{variant}, seed {}", self.seed),
            None => format!("seed {}", self.seed),
        }
    }
}

/// What to say of runs that stopped at a limit, each with its name and that limit; nothing if there are none.
pub fn at_limits<'a>(mut stopped: impl Iterator<Item = (String, &'a str)>) -> Option<String> {
    let (run, limit) = stopped.next()?;
    Some(match 1 + stopped.count() {
        1 => format!("1 run stopped at a limit: {run}, at {limit}"),
        count => format!("{count} runs stopped at a limit, the first of them {run}, at {limit}"),
    })
}

/// What a run found.
#[derive(Debug, Clone)]
pub struct Run {
    /// Which run.
    pub label: Label,
    /// The outcome of flows and links.
    pub report: Report,
    /// For each flow of the report, the name that the scenario gives it and those alike.
    pub groups: Arc<[String]>,
    /// The nodes and links.
    pub network: Arc<Network>,
    /// Samples of flows, in the order of time.
    pub flow_samples: Vec<FlowSample>,
    /// Samples of queues, in the order of time.
    pub queue_samples: Vec<QueueSample>,
    /// Samples of carriers, in the order in which superframes end.
    pub capacity_samples: Vec<CapacitySample>,
    /// Why its packets are not in capture files, if they were to be.
    pub not_captured: Option<String>,
}

impl Run {
    /// The direction of a link that delivered the most of what it can carry, and its counters; none if nothing limits any. One that
    /// shares a carrier is used as much as the carrier is, if that is more than what itself has of it.
    pub fn busiest(&self) -> Option<(&Direction, &LinkReport)> {
        let both = || self.network.directions().iter().zip(&self.report.links);
        let delivered = |report: &LinkReport| report.counters.delivered.bytes as f64;
        let mut on_carriers: BTreeMap<&str, f64> = BTreeMap::new();
        for (direction, report) in both() {
            if let Some(dama) = &direction.config.dama {
                *on_carriers.entry(&dama.carrier).or_default() += delivered(report);
            }
        }
        let use_of_carrier = |direction: &Direction| {
            let dama = direction.config.dama.as_ref()?;
            let (name, carrier) = self.network.carriers().iter().find(|(name, _)| *name == dama.carrier)?;
            Some(on_carriers.get(name.as_str())? / carrier.rate.as_bps() as f64)
        };
        let used = both().enumerate().filter_map(|(number, (direction, report))| {
            let own = delivered(report) / typical_rate(&self.network, DirectionId::new(number as u32))?;
            Some((use_of_carrier(direction).map_or(own, |all| all.max(own)), own, direction, report))
        });
        let most = used.max_by(|one, other| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)));
        most.map(|(.., direction, report)| (direction, report))
    }
}

/// About what a direction can carry, in bit/s: on a shared carrier the most that it may, of recorded opportunities their mean.
fn typical_rate(network: &Network, direction: DirectionId) -> Option<f64> {
    let config = &network.directions()[direction.index()].config;
    let drawn = config.handover.and_then(|handover| handover.rate);
    let between = drawn.map(|[low, high]| (low.as_bps() + high.as_bps()) as f64 / 2.0);
    let given = || config.rate.or_else(|| network.highest_rate(direction)).map(|rate| rate.as_bps() as f64);
    between.or_else(given).filter(|rate| *rate > 0.0)
}
