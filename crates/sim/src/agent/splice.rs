//! The middle of a connection that a pair of gateways splits in three (Velenis et al. 2003, section 2).
//!
//! ```text
//!  client ──► ENTRY_HOST │ ENTRY_HOP ──── satellite ──── EXIT_HOP │ EXIT_HOST ──► server
//!                 gateway near the client          gateway near the server
//! ```

use super::{Outcome, Progress};
use crate::NodeId;
use crate::packet::{Body, Parcel};
use crate::satpep2003::{ConnectionId, Opening};
use crate::wire::{Path, Wire};
use std::sync::Arc;
use tcp::{Config, Connection, Event, Flags, Segment};
use units::{Bytes, Instant};

/// The entry gateway's end of the hop; packets towards the server have odd ports.
pub(crate) const ENTRY_HOP: u32 = 0;
/// Its end towards the client.
pub(crate) const ENTRY_HOST: u32 = 1;
/// The exit gateway's end towards the server.
pub(crate) const EXIT_HOST: u32 = 2;
/// Its end of the hop.
pub(crate) const EXIT_HOP: u32 = 3;

/// The other connection of the same gateway.
const fn partner(port: u32) -> u32 {
    port ^ 1
}

/// Where a splice is in the network, by port.
#[derive(Debug, Clone)]
pub(crate) struct Splicing {
    pub(crate) timer: u32,
    pub(crate) nodes: [NodeId; 4],
    pub(crate) paths: [Path; 4],
    pub(crate) peers: [(u32, u32); 4],
    pub(crate) opening: Opening,
    /// What divides the link into each end of the hop: the entry's, the exit's.
    pub(crate) allocators: [u32; 2],
}

/// Four ends: two at each gateway.
#[derive(Debug)]
pub(crate) struct Splice {
    place: Splicing,
    ends: [End; 4],
    /// Payload of a full segment on the hop, in bytes.
    hop_mss: u64,
}

#[derive(Debug)]
struct End {
    connection: Connection,
    /// It has connected, or has been given the SYN that it answers.
    has_begun: bool,
    /// A SYN that is answered once the connection further on is open.
    held: Option<Segment>,
    /// The peer's last byte has arrived.
    peer_finished: bool,
    /// Its own last byte is written.
    finished: bool,
    /// At an end of the hop: its place among those that share the link.
    grant: Option<ConnectionId>,
}

impl Splice {
    pub(crate) fn new(place: Splicing, hop: &Arc<Config>, host: &Arc<Config>) -> Self {
        let connect = |config: &Arc<Config>| End::new(Connection::connect(config.clone(), Instant::ZERO));
        let listen = |config: &Arc<Config>| End::new(Connection::listen(config.clone()));
        Self { place, ends: [connect(hop), listen(host), connect(host), listen(hop)], hop_mss: u64::from(hop.mss) }
    }

    pub(crate) fn handle_segment(&mut self, wire: &mut Wire, port: u32, segment: &Segment) -> Progress {
        let end = &mut self.ends[port as usize];
        if !end.has_begun {
            if segment.has(Flags::SYN) && end.held.is_none() {
                end.held = Some(*segment);
                self.open(wire, port);
            }
        } else {
            end.connection.handle_segment(wire.now, segment);
            if let Some(grant) = end.grant.filter(|_| segment.len > 0) {
                let now = wire.now;
                wire.allocator(self.allocator(port)).on_data(now, grant);
            }
        }
        self.serve(wire, port);
        Progress::GoesOn
    }

    /// One of the four deadlines is due.
    pub(crate) fn handle_timeout(&mut self, wire: &mut Wire) -> Progress {
        for port in [ENTRY_HOP, ENTRY_HOST, EXIT_HOST, EXIT_HOP] {
            let end = &mut self.ends[port as usize];
            if end.deadline() <= wire.now {
                end.connection.handle_timeout(wire.now);
                self.serve(wire, port);
            }
        }
        wire.reset(self.place.timer, self.deadline());
        Progress::GoesOn
    }

    /// What the two ends of the hop have sent.
    pub(crate) fn outcome(&self) -> Outcome {
        let counters = [ENTRY_HOP, EXIT_HOP].map(|port| self.ends[port as usize].connection.metrics().counters);
        let sum = |count: fn(&tcp::Counters) -> u64| counters.iter().map(count).sum();
        Outcome {
            data_packets: sum(|counters| counters.data_segments),
            retransmissions: sum(|counters| counters.retransmissions),
            rtos: sum(|counters| counters.timeouts),
            ..Outcome::default()
        }
    }

    fn allocator(&self, port: u32) -> u32 {
        self.place.allocators[usize::from(port == EXIT_HOP)]
    }

    fn deadline(&self) -> Instant {
        self.ends.iter().map(End::deadline).min().unwrap_or(Instant::FAR_FUTURE)
    }

    /// A SYN waits at `port`: the next connection on the way opens.
    fn open(&mut self, wire: &mut Wire, port: u32) {
        let next = partner(port);
        self.ends[next as usize].has_begun = true;
        if next == ENTRY_HOP {
            self.take_part(wire, next);
        }
        if self.place.opening == Opening::Spoof {
            self.answer(wire, port);
        }
    }

    /// The SYN that waits at `port` is answered.
    fn answer(&mut self, wire: &mut Wire, port: u32) {
        let Some(syn) = self.ends[port as usize].held.take() else { return };
        if port == EXIT_HOP {
            self.take_part(wire, port);
        }
        let end = &mut self.ends[port as usize];
        end.has_begun = true;
        end.connection.handle_segment(wire.now, &syn);
    }

    /// The connection shares the link into this end of the hop from now on.
    fn take_part(&mut self, wire: &mut Wire, port: u32) {
        let packet = Bytes::new(self.hop_mss + u64::from(tcp::BARE_HEADER));
        let now = wire.now;
        self.ends[port as usize].grant = Some(wire.allocator(self.allocator(port)).open(now, packet));
    }

    /// Moves what there is to move in the gateway of `port`, sends it, and arms the timer.
    fn serve(&mut self, wire: &mut Wire, port: u32) {
        while let Some((port, event)) = self.poll_event(port) {
            self.handle_event(wire, port, event);
        }
        self.pump(wire.now, port, partner(port));
        self.pump(wire.now, partner(port), port);
        self.transmit(wire, port);
        self.transmit(wire, partner(port));
        wire.arm(self.place.timer, self.deadline());
    }

    /// The next event at the gateway of `port`.
    fn poll_event(&mut self, port: u32) -> Option<(u32, Event)> {
        [port, partner(port)]
            .into_iter()
            .find_map(|port| Some((port, self.ends[port as usize].connection.poll_event()?)))
    }

    fn handle_event(&mut self, wire: &mut Wire, port: u32, event: Event) {
        match event {
            Event::Connected => self.answer(wire, partner(port)),
            Event::PeerFinished => self.ends[port as usize].peer_finished = true,
            Event::Readable | Event::Writable => {}
            Event::Closed => self.leave(wire, port),
            Event::Failed(_) => {
                self.leave(wire, port);
                // A client that still waits for its answer is refused.
                self.answer(wire, partner(port));
                self.ends[partner(port) as usize].connection.abort();
            }
        }
    }

    fn leave(&mut self, wire: &mut Wire, port: u32) {
        if let Some(grant) = self.ends[port as usize].grant.take() {
            wire.allocator(self.allocator(port)).close(grant);
        }
    }

    /// What has arrived at `from` goes on at `to`, as far as that takes it; and the end, once all has.
    fn pump(&mut self, now: Instant, from: u32, to: u32) {
        let space = self.ends[to as usize].connection.write_space();
        let end = &mut self.ends[from as usize];
        let bytes = end.connection.readable().min(space);
        let is_over = end.peer_finished && bytes == end.connection.readable();
        if bytes > 0 {
            end.connection.read(now, bytes);
            self.ends[to as usize].connection.write(bytes);
        }
        let to = &mut self.ends[to as usize];
        if is_over && !std::mem::replace(&mut to.finished, true) {
            to.connection.finish();
        }
    }

    fn transmit(&mut self, wire: &mut Wire, port: u32) {
        if !self.ends[port as usize].has_begun {
            return;
        }
        if let Some(grant) = self.ends[port as usize].grant {
            let now = wire.now;
            let window = wire.allocator(self.allocator(port)).window(now, grant) * self.hop_mss;
            self.ends[port as usize].connection.set_granted_window(window);
        }
        let (agent, peer) = self.place.peers[port as usize];
        while let Some(segment) = self.ends[port as usize].connection.poll_transmit(wire.now) {
            let size = segment.len + u32::from(segment.header);
            let parcel = Parcel { agent, port: peer, body: Body::Tcp(segment) };
            wire.data_packets += u64::from(segment.len > 0);
            wire.send(self.place.nodes[port as usize], self.place.paths[port as usize], size, parcel);
        }
    }
}

impl End {
    fn new(connection: Connection) -> Self {
        Self { connection, has_begun: false, held: None, peer_finished: false, finished: false, grant: None }
    }

    fn deadline(&self) -> Instant {
        let deadline = if self.has_begun { self.connection.next_timeout() } else { None };
        deadline.unwrap_or(Instant::FAR_FUTURE)
    }
}
