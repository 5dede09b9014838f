//! Datagrams that arrived, and what time asks of a peer.

use super::Endpoint;
use super::overhead::ip_overhead;
use super::path::Way;
use crate::capacity::{AcceptedPacket, Holds, Mark};
use crate::event::{Event, PeerId, Violation};
use crate::packet_number::PacketNumber;
use crate::payload::{Elided, Payload, Stored};
use crate::seal::Sealing;
use crate::session::{News, Session};
use crate::wire::frame::PathFrame;
use crate::wire::packet::{
    COOKIE, COOKIE_REPLY, DATA, DATA_OVERHEAD, DataHeader, INIT, KNOCK, MIN_INIT, MIN_RESPONSE, NOTICE, NOTICE_LENGTH,
    RESPONSE, expand_number,
};
use peering::ResetReason;
use std::net::{IpAddr, SocketAddr};
use units::Instant;

/// How a datagram arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// When the host received it, if it can tell, else when it was read; by the clock of all other times.
    pub at: Instant,
    /// Whether it carried a congestion mark.
    pub mark: Mark,
    /// The address of this host that it was sent to, where the host has several and tells: answers leave from there, since firewalls
    /// and NATs on the way expect them from nowhere else.
    pub to: Option<IpAddr>,
}

impl Arrival {
    /// Of a datagram of which nothing else is known.
    pub fn at(at: Instant) -> Self {
        Self { at, mark: Mark::NotCe, to: None }
    }
}

/// Answers to challenges that wait to be sent, at most.
const MAX_PATH_OUTBOX: usize = 64;
/// A datagram with nothing but a challenge, or an answer to one.
const PATH_DATAGRAM: usize = DATA_OVERHEAD + PathFrame::LENGTH;

impl Endpoint<Stored> {
    /// Takes in one UDP payload, which is decrypted in place. Whatever does not authenticate is counted and dropped,
    /// with no state kept and no answer given.
    pub fn handle_datagram(&mut self, now: Instant, from: SocketAddr, datagram: &mut [u8]) {
        self.handle_datagram_with(now, from, datagram, &Arrival::at(now));
    }

    /// The same for a datagram of which more is known than that it waits to be read.
    pub fn handle_datagram_with(&mut self, now: Instant, from: SocketAddr, datagram: &mut [u8], arrival: &Arrival) {
        self.on_datagram(now, from, datagram, 0, arrival);
    }
}

impl Endpoint<Elided> {
    /// Takes in a datagram of `size` bytes whose head is `head`.
    pub fn handle_elided(&mut self, now: Instant, from: SocketAddr, head: &mut [u8], size: usize) {
        let elided = size.saturating_sub(head.len());
        self.on_datagram(now, from, head, elided, &Arrival::at(now));
    }
}

impl<P: Payload> Endpoint<P> {
    /// Takes in a datagram that `elided` bytes were left out of.
    fn on_datagram(&mut self, now: Instant, from: SocketAddr, datagram: &mut [u8], elided: usize, arrival: &Arrival) {
        self.called = arrival.to;
        match (datagram.first(), datagram.len()) {
            (Some(&DATA), _) => self.on_data(now, from, datagram, elided, arrival),
            (Some(&INIT), MIN_INIT..) => self.on_init(now, from, datagram),
            (Some(&RESPONSE), MIN_RESPONSE..) => self.on_response(now, datagram),
            (Some(&COOKIE), COOKIE_REPLY) => self.on_cookie(now, datagram),
            (Some(&NOTICE), NOTICE_LENGTH) => self.on_notice(now, datagram),
            _ if *datagram == KNOCK => self.stats.dropped.knock += 1,
            _ => self.stats.dropped.malformed += 1,
        }
        self.called = None;
    }

    fn on_data(&mut self, now: Instant, from: SocketAddr, datagram: &mut [u8], elided: usize, arrival: &Arrival) {
        let size = datagram.len() + elided;
        let Some(header) = DataHeader::read(datagram, size) else {
            self.stats.dropped.malformed += 1;
            return;
        };
        let found = self.entry_of(header.receiver).and_then(|id| Some((id, self.peers.get(id.index())?)));
        let Some((id, peer)) = found else {
            self.stats.dropped.unknown_session += 1;
            return;
        };
        let Some(pair) = peer.key_pair(header.receiver) else {
            self.stats.dropped.unknown_session += 1;
            return;
        };
        let fresh_session = match &peer.keys.unconfirmed {
            Some(unconfirmed) if unconfirmed.pair.local_index == header.receiver => {
                peer.session.as_ref().is_none_or(|session| session.peer_epoch != unconfirmed.parameters.epoch)
            }
            _ => false,
        };
        let expected = match &peer.session {
            Some(session) if !fresh_session => session.received.expected(),
            _ => PacketNumber::ZERO,
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
        self.on_open(now, id, (header.receiver, number), (frames, size), (from, arrival));
        self.name_key(id, header.receiver);
    }

    /// A packet of `size` bytes is open, the datagram for `receiver` with this `number`, which is new: takes its frames in.
    pub(super) fn on_open(
        &mut self,
        now: Instant,
        id: PeerId,
        (receiver, number): (u32, PacketNumber),
        (frames, size): (&[u8], usize),
        (from, arrival): (SocketAddr, &Arrival),
    ) {
        let peer = &self.peers[id.index()];
        let ip_size = size + ip_overhead(&from);
        self.stats.received_packets += 1;
        self.stats.received_ip_bytes += ip_size as u64;
        if peer.is_unconfirmed(receiver) {
            self.confirm(now, id);
        }
        let elided = (size - DATA_OVERHEAD).saturating_sub(frames.len());
        let newest = self.peers[id.index()].session.as_ref().is_some_and(|s| number >= s.received.expected());
        let packet = AcceptedPacket { number, arrived: arrival.at, ip_size, mark: arrival.mark };
        self.on_authentic(now, id, &packet, frames, elided);
        // The newest datagram tells where the peer may be now; an older one may have been held back by someone.
        if newest {
            self.on_newest_from(now, id, from, size);
        }
        self.on_path_news(now, id, from);
        self.on_congestion(now, id);
        self.learn(now, id);
        self.touch(now, id);
    }

    fn on_authentic(&mut self, now: Instant, id: PeerId, packet: &AcceptedPacket, frames: &[u8], elided: usize) {
        self.lend_memory(id);
        let peer = &mut self.peers[id.index()];
        let Some(session) = &mut peer.session else { return };
        session.on_heard(now);
        match session.on_frames(now, packet, frames, elided) {
            Ok(()) if session.is_closed() => {
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

    /// Slows down what is sent to a peer that reports new congestion marks.
    fn on_congestion(&mut self, now: Instant, id: PeerId) {
        let peer = &mut self.peers[id.index()];
        if let Some(session) = peer.session.as_mut()
            && session.congestion.take_news()
        {
            peer.brake.on_marked(now, session.rtt(), self.pacer.rate());
        }
    }

    /// Updates the capacity estimate from a peer's report of arrivals.
    fn learn(&mut self, now: Instant, id: PeerId) {
        let Some(session) = self.peers[id.index()].session.as_mut() else { return };
        let capacity = &mut self.capacity;
        let learnt = session.feedback.deliver(|news| match news {
            News::Report(report) => capacity.on_report(now, id, report),
            News::Implausible => {
                capacity.on_implausible(id);
                Holds::default()
            }
        });
        let Some(holds) = learnt else { return };
        self.consider_longer_start_probe(now, id);
        self.set_pace(now);
        self.set_way(now, id);
        match holds.link {
            Some(until) if until > now => self.pacer.hold(until),
            Some(_) => self.pacer.release(),
            None => {}
        }
        if let Some(until) = holds.peer {
            self.peers[id.index()].held_until = until;
        }
    }

    /// The peer's newest datagram, of `size` bytes, came from `from`.
    fn on_newest_from(&mut self, now: Instant, id: PeerId, from: SocketAddr, size: usize) {
        let peer = &mut self.peers[id.index()];
        if peer.session.is_none() {
            return;
        }
        if peer.address == Some(from) {
            peer.candidates.on_known();
            self.set_called(id, self.called);
        } else {
            let way = Way { to: from, from: self.called };
            peer.candidates.on_newest(now, way, size, || u64::from_be_bytes(self.random.bytes()));
            self.challenge(now, id);
        }
    }

    /// Sends the challenges that are due.
    fn challenge(&mut self, now: Instant, id: PeerId) {
        let peer = &mut self.peers[id.index()];
        let Some(session) = &peer.session else { return };
        let timeout = session.answer_timeout();
        while let Some((way, token)) = peer.candidates.poll(now, PATH_DATAGRAM, timeout) {
            self.path_outbox.push_back((id, way, PathFrame::Challenge(token)));
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
                self.path_outbox.push_back((id, Way { to: from, from: self.called }, PathFrame::Response(token)));
            }
            Some(PathFrame::Response(token)) => {
                if let Some(Way { to: address, from }) = peer.candidates.on_response(token, peer.address) {
                    session.on_migrated();
                    self.set_address(now, id, address);
                    self.set_called(id, from);
                }
            }
            _ => {}
        }
    }

    /// Ends a session for good: both sides start again with the next handshake, or with the one whose init the peer has sent for
    /// a later session.
    pub(super) fn give_up(&mut self, now: Instant, id: PeerId, reason: ResetReason) {
        let ended = self.peers[id.index()].session.as_ref().map(|session| session.peer_epoch);
        let was_unresponsive = self.peers[id.index()].session.as_ref().is_some_and(Session::<P>::is_unresponsive);
        let news = match reason {
            ResetReason::Shutdown => Some(Event::PeerLeft(id)),
            // The peer has answered; `PeerBroke` reports the end of the session.
            ResetReason::Protocol => None,
            _ => Some(Event::PeerUnresponsive(id)),
        };
        self.events.extend(news.filter(|_| !was_unresponsive));
        if reason == ResetReason::Outage {
            self.events.push_back(Event::PeerGivenUp(id));
        }
        self.drop_session(id, reason);
        let peer = &mut self.peers[id.index()];
        let later = std::mem::take(&mut peer.keys).unconfirmed;
        peer.keys.unconfirmed = later.filter(|later| ended.is_some_and(|ended| later.parameters.epoch != ended));
        // It may be answered by the process whose session has ended.
        peer.attempt = None;
        peer.attempt_at = now;
        // The response to a later init has named our epoch: the peer would take another one for a restart. It has no session of this
        // epoch, since it changed its own.
        if peer.keys.unconfirmed.is_none() {
            self.renew_epoch(id);
        }
    }

    pub(super) fn drop_session(&mut self, id: PeerId, reason: ResetReason) {
        self.take_trace(id);
        let peer = &mut self.peers[id.index()];
        peer.candidates.clear();
        (peer.way, peer.held_until) = (None, Instant::ZERO);
        if let Some(mut session) = peer.session.take() {
            peer.past.add(&session.counters());
            self.capacity.forget(id);
            session.uncharge(&mut self.receive_memory, &mut self.send_memory);
            match reason {
                ResetReason::Shutdown | ResetReason::PeerRestarted => self.keep_unread(id, session, reason),
                _ => self.events.extend(session.abandon(reason)),
            }
        }
        self.charge(id);
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
}
