//! Which pair of gateways splits which flows, and how the halves of a split flow are numbered.

use crate::packet::{Address, Body, CLIENT, Parcel, Part, SERVER};
use crate::{FlowConfig, GatewayConfig, GatewayError, Network, NodeId, Traffic, Ways};
use std::collections::BTreeMap;

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
        let (mut ways, mut between) = (Ways::default(), BTreeMap::new());
        for (number, flow) in flows.iter().enumerate().filter(|(_, flow)| matches!(flow.traffic, Traffic::Tcp { .. })) {
            // TCP flows between the same nodes belong to the same pair.
            let found = *between.entry((flow.from, flow.to)).or_insert_with(|| {
                let mut pairs = gateways.iter().enumerate();
                pairs.find_map(|(at, pair)| Some((at, pair.splits(network, &mut ways, flow)?)))
            });
            if let Some((at, first)) = found {
                split.places.insert(number as u32, (at, split.pairs[at].len()));
                split.pairs[at].push(Split { flow: number as u32, first, client: flow.from, server: flow.to });
            }
        }
        Ok(split)
    }

    /// The first timer of each pair, of which the first is `next`, and the number of all timers.
    pub(crate) fn timers(&self, mut next: u32) -> (Vec<u32>, u32) {
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
    #[inline]
    pub(crate) fn flow(&self, parcel: &Parcel) -> (u32, bool) {
        match (parcel.agent.checked_sub(self.first_pair), &parcel.body) {
            (Some(pair), Body::Tcp(_)) => {
                let (split, _, half) = split_of(parcel.port);
                (self.pairs[pair as usize][split].flow, half == 0)
            }
            _ => (parcel.agent, parcel.port == SERVER),
        }
    }

    /// What packets of one flow in one direction have in common at a link: a gateway is one agent for all of its flows.
    #[inline]
    pub(crate) fn identity(&self, parcel: &Parcel) -> u32 {
        let (flow, to_server) = self.flow(parcel);
        flow << 1 | u32::from(to_server)
    }

    /// Of which connection of its flow a packet is.
    pub(crate) fn part(&self, parcel: &Parcel) -> Part {
        let (Some(pair), Body::Tcp(_)) = (parcel.agent.checked_sub(self.first_pair), &parcel.body) else {
            return if parcel.port == SERVER { Part::Server } else { Part::Client };
        };
        let (split, side, half) = split_of(parcel.port);
        let faces_client = side == self.pairs[pair as usize][split].first;
        match half {
            0 if faces_client => Part::Client,
            1 if !faces_client => Part::Server,
            _ => Part::Between,
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
pub(crate) const END_TIMERS: u32 = 2;
const FLOW_TIMERS: u32 = 4;

/// The port of a half of the flow number `split` of a pair at its end `side`; half 0 faces the client, half 1 the server.
pub(crate) fn port(split: usize, side: usize, half: usize) -> u32 {
    (split * FLOW_TIMERS as usize + side * 2 + half) as u32
}

/// The flow (by its number in the pair) and the half behind a port or, without [`END_TIMERS`], a timer.
pub(crate) fn split_of(port: u32) -> (usize, usize, usize) {
    let port = port as usize;
    (port / FLOW_TIMERS as usize, port / 2 % 2, port % 2)
}
