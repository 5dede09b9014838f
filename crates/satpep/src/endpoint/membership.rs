//! Peers that come, change and go while the endpoint runs.

use super::Endpoint;
use super::handshakes::canonical;
use super::peer::Peer;
use crate::config::{ConfigError, PeerConfig};
use crate::epoch::Run;
use crate::event::PeerId;
use crate::pacer::Pacer;
use crate::payload::Payload;
use crate::session::{Drain, Session};
use peering::ResetReason;
use units::{Duration, Instant, Rate};

/// How long a removed peer is notified.
const FAREWELL: Duration = Duration::from_secs(2);
/// How often: what says it may be lost.
const REMINDER: Duration = Duration::from_millis(500);

impl<P: Payload> Endpoint<P> {
    /// Adds a peer, and begins a handshake if its address is known. It may get the name of one that was removed.
    ///
    /// # Errors
    /// If the key is this gateway's own or another peer's, or there are too many peers.
    pub fn add_peer(&mut self, now: Instant, config: PeerConfig) -> Result<PeerId, ConfigError> {
        if config.public_key == self.identity.public {
            return Err(ConfigError::OwnKey);
        }
        if self.by_key.contains_key(&config.public_key) {
            return Err(ConfigError::DuplicatePeer);
        }
        let key = config.public_key;
        let acquaintance = self.identity.acquaintance(&key);
        let epoch = self.config.run.epoch(u64::from_be_bytes(self.random.bytes()));
        let address = config.address;
        let peer = Peer::new(config, acquaintance, epoch, now);
        let id = match self.vacant.pop() {
            Some(id) => {
                if let Some(twin) = self.peers.get_mut(id.sibling().index()) {
                    let config = PeerConfig { address: None, ..peer.config.clone() };
                    let acquaintance = self.identity.acquaintance(&config.public_key);
                    twin.replace(Peer::new(config, acquaintance, peer.epoch, now));
                }
                self.peers[id.index()].replace(peer);
                id
            }
            None => {
                let id = self.peers.push(peer).ok_or(ConfigError::TooManyPeers)?;
                self.receive_memory.add_peer();
                self.send_memory.add_peer();
                id
            }
        };
        self.by_key.insert(key, id);
        self.places.extend(address.map(|address| (canonical(address), id)));
        self.refresh(now, id);
        Ok(id)
    }

    /// Changes what a peer is given: its weight, its cap, where handshakes go. Its session and its streams go on. A session
    /// stays where the peer answers; a new address counts from the next handshake on.
    ///
    /// # Errors
    /// If the key is not the peer's: another key is another peer.
    pub fn change_peer(&mut self, now: Instant, id: PeerId, config: PeerConfig) -> Result<(), ConfigError> {
        let peer = self.peers.get_mut(id.index()).filter(|peer| peer.config.public_key == config.public_key);
        let Some(peer) = peer.filter(|peer| peer.leaves_at.is_none()) else { return Err(ConfigError::OtherKey) };
        if config.cap != peer.config.cap {
            peer.cap = config.cap.map(Pacer::new);
        }
        if config.address != peer.config.address {
            peer.attempts = 0;
            peer.attempt_at = now;
        }
        let moves_to = (config.address != peer.config.address && peer.session.is_none()).then_some(config.address);
        let (weight, cap) = (config.weight, config.cap);
        peer.config = config;
        match moves_to {
            Some(Some(address)) => self.set_address(now, id, address),
            Some(None) => self.forget_address(id),
            None => {}
        }
        if let Some(twin) = self.peers.get_mut(id.sibling().index()) {
            if cap != twin.config.cap {
                twin.cap = cap.map(Pacer::new);
            }
            (twin.config.weight, twin.config.cap) = (weight, cap);
            self.refresh(now, id.sibling());
        }
        self.refresh(now, id);
        Ok(())
    }

    /// Ends what there is with a peer: its streams are reset here and there, and nobody with its key gets an answer any
    /// more. Its name may be given to a peer that is added later.
    pub fn remove_peer(&mut self, now: Instant, id: PeerId) {
        self.remove_entry(now, id.own());
        self.remove_entry(now, id.sibling());
    }

    fn remove_entry(&mut self, now: Instant, id: PeerId) {
        let Some(peer) = self.peers.get_mut(id.index()).filter(|peer| peer.leaves_at.is_none()) else { return };
        peer.leaves_at = Some(now + FAREWELL);
        peer.attempt = None;
        self.by_key.remove(&peer.config.public_key);
        self.drop_unread(id, ResetReason::Shutdown);
        let peer = &mut self.peers[id.index()];
        if let Some(session) = &mut peer.session {
            self.events.extend(session.abandon(ResetReason::Shutdown));
            session.close();
        }
        peer.attempt_at = now + REMINDER;
        self.refresh(now, id);
    }

    /// Tells all peers that no more streams are taken, and has them open none: those that there are go on to their ends.
    /// A peer of an older version is not notified; streams that it opens are taken.
    pub fn drain(&mut self, now: Instant) {
        self.draining = true;
        self.capacity.leave_half();
        // Another process may have taken over: a session that begins from now on ends none with that.
        self.config.run = Run::Beside { generation: self.config.run.generation() };
        for id in self.peers.ids() {
            let peer = &mut self.peers[id.index()];
            // An init that is answered from now on would begin a session of the run before.
            if peer.session.is_none() && !peer.may_have_begun(now) {
                peer.attempt = None;
                peer.epoch = self.config.run.epoch(peer.epoch);
            }
            if let Some(session) = peer.session.as_mut() {
                session.drain(now);
                self.refresh(now, id);
            }
        }
    }

    /// Whether a gateway that drains may end: no stream is left, what was written has arrived, ends included, and no stream is
    /// on its way from a peer. A peer that does not say whether one is is waited for, for half a minute.
    pub fn is_drained(&self, now: Instant) -> bool {
        self.peers.iter().all(|peer| peer.session.as_ref().is_none_or(Session::is_drained) && !peer.may_have_begun(now))
    }

    /// Does what time asks for of a peer that was removed; whether it was.
    pub(super) fn serve_leaving(&mut self, now: Instant, id: PeerId) -> bool {
        let peer = &mut self.peers[id.index()];
        let Some(at) = peer.leaves_at else { return false };
        if peer.attempt_at <= now {
            peer.attempt_at = now + REMINDER;
            if let Some(session) = &mut peer.session {
                session.close();
            }
        }
        if at <= now && !peer.is_vacant {
            peer.is_vacant = true;
            if let Some(mut session) = peer.session.take() {
                // The next peer of this name has a path and packets of its own.
                self.capacity.forget(id);
                session.uncharge(&mut self.receive_memory, &mut self.send_memory);
            }
            peer.keys = super::peer::Keys::default();
            // The twin, if there is one, leaves at the same time, and serves the next peer of this name.
            self.vacant.extend((id == id.own()).then_some(id));
            self.forget_address(id);
        }
        true
    }

    /// Sets how long streams survive without news from their peer, from now on.
    pub fn set_outage_limit(&mut self, limit: Duration) {
        self.config.outage_limit = limit;
    }

    /// Sets the longest time without news from a peer before it is asked, for sessions that begin from now on.
    pub fn set_keepalive(&mut self, keepalive: Duration) {
        self.config.keepalive = keepalive;
    }

    /// What arrives here has become `rate`: sessions that begin from now on get memory for it.
    pub fn set_receive_capacity(&mut self, rate: Rate) {
        self.config.receive_capacity = rate;
        self.receive_memory.set_most(self.config.receive_pool());
    }
}

impl<P: Payload> Peer<P> {
    /// Puts another peer into the place of one that has left. What stands in the endpoint's queues under its name stays there.
    fn replace(&mut self, peer: Self) {
        let before = std::mem::replace(self, peer);
        (self.place, self.timer) = (before.place, before.timer);
        (self.urgent_queued, self.ack_queued, self.idle_queued) =
            (before.urgent_queued, before.ack_queued, before.idle_queued);
    }

    /// Whether the peer may have a session of which nothing has arrived here, and streams in it.
    fn may_have_begun(&self, now: Instant) -> bool {
        let unconfirmed = self.keys.unconfirmed.as_ref().filter(|_| self.leaves_at.is_none());
        unconfirmed.is_some_and(|answered| {
            let continues =
                self.session.as_ref().is_some_and(|session| session.peer_epoch == answered.parameters.epoch);
            answered.takes_streams && !continues && now < answered.answered_at + Drain::PATIENCE
        })
    }

    /// The session, unless the peer is only notified of its end.
    pub(super) fn live_session(&self) -> Option<&Session<P>> {
        self.session.as_ref().filter(|_| self.leaves_at.is_none())
    }
}
