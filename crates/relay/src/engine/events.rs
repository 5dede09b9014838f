//! What the adapter reports, and which transition of [`crate::connection`] follows.

use super::connection::{Counted, Moved};
use super::{
    ConnectError, EndCause, Engine, FIRST_LOOK, HANDSHAKE_TIMEOUT, Hosts, NO_PROGRESS, Notice, REQUEST_TIMEOUT,
    Relayed, StreamEvent, Transport, ends,
};
use crate::connect::ConnectRequest;
use crate::connection::{Action, Event, State};
use peering::ResetReason;
use units::{Duration, Instant};

impl<T: Transport<H>, H: Hosts> Engine<T, H> {
    /// A client has connected: its data go to the far gateway at once.
    pub fn accept(&mut self, now: Instant, tcp: H::Connection, request: ConnectRequest) {
        if self.holds_syns && (self.unaccepted.contains_key(&ends(&request)) || self.has_failed(now, &request)) {
            return self.accept_released(now, tcp, &request);
        }
        self.look_at_room(now, &tcp);
        // Its peer may have ceased to answer a moment ago: what is intercepted follows that, and this client is connected.
        let peer = self.settings.routes.peer_of(request.destination.ip());
        // One that no peer can be asked for would wait in vain, and all clients behind it.
        match peer.filter(|_| request.can_be_made()) {
            Some(at) => self.relay_or_wait(now, at, tcp, request),
            None => {
                self.note_unavailable(now, now, request);
                self.hosts.abort(now, tcp);
            }
        }
    }

    /// A client wants to connect; its SYN is held until the server has answered.
    pub fn hold(&mut self, now: Instant, syn: H::Syn, request: ConnectRequest) {
        self.failed.remove(&ends(&request));
        if let Some(&key) = self.unaccepted.get(&ends(&request)) {
            return match self.state(key) {
                // The first was lost on its way to the listener, or the listener's answer was.
                State::Released => self.hosts.release_syn(syn),
                _ => self.hosts.forget_syn(syn),
            };
        }
        let opened = if request.can_be_made() { self.open_stream(now, &request) } else { None };
        let Some((stream, peer)) = opened else {
            // The client sends another SYN, which finds a stream or goes end to end.
            if request.can_be_made() && self.settings.routes.peer_of(request.destination.ip()).is_some() {
                return self.hosts.forget_syn(syn);
            }
            self.note_unavailable(now, now, request);
            return self.hosts.refuse_syn(syn);
        };
        let mut connection = Relayed::new(State::Confirming, stream, peer, true, now);
        (connection.request, connection.syn) = (Some(request), Some(syn));
        let key = self.insert(connection);
        self.settle_class(key);
        self.unaccepted.insert(ends(&request), key);
        // The far gateway gives up first, and says why.
        self.set_deadline(key, Some(now + self.settings.connect_timeout + REQUEST_TIMEOUT));
    }

    /// Whether the client's SYN was held and its connection has failed since. The SYN of any other client without an entry was held by
    /// another process, or by none (a firewall that lost the rule), and the client is relayed as it comes.
    fn has_failed(&mut self, now: Instant, request: &ConnectRequest) -> bool {
        self.failed.remove(&ends(request)).is_some_and(|until| now < until)
    }

    /// A client has connected after its SYN was released.
    fn accept_released(&mut self, now: Instant, tcp: H::Connection, request: &ConnectRequest) {
        match self.unaccepted.get(&ends(request)) {
            Some(&key) if self.state(key) == State::Released => {
                self.unaccepted.remove(&ends(request));
                self.set_deadline(key, None);
                self.counters.accepted += 1;
                self.connections[key].counted = Counted::Open;
                self.apply(now, key, Event::Accepted);
                self.attach(now, key, tcp);
            }
            // Its server's answer has come to nothing meanwhile: the notice of that says why.
            _ => {
                self.counters.unavailable += 1;
                self.hosts.abort(now, tcp);
            }
        }
    }

    /// Leaves clients whose SYN is held to another process: they send another SYN within a second or so.
    pub fn leave_held_syns(&mut self, now: Instant) {
        self.leave_syns(now, |_, connection| connection.is_unaccepted());
        self.holds_syns = false;
    }

    /// Leaves clients whose SYN is held while their peer takes no connections. Their next SYN goes end to end: if a held one were released
    /// after it, the server would be asked for two connections of the same addresses and ports.
    pub fn leave_unserved_syns(&mut self, now: Instant) {
        self.leave_syns(now, |engine, held| held.state == State::Confirming && !engine.transport.invites(held.peer));
    }

    /// Leaves all clients whose SYN is held: whether their next SYN is intercepted is decided again.
    pub fn decide_syns_again(&mut self, now: Instant) {
        self.leave_syns(now, |_, held| held.state == State::Confirming);
    }

    fn leave_syns(&mut self, now: Instant, is_left: impl Fn(&Self, &Relayed<T::Stream, H>) -> bool) {
        let left = self.connections.iter().filter(|(_, connection)| is_left(self, connection));
        let keys: Vec<usize> = left.map(|(key, _)| key).collect();
        for key in keys {
            if let Some(syn) = self.connections[key].syn.take() {
                self.hosts.forget_syn(syn);
            }
            self.apply(now, key, Event::Shutdown);
        }
    }

    /// What the transport has reported.
    pub fn on_stream_event(&mut self, now: Instant, event: StreamEvent<T::Stream>) {
        let key_of = |stream| self.by_stream.get(&stream).copied();
        match event {
            StreamEvent::PeersChanged => self.wake_waiting(),
            StreamEvent::Opened(stream, peer) => {
                let key = self.insert(Relayed::new(State::Opening, stream, peer, false, now));
                self.set_deadline(key, Some(now + REQUEST_TIMEOUT));
                self.enqueue(key);
            }
            StreamEvent::Ready(stream) => {
                if let Some(key) = key_of(stream) {
                    self.enqueue(key);
                }
            }
            StreamEvent::Reset(stream, reason) => {
                // A transport may say again what is known.
                if let Some(key) = key_of(stream).filter(|key| self.state(*key) != State::Resetting) {
                    let stream = self.transport.number(stream);
                    self.notices.push_back(Notice::ResetByPeer { stream, reason });
                    self.on_stream_reset(now, key, reason);
                }
            }
            StreamEvent::EndedBeforeReset(stream) => {
                if let Some(key) = key_of(stream).filter(|key| self.state(*key).reads_stream()) {
                    self.apply(now, key, Event::StreamFin);
                }
            }
            // A connection that is still in the table has yet to learn of the end that came with the last byte it read.
            StreamEvent::Closed(stream) => {
                if let Some(key) = key_of(stream) {
                    self.apply(now, key, Event::StreamFin);
                }
            }
        }
    }

    /// The stream of connection `key` was reset. TCP follows once its host has acknowledged what the stream brought: TCP drops what waits
    /// when it is reset.
    pub(super) fn on_stream_reset(&mut self, now: Instant, key: usize, reason: ResetReason) {
        let state = self.state(key);
        if state == State::Resetting {
            return;
        }
        let connection = &mut self.connections[key];
        connection.cause = Some(EndCause::of_stream(state, reason));
        let unacknowledged = connection.tcp.as_ref().map_or(0, |tcp| self.hosts.unacknowledged(tcp));
        if unacknowledged > 0 && state.has_answer() {
            (connection.progress, connection.progress_at) = (Some(unacknowledged), now);
            self.apply(now, key, Event::StreamResetUnacked);
            self.set_deadline(key, Some(now + FIRST_LOOK));
            self.enqueue(key);
        } else {
            self.apply(now, key, Event::StreamReset);
        }
    }

    /// Resets TCP of connection `key` if its host has acknowledged all that the stream brought before its reset, or does not go on.
    fn look_at_unacknowledged(&mut self, now: Instant, key: usize) {
        let connection = &mut self.connections[key];
        let left = connection.tcp.as_ref().map_or(0, |tcp| self.hosts.unacknowledged(tcp));
        if connection.progress.is_none_or(|before| left < before) {
            (connection.progress, connection.progress_at) = (Some(left), now);
        }
        let waited = now.since(connection.progress_at);
        if left > 0 && waited < NO_PROGRESS {
            self.set_deadline(key, Some(now + (waited / 2).max(FIRST_LOOK)));
        } else {
            self.apply(now, key, Event::HostHasAll);
        }
    }

    /// One of the hosts of connection `key` has reset its connection, and what it sent before is under way: it ends if that does not go on.
    pub(super) fn watch_end(&mut self, now: Instant, key: usize) {
        let connection = &self.connections[key];
        if connection.before_end.is_none() && connection.state.has_answer() {
            self.connections[key].before_end = Some(self.moved(key));
            self.set_deadline(key, Some(now + NO_PROGRESS));
        }
    }

    /// How far the bytes of connection `key` have come.
    fn moved(&self, key: usize) -> Moved {
        let connection = &self.connections[key];
        let of_host = connection.tcp.as_ref().map_or(0, |tcp| self.hosts.unacknowledged(tcp));
        Moved {
            bytes: connection.from_tcp + connection.to_tcp,
            unacknowledged: [of_host, self.transport.unacknowledged(connection.stream)],
        }
    }

    /// Ends connection `key`, of which one host has reset its connection, unless bytes have been moved or acknowledged of late. Returns whether it
    /// was such.
    fn look_at_end(&mut self, now: Instant, key: usize) -> bool {
        let Some(before) = self.connections[key].before_end else { return false };
        let moved = self.moved(key);
        let connection = &mut self.connections[key];
        if moved.goes_on_from(&before) {
            connection.before_end = Some(moved);
            self.set_deadline(key, Some(now + NO_PROGRESS));
            return true;
        }
        if !self.transport.takes_data(connection.stream) {
            connection.cause = Some(EndCause::StreamReset(ResetReason::Aborted));
        }
        self.apply(now, key, Event::TcpReset);
        true
    }

    /// Resets streams of which what was sent before their host's reset does not go on to arrive.
    fn look_at_resetting(&mut self, now: Instant) {
        while let Some(&(stream, before, _)) = self.resetting.front().filter(|(_, _, due)| *due <= now) {
            self.resetting.pop_front();
            match self.transport.undelivered(stream) {
                Some(left) if left < before => self.resetting.push_back((stream, left, now + NO_PROGRESS)),
                Some(_) => self.transport.reset(now, stream, ResetReason::Aborted),
                None => {}
            }
        }
    }

    /// TCP of connection `key` was reset or has failed; what its host sent before may wait to be read.
    pub fn on_tcp_failing(&mut self, now: Instant, key: usize) {
        if self.connections.contains(key) {
            self.watch_end(now, key);
            self.enqueue(key);
        }
    }

    /// TCP of connection `key` may be able to move bytes.
    pub fn on_ready(&mut self, key: usize) {
        if self.connections.contains(key) {
            self.enqueue(key);
        }
    }

    /// TCP of connection `key` was reset or has failed.
    pub fn on_tcp_failed(&mut self, now: Instant, key: usize) {
        if self.connections.contains(key) {
            self.apply(now, key, Event::TcpReset);
        }
    }

    /// The server of connection `key` has accepted.
    pub fn on_connected(&mut self, now: Instant, key: usize) {
        if !self.connections.contains(key) {
            return;
        }
        self.set_deadline(key, None);
        self.counters.connected += 1;
        self.connections[key].counted = Counted::Open;
        self.connections[key].opened = Some(now);
        self.apply(now, key, Event::TcpConnected);
        self.on_ready(key);
    }

    /// The server of connection `key` cannot be reached, or refuses.
    pub fn on_connect_failed(&mut self, now: Instant, key: usize, reason: ResetReason) {
        if !self.connections.contains(key) {
            return;
        }
        self.count_not_connected(key, reason);
        self.apply(now, key, Event::TcpFailed(reason));
    }

    /// Counts connection `key`, whose server cannot be reached, or refuses.
    pub(super) fn count_not_connected(&mut self, key: usize, reason: ResetReason) {
        self.count_failed(key, |counters| match reason {
            ResetReason::Refused => &mut counters.refused,
            _ => &mut counters.unreachable,
        });
    }

    /// Ends connections whose state has lasted too long.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.look_at_resetting(now);
        while let Some(&(at, key)) = self.deadlines.first().filter(|(at, _)| *at <= now) {
            self.deadlines.remove(&(at, key));
            self.connections[key].deadline = None;
            match self.state(key) {
                State::Resetting => {
                    self.look_at_unacknowledged(now, key);
                    continue;
                }
                State::Connecting => self.count_failed(key, |counters| &mut counters.unreachable),
                state if state.has_answer() && self.look_at_end(now, key) => continue,
                _ => {}
            }
            self.apply(now, key, Event::Timeout);
        }
    }

    /// From time to time, ends connections whose host has vanished with data in flight. Keepalive notices those that vanish while
    /// idle, but TCP itself sends data again for a quarter of an hour.
    pub fn sweep(&mut self, now: Instant) {
        if now < self.next_sweep {
            return;
        }
        self.failed.retain(|_, until| now < *until);
        let limit = self.settings.user_timeout;
        let period = (limit / 4).min(Duration::from_secs(10));
        self.next_sweep = now + period;
        let mut vanished = Vec::new();
        for (key, connection) in &mut self.connections {
            let Some(tcp) = connection.tcp.as_mut().filter(|_| connection.state != State::Connecting) else { continue };
            if self.hosts.is_gone(now, tcp, period, limit) {
                vanished.push(key);
            }
        }
        for key in vanished {
            self.notices.push_back(Notice::HostVanished(self.connections[key].request));
            self.connections[key].cause = Some(EndCause::HostVanished);
            self.apply(now, key, Event::TcpReset);
        }
    }

    /// Opens a stream towards the peer behind `request.destination`.
    pub(super) fn open_stream(&mut self, now: Instant, request: &ConnectRequest) -> Option<(T::Stream, usize)> {
        let peer = self.settings.routes.peer_of(request.destination.ip()).filter(|at| self.transport.is_up(*at))?;
        let class = crate::classes::Class::find(&self.settings.classes, request);
        let stream = self.transport.open(now, peer, request, class);
        self.look_at_streams(peer);
        Some((stream?, peer))
    }

    /// Relays the connection `request` of the client `tcp`, which connected at `asked`; returns it if there is no stream for it.
    pub(super) fn relay(
        &mut self,
        now: Instant,
        asked: Instant,
        tcp: H::Connection,
        request: ConnectRequest,
    ) -> Option<H::Connection> {
        if !self.has_room() {
            return Some(tcp);
        }
        let Some((stream, peer)) = self.open_stream(now, &request) else { return Some(tcp) };
        let mut connection = Relayed::new(State::Requested, stream, peer, true, now);
        (connection.request, connection.asked) = (Some(request), asked);
        connection.counted = Counted::Open;
        let key = self.insert(connection);
        self.settle_class(key);
        self.counters.accepted += 1;
        self.notices.push_back(Notice::Accepted { request, peer });
        self.attach(now, key, tcp);
        None
    }

    /// Gives connection `key` its TCP connection.
    pub(super) fn attach(&mut self, now: Instant, key: usize, tcp: H::Connection) {
        let adopted = self.hosts.adopt(key, &tcp);
        self.connections[key].tcp = Some(tcp);
        match adopted {
            Ok(()) => self.enqueue(key),
            Err(_) => self.apply(now, key, Event::ProtocolError),
        }
    }

    /// Feeds `event` to the state machine of connection `key` and carries out what it says.
    pub(super) fn apply(&mut self, now: Instant, key: usize, event: Event) {
        let from = self.state(key);
        let step = from.on(event).or_else(|unexpected| {
            self.notices.push_back(Notice::Defect(unexpected));
            from.on(Event::ProtocolError)
        });
        let step = step.expect("a protocol error is an event of every state");
        if self.reports_transitions {
            let request = self.connections[key].request;
            self.notices.push_back(Notice::Transition { key, request, from, event, to: step.next });
        }
        self.connections[key].state = step.next;
        for action in step.actions.into_iter().flatten() {
            self.act(now, key, action);
        }
        if step.next == State::Closed {
            let is_orderly = step.actions.contains(&Some(Action::CloseTcp));
            let known = if is_orderly { Some(EndCause::Finished) } else { self.connections[key].cause };
            self.remove(now, key, known.unwrap_or_else(|| EndCause::of(event)));
        }
    }

    fn act(&mut self, now: Instant, key: usize, action: Action) {
        let connection = &mut self.connections[key];
        let stream = connection.stream;
        match action {
            Action::Reply => self.transport.reply(now, stream),
            Action::FinishStream => self.transport.finish(now, stream),
            Action::ResetStream(reason) => self.transport.reset(now, stream, reason),
            Action::ResetStreamBehindData => {
                self.transport.reset_behind_data(now, stream);
                let left = self.transport.undelivered(stream);
                self.resetting.extend(left.map(|left| (stream, left, now + NO_PROGRESS)));
            }
            Action::ShutdownTcp => {
                if let Some(tcp) = &mut connection.tcp {
                    self.hosts.finish(now, tcp);
                }
            }
            Action::ResetTcp => {
                if let Some(tcp) = connection.tcp.take() {
                    self.hosts.abort(now, tcp);
                }
            }
            Action::CloseTcp => {
                if let Some(tcp) = connection.tcp.take() {
                    self.hosts.close(now, tcp);
                }
            }
            Action::Connect => {
                self.set_deadline(key, Some(now + self.settings.connect_timeout));
                self.connect_in_turn(now, key);
            }
            Action::ReleaseSyn => {
                if let Some(syn) = connection.syn.take() {
                    self.hosts.release_syn(syn);
                }
                self.set_deadline(key, Some(now + HANDSHAKE_TIMEOUT));
            }
            Action::RefuseSyn => {
                if let Some(syn) = connection.syn.take() {
                    self.hosts.refuse_syn(syn);
                }
            }
        }
    }

    /// Begins to connect to the server of connection `key`. Returns whether there was room for it.
    pub(super) fn connect(&mut self, now: Instant, key: usize) -> bool {
        let connection = &self.connections[key];
        let Some(request) = connection.request else { return true };
        if !self.has_room() {
            return false;
        }
        let as_client = self.peers[connection.peer].settings.connect_as_client;
        match self.hosts.connect(now, key, &request, as_client) {
            Ok(tcp) => {
                self.look_at_room(now, &tcp);
                self.connections[key].tcp = Some(tcp);
                self.enqueue(key);
            }
            Err(ConnectError::NoRoom) => {
                self.out_of_room(now);
                return false;
            }
            Err(ConnectError::Failed(reason)) => self.on_connect_failed(now, key, reason),
        }
        true
    }
}
