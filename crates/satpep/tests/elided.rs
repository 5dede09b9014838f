//! Elided bytes change nothing but the cost: the same transfers take the same time and put the same bytes on the link.

use link::{Counters, Link, LinkConfig, LossModel, Outcome, Packet, QueueLimit};
use satpep::{
    Elided, Endpoint, EndpointConfig, Event, HEAD, Payload, PeerConfig, PeerId, PeerState, PrivateKey, Stored, StreamId,
};
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::net::SocketAddr;
use units::{Bytes, Duration, Instant, Probability, Rate};

/// What of an endpoint depends on its bytes.
trait Kind: Payload + Sized {
    fn endpoint(config: EndpointConfig, now: Instant, seed: u64) -> Endpoint<Self>;
    fn put(endpoint: &mut Endpoint<Self>, now: Instant, id: StreamId, length: usize) -> usize;
    fn handle(endpoint: &mut Endpoint<Self>, now: Instant, from: SocketAddr, datagram: &mut Datagram);
    fn poll(endpoint: &mut Endpoint<Self>, now: Instant, buffer: &mut [u8], send: &mut impl FnMut(&[u8], usize));
}

impl Kind for Stored {
    fn endpoint(config: EndpointConfig, now: Instant, seed: u64) -> Endpoint<Self> {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_be_bytes());
        Endpoint::new(config, now, now.as_nanos() + 1, bytes)
    }

    fn put(endpoint: &mut Endpoint<Self>, now: Instant, id: StreamId, length: usize) -> usize {
        endpoint.write(now, id, &vec![7; length])
    }

    fn handle(endpoint: &mut Endpoint<Self>, now: Instant, from: SocketAddr, datagram: &mut Datagram) {
        endpoint.handle_datagram(now, from, &mut datagram.head);
    }

    fn poll(endpoint: &mut Endpoint<Self>, now: Instant, buffer: &mut [u8], send: &mut impl FnMut(&[u8], usize)) {
        while let Some(transmit) = endpoint.poll_transmit(now, buffer) {
            buffer[..transmit.size].chunks(transmit.segment_size).for_each(|datagram| send(datagram, datagram.len()));
        }
    }
}

impl Kind for Elided {
    fn endpoint(config: EndpointConfig, now: Instant, seed: u64) -> Endpoint<Self> {
        Endpoint::simulated(config, now, seed)
    }

    fn put(endpoint: &mut Endpoint<Self>, now: Instant, id: StreamId, length: usize) -> usize {
        endpoint.write_elided(now, id, length)
    }

    fn handle(endpoint: &mut Endpoint<Self>, now: Instant, from: SocketAddr, datagram: &mut Datagram) {
        endpoint.handle_elided(now, from, &mut datagram.head, datagram.size);
    }

    fn poll(endpoint: &mut Endpoint<Self>, now: Instant, buffer: &mut [u8], send: &mut impl FnMut(&[u8], usize)) {
        while let Some(transmit) = endpoint.poll_transmit(now, buffer) {
            transmit.elided(buffer).for_each(|(head, size)| send(head, size));
        }
    }
}

#[derive(Clone)]
struct Datagram {
    head: Vec<u8>,
    size: usize,
}

impl Packet for Datagram {
    fn size(&self) -> Bytes {
        Bytes::from(self.size + 28)
    }
}

/// What is sent over a hop, and the hop.
#[derive(Clone, Copy)]
struct Case {
    rate: Rate,
    loss: f64,
    seed: u64,
    streams: u64,
    bytes: u64,
}

/// The result.
#[derive(Debug, Clone, PartialEq)]
struct Result {
    finished: BTreeMap<u64, Instant>,
    links: [Counters; 2],
    recovered: u64,
    heads: Vec<[u8; 4]>,
}

struct World<P: Payload> {
    now: Instant,
    ends: [Endpoint<P>; 2],
    peers: [PeerId; 2],
    links: [Link<Datagram>; 2],
    buffer: Vec<u8>,
    /// Bytes still to be written, by stream of end 0.
    left: BTreeMap<StreamId, u64>,
    finished: BTreeMap<u64, Instant>,
    heads: Vec<[u8; 4]>,
}

fn address(index: usize) -> SocketAddr {
    SocketAddr::from(([198, 18, 0, index as u8 + 1], 4500))
}

impl<P: Kind> World<P> {
    fn new(case: Case) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let rtt = Duration::from_millis(550);
        let key = |index: usize| PrivateKey::from_random([index as u8 + 1; 32]);
        let mut ends = [0, 1]
            .map(|index| P::endpoint(EndpointConfig::new(key(index), case.rate, case.rate, rtt), now, index as u64));
        let peers = [0, 1].map(|index| {
            let call = (index == 0).then(|| address(1));
            let peer = PeerConfig::new(key(1 - index).public_key(), call);
            ends[index].add_peer(now, peer).expect("peer")
        });
        let links = [0, 1].map(|index| {
            let mut config = LinkConfig::new(case.rate, rtt / 2);
            config.queue = QueueLimit::bandwidth_delay_product(case.rate, rtt);
            config.loss = LossModel::Bernoulli(Probability::new(case.loss).expect("probability"));
            (config.seed, config.stream) = (case.seed, index);
            Link::new(config).expect("link")
        });
        let (left, finished) = (BTreeMap::new(), BTreeMap::new());
        Self { now, ends, peers, links, buffer: vec![0; 65_536], left, finished, heads: Vec::new() }
    }

    fn run_until(&mut self, end: Instant, done: impl Fn(&Self) -> bool) {
        while !done(self) {
            for index in 0..2 {
                self.ends[index].handle_timeout(self.now);
                self.users(index);
                self.transmit(index);
            }
            let timeouts = self.ends.iter().filter_map(Endpoint::next_timeout);
            let next = timeouts.chain(self.links.iter().filter_map(Link::next_timeout)).min().expect("keepalives");
            assert!(next <= end, "not finished");
            self.now = self.now.max(next);
            self.deliver();
        }
    }

    fn transmit(&mut self, index: usize) {
        let (now, link) = (self.now, &mut self.links[index]);
        P::poll(&mut self.ends[index], now, &mut self.buffer, &mut |head, size| {
            link.enqueue(now, Datagram { head: head.to_vec(), size });
        });
    }

    fn deliver(&mut self) {
        for index in 0..2 {
            while let Some(outcome) = self.links[index].poll(self.now) {
                if let Outcome::Departure { mut packet, .. } = outcome {
                    P::handle(&mut self.ends[1 - index], self.now, address(index), &mut packet);
                    self.users(1 - index);
                }
            }
        }
    }

    fn users(&mut self, index: usize) {
        let (now, end) = (self.now, &mut self.ends[index]);
        while let Some(event) = end.poll_event() {
            let (Event::Readable(id) | Event::Closed(id)) = event else { continue };
            let length = end.readable_len(id);
            let mut slices = [IoSlice::new(&[]); 1];
            if end.stream_stats(id).is_some_and(|stats| stats.read == 0) && end.readable(id, &mut slices) > 0 {
                self.heads.push(*slices[0].first_chunk().expect("a head of four bytes"));
            }
            end.consume(now, id, length as usize);
            if end.is_read_finished(id) || matches!(event, Event::Closed(_)) {
                self.finished.entry(id.number()).or_insert(now);
                end.finish(now, id);
            }
        }
        for (id, left) in self.left.iter_mut().filter(|(_, left)| index == 0 && **left > 0) {
            while *left > 0 {
                let taken = P::put(end, now, *id, (*left).min(20_000) as usize) as u64;
                *left -= taken;
                if taken == 0 {
                    break;
                }
            }
            if *left == 0 {
                end.finish(now, *id);
            }
        }
    }

    /// Sends the streams of `case`, each headed by four bytes of its own.
    fn send(mut self, case: Case) -> Result {
        let end = self.now + Duration::from_secs(2000);
        self.run_until(end, |world| world.ends.iter().all(|end| end.peer_state(world.peers[0]) == PeerState::Up));
        for stream in 0..case.streams {
            let id = self.ends[0].open(self.now, self.peers[0]).expect("open");
            self.ends[0].write(self.now, id, &(stream as u32).to_be_bytes());
            self.left.insert(id, case.bytes);
        }
        self.run_until(end, |world| world.finished.len() as u64 == case.streams);
        let recovered = self.ends[1].peer_stats(self.now, self.peers[1]).recovered_bytes;
        let links = self.links.each_ref().map(|link| *link.counters());
        Result { finished: self.finished, links, recovered, heads: self.heads }
    }
}

fn run<P: Kind>(case: Case) -> Result {
    World::<P>::new(case).send(case)
}

fn same(case: Case) -> Result {
    let (stored, elided) = (run::<Stored>(case), run::<Elided>(case));
    assert_eq!(stored, elided);
    elided
}

#[test]
fn elided_bytes_make_no_difference_on_the_link_or_in_time() {
    let mut recovered = 0;
    for (bps, streams, bytes) in
        [(6_000_000, 1, 1_000_000), (6_000_000, 20, 100_000), (2_000_000, 5, 30), (100_000_000, 3, 3_000_000)]
    {
        for (loss, seed) in [(0.0, 1), (1e-3, 2), (1e-2, 3), (1e-2, 4), (1e-1, 5)] {
            let result = same(Case { rate: Rate::from_bps(bps), loss, seed, streams, bytes });
            assert_eq!(result.heads.len() as u64, streams);
            recovered += result.recovered;
        }
    }
    assert!(recovered > 0, "no run tested the repair of losses");
}

#[test]
fn keys_are_renewed_and_streams_are_longer_than_one_key_lives() {
    let case = Case { rate: Rate::from_bps(2_000_000), loss: 1e-2, seed: 9, streams: 2, bytes: 20_000_000 };
    let result = same(case);
    let last = result.finished.values().max().expect("streams");
    assert!(last.since(Instant::from_nanos(1_000_000_000)) > Duration::from_secs(150), "{last:?}");
}

#[test]
fn the_bytes_at_the_beginning_are_real() {
    let case = Case { rate: Rate::from_bps(6_000_000), loss: 1e-2, seed: 1, streams: 9, bytes: HEAD as u64 * 3 };
    let mut heads: Vec<u32> = run::<Elided>(case).heads.into_iter().map(u32::from_be_bytes).collect();
    heads.sort_unstable();
    assert_eq!(heads, (0..9).collect::<Vec<u32>>());
}
