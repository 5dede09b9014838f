//! What is sent next, at the link's pace.

use super::overhead::ip_overhead;
use super::path::Way;
use super::peer::Peer;
use super::peers::Peers;
use super::{Endpoint, Transmit};
use crate::event::PeerId;
use crate::offload::Sealer;
use crate::pacer::Pacer;
use crate::payload::Payload;
use crate::scheduler::{Flow, Flows, Place, Sparse};
use crate::session::{Filled, Session, Urgency};
use crate::wire::frame::PathFrame;
use crate::wire::packet::{DATA_HEADER, DATA_OVERHEAD, DataHeader, TAG};
use peering::dscp::Dscp;
use units::Instant;

/// Datagrams that leave at once at most: as many as any kernel cuts from one batch (UDP_SEGMENT), however small they are.
const MOST_IN_BATCH: usize = 64;

/// The peers as the scheduler sees them.
struct PeerFlows<'a, P: Payload> {
    peers: &'a mut Peers<P>,
    now: Instant,
}

impl<P: Payload> Flows<PeerId> for PeerFlows<'_, P> {
    fn flow(&mut self, id: PeerId) -> Option<Flow<'_>> {
        self.peers.get_mut(id.index()).map(|peer| peer.scheduler_entry(self.now))
    }

    fn place(&self, id: PeerId) -> Option<&Place> {
        self.peers.get(id.index()).map(|peer| &peer.place)
    }
}

impl<P: Payload> Peer<P> {
    /// Whether there is somewhere to send to and a key to seal with.
    pub(super) fn can_seal(&self) -> bool {
        self.address.is_some() && !self.is_spent()
    }
}

impl<P: Payload> Peer<P> {
    /// The peer as the scheduler sees it.
    pub(super) fn scheduler_entry(&mut self, now: Instant) -> Flow<'_> {
        let session = self.live_session();
        let has_paced = session.is_some_and(|session| session.has_paced(now));
        let busy = has_paced && self.can_seal() && self.is_within_cap(now);
        let has_sparse = session.is_some_and(|session| session.has_sparse());
        // Who is sent less than a fair share is not to miss its time because others take turns.
        let is_slow = self.cap.is_some() || self.way.is_some();
        let sparse = if has_sparse {
            Sparse::Inner
        } else if is_slow {
            Sparse::Own
        } else {
            Sparse::No
        };
        Flow { place: &mut self.place, busy, weight: self.config.weight, sparse }
    }

    /// Whether the peer's own cap, if it has one, its own way, if that is narrow, and marks on it let data go now.
    pub(super) fn is_within_cap(&self, now: Instant) -> bool {
        let is_due = |pacer: &Option<Pacer>| pacer.as_ref().is_none_or(|pacer| pacer.is_due(now));
        is_due(&self.cap) && is_due(&self.way) && self.held_until <= now && self.brake.is_ready(now)
    }
}

impl<P: Payload> Endpoint<P> {
    /// Fills `buffer` with what may be sent now, `None` if that is nothing. `buffer` has room for one datagram of the
    /// configured MTU at least; with more room, several leave at once. Of [`Elided`](crate::Elided) datagrams only the
    /// heads are written: [`Transmit::elided`] finds them.
    pub fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<Transmit> {
        self.settle_touched();
        if let Some((way, datagram)) = self.outbox.pop_front() {
            buffer[..datagram.len()].copy_from_slice(&datagram);
            let size = datagram.len();
            let transmit = Transmit { to: way.to, from: way.from, size, segment_size: size, dscp: Dscp::default() };
            return Some(self.sent(now, None, transmit));
        }
        self.transmit_path(now, buffer)
            .or_else(|| self.transmit_urgent(now, buffer))
            .or_else(|| self.transmit_ack(now, buffer))
            .or_else(|| self.transmit_survey(now, buffer))
            .or_else(|| self.transmit_paced(now, buffer))
    }

    /// Challenges and answers to them go to the address in question, wherever else the peer is.
    fn transmit_path(&mut self, now: Instant, buffer: &mut [u8]) -> Option<Transmit> {
        while let Some((id, Way { to, from }, frame)) = self.path_outbox.pop_front() {
            let peer = &mut self.peers[id.index()];
            if let (true, Some(session)) = (peer.can_seal(), peer.session.as_mut()) {
                let overhead = ip_overhead(&to) + DATA_OVERHEAD;
                let space = &mut buffer[DATA_HEADER..DATA_HEADER + PathFrame::LENGTH];
                let filled = session.fill_path(now, space, overhead, frame);
                let size = DATA_OVERHEAD + filled.length;
                seal(peer, &mut self.sealer, filled, &mut buffer[..size]);
                let transmit = Transmit { to, from, size, segment_size: size, dscp: filled.dscp };
                return Some(self.sent(now, Some(id), transmit));
            }
        }
        None
    }

    /// The peer said that it stops: it need not say so again.
    pub(super) fn answer_close(&mut self, now: Instant, id: PeerId) {
        let peer = &mut self.peers[id.index()];
        if let (true, Some(to), Some(session)) = (peer.can_seal(), peer.address, peer.session.as_mut()) {
            let mut datagram = vec![0; DATA_OVERHEAD + Session::<P>::CLOSE_LENGTH];
            let space = &mut datagram[DATA_HEADER..DATA_HEADER + Session::<P>::CLOSE_LENGTH];
            let filled = session.fill_close(now, space, ip_overhead(&to) + DATA_OVERHEAD);
            seal(peer, &mut Sealer::Endpoint, filled, &mut datagram);
            self.outbox.push_back((Way { to, from: peer.called }, datagram));
        }
    }

    fn transmit_urgent(&mut self, now: Instant, buffer: &mut [u8]) -> Option<Transmit> {
        while let Some(&id) = self.urgent.front() {
            let at = (now, self.capacity.position(now));
            let peer = &mut self.peers[id.index()];
            let urgent = peer.can_seal() && peer.session.as_ref().is_some_and(|session| session.has_urgent());
            // Where the pace allows data as well, the two share a datagram.
            let data_too = self.pacer.is_ready(now) && peer.is_within_cap(now);
            let urgency = if data_too { Urgency::Paced } else { Urgency::Now };
            if urgent && let Some(transmit) = fill_datagram(peer, &mut self.sealer, at, buffer, urgency, usize::MAX) {
                return Some(self.sent(now, Some(id), transmit));
            }
            self.peers[id.index()].urgent_queued = false;
            self.urgent.pop_front();
        }
        None
    }

    /// An acknowledgement that travels alone, unless data may go with it.
    fn transmit_ack(&mut self, now: Instant, buffer: &mut [u8]) -> Option<Transmit> {
        while self.ack_pacer.is_ready(now) {
            let Some(id) = self.acknowledging.pop_front() else {
                self.ack_pacer.on_idle();
                return None;
            };
            let at = (now, self.capacity.position(now));
            let data_too = self.pacer.is_ready(now);
            let peer = &mut self.peers[id.index()];
            peer.ack_queued = false;
            let data_too = data_too && peer.is_within_cap(now);
            let Some(session) = peer.session.as_mut().filter(|session| session.owes_ack(now)) else { continue };
            session.detail = self.ack_load.detail(now, self.capacity.rate());
            let urgency = if data_too && session.has_paced(now) { Urgency::Paced } else { Urgency::Now };
            if peer.can_seal()
                && let Some(transmit) = fill_datagram(peer, &mut self.sealer, at, buffer, urgency, usize::MAX)
            {
                let transmit = self.sent(now, Some(id), transmit);
                if urgency == Urgency::Now {
                    let ip_bytes = transmit.size + ip_overhead(&transmit.to);
                    self.ack_pacer.on_sent(now, ip_bytes);
                    self.ack_load.on_sent(ip_bytes);
                }
                return Some(transmit);
            }
        }
        None
    }

    fn transmit_paced(&mut self, now: Instant, buffer: &mut [u8]) -> Option<Transmit> {
        if !self.pacer.is_ready(now) {
            return None;
        }
        self.set_pace(now);
        while let Some(id) = self.next_peer(now) {
            if let Some(transmit) = self.transmit_probe(now, id, buffer) {
                return Some(transmit);
            }
            if let Some(transmit) = self.transmit_batch(now, id, buffer) {
                return Some(transmit);
            }
            // Only what credits do not allow yet is left: it comes back with the next credit. A train does not wait for it.
            self.capacity.on_idle();
            self.scheduler.charge(self.peers[id.index()].scheduler_entry(now), self.config.quantum());
        }
        let transmit = self.transmit_idle(now, buffer);
        if transmit.is_none() {
            self.pacer.on_idle();
        }
        transmit
    }

    /// The peer to send to next: a train is not interrupted by others.
    fn next_peer(&mut self, now: Instant) -> Option<PeerId> {
        if let Some(id) = self.capacity.train_leaves_to() {
            let goes_on = self.peers.get_mut(id.index()).is_some_and(|peer| peer.scheduler_entry(now).busy);
            if goes_on {
                return Some(id);
            }
            self.capacity.on_idle();
            self.set_pace(now);
        }
        self.scheduler.next(&mut PeerFlows { peers: &mut self.peers, now })
    }

    /// Datagrams of one size and marking to one peer, as many as the pace, the peer's quantum and the buffer allow.
    fn transmit_batch(&mut self, now: Instant, id: PeerId, buffer: &mut [u8]) -> Option<Transmit> {
        if let Some(session) = &self.peers[id.index()].session {
            self.pacer.set_rtt(session.rtt());
        }
        let at = self.advance_train(now, id);
        let first =
            fill_datagram(&mut self.peers[id.index()], &mut self.sealer, at, buffer, Urgency::Paced, usize::MAX)?;
        let mut transmit = self.sent(now, Some(id), first);
        let segment_size = transmit.segment_size;
        let most = buffer.len().min(segment_size * MOST_IN_BATCH);
        while self.pacer.may_go_on(now) && most - transmit.size >= segment_size {
            if self.next_peer(now) != Some(id) {
                break;
            }
            let session = self.peers[id.index()].session.as_mut();
            if session.is_some_and(|session| session.has_probe(now) || session.next_marking(now) != transmit.dscp) {
                break;
            }
            let at = self.advance_train(now, id);
            let rest = &mut buffer[transmit.size..];
            let peer = &mut self.peers[id.index()];
            let Some(next) = fill_datagram(peer, &mut self.sealer, at, rest, Urgency::Paced, segment_size) else {
                // As where a batch would begin: a train does not wait for credit.
                self.capacity.on_idle();
                break;
            };
            let next = self.sent(now, Some(id), next);
            transmit.size += next.size;
            if next.size < segment_size {
                break;
            }
        }
        Some(transmit)
    }

    fn transmit_probe(&mut self, now: Instant, id: PeerId, buffer: &mut [u8]) -> Option<Transmit> {
        let position = self.capacity.position(now);
        let peer = &mut self.peers[id.index()];
        let to = peer.address?;
        let session = peer.session.as_mut()?;
        let ip_size = session.poll_mtu_probe(now)?;
        let size = (usize::from(ip_size) - ip_overhead(&to)).min(buffer.len());
        let filled = session.fill_probe(now, position, &mut buffer[DATA_HEADER..size - TAG], ip_size);
        seal(peer, &mut self.sealer, filled, &mut buffer[..size]);
        let (from, dscp) = (peer.called, filled.dscp);
        Some(self.sent(now, Some(id), Transmit { to, from, size, segment_size: size, dscp }))
    }

    /// Marks the packet about to leave for a peer if it is one of a train. Returns the time and how many bytes have entered the link.
    fn advance_train(&mut self, now: Instant, id: PeerId) -> (Instant, u64) {
        let at = (now, self.capacity.position(now));
        let Some(session) = self.peers[id.index()].session.as_mut() else { return at };
        if self.capacity.advance_train(now, id, session.next_number(), |bytes| session.has_waiting(bytes)) {
            session.mark_next_as_train();
            self.set_pace(now);
            self.set_way(now, id);
        } else {
            session.start_probe.cancel();
        }
        at
    }

    fn transmit_idle(&mut self, now: Instant, buffer: &mut [u8]) -> Option<Transmit> {
        self.capacity.on_idle();
        // Nothing else has changed the pace since it was set for this turn.
        if self.pacer.is_even() || self.capacity.has_train_ended() {
            self.set_pace(now);
        }
        debug_assert_eq!(self.pacer.rate(), self.capacity.pace(now));
        let at = (now, self.capacity.position(now));
        while let Some(id) = self.idle.pop_front() {
            let peer = &mut self.peers[id.index()];
            let wanted = peer.can_seal()
                && peer.leaves_at.is_none()
                && peer.is_within_cap(now)
                && peer.session.as_ref().is_some_and(|session| session.has_idle(now));
            let filled = if wanted {
                fill_datagram(peer, &mut self.sealer, at, buffer, Urgency::Idle, usize::MAX)
            } else {
                None
            };
            match filled {
                Some(transmit) => {
                    self.idle.push_back(id);
                    return Some(self.sent(now, Some(id), transmit));
                }
                None => {
                    peer.idle_queued = false;
                    self.queue_work(id);
                }
            }
        }
        None
    }

    /// Counts and paces what leaves.
    pub(super) fn sent(&mut self, now: Instant, id: Option<PeerId>, transmit: Transmit) -> Transmit {
        let ip_bytes = transmit.size + ip_overhead(&transmit.to);
        self.stats.sent_packets += 1;
        self.stats.sent_ip_bytes += ip_bytes as u64;
        let asks = id.filter(|id| self.peers[id.index()].session.as_ref().is_some_and(Session::asked_latest));
        self.capacity.on_sent(now, asks, ip_bytes);
        self.pacer.on_sent(now, ip_bytes);
        if self.capacity.has_train_ended() {
            self.set_pace(now);
            if let Some(id) = id {
                self.set_way(now, id);
            }
        }
        if let Some(id) = id {
            let peer = &mut self.peers[id.index()];
            for pacer in [&mut peer.cap, &mut peer.way].into_iter().flatten() {
                pacer.on_sent(now, ip_bytes);
            }
            self.scheduler.charge(peer.scheduler_entry(now), ip_bytes);
            if let Some(session) = &peer.session {
                peer.brake.on_sent(now, ip_bytes, session.rtt(), self.pacer.rate());
            }
            self.touch(now, id);
        }
        transmit
    }
}

/// Writes and seals one datagram of at most `max_size` bytes, now and when `position` bytes have entered the link; returns
/// what to send.
fn fill_datagram<P: Payload>(
    peer: &mut Peer<P>,
    sealer: &mut Sealer<P::Key>,
    (now, position): (Instant, u64),
    buffer: &mut [u8],
    urgency: Urgency,
    max_size: usize,
) -> Option<Transmit> {
    let to = peer.address?;
    let session = peer.session.as_mut()?;
    let headers = ip_overhead(&to);
    let size = (usize::from(session.mtu()) - headers).min(buffer.len()).min(max_size);
    let space = buffer.get_mut(DATA_HEADER..size.checked_sub(TAG)?)?;
    let filled = session.fill(now, position, space, headers + DATA_OVERHEAD, urgency)?;
    let size = DATA_OVERHEAD + filled.length;
    seal(peer, sealer, filled, &mut buffer[..size]);
    Some(Transmit { to, from: peer.called, size, segment_size: size, dscp: filled.dscp })
}

pub(super) fn seal<P: Payload>(peer: &Peer<P>, sealer: &mut Sealer<P::Key>, filled: Filled, datagram: &mut [u8]) {
    let Some(keys) = &peer.keys.current else { return };
    DataHeader { receiver: keys.peer_index, number_low: filled.number.low_half() }.write(datagram);
    sealer.seal(&keys.send, filled.number, datagram, DATA_HEADER + filled.length - filled.elided);
}
