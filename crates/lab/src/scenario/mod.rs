//! Scenarios for real: the kernel's TCP over the emulated link, where the simulator has its own over the same link.
//!
//! What maps is a chain: hosts that are joined by one link with a rate, a delay or losses, and by others that are but wires;
//! or several such links to one hub, whose terminals share a carrier on demand. Flows are TCP, of one file each across a link,
//! cut off at the end of the run, or uploads without an end until then, whose control the kernel has or takes. Gateways at the two ends of the only
//! link may split them, over the kernel's TCP. Initial windows, segment sizes and the windows of small segments become settings of the route, buffers those of sockets,
//! timestamps those of hosts.

mod emulated;
mod flow;
mod measured;
mod pair;
mod settings;
#[cfg(test)]
mod tests;

pub use measured::{MeasuredCapacity, MeasuredFlow, MeasuredLink, MeasuredRun};

use crate::controls::Controls;
use crate::flows::{Plan, Stop};
use crate::topology::Ways;
use crate::{Ends, Error, Flow, RouteSettings, Topology, bulk, flows};
use ::scenario::Scenario;
use emulated::Emulated;
use emulator::Monitor;
use flow::{Place, RealFlow};
use link::dama::Sample;
use pair::Pair;
use sim::Network;
use std::sync::mpsc;
use units::Duration;

/// A scenario as it is run for real.
#[derive(Debug)]
pub struct RealScenario {
    network: std::sync::Arc<Network>,
    emulated: Emulated,
    pair: Option<Pair>,
    flows: Vec<RealFlow>,
    /// When it ends.
    stop: Option<Stop>,
    /// Whether flows have no end but that.
    is_endless: bool,
    /// Whether windows are to be looked at.
    wants_windows: bool,
    /// Whether the superframes of carriers are wanted.
    wants_capacity: bool,
    /// Holds what was loaded into the kernel for the flows.
    _controls: Controls,
}

/// How often windows are looked at.
const WINDOW_INTERVAL: Duration = Duration::from_millis(10);
/// How often superframes are taken from the emulator.
const COLLECTION_INTERVAL: Duration = Duration::from_secs(1);

impl RealScenario {
    /// What of `scenario` is to be run.
    ///
    /// # Errors
    /// Names what has no counterpart in the kernel or on an emulated link, and says what has.
    pub fn new(scenario: &Scenario) -> Result<Self, Error> {
        let network = std::sync::Arc::clone(&scenario.network);
        let emulated = Emulated::of(&network)?;
        emulated.validate(&network)?;
        let mut controls = Controls::default();
        let pair = Pair::of(scenario, &emulated, &mut controls)?;
        let flows = scenario
            .flows
            .iter()
            .map(|flow| RealFlow::new(&network, &emulated, flow, pair.is_some(), &mut controls))
            .collect::<Result<Vec<_>, _>>()?;
        let record = &scenario.settings.record;
        let wants_windows = record.window_changes || record.flow_interval.is_some();
        check_hosts(&flows)?;
        let limits = &scenario.settings.stop;
        let at = limits.at.map(|at| at.since(units::Instant::ZERO));
        let stop = at.map(|at| Stop { at, when_complete: limits.when_complete });
        let is_endless = are_endless(&flows, at)?;
        let wants_capacity = record.capacity;
        Ok(Self {
            network,
            emulated,
            pair,
            flows,
            stop,
            is_endless,
            wants_windows,
            wants_capacity,
            _controls: controls,
        })
    }

    /// Runs it with one seed, in namespaces that are gone afterwards.
    ///
    /// # Errors
    /// If the machine lacks something or a flow fails.
    pub fn run(&self, variant: Option<String>, seed: u64) -> Result<MeasuredRun, Error> {
        let ways = Ways { paths: self.emulated.paths(&self.network, seed), records_capacity: self.wants_capacity };
        // Gateways listen for both Internet Protocols.
        let topology = Topology::over_ways(self.emulated.terminals(), ways, self.pair.is_some())?;
        let site = |place: Place| place.map_or(&topology.hub, |terminal| &topology.terminals[terminal]);
        for place in (0..self.emulated.terminals()).map(Some).chain([None]) {
            let route = self.route(place);
            if route != RouteSettings::default() {
                site(place).set_route(route)?;
            }
        }
        if self.flows.iter().any(|flow| !flow.timestamps) {
            topology.set_host_sysctls(&[("ipv4/tcp_timestamps", "0")])?;
        }
        let plans: Vec<_> = self
            .flows
            .iter()
            .map(|flow| {
                let ends = Ends { client: site(flow.client), server: site(flow.server) };
                let windows = (self.wants_windows && flow.is_recorded).then_some(WINDOW_INTERVAL);
                Plan { ends, workload: &flow.workload, start: flow.start, windows }
            })
            .collect();
        let gateways = self.pair.as_ref().map(|pair| pair.start(&topology)).transpose()?;
        let monitor = topology.satellite_monitor().ok_or_else(no_link)?;
        let (ended, mut samples) = self.run_flows(&plans, &monitor)?;
        drop(gateways);
        let report = topology.stop()?.ok_or_else(no_link)?;
        let starts = ended.iter().zip(&self.flows).map(|(ended, flow)| (ended.start, flow.start));
        let start = origin(starts).ok_or_else(|| Error::failed("there was no flow"))?;
        let measured = self.flows.iter().zip(&ended).map(|(flow, ended)| MeasuredFlow::new(&flow.name, ended, start));
        samples.extend(take_samples(&monitor));
        // Superframes begin to the nanosecond with the links, flows a little later.
        let links_start =
            monitor.latest_restart().ok_or_else(|| Error::failed("the links did not begin with the flows"))?;
        Ok(MeasuredRun {
            variant,
            seed,
            has_priority: report.has_priority,
            flows: measured.collect(),
            links: MeasuredLink::both(&self.network, &self.emulated, [&report.up, &report.down]),
            carriers: measured::carriers(&self.network, &self.emulated, &report.up.terminals),
            capacity: measured::capacity(&self.network, &self.emulated, &samples, links_start),
            events: None,
            data_packets: None,
        })
    }
}

impl RealScenario {
    /// Runs the flows over links that begin again with them, and collects the superframes that `monitor` sees meanwhile.
    fn run_flows(&self, plans: &[Plan<'_>], monitor: &Monitor) -> Result<(Vec<Flow>, Vec<Sample>), Error> {
        std::thread::scope(|scope| {
            let (done, ended) = mpsc::channel();
            let collector = flows::spawn(scope, move || Ok(collect_samples(monitor, &ended)))?;
            let flows = match self.stop {
                Some(stop) if self.is_endless => bulk::run(plans, stop.at, Some(monitor)),
                stop => flows::run_plans_until(plans, stop, Some(monitor)),
            };
            drop(done);
            let samples = flows::join(collector)?;
            Ok((flows?, samples))
        })
    }

    /// What the flows want of the route of the host at `place`: those that send from there their initial window and segments,
    /// those that receive there their segments and their window.
    fn route(&self, place: Place) -> RouteSettings {
        let sending = self.flows.iter().find(|flow| flow.sender() == place).map(|flow| flow.route);
        let receiving = self.flows.iter().find(|flow| flow.receiver() == place).map(|flow| flow.receiver_route);
        let window = receiving.and_then(|route| route.window);
        RouteSettings { window, ..sending.or(receiving).unwrap_or_default() }
    }
}

/// The scenario's time 0, at which the links began again, to within what the first thread woke up late: of flows, when they started,
/// and how long after that time they were to.
fn origin(starts: impl Iterator<Item = (std::time::Instant, Duration)>) -> Option<std::time::Instant> {
    starts.filter_map(|(at, planned)| at.checked_sub(planned.into())).min()
}

fn no_link() -> Error {
    Error::failed("there was no emulated link")
}

/// Takes superframes from the emulator, which keeps a limited number, until the other end of `ended` is gone.
fn collect_samples(monitor: &Monitor, ended: &mpsc::Receiver<()>) -> Vec<Sample> {
    let mut samples = Vec::new();
    while ended.recv_timeout(COLLECTION_INTERVAL.into()) == Err(mpsc::RecvTimeoutError::Timeout) {
        samples.extend(take_samples(monitor));
    }
    samples
}

/// The superframes of the carrier to the hub since it was last asked.
fn take_samples(monitor: &Monitor) -> Vec<Sample> {
    let [to_hub, _] = monitor.take_samples();
    to_hub
}

/// Refuses flows that want different things of one host.
fn check_hosts(flows: &[RealFlow]) -> Result<(), Error> {
    let refused = |flow: &RealFlow, other: &RealFlow, problem: &str| {
        Err(Error::Input(format!("flows `{}` and `{}` {problem}, and the same for both", flow.name, other.name)))
    };
    for flow in flows {
        let leaves_by = |other: &&RealFlow| other.sender() == flow.sender() && other.route != flow.route;
        if let Some(other) = flows.iter().find(leaves_by) {
            return refused(
                flow,
                other,
                "leave the same host with different initial windows or segments: for real, these are the route's",
            );
        }
        let differs = |other: &&RealFlow| {
            let arrives_at = other.receiver() == flow.receiver();
            (arrives_at && other.receiver_route != flow.receiver_route) || other.timestamps != flow.timestamps
        };
        if let Some(other) = flows.iter().find(differs) {
            return refused(
                flow,
                other,
                "have different segments, windows for small ones, or timestamps: for real, these are the host's",
            );
        }
        let returns =
            |other: &&RealFlow| other.receiver() == flow.sender() && other.receiver_route.mtu != flow.route.mtu;
        if let Some(other) = flows.iter().find(returns) {
            return refused(
                flow,
                other,
                "leave a host and come to it with different segments: for real, these are the route's",
            );
        }
    }
    Ok(())
}

/// Runs scenarios at the same time, each over a link of its own.
///
/// # Errors
/// As [`RealScenario::new`] and [`RealScenario::run`].
pub fn run_side_by_side(scenarios: &[&Scenario], seed: u64) -> Result<Vec<MeasuredRun>, Error> {
    std::thread::scope(|scope| {
        let run = |scenario: &&Scenario| {
            let real = RealScenario::new(scenario)?;
            let variant = scenario.variant.clone();
            flows::spawn(scope, move || real.run(variant, seed))
        };
        let runs = scenarios.iter().map(run).collect::<Result<Vec<_>, _>>()?;
        runs.into_iter().map(flows::join).collect()
    })
}

/// Whether the flows have no end, but that of the run.
fn are_endless(flows: &[RealFlow], stop: Option<Duration>) -> Result<bool, Error> {
    let late = stop.and_then(|stop| Some((flows.iter().find(|flow| flow.start >= stop)?, stop)));
    if let Some((RealFlow { name, start, .. }, stop)) = late {
        return Err(Error::Input(format!(
            "flow `{name}`: it starts at {start}, when the run has ended (`stop.time` = {stop})"
        )));
    }
    match flows.iter().filter(|flow| flow.is_endless).count() {
        0 => Ok(false),
        count if count < flows.len() => {
            Err(Error::Input("flows with and without an end: for real, all have one or none has".to_owned()))
        }
        _ if stop.is_none() => {
            Err(Error::Input("flows without an end need a time at which to stop (`stop.time`)".to_owned()))
        }
        _ => Ok(true),
    }
}
