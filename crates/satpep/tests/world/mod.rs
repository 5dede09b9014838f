//! Gateways on simulated links in virtual time: no socket, no clock, no waiting.

use link::{Link, LinkConfig, LossModel, Outcome, Packet, QueueLimit};
use satpep::dscp::Dscp;
use satpep::{
    Arrival, Endpoint, EndpointConfig, Event, Mark, Mode, Opener, Opening, PeerConfig, PeerId, PrivateKey, Run,
    StreamId, Transmit, routing,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io::IoSlice;
use std::net::SocketAddr;
use std::rc::Rc;
use testkit::{Agenda, HEADERS, VirtualTime, pattern};
use units::{Bytes, Duration, Instant, Probability, Rate};

/// The satellite hop between a hub and its terminals.
#[derive(Debug, Clone)]
pub struct Hop {
    pub rate: Rate,
    pub return_rate: Rate,
    pub rtt: Duration,
    pub loss: f64,
    pub seed: u64,
    pub reorder: Option<link::Reorder>,
    pub duplicate: f64,
    /// The largest IP packet that passes.
    pub mtu: usize,
    /// When the hub's rate changes, after the start of all time, and what it is then.
    pub change: Option<(Duration, Rate)>,
}

impl Hop {
    pub fn geo(loss: f64, seed: u64) -> Self {
        let rate = Rate::from_bps(6_000_000);
        let rtt = Duration::from_millis(550);
        Self { rate, return_rate: rate, rtt, loss, seed, reorder: None, duplicate: 0.0, mtu: 1500, change: None }
    }

    /// The design's limit for `bytes` from the hub's side ("up"): half a round trip and the bytes in full packets.
    pub fn limit_up(&self, bytes: u64) -> f64 {
        0.5 * self.rtt.as_secs_f64()
            + bytes as f64 * 8.0 / (self.rate.as_bps() as f64 * 1448.0 / 1500.0 * (1.0 - self.loss))
    }

    fn forward(&self) -> Link<Datagram> {
        let mut config = self.config(self.rate, 1);
        config.rate_steps = self.change.map(|change| link::Steps::new(vec![change]));
        Link::new(config).expect("link")
    }

    fn link(&self, rate: Rate, stream: u64) -> Link<Datagram> {
        Link::new(self.config(rate, stream)).expect("link")
    }

    fn config(&self, rate: Rate, stream: u64) -> LinkConfig {
        let mut config = LinkConfig::new(rate, self.rtt / 2);
        config.queue = QueueLimit::bandwidth_delay_product(rate, self.rtt);
        if self.loss > 0.0 {
            config.loss = LossModel::Bernoulli(Probability::new(self.loss).expect("probability"));
        }
        config.reorder = self.reorder;
        config.duplicate = Probability::new(self.duplicate).expect("probability");
        config.seed = self.seed;
        config.stream = stream;
        config
    }
}

#[derive(Debug, Clone)]
pub struct Datagram {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub bytes: Vec<u8>,
    /// It carries a congestion mark.
    pub marked: bool,
    pub dscp: Dscp,
}

impl Packet for Datagram {
    fn size(&self) -> Bytes {
        Bytes::from(self.bytes.len() + HEADERS)
    }
}

/// One gateway and what its streams' users did.
pub struct Gateway {
    pub endpoint: Endpoint,
    pub address: SocketAddr,
    /// Another address of its host.
    pub other_address: Option<SocketAddr>,
    pub peers: Vec<PeerId>,
    pub events: Vec<(Instant, Event)>,
    pub received: BTreeMap<StreamId, Received>,
    pub sending: BTreeMap<StreamId, Sending>,
    /// Of those, the ones that may take more.
    pub writable: BTreeSet<StreamId>,
    /// Numbers of streams that are not read.
    pub stalled: Vec<u64>,
    /// Streams that were read to their end are not ended in the other direction.
    pub keep_open: bool,
    /// Streams are answered with what they bring.
    pub echo: bool,
    /// Of this process.
    pub run: Run,
    /// It is no more.
    pub is_dead: bool,
    /// What opens packets in the endpoint's place.
    opener: Option<Opener>,
    /// How many it has opened.
    pub opened_elsewhere: u64,
}

#[derive(Debug, Default, Clone)]
pub struct Received {
    pub bytes: u64,
    pub last_at: Instant,
    pub opened_at: Instant,
    pub finished: bool,
}

#[derive(Debug, Clone)]
pub struct Sending {
    pub left: u64,
    pub written: u64,
    pub finish: bool,
    pub finished: bool,
}

/// The outcome of a datagram on its way: the datagrams to put on the link in its place.
pub type Tamper = Box<dyn FnMut(&Datagram) -> Vec<Datagram>>;

type AdjustEndpoint = Rc<dyn Fn(usize, &mut EndpointConfig)>;
type AdjustPeer = Rc<dyn Fn(usize, usize, &mut PeerConfig)>;

/// Gateway 0 is the hub; all others are terminals. What the hub sends shares one link, and so does what they send.
pub struct World {
    pub time: VirtualTime,
    pub gateways: Vec<Gateway>,
    forward: Link<Datagram>,
    back: Link<Datagram>,
    pub hop: Hop,
    /// Nothing passes while set.
    pub outage: bool,
    /// Gateways that are cut off.
    pub unreachable: Vec<usize>,
    /// A gateway whose process does not run: what comes waits in its socket, up to so many bytes.
    pub frozen: Option<(usize, usize)>,
    waiting: Vec<(Instant, Datagram)>,
    /// What an attacker on the path does.
    pub tamper: Option<Tamper>,
    /// Every datagram that passed, kept if asked for.
    pub capture: Option<Vec<Datagram>>,
    /// Whether it is the gateways' own hosts that do not take what is larger than the path carries.
    pub refuses: bool,
    adjust_endpoint: AdjustEndpoint,
    adjust_peer: AdjustPeer,
    buffer: Vec<u8>,
    /// When each gateway is driven next, and which ones are in any case.
    due: BTreeSet<(Instant, usize)>,
    due_at: Vec<Option<Instant>>,
    touched: BTreeSet<usize>,
    /// The processes at each address, the newest last.
    places: BTreeMap<SocketAddr, Vec<usize>>,
    /// What is not marked `ef` waits for so long behind what is.
    pub overtaking: Duration,
    /// Datagrams that leave in batches are lost.
    pub lose_batches: bool,
    overtaken: Agenda<Datagram>,
}

pub fn key(index: usize) -> PrivateKey {
    let mut bytes = [(index as u8).wrapping_add(1); 32];
    bytes[1] ^= (index >> 8) as u8;
    PrivateKey::from_random(bytes)
}

pub fn address(index: usize) -> SocketAddr {
    SocketAddr::from(([198, 18, (index / 254) as u8, (index % 254) as u8 + 1], 4500))
}

impl World {
    pub fn new(hop: Hop, terminals: usize) -> Self {
        Self::with(hop, terminals, |_| {})
    }

    /// A hub and terminals that keep their rates by force: what is looked at is not how they are estimated.
    pub fn fixed(hop: Hop, terminals: usize) -> Self {
        Self::with(hop, terminals, |config| config.capacity_is_fixed = true)
    }

    /// A hub and terminals whose settings `adjust` may change.
    pub fn with(hop: Hop, terminals: usize, adjust: impl Fn(&mut EndpointConfig) + 'static) -> Self {
        Self::with_each(hop, terminals, move |_, config| adjust(config), |_, _, _| {})
    }

    /// The same with settings for each gateway, and for each pair of a gateway and its peer.
    pub fn with_each(
        hop: Hop,
        terminals: usize,
        adjust_endpoint: impl Fn(usize, &mut EndpointConfig) + 'static,
        adjust_peer: impl Fn(usize, usize, &mut PeerConfig) + 'static,
    ) -> Self {
        let mut world = Self {
            time: VirtualTime::starting_at(Instant::from_nanos(1_000_000_000)),
            gateways: Vec::new(),
            forward: hop.forward(),
            back: hop.link(hop.return_rate, 2),
            hop,
            outage: false,
            unreachable: Vec::new(),
            frozen: None,
            waiting: Vec::new(),
            tamper: None,
            capture: None,
            refuses: false,
            adjust_endpoint: Rc::new(adjust_endpoint),
            adjust_peer: Rc::new(adjust_peer),
            buffer: vec![0; 64 * 1024],
            due: BTreeSet::new(),
            due_at: Vec::new(),
            touched: BTreeSet::new(),
            places: BTreeMap::new(),
            overtaking: Duration::ZERO,
            lose_batches: false,
            overtaken: Agenda::new(),
        };
        for index in 0..=terminals {
            let gateway = world.gateway(index, terminals, 1, Run::Fresh);
            world.add(gateway);
        }
        world
    }

    fn add(&mut self, gateway: Gateway) -> usize {
        let index = self.gateways.len();
        self.gateways.push(gateway);
        self.due_at.push(None);
        index
    }

    fn gateway(&self, index: usize, terminals: usize, number: u64, run: Run) -> Gateway {
        let hub = index == 0;
        let (out, back) =
            if hub { (self.hop.rate, self.hop.return_rate) } else { (self.hop.return_rate, self.hop.rate) };
        let out = if hub { out } else { Rate::from_bps(out.as_bps() / terminals as u64) };
        let mut config = EndpointConfig::new(key(index), out, back, self.hop.rtt);
        // Terminals are assigned their parts of the return link.
        config.ceiling = (!hub).then_some(out);
        (self.adjust_endpoint)(index, &mut config);
        config.run = run;
        let unix_time = (1 << 50) + number * (1 << 40) + self.time.now().as_nanos();
        let mut endpoint = Endpoint::new(config, self.time.now(), unix_time, [index as u8 ^ (number as u8) << 4; 32]);
        let others = if hub { 1..=terminals } else { 0..=0 };
        let peers = others
            .map(|other| {
                let call = (!hub).then(|| address(other));
                let mut peer = PeerConfig::new(key(other).public_key(), call);
                (self.adjust_peer)(index, other, &mut peer);
                endpoint.add_peer(self.time.now(), peer).expect("peer")
            })
            .collect();
        Gateway {
            endpoint,
            address: address(index),
            other_address: None,
            peers,
            events: Vec::new(),
            received: BTreeMap::new(),
            sending: BTreeMap::new(),
            writable: BTreeSet::new(),
            stalled: Vec::new(),
            keep_open: false,
            echo: false,
            run,
            is_dead: false,
            opener: None,
            opened_elsewhere: 0,
        }
    }

    /// Gateway `index` dies and comes back with nothing but its configuration.
    pub fn restart(&mut self, index: usize, run: u64) {
        self.gateways[index] = self.replacement(index, run);
    }

    /// Another process with the configuration of gateway `index`.
    pub fn replacement(&self, index: usize, run: u64) -> Gateway {
        self.gateway(index, self.gateways.len() - 1, run, Run::Fresh)
    }

    /// What leaves is sealed, and what arrives is opened, outside of the endpoints from now on.
    pub fn seal_elsewhere(&mut self) {
        for gateway in &mut self.gateways {
            gateway.opener = Some(Opener::default());
            gateway.endpoint.set_driver_opens(true);
        }
    }

    /// Runs until all sessions are up, and a second longer.
    pub fn connect(&mut self) {
        self.run_until(Duration::from_secs(20), |world| {
            world.gateways.iter().all(|gateway| {
                gateway.peers.iter().all(|peer| gateway.endpoint.peer_state(*peer) == satpep::PeerState::Up)
            })
        });
        self.run_for(Duration::from_millis(2500));
    }

    pub fn run_for(&mut self, duration: Duration) {
        let end = self.time.now() + duration;
        self.touch_all();
        while self.advance(end) {}
        self.time.advance(end);
    }

    /// Runs until `done` or for `limit` at most; returns whether it was done.
    pub fn run_until(&mut self, limit: Duration, done: impl Fn(&World) -> bool) -> bool {
        let end = self.time.now() + limit;
        self.touch_all();
        while !done(self) {
            if !self.advance(end) {
                return done(self);
            }
        }
        true
    }

    /// As [`World::run_until`], for a `done` that takes long to see: it is asked ten times a second.
    pub fn run_until_about(&mut self, limit: Duration, done: impl Fn(&World) -> bool) -> bool {
        let end = self.time.now() + limit;
        while !done(self) && self.time.now() < end {
            self.run_for(Duration::from_millis(100));
        }
        done(self)
    }

    /// One round: everything that is due now, then on to the next deadline. `false` when that lies beyond `end`.
    pub fn step(&mut self, end: Instant) -> bool {
        self.touch_all();
        self.advance(end)
    }

    /// Whatever a test has done to gateways is looked at.
    fn touch_all(&mut self) {
        self.touched.extend(0..self.gateways.len());
        self.places.clear();
        for (index, gateway) in self.gateways.iter_mut().enumerate() {
            for address in [Some(gateway.address), gateway.other_address].into_iter().flatten() {
                self.places.entry(address).or_default().push(index);
            }
            gateway.writable.extend(gateway.sending.keys());
        }
    }

    fn advance(&mut self, end: Instant) -> bool {
        let due: Vec<usize> =
            self.due.iter().take_while(|(at, _)| *at <= self.time.now()).map(|(_, index)| *index).collect();
        self.touched.extend(due);
        for index in std::mem::take(&mut self.touched) {
            if !self.gateways[index].is_dead && !self.is_frozen(index) {
                self.drive(index);
            }
            self.set_due(index);
        }
        self.deliver();
        let due = self.due.first().map(|(at, _)| *at);
        let next = [due, self.overtaken.next_timeout(), self.forward.next_timeout(), self.back.next_timeout()]
            .into_iter()
            .flatten()
            .min();
        match next {
            Some(next) if next <= end => {
                self.time.advance(next);
                true
            }
            _ => false,
        }
    }

    /// Looks when gateway `index` is to be driven next.
    fn set_due(&mut self, index: usize) {
        let gateway = &self.gateways[index];
        let rests = gateway.is_dead || self.is_frozen(index);
        let due = if rests { None } else { gateway.endpoint.next_timeout() };
        if let Some(before) = std::mem::replace(&mut self.due_at[index], due) {
            self.due.remove(&(before, index));
        }
        self.due.extend(due.map(|at| (at, index)));
    }

    fn drive(&mut self, index: usize) {
        let now = self.time.now();
        let gateway = &mut self.gateways[index];
        gateway.endpoint.handle_timeout(now);
        gateway.users(now);
        let mut buffer = std::mem::take(&mut self.buffer);
        while let Some(Transmit { to, from, size, segment_size, dscp }) = gateway.poll_transmit(now, &mut buffer) {
            if self.refuses && segment_size + HEADERS > self.hop.mtu {
                gateway.endpoint.handle_refused(now, to, segment_size);
                continue;
            }
            for bytes in buffer[..size].chunks(segment_size) {
                let from = from.map_or(gateway.address, |from| SocketAddr::new(from, gateway.address.port()));
                let datagram = Datagram { from, to, bytes: bytes.to_vec(), marked: false, dscp };
                if self.outage
                    || self.unreachable.contains(&index)
                    || bytes.len() + HEADERS > self.hop.mtu
                    || (self.lose_batches && size > segment_size)
                {
                    continue;
                }
                if let Some(capture) = &mut self.capture {
                    capture.push(datagram.clone());
                }
                let is_hub = gateway.address == address(0);
                let link = if is_hub { &mut self.forward } else { &mut self.back };
                match &mut self.tamper {
                    Some(tamper) => tamper(&datagram).into_iter().for_each(|datagram| link.enqueue(now, datagram)),
                    None => link.enqueue(now, datagram),
                }
            }
        }
        self.buffer = buffer;
    }

    /// Puts a datagram of gateway `index` on its link, past everything that `drive` does.
    pub fn put_on_link(&mut self, index: usize, to: SocketAddr, bytes: &[u8]) {
        let from = self.gateways[index].address;
        let datagram = Datagram { from, to, bytes: bytes.to_vec(), marked: false, dscp: Dscp::default() };
        let link = if index == 0 { &mut self.forward } else { &mut self.back };
        link.enqueue(self.time.now(), datagram);
    }

    fn deliver(&mut self) {
        let now = self.time.now();
        let mut arrived = Vec::new();
        for link in [&mut self.forward, &mut self.back] {
            while let Some(outcome) = link.poll(now) {
                match outcome {
                    Outcome::Departure { packet, .. }
                        if self.overtaking == Duration::ZERO || packet.dscp.value() == 46 =>
                    {
                        arrived.push(packet);
                    }
                    Outcome::Departure { packet, .. } => self.overtaken.insert(now + self.overtaking, packet),
                    _ => {}
                }
            }
        }
        arrived.extend(std::iter::from_fn(|| self.overtaken.poll(now)));
        for mut datagram in arrived {
            let Some(index) = self.process_of(&datagram) else {
                continue;
            };
            if let Some((_, room)) = self.frozen.filter(|(frozen, _)| *frozen == index) {
                let held: usize = self.waiting.iter().map(|(_, datagram)| datagram.bytes.len()).sum();
                if held + datagram.bytes.len() <= room {
                    self.waiting.push((now, datagram));
                }
                continue;
            }
            let gateway = &mut self.gateways[index];
            if !self.outage && !self.unreachable.contains(&index) {
                let mark = if datagram.marked { Mark::Ce } else { Mark::NotCe };
                let arrival = Arrival { at: now, mark, to: Some(datagram.to.ip()) };
                gateway.take_in(now, &mut datagram, &arrival);
                gateway.users(now);
                self.set_due(index);
            }
        }
    }

    fn is_frozen(&self, index: usize) -> bool {
        self.frozen.is_some_and(|(frozen, _)| frozen == index)
    }

    /// The frozen gateway goes on, and takes in what waits: `noted` says when that came, as far as its host knows.
    pub fn thaw(&mut self, noted: impl Fn(Instant) -> Instant) {
        let Some((index, _)) = self.frozen.take() else { return };
        let now = self.time.now();
        let gateway = &mut self.gateways[index];
        for (came, mut datagram) in std::mem::take(&mut self.waiting) {
            gateway.take_in(now, &mut datagram, &Arrival::at(noted(came)));
            gateway.users(now);
        }
        self.touched.insert(index);
    }

    /// The process that a datagram is for: of several at one address, as [`satpep::routing`] has it.
    fn process_of(&self, datagram: &Datagram) -> Option<usize> {
        let mut processes = self.places.get(&datagram.to)?.iter().copied().filter(|at| !self.gateways[*at].is_dead);
        let newest = processes.clone().next_back()?;
        let byte = |at: usize| datagram.bytes.get(at).map(|byte| u32::from(*byte));
        let wanted = match datagram.bytes.first() {
            Some(&routing::INIT) => byte(routing::WANTED_AT).and_then(|wanted| wanted.checked_sub(1)),
            Some(&kind) => byte(routing::generation_at(kind)).map(|byte| byte & 1),
            None => None,
        };
        let named = processes.find(|index| Some(self.gateways[*index].run.generation()) == wanted);
        Some(named.unwrap_or(newest))
    }

    /// A new process takes over from gateway `index`, which has had no other process since it began; returns the new one's number.
    /// The old one begins to drain two seconds later.
    pub fn upgrade(&mut self, index: usize, terminals: usize) -> usize {
        let run = Run::Beside { generation: 1 - self.gateways[index].run.generation() };
        let place = (0..=terminals).find(|place| address(*place) == self.gateways[index].address).expect("a gateway");
        let mut successor = self.gateway(place, terminals, 2, run);
        for (peer, known) in successor.peers.clone().into_iter().zip(self.gateways[index].peers.clone()) {
            if let Some(at) = self.gateways[index].endpoint.peer_address(known) {
                successor.endpoint.initiate(self.time.now(), peer, at);
            }
        }
        self.add(successor)
    }

    /// Bytes that were offered to the forward link.
    pub fn forward_bytes(&self) -> u64 {
        self.forward.counters().offered.bytes
    }

    /// Packets that were offered to the return link.
    pub fn return_packets(&self) -> u64 {
        self.back.counters().offered.packets
    }

    /// Gateway `index` opens a stream to its peer number `peer` and sends `bytes` of the stream's pattern and the end.
    pub fn send(&mut self, index: usize, peer: usize, bytes: u64) -> StreamId {
        let id = self.write(index, peer, bytes);
        self.gateways[index].sending.get_mut(&id).expect("just inserted").finish = true;
        id
    }

    /// The same without the end.
    pub fn write(&mut self, index: usize, peer: usize, bytes: u64) -> StreamId {
        let gateway = &mut self.gateways[index];
        let id = gateway.endpoint.open(self.time.now(), gateway.peers[peer]).expect("open");
        gateway.sending.insert(id, Sending { left: bytes, written: 0, finish: false, finished: false });
        id
    }

    /// What gateway `index` received on its stream with the number of `id`, which is another gateway's name for it.
    pub fn received(&self, index: usize, id: StreamId) -> Option<&Received> {
        // Of the latest session, should there have been several.
        let mut streams = self.gateways[index].received.iter().rev();
        streams.find(|(own, _)| own.number() == id.number()).map(|(_, received)| received)
    }

    /// Whether gateway `index` received that stream to its end.
    /// The name that gateway `index` has for the stream that another calls `id`, of which it has received something.
    pub fn theirs(&self, index: usize, id: StreamId) -> StreamId {
        let mut names = self.gateways[index].received.keys();
        *names.rfind(|name| name.number() == id.number()).expect("it has arrived")
    }

    pub fn is_finished(&self, index: usize, id: StreamId) -> bool {
        self.received(index, id).is_some_and(|received| received.finished)
    }
}

impl Gateway {
    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<Transmit> {
        if self.opener.is_none() {
            return self.endpoint.poll_transmit(now, buffer);
        }
        let (transmit, seal) = self.endpoint.poll_transmit_unsealed(now, buffer)?;
        if let Some(seal) = seal {
            seal.put(&mut buffer[..transmit.size], transmit.segment_size);
        }
        Some(transmit)
    }

    fn take_in(&mut self, now: Instant, datagram: &mut Datagram, arrival: &Arrival) {
        let (from, bytes) = (datagram.from, &mut datagram.bytes);
        let Some(opener) = &mut self.opener else {
            return self.endpoint.handle_datagram_with(now, from, bytes, arrival);
        };
        match opener.open(bytes) {
            Opening::Left => self.endpoint.handle_datagram_with(now, from, bytes, arrival),
            Opening::Forged => self.endpoint.count_forged(),
            Opening::Opened(opened) => {
                self.opened_elsewhere += 1;
                self.endpoint.handle_opened(now, from, bytes, opened, arrival);
            }
        }
        std::iter::from_fn(|| self.endpoint.poll_opening_key()).for_each(|key| opener.learn(key));
    }

    /// How often an event of the wanted kind was seen.
    pub fn count(&self, wanted: impl Fn(&Event) -> bool) -> usize {
        self.events.iter().filter(|(_, event)| wanted(event)).count()
    }

    /// When an event of the wanted kind was first seen.
    pub fn first(&self, wanted: impl Fn(&Event) -> bool) -> Option<Instant> {
        self.events.iter().find(|(_, event)| wanted(event)).map(|(at, _)| *at)
    }

    pub fn state(&self, peer: usize) -> satpep::PeerState {
        self.endpoint.peer_state(self.peers[peer])
    }

    pub fn stats(&self, now: Instant, peer: usize) -> satpep::PeerStats {
        self.endpoint.peer_stats(now, self.peers[peer])
    }

    /// What the users of the streams do: write, read, end.
    pub fn users(&mut self, now: Instant) {
        loop {
            while let Some(event) = self.endpoint.poll_event() {
                self.events.push((now, event));
                match event {
                    Event::Opened(id) => {
                        self.received.insert(id, Received { opened_at: now, ..Received::default() });
                    }
                    Event::Readable(id) => self.read(now, id),
                    Event::Writable(id) => {
                        self.writable.insert(id);
                    }
                    Event::Closed(id) => self.received.entry(id).or_default().finished = true,
                    Event::Reset(id, _) => {
                        self.sending.remove(&id);
                    }
                    _ => {}
                }
            }
            if !self.write(now) {
                return;
            }
        }
    }

    fn write(&mut self, now: Instant) -> bool {
        let mut progress = false;
        let mut chunk = Vec::new();
        for id in std::mem::take(&mut self.writable) {
            let Some(sending) = self.sending.get_mut(&id).filter(|sending| !sending.finished) else { continue };
            while sending.left > 0 {
                // Where there is no room, a byte that is offered has the endpoint tell when there is.
                let length = (sending.left.min(32 * 1024) as usize).min(self.endpoint.write_space(id).max(1));
                chunk.resize(length, 0);
                pattern::fill(id.number(), sending.written, &mut chunk);
                let written = self.endpoint.write(now, id, &chunk) as u64;
                if written == 0 {
                    break;
                }
                sending.written += written;
                sending.left -= written;
                progress = true;
            }
            if sending.left == 0 && sending.finish {
                sending.finished = true;
                self.endpoint.finish(now, id);
                progress = true;
            }
        }
        progress
    }

    /// Reads and checks all there is, unless the stream's reader is stalled.
    pub fn read(&mut self, now: Instant, id: StreamId) {
        if self.stalls(id) {
            return;
        }
        let mut expected = Vec::new();
        loop {
            let mut slices = [IoSlice::new(&[]); 16];
            let filled = self.endpoint.readable(id, &mut slices);
            let bytes: Vec<u8> = slices[..filled].iter().flat_map(|slice| slice.iter().copied()).collect();
            if bytes.is_empty() {
                break;
            }
            let received = self.received.entry(id).or_default();
            expected.resize(bytes.len(), 0);
            pattern::fill(id.number(), received.bytes, &mut expected);
            assert!(bytes == expected, "wrong bytes on {id:?} after {}", received.bytes);
            received.bytes += bytes.len() as u64;
            received.last_at = now;
            self.endpoint.consume(now, id, bytes.len());
            if self.echo {
                self.endpoint.write(now, id, &bytes);
            }
        }
        if self.endpoint.is_read_finished(id) {
            self.received.entry(id).or_default().finished = true;
            // The other direction ends as well, unless it still has something to say.
            if !self.keep_open && !self.sending.contains_key(&id) {
                self.endpoint.finish(now, id);
            }
        }
    }

    fn stalls(&self, id: StreamId) -> bool {
        self.stalled.contains(&id.number())
    }
}

pub fn clear(config: &mut EndpointConfig) {
    config.mode = Mode::Clear;
}

/// Jain's index of fairness: 1 if all are equal, 1/n if one has all.
pub fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    sum * sum / (shares.len() as f64 * shares.iter().map(|share| share * share).sum::<f64>())
}
