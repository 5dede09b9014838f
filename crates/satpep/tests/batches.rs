//! Datagrams that leave in one system call.
#![allow(clippy::expect_used, reason = "a test")]

use crate::world::{address, key};
use satpep::{Endpoint, EndpointConfig, PeerConfig, PeerState};
use units::{Duration, Instant, Rate};

/// The most datagrams that any kernel cuts from one batch.
const MOST: usize = 64;

#[test]
fn a_batch_of_small_datagrams_holds_no_more_than_a_kernel_takes() {
    let mut now = Instant::from_nanos(1_000_000_000);
    let rate = Rate::from_bps(1_000_000_000);
    let mut ends = [0, 1].map(|index| {
        let mut config = EndpointConfig::new(key(index), rate, rate, Duration::from_millis(40));
        config.mtu = 576;
        Endpoint::new(config, now, now.as_nanos(), [index as u8; 32])
    });
    let to = ends[0].add_peer(now, PeerConfig::new(key(1).public_key(), Some(address(1)))).expect("the first");
    ends[1].add_peer(now, PeerConfig::new(key(0).public_key(), None)).expect("the first");
    let (mut stream, mut batches) = (None, Vec::new());
    for _ in 0..200 {
        now += Duration::from_millis(5);
        if stream.is_none() && ends[0].peer_state(to) == PeerState::Up {
            stream = ends[0].open(now, to).ok();
        }
        if let Some(stream) = stream {
            ends[0].write(now, stream, &[7; 65_536]);
        }
        for from in [0, 1] {
            ends[from].handle_timeout(now);
            let mut buffer = vec![0; 65_000];
            while let Some(transmit) = ends[from].poll_transmit(now, &mut buffer) {
                batches.push(transmit.size.div_ceil(transmit.segment_size));
                for datagram in buffer[..transmit.size].chunks_mut(transmit.segment_size) {
                    ends[1 - from].handle_datagram(now, address(from), datagram);
                }
            }
        }
    }
    let largest = batches.iter().max().copied();
    assert_eq!(largest, Some(MOST), "all that fits, and no more");
}
