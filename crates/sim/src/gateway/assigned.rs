//! A pair of gateways that speaks SaTPEP as the paper has it ([`crate::satpep2003`]): each flow is three TCP connections.
//!
//! ```text
//!  client ──► half 0 │ half 1 ──── satellite ──── half 0 │ half 1 ──► server
//!            first gateway                     second gateway
//! ```

use super::half::{Route, SplitHalf, SplitHalves};
use super::site::Site;
use crate::packet::{Address, Body, CLIENT, Parcel, SERVER};
use crate::satpep2003::{Accept, ConnectionId, Satpep2003};
use crate::split::{END_TIMERS, Split, port, split_of};
use crate::wire::{Path, Wire};
use crate::{DirectionId, GatewayConfig, GatewayError, NodeId, StreamReport, TransportReport};
use std::sync::Arc;
use tcp::{Connection, Flags, Segment};
use units::{Bytes, Duration};

/// A pair at work.
#[derive(Debug)]
pub(crate) struct Assigned {
    /// Of each flow, both gateways in the order in which it passes them.
    middles: Vec<[Gate; 2]>,
    splits: Vec<Split>,
    /// The pair's first timer.
    timer: u32,
}

/// One flow at one gateway.
#[derive(Debug)]
struct Gate {
    /// The second is made once a SYN has come.
    split: SplitHalves,
    /// How the second connects.
    onward: (Arc<tcp::Config>, Route),
    accept: Accept,
    /// A SYN that is answered once the connection further on is open.
    held: Option<Segment>,
    was_answered: bool,
    satellite: SatelliteHalf,
}

/// A gateway's end of the satellite link.
#[derive(Debug)]
struct SatelliteHalf {
    /// The half that is on it.
    half: usize,
    /// What divides the link into this gateway.
    allocator: u32,
    /// The flow's place among those that share the link.
    grant: Option<ConnectionId>,
    mss: u64,
}

/// Both ways between the two nodes of a pair, by the node where they start.
struct Ways {
    paths: [Path; 2],
    /// What divides the link into each node.
    allocators: [u32; 2],
    config: Arc<tcp::Config>,
}

impl Assigned {
    pub(crate) fn new(
        config: &GatewayConfig,
        protocol: &Satpep2003,
        splits: Vec<Split>,
        mut site: Site<'_>,
    ) -> Result<Self, GatewayError> {
        let ways = Ways::new(config, protocol, &mut site)?;
        let timer = site.timer;
        let middles = splits.iter().enumerate().map(|(at, split)| {
            let gate = |order| Gate::new(config, protocol, &ways, &mut site, (at, split, order));
            let [first, second] = [0, 1].map(gate);
            Ok([first?, second?])
        });
        let middles = middles.collect::<Result<_, _>>()?;
        Ok(Self { middles, splits, timer })
    }

    pub(crate) fn handle_packet(&mut self, wire: &mut Wire, parcel: &Parcel) {
        let Body::Tcp(segment) = &parcel.body else { return };
        let (split, side, half) = split_of(parcel.port);
        self.gate(split, side).handle_segment(wire, half, segment);
    }

    pub(crate) fn handle_timeout(&mut self, wire: &mut Wire, timer: u32) {
        let Some(half_timer) = timer.checked_sub(END_TIMERS) else { return };
        let (split, side, half) = split_of(half_timer);
        let gate = self.gate(split, side);
        if gate.split.halves[half].as_mut().is_some_and(|half| half.handle_timeout(wire.now)) {
            gate.serve(wire);
        }
        let deadline = gate.split.deadline(half);
        wire.set_timer(self.timer + timer, deadline);
    }

    fn gate(&mut self, split: usize, side: usize) -> &mut Gate {
        &mut self.middles[split][usize::from(side != self.splits[split].first)]
    }

    pub(crate) fn memory(&self) -> usize {
        size_of::<[Gate; 2]>() * self.middles.capacity()
    }

    /// What passed for each flow, by its number.
    pub(crate) fn streams(&self) -> Vec<(u32, StreamReport)> {
        let stream = |(split, [first, second]): (&Split, &[Gate; 2])| {
            (split.flow, StreamReport::of([first.split.state(), second.split.state()]))
        };
        self.splits.iter().zip(&self.middles).map(stream).collect()
    }

    /// What both gateways sent to one another.
    pub(crate) fn transport(&self) -> TransportReport {
        let mut report = TransportReport::default();
        for gate in self.middles.iter().flatten() {
            let Some(half) = &gate.split.halves[gate.satellite.half] else { continue };
            let counters = half.tcp.metrics().counters;
            report.data_packets += counters.data_segments;
            report.retransmissions += counters.retransmissions;
            report.rtos += counters.timeouts;
        }
        report
    }
}

impl Ways {
    fn new(config: &GatewayConfig, protocol: &Satpep2003, site: &mut Site<'_>) -> Result<Self, GatewayError> {
        let network = site.network;
        let node_name = |side: usize| network.node_name(config.nodes[side]);
        let way = |side: usize| {
            let [from, to] = [side, 1 - side].map(|side| config.nodes[side]);
            let Some(via) = protocol.via[side] else {
                let path = network.path(from, to).filter(|path| !path.is_empty());
                let (from, to) = (node_name(side), node_name(1 - side));
                return path.ok_or_else(|| config.error(format!("no links lead from node `{from}` to `{to}`")));
            };
            let direction = &network.directions()[via.index()];
            if (direction.from, direction.to) == (from, to) {
                return Ok(vec![via]);
            }
            let (link, from, to) = (&direction.link, node_name(side), node_name(1 - side));
            Err(config.error(format!("link `{link}` does not lead from node `{from}` to `{to}`")))
        };
        let ways = [way(0)?, way(1)?];
        let links = |way: &[DirectionId]| {
            let configs = way.iter().map(|direction| &network.directions()[direction.index()].config);
            (
                configs.fold(Duration::ZERO, |sum, link| sum + link.nominal_delay()),
                way.iter().filter_map(|direction| network.highest_rate(*direction)).min(),
            )
        };
        let rtt = links(&ways[0]).0 + links(&ways[1]).0;
        let mut product = Bytes::ZERO;
        let mut divide = |side: usize| {
            let way = &ways[1 - side];
            let (Some(capacity), Some(last)) = (links(way).1, way.last()) else {
                let (from, to) = (node_name(1 - side), node_name(side));
                return Err(config.error(format!("the links from `{from}` to `{to}` have no rate to divide")));
            };
            product = product.max(capacity.bytes_in(rtt));
            Ok(site.wire.divide(*last, crate::satpep2003::division(protocol, capacity, rtt)))
        };
        let allocators = [divide(0)?, divide(1)?];
        let mut path = |side: usize| match protocol.via[side] {
            Some(via) => Ok(site.wire.add_pinned_path(via)),
            None => path_between(config, site, config.nodes[side], config.nodes[1 - side]),
        };
        let paths = [path(0)?, path(1)?];
        let satellite = protocol.buffered(product);
        if !satellite.satpep {
            return Err(config.error("`satellite` is no TCP of SaTPEP: set `satpep`, with recovery `nack`"));
        }
        for (key, tcp) in [("satellite", &satellite), ("terrestrial", &*config.terrestrial)] {
            tcp.validate().map_err(|error| config.error(format!("`{key}`: {error}")))?;
        }
        Ok(Self { paths, allocators, config: Arc::new(satellite) })
    }
}

impl Gate {
    /// The gateway that a flow passes as number `order`.
    fn new(
        config: &GatewayConfig,
        protocol: &Satpep2003,
        ways: &Ways,
        site: &mut Site<'_>,
        (at, split, order): (usize, &Split, usize),
    ) -> Result<Self, GatewayError> {
        let side = if order == 0 { split.first } else { 1 - split.first };
        let node = config.nodes[side];
        let (host, to) = [(split.client, CLIENT), (split.server, SERVER)][order];
        // The first gateway faces the client with half 0 and the satellite link with half 1; the second the other way round.
        let (host_half, satellite_half) = (order, 1 - order);
        let first = site.timer;
        let timer = |half| first + END_TIMERS + port(at, side, half);
        let towards_host = Route {
            node,
            path: path_between(config, site, node, host)?,
            to: Address { agent: split.flow, port: to },
            timer: timer(host_half),
        };
        let over_satellite = Route {
            node,
            path: ways.paths[side],
            to: Address { agent: site.agent, port: port(at, 1 - side, order) },
            timer: timer(satellite_half),
        };
        let ends = [(config.terrestrial.clone(), towards_host), (ways.config.clone(), over_satellite)];
        let (listens, onward) = match ends {
            [host, satellite] if order == 0 => (host, satellite),
            [host, satellite] => (satellite, host),
        };
        Ok(Self {
            split: SplitHalves::new(SplitHalf::listen(&listens.0, listens.1)),
            onward,
            accept: protocol.accept,
            held: None,
            was_answered: false,
            satellite: SatelliteHalf {
                half: satellite_half,
                allocator: ways.allocators[side],
                grant: None,
                mss: u64::from(ways.config.mss),
            },
        })
    }

    fn handle_segment(&mut self, wire: &mut Wire, number: usize, segment: &Segment) {
        if number == 0 && !self.was_answered {
            if segment.has(Flags::SYN) && self.held.is_none() {
                self.held = Some(*segment);
                self.open(wire);
            }
        } else if let Some(half) = &mut self.split.halves[number] {
            half.tcp.handle_segment(wire.now, segment);
            if number == self.satellite.half && segment.len > 0 {
                self.satellite.on_data(wire);
            }
        }
        self.serve(wire);
    }

    /// A SYN waits: the connection further on opens.
    fn open(&mut self, wire: &mut Wire) {
        let (config, route) = &self.onward;
        self.split.halves[1] = Some(SplitHalf::connect(config, *route, wire.now));
        if self.satellite.half == 1 {
            self.satellite.take_part(wire);
        }
        if self.accept == Accept::Immediate {
            self.answer(wire);
        }
    }

    /// The SYN that waits is answered.
    fn answer(&mut self, wire: &mut Wire) {
        let (Some(syn), Some(half)) = (self.held.take(), &mut self.split.halves[0]) else { return };
        if self.satellite.half == 0 {
            self.satellite.take_part(wire);
        }
        self.was_answered = true;
        half.tcp.handle_segment(wire.now, &syn);
    }

    /// Takes what both connections have to say, moves bytes between them, and sends their segments.
    fn serve(&mut self, wire: &mut Wire) {
        while let Some((number, event)) = self.poll_event() {
            self.on_event(wire, number, event);
        }
        self.split.pass_on(wire.now);
        if let Some(half) = &mut self.split.halves[self.satellite.half] {
            self.satellite.grant(wire, &mut half.tcp);
        }
        self.split.transmit(wire);
    }

    fn poll_event(&mut self) -> Option<(usize, tcp::Event)> {
        (0..2).find_map(|number| Some((number, self.split.poll_event(number)?)))
    }

    fn on_event(&mut self, wire: &mut Wire, number: usize, event: tcp::Event) {
        match event {
            tcp::Event::Connected => {
                self.split.connected[number] = Some(wire.now);
                if number == 1 {
                    self.answer(wire);
                }
            }
            tcp::Event::PeerFinished => self.split.on_peer_finished(number),
            tcp::Event::Failed(_) if self.split.is_first_failure() => {
                // A client that still waits for its answer is refused.
                self.answer(wire);
                self.split.abort_other(number);
                self.satellite.leave(wire);
            }
            tcp::Event::Closed if number == self.satellite.half => self.satellite.leave(wire),
            tcp::Event::Failed(_) | tcp::Event::Readable | tcp::Event::Writable | tcp::Event::Closed => {}
        }
    }
}

impl SatelliteHalf {
    /// The flow shares the link into this gateway from now on.
    fn take_part(&mut self, wire: &mut Wire) {
        let (now, packet) = (wire.now, Bytes::new(self.mss + u64::from(tcp::BARE_HEADER)));
        self.grant = Some(wire.allocator(self.allocator).open(now, packet));
    }

    fn on_data(&self, wire: &mut Wire) {
        let now = wire.now;
        if let Some(grant) = self.grant {
            wire.allocator(self.allocator).on_data(now, grant);
        }
    }

    /// What the connection may have outstanding from now on.
    fn grant(&self, wire: &mut Wire, connection: &mut Connection) {
        let now = wire.now;
        if let Some(grant) = self.grant {
            connection.set_granted_window(wire.allocator(self.allocator).window(now, grant) * self.mss);
        }
    }

    fn leave(&mut self, wire: &mut Wire) {
        if let Some(grant) = self.grant.take() {
            wire.allocator(self.allocator).close(grant);
        }
    }
}

fn path_between(config: &GatewayConfig, site: &mut Site<'_>, from: NodeId, to: NodeId) -> Result<Path, GatewayError> {
    site.paths.find(site.wire, site.network, from, to).ok_or_else(|| {
        let [from, to] = [from, to].map(|node| site.network.node_name(node));
        config.error(format!("node `{to}` cannot be reached from node `{from}`: no links lead there"))
    })
}
