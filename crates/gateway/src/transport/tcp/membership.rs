//! Peers that come, change and go while the gateway runs.

use super::TcpTransport;
use super::peer::TcpPeer;
use super::tunnel::Role;
use crate::config::Peer;
use crate::transport::StreamEvent;
use std::net::IpAddr;
use units::Instant;

impl TcpTransport {
    /// There is another peer, at place `at`, where there was none.
    pub(super) fn put_peer(&mut self, now: Instant, at: usize, peer: &Peer) {
        let known = TcpPeer::new(peer, now, self.rtt);
        match self.peers.get_mut(at) {
            Some(place) => *place = known,
            None => self.peers.push(known),
        }
        self.by_key.extend(peer.public_key.map(|key| (key, at)));
        if let Some(address) = peer.address {
            self.count_address(address.ip());
        }
        if let Some(tls) = &mut self.tls {
            tls.set_peer(at, peer.public_key.as_ref());
        }
        if peer.public_key.is_none() {
            self.events.push_back(StreamEvent::PeersChanged);
        }
    }

    /// The settings of peer `at` are others. Connections that there are go on; at another address the session is made again.
    pub(super) fn alter_peer(&mut self, now: Instant, at: usize, peer: &Peer) {
        let before = std::mem::replace(&mut self.peers[at].settings, peer.clone());
        if before.address != peer.address {
            if let Some(address) = peer.address {
                self.count_address(address.ip());
            }
            if let Some(address) = before.address {
                self.forget_address(address.ip());
            }
            self.lose_session(now, at, "its address has changed");
            self.peers[at].initiator = TcpPeer::new(peer, now, self.rtt).initiator;
        }
        let responder =
            self.peers[at].responder.filter(|responder| !self.peers[at].accepts_from(self.tunnels[*responder].from));
        if let Some(responder) = responder {
            self.end_responder(now, responder);
        }
    }

    /// The peer at place `at` is none any more: nothing is left of it.
    pub(super) fn forget_peer(&mut self, now: Instant, at: usize) {
        self.lose_session(now, at, "it is no longer in the settings");
        let belongs = |role: &Role| match role {
            Role::Initiator(peer) | Role::Warm(peer) | Role::Stream(peer) | Role::Trying { peer, .. } => *peer == at,
            Role::Responder(responder) => responder.peer == at,
            Role::Lingering(lingering) => lingering.counts_for == Some(at),
            Role::Unknown(_) | Role::Echoing { .. } => false,
        };
        let gone: Vec<usize> =
            self.tunnels.iter().filter(|(_, tunnel)| belongs(&tunnel.role)).map(|(at, _)| at).collect();
        for tunnel in gone {
            let tunnel = self.remove(tunnel);
            if matches!(tunnel.role, Role::Lingering(_)) {
                tunnel.leave_to_kernel();
            }
        }
        // What else lingers is left to end, and counts for none that has the place next.
        for (_, tunnel) in &mut self.tunnels {
            if let Role::Lingering(lingering) = &mut tunnel.role {
                lingering.opened_by.take_if(|peer| *peer == at);
            }
        }
        self.events.retain(|event| !matches!(event, StreamEvent::Opened(_, peer) if *peer == at));
        let none = TcpPeer::none(&self.peers[at].settings, now, self.rtt);
        let known = std::mem::replace(&mut self.peers[at], none);
        for session in known.sessions {
            self.sessions.remove(&session);
        }
        let configured = known.settings.address.map(|address| address.ip());
        known.known_addresses.into_iter().chain(configured).for_each(|address| self.forget_address(address));
        if let Some(key) = known.settings.public_key {
            self.by_key.remove(&key);
        }
        if let Some(tls) = &mut self.tls {
            tls.set_peer(at, None);
        }
    }

    /// One more peer is known to be at `address`.
    pub(super) fn count_address(&mut self, address: IpAddr) {
        *self.addresses.entry(address).or_default() += 1;
    }

    /// One peer less is.
    pub(super) fn forget_address(&mut self, address: IpAddr) {
        if let Some(peers) = self.addresses.get_mut(&address) {
            *peers -= 1;
            if *peers == 0 {
                self.addresses.remove(&address);
            }
        }
    }
}
