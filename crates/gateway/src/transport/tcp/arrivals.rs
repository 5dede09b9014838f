//! Connections that peers make: what for, and whether they may.

use super::notices::SessionLine;
use super::place::Place;
use super::rejection::Rejection;
use super::session::{Accepted, Initiator, Responder};
use super::talk::{Notified, READS};
use super::trouble::{in_words, is_denied, is_unknown_key};
use super::tunnel::{Admission, Role, Tunnel};
use super::{Name, TcpTransport, TunnelId, random_number};
use crate::entropy::seed;
use crate::transport::StreamEvent;
use crate::trouble::OTHER_VERSION;
use socket2::Socket;
use std::io;
use std::net::IpAddr;
use tcp_tunnel::{Greeting, Hello, Offer, Parser, SessionKey, Trial, TunnelRequest};
use units::{Duration, Instant};

/// How long a connection that was made before it was needed may wait for its use; its initiator closes it before.
const IDLE: Duration = Duration::from_secs(2 * 3600);
/// Sessions of one peer whose tunnel requests are taken: a tunnel request that is lost is sent again, and while that takes seconds, the path may
/// change more than once, which begins a session each time.
pub(super) const SESSIONS_EACH: usize = 16;
/// Addresses of which each peer is known.
const ADDRESSES_EACH: usize = 4;
/// Bytes of messages read at once.
const WORDS: usize = 1024;

/// Whether accept(2) has taken a connection off the queue that is of no use, and the next one can be taken.
pub(super) fn concerns_caller_alone(error: &io::Error) -> bool {
    const OF_THE_CONNECTION: [i32; 7] = [
        libc::ECONNABORTED,
        libc::EPROTO,
        libc::ENOPROTOOPT,
        libc::ENETDOWN,
        libc::ENETUNREACH,
        libc::EHOSTDOWN,
        libc::EHOSTUNREACH,
    ];
    error.raw_os_error().is_some_and(|code| OF_THE_CONNECTION.contains(&code))
}

impl TcpTransport {
    /// Accepts what waits at the listener, `most` connections at most.
    pub(super) fn accept(&mut self, now: Instant, most: usize) {
        if !std::mem::take(&mut self.accepting) {
            return;
        }
        self.callers_wait = most == 0;
        for _ in 0..most {
            let Some(listener) = &self.listener else { return };
            match self.sockets.accept(listener) {
                Ok(None) => return,
                Ok(Some((socket, from))) => self.take_caller(now, socket, from),
                // It had gone before it was accepted, or calls from port 0: others wait behind.
                Err(error) if concerns_caller_alone(&error) => tracing::debug!(%error, "accept"),
                // Descriptors are short, or it is the listener's: the next tick tries again.
                Err(error) => {
                    tracing::debug!(%error, "callers wait");
                    self.callers_wait = true;
                    return;
                }
            }
        }
        self.accepting = most > 0;
    }

    /// Someone who may be a peer has connected.
    fn take_caller(&mut self, now: Instant, socket: Socket, from: IpAddr) {
        if !self.peers.iter().any(|peer| peer.accepts_from(from)) {
            // Dropping the socket resets the connection.
            self.count_rejected(Rejection::Address);
            return self.say_address(now, from);
        }
        let Ok(tls) = self.tls.as_ref().map(|tls| tls.accept()).transpose() else { return };
        let Ok(at) = self.insert(Role::Unknown(Parser::new()), socket, from) else { return };
        self.give_place(now, at, self.addresses.contains_key(&from));
        self.tunnels[at].tls = tls.map(Box::new);
        self.tunnels[at].tcp.readable = true;
        self.greet(now, at);
    }

    /// Gives connection `at` a place, which may cost another one its own.
    fn give_place(&mut self, now: Instant, at: usize, is_known: bool) {
        self.give_place_back(at);
        let waiting = if is_known { &mut self.known } else { &mut self.strangers };
        let (ticket, driven_out) = waiting.enter(at, self.tunnels[at].from);
        self.tunnels[at].place = Some(Place { is_known, ticket });
        self.set_deadline(at, Some(now + if is_known { IDLE } else { self.probe_timers.authentication }));
        if let Some(other) = driven_out {
            self.count_rejected(Rejection::TooMany);
            self.tunnels[other].place = None;
            drop(self.remove(other));
        }
    }

    pub(super) fn give_place_back(&mut self, at: usize) {
        if let Some(Place { is_known, ticket }) = self.tunnels[at].place.take() {
            if is_known { self.known.leave(ticket) } else { self.strangers.leave(ticket) }
        }
    }

    /// Connection `at` has not said in time what it is for.
    pub(super) fn on_late(&mut self, now: Instant, at: usize) {
        let tunnel = &self.tunnels[at];
        let is_stranger = tunnel.place.is_some_and(|place| !place.is_known);
        if is_stranger && self.addresses.contains_key(&tunnel.from) {
            // A peer has proved meanwhile that it is there.
            return self.give_place(now, at, true);
        }
        if is_stranger {
            self.count_rejected(Rejection::Late);
        }
        drop(self.remove(at));
    }

    /// Reads on in what connection `at` is for.
    pub(super) fn greet(&mut self, now: Instant, at: usize) {
        if self.tunnels[at].early.is_some() {
            // The bytes after it belong to the relayed connection.
            return;
        }
        if self.tunnels[at].tls.is_some() && !self.is_admitted(now, at) {
            return;
        }
        let rejection = match self.tunnels[at].read_greeting() {
            Ok(Some(Ok(greeting))) if self.is_early(&greeting) => return self.tunnels[at].early = Some(greeting),
            Ok(None) => {
                // TLS knows the key of who has completed its handshake.
                let tunnel = &self.tunnels[at];
                let is_peer = tunnel.tls.is_some() && tunnel.is_ready();
                if is_peer && tunnel.place.is_some_and(|place| !place.is_known) {
                    self.give_place(now, at, true);
                }
                return;
            }
            Ok(Some(Ok(Greeting::Session(hello)))) => {
                let rejection = self.challenge(now, at, &hello).err();
                if rejection == Some(Rejection::Stranger) {
                    self.say_stranger(now, self.tunnels[at].from, &hello.initiator);
                }
                rejection
            }
            Ok(Some(Ok(Greeting::Tunnel(tunnel_request)))) => self.admit(at, &tunnel_request).err(),
            Ok(Some(Ok(Greeting::Trial(trial)))) => self.begin_echo(at, &trial).err(),
            Ok(Some(Err(error))) => {
                self.say_malformed(now, self.tunnels[at].from, &in_words(&error));
                // In clear anyone can have said it.
                self.counters.violations += u64::from(self.tunnels[at].tls.is_some());
                Some(Rejection::Malformed)
            }
            Err(error) if is_unknown_key(&error) => {
                self.say_unknown_key(now, self.tunnels[at].from);
                Some(Rejection::Stranger)
            }
            Err(error) if is_denied(&error) => {
                self.say_denied(now, self.tunnels[at].from);
                Some(Rejection::Stranger)
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                self.say_malformed(now, self.tunnels[at].from, &error);
                Some(Rejection::Stranger)
            }
            // One that was made before it was needed and is not needed any more.
            Err(_) => return drop(self.remove(at)),
        };
        rejection.into_iter().for_each(|rejection| self.reject(at, rejection));
    }

    /// Whether TLS may go on with what has come on connection `at`. What strangers say beyond their rate waits unread, as long as they have
    /// their place.
    fn is_admitted(&mut self, now: Instant, at: usize) -> bool {
        let tunnel = &self.tunnels[at];
        let Tunnel { from, number, admission: before, .. } = *tunnel;
        if before == Admission::Granted {
            return true;
        }
        match tunnel.peek() {
            // It has ended.
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
        }
        // Those that wait come first.
        let may_pass =
            before == Admission::Awaited || self.awaiting_admission.is_empty() || self.addresses.contains_key(&from);
        let is_admitted = may_pass && self.may_agree(now, from);
        self.tunnels[at].admission = if is_admitted { Admission::Granted } else { Admission::Awaited };
        if before == Admission::NotAsked && !is_admitted {
            self.awaiting_admission.push(TunnelId { at, number });
        }
        is_admitted
    }

    /// Whether there may be one more key agreement with who is at `from`.
    fn may_agree(&mut self, now: Instant, from: IpAddr) -> bool {
        self.addresses.contains_key(&from) || self.handshakes.admit(now, from)
    }

    /// Asks again for those that wait unread, in the order in which they came.
    pub(super) fn admit_waiting(&mut self, now: Instant) {
        for id in std::mem::take(&mut self.awaiting_admission) {
            if self.tunnel(id).is_none_or(|tunnel| tunnel.admission != Admission::Awaited) {
                continue;
            }
            if self.is_admitted(now, id.at) {
                self.greet(now, id.at);
            } else {
                self.awaiting_admission.push(id);
            }
        }
    }

    fn reject(&mut self, at: usize, rejection: Rejection) {
        tracing::debug!(from = %self.tunnels[at].from, reason = rejection.name(), "tunnel rejected");
        self.count_rejected(rejection);
        drop(self.remove(at));
    }

    /// Whether `greeting` is of a session whose initiator has yet to prove its key: it may have done so, on another connection.
    fn is_early(&self, greeting: &Greeting) -> bool {
        match greeting {
            Greeting::Session(_) => false,
            Greeting::Tunnel(TunnelRequest { session, .. }) | Greeting::Trial(Trial { session, .. }) => {
                self.challenged.contains(session)
            }
        }
    }

    /// The proof has come on which these have waited, or will not come any more.
    fn take_early(&mut self, session: u64) {
        let is_of = |tunnel: &Tunnel| match tunnel.early {
            Some(Greeting::Tunnel(tunnel_request)) => tunnel_request.session == session,
            Some(Greeting::Trial(trial)) => trial.session == session,
            _ => false,
        };
        let waiting: Vec<usize> = self.tunnels.iter().filter(|(_, tunnel)| is_of(tunnel)).map(|(at, _)| at).collect();
        for at in waiting {
            let outcome = match self.tunnels[at].early.take() {
                Some(Greeting::Tunnel(tunnel_request)) => self.admit(at, &tunnel_request),
                Some(Greeting::Trial(trial)) => self.begin_echo(at, &trial),
                _ => Ok(()),
            };
            outcome.unwrap_or_else(|rejection| self.reject(at, rejection));
        }
    }

    /// Answers the hello of a peer.
    fn challenge(&mut self, now: Instant, at: usize, hello: &Hello) -> Result<(), Rejection> {
        let &peer = self.by_key.get(&hello.initiator).ok_or(Rejection::Stranger)?;
        if !self.peers[peer].accepts_from(self.tunnels[at].from) {
            return Err(Rejection::Address);
        }
        if !self.tunnels[at].may_be(&hello.initiator) {
            return Err(Rejection::Stranger);
        }
        if self.has_successor() {
            return Err(Rejection::Leaving);
        }
        // TLS has asked before.
        if self.tunnels[at].tls.is_none() && !self.may_agree(now, self.tunnels[at].from) {
            return Err(Rejection::TooFast);
        }
        let (Ok(nonce), Ok(session)) = (seed(), random_number()) else { return Err(Rejection::NoRandomness) };
        let (key, challenge) =
            SessionKey::challenge(&self.private_key, hello, Offer::SPOKEN, nonce, session, self.epoch)
                .ok_or(Rejection::Stranger)?;
        if key.version().is_none() {
            // It learns the range of versions, and cannot send a proof.
            self.note_versions(now, at, peer, hello.offer.versions);
            self.count_rejected(Rejection::Version);
        }
        self.tunnels[at].role = Role::Responder(Box::new(Responder::new(peer, key, *hello, challenge)));
        self.challenged.insert(session);
        self.tunnels[at].say(&challenge.encode()).map_err(|_| Rejection::Gone)?;
        self.set_deadline(at, Some(now + self.probe_timers.authentication));
        Ok(())
    }

    /// The session `number`, which connection `at` says that it belongs to.
    pub(super) fn session_of(&mut self, at: usize, number: u64) -> Result<&mut Accepted, Rejection> {
        let session = self.sessions.get_mut(&number).ok_or(Rejection::NoSession)?;
        let (peer, tunnel) = (&self.peers[session.peer], &self.tunnels[at]);
        if !peer.accepts_from(tunnel.from) {
            return Err(Rejection::Address);
        }
        if !peer.settings.public_key.is_some_and(|key| tunnel.may_be(&key)) {
            return Err(Rejection::Stranger);
        }
        Ok(session)
    }

    /// Takes the tunnel request of a relayed connection.
    fn admit(&mut self, at: usize, tunnel_request: &TunnelRequest) -> Result<(), Rejection> {
        let session = self.session_of(at, tunnel_request.session)?;
        session.take(tunnel_request)?;
        let (peer, session_begun_at) = (session.peer, session.begun_at);
        if self.places_taken(peer) >= self.max_streams {
            return Err(Rejection::TooMany);
        }
        self.peers[peer].streams += 1;
        if self.tunnels[at].tls.is_some() {
            // It need not be where the session has begun: a NAT may have several addresses.
            self.know_address(peer, self.tunnels[at].from);
        }
        self.give_place_back(at);
        self.set_deadline(at, None);
        let name = Name { peer, is_own: false, session: tunnel_request.session, number: tunnel_request.number };
        self.names.insert(name, at);
        let tunnel = &mut self.tunnels[at];
        tunnel.role = Role::Stream(peer);
        (tunnel.name, tunnel.request) = (Some(name), Some(tunnel_request.connect));
        tunnel.session_begun_at = Some(session_begun_at);
        let id = TunnelId { at, number: tunnel.number };
        self.events.push_back(StreamEvent::Opened(id, peer));
        self.mark_packets(id, &tunnel_request.connect, None);
        Ok(())
    }

    /// The control connection that a peer has made is ready for something.
    pub(super) fn on_responder(&mut self, now: Instant, at: usize) {
        if self.tunnels[at].flush().is_err() {
            return self.end_responder(now, at);
        }
        for _ in 0..READS {
            let Role::Responder(responder) = &self.tunnels[at].role else { return };
            let (peer, session, is_proved, missing) =
                (responder.peer, responder.session, responder.is_proved(), responder.missing());
            let mut buffer = [0; WORDS];
            let room = if is_proved { WORDS } else { missing };
            let tunnel = &mut self.tunnels[at];
            let said = match tunnel.read(&mut buffer[..room]) {
                Ok(count @ 1..) => &buffer[..count],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return self.send_answers(at),
                Ok(_) | Err(_) => return self.end_responder(now, at),
            };
            let outcome = match &mut tunnel.role {
                Role::Responder(responder) if is_proved => {
                    responder.reader.push(said);
                    Ok(None)
                }
                Role::Responder(responder) => responder.push(now, said),
                _ => return,
            };
            match outcome {
                // The process that takes over, where tunnel requests arrive, would not know the session: the peer begins a session with that one instead.
                Ok(Some(_)) if self.has_successor() => return self.end_responder(now, at),
                Ok(accepted) => {
                    self.set_deadline(at, Some(now + self.probe_timers.initiator_silence));
                    if let Some(accepted) = accepted {
                        self.begin(now, at, peer, session, accepted);
                    }
                    if !self.hear_initiator(now, peer, at) {
                        return self.end_responder(now, at);
                    }
                }
                Err(_) => {
                    self.count_rejected(Rejection::NotAuthentic);
                    return self.end_responder(now, at);
                }
            }
        }
        self.read_later(at);
        self.send_answers(at);
    }

    /// A peer has begun a session.
    fn begin(&mut self, now: Instant, at: usize, peer: usize, session: u64, accepted: Accepted) {
        self.counters.sessions += 1;
        self.give_place_back(at);
        self.know_address(peer, self.tunnels[at].from);
        self.sessions.insert(session, accepted);
        self.challenged.remove(&session);
        self.take_early(session);
        let known = &mut self.peers[peer];
        known.sessions.push_back(session);
        if known.sessions.len() > SESSIONS_EACH {
            known.sessions.pop_front().into_iter().for_each(|old| drop(self.sessions.remove(&old)));
        }
        known.has_been_up = true;
        // What else is wrong with the way to its address is still so.
        known.trouble.take_if(|trouble| trouble.reason == OTHER_VERSION);
        known.hear(now, self.probe_timers.unresponsive_after);
        known.is_notified_full = false;
        known.notified = Notified::default();
        if let Some(Initiator::Up { next_look, .. }) = &mut known.initiator {
            // It may have restarted, and what said so may have been lost.
            *next_look = now;
            known.must_ask = true;
        }
        let before = known.responder.replace(at);
        known.log_session(now, SessionLine::Begun(self.tunnels[at].from));
        if known.rivals.on_begun(now, self.tunnels[at].from) {
            tracing::warn!(
                peer = known.settings.name,
                "the peer's sessions end one another: two gateways use its private key; make another key for one of them \
                 (`bentpipe keygen`), unless it is one whose address changes to and fro"
            );
        }
        self.events.push_back(StreamEvent::PeersChanged);
        if let Some(before) = before.filter(|before| *before != at && self.tunnels.contains(*before)) {
            self.keep_former_responder(now, peer, before);
        }
        self.peers[peer].its_ends.restart();
        // It opens nothing before it has heard something; where another process has taken over, the session is to be with that one.
        self.talk(now);
    }

    /// A peer has proved that it is at `address`.
    pub(super) fn know_address(&mut self, peer: usize, address: IpAddr) {
        let known_addresses = &mut self.peers[peer].known_addresses;
        if known_addresses.contains(&address) {
            return;
        }
        known_addresses.push_back(address);
        let forgotten = if known_addresses.len() > ADDRESSES_EACH { known_addresses.pop_front() } else { None };
        self.count_address(address);
        if let Some(forgotten) = forgotten {
            self.forget_address(forgotten);
        }
    }

    /// Ends the control connection `at`, which a peer has made. Its tunnel requests are taken for some sessions more.
    pub(super) fn end_responder(&mut self, now: Instant, at: usize) {
        let tunnel = self.remove(at);
        if let Role::Responder(responder) = &tunnel.role {
            if !responder.is_proved() {
                // What waits for the proof waits in vain.
                self.take_early(responder.session);
            }
            let peer = &mut self.peers[responder.peer];
            peer.former_responders.retain(|former| former.tunnel != at);
            if peer.responder == Some(at) {
                peer.responder = None;
                peer.log_session(now, SessionLine::Ended);
                self.events.push_back(StreamEvent::PeersChanged);
            }
        }
    }
}

impl super::TcpPeer {
    /// Whether the peer's gateway may be at `address`.
    pub(super) fn accepts_from(&self, address: IpAddr) -> bool {
        let accepted = &self.settings.accept_from;
        self.settings.public_key.is_some()
            && (accepted.is_empty() || accepted.iter().any(|prefix| prefix.contains(&address)))
    }
}
