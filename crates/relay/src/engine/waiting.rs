//! Clients that wait for a stream, and connections to servers that wait for room, first come, first served.

use super::peers::WaitingClient;
use super::{Engine, Hosts, Notice, Transport};
use crate::connect::ConnectRequest;
use crate::connection::State;
use units::{Duration, Instant};

/// Clients that may wait for a stream: no more than the kernel usually lets wait to be accepted, where the others do.
const MAX_WAITING: usize = 4096;
/// New connections past a peer go end to end once a client has waited for so long, until none does,
const LONG: Duration = Duration::from_secs(1);
/// or once so many wait.
const MANY: usize = 1024;
/// Connections that are accepted in a wake however many wait for their turn: faster than they come. A client that finds the
/// listener's queue full waits for a second, and then for two.
const MIN_INTAKE: usize = 64;

impl<T: Transport<H>, H: Hosts> Engine<T, H> {
    /// How many connections to accept in this wake, `most` at most: fewer while those that there are wait for their turn, so that a
    /// gateway that is asked for more than the processor does ends what it has begun.
    pub fn intake(&self, most: usize) -> usize {
        most.saturating_sub(self.work.len()).max(MIN_INTAKE)
    }

    /// How many connections the transport may accept in this wake, `most` at most: none while others lack room.
    pub fn transport_intake(&self, most: usize) -> usize {
        if !self.is_short() { self.intake(most) } else { usize::from(self.unconnected.is_empty() && self.has_room()) }
    }

    /// Whether there is a place for a client that may have to wait. Who lacks room is not to wait for those behind it.
    pub fn has_place(&self) -> bool {
        self.waiting < if self.is_short() { 1 } else { MAX_WAITING } && self.has_room()
    }

    /// A client has connected, for which there is peer `at`.
    pub(super) fn relay_or_wait(&mut self, now: Instant, at: usize, tcp: H::Connection, request: ConnectRequest) {
        let tcp = if self.peers[at].waiting.is_empty() { self.relay(now, now, tcp, request) } else { Some(tcp) };
        let Some(tcp) = tcp else { return };
        self.waiting += 1;
        let queue = &mut self.peers[at].waiting;
        queue.push_back(WaitingClient { since: now, tcp, request });
        if queue.len() == MANY {
            self.look_at_queue(now, at);
        }
    }

    /// How many clients wait for a stream.
    pub fn clients_waiting(&self) -> usize {
        self.waiting
    }

    /// Serves clients that wait for a stream and connections that wait for room, once there may be some, and sends clients
    /// away that have waited for too long.
    pub fn serve_waiting(&mut self, now: Instant) {
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
                if let Some(tcp) = self.relay(now, client.since, client.tcp, client.request) {
                    self.waiting += 1;
                    self.peers[at].waiting.push_front(WaitingClient { tcp, ..client });
                    break;
                }
            }
            let patience = self.settings.connect_timeout;
            while self.peers[at].waiting.front().is_some_and(|client| client.since + patience <= now) {
                let Some(client) = self.take_waiting(at) else { break };
                self.send_away(now, client);
            }
        }
    }

    /// Has each client wait for the peer behind which its server lies now that the routes have changed, in the order in which they
    /// connected. Those without a peer are reset.
    pub(super) fn requeue_waiting(&mut self, now: Instant) {
        let mut clients = std::mem::take(&mut self.set_aside);
        let queues = self.peers.iter_mut().map(|(_, peer)| std::mem::take(&mut peer.waiting));
        clients.extend(queues.flatten());
        clients.sort_by_key(|client| client.since);
        self.waiting = 0;
        for client in clients {
            match self.settings.routes.peer_of(client.request.destination.ip()) {
                Some(at) => {
                    self.peers[at].waiting.push_back(client);
                    self.waiting += 1;
                }
                None => self.send_away(now, client),
            }
        }
        self.wake_waiting();
    }

    /// Peer `at` is to be removed, and there will be other routes: until [`Engine::reconfigure`] says which, the clients that wait for it
    /// wait for none.
    pub fn set_waiting_aside(&mut self, at: usize) {
        self.set_aside.extend(std::mem::take(&mut self.peers[at].waiting));
    }

    /// Resets the clients that wait for peer `at`.
    pub(super) fn send_all_away(&mut self, now: Instant, at: usize) {
        while let Some(client) = self.take_waiting(at) {
            self.send_away(now, client);
        }
    }

    fn send_away(&mut self, now: Instant, client: WaitingClient<H::Connection>) {
        self.note_unavailable(now, client.since, client.request);
        self.hosts.abort(now, client.tcp);
    }

    /// The client of `request`, which connected at `asked`, is reset without a stream.
    pub(super) fn note_unavailable(&mut self, now: Instant, asked: Instant, request: ConnectRequest) {
        self.counters.unavailable += 1;
        let peer = self.settings.routes.peer_of(request.destination.ip());
        self.notices.push_back(Notice::Unavailable { request, peer, waited: now.since(asked) });
    }

    fn take_waiting(&mut self, at: usize) -> Option<WaitingClient<H::Connection>> {
        let client = self.peers[at].waiting.pop_front()?;
        self.waiting -= 1;
        Some(client)
    }

    /// When the first client has waited for too long.
    pub(super) fn end_of_patience(&self) -> Option<Instant> {
        if self.waiting == 0 {
            return None;
        }
        let firsts = self.peers.iter().filter_map(|(_, peer)| peer.waiting.front().map(|client| client.since));
        firsts.min().map(|since| since + self.settings.connect_timeout)
    }

    /// Looks whether clients of peer `at` wait for so long, or so many of them, that new connections had better go end to end.
    pub(super) fn look_at_queue(&mut self, now: Instant, at: usize) {
        let peer = &mut self.peers[at];
        let Some(first) = peer.waiting.front().map(|client| client.since) else {
            if std::mem::take(&mut peer.is_late) {
                self.notices.push_back(Notice::ClientsServed(at));
                self.interception_changed = true;
            }
            return;
        };
        if !peer.is_late && (peer.waiting.len() >= MANY || first + LONG <= now) {
            peer.is_late = true;
            self.notices.push_back(Notice::ClientsWait { peer: at, waiting: peer.waiting.len() });
            self.interception_changed = true;
        }
    }

    /// Connection `key` has to be made to its server, behind those that wait for room.
    pub(super) fn connect_in_turn(&mut self, now: Instant, key: usize) {
        if !self.unconnected.is_empty() || !self.connect(now, key) {
            self.unconnected.push_back((key, self.connections[key].stream));
        }
    }

    fn connect_waiting(&mut self, now: Instant) {
        while let Some((key, stream)) = self.unconnected.pop_front() {
            // It may have ended while it waited, and its place may be another's.
            let waits = self.connections.get(key).is_some_and(|connection| {
                connection.stream == stream && connection.state == State::Connecting && connection.tcp.is_none()
            });
            if waits && !self.connect(now, key) {
                return self.unconnected.push_front((key, stream));
            }
        }
    }

    /// Something has ended, or time has passed: what clients wait for may be available.
    pub(super) fn wake_waiting(&mut self) {
        self.may_serve_waiting |= self.waiting > 0 || !self.unconnected.is_empty();
    }
}
