//! One connection's turn: bytes from the socket into the stream's send buffer, bytes from the stream to the socket.

use super::{Connection, Relays};
use relay::connection::{Event, State};
use relay::preamble::CONNECTED;
use satpep::{Endpoint, ResetReason};
use std::io::{self, IoSlice, Read, Write};
use units::Instant;

/// Pieces of the receive buffer that one system call writes.
const SLICES: usize = 64;

/// How far a direction has come in one turn.
#[derive(Debug, PartialEq, Eq)]
enum Progress {
    /// There is more to move.
    More,
    /// Nothing can move until an event says so.
    Blocked,
    /// The last byte has passed, and the end has been seen.
    Ended,
    /// TCP has failed.
    Failed,
}

impl Relays {
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
        if self.connections[key].state == State::Opening && !self.read_preamble(now, key) {
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
                Progress::Failed => return self.apply(now, key, Event::TcpReset),
            }
        }
        if self.connections.get(key).is_some_and(|connection| connection.state.reads_stream()) {
            match self.stream_to_tcp(now, key) {
                Progress::More => more = true,
                Progress::Blocked => {}
                Progress::Ended => return self.apply(now, key, Event::StreamFin),
                Progress::Failed => return self.apply(now, key, Event::TcpReset),
            }
        }
        if more && self.connections.contains(key) {
            self.enqueue(key);
        }
    }

    /// Reads on in the preamble. Returns whether the connection is still there.
    fn read_preamble(&mut self, now: Instant, key: usize) -> bool {
        let connection = &mut self.connections[key];
        let stream = connection.stream;
        let mut slices = [IoSlice::new(&[]); 1];
        if self.endpoint.readable(stream, &mut slices) == 0 {
            if self.endpoint.is_read_finished(stream) {
                self.counters.protocol_errors += 1;
                self.apply(now, key, Event::StreamFin);
                return false;
            }
            return true;
        }
        let (used, open) = match connection.parser.push(&slices[0]) {
            Ok(result) => result,
            Err(error) => {
                self.counters.protocol_errors += 1;
                tracing::warn!(peer = self.peers[connection.peer].settings.name, %error, "not a preamble");
                self.apply(now, key, Event::OpenRefused(ResetReason::Protocol));
                return false;
            }
        };
        self.endpoint.consume(now, stream, used);
        let Some(open) = open else {
            // The rest may lie in the next piece.
            self.enqueue(key);
            return true;
        };
        self.connections[key].open = Some(open);
        let peer = &self.peers[self.connections[key].peer];
        match peer.policy.check(&open) {
            Ok(()) => {
                self.classify(now, stream, &open);
                self.apply(now, key, Event::OpenValid);
            }
            Err(denial) => {
                self.counters.denied += 1;
                tracing::warn!(peer = peer.settings.name, client = %open.source, destination = %open.destination, %denial, "denied");
                self.apply(now, key, Event::OpenRefused(ResetReason::Denied));
            }
        }
        self.connections.contains(key)
    }

    /// Reads the far side's answer if it is there. Returns whether the connection is still there.
    fn read_answer(&mut self, now: Instant, key: usize) -> bool {
        let stream = self.connections[key].stream;
        let mut slices = [IoSlice::new(&[]); 1];
        let event = if self.endpoint.readable(stream, &mut slices) == 0 {
            if !self.endpoint.is_read_finished(stream) {
                return true;
            }
            Event::StreamFin
        } else if slices[0].first() == Some(&CONNECTED) {
            self.endpoint.consume(now, stream, 1);
            Event::Answered
        } else {
            Event::ProtocolError
        };
        if event != Event::Answered {
            self.counters.protocol_errors += 1;
        }
        self.apply(now, key, event);
        self.connections.contains(key)
    }

    fn tcp_to_stream(&mut self, now: Instant, key: usize) -> Progress {
        let connection = &mut self.connections[key];
        let progress = connection.read_into(&mut self.endpoint, now);
        if let Ok((count, progress)) = progress {
            connection.from_tcp += count as u64;
            self.counters.bytes_from_tcp += count as u64;
            return progress;
        }
        Progress::Failed
    }

    fn stream_to_tcp(&mut self, now: Instant, key: usize) -> Progress {
        let connection = &mut self.connections[key];
        let progress = connection.write_from(&mut self.endpoint, now);
        if let Ok((count, progress)) = progress {
            connection.to_tcp += count as u64;
            self.counters.bytes_to_tcp += count as u64;
            return progress;
        }
        Progress::Failed
    }
}

impl Connection {
    /// One read from TCP straight into the stream's send buffer.
    fn read_into(&mut self, endpoint: &mut Endpoint, now: Instant) -> io::Result<(usize, Progress)> {
        let (true, Some(mut socket)) = (self.readable, self.socket.as_ref()) else {
            return Ok((0, Progress::Blocked));
        };
        let mut offered = 0;
        let result = endpoint.write_with(now, self.stream, |buffer| {
            offered = buffer.len();
            if buffer.is_empty() { Ok(0) } else { socket.read(buffer) }
        });
        match result {
            // No room: `Writable` will tell.
            Ok(0) if offered == 0 => Ok((0, Progress::Blocked)),
            Ok(0) => Ok((0, Progress::Ended)),
            Ok(count) => {
                // A short read has emptied the socket; what comes later, the end included, raises a new event.
                self.readable = count == offered || self.read_closed;
                Ok((count, if self.readable { Progress::More } else { Progress::Blocked }))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.readable = false;
                Ok((0, Progress::Blocked))
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok((0, Progress::More)),
            Err(error) => Err(error),
        }
    }

    /// One write to TCP of what the stream offers.
    fn write_from(&mut self, endpoint: &mut Endpoint, now: Instant) -> io::Result<(usize, Progress)> {
        let (true, Some(mut socket)) = (self.writable, self.socket.as_ref()) else {
            return Ok((0, Progress::Blocked));
        };
        let mut slices = [IoSlice::new(&[]); SLICES];
        let filled = endpoint.readable(self.stream, &mut slices);
        if filled == 0 {
            let progress = if endpoint.is_read_finished(self.stream) { Progress::Ended } else { Progress::Blocked };
            return Ok((0, progress));
        }
        let offered: usize = slices[..filled].iter().map(|slice| slice.len()).sum();
        match socket.write_vectored(&slices[..filled]) {
            Ok(count) => {
                endpoint.consume(now, self.stream, count);
                // A short write has filled the socket.
                self.writable = count == offered;
                Ok((count, if self.writable { Progress::More } else { Progress::Blocked }))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.writable = false;
                Ok((0, Progress::Blocked))
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok((0, Progress::More)),
            Err(error) => Err(error),
        }
    }
}
