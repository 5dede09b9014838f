//! What has arrived in full of a session that is over, and its user has not read: he may take his time.

use super::Endpoint;
use super::peer::Peer;
use crate::event::{Event, PeerId, StreamId};
use crate::payload::Payload;
use crate::session::Session;
use peering::ResetReason;

impl<P: Payload> Endpoint<P> {
    /// Keeps the streams of `session`, which is over, that need nothing of the peer any more. The others end with `reason`.
    pub(super) fn keep_unread(&mut self, id: PeerId, mut session: Session<P>, reason: ResetReason) {
        self.events.extend(session.abandon_unless_arrived(reason));
        if session.has_no_streams() {
            return;
        }
        session.forget_packets();
        self.drop_unread(id, reason);
        self.peers[id.index()].unread = Some(Box::new(session));
    }

    /// Ends with `reason` what is left to be read.
    pub(super) fn drop_unread(&mut self, id: PeerId, reason: ResetReason) {
        if let Some(mut unread) = self.peers[id.index()].unread.take() {
            self.events.extend(unread.abandon(reason));
            unread.uncharge(&mut self.receive_memory, &mut self.send_memory);
        }
    }

    /// Counts what a peer has this side hold against the endpoint's memory. What is left to be read of a session that is over counts as
    /// the next session's: a peer that begins one after the other gets no more memory by that.
    pub(super) fn charge(&mut self, id: PeerId) {
        let Some(peer) = self.peers.get_mut(id.index()) else { return };
        let (receive, send) = (&mut self.receive_memory, &mut self.send_memory);
        let kept = peer.unread_bytes();
        match (&mut peer.session, &mut peer.unread) {
            (Some(session), unread) => {
                if let Some(unread) = unread {
                    unread.uncharge(receive, send);
                }
                session.charge(kept, receive, send);
            }
            (None, Some(unread)) => receive.update(&mut unread.credit.receive_holding, kept),
            (None, None) => {}
        }
    }

    /// The session of a stream: the one that there is, or the one of which something is to be read.
    pub(super) fn session(&self, id: StreamId) -> Option<&Session<P>> {
        let peer = self.peers.get(id.peer.index())?;
        let unread = peer.unread.as_deref().filter(|unread| unread.tag() == id.session);
        unread.or(peer.session.as_ref())
    }

    /// Whether stream `id` is of a session that is over.
    pub(super) fn is_unread(&self, id: StreamId) -> bool {
        let peer = self.peers.get(id.peer.index());
        peer.and_then(|peer| peer.unread.as_deref()).is_some_and(|unread| unread.tag() == id.session)
    }

    /// Has `act` work on the session of such a stream.
    pub(super) fn with_unread<T>(&mut self, id: StreamId, act: impl FnOnce(&mut Session<P>) -> T) -> Option<T> {
        let peer = self.peers.get_mut(id.peer.index())?;
        let unread = peer.unread.as_mut()?;
        let result = act(unread);
        unread.forget_aborted();
        while let Some(event) = unread.poll_event() {
            // Nothing else is of use any more.
            self.events.extend(
                matches!(event, Event::Closed(_) | Event::EndedBeforeReset(_) | Event::Reset(..)).then_some(event),
            );
        }
        if unread.has_no_streams() {
            self.drop_unread(id.peer, ResetReason::PeerRestarted);
        }
        self.charge(id.peer);
        Some(result)
    }
}

impl<P: Payload> Peer<P> {
    /// Bytes that are left to be read of a session that is over.
    pub(super) fn unread_bytes(&self) -> u64 {
        self.unread.as_ref().map_or(0, |unread| unread.credit.held())
    }
}
