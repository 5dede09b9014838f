//! One connection's turn: bytes from the socket into the stream, bytes from the stream to the socket.

use super::{Relays, class_of};
use crate::leg::{Answer, Leg, Opening, Progress};
use relay::connection::{Event, State};
use satpep::ResetReason;
use units::Instant;

impl<L: Leg> Relays<L> {
    /// Gives connections their turn, in the order in which they asked: `turns` at most, and where few ask, a few each, so
    /// that a wake does not cost more than what it moves.
    pub(crate) fn run(&mut self, now: Instant, turns: usize) {
        const TURNS_EACH: usize = 4;
        for _ in 0..turns.min(TURNS_EACH * self.work.len()) {
            let Some(key) = self.work.pop_front() else { return };
            // It may have ended since it was queued; then its place may also belong to another connection by now,
            // which loses nothing by an early turn.
            if let Some(connection) = self.connections.get_mut(key) {
                connection.queued = false;
                self.turn(now, key);
            }
        }
    }

    fn turn(&mut self, now: Instant, key: usize) {
        if self.connections[key].state == State::Opening && !self.read_opening(now, key) {
            return;
        }
        if self.connections[key].state.awaits_answer() && !self.read_answer(now, key) {
            return;
        }
        let mut more = false;
        if self.connections[key].state.reads_tcp() {
            match self.tcp_to_stream(now, key) {
                Progress::More => more = true,
                Progress::Blocked => {}
                Progress::Ended => self.apply(now, key, Event::TcpFin),
                Progress::TcpFailed => return self.apply(now, key, Event::TcpReset),
                Progress::StreamFailed(reason) => return self.stream_failed(now, key, reason),
            }
        }
        if self.connections.get(key).is_some_and(|connection| connection.state.reads_stream()) {
            match self.stream_to_tcp(now, key) {
                Progress::More => more = true,
                Progress::Blocked => {}
                Progress::Ended => return self.apply(now, key, Event::StreamFin),
                Progress::TcpFailed => return self.apply(now, key, Event::TcpReset),
                Progress::StreamFailed(reason) => return self.stream_failed(now, key, reason),
            }
        }
        if more && self.connections.contains(key) {
            self.enqueue(key);
        }
    }

    fn stream_failed(&mut self, now: Instant, key: usize, reason: ResetReason) {
        tracing::debug!(open = ?self.connections[key].open, %reason, "the stream has failed");
        self.apply(now, key, Event::StreamReset);
    }

    /// Reads on in the opening. Returns whether the connection is still there.
    fn read_opening(&mut self, now: Instant, key: usize) -> bool {
        let connection = &mut self.connections[key];
        let (stream, peer) = (connection.stream, &self.peers[connection.peer]);
        match self.leg.read_opening(now, stream) {
            Opening::Waiting => {}
            Opening::NoConnection => self.let_go(key),
            Opening::Ended => {
                self.counters.protocol_errors += 1;
                self.apply(now, key, Event::StreamFin);
            }
            Opening::Malformed(error) => {
                self.counters.protocol_errors += 1;
                tracing::warn!(peer = peer.settings.name, %error, "not a preamble");
                self.apply(now, key, Event::OpenRefused(ResetReason::Protocol));
            }
            Opening::Open(open) => {
                connection.open = Some(open);
                match peer.policy.check(&open) {
                    Ok(()) => {
                        if let Some(class) = class_of(&self.classes, &open) {
                            self.leg.classify(now, stream, class);
                        }
                        self.apply(now, key, Event::OpenValid);
                    }
                    Err(denial) => {
                        self.counters.denied += 1;
                        tracing::warn!(peer = peer.settings.name, client = %open.source, destination = %open.destination, %denial, "denied");
                        self.apply(now, key, Event::OpenRefused(ResetReason::Denied));
                    }
                }
            }
        }
        self.connections.contains(key)
    }

    /// Reads the far side's answer if it is there. Returns whether the connection is still there.
    fn read_answer(&mut self, now: Instant, key: usize) -> bool {
        let connection = &self.connections[key];
        let is_direct = self.peers[connection.peer].settings.public_key.is_none();
        let event = match self.leg.read_answer(now, connection.stream) {
            Answer::Waiting => return true,
            Answer::Connected => {
                // Without a far gateway, nobody else counts.
                self.counters.connected += u64::from(is_direct);
                Event::Answered
            }
            Answer::Failed(reason) => {
                tracing::debug!(open = ?connection.open, %reason, "no connection to the server");
                match reason {
                    ResetReason::Refused => self.counters.refused += u64::from(is_direct),
                    _ => self.counters.unreachable += u64::from(is_direct),
                }
                Event::StreamReset
            }
            Answer::Ended => Event::StreamFin,
            Answer::Malformed => Event::ProtocolError,
        };
        if matches!(event, Event::StreamFin | Event::ProtocolError) {
            self.counters.protocol_errors += 1;
        }
        self.apply(now, key, event);
        self.connections.contains(key)
    }

    fn tcp_to_stream(&mut self, now: Instant, key: usize) -> Progress {
        let connection = &mut self.connections[key];
        let (count, progress) = self.leg.send(now, connection.stream, &mut connection.tcp);
        connection.from_tcp += count;
        self.counters.bytes_from_tcp += count;
        progress
    }

    fn stream_to_tcp(&mut self, now: Instant, key: usize) -> Progress {
        let connection = &mut self.connections[key];
        let (count, progress) = self.leg.receive(now, connection.stream, &mut connection.tcp);
        connection.to_tcp += count;
        self.counters.bytes_to_tcp += count;
        progress
    }
}
