//! What the transport costs a gateway for each GB of payload, system calls excluded: `cargo bench -p bentpipe-satpep --bench
//! sealed`. Two endpoints in one thread, whose datagrams are sealed, carried by a link in virtual time, and opened; the time
//! of each end is counted apart. `scripts/count-instructions` counts the instructions instead, for boards' processors too.
//!
//! Words of the rows may be given as arguments, or one row's name behind `=`, and how much each row carries:
//! `... --bench sealed -- "200 Mbit/s" --megabytes=20`.

use link::{Link, LinkConfig, LossModel, Outcome, Packet};
use satpep::{
    Arrival, Cipher, Endpoint, EndpointConfig, Event, Mode, PeerConfig, PeerId, PeerState, PrivateKey, StreamId,
};
use std::io::IoSlice;
use std::net::SocketAddr;
use std::time::Duration as RealTime;
use units::{Bytes, Duration, Instant, Probability, Rate};

/// One batch as a gateway hands it to the system: several datagrams of one size.
const BATCH: usize = 64 * 1024;
/// What fills pools and finds the rate before a case is measured.
const WARM_UP: u64 = 20_000_000;
/// What each case carries unless told otherwise.
const MEGABYTES: u64 = 200;
/// How long datagrams gather where the endpoint names no time: about as long as a busy gateway takes from one look to the next.
const LOOK: Duration = Duration::from_micros(50);

#[derive(Clone)]
struct Datagram(Vec<u8>);

impl Packet for Datagram {
    fn size(&self) -> Bytes {
        Bytes::from(self.0.len() + 28)
    }
}

struct Case {
    name: &'static str,
    mbps: u64,
    rtt: Duration,
    loss: f64,
    mode: Mode,
    cipher: Cipher,
    repair: bool,
}

fn cases() -> Vec<Case> {
    let wired = Case {
        name: "10 Gbit/s, 1 ms",
        mbps: 10_000,
        rtt: Duration::from_millis(1),
        loss: 0.0,
        mode: Mode::Encrypted,
        cipher: Cipher::Aes128Gcm,
        repair: true,
    };
    let paced = |name, mbps, rtt| Case { name, mbps, rtt: Duration::from_millis(rtt), ..wired };
    vec![
        paced("10 Gbit/s, 1 ms", 10_000, 1),
        Case { name: "10 Gbit/s, 1 ms, clear", mode: Mode::Clear, ..wired },
        Case { name: "10 Gbit/s, 1 ms, ChaCha20", cipher: Cipher::ChaCha20Poly1305, ..wired },
        Case { name: "10 Gbit/s, 1 ms, ChaCha20, clear", cipher: Cipher::ChaCha20Poly1305, mode: Mode::Clear, ..wired },
        paced("10 Mbit/s, 60 ms", 10, 60),
        paced("200 Mbit/s, 60 ms", 200, 60),
        Case { repair: false, ..paced("200 Mbit/s, 60 ms, no repair", 200, 60) },
        Case { loss: 1e-2, ..paced("200 Mbit/s, 60 ms, 1e-2 lost", 200, 60) },
        paced("200 Mbit/s, 600 ms", 200, 600),
        Case { repair: false, ..paced("200 Mbit/s, 600 ms, no repair", 200, 600) },
        Case { loss: 1e-2, ..paced("200 Mbit/s, 600 ms, 1e-2 lost", 200, 600) },
    ]
}

/// One end and the time that it has taken.
struct End {
    endpoint: Endpoint,
    peer: PeerId,
    /// When it looks at its socket again.
    next_look: Instant,
    arrived: Vec<(Instant, Datagram)>,
    delivered: u64,
    is_writable: bool,
    spent: RealTime,
}

struct World {
    now: Instant,
    ends: [End; 2],
    links: [Link<Datagram>; 2],
    batch: Vec<u8>,
}

fn address(index: usize) -> SocketAddr {
    SocketAddr::from(([198, 18, 0, index as u8 + 1], 4500))
}

/// Runs `work` and adds to `sum` how long it took.
#[expect(clippy::disallowed_methods, reason = "measures how long calls take")]
fn timed<T>(sum: &mut RealTime, work: impl FnOnce() -> T) -> T {
    let start = std::time::Instant::now();
    let result = work();
    *sum += start.elapsed();
    result
}

impl End {
    fn new(index: usize, case: &Case, now: Instant) -> Self {
        let key = |index: usize| PrivateKey::from_random([index as u8 + 1; 32]);
        let rate = Rate::from_bps(case.mbps * 1_000_000);
        let config = EndpointConfig {
            mode: case.mode,
            cipher: case.cipher,
            repair: case.repair,
            ..EndpointConfig::new(key(index), rate, rate, case.rtt)
        };
        let mut endpoint = Endpoint::new(config, now, now.as_nanos(), [index as u8 + 1; 32]);
        let call = (index == 0).then(|| address(1));
        let peer = endpoint.add_peer(now, PeerConfig::new(key(1 - index).public_key(), call)).expect("a peer");
        let (arrived, next_look) = (Vec::new(), now);
        Self { endpoint, peer, next_look, arrived, delivered: 0, is_writable: true, spent: RealTime::ZERO }
    }

    /// Takes in what has arrived, if it is time to look.
    fn look(&mut self, now: Instant, from: SocketAddr) {
        if self.arrived.is_empty() || now < self.next_look {
            return;
        }
        for (at, Datagram(mut bytes)) in self.arrived.drain(..) {
            let arrival = Arrival::at(at);
            self.endpoint.handle_datagram_with(now, from, &mut bytes, &arrival);
        }
        self.next_look = now + self.endpoint.reading_step().max(LOOK);
    }

    /// Does what is due: timers, events, the hosts' reads and writes.
    fn step(&mut self, now: Instant, stream: Option<StreamId>) {
        self.endpoint.handle_timeout(now);
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::Readable(id) => self.read(now, id),
                Event::Writable(_) => self.is_writable = true,
                _ => {}
            }
        }
        while let Some(stream) = stream.filter(|_| self.is_writable) {
            let read = self.endpoint.write_with(now, stream, |spaces| {
                spaces.iter_mut().for_each(|space| space.fill(7));
                Ok::<_, std::convert::Infallible>(spaces.iter().map(|space| space.len()).sum())
            });
            self.is_writable = read != Ok(0);
        }
    }

    /// Takes what can be read as a host's socket does.
    fn read(&mut self, now: Instant, id: StreamId) {
        loop {
            let mut slices = [IoSlice::new(&[]); 16];
            let filled = self.endpoint.readable(id, &mut slices);
            let length: usize = slices[..filled].iter().map(|slice| slice.len()).sum();
            if length == 0 {
                return;
            }
            self.endpoint.consume(now, id, length);
            self.delivered += length as u64;
        }
    }
}

impl World {
    fn new(case: &Case) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let links = [0, 1].map(|stream| {
            let loss = LossModel::Bernoulli(Probability::new(case.loss).expect("a probability"));
            let rate = Rate::from_bps(case.mbps * 1_000_000);
            Link::new(LinkConfig { loss, stream, ..LinkConfig::new(rate, case.rtt / 2) }).expect("a link")
        });
        Self { now, ends: [0, 1].map(|index| End::new(index, case, now)), links, batch: vec![0; BATCH] }
    }

    /// Runs until `done`; end 0 sends on `stream` all the time.
    fn run_until(&mut self, stream: Option<StreamId>, done: impl Fn(&Self) -> bool) {
        while !done(self) {
            for index in 0..2 {
                self.drive(index, stream.filter(|_| index == 0));
            }
            let ends = self.ends.iter().flat_map(|end| {
                let look = (!end.arrived.is_empty()).then_some(end.next_look);
                [end.endpoint.next_timeout(), look]
            });
            let next = ends.flatten().chain(self.links.iter().filter_map(Link::next_timeout)).min();
            self.now = self.now.max(next.expect("keepalives"));
            for (link, index) in self.links.iter_mut().zip([1, 0]) {
                while let Some(outcome) = link.poll(self.now) {
                    if let Outcome::Departure { packet, at } = outcome {
                        self.ends[index].arrived.push((at, packet));
                    }
                }
            }
        }
    }

    fn drive(&mut self, index: usize, stream: Option<StreamId>) {
        let now = self.now;
        let (end, link, batch) = (&mut self.ends[index], &mut self.links[index], &mut self.batch);
        let mut spent = end.spent;
        timed(&mut spent, || {
            end.look(now, address(1 - index));
            end.step(now, stream);
        });
        while let Some(transmit) = timed(&mut spent, || end.endpoint.poll_transmit(now, batch)) {
            for datagram in batch[..transmit.size].chunks(transmit.segment_size) {
                link.enqueue(now, Datagram(datagram.to_vec()));
            }
        }
        end.spent = spent;
    }

    /// Opens a stream over which end 0 sends.
    fn open(&mut self) -> StreamId {
        let is_up = |end: &End| end.endpoint.peer_state(end.peer) == PeerState::Up;
        self.run_until(None, |world| world.ends.iter().all(is_up));
        let End { endpoint, peer, .. } = &mut self.ends[0];
        endpoint.open(self.now, *peer).expect("a session")
    }
}

fn main() {
    // Cargo adds --bench.
    let (options, only): (Vec<_>, Vec<_>) = std::env::args().skip(1).partition(|argument| argument.starts_with("--"));
    let megabytes = options.iter().find_map(|option| option.strip_prefix("--megabytes="));
    let bytes = 1_000_000 * megabytes.map_or(MEGABYTES, |count| count.parse().expect("a whole number of megabytes"));
    println!("{:<34} {:>9} {:>9} {:>12}", "link", "sender", "receiver", "s/GB; Mbit/s");
    let is_meant = |case: &Case, word: &String| match word.strip_prefix('=') {
        Some(name) => case.name == name,
        None => case.name.contains(word),
    };
    for case in cases().iter().filter(|case| only.iter().all(|word| is_meant(case, word))) {
        let mut world = World::new(case);
        let stream = world.open();
        world.run_until(Some(stream), |world| world.ends[1].delivered > WARM_UP);
        let (start, before) = (world.now, world.ends[1].delivered);
        world.ends.iter_mut().for_each(|end| end.spent = RealTime::ZERO);
        world.run_until(Some(stream), |world| world.ends[1].delivered > before + bytes);
        let bytes = (world.ends[1].delivered - before) as f64;
        let [sender, receiver] = [0, 1].map(|index| world.ends[index].spent.as_secs_f64() * 1e9 / bytes);
        let mbps = bytes * 8.0 / world.now.since(start).as_secs_f64() / 1e6;
        println!("{:<34} {sender:>9.3} {receiver:>9.3} {mbps:>12.1}", case.name);
    }
}
