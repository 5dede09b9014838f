//! What may run short: room for connections with hosts, streams of a peer, memory for what a peer sends. New connections go end to end
//! then, past both gateways; what is on its way waits for others to end. None is reset.

use super::{Engine, Hosts, Notice, Transport};
use units::{Duration, Instant};

/// Of all streams, one part in so many is kept back for connections that are on their way when interception ends.
const STREAMS_KEPT_BACK: u64 = 16;
/// A peer is out of memory once less than one part in so many is left for a while, and no longer with twice that. Stalled readers stop
/// filling the memory before it is full: the least stream window needs more than what is left.
const MEMORY_KEPT_BACK: u64 = 8;
/// For how long: what is held while a loss is repaired is soon taken.
const LASTS: Duration = Duration::from_secs(1);

/// A shortage of room for connections with hosts.
#[derive(Debug)]
pub(super) struct RoomShortage {
    /// How many connections there were when it began.
    connections: usize,
    /// Whether there was plenty for this process then: what is short is the host's.
    is_host_wide: bool,
    /// Since when there has been plenty.
    plenty_since: Option<Instant>,
}

impl<T: Transport<H>, H: Hosts> Engine<T, H> {
    /// Whether room for connections with hosts is short.
    pub(super) fn is_short(&self) -> bool {
        self.room_shortage.is_some()
    }

    /// Whether there is room for a connection with a host.
    pub(super) fn has_room(&self) -> bool {
        // Where there is plenty, the host need not look.
        !self.is_short() || self.hosts.has_room()
    }

    /// No room is left for connections with hosts, or little: new connections go end to end until an eighth of those that are relayed
    /// have ended, or others have left plenty.
    pub fn out_of_room(&mut self) {
        if self.room_shortage.is_none() {
            self.notices.push_back(Notice::RoomShort);
            self.room_shortage = Some(RoomShortage {
                connections: self.connections.len(),
                is_host_wide: self.hosts.has_plenty(),
                plenty_since: None,
            });
            self.interception_changed = true;
        }
    }

    /// `tcp` is new: the host says whether little room is left.
    pub(super) fn look_at_room(&mut self, tcp: &H::Connection) {
        if self.hosts.is_scarce(tcp) {
            self.out_of_room();
        }
    }

    /// A connection has ended.
    pub(super) fn look_at_room_again(&mut self) {
        let then = self.room_shortage.as_ref().map(|shortage| shortage.connections);
        if then.is_some_and(|then| self.connections.len() <= then - then.div_ceil(8)) {
            self.end_room_shortage();
        }
    }

    fn end_room_shortage(&mut self) {
        self.notices.push_back(Notice::RoomAgain);
        self.room_shortage = None;
        self.interception_changed = true;
    }

    /// Looks whether there has been plenty of room for a while: what took it need not have been connections that are relayed.
    fn look_at_plenty(&mut self, now: Instant) {
        let Some(shortage) = self.room_shortage.as_mut().filter(|shortage| !shortage.is_host_wide) else { return };
        if !self.hosts.has_plenty() {
            shortage.plenty_since = None;
        } else if now.since(*shortage.plenty_since.get_or_insert(now)) >= LASTS {
            self.end_room_shortage();
        }
    }

    /// Tells the peers that room is short, or is not any more, if that has changed.
    pub fn tell_shortage(&mut self, now: Instant) {
        if self.is_told_short != self.is_short() {
            self.tell_reach(now);
        }
    }

    /// The streams through peer `at` have become more or fewer: without room for more, new connections go end to end.
    pub(super) fn look_at_streams(&mut self, at: usize) {
        // The last connections of a peer that is removed go first.
        if !self.peers.contains(at) {
            return;
        }
        let (free, most) = self.transport.room(at);
        // Where there are few, one for the client that comes before the firewall knows; where there is one, none.
        let kept_back = (most / STREAMS_KEPT_BACK).max(u64::from(most > 3));
        let peer = &mut self.peers[at];
        // Without a session no stream is in use.
        let is_full = most > 0 && free <= if peer.is_full { 2 * kept_back } else { kept_back };
        if is_full == peer.is_full {
            return;
        }
        peer.is_full = is_full;
        self.interception_changed = true;
        self.notices.push_back(match is_full {
            true => Notice::StreamsShort { peer: at, most },
            false => Notice::StreamsAgain(at),
        });
    }

    /// Looks whether what peer `at` sends finds memory here.
    fn look_at_memory(&mut self, now: Instant, at: usize) {
        let Some((left, all)) = self.transport.memory_left(at) else { return };
        let peer = &mut self.peers[at];
        let is_little = left < all / if peer.is_out_of_memory { MEMORY_KEPT_BACK / 2 } else { MEMORY_KEPT_BACK };
        if !is_little {
            peer.memory_is_little_since = None;
        }
        let is_out = is_little && now.since(*peer.memory_is_little_since.get_or_insert(now)) >= LASTS;
        if is_out == peer.is_out_of_memory || (is_little && !is_out) {
            return;
        }
        peer.is_out_of_memory = is_out;
        self.notices.push_back(match is_out {
            true => Notice::MemoryShort { peer: at, left },
            false => Notice::MemoryAgain(at),
        });
        self.interception_changed = true;
        self.tell_reach_to(now, at);
    }

    /// Looks again at what is short, and at the clients that wait: the transport has streams of its own, too.
    pub fn look_at_limits(&mut self, now: Instant) {
        self.look_at_plenty(now);
        self.wake_waiting();
        for at in self.places() {
            self.look_at_queue(now, at);
            self.look_at_memory(now, at);
            if self.peers[at].is_full {
                self.look_at_streams(at);
            }
        }
    }
}
