//! Relayed connections on the streams of the satellite transport: which connection a stream carries, how the far gateway answers, and
//! what each gateway lets the other reach. The gateway and the simulator share it; they differ in the payload only.

mod announcements;

use announcements::Announcements;
use peering::ResetReason;
use peering::dscp::Dscp;
use relay::classes::Class;
use relay::connect::{CONNECTED, ConnectRequest, MAX_LENGTH, Parser};
use relay::engine::{ConnectReply, ReceivedRequest, StreamEvent};
use relay::reach::{ANNOUNCEMENT, Reach, ReachError};
use satpep::{Endpoint, Event, Payload, PeerId, PeerState, StreamId};
use std::collections::HashMap;
use std::io::IoSlice;
use units::Instant;

/// An endpoint of the transport whose streams carry relayed connections. Peers are named by their place.
pub struct Streams<P: Payload> {
    /// The endpoint.
    pub endpoint: Endpoint<P>,
    peers: Vec<PeerId>,
    by_id: HashMap<PeerId, usize>,
    /// Connect requests that have not arrived in full.
    requests: HashMap<StreamId, Parser>,
    announcements: Announcements,
    /// Whether some peer allows something else than before.
    reach_has_changed: bool,
    /// Whether packets carry the DSCP of the client's packets.
    copies_dscp: bool,
}

/// What has happened at the endpoint.
#[derive(Debug)]
pub enum Reported {
    /// Something for the relay engine.
    Stream(StreamEvent<StreamId>),
    /// Something about a session with a peer.
    Session(Event),
    /// The peer's announcement of what it allows was not understood.
    BadAnnouncement(usize, ReachError),
}

impl Reported {
    /// What the relay engine is to know of it: of a session, that something has changed, but for clocks set back.
    pub fn for_engine(self) -> Option<StreamEvent<StreamId>> {
        match self {
            Reported::Stream(event) => Some(event),
            Reported::Session(Event::PeerClockSetBack(..) | Event::OwnClockSetBack(..)) => None,
            Reported::Session(_) => Some(StreamEvent::PeersChanged),
            Reported::BadAnnouncement(..) => None,
        }
    }
}

impl<P: Payload> std::fmt::Debug for Streams<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Streams").field("peers", &self.peers).finish_non_exhaustive()
    }
}

impl<P: Payload> Streams<P> {
    /// The streams of `endpoint`, whose peers are `peers`, by place. If `copies_dscp`, packets carry the DSCP of the client's.
    pub fn new(endpoint: Endpoint<P>, peers: Vec<PeerId>, copies_dscp: bool) -> Self {
        Self {
            endpoint,
            announcements: Announcements::new(&peers),
            by_id: peers.iter().enumerate().map(|(at, id)| (*id, at)).collect(),
            peers,
            requests: HashMap::new(),
            reach_has_changed: false,
            copies_dscp,
        }
    }

    /// The endpoint's name for the peer at place `at`.
    pub fn id(&self, at: usize) -> PeerId {
        self.peers[at]
    }

    /// The place of a peer, unless it has been removed.
    pub fn place(&self, id: PeerId) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    /// The peers, by place, removed ones apart.
    pub fn peers(&self) -> impl Iterator<Item = (usize, PeerId)> {
        self.peers.iter().copied().enumerate().filter(|(_, id)| self.by_id.contains_key(id))
    }

    /// The peer at place `at`, the next or that of one that was removed, is `id`.
    pub fn put_peer(&mut self, at: usize, id: PeerId) {
        self.by_id.insert(id, at);
        self.announcements.put(at, id);
        if at == self.peers.len() {
            self.peers.push(id);
        } else {
            self.peers[at] = id;
        }
    }

    /// Removes the peer at place `at`.
    pub fn remove_peer(&mut self, now: Instant, at: usize) {
        self.by_id.remove(&self.peers[at]);
        self.announcements.forget(at);
        self.endpoint.remove_peer(now, self.peers[at]);
    }

    /// Tries again what could not be announced: all streams were in use.
    pub fn tick(&mut self, now: Instant) {
        self.announcements.tick(now, &mut self.endpoint);
    }

    /// What has happened since the last call, oldest first.
    pub fn poll_event(&mut self, now: Instant) -> Option<Reported> {
        loop {
            self.reach_has_changed |= self.announcements.apply(now);
            if let Some((at, error)) = self.announcements.poll_bad() {
                return Some(Reported::BadAnnouncement(at, error));
            }
            if std::mem::take(&mut self.reach_has_changed) {
                return Some(Reported::Stream(StreamEvent::PeersChanged));
            }
            let event = self.endpoint.poll_event()?;
            let report = match event {
                Event::Opened(stream) => self.on_opened(now, stream),
                Event::Readable(stream) | Event::Writable(stream) => {
                    match self.announcements.on_ready(now, &mut self.endpoint, stream) {
                        None => Some(StreamEvent::Ready(stream)),
                        Some(has_changed) => {
                            self.reach_has_changed |= has_changed;
                            None
                        }
                    }
                }
                Event::Reset(stream, _) | Event::Closed(stream)
                    if self.announcements.on_end(now, &mut self.endpoint, stream) =>
                {
                    None
                }
                Event::EndedBeforeReset(stream) => Some(StreamEvent::EndedBeforeReset(stream)),
                Event::Reset(stream, reason) => Some(StreamEvent::Reset(stream, reason)),
                Event::Closed(stream) => Some(StreamEvent::Closed(stream)),
                _ => {
                    self.on_session(now, event);
                    return Some(Reported::Session(event));
                }
            };
            if let Some(report) = report {
                return Some(Reported::Stream(report));
            }
        }
    }

    fn on_opened(&mut self, now: Instant, stream: StreamId) -> Option<StreamEvent<StreamId>> {
        let Some(at) = self.place(stream.peer()) else {
            self.endpoint.reset(now, stream, ResetReason::Protocol);
            return None;
        };
        self.requests.insert(stream, Parser::new());
        Some(StreamEvent::Opened(stream, at))
    }

    /// A peer that has come up, or is another process than before, is sent the addresses that it may use here again.
    fn on_session(&mut self, now: Instant, event: Event) {
        let (id, is_another) = match event {
            Event::PeerUp(id) => (id, false),
            Event::PeerRestarted(id) | Event::PeerBroke(id, _) => (id, true),
            _ => return,
        };
        let Some(at) = self.place(id) else { return };
        if is_another && !self.announcements.is_up_to_date(&self.endpoint, at) {
            self.announcements.forget(at);
        }
        self.announcements.tell_again(now, &mut self.endpoint, at);
    }

    /// How many more streams may be opened to `peer`, and how many in all ([`Endpoint::room`]).
    pub fn room(&self, peer: usize) -> (u64, u64) {
        self.endpoint.room(self.id(peer))
    }

    /// Memory left for what `peer` sends, and how much there is ([`Endpoint::receive_memory_left`]).
    pub fn memory_left(&self, peer: usize) -> Option<(u64, u64)> {
        self.endpoint.receive_memory_left(self.id(peer))
    }

    /// How many streams of the session with peer `at` carry relayed connections.
    pub fn connections(&self, now: Instant, at: usize) -> u64 {
        let all = self.endpoint.peer_stats(now, self.id(at)).streams;
        all.saturating_sub(self.announcements.streams(at))
    }

    /// Whether streams may be opened through peer `at`.
    pub fn is_up(&self, at: usize) -> bool {
        self.endpoint.peer_state(self.peers[at]) == PeerState::Up
    }

    /// Peer `at` is to know that it may use `reach` here, now and whenever it comes up.
    pub fn tell_reach(&mut self, now: Instant, at: usize, reach: &Reach) {
        self.announcements.tell(now, &mut self.endpoint, at, reach);
    }

    /// Announces nothing from now on: another process of this gateway has taken over.
    pub fn leave_announcements(&mut self) {
        self.announcements.leave_to_another();
    }

    /// The addresses that peer `at` lets this gateway use, if it has announced them.
    pub fn allows(&self, at: usize) -> Option<&Reach> {
        self.announcements.allows(at)
    }

    /// Opens a stream through peer `at` for the connection `request`; `None` if there is none left.
    pub fn open(
        &mut self,
        now: Instant,
        at: usize,
        request: &ConnectRequest,
        class: Option<&Class>,
    ) -> Option<StreamId> {
        let mut encoded = [0; MAX_LENGTH];
        let length = request.encode(&mut encoded).ok()?;
        let stream = self.endpoint.open(now, self.peers[at]).ok()?;
        if let Some(class) = class {
            self.endpoint.set_class(now, stream, &class.settings);
        }
        self.mark(now, stream, request.dscp);
        // An empty stream has room for a connect request.
        if self.endpoint.write(now, stream, &encoded[..length]) < length {
            self.endpoint.reset(now, stream, ResetReason::StreamLimit);
            return None;
        }
        Some(stream)
    }

    fn mark(&mut self, now: Instant, stream: StreamId, dscp: Dscp) {
        if self.copies_dscp {
            self.endpoint.set_dscp(now, stream, dscp);
        }
    }

    /// Reads on in the connect request of a stream that a peer has opened.
    pub fn read_request(&mut self, now: Instant, stream: StreamId) -> ReceivedRequest {
        let Some(parser) = self.requests.get_mut(&stream) else { return ReceivedRequest::Ended };
        loop {
            let mut slices = [IoSlice::new(&[]); 1];
            if self.endpoint.readable(stream, &mut slices) == 0 {
                let ended = self.endpoint.is_read_finished(stream);
                return if ended { ReceivedRequest::Ended } else { ReceivedRequest::Waiting };
            }
            if parser.is_new() && slices[0].first() == Some(&ANNOUNCEMENT) {
                self.requests.remove(&stream);
                let Some(at) = self.place(stream.peer()) else { return ReceivedRequest::Ended };
                self.reach_has_changed |= self.announcements.hear(now, &mut self.endpoint, at, stream);
                return ReceivedRequest::NoConnection;
            }
            match parser.push(&slices[0]) {
                Ok((used, request)) => {
                    self.endpoint.consume(now, stream, used);
                    if let Some(request) = request {
                        self.requests.remove(&stream);
                        self.mark(now, stream, request.dscp);
                        return ReceivedRequest::Complete(request);
                    }
                }
                Err(error) => return ReceivedRequest::Malformed(error),
            }
        }
    }

    /// Reads the far gateway's answer on a stream that was opened here.
    pub fn read_reply(&mut self, now: Instant, stream: StreamId) -> ConnectReply {
        let mut slices = [IoSlice::new(&[]); 1];
        if self.endpoint.readable(stream, &mut slices) == 0 {
            return if self.endpoint.is_read_finished(stream) { ConnectReply::Ended } else { ConnectReply::Waiting };
        }
        if slices[0].first() == Some(&CONNECTED) {
            self.endpoint.consume(now, stream, 1);
            ConnectReply::Connected
        } else {
            ConnectReply::Malformed
        }
    }

    /// Tells the near gateway that the server has accepted. The stream is empty, and has room for that.
    pub fn reply(&mut self, now: Instant, stream: StreamId) {
        let written = self.endpoint.write(now, stream, &[CONNECTED]);
        debug_assert_eq!(written, 1, "an empty stream has room for one byte");
    }

    /// The engine knows the stream no longer.
    pub fn forget(&mut self, stream: StreamId) {
        self.requests.remove(&stream);
    }
}
