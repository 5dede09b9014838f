//! Threads that carry the datagrams of two endpoints between sockets of the loopback interface.

use super::*;
use mio::{Events, Poll, Token};
use relay::dscp::Dscp;
use satpep::{EndpointConfig, Event, PeerConfig, PeerId, PeerState, PrivateKey, StreamId};
use std::io::IoSlice;
use units::{Duration, Rate};

const BATCH: usize = 65_000;
const BYTES: usize = 3_000_000;

/// An endpoint, its socket, and the threads that carry its datagrams.
struct End {
    poll: Poll,
    udp: Udp,
    workers: Option<Workers>,
    endpoint: Endpoint,
    peer: PeerId,
    streams: Vec<StreamId>,
    received: Vec<u8>,
    refused: usize,
}

fn key(number: u8) -> PrivateKey {
    PrivateKey::from_random([number + 1; 32])
}

impl End {
    fn new(now: Instant, number: u8, threads: usize, to: Option<SocketAddr>) -> Self {
        let udp = Udp::bind("127.0.0.1:0".parse().unwrap(), false).unwrap();
        let rate = Rate::from_bps(2_000_000_000);
        let mut config = EndpointConfig::new(key(number), rate, rate, Duration::from_millis(10));
        config.mtu = 1500;
        let mut endpoint = Endpoint::new(config, now, kernel::clock::unix_time(), [number; 32]);
        let peer = endpoint.add_peer(now, PeerConfig::new(key(1 - number).public_key(), to)).unwrap();
        endpoint.set_driver_opens(true);
        let poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
        let workers = Some(Workers::start(&udp, threads, waker, BATCH).unwrap());
        Self { poll, udp, workers, endpoint, peer, streams: Vec::new(), received: Vec::new(), refused: 0 }
    }

    fn address(&self) -> SocketAddr {
        self.udp.socket.local_addr().unwrap().as_socket().unwrap()
    }

    /// One turn of a loop.
    fn turn(&mut self) {
        let mut events = Events::with_capacity(4);
        self.poll.poll(&mut events, Some(std::time::Duration::from_millis(1))).unwrap();
        let now = kernel::clock::now();
        let Self { workers, endpoint, refused, .. } = self;
        let workers = workers.as_mut().expect("they run");
        endpoint.handle_timeout(now);
        workers.take_in(now, endpoint);
        while let Some(mut buffer) = workers.vacant(|_, result| *refused += usize::from(result.is_err())) {
            let Some((transmit, seal)) = endpoint.poll_transmit_unsealed(now, &mut buffer) else {
                workers.keep(buffer);
                break;
            };
            let head = Head { to: transmit.to, from: None, segment_size: transmit.segment_size, dscp: Dscp::default() };
            workers.send(Outgoing { buffer, size: transmit.size, head, seal, singly: false });
        }
        workers.ring();
        self.take_events(now);
    }

    fn take_events(&mut self, now: Instant) {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::Opened(stream) => self.streams.push(stream),
                Event::Readable(stream) => self.read(now, stream),
                _ => {}
            }
        }
    }

    fn read(&mut self, now: Instant, stream: StreamId) {
        loop {
            let mut slices = [IoSlice::new(&[]); 16];
            let filled = self.endpoint.readable(stream, &mut slices);
            let before = self.received.len();
            slices[..filled].iter().for_each(|slice| self.received.extend_from_slice(slice));
            let length = self.received.len() - before;
            if length == 0 {
                return;
            }
            self.endpoint.consume(now, stream, length);
        }
    }

    fn is_up(&self) -> bool {
        self.endpoint.peer_state(self.peer) == PeerState::Up
    }
}

fn run_until(ends: &mut [End; 2], what: &str, done: impl Fn(&[End; 2]) -> bool) {
    let end = kernel::clock::now() + Duration::from_secs(60);
    while !done(ends) {
        assert!(kernel::clock::now() < end, "{what}");
        ends.iter_mut().for_each(End::turn);
    }
}

fn connected(threads: usize) -> [End; 2] {
    let now = kernel::clock::now();
    let hub = End::new(now, 0, threads, None);
    let terminal = End::new(now, 1, threads, Some(hub.address()));
    let mut ends = [hub, terminal];
    run_until(&mut ends, "sessions come up", |ends| ends.iter().all(End::is_up));
    ends
}

#[test]
fn what_threads_carry_arrives_whole() {
    for threads in [1, 2, 4] {
        let mut ends = connected(threads);
        let sent: Vec<u8> = (0..BYTES as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let stream = ends[0].endpoint.open(kernel::clock::now(), ends[0].peer).unwrap();
        let mut written = 0;
        let end = kernel::clock::now() + Duration::from_secs(60);
        while ends[1].received.len() < BYTES {
            assert!(kernel::clock::now() < end, "{threads} threads: {} bytes", ends[1].received.len());
            written += ends[0].endpoint.write(kernel::clock::now(), stream, &sent[written..]);
            ends.iter_mut().for_each(End::turn);
        }
        assert!(ends[1].received == sent, "{threads} threads");
        for end in &ends {
            assert_eq!((end.endpoint.stats().dropped.not_authentic, end.refused), (0, 0));
            assert!(!end.workers.as_ref().unwrap().has_failed());
        }
    }
}

#[test]
fn a_loop_that_waits_for_a_buffer_is_woken_when_there_is_one() {
    let mut ends = connected(1);
    let [hub, _] = &mut ends;
    let workers = hub.workers.as_mut().unwrap();
    let to = hub.udp.socket.local_addr().unwrap().as_socket().unwrap();
    let head = Head { to, from: None, segment_size: 1000, dscp: Dscp::default() };
    let mut events = Events::with_capacity(4);
    for _ in 0..1000 {
        match workers.vacant(|_, _| {}) {
            Some(buffer) => workers.send(Outgoing { buffer, size: 50_000, head, seal: None, singly: false }),
            None => {
                workers.ring();
                hub.poll.poll(&mut events, Some(std::time::Duration::from_secs(20))).unwrap();
                assert!(!events.is_empty(), "nobody woke the loop");
            }
        }
    }
}

#[test]
fn what_waits_when_the_threads_end_leaves_first() {
    let receiver = Udp::bind("127.0.0.1:0".parse().unwrap(), false).unwrap();
    let to = receiver.socket.local_addr().unwrap().as_socket().unwrap();
    let mut ends = connected(2);
    let mut workers = ends[0].workers.take().unwrap();
    let head = Head { to, from: None, segment_size: 100, dscp: Dscp::default() };
    for number in 0..BATCHES / 2 {
        let mut buffer = workers.vacant(|_, _| {}).unwrap();
        buffer[..100].fill(number as u8);
        workers.send(Outgoing { buffer, size: 100, head, seal: None, singly: false });
    }
    workers.end(kernel::clock::now(), &mut ends[0].endpoint);
    let socket = std::net::UdpSocket::from(receiver.socket.try_clone().unwrap());
    let mut datagram = [0; 200];
    for number in 0..BATCHES / 2 {
        assert_eq!(socket.recv(&mut datagram).unwrap(), 100);
        assert_eq!(datagram[0], number as u8, "in order");
    }
}

#[test]
fn what_the_host_refuses_is_told() {
    let mut ends = connected(1);
    let workers = ends[0].workers.as_mut().unwrap();
    // There is no port 0.
    let head = Head { to: "127.0.0.1:0".parse().unwrap(), from: None, segment_size: 100, dscp: Dscp::default() };
    let buffer = workers.vacant(|_, _| {}).unwrap();
    workers.send(Outgoing { buffer, size: 100, head, seal: None, singly: false });
    workers.ring();
    let mut refused = 0;
    let end = kernel::clock::now() + Duration::from_secs(20);
    while refused == 0 && kernel::clock::now() < end {
        let buffer = workers.vacant(|_, result| refused += usize::from(result.is_err())).unwrap();
        workers.keep(buffer);
        std::thread::yield_now();
    }
    assert_eq!(refused, 1);
}

#[test]
fn a_thread_that_has_no_buffer_left_goes_on_when_the_loop_has_caught_up() {
    let mut hub = End::new(kernel::clock::now(), 0, 1, None);
    // How long what arrives may wait: the thread reads in steps then.
    hub.workers.as_ref().unwrap().step.store(20_000_000, Ordering::Relaxed);
    let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let count = 10 * LOOKS * quinn_udp::BATCH_SIZE;
    for _ in 0..count {
        sender.send_to(&[0; 40], hub.address()).unwrap();
    }
    std::thread::sleep(std::time::Duration::from_millis(100));
    let malformed = |hub: &End| hub.endpoint.stats().dropped.malformed as usize;
    let mut events = Events::with_capacity(4);
    loop {
        let workers = hub.workers.as_mut().unwrap();
        workers.take_in(kernel::clock::now(), &mut hub.endpoint);
        workers.step.store(20_000_000, Ordering::Relaxed);
        if malformed(&hub) == count {
            return;
        }
        hub.poll.poll(&mut events, Some(std::time::Duration::from_secs(20))).unwrap();
        assert!(!events.is_empty(), "{} of {count}", malformed(&hub));
    }
}
