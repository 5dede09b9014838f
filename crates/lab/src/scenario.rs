//! Scenarios for real: the kernel's TCP over the emulated link, where the simulator has its own over the same link.
//!
//! What maps is a chain: hosts that are joined by one link with a rate, a delay or losses, and by others that are but wires,
//! and TCP flows of one file each across that link, or uploads without an end until a given time, whose control the kernel has
//! or takes. Initial windows, segment sizes and the windows of small segments become settings of the route, buffers those of sockets,
//! timestamps those of hosts.

use crate::controls::Controls;
use crate::flows::WindowSample;
use crate::transfer::{Checksum, Trace};
use crate::{Direction, Ends, Error, Family, Flow, RouteSettings, Satellite, Topology, Workload, bulk, flows};
use emulator::DirectionReport;
use link::LinkConfig;
use serde::Serialize;
use sim::scenario::Scenario;
use sim::{Application, DirectionId, FlowConfig, Network, NodeId, Traffic, Transfer};
use std::time::Instant;
use tcp::Config;
use units::{Bytes, Duration};

/// A scenario as it is run for real.
#[derive(Debug)]
pub struct RealScenario {
    network: std::sync::Arc<Network>,
    /// The link that is emulated, from its first node to its second.
    emulated: DirectionId,
    flows: Vec<RealFlow>,
    /// When flows without an end are cut off.
    end: Option<Duration>,
    /// Whether windows are to be looked at.
    wants_windows: bool,
    /// Holds what was loaded into the kernel for the flows.
    _controls: Controls,
}

#[derive(Debug)]
struct RealFlow {
    name: String,
    start: Duration,
    /// Whether the client is at the link's first node.
    is_from_first: bool,
    workload: Workload,
    /// It sends until it is cut off, whatever the workload's size.
    is_endless: bool,
    /// Of the end that sends.
    route: RouteSettings,
    /// The largest window of the end that receives, where its route is to set it.
    window: Option<u32>,
    /// Whether segments carry timestamps.
    timestamps: bool,
    /// Whether the sender's windows are wanted.
    is_recorded: bool,
}

/// How often windows are looked at.
const WINDOW_INTERVAL: Duration = Duration::from_millis(10);

/// The kernel's own initial window, in segments (RFC 6928).
const KERNEL_INITIAL_WINDOW: f64 = 10.0;
/// Payload of a full segment on an Ethernet, with timestamps.
const ETHERNET_MSS: u32 = 1448;
/// Headers around a segment, IPv4 and TCP, and what timestamps add.
const HEADERS: u32 = 40;
const TIMESTAMPS: u32 = 12;
/// What a packet of up to 1500 bytes takes of the receive buffer when it comes over the emulated link, in bytes: 2048 and
/// the kernel's own 256 (Linux 6.18).
const PACKET_MEMORY: u64 = 2304;
/// Buffers of so many windows have room for small segments, whose bookkeeping takes more memory than their data.
const WINDOWS_OF_SMALL_SEGMENTS: u64 = 4;
/// Buffers above this are nobody's: the scenario leaves them to the kernel.
const LARGEST_BUFFER: Bytes = Bytes::new((1 << 30) - 1);

/// A run, with the names of `bentpipe simulate`; null is what the kernel does not tell.
#[derive(Debug, Serialize)]
pub struct MeasuredRun {
    /// The scenario's variant.
    pub variant: Option<String>,
    /// The seed of the links' random processes.
    pub seed: u64,
    /// Each flow.
    pub flows: Vec<MeasuredFlow>,
    /// Both directions of the emulated link.
    pub links: Vec<MeasuredLink>,
    /// Events of a simulation: none here.
    pub events: Option<u64>,
    /// Data packets that were sent: the kernel does not tell.
    pub data_packets: Option<u64>,
}

/// A flow that ended. Times are in seconds since the first flow's start.
#[derive(Debug, Serialize)]
pub struct MeasuredFlow {
    /// Its name.
    pub name: String,
    /// Bytes that arrived.
    pub bytes: u64,
    /// When the client connected.
    pub start_s: f64,
    /// When the receiver had the last byte.
    pub end_s: f64,
    /// Bytes over the time between.
    pub goodput_bps: f64,
    /// Whether all arrived as it was sent.
    pub complete: bool,
    /// Segments sent again.
    pub retransmissions: u32,
    /// Arrivals, counted from its start.
    #[serde(skip)]
    pub trace: Trace,
    /// The sender's windows, where the scenario records the flow.
    #[serde(skip)]
    pub windows: Vec<WindowSample>,
}

/// A direction of the emulated link.
#[derive(Debug, Serialize)]
pub struct MeasuredLink {
    /// The link's name.
    pub name: String,
    /// Where it starts.
    pub from: String,
    /// Where it ends.
    pub to: String,
    /// Packets that left at its end.
    pub delivered_packets: u64,
    /// Those that did not, by reason.
    pub dropped: emulator::Dropped,
}

impl RealScenario {
    /// What of `scenario` is to be run.
    ///
    /// # Errors
    /// Names what has no counterpart in the kernel or on an emulated link, and says what has.
    pub fn new(scenario: &Scenario) -> Result<Self, Error> {
        if let Some(gateway) = scenario.gateways.first() {
            return Err(Error::Input(format!("gateway `{}`: only flows from end to end run for real", gateway.name)));
        }
        let network = std::sync::Arc::clone(&scenario.network);
        let emulated = emulated_link(&network)?;
        let mut controls = Controls::default();
        let flows = scenario
            .flows
            .iter()
            .map(|flow| RealFlow::new(&network, emulated, flow, &mut controls))
            .collect::<Result<Vec<_>, _>>()?;
        let record = &scenario.settings.record;
        let wants_windows = record.window_changes || record.flow_interval.is_some();
        for flow in &flows {
            let shares_route = |other: &&RealFlow| other.sends_at_first() == flow.sends_at_first();
            if let Some(other) = flows.iter().filter(shares_route).find(|other| other.route != flow.route) {
                return Err(Error::Input(format!(
                    "flows `{}` and `{}` leave the same host with different initial windows or segments: for real, these are the \
                     route's, and the same for both",
                    flow.name, other.name
                )));
            }
            let shares_host = |other: &&RealFlow| shares_route(other) && other.window != flow.window;
            if let Some(other) = flows.iter().find(|other| shares_host(other) || other.timestamps != flow.timestamps) {
                return Err(Error::Input(format!(
                    "flows `{}` and `{}` have different windows for small segments, or timestamps: for real, these are the host's, \
                     and the same for both",
                    flow.name, other.name
                )));
            }
        }
        let end = end(&flows, scenario.settings.stop.at)?;
        Ok(Self { network, emulated, flows, end, wants_windows, _controls: controls })
    }

    /// Runs it with one seed, in namespaces that are gone afterwards.
    ///
    /// # Errors
    /// If the machine lacks something or a flow fails.
    pub fn run(&self, variant: Option<String>, seed: u64) -> Result<MeasuredRun, Error> {
        let config =
            |direction: DirectionId| LinkConfig { seed, ..self.network.directions()[direction.index()].config.clone() };
        let satellite = Satellite { return_link: config(self.emulated), forward: config(self.emulated.reverse()) };
        let topology = Topology::without_ipv6(1, Some(satellite))?;
        let (first, second) = (&topology.terminals[0], &topology.hub);
        for (site, is_first) in [(first, true), (second, false)] {
            let route = self.route(is_first);
            if route != RouteSettings::default() {
                site.set_route(route)?;
            }
        }
        if self.flows.iter().any(|flow| !flow.timestamps) {
            topology.set_host_sysctls(&[("ipv4/tcp_timestamps", "0")])?;
        }
        let plans: Vec<_> = self
            .flows
            .iter()
            .map(|flow| {
                let (client, server) = if flow.is_from_first { (first, second) } else { (second, first) };
                let ends = Ends { client, server };
                let windows = (self.wants_windows && flow.is_recorded).then_some(WINDOW_INTERVAL);
                flows::Plan { ends, workload: &flow.workload, start: flow.start, windows }
            })
            .collect();
        let ended = match self.end {
            Some(end) => bulk::run(&plans, end)?,
            None => flows::run_plans(&plans)?,
        };
        let report = topology.stop()?.ok_or_else(|| Error::failed("there was no emulated link"))?;
        let start = ended.iter().map(|flow| flow.start).min().ok_or_else(|| Error::failed("there was no flow"))?;
        let measured = self.flows.iter().zip(&ended).map(|(flow, ended)| MeasuredFlow::new(&flow.name, ended, start));
        let links = [(self.emulated, &report.up), (self.emulated.reverse(), &report.down)];
        Ok(MeasuredRun {
            variant,
            seed,
            flows: measured.collect(),
            links: links.map(|(direction, report)| MeasuredLink::new(&self.network, direction, report)).into(),
            events: None,
            data_packets: None,
        })
    }
}

impl RealScenario {
    /// What the flows want of the route of the host at the link's first node, or at the other: those that send from there
    /// their initial window and segments, those that receive there their window.
    fn route(&self, at_first: bool) -> RouteSettings {
        let (sending, receiving): (Vec<_>, Vec<_>) =
            self.flows.iter().partition(|flow| flow.sends_at_first() == at_first);
        let settings = sending.first().map(|flow| flow.route).unwrap_or_default();
        RouteSettings { window: receiving.first().and_then(|flow| flow.window), ..settings }
    }
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

/// When flows without an end are to be cut off; `None` if all have an end.
fn end(flows: &[RealFlow], stop: Option<units::Instant>) -> Result<Option<Duration>, Error> {
    match flows.iter().filter(|flow| flow.is_endless).count() {
        0 => Ok(None),
        count if count < flows.len() => {
            Err(Error::Input("flows with and without an end: for real, all have one or none has".to_owned()))
        }
        _ => stop
            .map(|stop| Some(stop.since(units::Instant::ZERO)))
            .ok_or_else(|| Error::Input("flows without an end need a time at which to stop (`stop.time`)".to_owned())),
    }
}

/// The only link that is more than a wire.
fn emulated_link(network: &Network) -> Result<DirectionId, Error> {
    let is_wire = |config: &LinkConfig| {
        let LinkConfig { seed, stream, .. } = *config;
        let wire = LinkConfig {
            rate: None,
            queue: link::QueueLimit::Unlimited,
            seed,
            stream,
            ..LinkConfig::new(units::Rate::ZERO, Duration::ZERO)
        };
        *config == wire
    };
    let mut names: Vec<_> = network
        .directions()
        .iter()
        .filter(|direction| !is_wire(&direction.config))
        .map(|direction| direction.link.as_str())
        .collect();
    names.dedup();
    match names[..] {
        [name] => network.link(name).ok_or_else(|| Error::failed(format!("link `{name}` is gone"))),
        [] => Err(Error::Input("no link has a rate, a delay or losses: there is nothing to emulate".to_owned())),
        _ => Err(Error::Input(format!(
            "links {} have a rate, a delay or losses: one link is emulated, the others must be wires (no rate, no delay)",
            names.join(", ")
        ))),
    }
}

impl RealFlow {
    /// Whether the data leave the host at the link's first node.
    fn sends_at_first(&self) -> bool {
        self.is_from_first == (self.workload.direction == Direction::Up)
    }

    fn new(
        network: &Network,
        emulated: DirectionId,
        flow: &FlowConfig,
        controls: &mut Controls,
    ) -> Result<Self, Error> {
        let refused = |problem: &str| Error::Input(format!("flow `{}`: {problem}", flow.name));
        let Traffic::Tcp { client, server, application } = &flow.traffic else {
            return Err(refused("only TCP flows run for real"));
        };
        let Application::Bulk { size, transfer } = application else {
            return Err(refused("only files (`bulk`) run for real"));
        };
        if size.is_none() && *transfer != Transfer::Upload {
            return Err(refused("without an end only an upload runs for real"));
        }
        if !flow.start.spread.is_zero() {
            return Err(refused("its start is random: give it a time"));
        }
        let crosses =
            |from: NodeId, to: NodeId, direction| network.path(from, to).is_some_and(|path| path.contains(&direction));
        let is_from_first = crosses(flow.from, flow.to, emulated);
        if !is_from_first && !crosses(flow.from, flow.to, emulated.reverse()) {
            return Err(refused("it does not cross the emulated link"));
        }
        let (direction, sender, receiver) = match transfer {
            Transfer::Upload => (Direction::Up, client, server),
            Transfer::Download { .. } => (Direction::Down, server, client),
        };
        let window = (receiver.receive_buffer.size.as_u64() as f64 * receiver.receive_buffer.share) as u64;
        let buffer = given(receiver.receive_buffer.size);
        let has_small_segments = sender.mss < ETHERNET_MSS / 2;
        let timestamps = sender.options.timestamps && receiver.options.timestamps;
        Ok(Self {
            name: flow.name.clone(),
            start: flow.start.at.since(units::Instant::ZERO),
            is_from_first,
            workload: Workload {
                direction,
                size: size.unwrap_or(Bytes::ZERO),
                checksum: Checksum::Sha256,
                family: Family::V4,
                congestion_control: Some(kernel_control(sender, controls).map_err(|problem| refused(&problem))?),
                send_buffer: given(sender.send_buffer),
                // The kernel doubles the option, and offers of that the share that packets have of their memory. For small
                // segments there is more than that, and the route sets the window.
                receive_buffer: buffer.map(|_| {
                    let small = Bytes::new(window * WINDOWS_OF_SMALL_SEGMENTS);
                    let plain = Bytes::new(window * PACKET_MEMORY / u64::from(sender.mss) / 2);
                    if has_small_segments { small } else { plain }
                }),
                timeout: Duration::from_secs(60),
                seed: 1,
            },
            is_endless: size.is_none(),
            route: RouteSettings {
                initial_window: (sender.initial_window != KERNEL_INITIAL_WINDOW)
                    .then_some(sender.initial_window as u32),
                mtu: (sender.mss != ETHERNET_MSS)
                    .then_some(sender.mss + HEADERS + if timestamps { TIMESTAMPS } else { 0 }),
                window: None,
            },
            window: buffer.filter(|_| has_small_segments).map(|_| window as u32),
            timestamps,
            is_recorded: flow.record,
        })
    }
}

/// A buffer that the scenario sets.
fn given(buffer: Bytes) -> Option<Bytes> {
    (buffer <= LARGEST_BUFFER).then_some(buffer)
}

/// The kernel's name of an endpoint's congestion control.
fn kernel_control(config: &Config, controls: &mut Controls) -> Result<String, String> {
    if !matches!(config.recovery.name, "sack" | "rack") {
        return Err(format!(
            "recovery {}: the kernel recovers by SACK and time (`sack` or `rack`)",
            config.recovery.name
        ));
    }
    controls.name(config)
}

impl MeasuredFlow {
    fn new(name: &str, flow: &Flow, start: Instant) -> Self {
        let since = |at: Instant| at.duration_since(start).as_secs_f64();
        Self {
            name: name.to_owned(),
            bytes: flow.bytes.as_u64(),
            start_s: since(flow.start),
            end_s: since(flow.end),
            goodput_bps: flow.goodput().as_bps() as f64,
            complete: flow.verified && flow.bytes > Bytes::ZERO,
            retransmissions: flow.retransmitted_segments,
            trace: flow.trace.clone(),
            windows: flow.windows.clone(),
        }
    }
}

impl MeasuredLink {
    fn new(network: &Network, direction: DirectionId, report: &DirectionReport) -> Self {
        let config = &network.directions()[direction.index()];
        Self {
            name: config.link.clone(),
            from: network.node_name(config.from).to_owned(),
            to: network.node_name(config.to).to_owned(),
            delivered_packets: report.delivered.packets,
            dropped: report.dropped,
        }
    }
}
