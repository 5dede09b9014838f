//! Pairs of gateways that split the TCP connections whose way passes both.
//!
//! | file | idea |
//! | --- | --- |
//! | `mod.rs` | what a pair is, which flows it splits, what it reports |
//! | `assigned.rs` | a pair that speaks SaTPEP as its paper has it |
//! | `half.rs` | one TCP connection of a gateway |
//! | `relays/` | a pair that speaks the satellite transport |
//! | `modem.rs` | the reports of a link's modem |
//! | `cross_traffic.rs` | what cross traffic takes of its link |
//! | `session.rs` | the transport's two endpoints, connected before the run begins |
//! | `splices.rs` | a pair that speaks TCP |
//! | `allocation.rs` | what the carrier of a terminal allocates to the gateway beside it |

mod allocation;
mod assigned;
mod cross_traffic;
mod half;
mod modem;
mod relays;
mod session;
mod splices;

use crate::agent::TIMERS;
use crate::packet::{Body, Parcel};
use crate::wire::{CLIENT, PathTable, SERVER, Wire};
use crate::{CapacitySource, FlowConfig, GatewayConfig, GatewayError, Network, NodeId, SatpepSettings, Transport};
use serde::Serialize;
use std::collections::BTreeMap;

use assigned::Assigned;
pub(crate) use half::Address;
use relays::Relays;
use splices::Splices;

/// A pair at work.
#[derive(Debug)]
pub(crate) enum Gateway {
    Relays(Box<Relays>),
    Assigned(Box<Assigned>),
    Splices(Box<Splices>),
}

/// Which pair splits which flows.
#[derive(Debug, Clone, Default)]
pub(crate) struct SplitFlows {
    /// The number of the first pair as agents: those below are flows.
    pub(crate) first_pair: u32,
    /// The flows of each pair.
    pub(crate) pairs: Vec<Vec<Split>>,
    /// The pair of each flow that is split, and the flow's number there.
    places: BTreeMap<u32, (usize, usize)>,
}

impl SplitFlows {
    /// A flow that several pairs would split belongs to the first of them.
    pub(crate) fn new(
        gateways: &[GatewayConfig],
        network: &Network,
        flows: &[FlowConfig],
    ) -> Result<Self, GatewayError> {
        let mut names = std::collections::BTreeSet::new();
        for pair in gateways {
            if !names.insert(pair.name.as_str()) {
                return Err(pair.error("there are two pairs of this name: names must differ"));
            }
            if pair.nodes[0] == pair.nodes[1] {
                let node = network.node_name(pair.nodes[0]);
                return Err(pair.error(format!("both its nodes are `{node}`: a pair has two")));
            }
        }
        let first_pair = flows.len() as u32;
        let mut split = Self { first_pair, pairs: vec![Vec::new(); gateways.len()], places: BTreeMap::new() };
        if gateways.is_empty() {
            return Ok(split);
        }
        for (number, flow) in flows.iter().enumerate() {
            let found = gateways.iter().enumerate().find_map(|(at, pair)| Some((at, pair.splits(network, flow)?)));
            if let Some((at, first)) = found {
                split.places.insert(number as u32, (at, split.pairs[at].len()));
                split.pairs[at].push(Split { flow: number as u32, first, client: flow.from, server: flow.to });
            }
        }
        Ok(split)
    }

    /// The first timer of each pair, and the number of all timers.
    pub(crate) fn timers(&self) -> (Vec<u32>, u32) {
        let mut next = self.first_pair * TIMERS;
        let mut first = Vec::with_capacity(self.pairs.len());
        for flows in &self.pairs {
            first.push(next);
            next += END_TIMERS + FLOW_TIMERS * flows.len() as u32;
        }
        (first, next)
    }

    /// To whom the client and the server of a flow send: to one another, or to the gateways that face them.
    pub(crate) fn peers(&self, flow: u32) -> [Address; 2] {
        let Some(&(pair, at)) = self.places.get(&flow) else {
            return [SERVER, CLIENT].map(|port| Address { agent: flow, port });
        };
        let (agent, first) = (self.first_pair + pair as u32, self.pairs[pair][at].first);
        [port(at, first, 0), port(at, 1 - first, 1)].map(|port| Address { agent, port })
    }

    /// The gateway's node that an address means.
    pub(crate) fn node_of(&self, gateways: &[GatewayConfig], address: Address) -> Option<NodeId> {
        let pair = address.agent.checked_sub(self.first_pair)?;
        Some(gateways[pair as usize].nodes[split_of(address.port).1])
    }

    /// The flow of a packet, and whether it goes to the server.
    pub(crate) fn flow(&self, parcel: &Parcel) -> (u32, bool) {
        match (parcel.agent.checked_sub(self.first_pair), &parcel.body) {
            (Some(pair), Body::Tcp(_)) => {
                let (split, _, half) = split_of(parcel.port);
                (self.pairs[pair as usize][split].flow, half == 0)
            }
            _ => (parcel.agent, parcel.port == SERVER),
        }
    }
}

/// The flow that a pair splits, and where its ends are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Split {
    pub(crate) flow: u32,
    /// Which of the pair's nodes is the first on the way from the client: that faces the client.
    pub(crate) first: usize,
    pub(crate) client: NodeId,
    pub(crate) server: NodeId,
}

/// Timers of a pair: one for each of its two ends, and of each flow one for each half at each end.
const END_TIMERS: u32 = 2;
const FLOW_TIMERS: u32 = 4;

/// What a pair needs to make itself a place in the network.
pub(crate) struct Site<'a> {
    pub(crate) wire: &'a mut Wire,
    pub(crate) paths: &'a mut PathTable,
    pub(crate) network: &'a Network,
    /// The number by which packets address it, and its first timer.
    pub(crate) agent: u32,
    pub(crate) timer: u32,
    pub(crate) seed: u64,
}

/// The port of a half of the flow number `split` of a pair at its end `side`; half 0 faces the client, half 1 the server.
fn port(split: usize, side: usize, half: usize) -> u32 {
    (split * FLOW_TIMERS as usize + side * 2 + half) as u32
}

/// The flow (by its number in the pair) and the half behind a port or, without [`END_TIMERS`], a timer.
fn split_of(port: u32) -> (usize, usize, usize) {
    let port = port as usize;
    (port / FLOW_TIMERS as usize, port / 2 % 2, port % 2)
}

impl Gateway {
    /// The pair, ready for its flows.
    pub(crate) fn new(config: &GatewayConfig, splits: Vec<Split>, site: Site<'_>) -> Result<Self, GatewayError> {
        match &config.transport {
            Transport::Satpep(transport) => {
                Relays::new(config, transport, splits, site).map(|relays| Gateway::Relays(Box::new(relays)))
            }
            Transport::Satpep2003(paper) => {
                Assigned::new(config, paper, splits, site).map(|pair| Gateway::Assigned(Box::new(pair)))
            }
            Transport::Tcp(satellite) => {
                Splices::new(config, satellite, splits, site).map(|splices| Gateway::Splices(Box::new(splices)))
            }
        }
    }

    pub(crate) fn handle_packet(&mut self, wire: &mut Wire, parcel: &Parcel) {
        match self {
            Gateway::Relays(relays) => relays.handle_packet(wire, parcel),
            Gateway::Assigned(pair) => pair.handle_packet(wire, parcel),
            Gateway::Splices(splices) => splices.handle_packet(wire, parcel),
        }
    }

    /// One of its timers was due, by its number among them.
    pub(crate) fn handle_timeout(&mut self, wire: &mut Wire, timer: u32) {
        match self {
            Gateway::Relays(relays) => relays.handle_timeout(wire, timer),
            Gateway::Assigned(pair) => pair.handle_timeout(wire, timer),
            Gateway::Splices(splices) => splices.handle_timeout(wire, timer),
        }
    }

    /// A carrier may have sent its terminals new allocations: [`Wire::allocated`] says what.
    pub(crate) fn handle_allocation(&mut self, wire: &mut Wire) {
        match self {
            Gateway::Splices(splices) => splices.follow(wire),
            Gateway::Relays(relays) => relays.follow(wire),
            Gateway::Assigned(_) => {}
        }
    }

    /// Bytes that it occupies, roughly.
    pub(crate) fn memory(&self) -> usize {
        match self {
            Gateway::Relays(relays) => relays.memory(),
            Gateway::Assigned(pair) => pair.memory(),
            Gateway::Splices(splices) => splices.memory(),
        }
    }

    pub(crate) fn report(&self, config: &GatewayConfig, flows: &[FlowConfig]) -> GatewayReport {
        let (streams, sessions, transport) = match self {
            Gateway::Relays(relays) => (relays.streams(), relays.sessions(), None),
            Gateway::Assigned(pair) => (pair.streams(), Vec::new(), Some(pair.transport())),
            Gateway::Splices(splices) => (splices.streams(), Vec::new(), None),
        };
        let named =
            |(flow, stream): (u32, StreamReport)| StreamReport { flow: flows[flow as usize].name.clone(), ..stream };
        let transitions = match self {
            Gateway::Relays(relays) => relays.transitions(flows),
            Gateway::Assigned(_) | Gateway::Splices(_) => Vec::new(),
        };
        let streams = streams.into_iter().map(named).collect();
        GatewayReport { name: config.name.clone(), streams, sessions, transport, transitions }
    }
}

/// One pair's results.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GatewayReport {
    /// Its name.
    pub name: String,
    /// The flows that it split.
    pub streams: Vec<StreamReport>,
    /// What each end of the satellite transport's session counted; empty where TCP is spoken.
    pub sessions: Vec<SessionReport>,
    /// What both gateways sent to one another over SaTPEP's connections; null where something else is spoken.
    pub transport: Option<TransportReport>,
    /// What happened to relayed connections, in order, if [asked for](SatpepSettings::report_transitions).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub transitions: Vec<TransitionReport>,
}

/// A transition of a relayed connection at one gateway (see [`relay::connection`]).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TransitionReport {
    /// When.
    pub at_s: f64,
    /// The gateway's node.
    pub node: String,
    /// The flow; empty before the far gateway knows it.
    pub flow: String,
    /// The state before.
    pub from: String,
    /// What happened.
    pub event: String,
    /// The state after.
    pub to: String,
}

/// What both gateways of a pair sent to one another over TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct TransportReport {
    /// Data packets, retransmissions included.
    pub data_packets: u64,
    /// Data packets that were sent again.
    pub retransmissions: u64,
    /// Expiries of retransmission timers.
    pub rtos: u64,
}

/// What passed through a pair for one flow.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct StreamReport {
    /// The flow.
    pub flow: String,
    /// When the first gateway had accepted the client; null if it has not.
    pub accepted_s: Option<f64>,
    /// When the second gateway was connected to the server.
    pub connected_s: Option<f64>,
    /// Bytes from the client that the first gateway passed on, and of them those given to the server's connection.
    pub from_client: u64,
    /// See `from_client`.
    pub to_server: u64,
    /// Bytes from the server that the second gateway passed on, and of them those given to the client's connection.
    pub from_server: u64,
    /// See `from_server`.
    pub to_client: u64,
    /// How it stands at each gateway, in the order in which the flow passes them.
    pub states: [String; 2],
}

/// What one end of the satellite transport's session counted, from before the simulation began.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionReport {
    /// The node.
    pub node: String,
    /// Packets sent, and their IP bytes.
    pub sent_packets: u64,
    /// See `sent_packets`.
    pub sent_bytes: u64,
    /// Packets that the other end is known not to have received.
    pub lost_packets: u64,
    /// Stream bytes sent for the first time, and those sent again.
    pub stream_bytes: u64,
    /// See `stream_bytes`.
    pub retransmitted_bytes: u64,
    /// Bytes of FEC repair symbols sent.
    pub repair_bytes: u64,
    /// Stream bytes that the other end's FEC recovered.
    pub recovered_bytes: u64,
    /// Smoothed round-trip time.
    pub rtt_s: Option<f64>,
}
