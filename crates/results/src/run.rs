//! One run's results.

use sim::{CapacitySample, FlowSample, Network, QueueSample, Report};
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
}
