//! One experiment: the same transfers over the same link, by one path or another.

use crate::gateways::{GatewayOptions, Gateways};
use crate::{Direction, Ends, Error, Flow, Satellite, Topology, Workload, flows, measure};
use emulator::{DirectionReport, Report};
use link::{LinkConfig, LossModel, Reorder};
use serde::Serialize;
use std::path::PathBuf;
use units::{Bytes, Duration, Probability, Rate};

/// A symmetric satellite link, as a person describes it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LinkParameters {
    /// Rate of each direction.
    pub rate: Rate,
    /// Round-trip time: twice the propagation delay.
    pub rtt: Duration,
    /// Probability that a packet is lost, each way.
    pub loss: Probability,
    /// Probability that a packet is held back for [`REORDER_DELAY`], so that others overtake it, each way.
    pub reorder: Probability,
    /// Probability that a packet arrives twice, each way.
    pub duplicate: Probability,
    /// Seed of the losses: the same seed, the same outcome for packet k of each direction.
    pub seed: u64,
}

/// How long a reordered packet is held back.
pub const REORDER_DELAY: Duration = Duration::from_millis(20);

impl LinkParameters {
    /// The link's two directions, each with a queue of one bandwidth-delay product.
    pub fn satellite(&self) -> Satellite {
        let reorder = Reorder { probability: self.reorder, extra_delay: REORDER_DELAY };
        let direction = |stream| LinkConfig {
            loss: LossModel::Bernoulli(self.loss),
            reorder: (self.reorder > Probability::ZERO).then_some(reorder),
            duplicate: self.duplicate,
            seed: self.seed,
            stream,
            ..LinkConfig::new(self.rate, self.rtt / 2)
        };
        Satellite { forward: direction(0), return_link: direction(1) }
    }
}

/// How the data crosses the link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Path {
    /// The kernel's TCP from end to end, with this congestion control.
    EndToEnd(String),
    /// Through a pair of bentpipe gateways.
    Bentpipe,
}

impl Path {
    /// The path's short name: `bentpipe`, or that of the congestion control.
    pub fn name(&self) -> &str {
        match self {
            Path::EndToEnd(name) => name,
            Path::Bentpipe => "bentpipe",
        }
    }
}

/// What is moved over what.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// The link.
    pub link: LinkParameters,
    /// The link in full, where it is more than [`LinkParameters`] can say: those then tell its rate in the direction of the
    /// data and its mean loss, from which the limit follows.
    pub satellite: Option<Satellite>,
    /// Terminals that share it.
    pub terminals: usize,
    /// Flows of each terminal.
    pub flows: usize,
    /// What each flow moves.
    pub workload: Workload,
    /// The `bentpipe` program to start as the gateways.
    pub program: PathBuf,
    /// How the gateways are set up.
    pub gateways: GatewayOptions,
}

/// The result.
#[derive(Debug)]
pub struct Outcome {
    /// One for each flow, terminal by terminal.
    pub flows: Vec<Flow>,
    /// What the satellite carried; `up` is from the terminals to the hub.
    pub satellite: Report,
    /// Bytes of IP packets that entered the link in the data's direction while the flows ran.
    pub link_bytes: Bytes,
}

/// The network of an experiment, with gateways if its path has any, ready for traffic.
pub struct Stage {
    /// The network.
    pub topology: Topology,
    /// The gateways; `None` where traffic goes from end to end.
    pub gateways: Option<Gateways>,
}

impl Experiment {
    /// Builds the network, runs the flows by `path` and takes everything down again.
    ///
    /// # Errors
    /// If the machine lacks something or a flow fails.
    pub fn run(&self, path: &Path) -> Result<Outcome, Error> {
        let stage = self.start(path)?;
        let before = stage.topology.satellite_report().map(|report| self.data_direction(&report).offered.bytes);
        let flows = self.run_flows(&stage, path)?;
        drop(stage.gateways);
        let satellite = stage.topology.stop()?.ok_or_else(|| Error::failed("there was no satellite"))?;
        let after = self.data_direction(&satellite).offered.bytes;
        let link_bytes = Bytes::new(after) - Bytes::new(before.unwrap_or_default());
        Ok(Outcome { flows, satellite, link_bytes })
    }

    /// Builds the network and, if `path` needs them, starts the gateways. Call it from the thread that lives as long as
    /// the stage is to.
    ///
    /// # Errors
    /// If the machine lacks something or the gateways find no session.
    pub fn start(&self, path: &Path) -> Result<Stage, Error> {
        let satellite = self.satellite();
        let rates = [&satellite.return_link, &satellite.forward].map(|link| link.rate.unwrap_or(self.link.rate));
        let topology = Topology::new(self.terminals, Some(satellite))?;
        let gateways = match path {
            Path::Bentpipe => Some(Gateways::start(&self.program, &topology, rates, self.link.rtt, &self.gateways)?),
            Path::EndToEnd(_) => None,
        };
        Ok(Stage { topology, gateways })
    }

    /// Runs the flows on a `stage` that was built for `path`.
    ///
    /// # Errors
    /// If a flow fails.
    pub fn run_flows(&self, stage: &Stage, path: &Path) -> Result<Vec<Flow>, Error> {
        let congestion_control = match path {
            Path::Bentpipe => None,
            Path::EndToEnd(name) => Some(name.clone()),
        };
        let workload = Workload { congestion_control, ..self.workload.clone() };
        let server = &stage.topology.hub;
        let clients = stage.topology.terminals.iter();
        let ends: Vec<_> =
            clients.flat_map(|client| std::iter::repeat_n(Ends { client, server }, self.flows)).collect();
        flows::run(&ends, &workload)
    }

    fn data_direction<'a>(&self, report: &'a Report) -> &'a DirectionReport {
        match self.workload.direction {
            Direction::Up => &report.up,
            Direction::Down => &report.down,
        }
    }

    /// The link.
    pub fn satellite(&self) -> Satellite {
        self.satellite.clone().unwrap_or_else(|| self.link.satellite())
    }

    /// Bytes that all flows move together.
    pub fn total(&self) -> Bytes {
        self.workload.size * (self.terminals * self.flows) as u64
    }

    /// Least time in which all of it can cross the link.
    pub fn limit(&self) -> Duration {
        self.limit_of(self.total())
    }

    /// Least time in which so many bytes can cross the link, in the direction of the data.
    pub fn limit_of(&self, bytes: Bytes) -> Duration {
        let LinkParameters { rate, rtt, loss, .. } = self.link;
        model::limit::time(self.workload.direction.rounds(), bytes, rate, rtt, loss)
    }
}

impl Outcome {
    /// From the first client's connect() to the last receiver's last byte.
    pub fn time(&self) -> Duration {
        flows::time(&self.flows)
    }

    /// Bytes of data that arrived.
    pub fn bytes(&self) -> Bytes {
        self.flows.iter().fold(Bytes::ZERO, |sum, flow| sum + flow.bytes)
    }

    /// Whether every flow brought what was sent.
    pub fn verified(&self) -> bool {
        self.flows.iter().all(|flow| flow.verified)
    }

    /// Jain's index over the goodputs of the flows.
    pub fn jain_index(&self) -> f64 {
        let goodputs: Vec<_> = self.flows.iter().map(|flow| flow.goodput().as_bps() as f64).collect();
        measure::jain_index(&goodputs)
    }

    /// Throughput of all flows together in steps of `step`: end of each step in seconds, bits per second.
    pub fn curve(&self, step: Duration) -> Vec<(f64, f64)> {
        let Some(start) = self.flows.iter().map(|flow| flow.start).min() else { return Vec::new() };
        let steps = self.time().as_nanos().div_ceil(step.as_nanos().max(1));
        let bytes_at = |time: Duration| -> f64 {
            let of = |flow: &Flow| flow.trace.bytes_at(time - Duration::from(flow.start.duration_since(start)));
            self.flows.iter().map(of).sum()
        };
        let mut before = 0.0;
        (1..=steps)
            .map(|k| {
                let bytes = bytes_at(step * k);
                let throughput = (bytes - before) * 8.0 / step.as_secs_f64();
                before = bytes;
                ((step * k).as_secs_f64(), throughput)
            })
            .collect()
    }
}
