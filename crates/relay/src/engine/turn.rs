//! One connection's turn: bytes from TCP into the stream, bytes from the stream to TCP.

use super::accounts::Direction;
use super::{ConnectReply, EndCause, Engine, Hosts, Notice, Progress, ReceivedRequest, Relayed, Transport};
use crate::classes::Class;
use crate::connect::ConnectRequest;
use crate::connection::{Event, State};
use peering::ResetReason;
use units::Instant;

impl<T: Transport<H>, H: Hosts> Engine<T, H> {
    /// Gives connections their turn, in the order in which they asked: `turns` at most, and where few ask, a few each, so
    /// that a wake does not cost more than what it moves.
    pub fn run(&mut self, now: Instant, turns: usize) {
        const TURNS_EACH: usize = 4;
        for _ in 0..turns.min(TURNS_EACH * self.work.len()) {
            let Some(key) = self.work.pop_front() else { return };
            // It may have ended since it was queued; then its place may also belong to another connection by now,
            // which loses nothing by an early turn.
            if let Some(connection) = self.connections.get_mut(key) {
                connection.is_queued = false;
                self.turn(now, key);
            }
        }
    }

    fn turn(&mut self, now: Instant, key: usize) {
        if self.state(key) == State::Opening && !self.read_request(now, key) {
            return;
        }
        if self.state(key).awaits_answer() && !self.read_reply(now, key) {
            return;
        }
        if self.state(key) == State::Resetting {
            return self.discard_received(now, key);
        }
        let mut more = false;
        if self.state(key).reads_tcp() {
            match self.read_tcp(now, key) {
                Progress::More => more = true,
                Progress::Blocked => {}
                Progress::Ended if self.is_cut_off(key) => return self.apply(now, key, Event::TcpReset),
                Progress::Ended => {
                    self.apply(now, key, Event::TcpFin);
                    // The news of a reset behind the FIN has come by now, if there was one.
                    let has_failed = |connection: &Relayed<T::Stream, H>| {
                        connection.host_write_failed
                            || connection.tcp.as_ref().is_some_and(|tcp| self.hosts.has_failed(tcp))
                    };
                    if self.connections.get(key).is_some_and(has_failed) {
                        return self.apply(now, key, Event::TcpReset);
                    }
                }
                Progress::TcpFailed => return self.apply(now, key, Event::TcpReset),
                Progress::StreamFailed(reason) => return self.stream_failed(now, key, reason),
            }
        }
        if self.connections.get(key).is_some_and(Relayed::writes_tcp) {
            match self.move_bytes(now, key, Direction::ToTcp) {
                Progress::More => more = true,
                Progress::Blocked => {}
                Progress::Ended => return self.apply(now, key, Event::StreamFin),
                // What the host sent before its reset may still wait to be read.
                Progress::TcpFailed if self.state(key).reads_tcp() => {
                    self.connections[key].host_write_failed = true;
                    self.watch_end(now, key);
                    more = true;
                }
                Progress::TcpFailed => return self.apply(now, key, Event::TcpReset),
                Progress::StreamFailed(reason) => return self.stream_failed(now, key, reason),
            }
        }
        if more && self.connections.contains(key) {
            self.enqueue(key);
        }
    }

    /// Bytes from TCP into the stream, or to nobody if the stream was reset: a host that is not read may not read either, and would not be
    /// seen to give up.
    fn read_tcp(&mut self, now: Instant, key: usize) -> Progress {
        if !self.state(key).has_answer() || self.transport.takes_data(self.connections[key].stream) {
            return self.move_bytes(now, key, Direction::ToStream);
        }
        self.watch_end(now, key);
        let connection = &mut self.connections[key];
        connection.tcp.as_mut().map_or(Progress::Blocked, |tcp| self.hosts.discard_received(tcp))
    }

    /// Reads what the host of connection `key` still sends although the stream is gone.
    fn discard_received(&mut self, now: Instant, key: usize) {
        let connection = &mut self.connections[key];
        let progress = connection.tcp.as_mut().map_or(Progress::Blocked, |tcp| self.hosts.discard_received(tcp));
        match progress {
            Progress::More => self.enqueue(key),
            Progress::TcpFailed => self.apply(now, key, Event::TcpReset),
            Progress::Blocked | Progress::Ended | Progress::StreamFailed(_) => {}
        }
    }

    /// Whether what was read of TCP ended by a reset, and not by a FIN.
    fn is_cut_off(&self, key: usize) -> bool {
        self.connections[key].tcp.as_ref().is_some_and(|tcp| self.hosts.is_cut_off(tcp))
    }

    fn stream_failed(&mut self, now: Instant, key: usize, reason: ResetReason) {
        self.notices.push_back(Notice::StreamFailed(self.connections[key].request, reason));
        self.on_stream_reset(now, key, reason);
    }

    /// Reads on in the connect request. Returns whether the connection is still there.
    fn read_request(&mut self, now: Instant, key: usize) -> bool {
        let (stream, peer) = (self.connections[key].stream, self.connections[key].peer);
        match self.transport.read_request(now, stream) {
            ReceivedRequest::Waiting => {}
            ReceivedRequest::NoConnection => self.let_go(key),
            ReceivedRequest::Ended => {
                self.count_failed(key, |counters| &mut counters.protocol_errors);
                self.apply(now, key, Event::StreamFin);
            }
            ReceivedRequest::Malformed(error) => {
                self.count_failed(key, |counters| &mut counters.protocol_errors);
                self.notices.push_back(Notice::BadRequest { peer, error });
                self.apply(now, key, Event::RequestDenied(ResetReason::Protocol));
            }
            ReceivedRequest::Complete(request) => self.on_open(now, key, request),
        }
        self.connections.contains(key)
    }

    /// The connect request of connection `key` is complete.
    fn on_open(&mut self, now: Instant, key: usize, request: ConnectRequest) {
        let connection = &mut self.connections[key];
        connection.request = Some(request);
        let (stream, peer) = (connection.stream, connection.peer);
        match self.peers[peer].policy.check(&request) {
            Ok(()) => {
                self.settle_class(key);
                if let Some(class) = Class::find(&self.settings.classes, &request) {
                    self.transport.classify(now, stream, class);
                }
                self.apply(now, key, Event::RequestValid);
            }
            Err(denial) => {
                self.count_failed(key, |counters| &mut counters.denied);
                self.notices.push_back(Notice::Denied { peer, request, denial });
                self.apply(now, key, Event::RequestDenied(ResetReason::Denied));
            }
        }
    }

    /// Reads the far gateway's answer if it is there. Returns whether the connection is still there.
    fn read_reply(&mut self, now: Instant, key: usize) -> bool {
        let connection = &self.connections[key];
        // Without a far gateway, nobody else counts.
        let is_direct = self.peers[connection.peer].settings.is_direct;
        let event = match self.transport.read_reply(now, connection.stream) {
            ConnectReply::Waiting => return true,
            ConnectReply::Connected => {
                self.counters.connected += u64::from(is_direct);
                let open_time = now.since(connection.asked);
                self.accounts.at(connection.account).open_time.record(open_time);
                self.connections[key].opened = Some(now);
                Event::Answered
            }
            ConnectReply::Failed(reason) => {
                self.notices.push_back(Notice::NotConnected(connection.request, reason));
                self.connections[key].cause = Some(EndCause::NotConnected(reason));
                if is_direct {
                    self.count_not_connected(key, reason);
                }
                Event::StreamReset
            }
            ConnectReply::Ended => Event::StreamFin,
            ConnectReply::Malformed => Event::ProtocolError,
        };
        if matches!(event, Event::StreamFin | Event::ProtocolError) {
            self.count_failed(key, |counters| &mut counters.protocol_errors);
        }
        self.apply(now, key, event);
        self.connections.contains(key)
    }

    fn move_bytes(&mut self, now: Instant, key: usize, direction: Direction) -> Progress {
        let connection = &mut self.connections[key];
        let Some(tcp) = &mut connection.tcp else { return Progress::Blocked };
        let (count, progress) = match direction {
            Direction::ToStream => {
                let (count, progress) = self.transport.send(now, connection.stream, &mut self.hosts, tcp);
                connection.from_tcp += count;
                self.counters.bytes_from_tcp += count;
                (count, progress)
            }
            Direction::ToTcp => {
                let (count, progress) = self.transport.receive(now, connection.stream, &mut self.hosts, tcp);
                connection.to_tcp += count;
                self.counters.bytes_to_tcp += count;
                (count, progress)
            }
        };
        let account = self.accounts.at(connection.account);
        account.moved(direction, count);
        let waits = progress == Progress::Blocked
            && match direction {
                Direction::ToStream => self.hosts.has_data(tcp),
                Direction::ToTcp => self.hosts.is_full(tcp),
            };
        let stalled_since = &mut connection.stalled_since[direction as usize];
        if let Some(since) = stalled_since.filter(|_| count > 0) {
            account.stalled(direction, now.since(since));
            *stalled_since = None;
        }
        *stalled_since = if waits { stalled_since.or(Some(now)) } else { None };
        progress
    }
}
