//! The addresses that each gateway lets the other reach, announced over streams of their own.
//!
//! One announcement at a time is under way to a peer, so that the last one sent is the last one received; and one from a peer, so that
//! what is kept of it is bounded.

use peering::ResetReason;
use relay::reach::{Announced, Reach, ReachError, Reader};
use satpep::{Endpoint, Payload, PeerId, PeerState, StreamId};
use std::collections::HashMap;
use std::io::IoSlice;
use units::Instant;

/// The announcements to and from all peers.
#[derive(Debug)]
pub(super) struct Announcements {
    peers: Vec<OfPeer>,
    /// Streams that carry announcements, and the peer's place.
    streams: HashMap<StreamId, usize>,
    /// Announcements that were not understood, and whose.
    bad: Vec<(usize, ReachError)>,
    /// Peers whose announcement is to count later.
    waiting: Vec<usize>,
    /// Another process announces in the place of this one.
    is_anothers: bool,
}

#[derive(Debug)]
struct OfPeer {
    id: PeerId,
    /// The announcement to it.
    words: Vec<u8>,
    /// Whether the announcement is still to be sent.
    is_due: bool,
    /// The announcement that is being sent.
    saying: Option<Saying>,
    /// The stream of its announcement.
    hearing: Option<(StreamId, Reader)>,
    /// Its announcement, and the stream that the latest one came on.
    allows: Announced,
    heard_on: Option<StreamId>,
}

/// An announcement that is being sent. The next one waits for its end.
#[derive(Debug)]
struct Saying {
    stream: StreamId,
    /// What is left of it.
    words: Vec<u8>,
    /// Whether all of it and its end are sent.
    is_finished: bool,
}

impl OfPeer {
    fn new(id: PeerId) -> Self {
        Self {
            id,
            words: Vec::new(),
            is_due: false,
            saying: None,
            hearing: None,
            allows: Announced::default(),
            heard_on: None,
        }
    }
}

impl Announcements {
    pub(super) fn new(peers: &[PeerId]) -> Self {
        Self {
            peers: peers.iter().map(|id| OfPeer::new(*id)).collect(),
            streams: HashMap::new(),
            bad: Vec::new(),
            waiting: Vec::new(),
            is_anothers: false,
        }
    }

    /// The peer at place `at`, the next or one that was another's, is `id`.
    pub(super) fn put(&mut self, at: usize, id: PeerId) {
        if at < self.peers.len() {
            self.peers[at] = OfPeer::new(id);
        } else {
            self.peers.push(OfPeer::new(id));
        }
    }

    /// The addresses that peer `at` lets through, if it has announced them.
    pub(super) fn allows(&self, at: usize) -> Option<&Reach> {
        self.peers[at].allows.reach()
    }

    /// How many streams carry announcements to or from peer `at`.
    pub(super) fn streams(&self, at: usize) -> u64 {
        let peer = &self.peers[at];
        u64::from(peer.saying.is_some()) + u64::from(peer.hearing.is_some())
    }

    /// Has announcements count that have waited long enough. Returns whether what some peer allows has changed.
    pub(super) fn apply(&mut self, now: Instant) -> bool {
        let mut has_changed = false;
        for at in std::mem::take(&mut self.waiting) {
            has_changed |= self.take(at, |allows| allows.apply(now));
        }
        has_changed
    }

    /// Has `change` alter what peer `at` allows. Returns whether that is something else now.
    fn take(&mut self, at: usize, change: impl FnOnce(&mut Announced) -> Result<bool, ReachError>) -> bool {
        let allows = &mut self.peers[at].allows;
        let outcome = change(allows);
        if allows.waits() && !self.waiting.contains(&at) {
            self.waiting.push(at);
        }
        outcome.unwrap_or_else(|error| {
            self.bad.push((at, error));
            false
        })
    }

    /// The place of a peer whose announcement was not understood, and why.
    pub(super) fn poll_bad(&mut self) -> Option<(usize, ReachError)> {
        self.bad.pop()
    }

    /// Peer `at` is to know `reach`, now and whenever it comes up.
    pub(super) fn tell<P: Payload>(&mut self, now: Instant, endpoint: &mut Endpoint<P>, at: usize, reach: &Reach) {
        let words = reach.announcement();
        if self.peers[at].words != words {
            self.peers[at].words = words;
            self.tell_again(now, endpoint, at);
        }
    }

    /// Peer `at` may not know the previous announcement.
    pub(super) fn tell_again<P: Payload>(&mut self, now: Instant, endpoint: &mut Endpoint<P>, at: usize) {
        self.peers[at].is_due = true;
        self.begin(now, endpoint, at);
    }

    /// Peer `at` is another process, which may announce something else, or nothing.
    pub(super) fn forget(&mut self, at: usize) {
        let peer = &mut self.peers[at];
        for stream in [peer.saying.take().map(|saying| saying.stream), peer.hearing.take().map(|(stream, _)| stream)] {
            stream.map(|stream| self.streams.remove(&stream));
        }
        peer.allows.forget();
        peer.heard_on = None;
    }

    /// Whether what peer `at` allows was announced by the process through which streams to it are opened.
    pub(super) fn is_up_to_date<P: Payload>(&self, endpoint: &Endpoint<P>, at: usize) -> bool {
        self.peers[at].heard_on.is_some_and(|stream| endpoint.is_in_best_session(stream))
    }

    /// Announces nothing from now on: another process of this gateway does.
    pub(super) fn leave_to_another(&mut self) {
        self.is_anothers = true;
    }

    /// Sends announcements that could not be sent before, when all streams were in use.
    pub(super) fn tick<P: Payload>(&mut self, now: Instant, endpoint: &mut Endpoint<P>) {
        (0..self.peers.len()).for_each(|at| self.begin(now, endpoint, at));
    }

    fn begin<P: Payload>(&mut self, now: Instant, endpoint: &mut Endpoint<P>, at: usize) {
        let peer = &mut self.peers[at];
        let is_possible = !peer.words.is_empty() && endpoint.peer_state(peer.id) == PeerState::Up;
        if self.is_anothers || !peer.is_due || peer.saying.is_some() || !is_possible {
            return;
        }
        let Ok(stream) = endpoint.open(now, peer.id) else { return };
        peer.is_due = false;
        peer.saying = Some(Saying { stream, words: peer.words.clone(), is_finished: false });
        self.streams.insert(stream, at);
        self.write(now, endpoint, at);
    }

    fn write<P: Payload>(&mut self, now: Instant, endpoint: &mut Endpoint<P>, at: usize) {
        let Some(saying) = self.peers[at].saying.as_mut().filter(|saying| !saying.is_finished) else { return };
        let written = endpoint.write(now, saying.stream, &saying.words);
        saying.words.drain(..written);
        if saying.words.is_empty() {
            saying.is_finished = true;
            endpoint.finish(now, saying.stream);
        }
    }

    /// The peer `at` has begun an announcement on `stream`. While the peer is upgraded, its old process is not heard: that may take nothing
    /// more, and the new one does not repeat what it has announced.
    pub(super) fn hear<P: Payload>(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint<P>,
        at: usize,
        stream: StreamId,
    ) -> bool {
        if !endpoint.is_in_best_session(stream) {
            endpoint.reset(now, stream, ResetReason::Aborted);
            return false;
        }
        if let Some((before, _)) = self.peers[at].hearing.replace((stream, Reader::new())) {
            self.streams.remove(&before);
            endpoint.reset(now, before, ResetReason::Protocol);
        }
        self.streams.insert(stream, at);
        self.read(now, endpoint, stream).unwrap_or(false)
    }

    /// Something has happened to `stream`. Returns whether what a peer allows has changed; `None` if the stream carries no
    /// announcement.
    pub(super) fn on_ready<P: Payload>(
        &mut self,
        now: Instant,
        endpoint: &mut Endpoint<P>,
        stream: StreamId,
    ) -> Option<bool> {
        let at = *self.streams.get(&stream)?;
        if self.peers[at].saying.as_ref().is_some_and(|saying| saying.stream == stream) {
            self.write(now, endpoint, at);
            return Some(false);
        }
        Some(self.read(now, endpoint, stream).unwrap_or(false))
    }

    /// `stream` is over. Returns whether it carried an announcement.
    pub(super) fn on_end<P: Payload>(&mut self, now: Instant, endpoint: &mut Endpoint<P>, stream: StreamId) -> bool {
        let Some(at) = self.streams.remove(&stream) else { return false };
        let peer = &mut self.peers[at];
        peer.saying.take_if(|saying| saying.stream == stream);
        peer.hearing.take_if(|(hearing, _)| *hearing == stream);
        self.begin(now, endpoint, at);
        true
    }

    /// Reads on in a peer's announcement; `None` if nothing is to be read.
    fn read<P: Payload>(&mut self, now: Instant, endpoint: &mut Endpoint<P>, stream: StreamId) -> Option<bool> {
        let at = *self.streams.get(&stream)?;
        let mut has_changed = false;
        loop {
            let (_, reader) = self.peers[at].hearing.as_mut().filter(|(hearing, _)| *hearing == stream)?;
            let mut slices = [IoSlice::new(&[]); 1];
            if endpoint.readable(stream, &mut slices) == 0 {
                return Some(has_changed);
            }
            let length = slices[0].len();
            match reader.push(&slices[0]) {
                Ok(reach) => {
                    endpoint.consume(now, stream, length);
                    if let Some(reach) = reach {
                        self.peers[at].heard_on = Some(stream);
                        has_changed |= self.take(at, |allows| allows.hear(now, reach));
                        endpoint.finish(now, stream);
                    }
                }
                Err(error) => {
                    self.bad.push((at, error));
                    endpoint.reset(now, stream, ResetReason::Protocol);
                    return Some(has_changed);
                }
            }
        }
    }
}
