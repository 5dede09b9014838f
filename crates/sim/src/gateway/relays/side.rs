//! One gateway of a pair: the relay engine between simulated TCP and the transport, and its capacity source.

use super::hosts::{FlowTcp, SimulatedHosts, open, split_named};
use super::satellite::Satellite;
use crate::gateway::allocation::CarrierAllocation;
use crate::gateway::cross_traffic::CrossTrafficMeter;
use crate::gateway::half::Route;
use crate::gateway::modem::Modem;
use crate::gateway::session::{BUFFER, address};
use crate::gateway::stalls::Stalls;
use crate::heads::DatagramId;
use crate::packet::{Body, Parcel};
use crate::split::Split;
use crate::wire::Wire;
use crate::{GatewayConfig, Network, NodeId, SatpepSettings, SessionReport, TransitionReport};
use relay::classes::{Class, Conditions};
use relay::connection::{Event, State};
use relay::engine::{self, Engine, Notice, PeerSettings, Relayed};
use relay::routes::Routes;
use satpep::{Elided, Endpoint, PeerId, ResetReason};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use streams::Streams;
use units::{CounterRandom, Duration, Instant, Rate};

/// The place of the other gateway among an engine's peers.
const PEER: usize = 0;

/// Bytes of the IPv4 and UDP headers of a datagram.
const HEADERS: usize = 28;

/// A datagram of more bytes than this carries data (or repair, or probes the path).
const DATA_PACKET: usize = 400;

/// What a terminal without an allocation is given: what waits for one asks for it by waiting.
const MIN: Rate = Rate::from_bps(16_000);

/// Where a gateway is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// Its number in the pair.
    pub(super) number: usize,
    /// Its node, and the other gateway's.
    pub(super) nodes: [NodeId; 2],
    /// Its path to the other gateway, and how that is addressed.
    pub(super) satellite: Route,
    /// How much later it is for the endpoint than in the run.
    pub(super) ahead: Duration,
}

/// One of the two gateways.
#[derive(Debug)]
pub(super) struct Side {
    place: Place,
    node_name: String,
    engine: Engine<Satellite, SimulatedHosts>,
    cross_traffic: CrossTrafficMeter,
    modem: Modem,
    /// The carrier on the path, if the rate follows that.
    allocation: Option<CarrierAllocation>,
    stalls: Stalls,
    /// Datagrams that came in a stall, and when it ends, if anything waits for that.
    held: VecDeque<DatagramId>,
    wakes: Instant,
    buffer: Vec<u8>,
    transitions: Vec<Transition>,
}

/// A transition of a relayed connection.
#[derive(Debug)]
struct Transition {
    at: Instant,
    /// The flow, once known.
    split: Option<u32>,
    from: State,
    event: Event,
    to: State,
}

/// How one flow stands at one gateway.
#[derive(Debug)]
pub(super) struct FlowState {
    pub(super) state: String,
    pub(super) since: Option<Instant>,
    pub(super) from_tcp: u64,
    pub(super) to_tcp: u64,
}

impl Side {
    pub(super) fn new(
        place: Place,
        (endpoint, id, stalls): (Endpoint<Elided>, PeerId, CounterRandom),
        routes: Vec<(Route, bool)>,
        config: &GatewayConfig,
        transport: &SatpepSettings,
        splits: &[Split],
        network: &Network,
    ) -> Self {
        let [node, other] = place.nodes;
        let path = network.path(node, other).unwrap_or_default();
        let first = *path.first().expect("the session's path was found");
        let is_reported = transport.link_updates;
        let cross_traffic = CrossTrafficMeter::new(first, endpoint.stats().sent_ip_bytes);
        let satellite = Satellite { streams: Streams::new(endpoint, vec![id], false), ahead: place.ahead };
        let hosts = SimulatedHosts::new(config.terrestrial.clone(), routes, transport.max_connections);
        let mut engine = Engine::new(satellite, hosts, settings(transport, splits), [peer()], &[]);
        if transport.report_transitions {
            engine.report_transitions();
        }
        Self {
            engine,
            allocation: CarrierAllocation::on_path(network, node, other).filter(|_| is_reported),
            modem: Modem::new(is_reported),
            cross_traffic,
            node_name: network.node_name(node).to_owned(),
            stalls: Stalls::new(transport.longest_stall, stalls),
            held: VecDeque::new(),
            wakes: Instant::FAR_FUTURE,
            place,
            buffer: vec![0; BUFFER],
            transitions: Vec::new(),
        }
    }

    pub(super) fn node(&self) -> NodeId {
        self.place.nodes[0]
    }

    pub(super) fn follows_carrier(&self) -> bool {
        self.allocation.is_some()
    }

    /// Whether a connection of the flow that begins now is relayed.
    pub(super) fn intercepts(&self, split: u32) -> bool {
        self.engine.intercepts(&open(split))
    }

    /// Whether the gateway has answered the flow's client.
    pub(super) fn has_client(&self, split: u32) -> bool {
        self.engine.hosts.ends[split as usize].has_begun
    }

    /// The endpoint's time.
    fn now(&self, wire: &Wire) -> Instant {
        wire.now + self.place.ahead
    }

    fn endpoint(&mut self) -> &mut Endpoint<Elided> {
        &mut self.engine.transport.streams.endpoint
    }

    pub(super) fn handle_segment(&mut self, wire: &mut Wire, split: u32, segment: &tcp::Segment) {
        let end = &mut self.engine.hosts.ends[split as usize];
        if let Some(half) = &mut end.half {
            end.has_begun = true;
            half.tcp.handle_segment(wire.now, segment);
            self.on_tcp(wire, split);
        }
    }

    pub(super) fn handle_datagram(&mut self, wire: &mut Wire, id: DatagramId) {
        self.held.push_back(id);
        if !self.is_stalled(wire) {
            self.take_held(wire);
            self.flush(wire);
        }
    }

    /// Handles the datagrams that have come.
    fn take_held(&mut self, wire: &mut Wire) {
        let (now, from) = (self.now(wire), address(1 - self.place.number));
        while let Some(id) = self.held.pop_front() {
            if let Some((head, size)) = wire.heads.take(id) {
                self.engine.transport.streams.endpoint.handle_elided(now, from, head, size);
            }
        }
    }

    /// Whether the gateway is in a stall. Then it is woken at the end.
    fn is_stalled(&mut self, wire: &mut Wire) -> bool {
        self.wakes = self.stalls.end(wire.now).unwrap_or(Instant::FAR_FUTURE);
        let is_stalled = self.wakes < Instant::FAR_FUTURE;
        if is_stalled {
            wire.arm(self.place.satellite.timer, self.wakes);
        }
        is_stalled
    }

    /// The gateway's own timer was due. Returns when it is due next.
    pub(super) fn handle_timeout(&mut self, wire: &mut Wire) -> Instant {
        if self.is_stalled(wire) {
            return self.wakes;
        }
        self.take_held(wire);
        let now = self.now(wire);
        self.endpoint().handle_timeout(now);
        self.engine.handle_timeout(wire.now);
        self.measure_cross_traffic(wire);
        self.ask_modem(wire);
        self.flush(wire);
        self.deadline()
    }

    /// The timer of a flow's TCP was due. Returns when it is due next.
    pub(super) fn handle_tcp_timeout(&mut self, wire: &mut Wire, split: u32) -> Instant {
        let is_due = self.engine.hosts.half_mut(FlowTcp(split)).is_some_and(|half| half.handle_timeout(wire.now));
        if is_due {
            self.on_tcp(wire, split);
        }
        self.engine.hosts.half_mut(FlowTcp(split)).map_or(Instant::FAR_FUTURE, |half| half.deadline())
    }

    /// TCP of a flow has something to say.
    fn on_tcp(&mut self, wire: &mut Wire, split: u32) {
        self.engine.hosts.touch(FlowTcp(split));
        while let Some(event) = self.engine.hosts.half_mut(FlowTcp(split)).and_then(|half| half.tcp.poll_event()) {
            self.on_tcp_event(wire.now, split, event);
        }
        if let Some(key) = self.engine.hosts.ends[split as usize].key {
            self.engine.on_ready(key);
        }
        self.flush(wire);
    }

    fn on_tcp_event(&mut self, now: Instant, split: u32, event: tcp::Event) {
        let end = &mut self.engine.hosts.ends[split as usize];
        match (event, end.key) {
            (tcp::Event::Connected, key) => {
                end.since = Some(now);
                match key {
                    None => self.engine.accept(now, FlowTcp(split), open(split)),
                    Some(key) => self.engine.on_connected(now, key),
                }
            }
            (tcp::Event::PeerFinished, _) => {
                if let Some(half) = &mut end.half {
                    half.has_peer_finished = true;
                }
            }
            (tcp::Event::Failed(failure), Some(key)) => match self.engine.connection(key).map(Relayed::state) {
                Some(State::Connecting) => self.engine.on_connect_failed(now, key, reason(failure)),
                _ => self.engine.on_tcp_failed(now, key),
            },
            (tcp::Event::Failed(_) | tcp::Event::Readable | tcp::Event::Writable | tcp::Event::Closed, _) => {}
        }
    }

    /// When the gateway wants to be called, or its link to be looked at.
    fn deadline(&self) -> Instant {
        let of_endpoint = self.engine.transport.streams.endpoint.next_timeout().unwrap_or(Instant::FAR_FUTURE);
        let of_engine = self.engine.next_timeout().unwrap_or(Instant::FAR_FUTURE);
        of_endpoint.before(self.place.ahead).min(of_engine).min(self.cross_traffic.due()).min(self.modem.due())
    }

    pub(super) fn arm(&self, wire: &mut Wire) {
        wire.arm(self.place.satellite.timer, self.deadline());
    }

    /// Leaves cross traffic on the link the room that it takes, and looks at what is short, as often as the daemon does.
    fn measure_cross_traffic(&mut self, wire: &mut Wire) {
        if self.cross_traffic.due() <= wire.now {
            let Route { node, path, .. } = self.place.satellite;
            let first = wire.first_link(node, path);
            let sent = self.endpoint().stats().sent_ip_bytes;
            let rate = self.cross_traffic.update(wire, first, sent);
            let now = self.now(wire);
            let total = self.cross_traffic.total();
            self.endpoint().set_cross_traffic(now, rate, total);
            self.engine.look_at_limits(wire.now);
        }
    }

    /// Takes the rate that the modem reports, if any.
    fn ask_modem(&mut self, wire: &mut Wire) {
        if let Some(rate) = self.modem.take_change(wire, self.place.satellite) {
            let now = self.now(wire);
            self.endpoint().set_capacity(now, rate);
        }
    }

    /// Takes the carrier's allocation, if it has changed.
    fn ask_carrier(&mut self, wire: &mut Wire) {
        let Some(allocation) = &mut self.allocation else { return };
        let relayed = self.engine.connections().len() as u32;
        if let Some(rate) = allocation.news(wire, relayed) {
            let now = self.now(wire);
            self.endpoint().set_capacity(now, rate.max(MIN));
        }
    }

    /// Does all there is to do now, and sends what comes of it.
    pub(super) fn flush(&mut self, wire: &mut Wire) {
        if self.is_stalled(wire) {
            // The kernel's TCP goes on.
            return self.engine.hosts.transmit(wire);
        }
        self.engine.serve_waiting(wire.now);
        loop {
            while let Some(event) = self.engine.transport.poll_event(wire.now) {
                self.engine.on_stream_event(wire.now, event);
            }
            self.engine.run(wire.now, 1);
            self.engine.hosts.transmit(wire);
            if !self.engine.has_work() {
                self.ask_carrier(wire);
                if !self.transmit(wire) {
                    break;
                }
            }
        }
        self.engine.tell_shortage(wire.now);
        self.take_notices(wire.now);
        self.arm(wire);
    }

    /// Sends datagrams; returns whether there were any.
    fn transmit(&mut self, wire: &mut Wire) -> bool {
        let now = self.now(wire);
        let Route { node, path, to, .. } = self.place.satellite;
        let mut has_sent = false;
        while let Some(transmit) = self.engine.transport.streams.endpoint.poll_transmit(now, &mut self.buffer) {
            has_sent = true;
            for (head, size) in transmit.elided(&self.buffer) {
                let body = Body::Datagram(wire.heads.put(head, size));
                wire.data_packets += u64::from(size > DATA_PACKET);
                let size = (size + HEADERS) as u32;
                wire.send(node, path, size, Parcel { agent: to.agent, port: to.port, body });
            }
        }
        has_sent
    }

    fn take_notices(&mut self, now: Instant) {
        while let Some(notice) = self.engine.poll_notice() {
            match notice {
                Notice::Closed(ended) => {
                    if let Some(split) = split_named(&ended.request) {
                        self.engine.hosts.ends[split as usize].closed = Some((ended.from_tcp, ended.to_tcp));
                    }
                }
                Notice::Transition { request, from, event, to, .. } => {
                    let split = request.as_ref().and_then(split_named);
                    self.transitions.push(Transition { at: now, split, from, event, to });
                }
                _ => {}
            }
        }
    }

    /// How flow number `split` stands.
    pub(super) fn relayed(&self, split: usize) -> FlowState {
        let end = &self.engine.hosts.ends[split];
        let connection = end.key.and_then(|key| self.engine.connection(key));
        let (state, (from_tcp, to_tcp)) = match connection {
            Some(relayed) => (relayed.state().to_string(), (relayed.from_tcp(), relayed.to_tcp())),
            None => {
                let state = if end.closed.is_some() { State::Closed.to_string() } else { "idle".to_owned() };
                (state, end.closed.unwrap_or_default())
            }
        };
        FlowState { state, since: end.since, from_tcp, to_tcp }
    }

    /// What happened to relayed connections; `flow` names one by its number in the pair.
    pub(super) fn transitions(&self, flow: &impl Fn(u32) -> String) -> impl Iterator<Item = TransitionReport> {
        self.transitions.iter().map(move |one| TransitionReport {
            at_s: one.at.as_secs_f64(),
            node: self.node_name.clone(),
            flow: one.split.map(flow).unwrap_or_default(),
            from: one.from.to_string(),
            event: format!("{:?}", one.event),
            to: one.to.to_string(),
        })
    }

    pub(super) fn session(&self) -> SessionReport {
        let streams = &self.engine.transport.streams;
        let stats = streams.endpoint.peer_stats(Instant::ZERO, streams.id(PEER));
        let own = streams.endpoint.stats();
        SessionReport {
            node: self.node_name.clone(),
            sent_packets: own.sent_packets,
            sent_bytes: own.sent_ip_bytes,
            lost_packets: stats.lost_packets,
            stream_bytes: stats.sent_bytes,
            retransmitted_bytes: stats.retransmitted_bytes,
            repair_bytes: stats.repair_bytes,
            recovered_bytes: stats.recovered_bytes,
            rtt_s: stats.rtt.map(Duration::as_secs_f64),
        }
    }

    /// What the gateway believes of the link's capacity at `now`.
    pub(super) fn capacity_estimate(&self, now: Instant) -> satpep::Estimate {
        self.engine.transport.streams.endpoint.capacity_estimate(now + self.place.ahead)
    }

    /// Lengths cost no memory: what is kept of a datagram in flight is a few dozen bytes.
    pub(super) fn memory(&self) -> usize {
        self.engine.hosts.memory() + BUFFER
    }
}

/// The other gateway, for the engine: every flow may pass.
fn peer() -> PeerSettings {
    PeerSettings {
        name: "peer".to_owned(),
        routes: vec![IpAddr::from(Ipv4Addr::new(198, 18, 1, 1)).into()],
        allow_sources: vec!["10.0.0.0/8".parse().expect("a prefix")],
        allow_destinations: vec!["198.18.0.0/15".parse().expect("a prefix")],
        connect_as_client: true,
        is_direct: false,
    }
}

/// What the engine is to know of the transport's settings.
fn settings(transport: &SatpepSettings, splits: &[Split]) -> engine::Settings {
    let numbered = || splits.iter().enumerate();
    let clients = |of: &dyn Fn(usize) -> bool| {
        let of_flows = numbered().filter(|(_, split)| of(split.flow as usize));
        of_flows.map(|(number, _)| open(number as u32).source.ip().into()).collect::<Vec<_>>()
    };
    let conditions =
        |flows: &[usize]| Conditions { clients: clients(&|flow| flows.contains(&flow)), ..Conditions::default() };
    let class = |(at, class): (usize, &crate::FlowClass)| Class {
        name: format!("class {at}"),
        conditions: conditions(&class.flows),
        settings: class.settings,
    };
    // A rule of no flow would be one of all.
    let bypass = conditions(&transport.bypass);
    engine::Settings {
        routes: Routes::new(peer().routes.into_iter().map(|route| (route, PEER))).expect("one route"),
        classes: transport.classes.iter().enumerate().map(class).filter(|class| !class.conditions.are_none()).collect(),
        bypass: if bypass.are_none() { Vec::new() } else { vec![bypass] },
        connect_timeout: transport.connect_timeout,
        user_timeout: Duration::from_secs(15 * 60),
    }
}

/// How the first gateway reports a failure to connect to its client.
fn reason(failure: tcp::Failure) -> ResetReason {
    match failure {
        tcp::Failure::ConnectTimedOut | tcp::Failure::RetransmissionTimedOut => ResetReason::TimedOut,
        tcp::Failure::Reset => ResetReason::Refused,
        tcp::Failure::Aborted => ResetReason::Aborted,
    }
}
