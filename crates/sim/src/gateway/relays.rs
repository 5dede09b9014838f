//! A pair of gateways that speaks the satellite transport: the state machine of `relay` and the endpoints of `satpep`, as
//! the deployed gateway runs them, between simulated TCP connections.

use super::leg::{Address, Leg, Route};
use super::modem::Modem;
use super::outside::OutsideTraffic;
use super::session::{BUFFER, Session, address};
use super::told::Told;
use super::{
    END_TIMERS, GatewayConfig, GatewayError, Knowledge, SessionReport, Site, Split, StreamReport, Transport, port,
    split_of,
};
use crate::NodeId;
use crate::packet::{Body, Parcel};
use crate::wire::{CLIENT, SERVER, Wire};
use relay::connection::{Action, Event, State};
use relay::preamble::{CONNECTED, MAX_LENGTH, Open, Parser};
use satpep::{Class, Elided, Endpoint, PeerId, ResetReason, StreamId};
use std::collections::{BTreeMap, VecDeque};
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use units::{Duration, Instant, Rate};

/// A pair at work.
#[derive(Debug)]
pub(crate) struct Relays {
    sides: [Side; 2],
    splits: Vec<Split>,
    /// The pair's first timer.
    timer: u32,
}

/// One of the two gateways.
struct Side {
    /// Its number in the pair, and its node's name.
    number: usize,
    node_name: String,
    endpoint: Endpoint<Elided>,
    peer: PeerId,
    /// How much later it is for the endpoint than in the run.
    ahead: Duration,
    /// Its way to the other gateway, and how that is addressed.
    satellite: Route,
    outside: OutsideTraffic,
    modem: Modem,
    /// The carrier on the way, if the rate follows that.
    told: Option<Told>,
    terrestrial: Arc<tcp::Config>,
    /// By the pair's number of the flow.
    relays: Vec<Relay>,
    by_stream: BTreeMap<StreamId, u32>,
    /// Streams whose preamble has not arrived in full.
    opening: BTreeMap<StreamId, Parser>,
    /// Relays that may be able to move bytes, each at most once.
    work: VecDeque<u32>,
    buffer: Vec<u8>,
}

/// One flow at one gateway.
struct Relay {
    /// `None` before the client is accepted or the stream opened.
    state: Option<State>,
    stream: Option<StreamId>,
    leg: Option<Leg>,
    route: Route,
    class: Class,
    is_queued: bool,
    /// Bytes from TCP to the stream, and back.
    from_tcp: u64,
    to_tcp: u64,
    since: Option<Instant>,
}

/// How far a direction has come in one turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Blocked,
    Ended,
}

impl Relays {
    pub(crate) fn new(
        config: &GatewayConfig,
        transport: &Transport,
        splits: Vec<Split>,
        site: Site<'_>,
    ) -> Result<Self, GatewayError> {
        let Site { wire, paths, network, agent, timer, seed } = site;
        let session = connect(config, transport, network, seed)?;
        let name = |side: usize| network.node_name(config.nodes[side]).to_owned();
        let mut route = |from: NodeId, to_node: NodeId, to: Address, timer: u32| {
            let path = paths.find(wire, network, from, to_node);
            let path = path.ok_or_else(|| {
                let (from, to) = (network.node_name(from), network.node_name(to_node));
                config.error(format!("node `{to}` cannot be reached from node `{from}`: no links lead there"))
            })?;
            Ok(Route { node: from, path, to, timer })
        };
        let Session { ends, peers, begun } = session;
        let ahead = begun.since(Instant::ZERO);
        let mut sides = Vec::with_capacity(2);
        for (number, (endpoint, peer)) in ends.into_iter().zip(peers).enumerate() {
            let [own, other] = [number, 1 - number].map(|side| config.nodes[side]);
            let to = Address { agent, port: 1 - number as u32 };
            let satellite = route(own, other, to, timer + number as u32)?;
            let mut relays = Vec::with_capacity(splits.len());
            for (at, split) in splits.iter().enumerate() {
                let (leg, host, end) =
                    if split.first == number { (0, split.client, CLIENT) } else { (1, split.server, SERVER) };
                let to = Address { agent: split.flow, port: end };
                let route = route(own, host, to, timer + END_TIMERS + port(at, number, leg))?;
                let listens = (leg == 0).then(|| Leg::listen(&config.terrestrial, route));
                relays.push(Relay::new(route, split.class, listens));
            }
            let way = network.path(own, other).expect("the session's way was found");
            let first = *way.first().expect("the session's way was found");
            let is_told = transport.knowledge == Knowledge::Told;
            sides.push(Side {
                told: Told::on_way(network, own, other).filter(|_| is_told),
                modem: Modem::new(if is_told { way } else { Vec::new() }),
                outside: OutsideTraffic::new(first, endpoint.stats().sent_ip_bytes),
                number,
                node_name: name(number),
                endpoint,
                peer,
                ahead,
                satellite,
                terrestrial: config.terrestrial.clone(),
                relays,
                by_stream: BTreeMap::new(),
                opening: BTreeMap::new(),
                work: VecDeque::new(),
                buffer: vec![0; BUFFER],
            });
        }
        let sides: [Side; 2] = sides.try_into().expect("a pair has two sides");
        for side in &sides {
            wire.arm(side.satellite.timer, side.deadline());
        }
        Ok(Self { sides, splits, timer })
    }

    pub(crate) fn handle_packet(&mut self, wire: &mut Wire, parcel: &Parcel) {
        match &parcel.body {
            Body::Tcp(segment) => {
                let (split, side, _) = split_of(parcel.port);
                let side = &mut self.sides[side];
                if let Some(leg) = &mut side.relays[split].leg {
                    leg.tcp.handle_segment(wire.now, segment);
                    side.enqueue(split as u32);
                    side.flush(wire);
                }
            }
            Body::Datagram(id) => {
                let side = &mut self.sides[parcel.port as usize];
                let now = side.now(wire);
                if let Some((head, size)) = wire.heads.take(*id) {
                    side.endpoint.handle_elided(now, address(1 - side.number), head, size);
                    side.flush(wire);
                }
            }
            _ => {}
        }
    }

    pub(crate) fn handle_timeout(&mut self, wire: &mut Wire, timer: u32) {
        if timer < END_TIMERS {
            let side = &mut self.sides[timer as usize];
            side.endpoint.handle_timeout(side.now(wire));
            side.measure_outside(wire);
            side.ask_modem(wire);
            side.flush(wire);
            return wire.set_timer(self.timer + timer, side.deadline());
        }
        let (split, side, _) = split_of(timer - END_TIMERS);
        let side = &mut self.sides[side];
        if side.relays[split].leg.as_mut().is_some_and(|leg| leg.handle_timeout(wire.now)) {
            side.enqueue(split as u32);
            side.flush(wire);
        }
        let deadline = side.relays[split].leg.as_ref().map_or(Instant::FAR_FUTURE, Leg::deadline);
        wire.set_timer(self.timer + timer, deadline);
    }

    /// Tells the session what the carriers on its way give it, where that is news.
    pub(crate) fn follow(&mut self, wire: &mut Wire) {
        self.sides.iter_mut().filter(|side| side.told.is_some()).for_each(|side| side.flush(wire));
    }

    pub(crate) fn memory(&self) -> usize {
        let session = |side: &Side| {
            // Lengths cost no memory: what is kept of a datagram under way, sent or received, is a few dozen bytes.
            side.relays.len() * (size_of::<Relay>() + 512) + BUFFER
        };
        self.sides.iter().map(session).sum()
    }

    /// What passed for each flow, by its number.
    pub(crate) fn streams(&self) -> Vec<(u32, StreamReport)> {
        let stream = |(number, split): (usize, &Split)| {
            let [first, second] = [split.first, 1 - split.first].map(|side| &self.sides[side].relays[number]);
            let name = |relay: &Relay| relay.state.map_or("idle".to_owned(), |state| state.to_string());
            let report = StreamReport {
                flow: String::new(),
                accepted_s: first.since.map(Instant::as_secs_f64),
                connected_s: second.since.map(Instant::as_secs_f64),
                from_client: first.from_tcp,
                to_server: second.to_tcp,
                from_server: second.from_tcp,
                to_client: first.to_tcp,
                states: [name(first), name(second)],
            };
            (split.flow, report)
        };
        self.splits.iter().enumerate().map(stream).collect()
    }

    pub(crate) fn sessions(&self) -> Vec<SessionReport> {
        let session = |side: &Side| {
            let stats = side.endpoint.peer_stats(Instant::ZERO, side.peer);
            let (sent_packets, sent_bytes) = {
                let own = side.endpoint.stats();
                (own.sent_packets, own.sent_ip_bytes)
            };
            SessionReport {
                node: side.node_name.clone(),
                sent_packets,
                sent_bytes,
                lost_packets: stats.lost_packets,
                stream_bytes: stats.sent_bytes,
                retransmitted_bytes: stats.retransmitted_bytes,
                repair_bytes: stats.repair_bytes,
                restored_bytes: stats.restored_bytes,
                rtt_s: stats.rtt.map(Duration::as_secs_f64),
            }
        };
        self.sides.iter().map(session).collect()
    }
}

/// Bytes of the IPv4 and UDP headers of a datagram.
const HEADERS: usize = 28;

/// What a terminal without an allocation is given: what waits for one asks for it by waiting.
const LEAST: Rate = Rate::from_bps(16_000);

/// A session over the path between the two nodes.
fn connect(
    config: &GatewayConfig,
    transport: &Transport,
    network: &crate::Network,
    seed: u64,
) -> Result<Session, GatewayError> {
    let [a, b] = config.nodes;
    let mut capacity = Vec::with_capacity(2);
    let mut delays = [Duration::ZERO; 2];
    for (side, (from, to)) in [(a, b), (b, a)].into_iter().enumerate() {
        let [from_name, to_name] = [from, to].map(|node| network.node_name(node));
        let path = network.path(from, to).filter(|path| !path.is_empty());
        let path = path.ok_or_else(|| config.error(format!("no links lead from node `{from_name}` to `{to_name}`")))?;
        let links = || path.iter().map(|direction| &network.directions()[direction.index()].config);
        delays[side] = links().fold(Duration::ZERO, |sum, link| sum + link.delay);
        let slowest = path.iter().filter_map(|direction| network.highest_rate(*direction)).min();
        let rate = transport.capacity[side].or(slowest).ok_or_else(|| {
            config
                .error(format!("the links from `{from_name}` to `{to_name}` have no rate: give the pair its capacity"))
        })?;
        capacity.push(rate);
    }
    if let Some(rtt) = transport.rtt {
        delays = [rtt / 2, rtt - rtt / 2];
    }
    Session::connect([capacity[0], capacity[1]], delays, seed, |endpoint| {
        endpoint.pacing_gain = transport.pacing_gain;
        endpoint.pool = transport.pool;
        endpoint.outage_limit = transport.outage_limit.unwrap_or(endpoint.outage_limit);
        (endpoint.repair, endpoint.repair_share) = (transport.repair, transport.repair_share);
        endpoint.learn = transport.knowledge == Knowledge::Learnt;
        endpoint.share = transport.share;
    })
    .ok_or_else(|| config.error("no session comes up over a path of such a rate and delay"))
}

impl Relay {
    fn new(route: Route, class: Class, leg: Option<Leg>) -> Self {
        Self { state: None, stream: None, leg, route, class, is_queued: false, from_tcp: 0, to_tcp: 0, since: None }
    }
}

/// The preamble of the pair's flow number `split`: the client's address carries the number.
fn open(split: u32) -> Open {
    let [_, a, b, c] = split.to_be_bytes();
    let socket = |ip, port| SocketAddr::new(IpAddr::V4(ip), port);
    Open::new(socket(Ipv4Addr::new(10, a, b, c), 1024), socket(Ipv4Addr::new(198, 18, 1, 1), 80))
}

/// The flow that a preamble names.
fn split_named(open: &Open) -> Option<u32> {
    match open.source.ip() {
        IpAddr::V4(ip) => {
            let [_, a, b, c] = ip.octets();
            Some(u32::from_be_bytes([0, a, b, c]))
        }
        IpAddr::V6(_) => None,
    }
}

impl Side {
    /// The endpoint's time.
    fn now(&self, wire: &Wire) -> Instant {
        wire.now + self.ahead
    }

    /// When the endpoint wants to be called, or its link to be looked at, in the run's time.
    fn deadline(&self) -> Instant {
        let at = self.endpoint.next_timeout().unwrap_or(Instant::FAR_FUTURE);
        at.before(self.ahead).min(self.outside.due()).min(self.modem.due())
    }

    /// Leaves other traffic on the link the room that it takes.
    fn measure_outside(&mut self, wire: &Wire) {
        if self.outside.due() <= wire.now {
            let rate = self.outside.update(wire, self.endpoint.stats().sent_ip_bytes);
            self.endpoint.set_outside_traffic(self.now(wire), rate);
        }
    }

    /// Takes the rate that the modem tells, if it tells one.
    fn ask_modem(&mut self, wire: &Wire) {
        if let Some(rate) = self.modem.take_change(wire) {
            self.endpoint.set_capacity(self.now(wire), rate);
        }
    }

    /// Takes what the carrier tells, if that is news.
    fn ask_carrier(&mut self, wire: &mut Wire) {
        let Some(told) = &mut self.told else { return };
        let open = self.relays.iter().filter(|relay| relay.stream.is_some()).count() as u32;
        if let Some(rate) = told.news(wire, open) {
            self.endpoint.set_capacity(wire.now + self.ahead, rate.max(LEAST));
        }
    }

    fn enqueue(&mut self, split: u32) {
        if !std::mem::replace(&mut self.relays[split as usize].is_queued, true) {
            self.work.push_back(split);
        }
    }

    /// Does all there is to do now, and sends what comes of it.
    fn flush(&mut self, wire: &mut Wire) {
        loop {
            while let Some(event) = self.endpoint.poll_event() {
                self.on_stream_event(wire, event);
            }
            if let Some(split) = self.work.pop_front() {
                self.relays[split as usize].is_queued = false;
                self.serve(wire, split);
            } else {
                self.ask_carrier(wire);
                if !self.transmit(wire) {
                    break;
                }
            }
        }
        wire.arm(self.satellite.timer, self.deadline());
    }

    /// Sends datagrams; returns whether there were any.
    fn transmit(&mut self, wire: &mut Wire) -> bool {
        let now = self.now(wire);
        let Route { node, path, to, .. } = self.satellite;
        let mut has_sent = false;
        while let Some(transmit) = self.endpoint.poll_transmit(now, &mut self.buffer) {
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

    fn on_stream_event(&mut self, wire: &Wire, event: satpep::Event) {
        match event {
            satpep::Event::Opened(stream) => {
                self.opening.insert(stream, Parser::new());
            }
            satpep::Event::Readable(stream) | satpep::Event::Writable(stream) => {
                if self.opening.contains_key(&stream) {
                    self.read_preamble(wire, stream);
                } else if let Some(&split) = self.by_stream.get(&stream) {
                    self.enqueue(split);
                }
            }
            satpep::Event::Reset(stream, _) => {
                self.opening.remove(&stream);
                if let Some(&split) = self.by_stream.get(&stream) {
                    self.apply(wire, split, Event::StreamReset);
                    self.enqueue(split);
                }
            }
            // Whoever still relays has yet to learn of the end that came with the last byte it read.
            satpep::Event::Closed(stream) => {
                if let Some(&split) = self.by_stream.get(&stream) {
                    self.apply(wire, split, Event::StreamFin);
                    self.enqueue(split);
                }
            }
            satpep::Event::PeerUp(_)
            | satpep::Event::PeerSilent(_)
            | satpep::Event::PathTooSmall(_)
            | satpep::Event::PeerDrains(_)
            | satpep::Event::PeerRestarted(_)
            | satpep::Event::PeerClockSetBack(..)
            | satpep::Event::OwnClockSetBack(..)
            | satpep::Event::PeerBroke(..) => {}
        }
    }

    /// Reads on in the preamble of a stream.
    fn read_preamble(&mut self, wire: &Wire, stream: StreamId) {
        let now = self.now(wire);
        let mut slices = [IoSlice::new(&[]); 1];
        let Some(parser) = self.opening.get_mut(&stream).filter(|_| self.endpoint.readable(stream, &mut slices) > 0)
        else {
            return;
        };
        let named = match parser.push(&slices[0]) {
            Ok((used, None)) => return self.endpoint.consume(now, stream, used),
            Ok((used, Some(open))) => {
                self.endpoint.consume(now, stream, used);
                split_named(&open).filter(|split| (*split as usize) < self.relays.len())
            }
            Err(_) => None,
        };
        self.opening.remove(&stream);
        let Some(split) = named else { return self.endpoint.reset(now, stream, ResetReason::Protocol) };
        let relay = &mut self.relays[split as usize];
        (relay.state, relay.stream) = (Some(State::Opening), Some(stream));
        self.endpoint.set_class(now, stream, &relay.class);
        self.by_stream.insert(stream, split);
        self.apply(wire, split, Event::OpenValid);
        self.enqueue(split);
    }

    /// Takes what TCP has to say, gives the relay its turn, and sends TCP's segments.
    fn serve(&mut self, wire: &mut Wire, split: u32) {
        while let Some(event) = self.relays[split as usize].leg.as_mut().and_then(|leg| leg.tcp.poll_event()) {
            self.on_tcp_event(wire, split, event);
        }
        self.turn(wire, split);
        if let Some(leg) = &mut self.relays[split as usize].leg {
            leg.transmit(wire);
        }
    }

    fn on_tcp_event(&mut self, wire: &Wire, split: u32, event: tcp::Event) {
        let relay = &mut self.relays[split as usize];
        match event {
            tcp::Event::Connected if relay.state.is_none() => self.accept(wire, split),
            tcp::Event::Connected => {
                relay.since = Some(wire.now);
                self.apply(wire, split, Event::TcpConnected);
            }
            tcp::Event::PeerFinished => {
                if let Some(leg) = &mut relay.leg {
                    leg.has_peer_finished = true;
                }
            }
            tcp::Event::Failed(failure) => match relay.state {
                Some(State::Connecting) => self.apply(wire, split, Event::TcpFailed(reason(failure))),
                Some(_) => self.apply(wire, split, Event::TcpReset),
                None => {}
            },
            tcp::Event::Readable | tcp::Event::Writable | tcp::Event::Closed => {}
        }
    }

    /// A client has connected: its data go to the other gateway at once.
    fn accept(&mut self, wire: &Wire, split: u32) {
        let now = self.now(wire);
        let stream = self.open_stream(now, split);
        let relay = &mut self.relays[split as usize];
        match stream {
            Some(stream) => {
                (relay.state, relay.stream, relay.since) = (Some(State::Requested), Some(stream), Some(wire.now));
                self.by_stream.insert(stream, split);
            }
            // No session, or no stream left.
            None => {
                if let Some(leg) = &mut relay.leg {
                    leg.tcp.abort();
                }
            }
        }
    }

    fn open_stream(&mut self, now: Instant, split: u32) -> Option<StreamId> {
        let mut preamble = [0; MAX_LENGTH];
        let length = open(split).encode(&mut preamble).ok()?;
        let stream = self.endpoint.open(now, self.peer).ok()?;
        self.endpoint.set_class(now, stream, &self.relays[split as usize].class);
        if self.endpoint.write(now, stream, &preamble[..length]) == length {
            return Some(stream);
        }
        self.endpoint.reset(now, stream, ResetReason::StreamLimit);
        None
    }

    /// Moves bytes both ways.
    fn turn(&mut self, wire: &Wire, split: u32) {
        let state = |side: &Self| side.relays[split as usize].state.unwrap_or(State::Closed);
        if state(self).awaits_answer() {
            self.read_answer(wire, split);
        }
        if state(self).reads_tcp() && self.tcp_to_stream(wire, split) == Some(Progress::Ended) {
            self.apply(wire, split, Event::TcpFin);
        }
        if state(self).reads_stream() && self.stream_to_tcp(wire, split) == Some(Progress::Ended) {
            self.apply(wire, split, Event::StreamFin);
        }
    }

    /// Reads the second gateway's answer if it is there.
    fn read_answer(&mut self, wire: &Wire, split: u32) {
        let now = self.now(wire);
        let Some(stream) = self.relays[split as usize].stream else { return };
        let mut slices = [IoSlice::new(&[]); 1];
        let event = if self.endpoint.readable(stream, &mut slices) == 0 {
            if !self.endpoint.is_read_finished(stream) {
                return;
            }
            Event::StreamFin
        } else if slices[0].first() == Some(&CONNECTED) {
            self.endpoint.consume(now, stream, 1);
            Event::Answered
        } else {
            Event::ProtocolError
        };
        self.apply(wire, split, event);
    }

    /// From TCP's receive buffer into the stream's send buffer. What finds no space there stays, and closes TCP's window.
    fn tcp_to_stream(&mut self, wire: &Wire, split: u32) -> Option<Progress> {
        let now = self.now(wire);
        let relay = &mut self.relays[split as usize];
        let (stream, leg) = (relay.stream?, relay.leg.as_mut()?);
        let waiting = leg.tcp.readable();
        if waiting > 0 {
            let taken = self.endpoint.write_elided(now, stream, usize::try_from(waiting).unwrap_or(usize::MAX)) as u64;
            leg.tcp.read(wire.now, taken);
            relay.from_tcp += taken;
        }
        Some(if leg.is_at_end() { Progress::Ended } else { Progress::Blocked })
    }

    /// From the stream's receive buffer into TCP's send buffer.
    fn stream_to_tcp(&mut self, wire: &Wire, split: u32) -> Option<Progress> {
        let now = self.now(wire);
        let relay = &mut self.relays[split as usize];
        let (stream, leg) = (relay.stream?, relay.leg.as_mut()?);
        let waiting = self.endpoint.readable_len(stream);
        if waiting > 0 {
            let taken = leg.tcp.write(waiting);
            self.endpoint.consume(now, stream, taken as usize);
            relay.to_tcp += taken;
        }
        Some(if self.endpoint.is_read_finished(stream) { Progress::Ended } else { Progress::Blocked })
    }

    /// Feeds `event` to the relay's state machine and carries out what it says.
    fn apply(&mut self, wire: &Wire, split: u32, event: Event) {
        let Some(state) = self.relays[split as usize].state else { return };
        let step = state.on(event).or_else(|_| state.on(Event::ProtocolError));
        let step = step.expect("a protocol error is an event of every state");
        self.relays[split as usize].state = Some(step.next);
        for action in step.actions.into_iter().flatten() {
            self.act(wire, split, action);
        }
    }

    fn act(&mut self, wire: &Wire, split: u32, action: Action) {
        let now = self.now(wire);
        let relay = &mut self.relays[split as usize];
        let Some(stream) = relay.stream else { return };
        match action {
            Action::Connect => relay.leg = Some(Leg::connect(&self.terrestrial, relay.route, wire.now)),
            Action::Answer => {
                self.endpoint.write(now, stream, &[CONNECTED]);
            }
            Action::FinishStream => self.endpoint.finish(now, stream),
            Action::ResetStream(reason) => self.endpoint.reset(now, stream, reason),
            Action::ShutdownTcp | Action::CloseTcp => relay.finish_tcp(),
            Action::ResetTcp => relay.abort_tcp(),
            // SYNs are not held here.
            Action::ReleaseSyn | Action::RefuseSyn => {}
        }
    }
}

impl Relay {
    fn finish_tcp(&mut self) {
        if let Some(leg) = &mut self.leg {
            leg.tcp.finish();
        }
    }

    fn abort_tcp(&mut self) {
        if let Some(leg) = &mut self.leg {
            leg.tcp.abort();
        }
    }
}

/// A datagram of more bytes than this carries data (or repair, or probes the path).
const DATA_PACKET: usize = 400;

/// What the first gateway tells its client of a failure to connect.
fn reason(failure: tcp::Failure) -> ResetReason {
    match failure {
        tcp::Failure::ConnectTimedOut | tcp::Failure::RetransmissionTimedOut => ResetReason::TimedOut,
        tcp::Failure::Reset => ResetReason::Refused,
        tcp::Failure::Aborted => ResetReason::Aborted,
    }
}

impl std::fmt::Debug for Side {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Side")
            .field("node", &self.node_name)
            .field("relays", &self.relays.len())
            .finish_non_exhaustive()
    }
}
