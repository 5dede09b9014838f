//! What is said on the control connections once both sides know one another: whether the other end is there, what has
//! ended, and whether there is room.

use super::session::Initiator;
use super::tunnel::{Data, Role, Tunnel};
use super::{Name, TcpPeer, TcpTransport, TunnelId};
use crate::transport::StreamEvent;
use ::satpep::ResetReason;
use relay::reach::{Reach, ReachError};
use tcp_tunnel::control::{Ended, Message};
use units::Instant;

/// The number of probes that ask whether the peer answers; notices have others.
const ALIVE: u8 = 0;
/// Bytes of notices that go at once: what a control connection has to say beside must not wait behind them for long.
const ROOM: usize = 16 << 10;
/// How often a control connection is read in one turn of the loop, a kilobyte each time: others wait meanwhile.
pub(super) const READS: usize = 16;
/// Bytes that may wait to be sent. If a peer sends requests and reads no replies, its connection is closed.
pub(super) const MAX_PENDING: usize = 256 << 10;

/// What was announced to the peer, beside whether there is room.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Notified {
    /// What it may use here.
    pub(super) reach: bool,
    /// That this process takes no more connections.
    pub(super) leaving: bool,
    /// When it was seen that the peer's host has acknowledged that.
    pub(super) leaving_acknowledged_at: Option<Instant>,
}

/// How many bytes of notices may go on `tunnel` now.
pub(super) fn room(tunnel: &Tunnel) -> usize {
    ROOM.saturating_sub(tunnel.pending())
}

impl TcpPeer {
    fn log_shortage(&self) {
        tracing::warn!(peer = self.settings.name, "the peer has no room for more connections: new ones go end to end");
    }
}

impl TcpTransport {
    /// Asks whether `peer` is there, as often as what is under way makes it worth knowing.
    pub(super) fn look_at_session(&mut self, now: Instant, peer: usize) {
        let is_busy = self.is_busy(peer) | std::mem::take(&mut self.peers[peer].must_ask);
        self.take_progress_for_answer(now, peer);
        if !is_busy {
            self.take_acknowledgement_for_answer(now, peer);
        }
        let known = &mut self.peers[peer];
        known.has_received = false;
        let Some(Initiator::Up { tunnel, next_look, said_at, unresponsive_at, .. }) = known.initiator.as_mut() else {
            return;
        };
        *next_look = now + self.probe_timers.probe;
        let tunnel = &mut self.tunnels[*tunnel];
        let message = match is_busy {
            true => Message::Probe(ALIVE),
            false if now.since(*said_at) >= self.probe_timers.keepalive => Message::Idle,
            false => return,
        };
        *said_at = now;
        unresponsive_at.get_or_insert(now + self.probe_timers.unresponsive_after);
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        if tunnel.say(&bytes).is_err() {
            self.lose_session(now, peer, "its session has failed");
        }
    }

    /// On a full link, a probe and the one in its place may be lost while connections go on: what they carry is an answer, too.
    fn take_progress_for_answer(&mut self, now: Instant, peer: usize) {
        let is_unanswered =
            |known: &TcpPeer| matches!(known.initiator, Some(Initiator::Up { unresponsive_at: Some(_), .. }));
        let carried = is_unanswered(&self.peers[peer]).then(|| self.carried_bytes(peer));
        let known = &mut self.peers[peer];
        let before = std::mem::replace(&mut known.carried_before, carried);
        let progresses = carried.zip(before).is_some_and(|(carried, before)| carried > before);
        if let Some(Initiator::Up { unresponsive_at: Some(at), .. }) = known.initiator.as_mut().filter(|_| progresses) {
            *at = now + self.probe_timers.unresponsive_after;
        }
    }

    /// While all is quiet, TCP's acknowledgement is answer enough.
    fn take_acknowledgement_for_answer(&mut self, now: Instant, peer: usize) {
        let known = &mut self.peers[peer];
        let Some(Initiator::Up { tunnel, unresponsive_at, .. }) = known.initiator.as_mut() else { return };
        if unresponsive_at.is_some() && self.tunnels[*tunnel].is_acknowledged() {
            *unresponsive_at = None;
            known.hear(now, self.probe_timers.unresponsive_after);
        }
    }

    /// Bytes that connections with `peer` have carried both ways, once it has answered them. A process that stands still lets buffers fill,
    /// and no more; what connections begin with its kernel acknowledges all the same.
    pub(super) fn carried_bytes(&self, peer: usize) -> u64 {
        let tunnels = self.tunnels.iter().filter(|(_, tunnel)| tunnel.is_through(peer) && !tunnel.awaits_reply);
        tunnels.map(|(_, tunnel)| tunnel.carried_bytes()).sum()
    }

    /// Whether something is under way to `peer` or from it, or was since the last look: a peer that only receives waits for the probe
    /// behind the last bytes.
    pub(super) fn is_busy(&mut self, peer: usize) -> bool {
        let known = &mut self.peers[peer];
        let mut is_busy = known.has_received | std::mem::take(&mut known.has_sent);
        if known.streams == 0 {
            return is_busy;
        }
        let longest_rto = self.sockets.longest_rto;
        let streams = self.tunnels.iter_mut().map(|(_, tunnel)| tunnel);
        for tunnel in streams.filter(|tunnel| tunnel.is_through(peer)) {
            let had_sent = tunnel.has_sent;
            let data = if had_sent { tunnel.data(longest_rto) } else { Data::None };
            tunnel.has_sent = data != Data::None;
            is_busy |= tunnel.awaits_reply || (had_sent && data != Data::Unsent);
            if data == Data::UnderWay {
                break;
            }
        }
        is_busy
    }

    /// Sends all peers the announcements that they have not received yet.
    pub(super) fn talk(&mut self, now: Instant) {
        // What the peer may use is then for the next process to say.
        let has_successor = self.has_successor();
        for peer in 0..self.peers.len() {
            let has_room = self.has_room(peer);
            self.talk_on_former(now, peer);
            let known = &mut self.peers[peer];
            if let Some(Initiator::Up { tunnel, is_told_leaving, .. }) = &mut known.initiator {
                let tunnel = &mut self.tunnels[*tunnel];
                let mut bytes = Vec::new();
                if let Some(departure) = self.departure.as_ref().filter(|_| !std::mem::replace(is_told_leaving, true)) {
                    departure.message.encode(&mut bytes);
                }
                if known.own_ends.has_something_to_say() {
                    known.own_ends.poll_transmit(&mut bytes, room(tunnel));
                }
                // A session that has failed says so by its next event.
                let _ = if bytes.is_empty() { Ok(()) } else { tunnel.say(&bytes) };
            }
            if let Some(at) = known.responder {
                let tunnel = &mut self.tunnels[at];
                let mut bytes = Vec::new();
                if known.is_notified_full == has_room {
                    known.is_notified_full = !has_room;
                    Message::Room(has_room).encode(&mut bytes);
                }
                if !std::mem::replace(&mut known.notified.reach, true) && !has_successor {
                    Message::Reach(known.reach.clone()).encode(&mut bytes);
                }
                if let Some(departure) =
                    self.departure.as_ref().filter(|_| !std::mem::replace(&mut known.notified.leaving, true))
                {
                    departure.message.encode(&mut bytes);
                }
                if known.its_ends.has_something_to_say() {
                    known.its_ends.poll_transmit(&mut bytes, room(tunnel));
                }
                let _ = if bytes.is_empty() { Ok(()) } else { tunnel.say(&bytes) };
            }
        }
    }

    /// Whether `peer` had better open more connections: there are streams left, and places for those that have not said what
    /// they are for.
    fn has_room(&self, peer: usize) -> bool {
        let known = &self.peers[peer];
        // What is under way when it learns that there is none still has to fit; and it is not to change with each connection.
        let share = if known.is_notified_full { 8 } else { 16 };
        self.places_taken(peer) < self.max_streams - self.max_streams / share
    }

    /// How many of the places for streams of `peer` are taken. As many connections again may wait for the acknowledgement of their last bytes: a
    /// peer that sends none takes places by them, too.
    pub(super) fn places_taken(&self, peer: usize) -> u64 {
        let known = &self.peers[peer];
        known.streams.max((known.streams + known.lingering).saturating_sub(self.max_streams))
    }

    /// What the responder has said. Returns whether it may have.
    pub(super) fn hear_responder(&mut self, now: Instant, peer: usize, at: usize) -> bool {
        while let Some(Initiator::Up { reader, .. }) = &mut self.peers[peer].initiator
            && let Some(message) = reader.poll()
        {
            self.hear(now, peer, at, true, message);
        }
        self.tunnels[at].pending() < MAX_PENDING
    }

    /// What an initiator has said. Returns whether it may have.
    pub(super) fn hear_initiator(&mut self, now: Instant, peer: usize, at: usize) -> bool {
        while let Role::Responder(responder) = &mut self.tunnels[at].role
            && responder.is_proved()
            && let Some(message) = responder.reader.poll()
        {
            self.peers[peer].hear(now, self.probe_timers.unresponsive_after);
            if self.peers[peer].responder == Some(at) && !matches!(message, Message::Leaving { .. }) {
                self.on_initiator_stays(now, peer);
            }
            self.hear(now, peer, at, false, message);
        }
        self.tunnels[at].pending() < MAX_PENDING
    }

    /// What `peer` has said on connection `at`, of the session that this gateway has begun or the peer. The answer is queued until
    /// [`TcpTransport::send_answers`].
    pub(super) fn hear(&mut self, now: Instant, peer: usize, at: usize, is_own: bool, message: Message) {
        let known = &mut self.peers[peer];
        let mut answer = Vec::new();
        match message {
            Message::Probe(number) => Message::Answer(number).encode(&mut answer),
            Message::Answer(number) => {
                if let Some(Initiator::Up { unresponsive_at, .. }) =
                    known.initiator.as_mut().filter(|_| is_own && number == ALIVE)
                {
                    *unresponsive_at = None;
                }
                known.ends_at(at, is_own).on_answer(number, &mut answer);
            }
            Message::Ended(ended) => self.on_ended(peer, is_own, ended),
            Message::Room(is_there) => self.on_room(now, peer, at, is_there),
            Message::Reach(reach) if is_own => {
                let outcome = Reach::decode(&reach).and_then(|reach| known.allows.hear(now, reach));
                self.on_announced(now, peer, outcome);
            }
            Message::Reach(_) => {}
            Message::Leaving { has_successor } if is_own => self.on_peer_leaves(now, peer, at, has_successor),
            Message::Leaving { .. } => self.on_initiator_leaves(peer, at),
            Message::Stalled if is_own => known.search.doubt(now),
            Message::Idle | Message::Stalled => {}
        }
        self.tunnels[at].queue(&answer);
    }

    /// Sends the answers to what was read in one turn on connection `at`: one write for each probe would let a peer cause thousands of
    /// writes, and as many packets, in a turn.
    pub(super) fn send_answers(&mut self, at: usize) {
        // A session that has failed says so by its next event.
        let _ = self.tunnels[at].flush();
    }

    /// Has announcements count that have waited long enough.
    pub(super) fn apply_announced(&mut self, now: Instant) {
        for peer in 0..self.peers.len() {
            let outcome = self.peers[peer].allows.apply(now);
            self.on_announced(now, peer, outcome);
        }
    }

    /// What `peer` allows has been announced, with this outcome.
    fn on_announced(&mut self, now: Instant, peer: usize, outcome: Result<bool, ReachError>) {
        match outcome {
            Ok(true) => self.peers_changed(),
            Ok(false) => {}
            Err(error) => {
                if let Some(not_logged) = self.peers[peer].bad_announcements.admit(now) {
                    tracing::warn!(
                        peer = self.peers[peer].settings.name,
                        %error,
                        not_logged,
                        "the peer's announcement of the addresses that it allows is not understood"
                    );
                }
            }
        }
    }

    /// The responder of connection `at` has room for connections, or has none.
    fn on_room(&mut self, now: Instant, peer: usize, at: usize, is_there: bool) {
        let known = &mut self.peers[peer];
        let of_session = known.initiator.as_mut().filter(|initiator| initiator.tunnel() == Some(at));
        let Some(Initiator::Up { has_room, .. }) = of_session else { return };
        if std::mem::replace(has_room, is_there) == is_there {
            return;
        }
        if !is_there && known.shortage.begin(now, ()).is_some() {
            known.log_shortage();
        } else if is_there && known.shortage.end(()).is_some() {
            tracing::info!(peer = known.settings.name, "the peer takes connections again");
        }
        self.peers_changed();
    }

    /// Logs the lack of room that was not logged when it began and lasts.
    pub(super) fn log_lasting_shortages(&mut self, now: Instant) {
        let lacks_room = |known: &&mut TcpPeer| matches!(known.initiator, Some(Initiator::Up { has_room: false, .. }));
        for known in self.peers.iter_mut().filter(lacks_room) {
            if known.shortage.overdue(now).is_some() {
                known.log_shortage();
            }
        }
    }

    /// Has the relays look at the peers, once for all that a peer says in a row.
    fn peers_changed(&mut self) {
        if self.events.back() != Some(&StreamEvent::PeersChanged) {
            self.events.push_back(StreamEvent::PeersChanged);
        }
    }

    /// Leaves the rest of what is said on connection `at` to the next turn of the loop.
    pub(super) fn read_later(&mut self, at: usize) {
        let id = self.tunnels.get(at).map(|tunnel| TunnelId { at, number: tunnel.number });
        self.unread.extend(id.filter(|id| !self.unread.contains(id)));
    }

    /// Reads on where there was too much for one turn.
    pub(super) fn read_on(&mut self, now: Instant) {
        for id in std::mem::take(&mut self.unread) {
            match self.tunnel(id).map(|tunnel| &tunnel.role) {
                Some(&Role::Initiator(peer)) => self.on_initiator(now, peer, id.at),
                Some(Role::Responder(_)) => self.on_responder(now, id.at),
                _ => {}
            }
        }
    }

    /// The peer has reset a stream; the packet that says so may have been lost.
    fn on_ended(&mut self, peer: usize, is_own: bool, ended: Ended) {
        let Ended { session, number, reason } = ended;
        let Some(&at) = self.names.get(&Name { peer, is_own, session, number }) else { return };
        let tunnel = &mut self.tunnels[at];
        // The same need not be announced again.
        tunnel.name = None;
        self.names.remove(&Name { peer, is_own, session, number });
        let id = TunnelId { at, number: self.tunnels[at].number };
        let tunnel = &mut self.tunnels[at];
        if reason == ResetReason::Aborted && tunnel.is_read_on() {
            // What the peer sent before has arrived.
            (tunnel.reset_by_peer, tunnel.tcp.readable) = (Some(reason), true);
            self.events.push_back(StreamEvent::Ready(id));
        } else {
            tunnel.failed.get_or_insert(reason);
            self.events.push_back(StreamEvent::Reset(id, reason));
        }
    }

    /// Lets connections go through `peer` once they need not wait for a handshake and a full packet has passed, or have waited for that long enough.
    pub(super) fn settle(&mut self, now: Instant, peer: usize) {
        let known = &self.peers[peer];
        let is_warm = (self.warm_connections == 0 || known.warm.iter().any(|at| self.tunnels[*at].is_ready()))
            && known.search.found().is_some();
        let Some(Initiator::Up { settles_at, .. }) = &mut self.peers[peer].initiator else { return };
        if settles_at.take_if(|until| is_warm || *until <= now).is_some() {
            self.events.push_back(StreamEvent::PeersChanged);
        }
    }
}
