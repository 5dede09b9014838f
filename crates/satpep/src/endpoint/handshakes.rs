//! Handshakes: inits that go out, their responses, and inits that come in.

use super::Endpoint;
use super::overhead::ip_overhead;
use super::path::Way;
use super::peer::{Handshakes, KeyPair, Peer, Said, Unconfirmed};
use crate::config::EndpointConfig;
use crate::credit::Credit;
use crate::epoch::Run;
use crate::event::{ClockSkew, Event, PeerId};
use crate::handshake::{Agreement, Echo, Notice, Pending, Received, TransportParameters, mac1_of, unproven_versions};
use crate::key_log::LoggedKey;
use crate::packet_number::PacketNumber;
use crate::payload::Payload;
use crate::routing::{self, GENERATION_BIT};
use crate::session::{HandshakeCredits, Session};
use crate::trouble::{Stranger, StrangerFault, Trouble};
use crate::wire::packet::{offered_versions, read_u32, unpadded_length};
use peering::ResetReason;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use units::{Duration, Instant};

/// Handshake datagrams that wait to be sent, at most.
const MAX_OUTBOX: usize = 1024;
/// Peers whose secret is tried on an init of unknown origin.
pub(super) const GUESSES: usize = 16;
/// The shortest interval between reports of one peer's clock to the driver.
const CLOCK_NEWS: Duration = Duration::from_secs(600);

impl<P: Payload> Endpoint<P> {
    /// Why the peer is not up, by what its handshakes showed; `None` while it is up. Causes that cannot be distinguished from here are
    /// said in the words of [`Trouble`]. Ask a few seconds after the start at the earliest.
    pub fn peer_trouble(&self, now: Instant, id: PeerId) -> Option<Trouble> {
        let peer = self.peers.get(id.index())?;
        if self.best_session(id).is_some_and(|session| !session.is_unresponsive()) {
            return None;
        }
        let Handshakes { attempts, first, said } = peer.handshakes;
        let since = first.map_or(Duration::ZERO, |first| now.since(first));
        Some(match said {
            Some(Said::OtherMode) => Trouble::OtherMode { ours: self.identity.mode },
            Some(Said::OtherVersions(theirs, is_proven)) => {
                Trouble::OtherVersions { ours: self.identity.versions, theirs, is_proven }
            }
            _ if peer.address.is_none() => Trouble::NotInitiated,
            Some(Said::Cookie) => Trouble::OnlyCookies { attempts, since },
            None => Trouble::NoAnswer { attempts, since },
        })
    }

    /// The latest initiators that are no peers: at most 16, kept in memory whatever arrives.
    pub fn strangers(&self) -> &[Stranger] {
        self.strangers.list()
    }

    /// A stranger that the operator should hear of: each once, and again every ten minutes while it goes on; not more
    /// than one in ten seconds on average. Ask once a second or so until there is none.
    pub fn poll_stranger(&mut self, now: Instant) -> Option<Stranger> {
        self.strangers.poll(now)
    }

    /// Where the peer is to be found from now on. On the way to another host, its session looks again for what size passes.
    pub(super) fn set_address(&mut self, now: Instant, id: PeerId, address: SocketAddr) {
        let peer = &mut self.peers[id.index()];
        let before = peer.address.replace(address);
        let is_another_host = before.is_none_or(|before| canonical(before).ip() != canonical(address).ip());
        if is_another_host && let Some(session) = &mut peer.session {
            session.on_path(now, &address);
        }
        if let Some(before) = before.filter(|_| is_another_host) {
            self.capacity.on_moved(now, id, canonical(before).ip(), canonical(address).ip());
        }
        if before != Some(address) {
            if let Some(before) = before {
                self.places.remove(&(canonical(before), id));
            }
            self.places.insert((canonical(address), id));
        }
    }

    /// The peer is nowhere any more.
    pub(super) fn forget_address(&mut self, id: PeerId) {
        if let Some(before) = self.peers[id.index()].address.take() {
            self.places.remove(&(canonical(before), id));
        }
    }

    /// The peer calls the address `called` of this host. One that this gateway can call is called from wherever the host chooses,
    /// which may be another place after the uplink has changed.
    pub(super) fn set_called(&mut self, id: PeerId, called: Option<IpAddr>) {
        let only_calls = self.peers[id.own().index()].config.address.is_none();
        self.peers[id.index()].called = called.filter(|_| only_calls);
    }

    /// Answers the handshake datagram that is being taken in.
    fn answer(&mut self, to: SocketAddr, datagram: Vec<u8>) {
        self.put_out(Way { to, from: self.called }, datagram);
    }

    /// Puts a handshake datagram where it will be sent.
    fn put_out(&mut self, way: Way, datagram: Vec<u8>) {
        if self.outbox.len() < MAX_OUTBOX {
            self.outbox.push_back((way, datagram));
        }
    }

    /// The peer uses the keys of the handshake that we answered: so do we from now on.
    pub(super) fn confirm(&mut self, now: Instant, id: PeerId) {
        let unconfirmed = self.peers[id.index()].keys.unconfirmed.take();
        if let Some(Unconfirmed { pair, parameters, answered_to, padded, .. }) = unconfirmed {
            self.set_address(now, id, answered_to.to);
            self.establish(now, id, pair, &parameters);
            self.set_called(id, answered_to.from);
            self.prove_path(now, id, padded);
        }
    }

    /// Puts new keys to use, in the session there is if the peer still has it, else in a new one.
    fn establish(&mut self, now: Instant, id: PeerId, mut pair: KeyPair<P::Key>, parameters: &TransportParameters) {
        self.stats.handshakes += 1;
        let is_shared = self.is_key_shared(id, pair.ours, parameters);
        let continues = !is_shared
            && self.peers[id.index()].session.as_ref().is_some_and(|session| session.peer_epoch == parameters.epoch);
        if is_shared {
            self.events.push_back(if pair.ours { Event::OwnKeyShared(id) } else { Event::PeerKeyShared(id) });
        }
        if !continues {
            if Run::of(parameters.epoch) == Run::Fresh {
                self.end_other(now, id);
            }
            if self.peers[id.index()].session.is_some() {
                self.events.push_back(Event::PeerRestarted(id));
                self.drop_session(id, ResetReason::PeerRestarted);
            }
            self.sessions += 1;
            let even = self.identity.public < self.peers[id.index()].config.public_key;
            let initiates = self.peers[id.own().index()].config.address.is_some();
            let pool = self.pool.clone();
            let mut session = Session::new(&self.config, id, self.sessions, parameters, (even, initiates), pool, now);
            if self.draining {
                session.drain(now);
            }
            self.forget_earlier_handshakes(now, id, parameters.epoch);
            session.credit.begin_at(self.take_advertised(id));
            let peer = &mut self.peers[id.index()];
            if let Some(address) = &peer.address {
                session.on_path(now, address);
            }
            peer.session = Some(session);
            peer.keys.current = None;
        } else {
            // The peer has the session: the next one begins by a later handshake.
            self.take_advertised(id);
        }
        let peer = &mut self.peers[id.index()];
        pair.first_number = peer.session.as_ref().map_or(PacketNumber::ZERO, |session| session.next_number());
        peer.keys.previous = peer.keys.current.replace(pair);
        peer.handshakes = Handshakes::default();
        peer.attempts = 0;
        peer.refuses_padding = false;
        self.refresh(now, id);
    }

    /// A session with the peer's run of `epoch` begins. Unfinished handshakes from before may be with a run that has ended: finished later,
    /// when someone on the path releases what it has held back, they would end the session. One of the same run goes on, and so does one
    /// that was answered a moment ago with a run beside it: after a restart here, both processes of a peer that is being upgraded call.
    fn forget_earlier_handshakes(&mut self, now: Instant, begun: PeerId, epoch: u64) {
        let recent = Peer::<P>::RETRY.max(self.config.rtt * 2);
        for id in [begun, begun.sibling()] {
            let Some(peer) = self.peers.get_mut(id.index()) else { continue };
            let session_epoch = peer.session.as_ref().map(|session| session.peer_epoch);
            let kept = if id == begun { Some(epoch) } else { session_epoch };
            let may_be_beside = id != begun && session_epoch.is_none();
            peer.attempt = None;
            peer.keys.unconfirmed.take_if(|unconfirmed| {
                let theirs = unconfirmed.parameters.epoch;
                let is_beside =
                    may_be_beside && Run::of(theirs) != Run::Fresh && now.since(unconfirmed.answered_at) < recent;
                Some(theirs) != kept && !is_beside
            });
        }
    }

    /// The credits that a session begins with now. While another handshake is under way, the next session may begin by it.
    fn take_advertised(&mut self, id: PeerId) -> HandshakeCredits {
        let is_under_way = |peer: &Peer<P>| peer.attempt.is_some() || peer.keys.unconfirmed.is_some();
        let keeps = self.peers.both(id.own()).any(|(_, peer)| is_under_way(peer));
        let advertised = &mut self.peers[id.own().index()].advertised;
        if keeps { *advertised } else { std::mem::take(advertised) }
    }

    /// Whether a handshake shows that two processes use one key at the same time. If it is ours, the peer has had a session with us, and now has
    /// one with another epoch: ours is lost. If it is the peer's, it still has a session with us, and we have one with another epoch.
    fn is_key_shared(&self, id: PeerId, is_ours: bool, parameters: &TransportParameters) -> bool {
        let peer = &self.peers[id.index()];
        let (Some(theirs), Some(session)) = (parameters.session, &peer.session) else { return false };
        if is_ours {
            theirs != peer.epoch && session.peer_epoch == parameters.epoch && session.has_received()
        } else {
            theirs == peer.epoch && session.peer_epoch != parameters.epoch
        }
    }

    /// A handshake datagram of `length` bytes, if it was padded, has reached the peer.
    fn prove_path(&mut self, now: Instant, id: PeerId, length: Option<usize>) {
        let peer = &mut self.peers[id.index()];
        if let (Some(length), Some(to), Some(session)) = (length, &peer.address, &mut peer.session) {
            session.on_size_arrived(now, (length + ip_overhead(to)).try_into().unwrap_or(u16::MAX));
            self.refresh(now, id);
        }
    }

    pub(super) fn on_init(&mut self, now: Instant, from: SocketAddr, datagram: &[u8]) {
        if !self.identity.has_valid_mac1(datagram) {
            self.stats.dropped.stranger += 1;
            self.strangers.note(now, from, StrangerFault::OtherResponderKey);
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
        let Ok(received) = self.identity.receive(datagram, &mut self.random) else {
            return self.on_unreadable_init(now, from, datagram);
        };
        let Some(&id) = self.by_key.get(&received.initiator) else {
            self.stats.dropped.stranger += 1;
            self.strangers.note(now, from, StrangerFault::UnknownKey(received.initiator));
            return;
        };
        if self.identity.versions.common(received.versions).is_none() {
            self.stats.dropped.version_mismatch += 1;
            self.notify(id, from, &Notice::OtherVersions(self.identity.versions), datagram);
            self.note_said(now, id, from, &received, datagram, Said::OtherVersions(received.versions, true));
            return;
        }
        if received.mode != self.identity.mode {
            self.stats.dropped.mode_mismatch += 1;
            self.notify(id, from, &Notice::OtherMode, datagram);
            self.note_said(now, id, from, &received, datagram, Said::OtherMode);
            return;
        }
        if self.is_fresh(now, id, from, &received, datagram) {
            self.respond(now, id, from, received);
        }
    }

    /// Notes what an init says that cannot be answered. If it may be a replay, its sender is given a nonce instead, beside what it was
    /// notified of.
    fn note_said(
        &mut self,
        now: Instant,
        id: PeerId,
        from: SocketAddr,
        received: &Received,
        datagram: &[u8],
        said: Said,
    ) {
        let unix_time = self.unix_time(now);
        let peer = &mut self.peers[id.index()];
        let timestamp = received.parameters.timestamp;
        let is_proven = peer.challenge.take_if(|challenge| *challenge == received.echo).is_some();
        if timestamp > peer.latest_timestamp || is_proven {
            peer.latest_timestamp = peer.latest_timestamp.max(timestamp);
            peer.handshakes.said = Some(said);
        } else if timestamp < peer.latest_timestamp {
            self.stats.dropped.challenged += 1;
            let echo = *peer.challenge.get_or_insert_with(|| self.random.bytes());
            self.notify(id, from, &Notice::Challenge { echo, unix_time }, datagram);
        }
    }

    /// An init that is none by our format. Where its sender speaks none of our versions, its format may be another one: it is
    /// notified of the versions that we speak.
    fn on_unreadable_init(&mut self, now: Instant, from: SocketAddr, datagram: &[u8]) {
        let theirs = offered_versions(datagram).filter(|theirs| self.identity.versions.common(*theirs).is_none());
        let Some(theirs) = theirs else {
            self.stats.dropped.not_authentic += 1;
            return;
        };
        self.stats.dropped.version_mismatch += 1;
        self.strangers.note(now, from, StrangerFault::OtherVersions(theirs));
        if self.admission.may_reply(now, &from) {
            let (ours, own) = (self.identity.versions, self.identity.public);
            let notice = unproven_versions(datagram, &own, ours, &mut self.random);
            self.answer(from, notice);
        }
    }

    /// Whether an init of the peer's is no replay: it is newer than all before, or repeats the nonce that we gave. If it may
    /// be one, its sender is given a nonce.
    fn is_fresh(&mut self, now: Instant, id: PeerId, from: SocketAddr, received: &Received, datagram: &[u8]) -> bool {
        let unix_time = self.unix_time(now);
        let peer = &mut self.peers[id.index()];
        if peer.latest_init == mac1_of(datagram) {
            self.stats.dropped.replayed += 1;
            return false;
        }
        let timestamp = received.parameters.timestamp;
        let behind = peer.latest_timestamp.checked_sub(timestamp);
        if let Some(behind) = behind {
            if peer.challenge.take_if(|challenge| *challenge == received.echo).is_none() {
                self.stats.dropped.challenged += 1;
                let echo = *peer.challenge.get_or_insert_with(|| self.random.bytes());
                self.notify(id, from, &Notice::Challenge { echo, unix_time }, datagram);
                return false;
            }
            if peer.clock_news_at <= now {
                peer.clock_news_at = now + CLOCK_NEWS;
                let skew = ClockSkew::between(unix_time, timestamp);
                self.events.push_back(Event::PeerClockSetBack(id, skew, Duration::from_nanos(behind)));
            }
        }
        let peer = &mut self.peers[id.index()];
        peer.latest_timestamp = peer.latest_timestamp.max(timestamp);
        peer.latest_init.copy_from_slice(mac1_of(datagram));
        true
    }

    /// Answers an init. A padded one is answered by a padded response, which proves to both sides what
    /// the path carries.
    fn respond(&mut self, now: Instant, id: PeerId, from: SocketAddr, received: Received) {
        let id = self.entry(now, id, Run::of(received.parameters.epoch).generation());
        let local_index = self.new_index(id);
        let ours = self.parameters(now, id);
        let takes_streams = ours.max_streams > 0;
        self.peers[id.own().index()].clock =
            Some(ClockSkew::between(self.unix_time(now), received.parameters.timestamp));
        let padded = received.padded.and_then(|length| Some(length.min(padded_length(&self.config, &from)?)));
        let answer = self.identity.respond(received, &ours, (local_index, padded));
        if let Some((response, agreement)) = answer {
            self.log_keys(&agreement, local_index);
            let (pair, parameters) = KeyPair::new(agreement, local_index, false, now);
            let padded = padded.filter(|_| unpadded_length(&response) < Some(response.len()));
            let answered_to = Way { to: from, from: self.called };
            let unconfirmed = Unconfirmed { pair, parameters, answered_to, padded, answered_at: now, takes_streams };
            self.peers[id.index()].keys.unconfirmed = Some(unconfirmed);
            self.answer(from, response);
        }
    }

    fn notify(&mut self, id: PeerId, to: SocketAddr, notice: &Notice, init: &[u8]) {
        if let Some(acquaintance) = &self.peers[id.index()].acquaintance {
            let datagram = acquaintance.notice(notice, init, &mut self.random);
            self.answer(to, datagram);
        }
    }

    /// Whether an init is worth a Diffie-Hellman now. While busy, only one with a proof of its sender is; others are sent a
    /// cookie.
    fn admit(&mut self, now: Instant, from: &SocketAddr, init: &[u8]) -> bool {
        if self.admission.admits_all(now) || self.is_acquaintance(now, from, init) {
            return true;
        }
        if self.cookies.has_valid_mac2(init, from) {
            return self.admission.admits_cookie_of(from);
        }
        if self.admission.may_reply(now, from) {
            self.stats.cookies_sent += 1;
            let reply = self.cookies.reply(init, from, &self.identity.public, &mut self.random);
            self.answer(*from, reply);
        }
        false
    }

    /// Whether an init is a peer's by the secret that it shares with us, newer than all before, and not one of many.
    fn is_acquaintance(&mut self, now: Instant, from: &SocketAddr, init: &[u8]) -> bool {
        let from = canonical(*from);
        let at = |port, id| (SocketAddr::new(from.ip(), port), PeerId(id));
        let there = self.places.range(at(from.port(), 0)..=at(from.port(), u32::MAX));
        let host = self.places.range(at(0, 0)..=at(u16::MAX, u32::MAX));
        let others = (0..self.peers.len()).map(|index| PeerId(index as u32));
        let vouched = there.chain(host).map(|(_, id)| id.own()).chain(others).take(GUESSES).find_map(|id| {
            let peer = &self.peers[id.index()];
            let acquaintance = peer.acquaintance.as_ref().filter(|_| peer.leaves_at.is_none())?;
            Some((id, acquaintance.vouches(init)?))
        });
        vouched.is_some_and(|(id, timestamp)| {
            let peer = &mut self.peers[id.index()];
            timestamp > peer.latest_timestamp && peer.may_be_answered(now)
        })
    }

    pub(super) fn on_response(&mut self, now: Instant, datagram: &[u8]) {
        if !self.identity.has_valid_mac1(datagram) {
            self.stats.dropped.stranger += 1;
            return;
        }
        let Some((id, (mut pending, to))) = self.take_attempt(read_u32(datagram, 8)) else {
            self.stats.dropped.unknown_session += 1;
            return;
        };
        match self.identity.complete(&mut pending, datagram) {
            Ok(agreement) => {
                self.log_keys(&agreement, pending.local_index);
                let (pair, parameters) = KeyPair::new(agreement, pending.local_index, true, now);
                let own = id;
                let Some(id) = self.answered_by(now, own, &parameters) else {
                    return self.refresh(now, own);
                };
                // The answer may come from anywhere; what it answers arrived at `to`.
                self.set_address(now, id, to);
                let unix_time = self.unix_time(now);
                self.peers[id.own().index()].clock = Some(ClockSkew::between(unix_time, parameters.timestamp));
                let peer = &mut self.peers[own.index()];
                peer.echo = Echo::default();
                if let Some(cookie) = pending.cookie {
                    peer.cookies.on_success(cookie);
                }
                self.set_called(id, self.called);
                self.establish(now, id, pair, &parameters);
                // A padded response answers an init that arrived padded.
                let arrived = pending.padded.filter(|_| unpadded_length(datagram) < Some(datagram.len()));
                self.prove_path(now, id, arrived);
                // The peer switches to the new keys with the first packet that uses them.
                if let Some(session) = &mut self.peers[id.index()].session {
                    session.on_heard(now);
                    session.ping();
                }
                self.refresh(now, id);
            }
            Err(_) => {
                self.peers[id.index()].attempt = Some((pending, to));
                self.stats.dropped.not_authentic += 1;
            }
        }
    }

    /// A cookie may be anyone's: the answer to the init still counts, and the next one leaves no earlier.
    pub(super) fn on_cookie(&mut self, now: Instant, datagram: &[u8]) {
        let random = self.random.u32();
        let Some((_, peer)) = self.find_attempt(read_u32(datagram, 4)) else {
            self.stats.dropped.unknown_session += 1;
            return;
        };
        let pending = peer.attempt.as_ref().map(|(pending, _)| pending);
        match pending.and_then(|pending| pending.read_cookie(&peer.config.public_key, datagram)) {
            Some(cookie) => {
                peer.cookies.on_reply(now, cookie, random);
                peer.handshakes.said = peer.handshakes.said.or(Some(Said::Cookie));
            }
            None => self.stats.dropped.not_authentic += 1,
        }
    }

    pub(super) fn on_notice(&mut self, now: Instant, datagram: &[u8]) {
        let unix_now = self.unix_time(now);
        let Some((id, peer)) = self.find_attempt(read_u32(datagram, 4)) else {
            self.stats.dropped.unknown_session += 1;
            return;
        };
        let (attempt, acquaintance) = (peer.attempt.as_ref(), peer.acquaintance.as_ref());
        let read = attempt.zip(acquaintance).and_then(|((pending, _), acquaintance)| {
            pending.read_notice(&peer.config.public_key, acquaintance, datagram)
        });
        match read {
            Some(Notice::Challenge { echo, unix_time }) => {
                peer.echo = echo;
                let skew = ClockSkew::between(unix_now, unix_time);
                peer.clock = Some(skew);
                // At once, but once only for each init that the timer sent.
                if !peer.prompted && !std::mem::replace(&mut peer.prompt, true) {
                    peer.attempt_at = now;
                }
                if peer.own_clock_news_at <= now {
                    peer.own_clock_news_at = now + CLOCK_NEWS;
                    self.events.push_back(Event::OwnClockSetBack(id, skew));
                }
                self.refresh(now, id);
            }
            Some(Notice::OtherMode) => peer.handshakes.said = Some(Said::OtherMode),
            Some(Notice::OtherVersions(theirs)) => peer.handshakes.said = Some(Said::OtherVersions(theirs, true)),
            // Anyone can have said so: nothing to go by but for words, where there are no better ones.
            Some(Notice::UnprovenVersions(theirs)) => {
                let is_better = matches!(peer.handshakes.said, Some(Said::OtherVersions(_, true) | Said::OtherMode));
                if !is_better {
                    peer.handshakes.said = Some(Said::OtherVersions(theirs, false));
                }
            }
            None => self.stats.dropped.not_authentic += 1,
        }
    }

    /// Keeps the keys of a finished handshake for the driver, if it wants them.
    fn log_keys(&mut self, agreement: &Agreement<P::Key>, local_index: u32) {
        if self.config.export_keys && self.logged_keys.len() < MAX_OUTBOX {
            self.logged_keys.extend(LoggedKey::pair(&agreement.secrets, local_index, agreement.peer_index));
        }
    }

    /// The peer whose handshake of ours `local_index` names.
    fn find_attempt(&mut self, local_index: Option<u32>) -> Option<(PeerId, &mut super::peer::Peer<P>)> {
        let id = PeerId(local_index? & 0xffff);
        let peer = self.peers.get_mut(id.index())?;
        let in_flight = peer.attempt.as_ref().map(|(pending, _)| pending.local_index);
        (in_flight == local_index).then_some((id, peer))
    }

    /// The handshake of ours that `local_index` names.
    fn take_attempt(&mut self, local_index: Option<u32>) -> Option<(PeerId, (Pending, SocketAddr))> {
        let (id, peer) = self.find_attempt(local_index)?;
        Some((id, peer.attempt.take()?))
    }

    /// An index that names the peer in its lower half, is hard to guess in its upper, and names no keys or handshake that there are.
    pub(super) fn new_index(&mut self, id: PeerId) -> u32 {
        let generation = if self.config.run.generation() == 1 { GENERATION_BIT } else { 0 };
        loop {
            let index = self.random.u32() << 17 | generation | id.0;
            if self.entry_of(index).is_none() && self.find_attempt(Some(index)).is_none() {
                return index;
            }
        }
    }

    fn parameters(&mut self, now: Instant, id: PeerId) -> TransportParameters {
        let credit = Credit::new(self.receive_memory.reserve());
        let stream_credit = Credit::new(self.config.stream_credit()).min(credit.half());
        // An init may be answered by a process of either generation.
        self.peers[id.own().index()].advertised.add(credit, stream_credit);
        TransportParameters {
            epoch: self.peers[id.index()].epoch,
            timestamp: self.unix_time(now),
            session_credit: credit,
            stream_credit,
            // A session that begins while this gateway drains must not have streams on their way when the gateway ends.
            max_streams: if self.draining { 0 } else { self.config.max_streams },
            capabilities: self.config.capabilities,
            session: self.peers[id.index()].session.as_ref().map(|session| session.peer_epoch),
        }
    }

    pub(super) fn begin_handshake(&mut self, now: Instant, id: PeerId) {
        self.peers[id.index()].on_attempt(now, self.config.rtt);
        if self.closing || !self.may_initiate(id) {
            return;
        }
        let (local_index, random) = (self.new_index(id), self.random.u32());
        let parameters = self.parameters(now, id);
        let peer = &mut self.peers[id.index()];
        let cookie = peer.cookies.next(now, peer.attempts, random);
        // A peer that became unresponsive may be found where it was last heard, or where it is configured to be.
        let to = if peer.attempts.is_multiple_of(2) { peer.config.address.or(peer.address) } else { peer.address };
        let (Some(to), Some(acquaintance)) = (to, &peer.acquaintance) else { return };
        let whom = (&peer.config.public_key, &**acquaintance);
        let padded = peer.wants_padding().then(|| padded_length(&self.config, &to)).flatten();
        let wanted = peer.session.as_ref().map_or(0, |_| routing::wanted(id.generation()));
        let init = self.identity.initiate(
            whom,
            &parameters,
            (local_index, padded, wanted),
            (cookie, peer.echo),
            &mut self.random,
        );
        if let Some((datagram, pending)) = init {
            peer.handshakes.attempts = peer.handshakes.attempts.saturating_add(1);
            peer.handshakes.first.get_or_insert(now);
            peer.attempt = Some((pending, to));
            let way = Way { to, from: peer.called };
            self.put_out(way, datagram);
        }
    }
}

/// The length of a handshake datagram to `to` that fills the largest packet; `None` on a thin link, which a large one would
/// hold up.
fn padded_length(config: &EndpointConfig, to: &SocketAddr) -> Option<usize> {
    (!config.is_thin()).then(|| usize::from(config.mtu).saturating_sub(ip_overhead(to)))
}

/// An address without what one host may write in several ways.
pub(super) fn canonical(address: SocketAddr) -> SocketAddr {
    let scope = match address {
        SocketAddr::V6(v6) => v6.scope_id(),
        SocketAddr::V4(_) => 0,
    };
    match address.ip().to_canonical() {
        IpAddr::V4(v4) => (v4, address.port()).into(),
        IpAddr::V6(v6) => SocketAddrV6::new(v6, address.port(), 0, scope).into(),
    }
}
