//! The relay engine: all relayed connections of a gateway, sans-IO. The gateway drives one with sockets and the clock of the host, the
//! simulator one with simulated TCP in virtual time.
//!
//! | file | idea |
//! | --- | --- |
//! | `adapter.rs` | what the engine asks of the satellite transport and of TCP towards the hosts |
//! | `connection.rs` | one relayed connection in the engine's table |
//! | `events.rs` | what the adapter reports, and which transition follows |
//! | `turn.rs` | moves bytes, a bounded amount each turn |
//! | `waiting.rs` | clients that wait for a stream, and connections that wait for room |
//! | `room.rs` | sockets, streams and memory that run short |
//! | `interception.rs` | which new connections are relayed and which go end to end |
//! | `peers.rs` | the peers: settings, policy, state |
//! | `accounts.rs` | what the connections of each class have done, for metrics |
//! | `ended.rs` | what became of a connection, for logs |
//! | `notice.rs` | what happened, for logs and tests |
//!
//! # Who calls whom
//! The adapter owns the [`Engine`], which owns a [`Transport`] (towards the other gateway) and [`Hosts`] (TCP towards clients and
//! servers). The adapter feeds both with what arrives, reports to the engine what became ready or failed ([`Engine::on_stream_event`],
//! [`Engine::on_ready`], [`Engine::on_connected`], [`Engine::on_tcp_failed`], …), calls [`Engine::handle_timeout`] when
//! [`Engine::next_timeout`] has come and [`Engine::run`] while [`Engine::has_work`], and transmits what the transport then has to send.
//!
//! # One packet's way
//! A segment from a client reaches the near gateway's TCP; the adapter calls `on_ready` with the connection's key, which puts the
//! connection into the work queue once. `run` gives the connection its turn: [`Transport::send`] moves the bytes from TCP into the stream,
//! and the transport sends packets. At the far gateway the transport reports [`StreamEvent::Ready`], the engine finds the connection by
//! its stream, and its turn calls [`Transport::receive`], which writes the bytes to the server's TCP.

mod accounts;
mod adapter;
mod connection;
mod ended;
mod events;
mod interception;
mod notice;
mod peers;
mod room;
mod turn;
mod waiting;

pub use accounts::{ClassAccount, DEFAULT_CLASS, StallCause};
pub use adapter::{ConnectError, ConnectReply, Hosts, Progress, ReceivedRequest, StreamEvent, Transport};
pub use connection::Relayed;
pub use ended::{EndCause, Ended};
pub use interception::Intercepted;
pub use notice::{Counters, Notice};
pub use peers::{Peer, PeerSettings};

use crate::classes::Class;
use crate::classes::Conditions;
use crate::connect::ConnectRequest;
use crate::connection::{Event, State};
use crate::routes::Routes;
use accounts::{Accounts, Direction};
use connection::Counted;
use ipnet::IpNet;
use peers::WaitingClient;
use room::Room;
use slab::Slab;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::SocketAddr;
use units::{Duration, Instant};

/// How long the far gateway waits for the rest of a connect request. Its bytes leave together, so a lost part is soon repaired.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a client has to complete the handshake after its held SYN was released.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);
/// Failed connections that are remembered at most for that long; the clients of others that complete the handshake are relayed once more.
const MOST_FAILED: usize = 4096;

/// How long what came before a host's reset may make no progress towards the other host, and how soon that is looked at for the first
/// time.
const NO_PROGRESS: Duration = Duration::from_secs(30);
const FIRST_LOOK: Duration = Duration::from_millis(2);

/// What the operator sets for the relayed connections.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where each destination lies: peers by their place in [`Engine::peers`].
    pub routes: Routes<usize>,
    /// The classes, in the order in which they are tried.
    pub classes: Vec<Class>,
    /// Connections that go end to end by rule.
    pub bypass: Vec<Conditions>,
    /// How long a connection to a server may take to be established.
    pub connect_timeout: Duration,
    /// How long data to a host may stay unacknowledged (RFC 5482).
    pub user_timeout: Duration,
}

/// All relayed connections of a gateway, between the transport `T` and the hosts `H`.
#[derive(Debug)]
pub struct Engine<T: Transport<H>, H: Hosts> {
    /// The satellite transport.
    pub transport: T,
    /// TCP towards clients and servers.
    pub hosts: H,
    /// What has happened to connections, by outcome.
    pub counters: Counters,
    accounts: Accounts,
    settings: Settings,
    /// The gateway's own addresses.
    own: Vec<IpNet>,
    peers: Slab<Peer<H::Connection>>,
    connections: Slab<Relayed<T::Stream, H>>,
    by_stream: HashMap<T::Stream, usize>,
    /// Connections that may be able to move bytes, each at most once.
    work: VecDeque<usize>,
    deadlines: BTreeSet<(Instant, usize)>,
    /// Streams that are to be reset once their data have arrived: what has not by the last look, and when to look again. The first one is due
    /// first, because each waits equally long.
    resetting: VecDeque<(T::Stream, u64, Instant)>,
    next_sweep: Instant,
    /// Whether SYNs are held until the server has answered, and the connections whose TCP has yet to be accepted.
    holds_syns: bool,
    unaccepted: HashMap<Ends, usize>,
    /// Connections that have failed before their TCP was accepted, and how long their clients may still complete the handshake.
    failed: BTreeMap<Ends, Instant>,
    /// How many clients wait for a stream.
    waiting: usize,
    /// Those of peers that are being removed.
    set_aside: Vec<WaitingClient<H::Connection>>,
    /// Connections of peers that are to be made to servers once there is room.
    unconnected: VecDeque<(usize, T::Stream)>,
    /// Whether there may be what one of those waits for.
    may_serve_waiting: bool,
    /// Whether [`Engine::intercepted`] may have changed.
    interception_changed: bool,
    room: Room,
    /// Whether the peers know that there is no room.
    is_told_short: bool,
    notices: VecDeque<Notice>,
    reports_transitions: bool,
}

/// The addresses of a connection's client and server: unlike its DSCP, the same in every packet.
type Ends = (SocketAddr, SocketAddr);

fn ends(request: &ConnectRequest) -> Ends {
    (request.source, request.destination)
}

impl<T: Transport<H>, H: Hosts> Engine<T, H> {
    /// An engine without connections. `peers` get places from 0; `own` are the gateway's own addresses.
    pub fn new(
        transport: T,
        hosts: H,
        settings: Settings,
        peers: impl IntoIterator<Item = PeerSettings>,
        own: &[IpNet],
    ) -> Self {
        Self {
            transport,
            hosts,
            counters: Counters::default(),
            accounts: Accounts::new(settings.classes.iter().map(|class| &*class.name)),
            settings,
            own: own.to_vec(),
            peers: peers.into_iter().map(|peer| Peer::new(peer, own)).enumerate().collect(),
            connections: Slab::new(),
            by_stream: HashMap::new(),
            work: VecDeque::new(),
            deadlines: BTreeSet::new(),
            resetting: VecDeque::new(),
            next_sweep: Instant::ZERO,
            holds_syns: false,
            unaccepted: HashMap::new(),
            failed: BTreeMap::new(),
            waiting: 0,
            set_aside: Vec::new(),
            unconnected: VecDeque::new(),
            may_serve_waiting: false,
            interception_changed: false,
            room: Room::default(),
            is_told_short: false,
            notices: VecDeque::new(),
            reports_transitions: false,
        }
    }

    /// SYNs are held until the server has answered (`accept = "confirmed"`), or are accepted at once.
    pub fn set_holds_syns(&mut self, holds: bool) {
        self.holds_syns = holds;
    }

    /// Has each transition of a connection reported as [`Notice::Transition`].
    pub fn report_transitions(&mut self) {
        self.reports_transitions = true;
    }

    /// The relayed connections, by key.
    pub fn connections(&self) -> impl ExactSizeIterator<Item = (usize, &Relayed<T::Stream, H>)> {
        self.connections.iter()
    }

    /// Connection `key`.
    pub fn connection(&self, key: usize) -> Option<&Relayed<T::Stream, H>> {
        self.connections.get(key)
    }

    /// TCP of connection `key` towards its host, if it is there and has one.
    pub fn tcp_mut(&mut self, key: usize) -> Option<&mut H::Connection> {
        self.connections.get_mut(key)?.tcp.as_mut()
    }

    /// Whether some connection may be able to move bytes at once.
    pub fn has_work(&self) -> bool {
        !self.work.is_empty()
    }

    /// When to call [`Engine::handle_timeout`] and [`Engine::serve_waiting`] if nothing happens before.
    pub fn next_timeout(&self) -> Option<Instant> {
        let of_streams = self.resetting.front().map(|(_, _, due)| *due);
        self.deadlines.first().map(|(at, _)| *at).into_iter().chain(self.end_of_patience()).chain(of_streams).min()
    }

    /// What has happened since the last call, oldest first.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// The class of a connection; `None` is the default class.
    pub fn class_of(&self, request: &ConnectRequest) -> Option<&Class> {
        Class::find(&self.settings.classes, request)
    }

    /// Resets every connection, and the clients that wait: this gateway stops.
    pub fn shut_down(&mut self, now: Instant) {
        let keys: Vec<usize> = self.connections.iter().map(|(key, _)| key).collect();
        for key in keys {
            self.apply(now, key, Event::Shutdown);
        }
        self.places().into_iter().for_each(|at| self.send_all_away(now, at));
    }

    /// What the connections of each class have done, the default class first. Classes that are configured no longer stay.
    pub fn class_accounts(&self) -> &[ClassAccount] {
        self.accounts.all()
    }

    /// Connection `key` has its connect request, which settles its class.
    fn settle_class(&mut self, key: usize) {
        let connection = &mut self.connections[key];
        let class = connection.request.and_then(|request| Class::find(&self.settings.classes, &request));
        connection.account = self.accounts.place(class.map(|class| &*class.name));
        self.accounts.at(connection.account).connections += 1;
    }

    /// Counts connection `key`, which comes to nothing, by `count`. One whose client has been accepted still ends with a reset.
    fn count_failed(&mut self, key: usize, count: impl FnOnce(&mut Counters) -> &mut u64) {
        *count(&mut self.counters) += 1;
        let counted = &mut self.connections[key].counted;
        if *counted == Counted::Not {
            *counted = Counted::Failed;
        }
    }

    fn insert(&mut self, connection: Relayed<T::Stream, H>) -> usize {
        let stream = connection.stream;
        let key = self.connections.insert(connection);
        self.by_stream.insert(stream, key);
        key
    }

    fn remove(&mut self, now: Instant, key: usize, cause: EndCause) {
        self.set_deadline(key, None);
        let connection = self.connections.remove(key);
        self.by_stream.remove(&connection.stream);
        let stream = self.transport.number(connection.stream);
        self.transport.forget(connection.stream);
        self.wake_waiting();
        self.look_at_streams(connection.peer);
        self.look_at_room_again(now);
        match connection.counted {
            Counted::Open if cause == EndCause::Finished => self.counters.finished += 1,
            Counted::Open => self.counters.reset += 1,
            Counted::Not => self.counters.abandoned += 1,
            Counted::Failed => {}
        }
        for direction in [Direction::ToStream, Direction::ToTcp] {
            if let Some(since) = connection.stalled_since[direction as usize] {
                self.accounts.at(connection.account).stalled(direction, now.since(since));
            }
        }
        if let Some(request) = connection.request {
            // The same addresses may ask for another connection by now.
            if self.unaccepted.get(&ends(&request)) == Some(&key) {
                self.unaccepted.remove(&ends(&request));
                if self.failed.len() < MOST_FAILED {
                    self.failed.insert(ends(&request), now + HANDSHAKE_TIMEOUT);
                }
            }
            self.notices.push_back(Notice::Closed(Ended {
                request,
                peer: connection.peer,
                stream,
                is_near: connection.is_near,
                class: connection.account,
                asked: connection.asked,
                opened_after: connection.opened.map(|opened| opened.since(connection.asked)),
                at: now,
                from_tcp: connection.from_tcp,
                to_tcp: connection.to_tcp,
                cause,
            }));
        }
        if let Some(tcp) = connection.tcp {
            self.hosts.abort(now, tcp);
        }
    }

    /// Stream `key` carries no connection, and is the transport's own.
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
        if !connection.is_queued {
            connection.is_queued = true;
            self.work.push_back(key);
        }
    }

    /// The state of connection `key`.
    fn state(&self, key: usize) -> State {
        self.connections[key].state
    }
}
