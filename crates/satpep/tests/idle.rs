//! What a stream costs that is open and has nothing to do: gateways have tens of thousands of them.

use allocation_counter::measure;
use satpep::{Endpoint, EndpointConfig, Event, PeerConfig, PeerId, PeerState, PrivateKey, StreamId};
use std::io::IoSlice;
use std::net::SocketAddr;
use units::{Duration, Instant, Rate};

/// Streams that are open at once: a few more than a power of two, so that tables that double hold as little as they can for their size.
const STREAMS: usize = 4100;
/// Bytes that each of two gateways may keep for an idle stream; the relay's tables come on top (`relay`, `tests/idle.rs`).
const MOST_IDLE: i64 = 1000;
/// The same for one byte that has not been acknowledged or read.
const MOST_PENDING: i64 = 512;

/// Two gateways, and nothing between them.
struct Pair {
    ends: [Endpoint; 2],
    terminal: PeerId,
    now: Instant,
    buffer: Vec<u8>,
    /// Streams that the terminal has been told of.
    opened: Vec<StreamId>,
}

fn address(gateway: usize) -> SocketAddr {
    SocketAddr::from(([198, 18, 0, gateway as u8 + 1], 4500))
}

impl Pair {
    fn new() -> Self {
        let key = |gateway: u8| PrivateKey::from_random([gateway + 1; 32]);
        let (now, rate) = (Instant::from_nanos(1_000_000_000), Rate::from_bps(100_000_000));
        let mut ends = [0, 1].map(|gateway| {
            let config = EndpointConfig::new(key(gateway), rate, rate, Duration::from_millis(20));
            Endpoint::new(config, now, 1 << 60, [gateway; 32])
        });
        let peer = PeerConfig::new(key(1).public_key(), Some(address(1)));
        let terminal = ends[0].add_peer(now, peer).expect("a sound key");
        ends[1].add_peer(now, PeerConfig::new(key(0).public_key(), None)).expect("a sound key");
        let mut pair = Self { ends, terminal, now, buffer: vec![0; 65_536], opened: Vec::with_capacity(STREAMS) };
        pair.run(100);
        assert_eq!(pair.ends[0].peer_state(terminal), PeerState::Up);
        pair
    }

    /// Lets so many milliseconds pass.
    fn run(&mut self, millis: u32) {
        for _ in 0..millis {
            self.now += Duration::from_millis(1);
            for from in 0..2 {
                self.ends[from].handle_timeout(self.now);
                while let Some(transmit) = self.ends[from].poll_transmit(self.now, &mut self.buffer) {
                    for datagram in self.buffer[..transmit.size].chunks_mut(transmit.segment_size) {
                        self.ends[1 - from].handle_datagram(self.now, address(from), datagram);
                    }
                }
                while let Some(event) = self.ends[from].poll_event() {
                    match event {
                        Event::Opened(stream) if from == 1 => self.opened.push(stream),
                        _ => {}
                    }
                }
            }
        }
    }

    /// Reads what there is to read.
    fn read(&mut self, end: usize, stream: StreamId) {
        let mut slices = [IoSlice::new(&[]); 4];
        let filled = self.ends[end].readable(stream, &mut slices);
        let length = slices[..filled].iter().map(|slice| slice.len()).sum();
        self.ends[end].consume(self.now, stream, length);
    }

    /// Opens `count` streams, of which each carries a request and a reply.
    fn open(&mut self, count: usize) -> Vec<StreamId> {
        let opened = |_| {
            let stream = self.ends[0].open(self.now, self.terminal).expect("it takes more");
            assert_eq!(self.ends[0].write(self.now, stream, &[7; 60]), 60);
            stream
        };
        let streams: Vec<_> = (0..count).map(opened).collect();
        self.run(10);
        let theirs = self.opened.split_off(self.opened.len() - count);
        for &stream in &theirs {
            self.read(1, stream);
            assert_eq!(self.ends[1].write(self.now, stream, &[0]), 1);
        }
        self.opened.extend(theirs);
        self.run(10);
        streams.iter().for_each(|stream| self.read(0, *stream));
        streams
    }
}

#[test]
fn idle_streams_are_small_and_a_byte_pins_little() {
    let mut pair = Pair::new();
    let mut ours = Vec::with_capacity(STREAMS);
    let idle = measure(|| {
        for _ in 0..STREAMS / 100 {
            let streams = pair.open(100);
            ours.extend(streams);
        }
        pair.run(1000);
    });
    assert_eq!((ours.len(), pair.opened.len()), (STREAMS, STREAMS));
    let each = idle.bytes_current / (2 * STREAMS as i64);
    println!("{each} bytes for an idle stream at either end");
    assert!(each <= MOST_IDLE, "{each} bytes for an idle stream");

    let write = |pair: &mut Pair, end: usize, streams: &[StreamId]| {
        let all = streams.iter().filter(|stream| pair.ends[end].write(pair.now, **stream, b"k") == 1).count();
        assert_eq!(all, STREAMS);
    };
    let theirs = pair.opened.clone();
    for (end, streams) in [(0, &ours), (1, &theirs)] {
        let unsent = measure(|| write(&mut pair, end, streams)).bytes_current / STREAMS as i64;
        let unread = measure(|| pair.run(1000)).bytes_current / STREAMS as i64 + unsent;
        println!("{unsent} bytes for an unsent byte, {unread} for an unread one");
        assert!(
            unsent <= MOST_PENDING && unread <= MOST_PENDING,
            "{unsent} bytes for an unsent byte, {unread} for an unread one"
        );
    }
}

#[test]
fn what_waits_takes_up_little_more_memory_than_its_bytes() {
    const WAITING: usize = 200;
    for length in [300, 3000, 5000, 12_000] {
        let mut pair = Pair::new();
        let ours = pair.open(WAITING);
        let theirs = pair.opened.clone();
        let trim = |pair: &mut Pair| {
            for end in &mut pair.ends {
                end.trim_memory(pair.now);
                end.give_back_memory();
            }
        };
        let bytes = vec![7; length];
        for (end, streams) in [(0, &ours), (1, &theirs)] {
            let write = |pair: &mut Pair| {
                let all = streams.iter().filter(|stream| pair.ends[end].write(pair.now, **stream, &bytes) == length);
                assert_eq!(all.count(), WAITING);
                trim(pair);
            };
            let unsent = measure(|| write(&mut pair)).bytes_current / WAITING as i64;
            let arrive = |pair: &mut Pair| {
                pair.run(1000);
                trim(pair);
            };
            let unread = measure(|| arrive(&mut pair)).bytes_current / WAITING as i64 + unsent;
            let most = 2 * length as i64 + MOST_PENDING;
            assert!(unsent <= most && unread <= most, "of {length} bytes {unsent} unsent, {unread} unread");
        }
        let reader = |pair: &Pair, stream| {
            let mut slices = [IoSlice::new(&[]); 4];
            let filled = pair.ends[1].readable(stream, &mut slices);
            slices[..filled].iter().flat_map(|slice| slice.to_vec()).collect::<Vec<u8>>()
        };
        assert!(theirs.iter().all(|stream| reader(&pair, *stream) == bytes));
    }
}
