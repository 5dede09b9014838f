//! What the transport costs in a simulation, with bytes elided: `cargo bench -p bentpipe-satpep`. Two endpoints and the links
//! between them on one core; a datagram counts once, sent, carried and taken in, acknowledgements included in its cost.

use link::{Link, LinkConfig, LossModel, Outcome, Packet};
use satpep::{Elided, Endpoint, EndpointConfig, Event, PeerConfig, PeerId, PeerState, PrivateKey, StreamId};
use smallvec::SmallVec;
use std::net::SocketAddr;
use units::{Bytes, Duration, Instant, Probability, Rate};

#[derive(Clone)]
struct Datagram {
    head: SmallVec<[u8; 64]>,
    size: usize,
}

impl Packet for Datagram {
    fn size(&self) -> Bytes {
        Bytes::from(self.size + 28)
    }
}

struct World {
    now: Instant,
    ends: [Endpoint<Elided>; 2],
    peer: PeerId,
    links: [Link<Datagram>; 2],
    buffer: Vec<u8>,
    streams: Vec<StreamId>,
    delivered: u64,
}

fn address(index: usize) -> SocketAddr {
    SocketAddr::from(([198, 18, 0, index as u8 + 1], 4500))
}

impl World {
    fn new(rate: Rate, loss: f64) -> Self {
        let (now, rtt) = (Instant::from_nanos(1_000_000_000), Duration::from_millis(550));
        let key = |index: usize| PrivateKey::from_random([index as u8 + 1; 32]);
        let mut ends = [0, 1]
            .map(|index| Endpoint::simulated(EndpointConfig::new(key(index), rate, rate, rtt), now, index as u64));
        let peers = [0, 1].map(|index| {
            let call = (index == 0).then(|| address(1));
            ends[index].add_peer(now, PeerConfig::new(key(1 - index).public_key(), call)).expect("peer")
        });
        let links = [0, 1].map(|stream| {
            let loss = LossModel::Bernoulli(Probability::new(loss).expect("probability"));
            Link::new(LinkConfig { loss, stream, ..LinkConfig::new(rate, rtt / 2) }).expect("link")
        });
        Self { now, ends, peer: peers[0], links, buffer: vec![0; 65_536], streams: Vec::new(), delivered: 0 }
    }

    fn run_until(&mut self, done: impl Fn(&Self) -> bool) {
        while !done(self) {
            for index in 0..2 {
                self.drive(index);
            }
            let timeouts = self.ends.iter().filter_map(Endpoint::next_timeout);
            let next = timeouts.chain(self.links.iter().filter_map(Link::next_timeout)).min();
            self.now = self.now.max(next.expect("keepalives"));
            for index in 0..2 {
                while let Some(outcome) = self.links[index].poll(self.now) {
                    let Outcome::Departure { mut packet, .. } = outcome else { continue };
                    self.ends[1 - index].handle_elided(self.now, address(index), &mut packet.head, packet.size);
                }
            }
        }
    }

    fn drive(&mut self, index: usize) {
        let (now, end, link) = (self.now, &mut self.ends[index], &mut self.links[index]);
        end.handle_timeout(now);
        while let Some(event) = end.poll_event() {
            match event {
                Event::Readable(id) => {
                    let length = end.readable_len(id);
                    self.delivered += length;
                    end.consume(now, id, length as usize);
                }
                Event::Writable(id) => while end.write_elided(now, id, 1 << 20) == 1 << 20 {},
                _ => {}
            }
        }
        while let Some(transmit) = end.poll_transmit(now, &mut self.buffer) {
            for (head, size) in transmit.elided(&self.buffer) {
                link.enqueue(now, Datagram { head: SmallVec::from_slice(head), size });
            }
        }
    }

    fn open(&mut self, streams: usize) {
        self.run_until(|world| world.ends.iter().all(|end| end.peer_state(world.peer) == PeerState::Up));
        for _ in 0..streams {
            let id = self.ends[0].open(self.now, self.peer).expect("open");
            while self.ends[0].write_elided(self.now, id, 1 << 20) == 1 << 20 {}
            self.streams.push(id);
        }
    }
}

/// What this thread has used of a processor.
fn processor_seconds() -> f64 {
    let used = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    used.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).expect("nanoseconds") / 1e9
}

fn main() {
    println!("streams  loss   Mbit/s  datagrams/s of processor time");
    for (streams, loss, mbit) in [(1, 0.0, 50), (1, 1e-3, 50), (1, 1e-2, 50), (20, 1e-3, 50), (1000, 1e-3, 250)] {
        let mut world = World::new(Rate::from_bps(mbit * 1_000_000), loss);
        world.open(streams);
        let before = world.links[0].counters().offered.packets;
        let start = processor_seconds();
        let seconds = 100;
        let end = world.now + Duration::from_secs(seconds);
        world.run_until(|world| world.now >= end);
        let datagrams = world.links[0].counters().offered.packets - before;
        assert!(world.delivered as f64 * 8.0 > 0.9 * (seconds * mbit * 1_000_000) as f64, "the link was not filled");
        println!("{streams:>7}  {loss:<5}  {mbit:>6}  {:.0}", datagrams as f64 / (processor_seconds() - start));
    }
}
