//! What reaches a gateway's UDP port from strangers and from an attacker on the path: garbage, and the datagrams of a real
//! conversation dropped, repeated, reordered, cut and damaged. Seeds are fixed, so that the recorded datagrams are
//! genuine for the gateway under test.
#![no_main]

use libfuzzer_sys::fuzz_target;
use satpep::{Endpoint, EndpointConfig, Event, PeerConfig, PrivateKey};
use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::OnceLock;
use units::{Duration, Instant, Rate};

const TERMINAL: usize = 1;

fn address(index: usize) -> SocketAddr {
    SocketAddr::from(([198, 18, 0, index as u8 + 1], 4500))
}

fn start() -> Instant {
    Instant::from_nanos(1_000_000_000)
}

/// Gateway 0 is the hub under test; gateway 1 calls it.
fn endpoint(index: usize) -> Endpoint {
    let rate = Rate::from_bps(10_000_000);
    let key = |index: usize| PrivateKey::from_random([index as u8 + 1; 32]);
    let config = EndpointConfig::new(key(index), rate, rate, Duration::from_millis(50));
    let mut endpoint = Endpoint::new(config, start(), 1 << 60, [index as u8; 32]);
    let call = (index == TERMINAL).then(|| address(0));
    endpoint.add_peer(start(), PeerConfig::new(key(1 - index).public_key(), call)).expect("one peer");
    endpoint
}

/// Byte `at` of every stream.
fn pattern(at: u64) -> u8 {
    (at ^ at >> 8) as u8
}

/// The terminal's datagrams of half a second: it calls, opens two streams, writes, ends one and resets the other.
fn conversation() -> &'static [Vec<u8>] {
    static RECORDED: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    RECORDED.get_or_init(|| {
        let mut ends = [endpoint(0), endpoint(1)];
        let mut recorded = Vec::new();
        let mut buffer = vec![0; 65_536];
        let mut streams = Vec::new();
        let bytes: Vec<u8> = (0..5000).map(pattern).collect();
        for millisecond in 0..500 {
            let now = start() + Duration::from_millis(millisecond);
            match millisecond {
                100 => {
                    let peer = peer(&mut ends[TERMINAL]).expect("connected by now");
                    streams = (0..2).filter_map(|_| ends[TERMINAL].open(now, peer).ok()).collect();
                    streams.iter().for_each(|id| assert_eq!(ends[TERMINAL].write(now, *id, &bytes), bytes.len()));
                }
                150 => ends[TERMINAL].finish(now, streams[0]),
                300 => ends[TERMINAL].reset(now, streams[1], satpep::ResetReason::Aborted),
                _ => {}
            }
            for from in 0..2 {
                ends[from].handle_timeout(now);
                while let Some(transmit) = ends[from].poll_transmit(now, &mut buffer) {
                    for datagram in buffer[..transmit.size].chunks_mut(transmit.segment_size) {
                        if from == TERMINAL {
                            recorded.push(datagram.to_vec());
                        }
                        ends[1 - from].handle_datagram(now, address(from), datagram);
                    }
                }
            }
        }
        recorded
    })
}

/// The endpoint's only peer, once it is up.
fn peer(endpoint: &mut Endpoint) -> Option<satpep::PeerId> {
    std::iter::from_fn(|| endpoint.poll_event()).find_map(|event| match event {
        Event::PeerUp(peer) => Some(peer),
        _ => None,
    })
}

/// Reads what streams bring and checks it.
fn read(hub: &mut Endpoint, now: Instant) {
    while let Some(event) = hub.poll_event() {
        let Event::Readable(id) = event else { continue };
        loop {
            let mut slices = [IoSlice::new(&[]); 4];
            let filled = hub.readable(id, &mut slices);
            let bytes: Vec<u8> = slices[..filled].iter().flat_map(|slice| slice.to_vec()).collect();
            if bytes.is_empty() {
                break;
            }
            let from = hub.stream_stats(id).expect("it is readable").read;
            assert!(bytes.iter().zip(from..).all(|(byte, at)| *byte == pattern(at)), "wrong bytes");
            hub.consume(now, id, bytes.len());
        }
        if hub.is_read_finished(id) {
            hub.finish(now, id);
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let recorded = conversation();
    let stranger: SocketAddr = SocketAddr::from(([203, 0, 113, 9], 1));
    let (mut hub, mut now, mut next) = (endpoint(0), start(), 0);
    let mut buffer = vec![0; 65_536];
    let mut input = input.iter().copied();
    // How much a stranger sent and was sent.
    let (mut provoked, mut answered) = (0, 0);
    while let (Some(choice), Some(argument)) = (input.next(), input.next()) {
        let mut datagram = recorded[next % recorded.len()].clone();
        let mut from = address(TERMINAL);
        match choice % 8 {
            0 | 1 => next += 1,
            2 => next += usize::from(argument),
            3 => next = usize::from(argument),
            4 => {
                let at = usize::from(argument) % datagram.len();
                datagram[at] ^= 1 << (choice / 8 % 8);
            }
            5 => datagram.truncate(usize::from(argument)),
            6 => now += Duration::from_millis(u64::from(argument) * u64::from(choice / 8 + 1)),
            _ => {
                datagram = input.by_ref().take(usize::from(argument)).collect();
                from = stranger;
            }
        }
        provoked += if from == stranger { datagram.len() } else { 0 };
        let before = hub.stats().clone();
        hub.handle_datagram(now, from, &mut datagram);
        let drops =
            |stats: &satpep::EndpointStats| stats.dropped.by_reason().iter().map(|(_, count)| count).sum::<u64>();
        let after = hub.stats();
        let fates = after.received_packets + drops(after) - before.received_packets - drops(&before);
        assert!(fates <= 1, "a datagram counts at most once");
        hub.handle_timeout(now);
        read(&mut hub, now);
        while let Some(transmit) = hub.poll_transmit(now, &mut buffer) {
            answered += if transmit.to == stranger { transmit.size } else { 0 };
        }
        assert!(answered <= provoked, "amplification");
    }
});
