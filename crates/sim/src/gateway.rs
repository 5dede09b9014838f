//! Pairs of gateways: proxies that split the TCP connections whose way leads through both.

use crate::agent::TIMERS;
use crate::agent::splice::{ENTRY_HOP, ENTRY_HOST, EXIT_HOP, EXIT_HOST, Splice, Splicing};
use crate::satpep2003::Satpep2003;
use crate::wire::{CLIENT, Path, PathTable, SERVER, Wire};
use crate::{DirectionId, FlowConfig, FlowError, Network, NetworkError, NodeId};
use std::collections::BTreeMap;
use std::sync::Arc;
use units::{Bytes, Duration, Rate};

/// A pair of gateways. A TCP flow whose way from client to server leads through both nodes, in either order, is split
/// there: its ends speak to the gateways, and the gateways a protocol of their own to each other. All else passes.
#[derive(Debug, Clone, PartialEq)]
pub struct GatewayPair {
    /// Unique among pairs.
    pub name: String,
    /// The two gateways.
    pub nodes: [NodeId; 2],
    /// The link that packets take from the first to the second, and back, where that is not the network's
    /// [path](Network::path): a satellite's forward link beside a terrestrial reverse path, say.
    pub via: [Option<DirectionId>; 2],
    /// What they speak.
    pub protocol: GatewayProtocol,
}

/// What a pair of gateways speaks.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum GatewayProtocol {
    /// The protocol of the SaTPEP paper.
    Satpep2003(Satpep2003),
}

/// Where a flow meets a pair of gateways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Crossing {
    /// The pair's number.
    pub(crate) pair: usize,
    /// The gateway near the client, and the one near the server.
    pub(crate) entry: NodeId,
    pub(crate) exit: NodeId,
}

impl Network {
    /// Adds a pair of gateways.
    ///
    /// # Errors
    /// If there is one of that name, if both are one node, or if a link that packets are to take does not lead from one to
    /// the other.
    pub fn add_gateways(&mut self, pair: GatewayPair) -> Result<(), NetworkError> {
        let fault = |problem| NetworkError::Gateways { pair: pair.name.clone(), problem };
        if self.gateways().iter().any(|other| other.name == pair.name) {
            return Err(fault("there are two pairs of this name: names must differ".to_owned()));
        }
        let [first, second] = pair.nodes;
        if first == second {
            let node = self.node_name(first);
            return Err(fault(format!("both gateways are node `{node}`: a pair has two nodes")));
        }
        for (via, [from, to]) in pair.via.iter().zip([[first, second], [second, first]]) {
            let Some(direction) = via.map(|via| &self.directions()[via.index()]) else { continue };
            if (direction.from, direction.to) != (from, to) {
                let [from, to] = [from, to].map(|node| self.node_name(node));
                return Err(fault(format!("link `{}` does not lead from `{from}` to `{to}`", direction.link)));
            }
        }
        self.push_gateways(pair);
        Ok(())
    }

    /// The first pair of gateways on the way from `from` to `to`, ends excluded.
    pub(crate) fn crossing(&self, from: NodeId, to: NodeId) -> Option<Crossing> {
        let path = self.path(from, to)?;
        let (_, inner) = path.split_last()?;
        let nodes: Vec<NodeId> = inner.iter().map(|direction| self.directions()[direction.index()].to).collect();
        let at = |node| nodes.iter().position(|&passed| passed == node);
        self.gateways().iter().enumerate().find_map(|(pair, gateways)| {
            let [first, second] = gateways.nodes;
            let (entry, exit) = if at(first)? < at(second)? { (first, second) } else { (second, first) };
            Some(Crossing { pair, entry, exit })
        })
    }

    /// The way from one gateway of a pair to the other.
    pub(crate) fn hop(&self, pair: usize, from: NodeId, to: NodeId) -> Option<Vec<DirectionId>> {
        let pair = &self.gateways()[pair];
        let via = pair.via[usize::from(from != pair.nodes[0])];
        via.map(|via| vec![via]).or_else(|| self.path(from, to))
    }
}

/// Connects the ends of flows, to each other or to gateways.
#[derive(Debug)]
pub(crate) struct Splicer<'a> {
    network: &'a Network,
    /// The number of the first agent that is no flow.
    first: u32,
    paths: PathTable,
    hops: BTreeMap<(NodeId, NodeId, usize), Hop>,
    /// What lies between the ends of the flows that are split, and the pair that splits each.
    pub(crate) splices: Vec<Splice>,
    pub(crate) pairs: Vec<usize>,
}

/// The way between two gateways.
#[derive(Debug, Clone)]
struct Hop {
    /// There and back.
    paths: [Path; 2],
    /// What divides the link into the entry and into the exit.
    allocators: [u32; 2],
    hop: Arc<tcp::Config>,
    host: Arc<tcp::Config>,
}

/// Paths that start at the client and at the server, and agent and port with which each speaks.
type Ends = ([Path; 2], [(u32, u32); 2]);

impl<'a> Splicer<'a> {
    pub(crate) fn new(network: &'a Network, first: u32) -> Self {
        Self {
            network,
            first,
            paths: PathTable::default(),
            hops: BTreeMap::new(),
            splices: Vec::new(),
            pairs: Vec::new(),
        }
    }

    /// Connects the ends of a flow.
    pub(crate) fn connect(
        &mut self,
        wire: &mut Wire,
        number: u32,
        flow: &FlowConfig,
        crossing: Option<Crossing>,
    ) -> Result<Ends, FlowError> {
        let Some(crossing) = crossing else {
            let paths = [self.path(wire, flow, flow.from, flow.to)?, self.path(wire, flow, flow.to, flow.from)?];
            return Ok((paths, [(number, SERVER), (number, CLIENT)]));
        };
        let Crossing { pair, entry, exit } = crossing;
        let hop = self.hop(wire, flow, crossing)?;
        let agent = self.first + self.splices.len() as u32;
        wire.record_as(agent, number);
        let GatewayProtocol::Satpep2003(protocol) = &self.network.gateways()[pair].protocol;
        let place = Splicing {
            timer: agent * TIMERS,
            nodes: [entry, entry, exit, exit],
            paths: [
                hop.paths[0],
                self.path(wire, flow, entry, flow.from)?,
                self.path(wire, flow, exit, flow.to)?,
                hop.paths[1],
            ],
            peers: [(agent, EXIT_HOP), (number, CLIENT), (number, SERVER), (agent, ENTRY_HOP)],
            opening: protocol.opening,
            allocators: hop.allocators,
        };
        self.splices.push(Splice::new(place, &hop.hop, &hop.host));
        self.pairs.push(pair);
        let paths = [self.path(wire, flow, flow.from, entry)?, self.path(wire, flow, flow.to, exit)?];
        Ok((paths, [(agent, ENTRY_HOST), (agent, EXIT_HOST)]))
    }

    fn path(&mut self, wire: &mut Wire, flow: &FlowConfig, from: NodeId, to: NodeId) -> Result<Path, FlowError> {
        let path = self.paths.find(wire, self.network, from, to);
        path.ok_or_else(|| flow.unreachable(self.network, from, to))
    }

    fn hop(&mut self, wire: &mut Wire, flow: &FlowConfig, crossing: Crossing) -> Result<Hop, FlowError> {
        let Crossing { pair, entry, exit } = crossing;
        if let Some(hop) = self.hops.get(&(entry, exit, pair)) {
            return Ok(hop.clone());
        }
        let way = |from, to| self.network.hop(pair, from, to).ok_or_else(|| flow.unreachable(self.network, from, to));
        let [there, back] = [way(entry, exit)?, way(exit, entry)?];
        let rtt = self.delay(&there) + self.delay(&back);
        let GatewayProtocol::Satpep2003(protocol) = &self.network.gateways()[pair].protocol;
        let mut product = Bytes::ZERO;
        let mut divide = |way: &[DirectionId]| {
            let capacity = self.capacity(way).ok_or_else(|| {
                let name = &self.network.gateways()[pair].name;
                flow.error(format!("gateways `{name}`: no link between them has a rate, so there is nothing to divide"))
            })?;
            product = product.max(capacity.bytes_in(rtt));
            let last = way.last().expect("two nodes are at least a link apart");
            Ok(wire.divide(*last, protocol.division(capacity, rtt)))
        };
        let allocators = [divide(&back)?, divide(&there)?];
        let hop = Hop {
            paths: [wire.add_path(&there), wire.add_path(&back)],
            allocators,
            hop: Arc::new(protocol.buffered(&protocol.hop, product)),
            host: Arc::new(protocol.buffered(&protocol.host, product)),
        };
        self.hops.insert((entry, exit, pair), hop.clone());
        Ok(hop)
    }

    fn delay(&self, way: &[DirectionId]) -> Duration {
        let delays = way.iter().map(|direction| self.network.directions()[direction.index()].config.delay);
        delays.fold(Duration::ZERO, |sum, delay| sum + delay)
    }

    /// The rate of the slowest link.
    fn capacity(&self, way: &[DirectionId]) -> Option<Rate> {
        way.iter().filter_map(|direction| self.network.directions()[direction.index()].config.rate).min()
    }
}
