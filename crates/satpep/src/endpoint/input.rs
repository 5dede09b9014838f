//! Datagrams that arrived, and what time asks of a peer.

use super::Endpoint;
use super::peer::{KeyPair, Unconfirmed};
use crate::event::{Event, PeerId, ResetReason, Violation};
use crate::handshake::{Hello, INIT_LENGTH, Pending, RESPONSE_LENGTH, Refusal};
use crate::payload::{Elided, Payload, Stored};
use crate::seal::Sealing;
use crate::session::{News, Session};
use crate::wire::frame::PathFrame;
use crate::wire::packet::{
    COOKIE, COOKIE_REPLY, DATA, DATA_OVERHEAD, DataHeader, INIT, RESPONSE, expand_number, read_u32,
};
use std::net::SocketAddr;
use units::{Duration, Instant};

/// How long a cookie is worth something, at least.
pub(super) const COOKIE_LIFE: Duration = Duration::from_secs(120);
/// Handshakes in a second above which a cookie is asked for.
const BUSY: u32 = 20;
/// Handshakes in a second above which none is answered even with a cookie, and cookies sent in a second.
const FLOODED: u32 = 200;
/// Answers to challenges that wait to be sent, at most.
const MAX_PATH_OUTBOX: usize = 64;
/// A datagram with nothing but a challenge, or an answer to one.
const PATH_DATAGRAM: usize = DATA_OVERHEAD + PathFrame::LENGTH;

impl Endpoint<Stored> {
    /// Takes in one UDP payload, which is decrypted in place. Whatever does not authenticate is counted and dropped,
    /// with no state kept and no answer given.
    pub fn handle_datagram(&mut self, now: Instant, from: SocketAddr, datagram: &mut [u8]) {
        self.on_datagram(now, from, datagram, 0);
    }
}

impl Endpoint<Elided> {
    /// Takes in a datagram of `size` bytes whose head is `head`.
    pub fn handle_elided(&mut self, now: Instant, from: SocketAddr, head: &mut [u8], size: usize) {
        self.on_datagram(now, from, head, size.saturating_sub(head.len()));
    }
}

impl<P: Payload> Endpoint<P> {
    /// Takes in a datagram that `elided` bytes were left out of.
    fn on_datagram(&mut self, now: Instant, from: SocketAddr, datagram: &mut [u8], elided: usize) {
        match (datagram.first(), datagram.len()) {
            (Some(&DATA), _) => self.on_data(now, from, datagram, elided),
            (Some(&INIT), INIT_LENGTH) => self.on_init(now, from, datagram),
            (Some(&RESPONSE), RESPONSE_LENGTH) => self.on_response(now, datagram),
            (Some(&COOKIE), COOKIE_REPLY) => self.on_cookie(now, datagram),
            _ => self.stats.dropped.malformed += 1,
        }
    }

    fn on_data(&mut self, now: Instant, from: SocketAddr, datagram: &mut [u8], elided: usize) {
        let size = datagram.len() + elided;
        let Some(header) = DataHeader::read(datagram, size) else {
            self.stats.dropped.malformed += 1;
            return;
        };
        let id = PeerId(header.receiver & 0xffff);
        let Some(peer) = self.peers.get_mut(id.index()) else {
            self.stats.dropped.unknown_session += 1;
            return;
        };
        let Some(pair) = peer.key_pair(header.receiver) else {
            self.stats.dropped.unknown_session += 1;
            return;
        };
        let fresh_session = match &peer.keys.unconfirmed {
            Some(unconfirmed) if unconfirmed.pair.local_index == header.receiver => {
                peer.session.as_ref().is_none_or(|session| session.peer_epoch != unconfirmed.hello.epoch)
            }
            _ => false,
        };
        let expected = match &peer.session {
            Some(session) if !fresh_session => session.received.expected(),
            _ => 0,
        };
        let number = expand_number(header.number_low, expected);
        if !fresh_session && peer.session.as_ref().is_none_or(|session| !session.received.is_new(number)) {
            self.stats.dropped.replayed += 1;
            return;
        }
        let Ok(frames) = pair.receive.open(number, datagram) else {
            self.stats.dropped.not_authentic += 1;
            return;
        };
        self.stats.received_packets += 1;
        self.stats.received_ip_bytes += (size + super::output::ip_overhead(&from)) as u64;
        if peer.is_unconfirmed(header.receiver) {
            self.confirm(now, id);
        }
        let elided = (size - DATA_OVERHEAD).saturating_sub(frames.len());
        let newest = self.peers[id.index()].session.as_ref().is_some_and(|s| number >= s.received.expected());
        self.on_authentic(now, id, number, frames, elided);
        // The newest datagram tells where the peer may be now; an older one may have been held back by someone.
        if newest {
            self.on_newest_from(now, id, from, size);
        }
        self.on_path_news(now, id, from);
        self.learn(now, id);
        self.refresh(now, id);
    }

    fn on_authentic(&mut self, now: Instant, id: PeerId, number: u64, frames: &[u8], elided: usize) {
        let peer = &mut self.peers[id.index()];
        let Some(session) = &mut peer.session else { return };
        session.on_heard(now);
        match session.on_frames(now, number, frames, elided) {
            Ok(()) if session.closed => {
                if !self.closing {
                    self.answer_close(now, id);
                }
                self.give_up(now, id, ResetReason::Shutdown);
            }
            Ok(()) => {}
            Err(violation) => self.on_violation(now, id, violation),
        }
    }

    /// The peer broke the protocol.
    pub(super) fn on_violation(&mut self, now: Instant, id: PeerId, violation: Violation) {
        self.stats.violations += 1;
        self.events.push_back(Event::PeerBroke(id, violation));
        self.give_up(now, id, ResetReason::Protocol);
    }

    /// Learns of the link's capacity what a peer tells of arrivals.
    fn learn(&mut self, now: Instant, id: PeerId) {
        while let Some(news) = self.peers[id.index()].session.as_mut().and_then(Session::poll_news) {
            match news {
                News::Arrival(number, arrived) => {
                    self.capacity.on_arrival(id, number, arrived);
                    self.set_pace(now);
                }
                News::Feedback(feedback) => {
                    let hold = self.capacity.on_feedback(now, &feedback);
                    self.set_pace(now);
                    if let Some(until) = hold {
                        self.pacer.hold(until);
                    }
                }
            }
        }
    }

    /// The peer's newest datagram, of `size` bytes, came from `from`.
    fn on_newest_from(&mut self, now: Instant, id: PeerId, from: SocketAddr, size: usize) {
        let peer = &mut self.peers[id.index()];
        if peer.session.is_none() {
            return;
        }
        if peer.address == Some(from) {
            peer.candidates.clear();
        } else {
            peer.candidates.on_newest(now, from, size, || u64::from_be_bytes(self.random.bytes()));
            self.challenge(now, id);
        }
    }

    /// Sends the challenges that are due.
    fn challenge(&mut self, now: Instant, id: PeerId) {
        let peer = &mut self.peers[id.index()];
        let Some(session) = &peer.session else { return };
        let timeout = session.answer_timeout();
        while let Some((to, token)) = peer.candidates.poll(now, PATH_DATAGRAM, timeout) {
            self.path_outbox.push_back((id, to, PathFrame::Challenge(token)));
        }
    }

    /// Does what the peer's latest frame about a path asks for, which came from `from`.
    fn on_path_news(&mut self, now: Instant, id: PeerId, from: SocketAddr) {
        let peer = &mut self.peers[id.index()];
        let Some(session) = &mut peer.session else { return };
        match session.take_path_news() {
            Some(PathFrame::Challenge(token))
                if self.path_outbox.len() < MAX_PATH_OUTBOX && peer.candidates.may_answer(from, PATH_DATAGRAM) =>
            {
                self.path_outbox.push_back((id, from, PathFrame::Response(token)));
            }
            Some(PathFrame::Response(token)) => {
                if let Some(address) = peer.candidates.on_response(token) {
                    let before = peer.address.replace(address);
                    session.on_moved(now, before.is_none_or(|before| before.ip() != address.ip()));
                }
            }
            _ => {}
        }
    }

    /// The peer uses the keys of the handshake that we answered: so do we from now on.
    fn confirm(&mut self, now: Instant, id: PeerId) {
        if let Some(Unconfirmed { pair, hello, answered_to }) = self.peers[id.index()].keys.unconfirmed.take() {
            self.peers[id.index()].address = Some(answered_to);
            self.establish(now, id, pair, &hello);
        }
    }

    /// Puts new keys to use, in the session there is if the peer still has it, else in a new one.
    fn establish(&mut self, now: Instant, id: PeerId, mut pair: KeyPair<P::Key>, hello: &Hello) {
        self.stats.handshakes += 1;
        let continues =
            self.peers[id.index()].session.as_ref().is_some_and(|session| session.peer_epoch == hello.epoch);
        if !continues {
            if self.peers[id.index()].session.is_some() {
                self.events.push_back(Event::PeerRestarted(id));
                self.drop_session(id, ResetReason::PeerRestarted);
            }
            self.sessions += 1;
            let even = self.identity.public < self.peers[id.index()].config.public_key;
            let calls = self.peers[id.index()].config.address.is_some();
            let mut session = Session::new(&self.config, id, self.sessions, hello, (even, calls), now);
            if self.draining {
                session.drain();
            }
            let peer = &mut self.peers[id.index()];
            peer.session = Some(session);
            peer.keys.current = None;
            self.events.push_back(Event::PeerUp(id));
        }
        let peer = &mut self.peers[id.index()];
        pair.first_number = peer.session.as_ref().map_or(0, |session| session.ledger.next_number());
        peer.keys.previous = peer.keys.current.replace(pair);
        peer.attempts = 0;
        self.refresh(now, id);
    }

    /// Ends a session for good: both sides begin anew with the next handshake.
    fn give_up(&mut self, now: Instant, id: PeerId, reason: ResetReason) {
        let was_silent = self.peers[id.index()].session.as_ref().is_some_and(Session::<P>::is_silent);
        self.drop_session(id, reason);
        if !was_silent {
            self.events.push_back(Event::PeerSilent(id));
        }
        let peer = &mut self.peers[id.index()];
        peer.epoch += 1;
        peer.keys = super::peer::Keys::default();
        peer.attempt_at = now;
    }

    fn drop_session(&mut self, id: PeerId, reason: ResetReason) {
        self.peers[id.index()].candidates.clear();
        if let Some(mut session) = self.peers[id.index()].session.take() {
            self.events.extend(session.abandon(reason));
        }
    }

    fn on_init(&mut self, now: Instant, from: SocketAddr, datagram: &[u8]) {
        if !self.identity.has_valid_mac1(datagram, INIT_LENGTH) {
            self.stats.dropped.stranger += 1;
            return;
        }
        if self.closing {
            self.stats.dropped.unknown_session += 1;
            return;
        }
        if !self.admit(now, &from, datagram) {
            self.stats.dropped.flood += 1;
            return;
        }
        let received = match self.identity.receive(datagram, &mut self.random) {
            Ok(received) => received,
            Err(refusal) => return self.count_refusal(refusal),
        };
        let Some(&id) = self.by_key.get(&received.initiator) else {
            self.stats.dropped.stranger += 1;
            return;
        };
        if received.hello.timestamp <= self.peers[id.index()].last_timestamp {
            self.stats.dropped.replayed += 1;
            return;
        }
        self.peers[id.index()].last_timestamp = received.hello.timestamp;
        let local_index = self.new_index(id);
        let hello = self.hello(now, id);
        if let Some((response, agreement)) = self.identity.respond(received, &hello, local_index) {
            let (pair, hello) = KeyPair::new(agreement, local_index, false, now);
            self.peers[id.index()].keys.unconfirmed = Some(Unconfirmed { pair, hello, answered_to: from });
            self.outbox.push_back((from, response));
        }
    }

    /// Whether an init is worth a Diffie-Hellman now. While busy, only one with a cookie is, which others are sent; nor
    /// do those without use up what is left for those with one.
    fn admit(&mut self, now: Instant, from: &SocketAddr, init: &[u8]) -> bool {
        let load = self.handshake_load.now(now);
        if load.handshakes < BUSY || self.cookies.has_valid_mac2(init, from) {
            load.handshakes += 1;
            return load.handshakes <= FLOODED;
        }
        if load.cookies < FLOODED {
            load.cookies += 1;
            self.stats.cookies_sent += 1;
            let reply = self.cookies.reply(init, from, &self.identity.public, &mut self.random);
            self.outbox.push_back((*from, reply));
        }
        false
    }

    fn on_response(&mut self, now: Instant, datagram: &[u8]) {
        if !self.identity.has_valid_mac1(datagram, RESPONSE_LENGTH) {
            self.stats.dropped.stranger += 1;
            return;
        }
        let Some((id, (mut pending, to))) = self.take_attempt(read_u32(datagram, 8)) else {
            self.stats.dropped.unknown_session += 1;
            return;
        };
        match self.identity.complete(&mut pending, datagram) {
            Ok(agreement) => {
                let (pair, hello) = KeyPair::new(agreement, pending.local_index, true, now);
                // The answer may come from anywhere; what it answers arrived at `to`.
                self.peers[id.index()].address = Some(to);
                self.establish(now, id, pair, &hello);
                // The peer switches to the new keys with the first datagram that uses them.
                if let Some(session) = &mut self.peers[id.index()].session {
                    session.on_heard(now);
                    session.ping();
                }
                self.refresh(now, id);
            }
            Err(refusal) => {
                self.peers[id.index()].attempt = Some((pending, to));
                self.count_refusal(refusal);
            }
        }
    }

    fn on_cookie(&mut self, now: Instant, datagram: &[u8]) {
        let Some((id, (pending, to))) = self.take_attempt(read_u32(datagram, 4)) else {
            self.stats.dropped.unknown_session += 1;
            return;
        };
        let peer = &mut self.peers[id.index()];
        match pending.read_cookie(&peer.config.public_key, datagram) {
            Some(cookie) => {
                peer.cookie = Some((cookie, now));
                peer.attempt_at = now;
                self.refresh(now, id);
            }
            None => {
                peer.attempt = Some((pending, to));
                self.stats.dropped.not_authentic += 1;
            }
        }
    }

    /// The handshake of ours that `local_index` names.
    fn take_attempt(&mut self, local_index: Option<u32>) -> Option<(PeerId, (Pending, SocketAddr))> {
        let local_index = local_index?;
        let id = PeerId(local_index & 0xffff);
        let attempt = &mut self.peers.get_mut(id.index())?.attempt;
        attempt.take_if(|(pending, _)| pending.local_index == local_index).map(|attempt| (id, attempt))
    }

    fn count_refusal(&mut self, refusal: Refusal) {
        match refusal {
            Refusal::ModeMismatch => self.stats.dropped.mode_mismatch += 1,
            Refusal::NotAuthentic => self.stats.dropped.not_authentic += 1,
        }
    }

    /// An index that names the peer in its lower half and is hard to guess in its upper.
    fn new_index(&mut self, id: PeerId) -> u32 {
        self.random.u32() << 16 | id.0
    }

    fn hello(&self, now: Instant, id: PeerId) -> Hello {
        Hello {
            epoch: self.peers[id.index()].epoch,
            timestamp: self.unix_time(now),
            cipher: self.config.cipher,
            session_credit: self.config.receive_pool(),
            stream_credit: self.config.stream_credit(),
            max_streams: self.config.max_streams,
        }
    }

    pub(super) fn on_peer_timeout(&mut self, now: Instant, id: PeerId) {
        if self.serve_leaving(now, id) {
            return;
        }
        let limit = self.config.outage_limit;
        let peer = &mut self.peers[id.index()];
        if let Some(session) = &mut peer.session {
            session.on_timeout(now);
            if session.is_lost(now, limit) {
                self.give_up(now, id, ResetReason::Outage);
            }
        }
        self.challenge(now, id);
        if self.peers[id.index()].handshake_at() <= now {
            self.begin_handshake(now, id);
        }
    }

    fn begin_handshake(&mut self, now: Instant, id: PeerId) {
        self.peers[id.index()].on_attempt(now, self.config.rtt);
        if self.closing {
            return;
        }
        let local_index = self.new_index(id);
        let hello = self.hello(now, id);
        let peer = &mut self.peers[id.index()];
        let cookie = peer.cookie.filter(|(_, at)| now.since(*at) < COOKIE_LIFE).map(|(cookie, _)| cookie);
        // A peer that fell silent may be found where it was last heard, or where it is configured to be.
        let to = if peer.attempts.is_multiple_of(2) { peer.config.address.or(peer.address) } else { peer.address };
        let key = peer.config.public_key;
        let init = self.identity.initiate(&key, &hello, local_index, cookie.as_ref(), &mut self.random);
        if let (Some((datagram, pending)), Some(to)) = (init, to) {
            self.peers[id.index()].attempt = Some((pending, to));
            self.outbox.push_back((to, datagram));
        }
    }
}
