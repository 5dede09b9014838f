//! A pair of gateways that speaks TCP: each splices two connections, as PEPsal does.

use super::allocation::{AllocationShares, CarrierAllocation};
use super::half::{Route, SplitHalf, SplitHalves};
use super::site::Site;
use crate::packet::{Address, Body, CLIENT, Parcel, SERVER};
use crate::split::{END_TIMERS, Split, port, split_of};
use crate::wire::Wire;
use crate::{GatewayConfig, GatewayError, NodeId, StreamReport};
use std::sync::Arc;
use units::{CounterRandom, Instant};

/// A pair at work.
#[derive(Debug)]
pub(crate) struct Splices {
    /// Of each flow, the splice at each node.
    splices: Vec<[Splice; 2]>,
    splits: Vec<Split>,
    /// The pair's first timer.
    timer: u32,
    /// For each node its carrier towards the other, if windows follow that.
    allocation: [Option<(CarrierAllocation, AllocationShares)>; 2],
    satellite: Arc<tcp::Config>,
}

/// Two connections at one node, each reading what the other sends on.
#[derive(Debug)]
struct Splice {
    /// The second is made once the client is accepted.
    split: SplitHalves,
    /// How the second connects.
    onward: (Arc<tcp::Config>, Route),
}

impl Splices {
    pub(crate) fn new(
        config: &GatewayConfig,
        satellite: &Arc<tcp::Config>,
        splits: Vec<Split>,
        site: Site<'_>,
    ) -> Result<Self, GatewayError> {
        let Site { wire, paths, network, agent, timer, seed } = site;
        let mut route = |from: NodeId, to_node: NodeId, to: Address, half: u32| {
            let path = paths.find(wire, network, from, to_node);
            let path = path.ok_or_else(|| {
                let (from, to) = (network.node_name(from), network.node_name(to_node));
                config.error(format!("node `{to}` cannot be reached from node `{from}`: no links lead there"))
            })?;
            Ok(Route { node: from, path, to, timer: timer + END_TIMERS + half })
        };
        let mut splices = Vec::with_capacity(splits.len());
        for (at, split) in splits.iter().enumerate() {
            let seed = CounterRandom::new(seed, at as u64).at(0);
            let of_split = |config: &Arc<tcp::Config>| Arc::new(tcp::Config { seed, ..(**config).clone() });
            let [terrestrial, satellite] = [&config.terrestrial, satellite].map(of_split);
            let (first, second) = (split.first, 1 - split.first);
            let [a, b] = [first, second].map(|side| config.nodes[side]);
            let [near_in, near_out] = [0, 1].map(|half| port(at, first, half));
            let [far_in, far_out] = [0, 1].map(|half| port(at, second, half));
            let near = Splice::new(
                SplitHalf::listen(
                    &terrestrial,
                    route(a, split.client, Address { agent: split.flow, port: CLIENT }, near_in)?,
                ),
                (satellite.clone(), route(a, b, Address { agent, port: far_in }, near_out)?),
            );
            let far = Splice::new(
                SplitHalf::listen(&satellite, route(b, a, Address { agent, port: near_out }, far_in)?),
                (terrestrial.clone(), route(b, split.server, Address { agent: split.flow, port: SERVER }, far_out)?),
            );
            splices.push(if first == 0 { [near, far] } else { [far, near] });
        }
        let [a, b] = config.nodes;
        let allocation = [(a, b), (b, a)].map(|(from, to)| {
            let allocation = CarrierAllocation::on_path(network, from, to).filter(|_| config.follow_allocation)?;
            Some((allocation, AllocationShares::new(splits.len())))
        });
        if config.follow_allocation && allocation.iter().all(Option::is_none) {
            return Err(config.error("there is no allocation to follow: no link between its nodes has `dama`"));
        }
        Ok(Self { splices, splits, timer, allocation, satellite: satellite.clone() })
    }

    pub(crate) fn handle_packet(&mut self, wire: &mut Wire, parcel: &Parcel) {
        let Body::Tcp(segment) = &parcel.body else { return };
        let (split, side, half) = split_of(parcel.port);
        let splice = &mut self.splices[split][side];
        if let Some(half) = &mut splice.split.halves[half] {
            half.tcp.handle_segment(wire.now, segment);
            let has_changed = splice.serve(wire);
            self.share(wire, split, side);
            if has_changed {
                self.follow(wire);
            }
        }
    }

    /// Sets the parts of the connections between the gateways, if the allocation has changed.
    pub(crate) fn follow(&mut self, wire: &mut Wire) {
        for (side, allocation) in self.allocation.iter_mut().enumerate() {
            let Some((allocation, shares)) = allocation else { continue };
            let satellite = |split: &Split| usize::from(split.first == side);
            let all = self.splits.iter().zip(&self.splices);
            let open = all.filter(|(split, splices)| splices[side].has_open(satellite(split))).count() as u32;
            let Some(rate) = allocation.news(wire, open) else { continue };
            shares.set_rate(rate);
            for (at, (split, splices)) in self.splits.iter().zip(&mut self.splices).enumerate() {
                if let Some(half) = &mut splices[side].split.halves[satellite(split)] {
                    shares.follow(wire, at, &self.satellite, half);
                    half.transmit(wire);
                }
            }
        }
    }

    /// Something has happened at the connection of `split` between the gateways: it has its part of the allocation.
    fn share(&mut self, wire: &mut Wire, split: usize, side: usize) {
        let Some((_, shares)) = &mut self.allocation[side] else { return };
        let satellite = usize::from(self.splits[split].first == side);
        if let Some(half) = &mut self.splices[split][side].split.halves[satellite] {
            shares.follow(wire, split, &self.satellite, half);
            half.transmit(wire);
            // What has left now.
            shares.follow(wire, split, &self.satellite, half);
        }
    }

    pub(crate) fn handle_timeout(&mut self, wire: &mut Wire, timer: u32) {
        let Some(half_timer) = timer.checked_sub(END_TIMERS) else { return };
        let (split, side, half) = split_of(half_timer);
        let splice = &mut self.splices[split][side];
        let has_changed =
            splice.split.halves[half].as_mut().is_some_and(|half| half.handle_timeout(wire.now)) && splice.serve(wire);
        self.share(wire, split, side);
        if has_changed {
            self.follow(wire);
        }
        let splice = &self.splices[split][side];
        let deadline = splice.split.deadline(half);
        wire.set_timer(self.timer + timer, deadline);
    }

    pub(crate) fn memory(&self) -> usize {
        size_of::<[Splice; 2]>() * self.splices.capacity()
    }

    /// What passed for each flow, by its number.
    pub(crate) fn streams(&self) -> Vec<(u32, StreamReport)> {
        let stream = |(split, splices): (&Split, &[Splice; 2])| {
            let states = [split.first, 1 - split.first].map(|side| splices[side].split.state());
            (split.flow, StreamReport::of(states))
        };
        self.splits.iter().zip(&self.splices).map(stream).collect()
    }
}

impl Splice {
    fn new(listens: SplitHalf, onward: (Arc<tcp::Config>, Route)) -> Self {
        Self { split: SplitHalves::new(listens), onward }
    }

    /// Takes what both connections have to say, moves bytes between them, and sends their segments. Returns whether one of
    /// them has opened or ended.
    fn serve(&mut self, wire: &mut Wire) -> bool {
        let mut has_changed = false;
        for number in 0..2 {
            while let Some(event) = self.split.poll_event(number) {
                has_changed |= !matches!(event, tcp::Event::Readable | tcp::Event::Writable);
                self.on_event(wire.now, number, event);
            }
        }
        self.split.pass_on(wire.now);
        self.split.transmit(wire);
        has_changed
    }

    /// Whether a connection is there, or coming, that has not ended.
    fn has_open(&self, number: usize) -> bool {
        let is_there = number == 1 || self.split.connected[number].is_some();
        is_there && self.split.halves[number].as_ref().is_some_and(|half| !half.tcp.is_closed())
    }

    fn on_event(&mut self, now: Instant, number: usize, event: tcp::Event) {
        match event {
            tcp::Event::Connected => {
                self.split.connected[number] = Some(now);
                if number == 0 {
                    let (config, route) = &self.onward;
                    self.split.halves[1] = Some(SplitHalf::connect(config, *route, now));
                }
            }
            tcp::Event::PeerFinished => self.split.on_peer_finished(number),
            tcp::Event::Failed(_) if self.split.is_first_failure() => self.split.abort_other(number),
            tcp::Event::Failed(_) | tcp::Event::Readable | tcp::Event::Writable | tcp::Event::Closed => {}
        }
    }
}
