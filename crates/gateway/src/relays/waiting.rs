//! Clients that wait for a stream, and connections to servers that wait for a descriptor: whoever has come first goes first.

use super::{Relays, WaitingClient};
use crate::leg::Leg;
use relay::connection::State;
use relay::preamble::Open;
use socket2::Socket;
use units::{Duration, Instant};

/// Clients that may wait for a stream: no more than the kernel usually lets wait to be accepted, where the others do.
const MOST_WAITING: usize = 4096;
/// New connections past a peer go end to end once a client has waited for so long, until none does,
const LONG: Duration = Duration::from_secs(1);
/// or once so many wait.
const MANY: usize = 1024;
/// Connections that are accepted in a wake however many wait for their turn: faster than they come. Whoever finds the listener's queue
/// full waits for a second, and then for two.
const LEAST_INTAKE: usize = 64;

impl<L: Leg> Relays<L> {
    /// How many connections to accept in this wake, `most` at most: fewer while those that there are wait for their turn, lest a
    /// gateway that is asked for more than the processor does begin everything and end nothing.
    pub(crate) fn intake(&self, most: usize) -> usize {
        most.saturating_sub(self.work.len()).max(LEAST_INTAKE)
    }

    /// How many connections the leg may accept in this wake, `most` at most: none while others want for descriptors.
    pub(crate) fn leg_intake(&self, most: usize) -> usize {
        if !self.is_short() {
            self.intake(most)
        } else {
            usize::from(self.unconnected.is_empty() && self.has_descriptor())
        }
    }

    /// Whether there is a place for a client that may have to wait. Who wants for a descriptor is not to wait for those behind it.
    pub(crate) fn has_place(&self) -> bool {
        self.waiting < if self.is_short() { 1 } else { MOST_WAITING } && self.has_descriptor()
    }

    /// A client has connected, for which peer `at` is up.
    pub(super) fn relay_or_wait(&mut self, now: Instant, at: usize, socket: Socket, open: Open) {
        let socket = if self.peers[at].waiting.is_empty() { self.relay(now, socket, open) } else { Some(socket) };
        let Some(socket) = socket else { return };
        self.waiting += 1;
        let queue = &mut self.peers[at].waiting;
        queue.push_back(WaitingClient { since: now, socket, open });
        if queue.len() == MANY {
            self.look_at_queue(now, at);
        }
    }

    /// Serves clients that wait for a stream and connections that wait for a descriptor, once there may be one, and sends clients
    /// away that have waited for too long.
    pub(crate) fn serve_waiting(&mut self, now: Instant) {
        let may_serve = std::mem::take(&mut self.may_serve_waiting);
        if may_serve {
            self.connect_waiting(now);
        }
        if self.waiting == 0 {
            return;
        }
        for at in self.places() {
            while may_serve && let Some(client) = self.take_waiting(at) {
                // What this one lacks, those behind it lack as well.
                if let Some(socket) = self.relay(now, client.socket, client.open) {
                    self.waiting += 1;
                    self.peers[at].waiting.push_front(WaitingClient { socket, ..client });
                    break;
                }
            }
            let patience = self.connect_timeout;
            while self.peers[at].waiting.front().is_some_and(|client| client.since + patience <= now) {
                // Dropping the socket resets the client.
                drop(self.take_waiting(at));
                self.counters.turned_away += 1;
            }
        }
    }

    fn take_waiting(&mut self, at: usize) -> Option<WaitingClient> {
        let client = self.peers[at].waiting.pop_front()?;
        self.waiting -= 1;
        Some(client)
    }

    /// When the first client has waited for too long.
    pub(super) fn end_of_patience(&self) -> Option<Instant> {
        if self.waiting == 0 {
            return None;
        }
        let first = |(_, peer): (usize, &super::PeerEntry)| peer.waiting.front().map(|client| client.since);
        self.peers.iter().filter_map(first).min().map(|since| since + self.connect_timeout)
    }

    /// Looks whether clients of peer `at` wait for so long, or so many of them, that new connections had better go end to end.
    pub(super) fn look_at_queue(&mut self, now: Instant, at: usize) {
        let peer = &mut self.peers[at];
        let Some(first) = peer.waiting.front().map(|client| client.since) else {
            if std::mem::take(&mut peer.is_late) {
                tracing::info!(
                    peer = peer.settings.name,
                    "no client waits any more: new connections are accelerated again"
                );
                self.must_steer = true;
            }
            return;
        };
        if !peer.is_late && (peer.waiting.len() >= MANY || first + LONG <= now) {
            peer.is_late = true;
            tracing::warn!(
                peer = peer.settings.name,
                waiting = peer.waiting.len(),
                "clients wait for a connection across the satellite: new ones go end to end until none does"
            );
            self.must_steer = true;
        }
    }

    /// Connection `key` has to be made to its server, behind those that wait for a descriptor.
    pub(super) fn connect_in_turn(&mut self, now: Instant, key: usize) {
        if !self.unconnected.is_empty() || !self.connect(now, key) {
            self.unconnected.push_back((key, self.connections[key].stream));
        }
    }

    fn connect_waiting(&mut self, now: Instant) {
        while let Some((key, stream)) = self.unconnected.pop_front() {
            // It may have ended while it waited, and its place may be another's.
            let waits = self.connections.get(key).is_some_and(|connection| {
                connection.stream == stream && connection.state == State::Connecting && connection.tcp.socket.is_none()
            });
            if waits && !self.connect(now, key) {
                return self.unconnected.push_front((key, stream));
            }
        }
    }

    /// Something has ended, or time has passed: whoever waits may have what was missing.
    pub(super) fn wake_waiting(&mut self) {
        self.may_serve_waiting |= self.waiting > 0 || !self.unconnected.is_empty();
    }
}
