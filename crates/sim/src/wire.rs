//! The state of the network, which all agents share: the links, the paths, the pending events and the records. The wire format of the
//! satellite transport is another: `satpep::wire`.

use crate::ack_serials::AckSerials;
use crate::carriers::Carriers;
use crate::event_queue::{EventQueue, NEVER};
use crate::fused_links::{FusedLinks, Then};
use crate::heads::Heads;
use crate::ns2_times::{EventTime, Ns2Times};
use crate::packet::{Body, FLOW_BITS, Packet, Parcel, ParcelId, Parcels};
use crate::quic_packets::QuicPackets;
use crate::routes::{Routes, Step};
use crate::satpep2003::{Allocator, Division};
use crate::split::SplitFlows;
use crate::{
    CapacitySample, CarrierReport, DirectionId, FlowSample, Network, NetworkError, NodeId, PacketRecord, QueueSample,
    Settings,
};
use link::{Acks, Counters, DropReason, Link, LoggedOutcome, Outcome};
use std::collections::BTreeMap;
use units::{Bytes, Duration, Instant, Probability, Rate};

// An entry of the table of paths is `END`, or a number with these marks:
//
// | marks | number of | what the packet does |
// | --- | --- | --- |
// | none | a direction | it goes onto the link |
// | `PASSES` | a direction | it passes the link without an event |
// | `PASSES`, `PINNED` | a direction | it goes onto the link if that is up, else it is lost |
// | `PASSES`, `ROUTED` | a destination | it takes the link that leads there now |
//
// `PINNED` and `ROUTED` never stand together, nor without `PASSES`: one test of one bit finds the entries without a mark, which are the
// most frequent.

/// Ends a path in the table of paths.
const END: u32 = u32::MAX;
/// Marks a direction in the table of paths from which packets go on without an event; see [`crate::fused_links`].
const PASSES: u32 = 1 << 31;
/// Marks the only entry of a path that is computed again: the rest is the number of its destination.
const ROUTED: u32 = 1 << 30;
/// Marks a direction that packets take whatever other ways there are, but only while it is up.
const PINNED: u32 = 1 << 29;

/// Where a path starts in the table of paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Path(u32);

/// The network at work.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) now: Instant,
    links: Vec<Link<Packet>>,
    carriers: Carriers,
    /// The timer of the first carrier, behind all others but that of routes.
    first_carrier_timer: u32,
    /// Routes, if they change.
    routes: Option<Box<Routes>>,
    pub(crate) parcels: Parcels,
    /// What the datagrams of gateways say.
    pub(crate) heads: Heads,
    /// What packets of QUIC say.
    pub(crate) quic_packets: QuicPackets,
    /// For each link that duplicates, the parcel of the packet that came out last: the next to come may be its copy.
    copied: Vec<Option<ParcelId>>,
    duplicates: Vec<bool>,
    /// When each link has something to say: one pending event for each, however much is on the way.
    arrivals: EventQueue<4>,
    /// When each timer goes off.
    timers: EventQueue<8>,
    /// The directions of links that packets take, path after path, each ended by `END`.
    paths: Vec<u32>,
    fused_links: FusedLinks,
    /// The node in which each direction ends.
    ends: Vec<NodeId>,
    pub(crate) data_packets: u64,
    pub(crate) flow_samples: Vec<FlowSample>,
    /// Set if a link filters acknowledgements or thins them out.
    ack_serials: Option<AckSerials>,
    /// Whether arrivals concern anyone but whom they are for: the tap, or an allocator.
    is_watched: bool,
    /// Whether an arrival may take more than to go on: links that duplicate, someone who watches, ns-2's times.
    has_extras: bool,
    tap: Tap,
    allocators: Allocators,
    ns2_times: Option<Box<Ns2Times>>,
}

/// What divides links among connections, and the direction that each measures.
#[derive(Debug, Default)]
struct Allocators {
    all: Vec<Allocator>,
    directions: Vec<Option<u32>>,
}

/// Records packets at chosen nodes.
#[derive(Debug, Default)]
struct Tap {
    on: bool,
    /// Whether each node is watched.
    nodes: Vec<bool>,
    records: Vec<PacketRecord>,
    pairs: SplitFlows,
}

/// The direction from which packets enter another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Feeder {
    /// None do.
    None,
    /// All come from this one.
    One(u32),
    /// From several, or from a node's own agents.
    Many,
}

/// What happens next.
pub(crate) enum Event {
    /// A packet is where it was sent. Its parcel is to be released.
    Delivery(ParcelId),
    /// A packet was dropped, or sent on by a router.
    Passage,
    /// A timer, by number, is due: it stays so until it is [set](Wire::set_timer).
    Timer(u32),
}

/// What probably follows the next event.
pub(crate) struct Upcoming<'a> {
    /// The timer that goes off next.
    pub(crate) timer: u32,
    /// Packets that come to where they were sent, soon and later, if a link has them.
    pub(crate) soon: Option<&'a Packet>,
    pub(crate) later: Option<&'a Packet>,
}

/// How many packets of a link come before those: enough for memory to answer, and no more than a short link has.
const SOON: usize = 2;
const LATER: usize = 5;

impl Wire {
    /// An idle network with `timers` timers for others.
    ///
    /// # Errors
    /// If a carrier is not there or cannot serve its terminals.
    pub(crate) fn new(
        network: &Network,
        timers: u32,
        settings: &Settings,
        pairs: SplitFlows,
    ) -> Result<Self, NetworkError> {
        network.check_carriers()?;
        let watched = &settings.record.packets_at[..];
        let carriers = Carriers::new(network, settings.record.capacity)?;
        let routes = Routes::new(network, settings.routing).map(Box::new);
        let directions = network.directions();
        let links = directions
            .iter()
            .enumerate()
            .map(|(number, direction)| {
                let link = Link::new(direction.config.clone()).expect("the network has validated it");
                let may_lose = |routes: &Routes| routes.may_lose(DirectionId::new(number as u32));
                if routes.as_deref().is_some_and(may_lose) { link.into_fallible(direction.config.queue) } else { link }
            })
            .collect();
        let mut nodes = vec![false; network.nodes().len()];
        for node in watched {
            nodes[node.index()] = true;
        }
        let asks_for_acks = directions.iter().any(|direction| direction.config.acks != Acks::Keep);
        let mut wire = Self {
            now: Instant::ZERO,
            links,
            first_carrier_timer: timers,
            parcels: Parcels::default(),
            heads: Heads::default(),
            quic_packets: QuicPackets::default(),
            copied: vec![None; directions.len()],
            duplicates: directions.iter().map(|direction| direction.config.duplicate > Probability::ZERO).collect(),
            arrivals: EventQueue::new(directions.len()),
            timers: EventQueue::new((timers + carriers.count() + 1) as usize),
            routes,
            carriers,
            paths: Vec::new(),
            fused_links: FusedLinks::new(directions.len()),
            ends: directions.iter().map(|direction| direction.to).collect(),
            data_packets: 0,
            flow_samples: Vec::new(),
            ack_serials: asks_for_acks.then(AckSerials::default),
            is_watched: !watched.is_empty(),
            has_extras: !watched.is_empty(),
            allocators: Allocators { all: Vec::new(), directions: vec![None; directions.len()] },
            ns2_times: None,
            tap: Tap { on: !watched.is_empty(), nodes, records: Vec::new(), pairs },
        };
        wire.has_extras |= wire.duplicates.contains(&true);
        (0..wire.carriers.count()).for_each(|number| wire.set_carrier_timer(number));
        Ok(wire)
    }

    fn set_carrier_timer(&mut self, number: u32) {
        let at = self.carriers.next_timeout(number);
        self.set_timer(self.first_carrier_timer + number, at);
    }

    /// If the timer that was due is a carrier's, the carrier does what is due; returns whether it is.
    pub(crate) fn wake_carrier(&mut self, timer: u32) -> bool {
        let Some(number) = timer.checked_sub(self.first_carrier_timer) else { return false };
        self.carriers.wake(number, self.now, &mut self.links, &mut self.arrivals);
        self.set_carrier_timer(number);
        true
    }

    fn set_routes_timer(&mut self) {
        if let Some(routes) = &self.routes {
            let (timer, at) = (self.first_carrier_timer + self.carriers.count(), routes.next_timeout());
            self.set_timer(timer, at.min(NEVER));
        }
    }

    /// If the timer that was due is that of routes, links come and go, and routes follow; returns whether it is.
    pub(crate) fn wake_routes(&mut self, timer: u32) -> bool {
        let is_theirs = timer == self.first_carrier_timer + self.carriers.count();
        if is_theirs {
            self.follow_links();
        }
        is_theirs
    }

    /// Brings links and routes up to date: at the start, when all paths are known, and at each of their times.
    pub(crate) fn follow_links(&mut self) {
        self.advance_routes();
        let Some(routes) = &mut self.routes else { return };
        let mut gone = routes.take_gone();
        gone.retain(|direction| routes.may_lose(DirectionId::new(*direction)));
        for direction in gone {
            self.lose_all(direction);
        }
        self.set_routes_timer();
    }

    /// Brings routes up to date. What links have that go now they lose later, when all that arrives now has arrived.
    fn advance_routes(&mut self) {
        let (now, links) = (self.now, &self.links);
        if let Some(routes) = self.routes.as_mut().filter(|routes| routes.next_timeout() <= now) {
            routes.advance(now, |direction| links[direction as usize].delay(now));
        }
    }

    /// A link has gone with all that it had.
    fn lose_all(&mut self, direction: u32) {
        let mut lost = Vec::new();
        self.links[direction as usize].lose_all(self.now, |packet| lost.push(packet.parcel));
        self.arrivals.set(direction, NEVER);
        for parcel in lost {
            let own = if self.duplicates[direction as usize] { self.own(direction, parcel) } else { parcel };
            self.drop(own);
        }
    }

    /// Packets for which there was no way.
    pub(crate) fn no_route_packets(&self) -> u64 {
        self.routes.as_ref().map_or(0, |routes| routes.no_route)
    }

    /// The path of packets to `node`, wherever they begin, if routes change.
    fn routed_path(&mut self, node: NodeId) -> Option<Path> {
        let destination = self.routes.as_mut()?.destination(node);
        let path = Path(self.paths.len() as u32);
        self.paths.push(PASSES | ROUTED | destination);
        Some(path)
    }

    /// When routes change next.
    pub(crate) fn routes_change_at(&self) -> Instant {
        self.routes.as_ref().map_or(Instant::FAR_FUTURE, |routes| routes.next_timeout())
    }

    /// The links that a packet sent now from `node`, where `path` starts, would take.
    pub(crate) fn links_of(&mut self, node: NodeId, path: Path) -> Vec<DirectionId> {
        // What changes now has changed, although its timer comes after all others.
        self.advance_routes();
        let start = path.0 as usize;
        let step = self.paths[start];
        let links: Vec<_> = match &self.routes {
            Some(routes) if step & ROUTED != 0 => {
                let destination = step & !(PASSES | ROUTED);
                let next = |node| routes.next(destination, node);
                std::iter::successors(next(node), |link| next(self.ends[*link as usize])).collect()
            }
            _ => {
                let plain = |step: u32| step & !(PASSES | PINNED);
                self.paths[start..].iter().take_while(|step| **step != END).map(|step| plain(*step)).collect()
            }
        };
        links.into_iter().map(DirectionId::new).collect()
    }

    /// The first of those links.
    pub(crate) fn first_link(&mut self, node: NodeId, path: Path) -> Option<DirectionId> {
        self.links_of(node, path).into_iter().next()
    }

    /// How long a packet of this size takes over all of those links as they are now, if they are idle: propagation, and the time to
    /// send it where the link has a rate.
    pub(crate) fn idle_time_of(&mut self, node: NodeId, path: Path, size: Bytes) -> Duration {
        let links = self.links_of(node, path);
        let time = |link: &DirectionId| {
            let link = &self.links[link.index()];
            let rate = link.rate(self.now).map(|(rate, _)| rate).filter(|rate| *rate > Rate::ZERO);
            link.delay(self.now) + rate.map_or(Duration::ZERO, |rate| rate.time_to_send(size))
        };
        links.iter().map(time).fold(Duration::ZERO, |sum, time| sum + time)
    }

    /// The rate that the terminal whose way to the hub is `direction` has now, as the latest plan that it received says;
    /// `None` if the direction shares no carrier.
    pub(crate) fn allocated(&self, direction: DirectionId) -> Option<Rate> {
        self.carriers.allocated(direction)
    }

    /// Asks for at least `rate` for the terminal whose way to the hub is `direction`, from its next request on: a terminal that sends
    /// no faster than it is allocated would never be given more.
    pub(crate) fn demand(&mut self, direction: DirectionId, rate: Rate) {
        self.carriers.demand(direction, rate);
    }

    /// Takes the samples of carriers.
    pub(crate) fn take_capacity_samples(&mut self) -> Vec<CapacitySample> {
        self.carriers.take_samples()
    }

    /// What was asked of carriers, given and used.
    pub(crate) fn carrier_reports(&self, network: &Network) -> Vec<CarrierReport> {
        self.carriers.report(network)
    }

    /// Lets packets pass without an event wherever all paths allow it: to be called when all paths are known. Then what
    /// [`Wire::queues`] tells and what is recorded at nodes would not be as of now.
    pub(crate) fn let_packets_pass(&mut self) {
        if self.routes.is_some() {
            return;
        }
        let feeders = self.feeders();
        for i in 1..self.paths.len() {
            let (from, to) = (self.paths[i - 1], self.paths[i]);
            if from == END || to == END || feeders[to as usize] != Feeder::One(from & !PASSES) {
                continue;
            }
            let decide = |direction: u32| self.links[(direction & !PASSES) as usize].decides_on_arrival();
            // An allocator measures at the end of its link.
            let is_measured = self.allocators.directions[(from & !PASSES) as usize].is_some();
            if decide(from) && decide(to) && !is_measured {
                self.paths[i - 1] |= PASSES;
                self.fused_links.join(from & !PASSES, to & !PASSES);
            }
        }
    }

    /// From now on carries ns-2's times along.
    pub(crate) fn keep_ns2_times(&mut self, network: &Network) {
        self.ns2_times = Some(Box::new(Ns2Times::new(network)));
        self.has_extras = true;
    }

    /// When the packet came that is being delivered, if ns-2's times are kept.
    #[inline]
    pub(crate) fn ns2_arrival(&self, id: ParcelId) -> Option<EventTime> {
        self.ns2_times.as_ref().map(|times| times.arrival(id))
    }

    /// ns-2's time now; that of the simulator where it keeps none.
    pub(crate) fn ns2_now(&self) -> f64 {
        self.ns2_times.as_ref().map_or(self.now.as_secs_f64(), |times| times.now)
    }

    /// Does what happens at `time`, ns-2's, and `now`, which is at most [`ROUNDING`](crate::ns2_times::ROUNDING) away from the
    /// time of the event that is being handled.
    pub(crate) fn at<T>(&mut self, time: f64, now: Instant, act: impl FnOnce(&mut Self) -> T) -> T {
        if let Some(times) = &mut self.ns2_times {
            times.now = time;
        }
        let handled = std::mem::replace(&mut self.now, now);
        let done = act(self);
        // What was sent over a link that takes no time may arrive before.
        self.now = handled.min(self.next());
        done
    }

    /// Where packets come from that enter each direction.
    fn feeders(&self) -> Vec<Feeder> {
        let mut feeders = vec![Feeder::None; self.links.len()];
        let mut before = Feeder::Many;
        for &direction in &self.paths {
            if direction == END {
                before = Feeder::Many;
                continue;
            }
            let feeder = &mut feeders[direction as usize];
            *feeder = if *feeder == Feeder::None || *feeder == before { before } else { Feeder::Many };
            before = Feeder::One(direction);
        }
        feeders
    }

    /// The outcome of every packet until now, by direction.
    pub(crate) fn counters(&self) -> Vec<Counters> {
        let mut counters: Vec<_> = self.links.iter().map(|link| *link.counters()).collect();
        self.fused_links.take_off(self.now, &mut counters);
        counters
    }

    /// Bytes that have entered a direction until now, as [`Wire::counters`] has them, at the cost of this direction alone.
    pub(crate) fn offered_bytes(&self, direction: DirectionId) -> u64 {
        let counted = self.links[direction.index()].counters().offered.bytes;
        counted - self.fused_links.yet_to_enter(self.now, direction.index() as u32)
    }

    /// What waits for each direction now.
    pub(crate) fn queues(&mut self) -> impl Iterator<Item = QueueSample> {
        let at = self.now;
        self.links.iter_mut().enumerate().map(move |(direction, link)| QueueSample {
            direction: DirectionId::new(direction as u32),
            at,
            packets: link.queued_packets(at),
            bytes: link.queued_bytes(at),
            offered: Bytes::new(link.counters().offered.bytes),
        })
    }

    /// Takes the packets recorded.
    pub(crate) fn take_records(&mut self) -> Vec<PacketRecord> {
        std::mem::take(&mut self.tap.records)
    }

    /// The rate of a direction now, and until when it holds; `None` if it has none.
    pub(crate) fn rate(&self, direction: DirectionId) -> Option<(Rate, Instant)> {
        self.links[direction.index()].rate(self.now)
    }

    /// Adds the path over this direction alone, whatever other ways there are.
    pub(crate) fn add_pinned_path(&mut self, direction: DirectionId) -> Path {
        let path = self.add_path(&[direction]);
        if self.routes.is_some() {
            self.paths[path.0 as usize] |= PASSES | PINNED;
        }
        path
    }

    /// Adds a path over these links.
    fn add_path(&mut self, directions: &[DirectionId]) -> Path {
        let path = Path(self.paths.len() as u32);
        self.paths.extend(directions.iter().map(|direction| direction.index() as u32));
        self.paths.push(END);
        path
    }

    /// Bytes that packets under way and records occupy, roughly.
    pub(crate) fn memory(&self) -> usize {
        size_of::<(Instant, Packet)>() * self.parcels.len()
            + self.parcels.memory()
            + self.fused_links.memory()
            + self.heads.memory()
            + self.quic_packets.memory()
            + self.carriers.memory()
            + size_of::<PacketRecord>() * self.tap.records.capacity()
            + size_of::<FlowSample>() * self.flow_samples.capacity()
    }

    /// When the next event is due; [`NEVER`] if there is none.
    #[inline]
    pub(crate) fn next(&self) -> Instant {
        self.arrivals.first().at.min(self.timers.first().at)
    }

    /// What probably follows the next event.
    #[inline]
    pub(crate) fn upcoming(&self) -> Upcoming<'_> {
        let (arrival, timer) = (self.arrivals.first(), self.timers.first());
        if arrival.at > timer.at {
            return Upcoming { timer: self.timers.second(), soon: None, later: None };
        }
        let link = &self.links[arrival.slot as usize];
        let arrives = |packet: &&Packet| self.paths[packet.hop as usize] == END;
        let [soon, later] = [SOON, LATER].map(|n| link.upcoming(n).filter(arrives));
        Upcoming { timer: timer.slot, soon, later }
    }

    /// Moves to the next event. Of those at one instant arrivals come before timers, and lower numbers before higher ones.
    #[inline]
    pub(crate) fn advance(&mut self) -> Event {
        let (arrival, timer) = (self.arrivals.first(), self.timers.first());
        debug_assert!(arrival.at.min(timer.at) >= self.now, "an event in the past");
        if arrival.at <= timer.at {
            self.now = arrival.at;
            self.arrive(arrival.slot)
        } else {
            self.now = timer.at;
            if let Some(times) = &mut self.ns2_times {
                times.now = self.now.as_secs_f64();
            }
            Event::Timer(timer.slot)
        }
    }

    /// Takes what a link has to say, and sends it on.
    #[inline]
    fn arrive(&mut self, direction: u32) -> Event {
        let link = &mut self.links[direction as usize];
        let outcome = link.poll(self.now);
        self.arrivals.set_first(link.next_at());
        let mut packet = match outcome {
            Some(Outcome::Departure { packet, .. }) => packet,
            Some(Outcome::Drop { packet, reason, .. }) => {
                if reason == DropReason::Loss {
                    self.cross(direction, &packet);
                }
                self.drop(packet.parcel);
                return Event::Passage;
            }
            None => return Event::Passage,
        };
        if self.has_extras {
            self.take_note(direction, &mut packet);
        }
        let next = self.paths[packet.hop as usize];
        if next == END {
            return self.deliver(&packet);
        }
        packet.hop += 1;
        if next & PASSES == 0 {
            self.put(next, self.now, packet);
            return Event::Passage;
        }
        if next & (PINNED | ROUTED) == 0 {
            self.pass(next & !PASSES, packet);
            return Event::Passage;
        }
        self.go_on(self.ends[direction as usize], next, packet)
    }

    /// A packet is where it was sent.
    #[inline]
    fn deliver(&mut self, packet: &Packet) -> Event {
        if packet.ecn.is_marked() {
            self.parcels.mark(packet.parcel);
        }
        Event::Delivery(packet.parcel)
    }

    /// A packet at `node` goes on where routes change.
    #[inline(never)]
    fn go_on(&mut self, node: NodeId, step: u32, packet: Packet) -> Event {
        // What changes now has changed for the packets of now, too, although its timer comes after all others.
        self.advance_routes();
        if step & PINNED != 0 {
            self.put_if_up(step & !(PASSES | PINNED), packet);
            return Event::Passage;
        }
        self.route(node, step & !(PASSES | ROUTED), packet)
    }

    fn put_if_up(&mut self, direction: u32, packet: Packet) {
        if self.routes.as_ref().is_none_or(|routes| routes.is_up(direction)) {
            self.put(direction, self.now, packet);
        } else {
            self.refuse(direction, &packet);
        }
    }

    /// Drops a packet that was to take a direction which is down.
    fn refuse(&mut self, direction: u32, packet: &Packet) {
        self.links[direction as usize].refuse(link::Packet::size(packet));
        self.drop(packet.parcel);
    }

    /// A packet at `node` takes the way that is the shortest now to its destination, whose entry is the one before its hop.
    fn route(&mut self, node: NodeId, destination: u32, mut packet: Packet) -> Event {
        packet.hop -= 1;
        let Some(routes) = &mut self.routes else { return Event::Passage };
        match routes.step(destination, node) {
            Step::Arrived => {
                if let Some(times) = &mut self.ns2_times {
                    times.now = times.arrival(packet.parcel).at;
                }
                return self.deliver(&packet);
            }
            Step::Over(direction) => self.put(direction, self.now, packet),
            Step::Down(direction) => self.refuse(direction, &packet),
            Step::Nowhere => {
                routes.no_route += 1;
                self.drop(packet.parcel);
            }
        }
        Event::Passage
    }

    /// Does what the arrival of a packet takes beside what it does by itself.
    #[inline(never)]
    fn take_note(&mut self, direction: u32, packet: &mut Packet) {
        self.cross(direction, packet);
        if self.duplicates[direction as usize] {
            packet.parcel = self.own(direction, packet.parcel);
        }
        if self.is_watched {
            self.watch(direction, packet);
        }
        if let Some(times) = self.ns2_times.as_mut().filter(|_| self.paths[packet.hop as usize] == END) {
            times.now = times.arrival(packet.parcel).at;
        }
    }

    /// A packet has come to the end of a link now, or was lost on it.
    #[inline]
    fn cross(&mut self, direction: u32, packet: &Packet) {
        if let Some(times) = &mut self.ns2_times {
            times.on_crossed(direction, packet.parcel, u32::from(packet.size), self.now);
        }
    }

    /// The parcel of a packet that came out of a link that duplicates. A copy follows right behind its original and names
    /// the same parcel: so an original goes on with a new one, and leaves the old one to a copy that may come.
    #[cold]
    fn own(&mut self, direction: u32, parcel: ParcelId) -> ParcelId {
        let copied = &mut self.copied[direction as usize];
        if *copied == Some(parcel) {
            *copied = None;
            return parcel;
        }
        if let Some(unused) = copied.replace(parcel) {
            self.drop(unused);
        }
        let content = *self.parcels.get(parcel);
        match content.body {
            Body::Datagram(id) => self.heads.copy(id),
            Body::Quic { id, .. } => self.quic_packets.copy(id),
            _ => {}
        }
        let copy = self.parcels.keep(content);
        if let Some(times) = &mut self.ns2_times {
            times.on_copied(parcel, copy);
        }
        copy
    }

    /// Sends a packet of `size` bytes from `node`, where `path` starts.
    #[inline(always)]
    pub(crate) fn send(&mut self, node: NodeId, path: Path, size: u32, parcel: Parcel) {
        let mut flow = self.tap.pairs.identity(&parcel);
        debug_assert!(flow >> FLOW_BITS == 0, "so many flows");
        debug_assert!(size <= u32::from(u16::MAX), "an IP packet of {size} bytes");
        let ecn = parcel.body.ecn();
        let mut acknowledgement = None;
        if let Some(serials) = &mut self.ack_serials {
            acknowledgement = serials.next(&parcel);
            flow |= u32::from(parcel.body.acknowledged_marks()) << FLOW_BITS;
        }
        let parcel = self.parcels.keep(parcel);
        let packet = Packet { parcel, hop: path.0 + 1, size: size as u16, ecn, acknowledgement, flow };
        if let Some(times) = &mut self.ns2_times {
            times.on_sent(packet.parcel);
        }
        if self.tap.on {
            self.record(node, &packet);
        }
        let step = self.paths[path.0 as usize];
        if step & PASSES == 0 {
            self.put(step, self.now, packet);
        } else if step & (PINNED | ROUTED) == 0 {
            self.pass(step & !PASSES, packet);
        } else {
            // It is not yet where it goes: a path has two ends.
            let _ = self.go_on(node, step, packet);
        }
    }

    /// Puts a packet on a link that it enters at `at`.
    #[inline]
    fn put(&mut self, direction: u32, at: Instant, packet: Packet) {
        let link = &mut self.links[direction as usize];
        let before = link.next_at();
        link.enqueue(at, packet);
        let next = link.next_at();
        if next != before {
            self.arrivals.set(direction, next);
        }
    }

    /// Lets a packet pass through `direction`, and on as far as it can.
    fn pass(&mut self, mut direction: u32, mut packet: Packet) {
        let size = u32::from(packet.size);
        let (mut at, mut previous) = (self.now, None);
        loop {
            let step = self.paths[packet.hop as usize];
            let (next, goes_on) = (step & !PASSES, step & PASSES != 0);
            match self.links[direction as usize].pass(at, Bytes::new(u64::from(size))) {
                LoggedOutcome::Arrives(arrival) => {
                    self.fused_links.push(self.now, direction, arrival, size, next, Then::Enters);
                    at = arrival;
                }
                LoggedOutcome::Lost(arrival) => {
                    self.fused_links.push(self.now, direction, arrival, size, next, Then::Lost);
                    return self.drop(packet.parcel);
                }
                LoggedOutcome::Refused(reason) => {
                    if let Some(previous) = previous {
                        self.fused_links.refuse_latest(previous, reason);
                    }
                    return self.drop(packet.parcel);
                }
            }
            packet.hop += 1;
            if !goes_on {
                return self.put(next, at, packet);
            }
            (previous, direction) = (Some(direction), next);
        }
    }

    /// A packet goes no further.
    fn drop(&mut self, parcel: ParcelId) {
        match self.parcels.get(parcel).body {
            Body::Datagram(id) => self.heads.lose(id),
            Body::Quic { id, .. } => self.quic_packets.lose(id),
            _ => {}
        }
        self.parcels.release(parcel);
    }

    /// Asks for [`Event::Timer`] at `deadline` or before. A timer already set to an earlier time stays: its owner
    /// sees then that it is not due and sets it again, so that a deadline that keeps moving into the future costs nothing.
    #[inline]
    pub(crate) fn arm(&mut self, timer: u32, deadline: Instant) {
        if deadline < self.timers.at(timer) {
            self.timers.set(timer, deadline.max(self.now));
        }
    }

    /// Sets a timer, or stops it with a time in the far future.
    #[inline]
    pub(crate) fn set_timer(&mut self, timer: u32, at: Instant) {
        self.timers.set(timer, at.max(self.now));
    }

    #[inline(never)]
    fn watch(&mut self, direction: u32, packet: &Packet) {
        if self.tap.on {
            self.record(self.ends[direction as usize], packet);
        }
        if let Some(allocator) = self.allocators.directions[direction as usize] {
            self.allocators.all[allocator as usize].on_packet(self.now, link::Packet::size(packet));
        }
    }

    /// What divides this direction of a link: the one there is, or a new one. Returns its number.
    pub(crate) fn divide(&mut self, direction: DirectionId, division: Division) -> u32 {
        (self.is_watched, self.has_extras) = (true, true);
        let Allocators { all, directions } = &mut self.allocators;
        *directions[direction.index()].get_or_insert_with(|| {
            all.push(Allocator::new(division));
            all.len() as u32 - 1
        })
    }

    /// An allocator by its number.
    #[inline]
    pub(crate) fn allocator(&mut self, number: u32) -> &mut Allocator {
        &mut self.allocators.all[number as usize]
    }

    #[cold]
    fn record(&mut self, node: NodeId, packet: &Packet) {
        if self.tap.nodes[node.index()] {
            let parcel = self.parcels.get(packet.parcel);
            let ((flow, to_server), part) = (self.tap.pairs.flow(parcel), self.tap.pairs.part(parcel));
            let mut body = parcel.body;
            if packet.ecn.is_marked() {
                body.mark();
            }
            let (at, size) = (self.now, Bytes::new(u64::from(packet.size)));
            self.tap.records.push(PacketRecord { at, node, flow, to_server, size, part, body });
        }
    }
}

/// Makes paths: one table entry for all flows between the same nodes.
#[derive(Debug, Default)]
pub(crate) struct PathTable {
    known: BTreeMap<(NodeId, NodeId), Option<Path>>,
}

impl PathTable {
    /// The path from one node to another; `None` if there is none, or if they are the same.
    pub(crate) fn find(&mut self, wire: &mut Wire, network: &Network, from: NodeId, to: NodeId) -> Option<Path> {
        *self.known.entry((from, to)).or_insert_with(|| {
            let directions = network.path(from, to).filter(|directions| !directions.is_empty())?;
            wire.routed_path(to).or_else(|| Some(wire.add_path(&directions)))
        })
    }
}
