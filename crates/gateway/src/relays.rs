//! The relayed connections: moves bytes between TCP sockets and streams, and carries out what the state machine of
//! [`relay::connection`] decides.
//!
//! Sockets are registered edge-triggered: readiness is remembered until the kernel says `WouldBlock`. A connection that
//! can move bytes stands in one round-robin queue, and each turn moves a bounded amount.

mod descriptors;
mod memory;
mod pump;
mod reconfigure;
mod steer;
mod waiting;

pub use descriptors::usable_descriptors;

use crate::config::{Class, Peer, Settings};
use crate::hold::HeldSyns;
use crate::leg::{Leg, LegEvent, Owner, Tcp, Watch};
use kernel::nfqueue::Held;
use kernel::transparent::{self, Accepted};
use relay::connection::{Action, Event, State};
use relay::dscp::Dscp;
use relay::policy::Policy;
use relay::preamble::Open;
use relay::reach::Reach;
use relay::routes::Routes;
use satpep::ResetReason;
use slab::Slab;
use socket2::Socket;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use units::{Duration, Instant};

/// How long the far side waits for the rest of a preamble: its bytes leave together, so what is lost is repaired soon.
const OPEN_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a client has to complete the handshake after its held SYN has been let go.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// The addresses of a connection's client and server: unlike its marking, the same in every packet.
type Ends = (SocketAddr, SocketAddr);

/// All relayed connections, and the leg that carries them.
pub(crate) struct Relays<L: Leg> {
    pub(crate) leg: L,
    watch: Watch,
    connections: Slab<Connection<L::Stream>>,
    by_stream: HashMap<L::Stream, usize>,
    /// Connections that may be able to move bytes, each at most once.
    work: VecDeque<usize>,
    deadlines: BTreeSet<(Instant, usize)>,
    peers: Slab<PeerEntry>,
    /// The gateway's own addresses.
    own: Vec<IpAddr>,
    routes: Routes<usize>,
    classes: Vec<Class>,
    mark: u32,
    connect_timeout: Duration,
    host_backlog: u32,
    tcp_timeout: Duration,
    host_keepalive: std::time::Duration,
    next_sweep: Instant,
    /// With `accept = "confirmed"`: the queue of held SYNs, and the connections whose TCP has yet to be accepted.
    pub(crate) held_syns: Option<HeldSyns>,
    unaccepted: HashMap<Ends, usize>,
    /// Until when connections may come whose SYN nobody has held, since one process had gone and the next had not come.
    unheld_until: Instant,
    /// How many clients wait for a stream of their peer's, or for their peer.
    waiting: usize,
    /// Connections of peers that are to be made to servers once there are descriptors.
    unconnected: VecDeque<(usize, L::Stream)>,
    /// Whether there may be what one of those waits for.
    may_serve_waiting: bool,
    /// Whether what is intercepted has to be looked at again.
    must_steer: bool,
    /// How many descriptors the process may have.
    pub(crate) most_descriptors: u64,
    /// How many connections there were when descriptors ran short.
    descriptors_ran_short_at: Option<usize>,
    /// Whether peers know that there is no room.
    is_told_short: bool,
    pub(crate) counters: Counters,
}

/// A peer: what the operator says of it, and what follows.
#[derive(Debug)]
pub(crate) struct PeerEntry {
    pub(crate) settings: Peer,
    policy: Policy,
    /// Whether new connections go past it, for there are nearly as many as may be.
    is_full: bool,
    /// Whether new connections go past it, for clients wait for too long.
    is_late: bool,
    /// Whether new connections go past it, for readers that stall hold the memory for what it sends; and since when little is left.
    is_out_of_memory: bool,
    memory_is_little_since: Option<Instant>,
    /// Clients that wait for a stream.
    waiting: VecDeque<WaitingClient>,
    /// What it lets through as of the last word about it.
    warned_of: Option<Reach>,
}

/// A client that waits for a stream.
#[derive(Debug)]
struct WaitingClient {
    since: Instant,
    socket: Socket,
    open: Open,
}

/// One relayed connection.
#[derive(Debug)]
pub(crate) struct Connection<S> {
    pub(crate) state: State,
    pub(crate) stream: S,
    pub(crate) peer: usize,
    pub(crate) near: bool,
    pub(crate) open: Option<Open>,
    pub(crate) started: Instant,
    /// Bytes read from TCP and taken by the stream.
    pub(crate) from_tcp: u64,
    /// Bytes read from the stream and taken by TCP.
    pub(crate) to_tcp: u64,
    tcp: Tcp,
    syn: Option<Held>,
    deadline: Option<Instant>,
    queued: bool,
}

/// What has happened so far, by outcome.
#[derive(Debug, Clone, Default, serde::Serialize)]
pub struct Counters {
    /// Connections accepted from clients.
    pub accepted: u64,
    /// Connections made to servers.
    pub connected: u64,
    /// Connections whose two directions both ended in order.
    pub finished: u64,
    /// Connections that ended with a reset, for whatever reason.
    pub reset: u64,
    /// Connections that no peer was there for, or for which there was no stream in time.
    pub turned_away: u64,
    /// Connections that a peer asked for and its policy denies.
    pub denied: u64,
    /// Connections that a server refused.
    pub refused: u64,
    /// Connections to servers that could not be reached, or not in time.
    pub unreachable: u64,
    /// Streams or preambles of peers that broke the protocol.
    pub protocol_errors: u64,
    /// Bytes read from TCP.
    pub bytes_from_tcp: u64,
    /// Bytes written to TCP.
    pub bytes_to_tcp: u64,
}

impl<L: Leg> Relays<L> {
    /// No connections yet. `own` are the gateway's own addresses.
    pub(crate) fn new(leg: L, settings: &Settings, own: &[IpAddr], watch: Watch) -> Self {
        Self {
            leg,
            watch,
            connections: Slab::new(),
            by_stream: HashMap::new(),
            work: VecDeque::new(),
            deadlines: BTreeSet::new(),
            peers: settings.peers.iter().map(|peer| PeerEntry::new(peer, own)).enumerate().collect(),
            own: own.to_vec(),
            routes: settings.routes.clone(),
            classes: settings.classes.clone(),
            mark: settings.rules.made(),
            connect_timeout: settings.connect_timeout,
            host_backlog: crate::daemon::host_backlog(settings),
            tcp_timeout: settings.tcp_timeout,
            host_keepalive: settings.host_keepalive.into(),
            next_sweep: Instant::ZERO,
            held_syns: None,
            unaccepted: HashMap::new(),
            unheld_until: Instant::ZERO,
            waiting: 0,
            unconnected: VecDeque::new(),
            may_serve_waiting: false,
            must_steer: false,
            most_descriptors: u64::MAX,
            descriptors_ran_short_at: None,
            is_told_short: false,
            counters: Counters::default(),
        }
    }

    pub(crate) fn connections(&self) -> impl ExactSizeIterator<Item = &Connection<L::Stream>> {
        self.connections.iter().map(|(_, connection)| connection)
    }

    pub(crate) fn peers(&self) -> &Slab<PeerEntry> {
        &self.peers
    }

    /// The gateway's own addresses have become `own`.
    pub(crate) fn set_own_addresses(&mut self, now: Instant, own: &[IpAddr]) {
        self.own = own.to_vec();
        for (_, peer) in &mut self.peers {
            peer.policy = policy(&peer.settings, own);
        }
        self.tell_reach(now);
    }

    /// Whether some connection may be able to move bytes at once.
    pub(crate) fn has_work(&self) -> bool {
        !self.work.is_empty()
    }

    /// When the first connection's patience ends.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, _)| *at).into_iter().chain(self.end_of_patience()).min()
    }

    /// Opens a stream towards the peer behind `open.destination`.
    fn open_stream(&mut self, now: Instant, open: &Open) -> Option<(L::Stream, usize)> {
        let peer = self.routes.peer_of(open.destination.ip()).filter(|at| self.leg.is_up(*at))?;
        let stream = self.leg.open(now, peer, open, class_of(&self.classes, open));
        self.look_at_room(peer);
        Some((stream?, peer))
    }

    /// The name of the class of a connection.
    pub(crate) fn class_name(&self, open: &Open) -> &str {
        class_of(&self.classes, open).map_or(DEFAULT_CLASS, |class| &class.name)
    }

    /// A client has connected: its data go to the far side at once.
    pub(crate) fn accept(&mut self, now: Instant, accepted: Accepted) {
        let Accepted { socket, client, called, traffic_class } = accepted;
        let open = Open { dscp: Dscp::of_traffic_class(traffic_class), ..Open::new(client, called) };
        let was_held = now >= self.unheld_until || self.unaccepted.contains_key(&ends(&open));
        if self.held_syns.is_some() && was_held {
            return self.accept_released(now, socket, &open);
        }
        self.look_at_descriptors(&socket);
        // Its peer may have ceased to answer a moment ago: what is intercepted follows that, and this client is connected.
        match self.routes.peer_of(called.ip()) {
            Some(at) => self.relay_or_wait(now, at, socket, open),
            // Dropping the socket resets the client.
            None => {
                self.counters.turned_away += 1;
                tracing::debug!(%client, destination = %called, "turned away: no peer is there for it");
            }
        }
    }

    /// Leaves clients whose SYN is held to another process: they send another SYN within a second or so.
    pub(crate) fn leave_held_syns(&mut self, now: Instant) {
        let keys: Vec<usize> =
            self.connections.iter().filter(|(_, one)| one.is_unaccepted()).map(|(key, _)| key).collect();
        for key in keys {
            if let (Some(syns), Some(held)) = (self.held_syns.as_mut(), self.connections[key].syn.take()) {
                syns.forget(&held);
            }
            self.apply(now, key, Event::Shutdown);
        }
        // The other process can serve the queue then.
        self.held_syns = None;
    }

    /// Goes on with what another process has left.
    ///
    /// # Errors
    /// If the leg does not understand it.
    pub(crate) fn inherit(&mut self, now: Instant, estate: &[u8]) -> io::Result<()> {
        self.unheld_until = now + HANDSHAKE_TIMEOUT;
        self.leg.inherit(estate)
    }

    /// Relays the connection `open` of the client at `socket`, which it returns if there is no stream for it.
    fn relay(&mut self, now: Instant, socket: Socket, open: Open) -> Option<Socket> {
        if !self.has_descriptor() {
            return Some(socket);
        }
        let Some((stream, peer)) = self.open_stream(now, &open) else { return Some(socket) };
        let mut connection = Connection::new(State::Requested, stream, peer, true, now);
        connection.open = Some(open);
        connection.tcp.readable = true;
        let key = self.insert(connection);
        self.counters.accepted += 1;
        tracing::debug!(client = %open.source, destination = %open.destination, peer = self.peers[peer].settings.name, "accepted");
        self.attach(now, key, socket);
        None
    }

    /// A client wants to connect; its SYN is held until the server has answered.
    pub(crate) fn hold(&mut self, now: Instant, held: Held, open: Open) {
        let Some(syns) = self.held_syns.as_mut() else { return };
        if let Some(&key) = self.unaccepted.get(&ends(&open)) {
            return match self.connections[key].state {
                // The first was lost on its way to the listener, or the listener's answer was.
                State::Released => syns.release(&held),
                _ => syns.forget(&held),
            };
        }
        let Some((stream, peer)) = self.open_stream(now, &open) else {
            let has_peer = self.routes.peer_of(open.destination.ip()).is_some();
            self.counters.turned_away += u64::from(!has_peer);
            match self.held_syns.as_mut() {
                // The client sends another, which finds a stream or goes end to end.
                Some(syns) if has_peer => syns.forget(&held),
                Some(syns) => syns.refuse(&held),
                None => {}
            }
            return;
        };
        let mut connection = Connection::new(State::Confirming, stream, peer, true, now);
        connection.open = Some(open);
        connection.syn = Some(held);
        let key = self.insert(connection);
        self.unaccepted.insert(ends(&open), key);
        // The far side gives up first, and says why.
        self.set_deadline(key, Some(now + self.connect_timeout + OPEN_TIMEOUT));
    }

    /// A client has connected after its SYN was let go.
    fn accept_released(&mut self, now: Instant, socket: Socket, open: &Open) {
        match self.unaccepted.get(&ends(open)) {
            Some(&key) if self.connections[key].state == State::Released => {
                self.unaccepted.remove(&ends(open));
                self.set_deadline(key, None);
                self.counters.accepted += 1;
                self.connections[key].tcp.readable = true;
                self.apply(now, key, Event::Accepted);
                self.attach(now, key, socket);
            }
            // Its server's answer has come to nothing meanwhile; dropping the socket resets the client.
            _ => self.counters.turned_away += 1,
        }
    }

    /// What the leg has to say about streams.
    pub(crate) fn on_stream_event(&mut self, now: Instant, event: LegEvent<L::Stream>) {
        let key_of = |stream| self.by_stream.get(&stream).copied();
        match event {
            LegEvent::PeersChanged => self.wake_waiting(),
            LegEvent::Opened(stream, peer) => {
                let key = self.insert(Connection::new(State::Opening, stream, peer, false, now));
                self.set_deadline(key, Some(now + OPEN_TIMEOUT));
                self.enqueue(key);
            }
            LegEvent::Ready(stream) => {
                if let Some(key) = key_of(stream) {
                    self.enqueue(key);
                }
            }
            LegEvent::Reset(stream, reason) => {
                if let Some(key) = key_of(stream) {
                    tracing::debug!(stream = self.leg.number(stream), %reason, "reset by the other side");
                    self.apply(now, key, Event::StreamReset);
                }
            }
            // A connection that is still in the table has yet to learn of the end that came with the last byte it read.
            LegEvent::Closed(stream) => {
                if let Some(key) = key_of(stream) {
                    self.apply(now, key, Event::StreamFin);
                }
            }
        }
    }

    /// The socket of connection `key` is ready for something.
    pub(crate) fn on_socket_event(&mut self, now: Instant, key: usize, event: &mio::event::Event) {
        // The event may be about a socket that is closed by now; what follows asks the socket itself.
        let Some(connection) = self.connections.get_mut(key) else { return };
        connection.tcp.on_event(event);
        if connection.state == State::Connecting {
            return self.on_connect_progress(now, key);
        }
        if event.is_error() && connection.tcp.has_failed() {
            self.apply(now, key, Event::TcpReset);
        } else {
            self.enqueue(key);
        }
    }

    fn on_connect_progress(&mut self, now: Instant, key: usize) {
        let Some(socket) = self.connections[key].tcp.socket.as_ref() else { return };
        match socket.take_error() {
            Ok(Some(error)) | Err(error) => self.on_connect_failed(now, key, &error),
            // Not connected and not failed: the event was about something else.
            Ok(None) if socket.peer_addr().is_err() => {}
            Ok(None) => {
                self.set_deadline(key, None);
                self.counters.connected += 1;
                self.apply(now, key, Event::TcpConnected);
                self.enqueue(key);
            }
        }
    }

    fn on_connect_failed(&mut self, now: Instant, key: usize, error: &io::Error) {
        let reason = match error.kind() {
            io::ErrorKind::ConnectionRefused => ResetReason::Refused,
            io::ErrorKind::TimedOut => ResetReason::TimedOut,
            _ => ResetReason::Unreachable,
        };
        match reason {
            ResetReason::Refused => self.counters.refused += 1,
            _ => self.counters.unreachable += 1,
        }
        if let Some(open) = &self.connections[key].open {
            tracing::debug!(client = %open.source, destination = %open.destination, %error, "no connection to the server");
        }
        self.apply(now, key, Event::TcpFailed(reason));
    }

    /// Ends connections whose patience has ended.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        while let Some(&(at, key)) = self.deadlines.first().filter(|(at, _)| *at <= now) {
            self.deadlines.remove(&(at, key));
            if self.connections[key].state == State::Connecting {
                self.counters.unreachable += 1;
            }
            self.connections[key].deadline = None;
            self.apply(now, key, Event::Timeout);
        }
    }

    /// From time to time, ends connections whose host has vanished with data under way. Keepalive notices those that
    /// vanish while idle, but the kernel itself sends data again for a quarter of an hour.
    pub(crate) fn sweep(&mut self, now: Instant) {
        if now < self.next_sweep {
            return;
        }
        let period = (self.tcp_timeout / 4).min(Duration::from_secs(10));
        self.next_sweep = now + period;
        let mut vanished = Vec::new();
        for (key, connection) in &mut self.connections {
            if connection.state != State::Connecting && connection.tcp.is_gone(now, period, self.tcp_timeout) {
                vanished.push(key);
            }
        }
        for key in vanished {
            tracing::debug!(open = ?self.connections[key].open, "the host has vanished");
            self.apply(now, key, Event::TcpReset);
        }
    }

    /// Resets every connection: this gateway stops.
    pub(crate) fn shut_down(&mut self, now: Instant) {
        let keys: Vec<usize> = self.connections.iter().map(|(key, _)| key).collect();
        for key in keys {
            self.apply(now, key, Event::Shutdown);
        }
    }

    /// Feeds `event` to the state machine of connection `key` and carries out what it says.
    fn apply(&mut self, now: Instant, key: usize, event: Event) {
        let state = self.connections[key].state;
        let step = state.on(event).or_else(|unexpected| {
            tracing::error!(%unexpected, "a defect: the connection is reset");
            state.on(Event::ProtocolError)
        });
        let step = step.expect("a protocol error is an event of every state");
        self.connections[key].state = step.next;
        for action in step.actions.into_iter().flatten() {
            self.act(now, key, action);
        }
        if step.next == State::Closed {
            let orderly = step.actions.contains(&Some(Action::CloseTcp));
            self.remove(key, orderly);
        }
    }

    fn act(&mut self, now: Instant, key: usize, action: Action) {
        let connection = &mut self.connections[key];
        let stream = connection.stream;
        match action {
            Action::Answer => self.leg.answer(now, stream),
            Action::FinishStream => self.leg.finish(now, stream),
            Action::ResetStream(reason) => self.leg.reset(now, stream, reason),
            Action::ShutdownTcp => {
                if let Some(socket) = &connection.tcp.socket {
                    // If TCP has failed meanwhile, its next event says so.
                    let _ = socket.shutdown(std::net::Shutdown::Write);
                }
            }
            // The socket was made so that closing it sends a reset.
            Action::ResetTcp => self.close_socket(key),
            Action::CloseTcp => {
                if let Some(socket) = &connection.tcp.socket {
                    let _ = transparent::allow_orderly_close(socket);
                }
                self.close_socket(key);
            }
            Action::Connect => {
                self.set_deadline(key, Some(now + self.connect_timeout));
                self.connect_in_turn(now, key);
            }
            Action::ReleaseSyn => {
                if let (Some(syns), Some(held)) = (self.held_syns.as_mut(), connection.syn.take()) {
                    syns.release(&held);
                }
                self.set_deadline(key, Some(now + HANDSHAKE_TIMEOUT));
            }
            Action::RefuseSyn => {
                if let (Some(syns), Some(held)) = (self.held_syns.as_mut(), connection.syn.take()) {
                    syns.refuse(&held);
                }
            }
        }
    }

    /// Begins to connect to the server of connection `key`. Returns whether there was a descriptor for it.
    fn connect(&mut self, now: Instant, key: usize) -> bool {
        let connection = &self.connections[key];
        let Some(open) = connection.open else { return true };
        if !self.has_descriptor() {
            return false;
        }
        let source = self.peers[connection.peer].settings.connect_as_client.then_some(open.source);
        let prepare = |socket: &Socket| {
            transparent::set_dscp(socket, open.dscp.value());
            transparent::bound_backlog(socket, self.host_backlog)
        };
        match transparent::connect(source, open.destination, self.mark, self.host_keepalive, prepare) {
            Ok(socket) => {
                self.look_at_descriptors(&socket);
                self.attach(now, key, socket);
            }
            Err(error) if is_out_of_descriptors(&error) => {
                self.out_of_descriptors();
                return false;
            }
            Err(error) => self.on_connect_failed(now, key, &error),
        }
        true
    }

    /// Gives connection `key` its TCP socket.
    fn attach(&mut self, now: Instant, key: usize, socket: Socket) {
        let registered = self.watch.add(&socket, Owner::Relays(key));
        self.connections[key].tcp.socket = Some(socket);
        match registered {
            Ok(()) => self.enqueue(key),
            Err(error) => {
                tracing::error!(%error, "a socket could not be watched");
                self.apply(now, key, Event::ProtocolError);
            }
        }
    }

    fn close_socket(&mut self, key: usize) {
        if let Some(socket) = self.connections[key].tcp.socket.take() {
            // Closing a descriptor takes it out of the poll set, too.
            drop(socket);
        }
    }

    fn insert(&mut self, connection: Connection<L::Stream>) -> usize {
        let stream = connection.stream;
        let key = self.connections.insert(connection);
        self.by_stream.insert(stream, key);
        key
    }

    fn remove(&mut self, key: usize, orderly: bool) {
        self.set_deadline(key, None);
        let connection = self.connections.remove(key);
        self.by_stream.remove(&connection.stream);
        self.leg.forget(connection.stream);
        self.wake_waiting();
        self.look_at_room(connection.peer);
        self.look_at_descriptors_again();
        if orderly {
            self.counters.finished += 1;
        } else {
            self.counters.reset += 1;
        }
        if let Some(open) = connection.open {
            // The same addresses may ask for another connection by now.
            if self.unaccepted.get(&ends(&open)) == Some(&key) {
                self.unaccepted.remove(&ends(&open));
            }
            tracing::debug!(
                client = %open.source,
                destination = %open.destination,
                from_tcp = connection.from_tcp,
                to_tcp = connection.to_tcp,
                orderly,
                "closed"
            );
        }
    }

    /// Stream `key` carries no connection, and is the leg's own.
    fn let_go(&mut self, key: usize) {
        self.set_deadline(key, None);
        let connection = self.connections.remove(key);
        self.by_stream.remove(&connection.stream);
    }

    fn set_deadline(&mut self, key: usize, deadline: Option<Instant>) {
        let connection = &mut self.connections[key];
        if let Some(old) = std::mem::replace(&mut connection.deadline, deadline) {
            self.deadlines.remove(&(old, key));
        }
        self.deadlines.extend(deadline.map(|at| (at, key)));
    }

    fn enqueue(&mut self, key: usize) {
        let connection = &mut self.connections[key];
        if !connection.queued {
            connection.queued = true;
            self.work.push_back(key);
        }
    }
}

/// What the class of connections is called that belong to none of the operator's.
const DEFAULT_CLASS: &str = "default";

/// The first class that a connection fits.
fn class_of<'a>(classes: &'a [Class], open: &Open) -> Option<&'a Class> {
    classes.iter().find(|class| class.conditions.hold_for(open))
}

fn ends(open: &Open) -> Ends {
    (open.source, open.destination)
}

/// Whether the process, or the host, has no descriptors or no memory for another socket.
pub(crate) fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

fn policy(peer: &Peer, own: &[IpAddr]) -> Policy {
    Policy::new(&peer.allow_sources, &peer.allow_destinations, own)
}

impl PeerEntry {
    fn new(settings: &Peer, own: &[IpAddr]) -> Self {
        Self {
            policy: policy(settings, own),
            settings: settings.clone(),
            is_full: false,
            is_late: false,
            is_out_of_memory: false,
            memory_is_little_since: None,
            waiting: VecDeque::new(),
            warned_of: None,
        }
    }
}

impl<S> Connection<S> {
    fn new(state: State, stream: S, peer: usize, near: bool, now: Instant) -> Self {
        Self {
            state,
            stream,
            peer,
            near,
            open: None,
            started: now,
            from_tcp: 0,
            to_tcp: 0,
            tcp: Tcp::new(),
            syn: None,
            deadline: None,
            queued: false,
        }
    }

    /// Whether the client waits for an answer to its SYN.
    fn is_unaccepted(&self) -> bool {
        matches!(self.state, State::Confirming | State::Released)
    }
}
