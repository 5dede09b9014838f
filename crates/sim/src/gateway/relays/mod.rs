//! A pair of gateways that speaks the satellite transport: the relay engine and the endpoints of `satpep`, as the deployed gateway
//! runs them, between simulated TCP connections.
//!
//! | file | idea |
//! | --- | --- |
//! | `mod.rs` | the pair: which gateway a packet or a timer is for, what goes end to end, what is reported |
//! | `side.rs` | one gateway: engine, endpoint and its capacity source |
//! | `hosts.rs` | simulated TCP towards the hosts |
//! | `satellite.rs` | the transport in virtual time |

mod hosts;
mod satellite;
mod side;

use super::half::Route;
use super::session::Session;
use super::site::Site;
use crate::packet::{Address, Body, CLIENT, Parcel, SERVER};
use crate::split::{END_TIMERS, Split, port, split_of};
use crate::wire::{Path, Wire};
use crate::{
    CapacityMode, DirectionId, FlowConfig, GatewayConfig, GatewayError, Network, NodeId, SatpepSettings, SessionReport,
    StreamReport, TransitionReport,
};
use link::{LinkConfig, QueueLimit};
use side::{Place, Side};
use units::{CounterRandom, Duration, Instant, Rate};

/// A pair at work.
#[derive(Debug)]
pub(crate) struct Relays {
    sides: [Side; 2],
    splits: Vec<Split>,
    /// What goes end to end past the pair, by the pair's number of the flow.
    past: Vec<Past>,
    /// The pair's first timer.
    timer: u32,
}

/// The way of a flow past the pair: from the first gateway to the server, from the second to the client.
#[derive(Debug, Clone, Copy)]
struct Past {
    paths: [Path; 2],
    is_taken: bool,
}

impl Relays {
    pub(crate) fn new(
        config: &GatewayConfig,
        transport: &SatpepSettings,
        splits: Vec<Split>,
        site: Site<'_>,
    ) -> Result<Self, GatewayError> {
        let Site { wire, paths, network, agent, timer, seed } = site;
        let session = connect(config, transport, network, seed)?;
        let mut path = |from: NodeId, to: NodeId| {
            paths.find(wire, network, from, to).ok_or_else(|| {
                let (from, to) = (network.node_name(from), network.node_name(to));
                config.error(format!("node `{to}` cannot be reached from node `{from}`: no links lead there"))
            })
        };
        let Session { ends, peers, begun } = session;
        let mut sides = Vec::with_capacity(2);
        for (number, (endpoint, peer)) in ends.into_iter().zip(peers).enumerate() {
            let [node, other] = [number, 1 - number].map(|side| config.nodes[side]);
            let to = Address { agent, port: 1 - number as u32 };
            let satellite = Route { node, path: path(node, other)?, to, timer: timer + number as u32 };
            let mut routes = Vec::with_capacity(splits.len());
            for (at, split) in splits.iter().enumerate() {
                let is_near = split.first == number;
                let (half, host, end) = if is_near { (0, split.client, CLIENT) } else { (1, split.server, SERVER) };
                let to = Address { agent: split.flow, port: end };
                let timer = timer + END_TIMERS + port(at, number, half);
                routes.push((Route { node, path: path(node, host)?, to, timer }, is_near));
            }
            let place = Place { number, nodes: [node, other], satellite, ahead: begun.since(Instant::ZERO) };
            let stalls = CounterRandom::new(seed, number as u64);
            sides.push(Side::new(place, (endpoint, peer, stalls), routes, config, transport, &splits, network));
        }
        let past = |split: &Split| {
            let [first, second] = [split.first, 1 - split.first].map(|side| config.nodes[side]);
            Ok(Past { paths: [path(first, split.server)?, path(second, split.client)?], is_taken: false })
        };
        let past = splits.iter().map(past).collect::<Result<_, GatewayError>>()?;
        let sides: [Side; 2] = sides.try_into().expect("a pair has two sides");
        sides.iter().for_each(|side| side.arm(wire));
        Ok(Self { sides, splits, past, timer })
    }

    pub(crate) fn handle_packet(&mut self, wire: &mut Wire, parcel: &Parcel) {
        match &parcel.body {
            Body::Tcp(segment) => {
                let (split, side, half) = split_of(parcel.port);
                if half == 0 && segment.has(tcp::Flags::SYN) && !self.sides[side].has_client(split as u32) {
                    self.past[split].is_taken = !self.sides[side].intercepts(split as u32);
                }
                if self.past[split].is_taken {
                    self.pass_on(wire, split, half, parcel.body);
                } else {
                    self.sides[side].handle_segment(wire, split as u32, segment);
                }
            }
            Body::Datagram(id) => {
                self.sides[parcel.port as usize].handle_datagram(wire, *id);
            }
            _ => {}
        }
    }

    /// Sends a segment of a flow that goes end to end on, as a router does.
    fn pass_on(&self, wire: &mut Wire, split: usize, half: usize, body: Body) {
        let Body::Tcp(segment) = &body else { return };
        let flow = &self.splits[split];
        let node = self.sides[if half == 0 { flow.first } else { 1 - flow.first }].node();
        let size = segment.len + u32::from(segment.header);
        let port = if half == 0 { SERVER } else { CLIENT };
        wire.send(node, self.past[split].paths[half], size, Parcel { agent: flow.flow, port, body });
    }

    pub(crate) fn handle_timeout(&mut self, wire: &mut Wire, timer: u32) {
        if timer < END_TIMERS {
            let deadline = self.sides[timer as usize].handle_timeout(wire);
            return wire.set_timer(self.timer + timer, deadline);
        }
        let (split, side, _) = split_of(timer - END_TIMERS);
        let deadline = self.sides[side].handle_tcp_timeout(wire, split as u32);
        wire.set_timer(self.timer + timer, deadline);
    }

    /// Tells the session what the carriers on its way give it, where that is news.
    pub(crate) fn follow(&mut self, wire: &mut Wire) {
        self.sides.iter_mut().filter(|side| side.follows_carrier()).for_each(|side| side.flush(wire));
    }

    pub(crate) fn memory(&self) -> usize {
        self.sides.iter().map(Side::memory).sum()
    }

    /// What passed for each flow, by its number.
    pub(crate) fn streams(&self) -> Vec<(u32, StreamReport)> {
        let stream = |(number, (split, past)): (usize, (&Split, &Past))| {
            let [first, second] = [split.first, 1 - split.first].map(|side| self.sides[side].relayed(number));
            let name = |state: &str| if past.is_taken { "bypassed".to_owned() } else { state.to_owned() };
            let report = StreamReport {
                flow: String::new(),
                accepted_s: first.since.map(Instant::as_secs_f64),
                connected_s: second.since.map(Instant::as_secs_f64),
                from_client: first.from_tcp,
                to_server: second.to_tcp,
                from_server: second.from_tcp,
                to_client: first.to_tcp,
                states: [name(&first.state), name(&second.state)],
            };
            (split.flow, report)
        };
        self.splits.iter().zip(&self.past).enumerate().map(stream).collect()
    }

    /// What happened to relayed connections, by time.
    pub(crate) fn transitions(&self, flows: &[FlowConfig]) -> Vec<TransitionReport> {
        let flow = |split: u32| flows[self.splits[split as usize].flow as usize].name.clone();
        let mut all: Vec<_> = self.sides.iter().flat_map(|side| side.transitions(&flow)).collect();
        all.sort_by(|one, other| one.at_s.total_cmp(&other.at_s));
        all
    }

    pub(crate) fn sessions(&self) -> Vec<SessionReport> {
        self.sides.iter().map(Side::session).collect()
    }

    pub(crate) fn capacity_estimates(&self, now: Instant) -> [satpep::Estimate; 2] {
        [&self.sides[0], &self.sides[1]].map(|side| side.capacity_estimate(now))
    }
}

/// A session over the path between the two nodes.
fn connect(
    config: &GatewayConfig,
    transport: &SatpepSettings,
    network: &Network,
    seed: u64,
) -> Result<Session, GatewayError> {
    let [a, b] = config.nodes;
    let end = |side: usize, from: NodeId, to: NodeId| {
        let [from_name, to_name] = [from, to].map(|node| network.node_name(node));
        let path = network.path(from, to).filter(|path| !path.is_empty());
        let path = path.ok_or_else(|| config.error(format!("no links lead from node `{from_name}` to `{to_name}`")))?;
        let slowest = path.iter().filter_map(|direction| network.highest_rate(*direction)).min();
        let rate = transport.rate[side].or(slowest).ok_or_else(|| {
            config.error(format!("the links from `{from_name}` to `{to_name}` have no rate: give the pair its `rate`"))
        })?;
        Ok((rate, bottleneck(network, &path, rate)))
    };
    let ((there, mut link_there), (back, mut link_back)) = (end(0, a, b)?, end(1, b, a)?);
    if let Some(rtt) = transport.rtt {
        (link_there.delay, link_back.delay) = (rtt / 2, rtt - rtt / 2);
    }
    let rtt = link_there.delay + link_back.delay;
    Session::connect([there, back], [link_there, link_back], seed, |endpoint| {
        endpoint.pacing_gain = transport.pacing_gain;
        endpoint.receive_memory = transport.receive_memory;
        endpoint.outage_limit = transport.outage_limit.unwrap_or(endpoint.outage_limit);
        (endpoint.repair, endpoint.repair_overhead) = (transport.repair, transport.repair_overhead);
        endpoint.capacity_is_fixed = transport.capacity == CapacityMode::Fixed;
        endpoint.estimator_parts = transport.estimator_parts;
        endpoint.prior = Some(transport.rate_confidence.prior(endpoint.capacity));
        endpoint.cross_traffic = transport.cross_traffic;
        endpoint.max_streams = transport.max_streams.unwrap_or(endpoint.max_streams);
    })
    .ok_or_else(|| {
        let needs = "gateways need about 1kbit/s, and an `outage_limit` of several round trips";
        config.error(format!("no session comes up at {there} there, {back} back and a round trip of {rtt}: {needs}"))
    })
}

/// The slowest link of `path` without losses and queue limits, and with the delay of all of them: what endpoints find before the
/// run. Its rate is what they are `told` if none limits it.
fn bottleneck(network: &Network, path: &[DirectionId], told: Rate) -> LinkConfig {
    let config = |direction: &DirectionId| &network.directions()[direction.index()].config;
    let rate = |direction: &DirectionId| network.highest_rate(*direction);
    let delay = path.iter().fold(Duration::ZERO, |sum, direction| sum + config(direction).nominal_delay());
    let slowest = path.iter().filter(|direction| rate(direction).is_some()).min_by_key(|direction| rate(direction));
    let opportunities = slowest.and_then(|direction| config(direction).opportunities.clone());
    let rate = if opportunities.is_some() { None } else { slowest.and_then(rate).or(Some(told)) };
    LinkConfig { rate, opportunities, queue: QueueLimit::Unlimited, ..LinkConfig::new(told, delay) }
}
