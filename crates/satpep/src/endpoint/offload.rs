//! For drivers that seal and open packets in other threads than the endpoint's.

use super::{Arrival, Endpoint, Transmit};
use crate::event::PeerId;
use crate::offload::{NamedKey, Opened, OpeningKey, Seal, Sealer};
use crate::payload::{Payload, Stored};
use std::net::SocketAddr;
use std::sync::Arc;
use units::Instant;

/// Keys that wait to be asked for, at most: those of all sessions that begin between two turns of the driver's loop. Packets whose
/// key the driver does not know, the endpoint opens.
const MAX_OPENING_KEYS: usize = 1024;

impl Endpoint<Stored> {
    /// As [`poll_transmit`](Self::poll_transmit), but for packets of sessions the seal is yet to be put on. What this returns leaves
    /// in this order, or late: a packet that never leaves is lost like one on the link.
    pub fn poll_transmit_unsealed(&mut self, now: Instant, buffer: &mut [u8]) -> Option<(Transmit, Option<Seal>)> {
        self.sealer = Sealer::Driver(None);
        let transmit = self.poll_transmit(now, buffer);
        let seal = match std::mem::replace(&mut self.sealer, Sealer::Endpoint) {
            Sealer::Driver(seal) => seal.map(Seal),
            Sealer::Endpoint => None,
        };
        transmit.map(|transmit| (transmit, seal))
    }

    /// Whether the driver opens packets, and so asks for [keys](Self::poll_opening_key).
    pub fn set_driver_opens(&mut self, driver_opens: bool) {
        self.driver_opens = driver_opens;
        self.opening_keys.clear();
    }

    /// The next key for an [`Opener`](crate::Opener): that of a packet which the endpoint had to open itself.
    pub fn poll_opening_key(&mut self) -> Option<OpeningKey> {
        self.opening_keys.pop_front().map(OpeningKey)
    }

    /// Takes in a datagram that an [`Opener`](crate::Opener) has opened.
    pub fn handle_opened(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: &[u8],
        opened: Opened,
        arrival: &Arrival,
    ) {
        let Opened { receiver, since, number } = opened;
        let has_key = |id: &PeerId| self.peers[id.index()].key_pair(receiver).is_some_and(|pair| pair.since == since);
        let Some(id) = self.entry_of(receiver).filter(has_key) else {
            self.stats.dropped.unknown_session += 1;
            return;
        };
        let session = self.peers[id.index()].session.as_ref();
        if session.is_none_or(|session| !session.received.is_new(number)) {
            self.stats.dropped.replayed += 1;
            return;
        }
        let frames = (Opened::frames(datagram), datagram.len());
        self.called = arrival.to;
        self.on_open(now, id, (receiver, number), frames, (from, arrival));
        self.called = None;
    }

    /// Counts a datagram that an [`Opener`](crate::Opener) has found not to be authentic.
    pub fn count_forged(&mut self) {
        self.stats.dropped.not_authentic += 1;
    }
}

impl<P: Payload> Endpoint<P> {
    /// A packet for `receiver` was opened here, though the driver could.
    pub(super) fn name_key(&mut self, id: PeerId, receiver: u32) {
        let is_named = |key: &NamedKey<P::Key>| key.receiver == receiver;
        let is_full = self.opening_keys.len() >= MAX_OPENING_KEYS;
        if !self.driver_opens || is_full || self.opening_keys.back().is_some_and(is_named) {
            return;
        }
        let peer = &self.peers[id.index()];
        // What it has received may have ended the session.
        let (Some(pair), Some(session)) = (peer.key_pair(receiver), &peer.session) else { return };
        let (key, since, expected) = (Arc::downgrade(&pair.receive), pair.since, session.received.expected());
        self.opening_keys.push_back(NamedKey { receiver, key, since, expected });
    }
}
