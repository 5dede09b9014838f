//! A thousand terminals that claim far more than the hub has memory for.
#![allow(clippy::expect_used, reason = "a test")]

use crate::world::{address, key};
use satpep::{Endpoint, EndpointConfig, PeerConfig, PeerId, PeerState};
use std::net::SocketAddr;
use units::{Bytes, Duration, Instant, Rate};

const TERMINALS: usize = 1000;
/// What a stream with nothing waiting may write whatever there is.
const FIRST_BYTES: u64 = 4096;

fn config(index: usize) -> EndpointConfig {
    let rate = Rate::from_bps(1_000_000_000);
    let mut config = EndpointConfig::new(key(index), rate, rate, Duration::from_millis(10));
    match index {
        0 => config.memory = Some(EndpointConfig::least_memory(TERMINALS)),
        // Each lets the hub send a gigabyte.
        _ => config.receive_memory = Some(Bytes::new(1 << 30)),
    }
    config
}

/// Hands over what `from`, who is at `at`, has to send to `to`.
fn deliver(now: Instant, from: &mut Endpoint, at: SocketAddr, to: &mut Endpoint, there: SocketAddr) {
    let mut buffer = vec![0; 64 << 10];
    from.handle_timeout(now);
    while let Some(transmit) = from.poll_transmit(now, &mut buffer) {
        for datagram in buffer[..transmit.size].chunks_mut(transmit.segment_size) {
            if transmit.to == there {
                to.handle_datagram(now, at, datagram);
            }
        }
    }
}

/// A hub to which each terminal has been up, and that has heard of none again.
fn hub() -> (Instant, Endpoint, Vec<PeerId>) {
    let mut now = Instant::from_nanos(1_000_000_000);
    let mut hub = Endpoint::new(config(0), now, now.as_nanos(), [7; 32]);
    let mut peers = Vec::new();
    for index in 1..=TERMINALS {
        peers.push(hub.add_peer(now, PeerConfig::new(key(index).public_key(), None)).expect("a new peer"));
    }
    for index in 1..=TERMINALS {
        let mut terminal = Endpoint::new(config(index), now, now.as_nanos(), [index as u8; 32]);
        terminal.add_peer(now, PeerConfig::new(key(0).public_key(), Some(address(0)))).expect("the first");
        let mut rounds = 0;
        while hub.peer_state(peers[index - 1]) != PeerState::Up {
            (now, rounds) = (now + Duration::from_millis(20), rounds + 1);
            deliver(now, &mut terminal, address(index), &mut hub, address(0));
            deliver(now, &mut hub, address(0), &mut terminal, address(index));
            assert!(rounds < 1000, "terminal {index} does not come up");
        }
    }
    (now, hub, peers)
}

#[test]
fn what_waits_for_a_thousand_terminals_that_claim_large_windows_stays_within_the_memory() {
    let (now, mut hub, peers) = hub();
    let block = vec![0; 64 << 10];
    for peer in &peers {
        let stream = hub.open(now, *peer).expect("it is up");
        while hub.write(now, stream, &block) > 0 {}
    }
    let (stats, memory) = (hub.memory_stats(), EndpointConfig::least_memory(TERMINALS).as_u64());
    let most = memory / 2 + TERMINALS as u64 * FIRST_BYTES;
    assert!(stats.send_buffered <= most, "{} of {most}", stats.send_buffered);
    assert!(stats.granted <= memory / 2, "{} of {}", stats.granted, memory / 2);
    let buffered = peers.iter().map(|peer| hub.peer_stats(now, *peer).send_buffered);
    assert!(buffered.min() >= Some(48 << 10), "each has a part");
}
