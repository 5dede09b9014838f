//! The two endpoints of a session, connected before the run begins: gateways have long been up when clients come.

use link::{Link, LinkConfig, Outcome};
use satpep::{Elided, Endpoint, EndpointConfig, PeerConfig, PeerId, PeerState, PrivateKey};
use std::net::SocketAddr;
use units::{Bytes, Duration, Instant, Rate};

/// Two connected endpoints.
pub(crate) struct Session {
    pub(crate) ends: [Endpoint<Elided>; 2],
    pub(crate) peers: [PeerId; 2],
    /// The endpoints' time when the run begins.
    pub(crate) begun: Instant,
}

/// A datagram on its way: its head, and the length of its payload.
#[derive(Clone)]
struct Datagram {
    head: Vec<u8>,
    size: usize,
}

impl link::Packet for Datagram {
    fn size(&self) -> Bytes {
        Bytes::from(self.size + HEADERS)
    }
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
    /// Rounds after which a session that is not up will never be. It takes 20 to 420, at 800 bit/s and where a round trip is minutes, too.
    const PATIENCE: u32 = 10_000;

    /// Endpoints that are told `capacity`, and have found the delays of the path between them, and the rates of its `links` where
    /// they look for them. `None` if the path cannot carry a session.
    pub(crate) fn connect(
        capacity: [Rate; 2],
        links: [LinkConfig; 2],
        seed: u64,
        adjust: impl Fn(&mut EndpointConfig),
    ) -> Option<Self> {
        let rtt = (links[0].delay + links[1].delay).max(Duration::from_micros(100));
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
        let [there, back] = links.map(|config| Link::starting_at(start, config).ok());
        session.warm_up([there?, back?], rtt).then_some(session)
    }

    /// Lets the two talk over these links until both are up and have nothing under way.
    fn warm_up(&mut self, mut links: [Link<Datagram>; 2], rtt: Duration) -> bool {
        let mut buffer = vec![0; BUFFER];
        let mut up_since = None;
        for _ in 0..Self::PATIENCE {
            let now = self.begun;
            for (side, link) in links.iter_mut().enumerate() {
                self.ends[side].handle_timeout(now);
                while let Some(transmit) = self.ends[side].poll_transmit(now, &mut buffer) {
                    for (head, size) in transmit.elided(&buffer) {
                        link.enqueue(now, Datagram { head: head.to_vec(), size });
                    }
                }
                while self.ends[side].poll_event().is_some() {}
            }
            let is_up = (0..2).all(|side| self.ends[side].peer_state(self.peers[side]) == PeerState::Up);
            let arrivals = || links.iter().filter_map(Link::next_timeout);
            if is_up && arrivals().next().is_none() && *up_since.get_or_insert(now) + rtt * 4 <= now {
                return true;
            }
            let timeouts = self.ends.iter().filter_map(Endpoint::next_timeout);
            let Some(next) = timeouts.chain(arrivals()).min() else { return false };
            self.begun = now.max(next);
            for (side, link) in links.iter_mut().enumerate() {
                while let Some(outcome) = link.poll(self.begun) {
                    let Outcome::Departure { mut packet, .. } = outcome else { continue };
                    self.ends[1 - side].handle_elided(self.begun, address(side), &mut packet.head, packet.size);
                }
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use link::{Opportunities, QueueLimit};

    #[test]
    fn gateways_that_look_for_the_rate_before_the_run_find_that_of_the_links() {
        let link = plain(Rate::from_bps(6_000_000));
        for found in found_by_gateways_told_ten_times_too_much(&link) {
            assert!((found - 1.0).abs() < 0.05, "{found}");
        }
    }

    #[test]
    fn gateways_do_not_take_the_rate_they_were_told_for_that_of_a_link_with_opportunities() {
        let each_20_ms = Opportunities { millis: vec![20; 10], file: None };
        let link = LinkConfig { rate: None, opportunities: Some(each_20_ms), ..plain(Rate::from_bps(6_000_000)) };
        for found in found_by_gateways_told_ten_times_too_much(&link) {
            assert!(found < 2.0, "{found}");
        }
    }

    #[test]
    fn gateways_see_past_frames_that_are_longer_than_a_start_probe() {
        for (packets, millis) in [(25, 50), (50, 100)] {
            let frames = Opportunities { millis: vec![millis; packets], file: None };
            let link = LinkConfig { rate: None, opportunities: Some(frames), ..plain(Rate::from_bps(6_000_000)) };
            for found in found_by_gateways_told_ten_times_too_much(&link) {
                assert!((0.4..2.0).contains(&found), "{millis} ms: {found}");
            }
        }
    }

    fn plain(rate: Rate) -> LinkConfig {
        LinkConfig { queue: QueueLimit::Unlimited, ..LinkConfig::new(rate, Duration::from_millis(275)) }
    }

    /// What they believe before the run, as a share of 6 Mbit/s.
    fn found_by_gateways_told_ten_times_too_much(link: &LinkConfig) -> [f64; 2] {
        let told = Rate::from_bps(60_000_000);
        let session = Session::connect([told; 2], [link.clone(), link.clone()], 1, |_| {}).expect("it comes up");
        session.ends.map(|end| end.capacity().as_bps() as f64 / 6e6)
    }
}
