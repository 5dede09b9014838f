//! The two endpoints of a session, connected before the run begins: gateways have long been up when clients come.

use satpep::{Elided, Endpoint, EndpointConfig, PeerConfig, PeerId, PeerState, PrivateKey};
use std::collections::VecDeque;
use std::net::SocketAddr;
use units::{Bytes, Duration, Instant, Rate};

/// Two connected endpoints.
pub(crate) struct Session {
    pub(crate) ends: [Endpoint<Elided>; 2],
    pub(crate) peers: [PeerId; 2],
    /// The endpoints' time when the run begins.
    pub(crate) begun: Instant,
}

/// A datagram on its way.
struct Datagram {
    arrives: Instant,
    to: usize,
    head: Vec<u8>,
    size: usize,
}

/// Where an endpoint is, to the other.
pub(crate) fn address(side: usize) -> SocketAddr {
    SocketAddr::from(([198, 18, 0, side as u8 + 1], 4500))
}

/// Room for the largest batch of datagrams.
pub(crate) const BUFFER: usize = 1 << 16;

/// Bytes of the IPv4 and UDP headers.
const HEADERS: usize = 28;

impl Session {
    /// Rounds after which a session that is not up will never be.
    const PATIENCE: u32 = 1_000_000;

    /// Endpoints that are told `capacity`, and have found the delays of the path between them, and the `rates` of its links where
    /// they look for them. `None` if the path cannot carry a session.
    pub(crate) fn connect(
        capacity: [Rate; 2],
        rates: [Rate; 2],
        delays: [Duration; 2],
        seed: u64,
        adjust: impl Fn(&mut EndpointConfig),
    ) -> Option<Self> {
        let rtt = (delays[0] + delays[1]).max(Duration::from_micros(100));
        let start = Instant::from_nanos(1);
        let key = |side: usize| PrivateKey::from_random([side as u8 + 1; 32]);
        let mut ends = [0, 1].map(|side| {
            let mut config = EndpointConfig::new(key(side), capacity[side], capacity[1 - side], rtt);
            adjust(&mut config);
            Endpoint::simulated(config, start, seed ^ side as u64)
        });
        let mut peer = |side: usize, calls: Option<SocketAddr>| {
            ends[side].add_peer(start, PeerConfig::new(key(1 - side).public_key(), calls)).ok()
        };
        let peers = [peer(0, Some(address(1)))?, peer(1, None)?];
        let mut session = Self { ends, peers, begun: start };
        session.warm_up(rates, delays, rtt).then_some(session)
    }

    /// Lets the two talk over a path of these rates and delays, without losses, until both are up and have nothing under way.
    fn warm_up(&mut self, rates: [Rate; 2], delays: [Duration; 2], rtt: Duration) -> bool {
        let mut free = [self.begun; 2];
        let mut under_way: VecDeque<Datagram> = VecDeque::new();
        let mut buffer = vec![0; BUFFER];
        let mut up_since = None;
        for _ in 0..Self::PATIENCE {
            let now = self.begun;
            for (side, delay) in delays.into_iter().enumerate() {
                self.ends[side].handle_timeout(now);
                while let Some(transmit) = self.ends[side].poll_transmit(now, &mut buffer) {
                    under_way.extend(transmit.elided(&buffer).map(|(head, size)| {
                        free[side] = free[side].max(now) + rates[side].time_to_send(Bytes::from(size + HEADERS));
                        Datagram { arrives: free[side] + delay, to: 1 - side, head: head.to_vec(), size }
                    }));
                }
                while self.ends[side].poll_event().is_some() {}
            }
            let is_up = (0..2).all(|side| self.ends[side].peer_state(self.peers[side]) == PeerState::Up);
            if is_up && under_way.is_empty() && *up_since.get_or_insert(now) + rtt * 4 <= now {
                return true;
            }
            let timeouts = self.ends.iter().filter_map(Endpoint::next_timeout);
            let Some(next) = timeouts.chain(under_way.iter().map(|datagram| datagram.arrives)).min() else {
                return false;
            };
            self.begun = now.max(next);
            while let Some(at) = under_way.iter().position(|datagram| datagram.arrives <= self.begun) {
                let Some(mut datagram) = under_way.remove(at) else { break };
                let from = address(1 - datagram.to);
                self.ends[datagram.to].handle_elided(self.begun, from, &mut datagram.head, datagram.size);
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateways_that_look_for_the_rate_before_the_run_find_that_of_the_links() {
        let (told, rate, delay) = (Rate::from_bps(60_000_000), Rate::from_bps(6_000_000), Duration::from_millis(275));
        let session = Session::connect([told; 2], [rate; 2], [delay; 2], 1, |_| {}).expect("it comes up");
        for end in &session.ends {
            let found = end.capacity().as_bps() as f64 / rate.as_bps() as f64;
            assert!((found - 1.0).abs() < 0.05, "{found}");
        }
    }
}
