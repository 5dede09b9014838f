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
/// How long after the last failure a shortage that has shown in failures ends by itself, at first and at most. It is twice as long each
/// time that a shortage begins within that time after the last one.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// A shortage of room for connections with hosts.
#[derive(Debug)]
struct RoomShortage {
    /// How many connections there were when it began.
    connections: usize,
    /// Whether there was plenty for this process then: what is short is the host's.
    is_host_wide: bool,
    /// Since when there has been plenty.
    plenty_since: Option<Instant>,
    /// When the last attempt failed; `None` if the host has counted what is left, and found it scarce.
    failed_at: Option<Instant>,
}

/// Room for connections with hosts, as far as it is known.
#[derive(Debug, Default)]
pub(super) struct Room {
    shortage: Option<RoomShortage>,
    /// When the last shortage ended.
    again_at: Option<Instant>,
    /// How long after a failure a shortage ends by itself.
    pause: Duration,
}

impl Room {
    /// A shortage begins.
    fn begin_shortage(&mut self, now: Instant, shortage: RoomShortage) {
        let is_soon = self.again_at.is_some_and(|again_at| now.since(again_at) < self.pause);
        self.pause = if is_soon { (self.pause * 2).min(LONGEST_PAUSE) } else { FIRST_PAUSE };
        self.shortage = Some(shortage);
    }

    /// Whether enough time has passed since the last failure to try again.
    fn is_to_be_tried(&self, now: Instant) -> bool {
        let failed_at = self.shortage.as_ref().and_then(|shortage| shortage.failed_at);
        failed_at.is_some_and(|failed_at| now.since(failed_at) >= self.pause)
    }
}

impl<T: Transport<H>, H: Hosts> Engine<T, H> {
    /// Whether room for connections with hosts is short.
    pub(super) fn is_short(&self) -> bool {
        self.room.shortage.is_some()
    }

    /// Whether there is room for a connection with a host.
    pub(super) fn has_room(&self) -> bool {
        // Where there is plenty, the host need not look.
        !self.is_short() || self.hosts.has_room()
    }

    /// The host has refused a connection for want of room: new connections go end to end until an eighth of those that are relayed have
    /// ended, others have left plenty, or none has been refused for a while.
    pub fn out_of_room(&mut self, now: Instant) {
        match &mut self.room.shortage {
            Some(shortage) => shortage.failed_at = shortage.failed_at.map(|_| now),
            None => self.begin_room_shortage(now, Some(now)),
        }
    }

    /// `tcp` is new: the host says whether little room is left.
    pub(super) fn look_at_room(&mut self, now: Instant, tcp: &H::Connection) {
        if !self.hosts.is_scarce(tcp) {
            return;
        }
        match &mut self.room.shortage {
            Some(shortage) => (shortage.failed_at, shortage.is_host_wide) = (None, false),
            None => self.begin_room_shortage(now, None),
        }
    }

    fn begin_room_shortage(&mut self, now: Instant, failed_at: Option<Instant>) {
        let is_host_wide = self.hosts.has_plenty();
        let connections = self.connections.len();
        self.room.begin_shortage(now, RoomShortage { connections, is_host_wide, plenty_since: None, failed_at });
        self.notices.push_back(Notice::RoomShort { is_host_wide });
        self.interception_changed = true;
    }

    /// A connection has ended.
    pub(super) fn look_at_room_again(&mut self, now: Instant) {
        let then = self.room.shortage.as_ref().map(|shortage| shortage.connections);
        if then.is_some_and(|then| self.connections.len() <= then - then.div_ceil(8)) {
            self.end_room_shortage(now);
        }
    }

    fn end_room_shortage(&mut self, now: Instant) {
        self.notices.push_back(Notice::RoomAgain);
        (self.room.shortage, self.room.again_at) = (None, Some(now));
        self.interception_changed = true;
    }

    /// Looks whether there has been plenty of room for a while: what took it need not have been connections that are relayed. What the
    /// whole host is short of is not counted here; after a while it is tried, unless this process has no room either.
    fn look_at_plenty(&mut self, now: Instant) {
        if self.room.is_to_be_tried(now) && self.hosts.has_room() {
            return self.end_room_shortage(now);
        }
        let of_process = self.room.shortage.as_mut().filter(|shortage| !shortage.is_host_wide);
        let Some(shortage) = of_process else { return };
        if !self.hosts.has_plenty() {
            shortage.plenty_since = None;
        } else if now.since(*shortage.plenty_since.get_or_insert(now)) >= LASTS {
            self.end_room_shortage(now);
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
