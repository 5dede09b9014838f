//! One process after the other: what a gateway hands over, what the one that takes over goes on with, and how a peer moves from the
//! one to the other.
//!
//! A connection across the satellite stays with the process that has its socket. The listener goes over to the new process at
//! once, and with it the sessions that peers have begun: what they open from then on is taken there, whether or not they
//! have heard yet. They are notified, begin a session with the new process, and open with the session that they get there. The old control
//! connection is kept on both sides for what was opened in it.

use super::arrivals::SESSIONS_EACH;
use super::departure::Departure;
use super::notices::OwnSessionLine;
use super::session::{Accepted, Initiator};
use super::talk::{MAX_PENDING, Notified, READS, room};
use super::tunnel::{Role, Tunnel};
use super::{TcpPeer, TcpTransport};
use crate::error::{StartError, while_doing};
use crate::takeover::{Heir, LONGEST};
use crate::transport::StreamEvent;
use mio::unix::SourceFd;
use serde::{Deserialize, Serialize};
use slab::Slab;
use socket2::Socket;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use tcp_tunnel::control::{Message, Reader};
use tcp_tunnel::notices::Notices;
use tcp_tunnel::replay::ReplayWindow;
use tcp_tunnel::{Challenge, Greeting, Hello, Parser, SessionKey};
use units::Instant;

/// Control connections that are kept beside the newest: that of the process before it.
const FORMER: usize = 1;

/// How many sessions of each peer are left to another process, as far as they fit: those before the newest are for tunnel requests that are
/// still under way.
const SESSIONS_LEFT: [usize; 3] = [SESSIONS_EACH, 4, 1];

/// A control connection that another one has taken the place of.
#[derive(Debug)]
pub(super) struct Former {
    /// Its place in the table.
    pub(super) tunnel: usize,
    pub(super) session: u64,
    /// Ends of what was opened in it that the other end has to learn of.
    pub(super) ends: Notices,
}

/// The same of one that was made here.
#[derive(Debug)]
pub(super) struct FormerInitiator {
    pub(super) line: Former,
    reader: Reader,
    /// When something was said last.
    said_at: Instant,
    /// What opens connections until the new process has answered.
    pub(super) opener: Option<Opener>,
}

/// A session's key, and the number of the next tunnel request.
#[derive(Debug)]
pub(super) struct Opener {
    pub(super) key: SessionKey,
    pub(super) next: u64,
    /// Whether connections that begin now had better go through the peer.
    pub(super) invites: bool,
}

/// What the process that takes over goes on with, beside the listener.
#[derive(Debug, Serialize, Deserialize)]
struct Estate {
    epoch: u64,
    /// The sessions that peers have begun; of each peer the oldest first.
    sessions: Vec<Session>,
}

/// A session, without its key, which the gateway's private key yields.
#[derive(Debug, Serialize, Deserialize)]
struct Session {
    hello: Vec<u8>,
    challenge: Vec<u8>,
    /// The number above those of all tunnel requests, and those below that have not been seen.
    next: u64,
    unused: Vec<u64>,
    /// Where its peer has been, which is no stranger there.
    #[serde(default)]
    addresses: Vec<IpAddr>,
}

impl TcpTransport {
    /// The listener for peers of a process that hands over, as `heir` has it, or else a new one.
    pub(super) fn listener(
        settings: &crate::config::Settings,
        sockets: &super::Sockets,
        heir: Option<&mut Heir>,
    ) -> Result<Socket, StartError> {
        let doing = || format!("TCP socket {}", settings.listen);
        match heir {
            None => sockets.listen(settings.listen).map_err(while_doing(doing())),
            Some(heir) => {
                // It stays as it is as long as it may be the other process's.
                heir.take_satellite_listener().ok_or_else(|| {
                    StartError::TakeOver("the running gateway hands over no listener for its peers".into())
                })
            }
        }
    }

    /// Leaves the listener to another process. Returns what that goes on with.
    pub(super) fn leave_to_another(&mut self, now: Instant) -> Vec<u8> {
        if let Some(listener) = self.listener.take() {
            // The other process has the same socket, so that closing it here would not end its watch.
            let _ = self.watch.registry.deregister(&mut SourceFd(&listener.as_raw_fd()));
        }
        if let Some(cross) = &mut self.cross {
            cross.disown();
        }
        self.begin_leaving(now, true);
        self.estate_within(LONGEST).unwrap_or_default()
    }

    /// Whether another process can go on with what this one would leave to it, or why not. Until it does, the sessions have used up more numbers.
    ///
    /// # Errors
    /// If that is longer than another process reads.
    pub(super) fn check_estate(&self, longest: u64) -> Result<(), String> {
        let reserve = longest / 4;
        if self.estate_within(longest - reserve).is_some() {
            return Ok(());
        }
        Err(format!(
            "the sessions of {} peers are more than the {} MiB that a take-over carries: restart the gateway, or drain it first",
            self.peers.len(),
            longest >> 20
        ))
    }

    fn to_leave(&self, accepted: &Accepted) -> Session {
        let (next, unused) = accepted.window.state();
        let Accepted { peer, hello, challenge, .. } = accepted;
        let addresses = self.peers.get(*peer).map(|peer| peer.known_addresses.iter().copied().collect());
        Session {
            hello: hello.encode().to_vec(),
            challenge: challenge.encode().to_vec(),
            next,
            unused,
            addresses: addresses.unwrap_or_default(),
        }
    }

    /// What another process goes on with, in `longest` bytes: where all sessions are too many, the newest of each peer.
    fn estate_within(&self, longest: u64) -> Option<Vec<u8>> {
        let of_each = |count: usize| {
            let newest = |peer: &TcpPeer| peer.sessions.len().saturating_sub(count);
            let names = self.peers.iter().flat_map(|peer| peer.sessions.iter().skip(newest(peer)));
            let sessions =
                names.filter_map(|name| self.sessions.get(name)).map(|session| self.to_leave(session)).collect();
            serde_json::to_vec(&Estate { epoch: self.epoch, sessions }).ok()
        };
        SESSIONS_LEFT.into_iter().filter_map(of_each).find(|estate| estate.len() as u64 <= longest)
    }

    /// Goes on with what another process has left.
    ///
    /// # Errors
    /// If it is not understood, or the listener cannot be set up.
    pub(super) fn go_on_with(&mut self, estate: &[u8]) -> io::Result<()> {
        let estate: Estate = serde_json::from_slice(estate)?;
        // To the peers it is the same run: none of its connections is lost.
        self.epoch = estate.epoch;
        for session in estate.sessions {
            let Some((name, accepted)) = session.open(self) else { continue };
            session.addresses.iter().for_each(|address| self.know_address(accepted.peer, *address));
            self.peers[accepted.peer].sessions.push_back(name);
            self.sessions.insert(name, accepted);
        }
        self.listener.as_ref().map_or(Ok(()), |listener| self.sockets.adopt(listener))
    }

    /// Opens no more connections, and notifies the peers.
    pub(super) fn begin_leaving(&mut self, now: Instant, has_successor: bool) {
        self.departure.get_or_insert_with(|| Departure::new(now, has_successor));
        (0..self.peers.len()).for_each(|peer| self.drop_warm(peer));
        self.talk(now);
    }

    /// Whether another process has taken over what peers begin.
    pub(super) fn has_successor(&self) -> bool {
        matches!(self.departure, Some(Departure { message: Message::Leaving { has_successor: true }, .. }))
    }

    /// The process that `peer`'s session is with takes no more connections.
    pub(super) fn on_peer_leaves(&mut self, now: Instant, peer: usize, at: usize, has_successor: bool) {
        let known = &mut self.peers[peer];
        let Some(Initiator::Up { is_draining, .. }) =
            known.initiator.as_mut().filter(|initiator| initiator.tunnel() == Some(at))
        else {
            return;
        };
        if has_successor && self.departure.is_none() {
            known.log_own_session(now, OwnSessionLine::Succeeded);
            return self.initiate_with_successor(now, peer);
        }
        if !std::mem::replace(is_draining, true) {
            known.log_own_session(now, OwnSessionLine::Drains);
            self.drop_warm(peer);
            self.events.push_back(StreamEvent::PeersChanged);
        }
    }

    /// Begins a session with the process that answers for `peer` now, and opens with the session that there is until it has answered.
    fn initiate_with_successor(&mut self, now: Instant, peer: usize) {
        let known = &mut self.peers[peer];
        let invites = known.initiator.as_ref().is_some_and(Initiator::invites);
        let Some(Initiator::Up { tunnel, key, next, reader, .. }) = known.initiator.replace(Initiator::Waits(now))
        else {
            return;
        };
        known.former_initiators.push_back(FormerInitiator {
            line: Former { tunnel, session: key.session(), ends: known.own_ends.clone() },
            reader,
            said_at: now,
            opener: Some(Opener { key, next, invites }),
        });
        if known.former_initiators.len() > FORMER
            && let Some(oldest) = known.former_initiators.front().map(|former| former.line.tunnel)
        {
            self.end_former_initiator(peer, oldest);
        }
    }

    /// The new process of `peer` has answered: nothing is opened in the session with the old one any more. Returns whether
    /// connections had better go through the peer before.
    pub(super) fn end_request_in_former(&mut self, peer: usize) -> bool {
        let openers = self.peers[peer].former_initiators.iter_mut().filter_map(|former| former.opener.take());
        let had_opener = openers.last();
        if had_opener.is_some() {
            // They were made to the old process.
            self.drop_warm(peer);
        }
        had_opener.is_some_and(|opener| opener.invites)
    }

    /// The control connection `at` of a session with a process of `peer` that is being replaced is ready for something.
    pub(super) fn on_former_initiator(&mut self, now: Instant, peer: usize, at: usize) {
        if self.tunnels[at].flush().is_err() {
            return self.end_former_initiator(peer, at);
        }
        for _ in 0..READS {
            while let Some(former) = self.peers[peer].former_initiator(at)
                && let Some(message) = former.reader.poll()
            {
                self.hear(now, peer, at, true, message);
            }
            let mut buffer = [0; 1024];
            let tunnel = &mut self.tunnels[at];
            if tunnel.pending() >= MAX_PENDING {
                return self.end_former_initiator(peer, at);
            }
            match tunnel.read(&mut buffer) {
                Ok(count @ 1..) => {
                    if let Some(former) = self.peers[peer].former_initiator(at) {
                        former.reader.push(&buffer[..count]);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return self.send_answers(at),
                Ok(_) | Err(_) => return self.end_former_initiator(peer, at),
            }
        }
        self.read_later(at);
        self.send_answers(at);
    }

    /// Ends such a connection: the process at its other end has ended, or cannot be reached.
    fn end_former_initiator(&mut self, peer: usize, at: usize) {
        let known = &mut self.peers[peer];
        let Some(place) = known.former_initiators.iter().position(|former| former.line.tunnel == at) else { return };
        let former = known.former_initiators.remove(place);
        drop(self.remove(at));
        if former.is_some_and(|former| former.opener.is_some()) {
            self.events.push_back(StreamEvent::PeersChanged);
        }
    }

    /// Keeps the connection `before` of a session that `peer` has begun, now that it has begun another one.
    pub(super) fn keep_former_responder(&mut self, now: Instant, peer: usize, before: usize) {
        let Role::Responder(responder) = &self.tunnels[before].role else { return };
        let known = &mut self.peers[peer];
        let ends = known.its_ends.clone();
        known.former_responders.push_back(Former { tunnel: before, session: responder.session, ends });
        if known.former_responders.len() > FORMER
            && let Some(oldest) = known.former_responders.pop_front()
        {
            let is_leaving = is_leaving(&self.tunnels, oldest.tunnel);
            let oldest = self.remove(oldest.tunnel);
            if !is_leaving {
                self.peers[peer].rivals.on_ended(now, oldest.from);
            }
        }
    }

    /// The process of `peer` whose session has the control connection `at` leaves. Where one that stays has begun a session before, that one counts.
    pub(super) fn on_initiator_leaves(&mut self, peer: usize, at: usize) {
        let Role::Responder(responder) = &mut self.tunnels[at].role else { return };
        responder.is_leaving = true;
        let session = responder.session;
        let known = &mut self.peers[peer];
        let stays = known.former_responders.back().is_some_and(|former| !is_leaving(&self.tunnels, former.tunnel));
        if known.responder != Some(at) || !stays {
            return;
        }
        let Some(newer) = known.former_responders.pop_back() else { return };
        known.responder = Some(newer.tunnel);
        let ends = std::mem::replace(&mut known.its_ends, newer.ends);
        known.former_responders.push_back(Former { tunnel: at, session, ends });
        (known.is_notified_full, known.notified) = (false, Notified::default());
        // Its tunnel requests are still taken, but it is the first that goes.
        known.sessions.retain(|other| *other != session);
        known.sessions.push_front(session);
    }

    /// The process of `peer` that has begun the latest session stays: what is left of sessions that it had before is of no use.
    pub(super) fn on_initiator_stays(&mut self, now: Instant, peer: usize) {
        let known = &mut self.peers[peer];
        let stale = known.former_responders.iter().find(|former| !is_leaving(&self.tunnels, former.tunnel));
        if let Some(stale) = stale.map(|former| former.tunnel) {
            known.former_responders.retain(|former| former.tunnel != stale);
            let stale = self.remove(stale);
            self.peers[peer].rivals.on_ended(now, stale.from);
        }
    }

    /// Says what is due on the connections of sessions that others have taken the place of.
    pub(super) fn talk_on_former(&mut self, now: Instant, peer: usize) {
        let known = &mut self.peers[peer];
        for former in &mut known.former_initiators {
            let mut bytes = Vec::new();
            if now.since(former.said_at) >= self.probe_timers.keepalive {
                former.said_at = now;
                // Else the other end takes the silence for that of a peer that is no more.
                Message::Idle.encode(&mut bytes);
            }
            let tunnel = &mut self.tunnels[former.line.tunnel];
            former.line.ends.poll_transmit(&mut bytes, room(tunnel));
            // One that has failed says so by its next event.
            let _ = if bytes.is_empty() { Ok(()) } else { tunnel.say(&bytes) };
        }
        for former in &mut known.former_responders {
            let mut bytes = Vec::new();
            let tunnel = &mut self.tunnels[former.tunnel];
            former.ends.poll_transmit(&mut bytes, room(tunnel));
            let _ = if bytes.is_empty() { Ok(()) } else { tunnel.say(&bytes) };
        }
    }
}

/// Whether the process that has made connection `at` for its session has said that it leaves.
fn is_leaving(tunnels: &Slab<Tunnel>, at: usize) -> bool {
    matches!(&tunnels[at].role, Role::Responder(responder) if responder.is_leaving)
}

impl Session {
    /// The session's name, and the session; `None` if it is none of a peer's.
    fn open(&self, transport: &TcpTransport) -> Option<(u64, Accepted)> {
        let Ok(Some(Greeting::Session(hello))) = Parser::new().push(&self.hello) else { return None };
        let hello: Hello = hello;
        let challenge = Challenge::decode(self.challenge.first_chunk()?)?;
        let &peer = transport.by_key.get(&hello.initiator)?;
        let key = SessionKey::resume(&transport.private_key, &hello, &challenge)?;
        let window = ReplayWindow::restore(self.next, &self.unused);
        // Before anything that this process hears.
        let begun_at = Instant::ZERO;
        Some((challenge.session, Accepted { peer, begun_at, key, window, hello, challenge }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Hub;

    #[test]
    fn what_is_too_long_for_another_process_is_the_newest_sessions_or_refused_before_anything_is_let_go() {
        let mut hub = Hub::new();
        let _controls: Vec<_> = (1..=6).map(|nonce| hub.session(nonce)).collect();
        let count = |estate: &[u8]| {
            let estate: super::Estate = serde_json::from_slice(estate).unwrap();
            estate.sessions.len()
        };
        let all = hub.transport.estate_within(u64::MAX).unwrap();
        assert_eq!(count(&all), 6);
        let length = all.len() as u64;
        for (longest, sessions) in [(length, 6), (length - 1, 4), (length / 3, 1)] {
            let estate = hub.transport.estate_within(longest).unwrap();
            assert_eq!(count(&estate), sessions, "of {longest} bytes");
        }
        let newest = *hub.transport.peers[0].sessions.back().unwrap();
        let mut next = Hub::new();
        next.transport.go_on_with(&hub.transport.estate_within(length / 3).unwrap()).unwrap();
        assert!(next.transport.sessions.contains_key(&newest));
        let known = &hub.transport.peers[0].known_addresses;
        assert!(!known.is_empty() && next.transport.peers[0].known_addresses == *known, "{known:?}");
        assert_eq!(hub.transport.check_estate(super::LONGEST), Ok(()));
        let reason = hub.transport.check_estate(100).unwrap_err();
        assert!(reason.ends_with("restart the gateway, or drain it first"), "{reason}");
    }
}
