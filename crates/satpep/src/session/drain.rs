//! Draining: a gateway that drains has its peer open no more streams, finishes those that there are, and ends.
//!
//! The first data of streams that the peer had opened before it heard of the drain may be lost on the way, and the gateway
//! would end without knowing of those streams. The peer answers DRAIN with the number of streams that it has opened, and
//! the drain is over when so many have arrived. A peer that does not answer is waited for as long as an outage usually
//! lasts, not longer.

use super::Session;
use crate::event::Event;
use crate::payload::Payload;
use units::{Duration, Instant};

/// What either side knows of the other's drain.
#[derive(Debug)]
pub(crate) struct Drain {
    /// The peer knows DRAIN.
    is_understood: bool,
    /// The peer drains: it takes no more streams.
    is_peers: bool,
    /// DRAIN is to be said, or said again.
    pub(super) is_due: bool,
    /// Until when streams that the peer may have opened are waited for.
    until: Option<Instant>,
    /// How many streams the peer has opened, by its answer.
    opened_by_peer: Option<u64>,
    /// The peer's DRAIN is to be answered.
    pub(super) answer_due: bool,
}

impl Drain {
    /// How long a peer is waited for that does not answer.
    pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

    /// Nobody drains. `is_understood` says whether the peer knows DRAIN.
    pub(super) fn new(is_understood: bool) -> Self {
        Self { is_understood, is_peers: false, is_due: false, until: None, opened_by_peer: None, answer_due: false }
    }

    /// Whether the peer takes no more streams.
    pub(super) fn is_peers(&self) -> bool {
        self.is_peers
    }

    pub(super) fn has_something_to_say(&self) -> bool {
        self.is_due || self.answer_due
    }

    /// When the peer's answer is no longer waited for.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.until
    }

    pub(super) fn on_timeout(&mut self, now: Instant) {
        self.until = self.until.filter(|until| now < *until);
    }
}

impl<P: Payload> Session<P> {
    /// Tells the peer, if it understands, that this gateway takes no more streams.
    pub(crate) fn drain(&mut self, now: Instant) {
        if self.drain.is_understood && self.drain.until.is_none() && self.drain.opened_by_peer.is_none() {
            self.drain.is_due = true;
            // A peer that has been gone for long has nothing on its way.
            self.drain.until = Some(self.liveness.unresponsive_since().unwrap_or(now) + Drain::PATIENCE);
        }
    }

    /// The peer takes no more streams.
    pub(super) fn on_drain(&mut self) {
        self.drain.answer_due = true;
        if !std::mem::replace(&mut self.drain.is_peers, true) {
            self.events.push_back(Event::PeerDrains(self.peer));
        }
    }

    /// The peer that was notified of the drain has opened `count` streams and opens no more.
    pub(super) fn on_opened(&mut self, count: u64) {
        self.drain.opened_by_peer = Some(count);
        self.end_wait();
    }

    /// Stops waiting for streams of the peer's if all have arrived.
    pub(super) fn end_wait(&mut self) {
        if self.drain.opened_by_peer.is_some_and(|count| self.streams.has_seen(count)) {
            self.drain.until = None;
        }
    }

    /// Whether no stream is left, nor any in flight from a peer that was notified of a drain.
    pub(crate) fn is_drained(&self) -> bool {
        self.has_no_streams() && self.drain.until.is_none()
    }
}
