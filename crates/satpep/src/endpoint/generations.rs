//! Peers that are upgraded: which of their processes has a session, and which one is opened streams.

use super::Endpoint;
use super::peer::Peer;
use crate::epoch::Run;
use crate::event::{Event, PeerId, PeerState, StreamId};
use crate::handshake::TransportParameters;
use crate::payload::Payload;
use crate::session::Session;
use crate::stats::PeerStats;
use peering::ResetReason;
use std::net::SocketAddr;
use units::Instant;

/// Attempts after which no handshake goes any more to an address that was handed over.
const ATTEMPTS: u32 = 8;

impl<P: Payload> Endpoint<P> {
    /// Begins handshakes with a peer at `address` from `at` on, where a process before this one had it. If it does not answer soon, it is
    /// left to initiate.
    pub fn initiate(&mut self, at: Instant, id: PeerId, address: SocketAddr) {
        let Some(peer) = self.peers.get_mut(id.index()) else { return };
        peer.attempts_left = ATTEMPTS;
        peer.attempt_at = at;
        self.set_address(at, id, address);
        self.refresh(at, id);
    }

    /// The entry of the peer's process of `generation`, made now if there is none.
    pub(super) fn entry(&mut self, now: Instant, id: PeerId, generation: u32) -> PeerId {
        let (own, entry) = (id.of_generation(0), id.of_generation(generation));
        if self.peers.get(entry.index()).is_none() {
            let config = crate::PeerConfig { address: None, ..self.peers[own.index()].config.clone() };
            // An init goes out under the peer's own name, and one that crosses it is answered under the twin's: both tell one epoch.
            let epoch = self.peers[own.index()].epoch;
            let acquaintance = self.identity.acquaintance(&config.public_key);
            self.peers.add_twin(entry, || Peer::new(config, acquaintance, epoch, now));
            // Its session needs memory beside the other's.
            self.receive_memory.add_peer();
            self.send_memory.add_peer();
        }
        entry
    }

    /// The entry of the process that has answered an init under the name `id`. `None` if the answer is not used, since the init has
    /// named another epoch than that of the session with this process, which would take that for a loss of its session: either the
    /// init was for another process, which had a session and is no more (its inits would have found it), or it was for a new
    /// session and the process has one whose epoch is older.
    pub(super) fn answered_by(&mut self, now: Instant, id: PeerId, parameters: &TransportParameters) -> Option<PeerId> {
        let entry = self.entry(now, id, Run::of(parameters.epoch).generation());
        if entry == id {
            return Some(entry);
        }
        let (named, answering) = (&self.peers[id.index()], &self.peers[entry.index()]);
        if named.session.is_none() {
            let is_consistent = answering.session.is_none() || answering.epoch == named.epoch;
            return is_consistent.then_some(entry);
        }
        self.give_up(now, id, ResetReason::PeerRestarted);
        let own = id.own();
        if self.peers[own.index()].session.is_none() {
            self.peers[own.index()].attempt_at = now;
            self.refresh(now, own);
        }
        None
    }

    /// Whether a handshake is begun under the name `id`: not for a new session where another process has one (an unresponsive
    /// session begins handshakes of its own, which find any process), or where this one takes no more streams. It counts.
    pub(super) fn may_initiate(&mut self, id: PeerId) -> bool {
        let peer = &mut self.peers[id.index()];
        peer.attempts_left = peer.attempts_left.saturating_sub(1);
        peer.session.is_some() || !(self.draining || self.has_other_session(id))
    }

    /// The entry that datagrams for `receiver` belong to: an init goes out under the peer's own name, and its answer may
    /// come from a process of either generation.
    pub(super) fn entry_of(&self, receiver: u32) -> Option<PeerId> {
        let id = PeerId(receiver & 0xffff);
        [id, id.sibling()]
            .into_iter()
            .find(|id| self.peers.get(id.index()).is_some_and(|peer| peer.key_pair(receiver).is_some()))
    }

    /// The entry through which streams are opened: of the sessions whose peer answers and takes streams, the newest.
    pub(super) fn best(&self, id: PeerId) -> Option<PeerId> {
        let rank = |session: &Session<P>| (!session.peer_drains(), !session.is_unresponsive(), session.tag());
        let live = self.peers.both(id).filter_map(|(id, peer)| Some((rank(peer.live_session()?), id)));
        live.max_by_key(|(rank, _)| *rank).map(|(_, id)| id)
    }

    /// Whether stream `id` is of the session in which streams to its peer are opened: a peer that is upgraded has one with each of its
    /// processes.
    pub fn is_in_best_session(&self, id: StreamId) -> bool {
        self.best_session(id.peer()).is_some_and(|session| session.tag() == id.session)
    }

    /// The session whose state is the peer's.
    pub(super) fn best_session(&self, id: PeerId) -> Option<&Session<P>> {
        self.best(id).and_then(|id| self.peers[id.index()].live_session())
    }

    /// What the sessions with all of the peer's processes have counted, live and ended, and what the best one measures.
    pub(super) fn stats_of_sessions(&self, now: Instant, id: PeerId) -> PeerStats {
        let best = self.best(id);
        let mut stats = self.best_session(id).map(|session| session.stats(now)).unwrap_or_default();
        for (entry, peer) in self.peers.both(id) {
            stats.add(&peer.past);
            if let Some(session) = peer.live_session().filter(|_| best != Some(entry)) {
                stats.add(&session.stats(now));
            }
        }
        stats
    }

    /// Whether another process of the peer's has a session that counts.
    fn has_other_session(&self, id: PeerId) -> bool {
        self.peers.get(id.sibling().index()).is_some_and(|peer| peer.live_session().is_some())
    }

    /// A process of the peer's has begun that found none beside it: the other one's session is over.
    pub(super) fn end_other(&mut self, now: Instant, id: PeerId) {
        let other = id.sibling();
        if self.peers.get(other.index()).is_some_and(|peer| peer.session.is_some()) {
            self.events.push_back(Event::PeerRestarted(other));
            self.drop_session(other, ResetReason::PeerRestarted);
            self.peers[other.index()].keys = super::peer::Keys::default();
            self.refresh(now, other);
        }
    }

    /// The sessions that begin with the peer from now on are none that it may still have.
    pub(super) fn renew_epoch(&mut self, id: PeerId) {
        let epoch = self.config.run.epoch(u64::from_be_bytes(self.random.bytes()));
        for id in [id, id.sibling()] {
            if let Some(peer) = self.peers.get_mut(id.index()).filter(|peer| peer.session.is_none()) {
                peer.epoch = epoch;
            }
        }
    }

    /// News by the name that the driver knows; nothing that says less than another session of the peer's does.
    pub(super) fn for_driver(&self, event: Event) -> Option<Event> {
        Some(match event {
            Event::PeerUnresponsive(id) if self.state(id) != PeerState::Up => Event::PeerUnresponsive(id.own()),
            Event::PeerLeft(id) if self.state(id) != PeerState::Up => Event::PeerLeft(id.own()),
            Event::PeerDrains(id) if self.state(id) != PeerState::Up => Event::PeerDrains(id.own()),
            Event::PeerUnresponsive(_) | Event::PeerLeft(_) | Event::PeerDrains(_) => return None,
            Event::PeerUp(id) => Event::PeerUp(id.own()),
            Event::PeerGivenUp(id) => Event::PeerGivenUp(id.own()),
            Event::PeerRestarted(id) => Event::PeerRestarted(id.own()),
            Event::PeerKeyShared(id) => Event::PeerKeyShared(id.own()),
            Event::OwnKeyShared(id) => Event::OwnKeyShared(id.own()),
            Event::PeerBroke(id, violation) => Event::PeerBroke(id.own(), violation),
            Event::PathTooSmall(id) => Event::PathTooSmall(id.own()),
            Event::OwnClockSetBack(id, skew) => Event::OwnClockSetBack(id.own(), skew),
            other => other,
        })
    }

    fn state(&self, id: PeerId) -> PeerState {
        self.peer_state(id.own())
    }
}
