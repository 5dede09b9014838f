//! How long single calls of the transport keep a driver's loop: `cargo run --release -p bentpipe-satpep --example turns`.
//!
//! Two endpoints with real bytes and real sealing, a link in virtual time between them; calls are timed by the clock of
//! the host, so run it on a quiet one. Uploads of one BDP and a half with pauses between, so that repair covers a full flight each time.

#![allow(clippy::disallowed_methods, reason = "measures how long calls take")]

use link::{Link, LinkConfig, LossModel, Outcome, Packet};
use satpep::{Endpoint, EndpointConfig, Event, PeerConfig, PeerId, PeerState, PrivateKey, StreamId};
use std::io::IoSlice;
use std::net::SocketAddr;
use units::{Bytes, Duration, Instant, Probability, Rate};

#[derive(Clone)]
struct Datagram(Vec<u8>);

impl Packet for Datagram {
    fn size(&self) -> Bytes {
        Bytes::from(self.0.len() + 28)
    }
}

/// Calls by their durations: classes of doubling length, from a microsecond on.
#[derive(Default)]
struct Calls {
    classes: [u64; 20],
    longest_us: f64,
    total_s: f64,
}

impl Calls {
    fn time<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let start = std::time::Instant::now();
        let result = call();
        let seconds = start.elapsed().as_secs_f64();
        self.total_s += seconds;
        self.longest_us = self.longest_us.max(seconds * 1e6);
        let class = (seconds * 1e6).max(1.0).log2() as usize;
        self.classes[class.min(19)] += 1;
        result
    }

    fn print(&self, name: &str) {
        let classes = self.classes.iter().enumerate().skip(7).filter(|(_, count)| **count > 0);
        let classes: Vec<_> = classes.map(|(class, count)| format!("{}+ us: {count}", 1u64 << class)).collect();
        println!(
            "  {name:<26} longest {:>8.0} us, all {:>7.3} s; {}",
            self.longest_us,
            self.total_s,
            classes.join(", ")
        );
    }
}

struct End {
    endpoint: Endpoint,
    peer: PeerId,
    out: Link<Datagram>,
    timeouts: Calls,
    datagrams: Calls,
    transmits: Calls,
    left: u64,
    stream: Option<StreamId>,
    received: u64,
    finished: usize,
}

fn address(index: usize) -> SocketAddr {
    SocketAddr::from(([198, 18, 0, index as u8 + 1], 4500))
}

impl End {
    fn new(index: usize, rate: Rate, rtt: Duration, loss: f64, now: Instant) -> Self {
        let key = |index: usize| PrivateKey::from_random([index as u8 + 1; 32]);
        let config = EndpointConfig::new(key(index), rate, rate, rtt);
        let mut endpoint = Endpoint::new(config, now, 1, [index as u8; 32]);
        let call = (index == 0).then(|| address(1));
        let peer = endpoint.add_peer(now, PeerConfig::new(key(1 - index).public_key(), call)).expect("peer");
        let loss = LossModel::Bernoulli(Probability::new(loss).expect("probability"));
        let out = Link::new(LinkConfig { loss, stream: index as u64, ..LinkConfig::new(rate, rtt / 2) }).expect("link");
        Self {
            endpoint,
            peer,
            out,
            timeouts: Calls::default(),
            datagrams: Calls::default(),
            transmits: Calls::default(),
            left: 0,
            stream: None,
            received: 0,
            finished: 0,
        }
    }

    fn drive(&mut self, now: Instant, buffer: &mut [u8]) {
        self.timeouts.time(|| self.endpoint.handle_timeout(now));
        self.use_streams(now);
        while let Some(transmit) = self.transmits.time(|| self.endpoint.poll_transmit(now, buffer)) {
            for bytes in buffer[..transmit.size].chunks(transmit.segment_size) {
                self.out.enqueue(now, Datagram(bytes.to_vec()));
            }
        }
    }

    fn use_streams(&mut self, now: Instant) {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::Readable(id) => loop {
                    let mut slices = [IoSlice::new(&[]); 64];
                    let filled = self.endpoint.readable(id, &mut slices);
                    let bytes: usize = slices[..filled].iter().map(|slice| slice.len()).sum();
                    if bytes == 0 {
                        if self.endpoint.is_read_finished(id) {
                            self.endpoint.finish(now, id);
                        }
                        break;
                    }
                    self.received += bytes as u64;
                    self.endpoint.consume(now, id, bytes);
                },
                Event::Closed(_) => self.finished += 1,
                _ => {}
            }
        }
        let chunk = [7; 65_536];
        while let Some(id) = self.stream.filter(|_| self.left > 0) {
            let length = self.left.min(chunk.len() as u64) as usize;
            let written = self.endpoint.write(now, id, &chunk[..length]);
            self.left -= written as u64;
            if self.left == 0 {
                self.endpoint.finish(now, id);
            }
            if written < length {
                break;
            }
        }
    }
}

/// Runs the two until `done` or `end`.
fn run(now: &mut Instant, ends: &mut [End; 2], end: Instant, done: impl Fn(&[End; 2]) -> bool) {
    let mut buffer = vec![0; 65_000];
    while !done(ends) && *now < end {
        for end in ends.iter_mut() {
            end.drive(*now, &mut buffer);
        }
        let next = ends.iter().flat_map(|end| [end.endpoint.next_timeout(), end.out.next_timeout()]).flatten().min();
        *now = (*now).max(next.expect("keepalives"));
        for from in 0..2 {
            while let Some(outcome) = ends[from].out.poll(*now) {
                let Outcome::Departure { packet: mut datagram, .. } = outcome else { continue };
                let End { endpoint, datagrams, .. } = &mut ends[1 - from];
                datagrams.time(|| endpoint.handle_datagram(*now, address(from), &mut datagram.0));
            }
        }
    }
}

fn main() {
    for (mbit, loss) in [(200, 0.0), (1000, 0.0), (1000, 1e-3), (1000, 1e-2)] {
        let (rate, rtt) = (Rate::from_bps(mbit * 1_000_000), Duration::from_millis(600));
        let mut now = Instant::from_nanos(1_000_000_000);
        let mut ends = [0, 1].map(|index| End::new(index, rate, rtt, loss, now));
        let far = now + Duration::from_secs(1000);
        run(&mut now, &mut ends, far, |ends| ends.iter().all(|end| end.endpoint.peer_state(end.peer) == PeerState::Up));
        let bytes = rate.bytes_in(rtt).as_u64() * 3 / 2;
        let mut times = Vec::new();
        for upload in 1..=4 {
            ends[0].stream = ends[0].endpoint.open(now, ends[0].peer).ok();
            ends[0].left = bytes;
            let start = now;
            run(&mut now, &mut ends, far, |ends| ends[1].received >= bytes * upload);
            times.push(now.since(start).as_secs_f64());
            let pause = now + Duration::from_secs(1);
            run(&mut now, &mut ends, pause, |_| false);
        }
        let stats = ends[0].endpoint.peer_stats(now, ends[0].peer);
        let overhead = (stats.repair_bytes + stats.retransmitted_bytes) as f64 / stats.sent_bytes as f64;
        let limit =
            0.5 * rtt.as_secs_f64() + bytes as f64 * 8.0 / (rate.as_bps() as f64 * 1448.0 / 1500.0 * (1.0 - loss));
        let shares: Vec<_> = times.iter().map(|time| format!("{:.3}", limit / time)).collect();
        println!(
            "{mbit} Mbit/s, 600 ms, loss {loss}: of the limit {}, sent beside data {overhead:.4}",
            shares.join(" ")
        );
        for (end, name) in ends.iter().zip(["sender", "receiver"]) {
            end.timeouts.print(&format!("{name}: handle_timeout"));
            end.datagrams.print(&format!("{name}: handle_datagram"));
            end.transmits.print(&format!("{name}: poll_transmit"));
        }
    }
}
