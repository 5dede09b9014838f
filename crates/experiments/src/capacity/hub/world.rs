//! The run: endpoints of the transport, and the links between them.

use super::super::cases::Prior;
use super::super::left_out::LeftOut;
use super::clock::Clock;
use super::{BEGIN, HubCase, LOSS, PHASE, RATE, RTT, Trouble};
use crate::Error;
use crate::setup::loss;
use link::{Link, LinkConfig, LossModel, Outcome, Packet};
use satpep::{Elided, Endpoint, EndpointConfig, Event, PeerConfig, PeerId, PrivateKey, StreamId};
use std::net::SocketAddr;
use units::{Bytes, CounterRandom, Duration, Instant, Rate};

/// Of all clocks: so that others may be behind it.
const AHEAD: f64 = 2e5;
/// Terminals' clocks differ from the hub's by at most this, in seconds, and this, in parts.
const SPREAD: f64 = 1e5;
const DRIFT: f64 = 1e-4;
/// How far the clock of one that lies sways.
const LIE: f64 = 0.15;
/// Room for the largest batch of datagrams.
const BUFFER: usize = 1 << 16;
/// Bytes of the IPv4 and UDP headers.
const HEADERS: usize = 28;
/// Between two looks at the carrier's queue.
const LOOKS: Duration = Duration::from_millis(10);
/// More events than any run has.
const MOST_EVENTS: u64 = 50_000_000;

/// A datagram on its way.
#[derive(Clone)]
struct Datagram {
    /// The endpoints' numbers; the hub's is 0.
    from: usize,
    to: usize,
    head: Vec<u8>,
    size: usize,
}

impl Packet for Datagram {
    fn size(&self) -> Bytes {
        Bytes::from(self.size + HEADERS)
    }
}

struct Node {
    endpoint: Endpoint<Elided>,
    clock: Clock,
    /// The hub's peers, or the hub.
    peers: Vec<PeerId>,
}

/// What was seen until some time.
#[derive(Clone)]
pub(super) struct Tally {
    /// Payload bytes by terminal.
    pub(super) received: Vec<u64>,
    /// IP bytes that entered the carrier since data began.
    pub(super) offered: u64,
    /// The carrier's queue since data began.
    pub(super) queues: Vec<Duration>,
}

pub(super) struct World {
    now: Instant,
    nodes: Vec<Node>,
    carrier: Link<Datagram>,
    /// To each terminal, behind the carrier, and back from it.
    paths: Vec<Link<Datagram>>,
    returns: Vec<Link<Datagram>>,
    streams: Vec<StreamId>,
    /// Terminals that begin to read later, and when.
    later: Option<(Vec<PeerId>, Instant)>,
    buffer: Vec<u8>,
    received: Vec<u64>,
    queues: Vec<Duration>,
    offered_before: u64,
    next_look: Instant,
    events: u64,
}

impl World {
    pub(super) fn new(case: &HubCase, without: Option<LeftOut>, seed: u64) -> Result<Self, Error> {
        let link = |rate: Rate, delay, stream| LinkConfig { seed, stream, ..LinkConfig::new(rate, delay) };
        let make = |config| Link::new(config).map_err(Error::failed);
        let lossy = |config| Ok::<_, Error>(LinkConfig { loss: LossModel::Bernoulli(loss(LOSS)?), ..config });
        let back = Rate::from_bps(RATE.as_bps() / case.terminals as u64);
        let path = |terminal: usize| make(case.own_path(terminal, BEGIN, seed, false));
        let of_return = |terminal: usize| make(lossy(link(back, case.rtt(terminal) / 2, 1 + terminal as u64))?);
        let nodes = nodes(case, without, seed)?;
        let later = case.is_first.then(|| (nodes[0].peers[1..].to_vec(), Instant::ZERO + BEGIN + PHASE));
        Ok(Self {
            now: Instant::ZERO,
            nodes,
            carrier: make(lossy(link(RATE, case.carrier_rtt() / 2, 0))?)?,
            paths: (0..case.terminals).map(path).collect::<Result<_, _>>()?,
            returns: (0..case.terminals).map(of_return).collect::<Result<_, _>>()?,
            streams: Vec::new(),
            later,
            buffer: vec![0; BUFFER],
            received: vec![0; case.terminals],
            queues: Vec::new(),
            offered_before: 0,
            next_look: Instant::ZERO + BEGIN,
            events: 0,
        })
    }

    /// Goes on to `end`.
    pub(super) fn run_until(&mut self, end: Duration) -> Result<Tally, Error> {
        let end = Instant::ZERO + end;
        loop {
            self.serve()?;
            let next = self.next().min(self.next_look);
            if next > end {
                break;
            }
            self.events += 1;
            if self.events > MOST_EVENTS {
                return Err(Error::failed("the hub and its terminals keep each other busy"));
            }
            self.now = self.now.max(next);
            self.look();
            self.carry();
            for node in &mut self.nodes {
                let local = node.clock.read(self.now);
                if node.endpoint.next_timeout().is_some_and(|at| at <= local) {
                    node.endpoint.handle_timeout(local);
                }
            }
        }
        self.now = end;
        let offered = self.carrier.counters().offered.bytes - self.offered_before;
        Ok(Tally { received: self.received.clone(), offered, queues: self.queues.clone() })
    }

    fn next(&self) -> Instant {
        let links = std::iter::once(&self.carrier).chain(&self.paths).chain(&self.returns);
        let links = links.filter_map(Link::next_timeout);
        // A clock that was read a nanosecond too early is read again.
        let soon = self.now + Duration::from_nanos(1000);
        let timeouts =
            self.nodes.iter().filter_map(|node| Some(node.clock.time_of(node.endpoint.next_timeout()?).max(soon)));
        links.chain(timeouts).min().unwrap_or(Instant::FAR_FUTURE)
    }

    /// Looks at the carrier's queue, and begins to send when that is due.
    fn look(&mut self) {
        if self.now < self.next_look {
            return;
        }
        self.next_look += LOOKS;
        if self.streams.is_empty() {
            self.offered_before = self.carrier.counters().offered.bytes;
            let mut peers = self.nodes[0].peers.clone();
            peers.retain(|peer| !self.later.as_ref().is_some_and(|(later, _)| later.contains(peer)));
            self.open(peers);
        }
        if let Some((peers, _)) = self.later.take_if(|(_, at)| *at <= self.now) {
            self.open(peers);
        }
        self.queues.push(RATE.time_to_send(self.carrier.queued_bytes(self.now)));
    }

    /// Begins to send to `peers`.
    fn open(&mut self, peers: Vec<PeerId>) {
        let hub = &mut self.nodes[0];
        let local = hub.clock.read(self.now);
        self.streams.extend(peers.into_iter().filter_map(|peer| hub.endpoint.open(local, peer).ok()));
    }

    /// Moves datagrams from link to link and to the endpoints.
    fn carry(&mut self) {
        let now = self.now;
        while let Some(outcome) = self.carrier.poll(now) {
            if let Outcome::Departure { packet, .. } = outcome {
                self.paths[packet.to - 1].enqueue(now, packet);
            }
        }
        for link in self.paths.iter_mut().chain(&mut self.returns) {
            while let Some(outcome) = link.poll(now) {
                let Outcome::Departure { mut packet, .. } = outcome else { continue };
                let node = &mut self.nodes[packet.to];
                let local = node.clock.read(now);
                node.endpoint.handle_elided(local, address(packet.from), &mut packet.head, packet.size);
            }
        }
    }

    /// Lets all endpoints read, write and send what they can.
    fn serve(&mut self) -> Result<(), Error> {
        for at in 0..self.nodes.len() {
            let node = &mut self.nodes[at];
            let local = node.clock.read(self.now);
            while let Some(event) = node.endpoint.poll_event() {
                match event {
                    Event::Readable(stream) if at > 0 => {
                        let length = node.endpoint.readable_len(stream);
                        node.endpoint.consume(local, stream, length as usize);
                        self.received[at - 1] += length;
                    }
                    Event::Reset(..) | Event::PeerBroke(..) => {
                        return Err(Error::failed(format!("between hub and terminals: {event:?}")));
                    }
                    _ => {}
                }
            }
            if at == 0 {
                for stream in &self.streams {
                    while node.endpoint.write_elided(local, *stream, 1 << 16) > 0 {}
                }
            }
            while let Some(transmit) = node.endpoint.poll_transmit(local, &mut self.buffer) {
                let to = usize::from(octet(transmit.to)) - 1;
                for (head, size) in transmit.elided(&self.buffer) {
                    let datagram = Datagram { from: at, to, head: head.to_vec(), size };
                    let link = if at == 0 { &mut self.carrier } else { &mut self.returns[at - 1] };
                    link.enqueue(self.now, datagram);
                }
            }
        }
        Ok(())
    }
}

fn nodes(case: &HubCase, without: Option<LeftOut>, seed: u64) -> Result<Vec<Node>, Error> {
    let random = CounterRandom::new(seed, 1 << 60);
    let key = |number: usize| PrivateKey::from_random([number as u8 + 1; 32]);
    let back = Rate::from_bps(RATE.as_bps() / case.terminals as u64);
    let mut nodes = Vec::new();
    for number in 0..=case.terminals {
        let clock = Clock {
            ahead: AHEAD + if number == 0 { 0.0 } else { SPREAD * (2.0 * random.unit_at(2 * number as u64) - 1.0) },
            drift: if number == 0 { 0.0 } else { DRIFT * (2.0 * random.unit_at(2 * number as u64 + 1) - 1.0) },
            sways: if number == 1 && case.trouble == Trouble::OneLies { LIE } else { 0.0 },
        };
        let [out, into] = if number == 0 { [RATE, back] } else { [back, RATE] };
        let mut config = EndpointConfig::new(key(number), out, into, RTT);
        if number == 0 {
            (config.capacity, config.prior) = match case.prior {
                Prior::Times(times) => (RATE.mul_f64(times), None),
                Prior::Nothing => (satpep::Prior::UNKNOWN, Some(satpep::Prior::None)),
            };
        }
        config.capacity_is_fixed = without == Some(LeftOut::Estimation);
        config.estimator_parts = LeftOut::rest(without);
        let start = clock.read(Instant::ZERO);
        let mut endpoint = Endpoint::simulated(config, start, seed.wrapping_mul(64) ^ number as u64);
        let others = if number == 0 { 1..case.terminals + 1 } else { 0..1 };
        let peers = others.map(|other| {
            let calls = (number > 0).then(|| address(other));
            endpoint.add_peer(start, PeerConfig::new(key(other).public_key(), calls)).map_err(Error::failed)
        });
        let peers = peers.collect::<Result<_, _>>()?;
        nodes.push(Node { endpoint, clock, peers });
    }
    Ok(nodes)
}

fn address(number: usize) -> SocketAddr {
    SocketAddr::from(([198, 18, 0, number as u8 + 1], 4500))
}

fn octet(address: SocketAddr) -> u8 {
    match address {
        SocketAddr::V4(v4) => v4.ip().octets()[3],
        SocketAddr::V6(_) => 1,
    }
}
