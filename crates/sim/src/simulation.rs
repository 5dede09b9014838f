//! A run: from a network and flows to a report.

use crate::agent::{Agent, Place, Progress, TIMERS};
use crate::event_queue::NEVER;
use crate::gateway::{Gateway, Site};
use crate::lookahead::Lookahead;
use crate::packet::ParcelId;
use crate::split::SplitFlows;
use crate::wire::{Event, PathTable, Wire};
use crate::{
    CapacitySample, FlowConfig, FlowError, FlowSample, GatewayConfig, GatewayError, LinkReport, Network, NetworkError,
    NodeId, PacketRecord, QueueSample, Record, Report, Settings, Stopped,
};
use scenario::Scenario;
use tcp::control::Control;
use units::{Bytes, CounterRandom, Duration, Instant};

/// A simulation, made step by step with [`Simulation::run_for`] or at once with [`Simulation::run`].
#[derive(Debug)]
pub struct Simulation {
    network: Network,
    flows: Vec<FlowConfig>,
    settings: Settings,
    wire: Wire,
    agents: Vec<Agent>,
    pairs: Vec<Gateway>,
    /// The first timer of each pair of gateways, after those of flows.
    pair_timers: Vec<u32>,
    gateways: Vec<GatewayConfig>,
    /// Flows that have an end and have not come to it.
    unfinished: usize,
    events: u64,
    /// The latest instant that was seen, and how many events had been handled by then.
    latest: (Instant, u64),
    stopped: Option<Stopped>,
    /// Events after this wait until what is due before them is done: a sample to be taken, or the end.
    pause_at: Instant,
    flow_ticks: Ticks,
    queue_ticks: Ticks,
    queue_samples: Vec<QueueSample>,
    /// Bytes of the samples that were taken.
    taken: usize,
    /// After a run that was complete, how many of the first agents have nothing to close.
    closed: usize,
    /// How many samples were made since memory was last estimated.
    unchecked_samples: usize,
    lookahead: Lookahead,
}

/// Why a simulation cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// For a flow.
    #[error(transparent)]
    Flow(#[from] FlowError),
    /// For a pair of gateways.
    #[error(transparent)]
    Gateway(#[from] GatewayError),
    /// For a carrier.
    #[error(transparent)]
    Network(#[from] NetworkError),
}

/// Times at an interval, the first of them an interval after the start.
#[derive(Debug)]
struct Ticks {
    interval: Option<Duration>,
    next: Instant,
}

/// How often memory is estimated.
const EVENTS_BETWEEN_MEMORY_CHECKS: u64 = 1 << 16;
/// Samples after which memory is estimated, and [`Simulation::run_for`] returns, however few the events are.
const SAMPLES_AT_ONCE: usize = 1 << 14;
/// How often more than its own size a sample that was taken occupies: its caller makes tables and a picture of it.
const MEMORY_OF_TAKEN: usize = 6;

/// What a stream of random draws is for.
#[derive(Debug, Clone, Copy)]
enum Draws {
    Start = 0,
    Application = 1,
    Gateway = 2,
    Connection = 3,
}

impl Draws {
    /// Flows use streams from 2^63, links those below.
    fn of(self, seed: u64, flow: usize) -> CounterRandom {
        CounterRandom::new(seed, 1 << 63 | (flow as u64) << 8 | self as u64)
    }
}

impl Simulation {
    /// The run of `scenario` with this seed. Without `recording` nothing is recorded, whatever the scenario says: for runs
    /// whose samples and packets nobody takes.
    ///
    /// # Errors
    /// If the simulator refuses what the format allows.
    pub fn of(scenario: &Scenario, seed: u64, recording: bool) -> Result<Self, SetupError> {
        let record = if recording { scenario.settings.record.clone() } else { Record::default() };
        let settings = Settings { seed, record, ..scenario.settings.clone() };
        let network = scenario.network.seeded(seed);
        Self::with_gateways(network, scenario.flows.clone(), scenario.gateways.clone(), settings)
    }

    /// Ready to run.
    ///
    /// # Errors
    /// Names the first flow that cannot be and says why: see [`FlowConfig::validate`]; also where two flows have one name.
    pub fn new(network: Network, flows: Vec<FlowConfig>, settings: Settings) -> Result<Self, SetupError> {
        Self::with_gateways(network, flows, Vec::new(), settings)
    }

    /// Ready to run, with pairs of gateways that split the TCP flows whose way passes both.
    ///
    /// # Errors
    /// As for [`Simulation::new`]; also if a pair cannot be, or if two have one name.
    pub fn with_gateways(
        network: Network,
        flows: Vec<FlowConfig>,
        gateways: Vec<GatewayConfig>,
        settings: Settings,
    ) -> Result<Self, SetupError> {
        let split = SplitFlows::new(&gateways, &network, &flows)?;
        let (pair_timers, timers) = split.timers(flows.len() as u32 * TIMERS);
        let mut wire = Wire::new(&network, timers, &settings, split.clone())?;
        let mut paths = PathTable::default();
        let mut names = std::collections::BTreeSet::new();
        let mut agents = Vec::with_capacity(flows.len());
        for (number, flow) in flows.iter().enumerate() {
            if !names.insert(flow.name.as_str()) {
                return Err(flow.error("there are two flows of this name: names must differ").into());
            }
            flow.validate()?;
            let peers = split.peers(number as u32);
            let ends = [(flow.from, flow.to), (flow.to, flow.from)];
            let mut path = |end: usize| {
                let (from, to) = ends[end];
                let to = split.node_of(&gateways, peers[end]).unwrap_or(to);
                paths.find(&mut wire, &network, from, to).ok_or_else(|| flow.unreachable(&network, from, to))
            };
            let place = Place {
                agent: number as u32,
                timer: number as u32 * TIMERS,
                nodes: [flow.from, flow.to],
                paths: [path(0)?, path(1)?],
                peers,
            };
            let later = flow.start.spread.mul_f64(Draws::Start.of(settings.seed, number).unit_at(0));
            place.wake_application(&mut wire, flow.start.at + later);
            let random = Draws::Application.of(settings.seed, number);
            let seed = Draws::Connection.of(settings.seed, number).at(0);
            agents.push(Agent::new(flow, place, random, seed, settings.record.window_changes));
        }
        let mut pairs = Vec::with_capacity(gateways.len());
        for (number, config) in gateways.iter().enumerate() {
            let (agent, timer) = (split.first_pair + number as u32, pair_timers[number]);
            let seed = Draws::Gateway.of(settings.seed, number).at(0);
            let site = Site { wire: &mut wire, paths: &mut paths, network: &network, agent, timer, seed };
            pairs.push(Gateway::new(config, split.pairs[number].clone(), site)?);
        }
        wire.follow_links();
        let has_ns2_order = agents.iter().any(Agent::has_ns2_order);
        if has_ns2_order {
            wire.keep_ns2_times(&network);
        }
        // What looks at packets between their ends wants an event at each node.
        if settings.record.queue_interval.is_none() && settings.record.packets_at.is_empty() && !has_ns2_order {
            wire.let_packets_pass();
        }
        let mut simulation = Self {
            unfinished: flows.iter().filter(|flow| flow.has_end()).count(),
            flow_ticks: Ticks::new(settings.record.flow_interval),
            queue_ticks: Ticks::new(settings.record.queue_interval),
            queue_samples: Vec::new(),
            taken: 0,
            closed: 0,
            unchecked_samples: 0,
            lookahead: Lookahead::new(agents.len()),
            network,
            flows,
            settings,
            wire,
            agents,
            pairs,
            pair_timers,
            gateways,
            events: 0,
            latest: (Instant::ZERO, 0),
            stopped: None,
            pause_at: Instant::ZERO,
        };
        simulation.set_pause();
        Ok(simulation)
    }

    /// Puts `control`, which the caller has made, in the place of the congestion control with which the flow of this number
    /// sends its data: the client of an upload, the server of what is asked for. To be called before the run begins.
    ///
    /// # Errors
    /// If the flow is none of TCP or QUIC, or the control does not fit it.
    pub fn set_control(&mut self, flow: usize, control: Box<dyn Control>) -> Result<(), FlowError> {
        self.agents[flow].set_control(control).map_err(|problem| self.flows[flow].error(problem))
    }

    /// Runs to the end.
    pub fn run(&mut self) -> Stopped {
        loop {
            if let Some(stopped) = self.run_for(u64::MAX) {
                return stopped;
            }
        }
    }

    /// Runs for at most so many events, and while not too many samples are made; returns why the run ended, or `None` if
    /// there is more to do.
    pub fn run_for(&mut self, events: u64) -> Option<Stopped> {
        let last = self.events.saturating_add(events).min(self.settings.limits.events);
        self.unchecked_samples = 0;
        while self.stopped.is_none() && self.events < last && !self.has_many_samples() {
            self.stopped = self.check_memory().or_else(|| self.check_time());
            let pause = (self.events + EVENTS_BETWEEN_MEMORY_CHECKS).min(last);
            if self.stopped.is_none() {
                self.stopped = self.advance_to(pause);
            }
        }
        if self.stopped.is_none() && self.events >= self.settings.limits.events {
            self.stopped = Some(Stopped::EventLimit);
        }
        self.stopped
    }

    /// After a run that was complete: goes on for at most so many events until every connection is closed, for captures to
    /// have its end; returns whether there is more to do. No samples are made any more. What [`Simulation::report`] tells goes
    /// on, too: it is to be asked before.
    pub fn close_for(&mut self, events: u64) -> bool {
        let last = self.events.saturating_add(events).min(self.settings.limits.events);
        (self.flow_ticks, self.queue_ticks) = (Ticks::new(None), Ticks::new(None));
        self.set_pause();
        while self.stopped == Some(Stopped::Complete) && self.events < last {
            if !self.has_closing() {
                return false;
            }
            if let Some(stopped) = self.advance_to(self.events + 1) {
                self.stopped = Some(stopped);
            }
        }
        self.stopped == Some(Stopped::Complete) && self.events < self.settings.limits.events
    }

    /// Whether a connection is closing. One that is closed, or has no end, will not be.
    fn has_closing(&mut self) -> bool {
        let skipped = self.agents[self.closed..].iter().position(Agent::is_closing);
        self.closed += skipped.unwrap_or(self.agents.len() - self.closed);
        skipped.is_some()
    }

    /// The time of the run.
    pub fn now(&self) -> Instant {
        self.wire.now
    }

    /// How many events were handled.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The flows, in the order of their numbers.
    pub fn flows(&self) -> &[FlowConfig] {
        &self.flows
    }

    /// Takes the samples of flows since it was last called.
    pub fn take_flow_samples(&mut self) -> Vec<FlowSample> {
        self.taken += size_of_val(&self.wire.flow_samples[..]);
        std::mem::take(&mut self.wire.flow_samples)
    }

    /// Takes the samples of queues since it was last called.
    pub fn take_queue_samples(&mut self) -> Vec<QueueSample> {
        self.taken += size_of_val(&self.queue_samples[..]);
        std::mem::take(&mut self.queue_samples)
    }

    /// Takes the samples of carriers since it was last called.
    pub fn take_capacity_samples(&mut self) -> Vec<CapacitySample> {
        let samples = self.wire.take_capacity_samples();
        self.taken += size_of_val(&samples[..]);
        samples
    }

    /// Takes the packets recorded since it was last called.
    pub fn take_packets(&mut self) -> Vec<PacketRecord> {
        self.wire.take_records()
    }

    /// What the gateways of the pair `pair`, a number among those given, believe of the link's capacity: the one at the first node,
    /// and the one at the second. `None` if the pair does not speak the satellite transport.
    pub fn capacity_estimates(&self, pair: usize) -> Option<[satpep::Estimate; 2]> {
        self.pairs.get(pair)?.capacity_estimates(self.wire.now)
    }

    /// What was found so far.
    pub fn report(&self) -> Report {
        let name = |node: NodeId| self.network.node_name(node).to_owned();
        let links = self.network.directions().iter().zip(self.wire.counters()).map(|(direction, counters)| {
            LinkReport { name: direction.link.clone(), from: name(direction.from), to: name(direction.to), counters }
        });
        let flows = self.flows.iter().zip(&self.agents);
        let pairs = self.pairs.iter().zip(&self.gateways);
        Report {
            stopped: self.stopped.unwrap_or(Stopped::Unfinished),
            end_s: self.wire.now.as_secs_f64(),
            flows: flows.map(|(flow, agent)| agent.outcome().report(flow, self.wire.now)).collect(),
            links: links.collect(),
            carriers: self.wire.carrier_reports(&self.network),
            gateways: pairs.map(|(pair, config)| pair.report(config, &self.flows)).collect(),
            events: self.events,
            no_route_packets: self.wire.no_route_packets(),
            data_packets: self.wire.data_packets,
        }
    }

    /// Handles events until there were `events` in all, many samples are made or the run ends.
    fn advance_to(&mut self, events: u64) -> Option<Stopped> {
        while self.events < events {
            let next = self.wire.next();
            if next <= self.pause_at {
                self.events += 1;
                if self.handle_event() == Progress::Ended {
                    self.unfinished -= 1;
                    if self.unfinished == 0 && self.settings.stop.when_complete {
                        return Some(Stopped::Complete);
                    }
                }
                continue;
            }
            let stopped = self.pause(next);
            if stopped.is_some() || self.has_many_samples() {
                return stopped;
            }
        }
        None
    }

    #[inline]
    fn handle_event(&mut self) -> Progress {
        self.lookahead.look(&self.wire, &self.agents);
        match self.wire.advance() {
            Event::Passage => Progress::GoesOn,
            Event::Delivery(id) => {
                let agent = self.wire.parcels.get(id).agent as usize;
                match self.agents.get_mut(agent) {
                    Some(agent) => agent.handle_packet(&mut self.wire, id),
                    None => self.deliver_to_pair(agent, id),
                }
            }
            Event::Timer(timer) => match self.agents.get_mut((timer / TIMERS) as usize) {
                Some(agent) => agent.handle_timeout(&mut self.wire, timer % TIMERS),
                None => self.wake_pair(timer),
            },
        }
    }

    /// A packet has come to a gateway.
    fn deliver_to_pair(&mut self, agent: usize, id: ParcelId) -> Progress {
        let parcel = *self.wire.parcels.get(id);
        self.wire.parcels.release(id);
        self.pairs[agent - self.agents.len()].handle_packet(&mut self.wire, &parcel);
        Progress::GoesOn
    }

    /// A timer of a gateway or a carrier was due.
    fn wake_pair(&mut self, timer: u32) -> Progress {
        if self.wire.wake_routes(timer) {
            return Progress::GoesOn;
        }
        if self.wire.wake_carrier(timer) {
            self.pairs.iter_mut().for_each(|pair| pair.handle_allocation(&mut self.wire));
            return Progress::GoesOn;
        }
        let pair = self.pair_timers.partition_point(|first| *first <= timer) - 1;
        self.pairs[pair].handle_timeout(&mut self.wire, timer - self.pair_timers[pair]);
        Progress::GoesOn
    }

    /// Takes the samples that are due before the event at `next`, or ends.
    #[cold]
    fn pause(&mut self, next: Instant) -> Option<Stopped> {
        if next == NEVER {
            return Some(Stopped::Idle);
        }
        let at = self.pause_at;
        self.wire.now = at;
        let before = self.samples();
        if self.flow_ticks.is_at(at) {
            let flows = self.flows.iter().zip(&self.agents).enumerate().filter(|(_, (flow, _))| flow.record);
            self.wire.flow_samples.extend(flows.map(|(number, (_, agent))| agent.sample(number as u32, at)));
        }
        if self.queue_ticks.is_at(at) {
            self.queue_samples.extend(self.wire.queues());
        }
        self.unchecked_samples += self.samples() - before;
        self.set_pause();
        (self.settings.stop.at == Some(at)).then_some(Stopped::Time)
    }

    /// How many samples wait to be taken.
    fn samples(&self) -> usize {
        self.wire.flow_samples.len() + self.queue_samples.len()
    }

    fn has_many_samples(&self) -> bool {
        self.unchecked_samples >= SAMPLES_AT_ONCE
    }

    fn set_pause(&mut self) {
        let end = self.settings.stop.at.unwrap_or(LAST).min(LAST);
        self.pause_at = end.min(self.flow_ticks.next).min(self.queue_ticks.next);
    }

    fn check_memory(&self) -> Option<Stopped> {
        (self.memory() > self.settings.limits.memory).then_some(Stopped::MemoryLimit)
    }

    fn check_time(&mut self) -> Option<Stopped> {
        if self.latest.0 < self.wire.now {
            self.latest = (self.wire.now, self.events);
        }
        (self.events - self.latest.1 > self.settings.limits.events_at_once).then_some(Stopped::StandingStill)
    }

    /// What packets, flows and records occupy, and what comes of the samples that were taken, roughly.
    fn memory(&self) -> Bytes {
        let bytes = self.wire.memory()
            + self.agents.iter().map(Agent::memory).sum::<usize>()
            + self.pairs.iter().map(Gateway::memory).sum::<usize>()
            + size_of::<QueueSample>() * self.queue_samples.capacity()
            + self.taken * MEMORY_OF_TAKEN;
        Bytes::from(bytes)
    }
}

/// The latest time that a run can reach.
const LAST: Instant = Instant::from_nanos(NEVER.as_nanos() - 1);

impl Ticks {
    fn new(interval: Option<Duration>) -> Self {
        Self { interval, next: interval.map_or(NEVER, |interval| Instant::ZERO + interval) }
    }

    /// Whether one is at `at`; then the next is an interval later.
    fn is_at(&mut self, at: Instant) -> bool {
        let is_at = self.next == at;
        if let Some(interval) = self.interval.filter(|_| is_at) {
            self.next = at + interval;
        }
        is_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Start, Traffic};
    use link::{LinkConfig, LossModel, QueueLimit};
    use units::{Probability, Rate};

    /// Pings over two links that lose, refuse, duplicate and reorder.
    #[test]
    fn every_parcel_is_released_but_what_a_copy_might_still_need() {
        let chance = Probability::new(0.2).expect("valid");
        let config = LinkConfig {
            queue: QueueLimit::Packets(2),
            loss: LossModel::Bernoulli(chance),
            duplicate: chance,
            reorder: Some(link::Reorder { probability: chance, extra_delay: Duration::from_millis(7) }),
            ..LinkConfig::new(Rate::from_bps(400_000), Duration::from_millis(10))
        };
        let mut network = Network::new();
        let nodes = ["a", "b", "c"].map(|name| network.add_node(name).expect("new"));
        for (stream, name, from, to) in [(0, "ab", nodes[0], nodes[1]), (2, "bc", nodes[1], nodes[2])] {
            let streams = [stream, stream + 1].map(|stream| LinkConfig { stream, ..config.clone() });
            let [there, back] = streams;
            network.add_link(name, from, to, there, back).expect("valid");
        }
        let flow = |i: u64| FlowConfig {
            name: format!("{i}"),
            from: nodes[0],
            to: nodes[2],
            start: Start::default(),
            stop: None,
            traffic: Traffic::Ping {
                interval: Duration::from_millis(3),
                packet_size: Bytes::new(84 + i),
                count: Some(2_000),
            },
            record: false,
        };
        let mut simulation = Simulation::new(network, vec![flow(0), flow(1)], Settings::default()).expect("valid");
        assert_eq!(simulation.run(), Stopped::Idle);
        let counters = simulation.report().links;
        let all =
            |count: fn(&link::Counters) -> link::Tally| counters.iter().all(|link| count(&link.counters).packets > 100);
        assert!(all(|c| c.duplicated) && all(|c| c.reordered) && all(|c| c.dropped_loss));
        assert!(counters[0].counters.dropped_queue_full.packets > 100);
        assert!(simulation.wire.parcels.len() <= counters.len(), "{}", simulation.wire.parcels.len());
    }
}
