//! The `tcp` transport: one TCP connection of the kernel's for each relayed connection, with a congestion control of the
//! operator's choice.
//!
//! Bytes pass through pipes and are not copied (`splice`). Who may open connections is settled once for each peer, by
//! the control connection, which then also shows whether the peer answers (`session`, `initiator`); the first bytes of
//! every other connection say what it carries ([`tcp_tunnel`], `arrivals`).
//!
//! A connection across the satellite need not wait for its handshake. Some are opened before they are needed; beyond those, the
//! tunnel request and the client's first bytes go with the SYN (TCP Fast Open) as long as the path lets them.

mod arrivals;
mod buffers;
mod cross;
mod departure;
mod direct;
mod identity;
mod initiator;
mod membership;
mod notices;
mod peer;
mod place;
mod ports;
mod rejection;
mod resets;
mod session;
mod sockets;
mod splice;
mod stalls;
mod succession;
mod talk;
#[cfg(test)]
mod tests;
mod tls;
mod trials;
mod trouble;
mod tunnel;

use super::{
    ConnectReply, Membership, PathDelay, Progress, ReceivedRequest, Reports, SatelliteTransport, StreamEvent,
    Succession,
};
use crate::config::{self, Class, Peer, Settings};
use crate::entropy::seed;
use crate::error::{StartError, while_doing};
use crate::host_sockets::HostSockets;
use crate::link_state::LinkState;
use crate::takeover::offer::TransportOffer;
use crate::takeover::{self, Heir};
use crate::tcp_socket::Tcp;
use crate::trouble::Rarely;
use crate::watch::{Owner, Watch};
use ::satpep::{Mode, PrivateKey, PublicKey, ResetReason};
use cross::CrossLayer;
use departure::Departure;
use peer::TcpPeer;
use rejection::Rejection;
use relay::connect::{CONNECTED, ConnectRequest};
use relay::engine::Transport;
use relay::reach::Reach;
use session::{Accepted, Initiator, ProbeTimers};
use slab::Slab;
use socket2::Socket;
use sockets::Sockets;
use splice::Pipes;
use status::Trouble;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use tcp_tunnel::handshakes::Handshakes;
use tcp_tunnel::waiting::{Places, Waiting};
use tls::Configs;
pub(crate) use trials::{MIN_SEGMENT, PROBE_FLOOR, PROBING};
use tunnel::{Data, Lingering, Role, Tunnel, reason_of};
use units::{Duration, Instant, Rate};

/// How long a tunnel request waits for the client's first bytes, which follow its handshake at once if it is the one to speak
/// first.
const HOLD: Duration = Duration::from_millis(10);
/// Connections that strangers may have made without saying who they are: all together, and those of one prefix.
const STRANGERS: Places = Places { total: 3_072, per_prefix: 256 };
/// The same for connections from addresses at which peers are known to be, and for those whose key is known and that have not
/// said what for. Each peer keeps up to 1,024 warm ones, and 5,000 new ones a second are in their handshakes for two round
/// trips: as many as a peer may have streams, unless configured.
const KNOWN: Places = Places { total: 65_536, per_prefix: 16_384 };
/// Connections with each peer by default.
const MAX_STREAMS: u64 = 16_384;

/// Names a connection across the satellite, and the stream that it carries: its place in the table, and its number, since others have had
/// that place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TunnelId {
    at: usize,
    number: u64,
}

/// What both gateways call the stream of a relayed connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Name {
    peer: usize,
    /// Whether this gateway has opened it.
    is_own: bool,
    session: u64,
    number: u64,
}

/// All connections across the satellite.
#[derive(Debug)]
pub(crate) struct TcpTransport {
    watch: Watch,
    sockets: Sockets,
    private_key: PrivateKey,
    /// Unless another process has it.
    listener: Option<Socket>,
    accepting: bool,
    /// Connections may wait at the listener that could not be accepted. Nothing reports when there is room for them.
    callers_wait: bool,
    tunnels: Slab<Tunnel>,
    next_number: u64,
    deadlines: BTreeSet<(Instant, usize)>,
    peers: Vec<TcpPeer>,
    by_key: HashMap<PublicKey, usize>,
    /// Sessions that peers have begun.
    sessions: HashMap<u64, Accepted>,
    /// Sessions whose initiators have been challenged.
    challenged: HashSet<u64>,
    /// Streams of relayed connections by the names that both gateways have for them.
    names: HashMap<Name, usize>,
    /// Connections that have been accepted and have not said what for: of strangers, and of those who are known.
    strangers: Waiting<usize>,
    known: Waiting<usize>,
    /// Key agreements with strangers, and connections of theirs that wait for one.
    handshakes: Handshakes,
    awaiting_admission: Vec<TunnelId>,
    /// Where peers are known to be, and how many of them.
    addresses: HashMap<IpAddr, usize>,
    /// Names this run of the gateway to its peers.
    epoch: u64,
    events: VecDeque<StreamEvent<TunnelId>>,
    /// Control connections on which more may have been said than was read: nothing reports that again.
    unread: Vec<TunnelId>,
    pipes: Pipes,
    /// Unless the satellite link is secured externally.
    tls: Option<Configs>,
    /// With the cross-layer congestion control.
    cross: Option<CrossLayer>,
    probe_timers: ProbeTimers,
    /// The link's expected round-trip time.
    rtt: Duration,
    /// While this process opens and takes no more connections.
    departure: Option<Departure>,
    /// The transmit capacity of the link: configured or reported.
    capacity: Rate,
    /// `[link] rate`, if it is configured.
    configured_rate: Option<Rate>,
    warm_connections: usize,
    max_streams: u64,
    connect_timeout: Duration,
    /// Connections survive an outage of this length.
    outage_limit: Duration,
    /// How long one that has ended may wait for the other end to take its last bytes.
    linger_limit: Duration,
    /// And a peer that is silent for so long: who only receives does not notice it.
    longest_silence: Duration,
    next_sweep: Instant,
    next_stall_look: Instant,
    /// When to say next that the host is short of something.
    next_shortage: Instant,
    /// Whether an announcement to peers is due at once.
    has_news: bool,
    /// fwmark of sockets towards servers.
    mark: u32,
    /// After what idle time servers are probed.
    host_keepalive: std::time::Duration,
    counters: Counters,
    rarely: Rarely,
}

/// What has happened so far.
#[derive(Debug, Clone, Default)]
struct Counters {
    sessions: u64,
    violations: u64,
    opened: BTreeMap<Cow<'static, str>, u64>,
    rejected: BTreeMap<Cow<'static, str>, u64>,
}

impl TcpTransport {
    /// Listens for peers and begins sessions with them.
    pub(crate) fn start(
        settings: &Settings,
        tcp: &config::TcpSettings,
        now: Instant,
        watch: &Watch,
        heir: Option<&mut Heir>,
    ) -> Result<Self, StartError> {
        // The kernel may have the control only from here on.
        let cross = match tcp.congestion_control.as_deref() {
            Some(config::CROSS_LAYER) => {
                let marks = [settings.rules.crossing(), settings.rules.made()];
                let number = random_number()? as u32;
                Some(CrossLayer::new(marks, settings.link.nominal_rate(), tcp.target_queue, number)?)
            }
            _ => None,
        };
        let sockets = Sockets::new(settings, tcp, cross.as_ref())?;
        let listener = Self::listener(settings, &sockets, heir)?;
        let watch = watch.try_clone().map_err(while_doing("creating a poll"))?;
        watch.add(&listener, Owner::Transport(0)).map_err(while_doing("watching the TCP socket"))?;
        let rtt = settings.link.rtt;
        let peers: Vec<_> = settings.peers.iter().map(|peer| TcpPeer::new(peer, now, rtt)).collect();
        let by_key = settings.peers.iter().enumerate().filter_map(|(at, peer)| Some((peer.public_key?, at))).collect();
        let mut transport = Self {
            watch,
            sockets,
            private_key: settings.private_key.clone(),
            listener: Some(listener),
            accepting: true,
            callers_wait: false,
            tunnels: Slab::new(),
            next_number: 0,
            deadlines: BTreeSet::new(),
            peers,
            by_key,
            sessions: HashMap::new(),
            challenged: HashSet::new(),
            names: HashMap::new(),
            strangers: Waiting::new(STRANGERS),
            known: Waiting::new(KNOWN),
            handshakes: Handshakes::default(),
            awaiting_admission: Vec::new(),
            addresses: HashMap::new(),
            epoch: random_number()?,
            events: VecDeque::new(),
            unread: Vec::new(),
            pipes: Pipes::new(),
            cross,
            tls: (settings.mode == Mode::Encrypted).then(|| Configs::new(settings)).transpose()?,
            probe_timers: ProbeTimers::new(settings.link.rtt, settings.link.keepalive),
            rtt,
            departure: None,
            capacity: settings.link.nominal_rate(),
            configured_rate: settings.link.rate,
            warm_connections: tcp.warm_connections,
            max_streams: settings.link.max_streams.map_or(MAX_STREAMS, u64::from),
            connect_timeout: settings.connect_timeout,
            outage_limit: outage_limit(settings),
            linger_limit: linger_limit(settings),
            longest_silence: outage_limit(settings)
                + ProbeTimers::new(settings.link.rtt, settings.link.keepalive).unresponsive_after,
            next_sweep: now,
            next_stall_look: now,
            next_shortage: now,
            has_news: false,
            mark: settings.rules.made(),
            host_keepalive: settings.host_keepalive.into(),
            counters: Counters::default(),
            rarely: Rarely::default(),
        };
        let addresses = transport.peers.iter().filter_map(|peer| Some(peer.settings.address?.ip()));
        for address in addresses.collect::<Vec<_>>() {
            transport.count_address(address);
        }
        if transport.peers.iter().any(TcpPeer::is_direct) {
            transport.events.push_back(StreamEvent::PeersChanged);
        }
        Ok(transport)
    }

    fn tunnel(&mut self, stream: TunnelId) -> Option<&mut Tunnel> {
        self.tunnels.get_mut(stream.at).filter(|tunnel| tunnel.number == stream.number)
    }

    /// Puts a connection into the table.
    fn insert(&mut self, role: Role, socket: Socket, from: IpAddr) -> io::Result<usize> {
        self.watch.add(&socket, Owner::Transport(self.tunnels.vacant_key() + 1))?;
        Ok(self.put(Tcp::connecting(socket), role, from))
    }

    /// The same, where nothing is to be watched.
    fn put(&mut self, tcp: Tcp, role: Role, from: IpAddr) -> usize {
        self.next_number += 1;
        self.tunnels.insert(Tunnel::new(self.next_number, role, tcp, from))
    }

    /// The socket of the session with `peer`: of the one that this gateway has begun, else of the one that the peer has.
    fn control_socket(&self, peer: usize) -> Option<&Socket> {
        let peer = &self.peers[peer];
        let begun = peer.initiator.as_ref().and_then(Initiator::tunnel);
        begun.or(peer.responder).and_then(|at| self.tunnels.get(at))?.tcp.socket.as_ref()
    }

    /// Takes a connection out of the table, and out of what is known of its peer.
    fn remove(&mut self, at: usize) -> Tunnel {
        self.set_deadline(at, None);
        self.release(at);
        let tunnel = self.tunnels.remove(at);
        if let Some((address, port)) = tunnel.port {
            self.sockets.give_back(address, port);
        }
        tunnel
    }

    /// Forgets all that is known of a connection beside its place in the table.
    fn release(&mut self, at: usize) {
        self.give_place_back(at);
        let tunnel = &mut self.tunnels[at];
        tunnel.close_splices(&mut self.pipes);
        match &tunnel.role {
            Role::Stream(peer) => {
                let peer = &mut self.peers[*peer];
                if let Some(name) = tunnel.name {
                    self.names.remove(&name);
                    peer.note_end(name, tunnel);
                }
                peer.streams -= 1;
                peer.has_sent |= tunnel.has_sent && !tunnel.is_direct;
                let info = tunnel.tcp.socket.as_ref().and_then(|socket| kernel::tcp::tcp_info(socket).ok());
                peer.retransmitted_segments += info.map_or(0, |info| u64::from(info.retransmitted_segments));
            }
            Role::Warm(peer) => self.peers[*peer].warm.retain(|warm| *warm != at),
            Role::Lingering(Lingering { counts_for, opened_by, .. }) => {
                counts_for.iter().for_each(|peer| self.peers[*peer].streams -= 1);
                opened_by.iter().for_each(|peer| self.peers[*peer].lingering -= 1);
            }
            Role::Unknown(_) | Role::Initiator(_) | Role::Trying { .. } | Role::Echoing { .. } => {}
            Role::Responder(responder) => drop(self.challenged.remove(&responder.session)),
        }
    }

    fn set_deadline(&mut self, at: usize, deadline: Option<Instant>) {
        if let Some(old) = std::mem::replace(&mut self.tunnels[at].deadline, deadline) {
            self.deadlines.remove(&(old, at));
        }
        self.deadlines.extend(deadline.map(|deadline| (deadline, at)));
    }

    /// What is due for connection `at`.
    fn on_deadline(&mut self, now: Instant, at: usize) {
        let tunnel = &mut self.tunnels[at];
        tunnel.deadline = None;
        match &tunnel.role {
            Role::Stream(_) if tunnel.is_resetting() => self.on_resetting(now, at),
            Role::Stream(_) if tunnel.held_until.is_some() => {
                // The client is not the one to speak first.
                if let Err(error) = tunnel.flush() {
                    tunnel.fail(&error);
                }
                self.tell(at);
            }
            Role::Stream(_) if tunnel.is_direct && tunnel.awaits_reply => {
                tunnel.failed.get_or_insert(ResetReason::TimedOut);
                self.tell(at);
            }
            // The client's first bytes came in time.
            Role::Stream(_) => {}
            Role::Unknown(_) => self.on_late(now, at),
            Role::Responder(_) => self.end_responder(now, at),
            // It has been kept for so long that the path may have forgotten it; another one takes its place.
            Role::Warm(_) => self.remove(at).close(),
            Role::Trying { .. } | Role::Echoing { .. } => drop(self.remove(at)),
            Role::Initiator(_) | Role::Lingering(_) => {}
        }
    }

    /// Takes a connection that has ended in order from its peer's streams, unless it is direct, and keeps it until the other end has acknowledged
    /// what it has said. Without a descriptor the kernel would give it up seconds after the other end's window has closed, or the path gone.
    fn linger(&mut self, at: usize) {
        let lingering = Lingering::of(&self.tunnels[at]);
        self.release(at);
        if let Some(peer) = lingering.counts_for {
            self.peers[peer].streams += 1;
        }
        if let Some(peer) = lingering.opened_by {
            self.peers[peer].lingering += 1;
        }
        self.tunnels[at].role = Role::Lingering(lingering);
        self.tunnels[at].allow_orderly_close();
        self.on_lingering(at);
    }

    /// Has the kernel finish what lingers as it does for any host, once the sockets are closed.
    fn leave_lingering_to_kernel(&self) {
        let lingering = self.tunnels.iter().filter(|(_, tunnel)| matches!(tunnel.role, Role::Lingering(_)));
        lingering.for_each(|(_, tunnel)| tunnel.leave_to_kernel());
    }

    /// Sends on what a connection has to say before it is closed.
    fn on_lingering(&mut self, at: usize) {
        if self.tunnels[at].flush().is_err() || self.tunnels[at].has_nothing_to_wait_for() {
            drop(self.remove(at));
        }
    }

    /// Has the relays look at stream `at`.
    fn tell(&mut self, at: usize) {
        let tunnel = &self.tunnels[at];
        let id = TunnelId { at, number: tunnel.number };
        self.events.push_back(match tunnel.failed {
            Some(reason) if !tunnel.awaits_reply => StreamEvent::Reset(id, reason),
            _ => StreamEvent::Ready(id),
        });
    }

    fn on_stream(&mut self, now: Instant, at: usize, event: &mio::event::Event) {
        let tunnel = &mut self.tunnels[at];
        if tunnel.is_resetting() {
            return self.on_resetting(now, at);
        }
        // The outcome of a connection to a server is read by the code that waits for it; a reset behind data is met by the reader.
        let is_awaited = tunnel.is_direct && tunnel.awaits_reply;
        if event.is_error() && tunnel.is_read_on() {
            tunnel.reset_by_peer = Some(ResetReason::Aborted);
        }
        if event.is_error() && !is_awaited && !tunnel.is_read_on() && tunnel.tcp.has_failed() {
            tunnel.failed.get_or_insert(ResetReason::Aborted);
        } else if event.is_writable()
            && tunnel.held_until.is_none()
            && let Err(error) = tunnel.flush()
        {
            tunnel.write_failed(&error);
        }
        self.look_at_fast_open(now, at);
        self.tell(at);
    }

    /// From time to time, ends the connections that have had an outage for too long.
    fn sweep(&mut self, now: Instant) {
        if now < self.next_sweep {
            return;
        }
        let period = (self.outage_limit / 4).min(Duration::from_secs(10));
        self.next_sweep = now + period;
        for peer in 0..self.peers.len() {
            let known = &mut self.peers[peer];
            if known.streams > 0
                && !known.is_direct()
                && known.silent_since(self.probe_timers.longest_keepalive) + self.longest_silence <= now
            {
                known.hear(now, Duration::ZERO);
                self.reset_streams(now, peer, ResetReason::Outage, |_| true);
            }
        }
        let (mut gone, mut failed, longest_rto) = (Vec::new(), Vec::new(), self.sockets.longest_rto);
        let limits: Vec<Duration> = self.peers.iter().map(|peer| self.outage_limit_beside(now, peer)).collect();
        for (at, tunnel) in
            self.tunnels.iter_mut().filter(|(_, tunnel)| matches!(tunnel.role, Role::Stream(_) | Role::Lingering(_)))
        {
            tunnel.free_from_slow_pacing();
            tunnel.outlast_outage(longest_rto);
            let limit = match tunnel.role {
                Role::Stream(peer) if !tunnel.is_direct => limits[peer],
                _ => self.outage_limit,
            };
            let is_gone = tunnel.tcp.is_gone(now, period, limit);
            if tunnel.is_ending() {
                let is_stuck = tunnel.is_stuck(now, self.linger_limit);
                gone.extend((is_gone || is_stuck).then_some(at));
            } else if is_gone && tunnel.failed.is_none() && !(tunnel.is_direct && tunnel.awaits_reply) {
                tunnel.failed = Some(ResetReason::Outage);
                failed.push(at);
            }
        }
        failed.into_iter().for_each(|at| self.tell(at));
        gone.into_iter().for_each(|at| self.remove(at).leave_to_kernel());
    }

    /// After how long without an acknowledgement a connection to `peer` is given up: sooner than after an outage while the peer is
    /// heard all the time.
    fn outage_limit_beside(&self, now: Instant, peer: &TcpPeer) -> Duration {
        let heard_for = peer.heard_for(now, self.probe_timers.unresponsive_after);
        match self.sockets.lost_after {
            Some(lost_after) if heard_for > lost_after => lost_after.min(self.outage_limit),
            _ => self.outage_limit,
        }
    }

    fn count_opened(&mut self, method: &'static str) {
        *self.counters.opened.entry(method.into()).or_default() += 1;
    }

    fn count_rejected(&mut self, rejection: Rejection) {
        *self.counters.rejected.entry(rejection.name().into()).or_default() += 1;
    }
}

impl Drop for TcpTransport {
    fn drop(&mut self) {
        self.leave_lingering_to_kernel();
    }
}

impl SatelliteTransport for TcpTransport {
    const NAME: &'static str = "tcp";

    fn on_descriptor(&mut self, now: Instant, at: usize, event: &mio::event::Event) {
        let Some(at) = at.checked_sub(1) else {
            self.accepting = true;
            return;
        };
        let Some(tunnel) = self.tunnels.get_mut(at) else { return };
        tunnel.tcp.on_event(event);
        match tunnel.role {
            Role::Unknown(_) => self.greet(now, at),
            Role::Initiator(peer) => self.on_initiator(now, peer, at),
            Role::Responder(_) => self.on_responder(now, at),
            Role::Warm(_) => self.on_warm(now, at),
            Role::Stream(_) => self.on_stream(now, at, event),
            Role::Trying { .. } => self.on_trying(now, at),
            Role::Echoing { .. } => self.on_echoing(at),
            Role::Lingering(_) => self.on_lingering(at),
        }
    }

    fn has_more(&self) -> bool {
        self.accepting || !self.unread.is_empty()
    }

    fn take_in(&mut self, now: Instant, accepts: usize) {
        while let Some(&(_, at)) = self.deadlines.first().filter(|(due, _)| *due <= now) {
            self.deadlines.pop_first();
            self.on_deadline(now, at);
        }
        for peer in 0..self.peers.len() {
            if self.peers[peer].initiator.as_ref().is_some_and(|initiator| initiator.due() <= now) {
                self.serve_initiator(now, peer);
            }
        }
        self.read_on(now);
        self.accept(now, accepts);
    }

    fn follow(&mut self, now: Instant, link: &LinkState) {
        self.capacity = link.rate;
        if let Some(cross) = &mut self.cross {
            cross.say(now, link.rate);
        }
    }

    fn poll_event(&mut self, _: Instant) -> Option<StreamEvent<TunnelId>> {
        self.events.pop_front()
    }

    fn send_out(&mut self, now: Instant) {
        if std::mem::take(&mut self.has_news) {
            self.talk(now);
        }
        for peer in 0..self.peers.len() {
            self.try_path(now, peer);
            self.keep_warm(now, peer);
            self.settle(now, peer);
        }
    }

    fn next_timeout(&self, _: Instant) -> Option<Instant> {
        let initiators = self.peers.iter().filter_map(|peer| peer.initiator.as_ref().map(Initiator::due));
        let trials = self.peers.iter().filter_map(|peer| peer.search.next_timeout());
        initiators.chain(trials).chain(self.deadlines.first().map(|(due, _)| *due)).min()
    }

    fn tick(&mut self, now: Instant) {
        self.accepting |= std::mem::take(&mut self.callers_wait);
        self.admit_waiting(now);
        self.log_lasting_shortages(now);
        self.peers.iter_mut().for_each(|peer| peer.log_overdue_sessions(now));
        self.sweep(now);
        self.look_for_stalls(now);
        self.talk(now);
        self.note_acknowledged_departure(now);
        self.apply_announced(now);
        for peer in &mut self.peers {
            if peer.out_of_ports_until.take_if(|until| *until <= now).is_some() {
                self.events.push_back(StreamEvent::PeersChanged);
            }
        }
        if let Some(cross) = &mut self.cross {
            let longest_rto = self.sockets.longest_rto;
            let is_active = |tunnel: &Tunnel| tunnel.data(longest_rto) == Data::UnderWay;
            let sessions = self.tunnels.iter().filter(|(_, tunnel)| is_active(tunnel)).count();
            cross.count(u32::try_from(sessions).unwrap_or(u32::MAX));
            cross.say(now, self.capacity);
        }
    }

    fn leave(&mut self, _: Instant) {
        self.leave_lingering_to_kernel();
        // Closing the others resets them: every peer learns at once.
        self.tunnels.clear();
    }

    fn drain(&mut self, now: Instant) {
        self.begin_leaving(now, false);
    }

    fn unfinished(&self, now: Instant) -> usize {
        let ending = self.tunnels.iter().filter(|(_, tunnel)| tunnel.is_ending()).count();
        ending + self.peers_with_connections_under_way(now)
    }
}

impl Membership for TcpTransport {
    fn reconfigure(&mut self, _: Instant, settings: &Settings) {
        self.probe_timers = ProbeTimers::new(settings.link.rtt, settings.link.keepalive);
        self.sockets.keep_alive(settings.link.keepalive);
        self.host_keepalive = settings.host_keepalive.into();
        self.configured_rate = settings.link.rate;
        self.connect_timeout = settings.connect_timeout;
        self.outage_limit = outage_limit(settings);
        self.linger_limit = linger_limit(settings);
        self.longest_silence = outage_limit(settings) + self.probe_timers.unresponsive_after;
    }

    fn add_peer(&mut self, now: Instant, at: usize, peer: &Peer) {
        self.put_peer(now, at, peer);
    }

    fn change_peer(&mut self, now: Instant, at: usize, peer: &Peer) {
        self.alter_peer(now, at, peer);
    }

    fn remove_peer(&mut self, now: Instant, at: usize) {
        self.forget_peer(now, at);
    }
}

impl Succession for TcpTransport {
    fn offer(&mut self, settings: &[(usize, &Peer)]) -> Result<TransportOffer, String> {
        let up = |&(at, peer): &(usize, &Peer)| {
            let is_up = self.peers[at].initiator.as_ref().is_some_and(Initiator::is_up);
            is_up.then(|| Some((peer.public_key?.to_string(), peer.address?))).flatten()
        };
        self.check_estate(takeover::LONGEST)?;
        let listener = self.listener.as_ref().map(Socket::try_clone).transpose();
        let listener = listener.map_err(|error| format!("the listener for peers cannot be handed over: {error}"))?;
        Ok(TransportOffer {
            generation: 0,
            up: settings.iter().filter_map(up).collect(),
            listener: listener.map(OwnedFd::from),
        })
    }

    fn end_offer(&mut self) {}

    fn hand_over(&mut self, now: Instant) -> Vec<u8> {
        self.leave_to_another(now)
    }

    fn inherit(&mut self, estate: &[u8]) -> io::Result<()> {
        self.go_on_with(estate)
    }
}

impl Reports for TcpTransport {
    fn capacity(&self, _: Instant) -> status::Capacity {
        status::Capacity::fixed(self.capacity, self.configured_rate)
    }

    fn satellite(&self) -> status::Satellite {
        status::Satellite {
            handshakes: self.counters.sessions,
            violations: self.counters.violations,
            dropped: BTreeMap::new(),
            tunnels_opened: self.counters.opened.clone(),
            tunnels_rejected: self.counters.rejected.clone(),
            cross_layer: self.cross.as_ref().and_then(CrossLayer::report),
            ..status::Satellite::default()
        }
    }

    fn trouble(&self, now: Instant, peer: usize) -> Option<Trouble> {
        self.trouble_of(now, peer)
    }

    fn path_delay(&self, _: Instant, at: usize) -> Option<PathDelay> {
        let info = kernel::tcp::tcp_info(self.control_socket(at)?).ok()?;
        Some(PathDelay { smoothed: info.srtt.into(), min: info.min_rtt.into() })
    }

    fn peer(&self, now: Instant, at: usize, settings: &Peer) -> status::Peer {
        let peer = &self.peers[at];
        let socket = self.control_socket(at);
        let info = socket.and_then(|socket| kernel::tcp::tcp_info(socket).ok());
        // A peer that does not answer is there only as far as it has been heard of.
        let heard_at =
            if peer.initiator.is_some() { peer.heard_at } else { peer.silent_since(self.probe_timers.keepalive) };
        let is_heard = peer.responder.is_some() && now.since(heard_at) < self.probe_timers.unresponsive_after;
        let is_up = self.is_up(at) || is_heard;
        status::Peer {
            name: settings.name.clone(),
            state: match (is_up, peer.has_been_up) {
                (true, _) if peer.initiator.as_ref().is_some_and(Initiator::is_draining) => status::PeerState::Draining,
                (true, _) if peer.initiator.as_ref().is_some_and(Initiator::is_settling) => {
                    status::PeerState::Connecting
                }
                (true, _) => status::PeerState::Up,
                (false, true) => status::PeerState::Unresponsive,
                (false, false) => status::PeerState::Connecting,
            },
            address: socket.and_then(|socket| socket.peer_addr().ok()?.as_socket()).map(canonical),
            // While it connects, the kernel has none.
            rtt_s: info.map(|info| info.srtt.as_secs_f64()).filter(|rtt| *rtt > 0.0),
            mtu: peer.search.found().flatten().unwrap_or_default(),
            version: self.version(at),
            trouble: self.trouble_of(now, at),
            permits: peer.allows.reach().map(super::permits),
            streams: peer.streams,
            lost_packets: peer.retransmitted_segments,
            sent_bytes: peer.sent,
            received_bytes: peer.received,
            ..status::Peer::default()
        }
    }
}

/// An IPv4 address as such, also where the socket is one of IPv6.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

impl Transport<HostSockets> for TcpTransport {
    type Stream = TunnelId;

    fn is_up(&self, peer: usize) -> bool {
        let peer = &self.peers[peer];
        peer.is_direct() || peer.initiator.as_ref().is_some_and(Initiator::is_up) || peer.opener().is_some()
    }

    fn room(&self, peer: usize) -> (u64, u64) {
        (self.max_streams.saturating_sub(self.peers[peer].streams), self.max_streams)
    }

    fn tell_reach(&mut self, _: Instant, peer: usize, reach: &Reach) {
        let known = &mut self.peers[peer];
        let entries = reach.encode();
        if known.reach != entries {
            known.reach = entries;
            known.notified.reach = false;
            self.has_news = true;
        }
    }

    fn allows(&self, peer: usize) -> Option<&Reach> {
        self.peers[peer].allows.reach()
    }

    fn invites(&self, peer: usize) -> bool {
        let peer = &self.peers[peer];
        let may_cross = peer.out_of_ports_until.is_none();
        let invites = || {
            peer.initiator.as_ref().is_some_and(Initiator::invites)
                || peer.opener().is_some_and(|opener| opener.invites)
        };
        peer.is_direct() || (may_cross && invites())
    }

    fn open(&mut self, now: Instant, peer: usize, request: &ConnectRequest, class: Option<&Class>) -> Option<TunnelId> {
        if self.peers[peer].streams >= self.max_streams {
            return None;
        }
        if let Some(cross) = &mut self.cross {
            cross.say(now, self.capacity);
        }
        let is_direct = self.peers[peer].is_direct();
        let crossing = if is_direct { None } else { self.open_tunnel(now, peer, request) };
        let at = match crossing {
            Some(at) => at,
            // A client that has been accepted cannot be sent past the gateway any more; its server can be reached without the far one.
            None if is_direct || self.peers[peer].out_of_ports_until.is_some() => {
                self.open_direct(now, peer, request)?
            }
            None => return None,
        };
        self.peers[peer].streams += 1;
        let tunnel = &mut self.tunnels[at];
        tunnel.awaits_reply = true;
        let id = TunnelId { at, number: tunnel.number };
        self.mark_packets(id, request, class);
        Some(id)
    }

    fn classify(&mut self, _: Instant, stream: TunnelId, class: &Class) {
        let request = self.tunnel(stream).and_then(|tunnel| tunnel.request);
        if let Some(request) = request {
            self.mark_packets(stream, &request, Some(class));
        }
    }

    fn read_request(&mut self, _: Instant, stream: TunnelId) -> ReceivedRequest {
        // The stream exists because its tunnel request has been read.
        self.tunnel(stream).and_then(|tunnel| tunnel.request).map_or(ReceivedRequest::Ended, ReceivedRequest::Complete)
    }

    fn read_reply(&mut self, _: Instant, stream: TunnelId) -> ConnectReply {
        let Some(tunnel) = self.tunnel(stream) else { return ConnectReply::Failed(ResetReason::Aborted) };
        let answer = if tunnel.is_direct { tunnel.connection_to_server() } else { tunnel.reply() };
        if answer == ConnectReply::Connected {
            tunnel.awaits_reply = false;
            if tunnel.is_direct {
                self.set_deadline(stream.at, None);
            }
        }
        answer
    }

    fn reply(&mut self, _: Instant, stream: TunnelId) {
        if let Some(tunnel) = self.tunnel(stream) {
            tunnel.has_replied = true;
            if let Err(error) = tunnel.say(&[CONNECTED]) {
                tunnel.fail(&error);
            }
        }
    }

    fn finish(&mut self, _: Instant, stream: TunnelId) {
        if let Some(tunnel) = self.tunnel(stream) {
            tunnel.finish();
        }
    }

    fn reset(&mut self, _: Instant, stream: TunnelId, reason: ResetReason) {
        let Some(tunnel) = self.tunnel(stream) else { return };
        // Before the server has accepted, the near gateway learns why it has not; afterwards, a reset says all.
        let code = u8::try_from(reason.code()).unwrap_or(u8::MAX);
        tunnel.has_said_why = tunnel.request.is_some() && !tunnel.has_replied && tunnel.say(&[code]).is_ok();
        if tunnel.has_said_why {
            tunnel.finish();
            self.linger(stream.at);
        } else {
            drop(self.remove(stream.at));
        }
    }

    fn reset_behind_data(&mut self, now: Instant, stream: TunnelId) {
        match self.tunnel(stream).map(|tunnel| tunnel.failed) {
            Some(None) => self.reset_behind(now, stream.at),
            Some(Some(_)) => drop(self.remove(stream.at)),
            None => {}
        }
    }

    fn undelivered(&self, stream: TunnelId) -> Option<u64> {
        self.tunnels.get(stream.at).filter(|tunnel| tunnel.number == stream.number)?.undelivered()
    }

    fn unacknowledged(&self, stream: TunnelId) -> u64 {
        let tunnel = self.tunnels.get(stream.at).filter(|tunnel| tunnel.number == stream.number);
        tunnel.and_then(Tunnel::unacknowledged).unwrap_or_default()
    }

    fn takes_data(&self, stream: TunnelId) -> bool {
        let tunnel = self.tunnels.get(stream.at).filter(|tunnel| tunnel.number == stream.number);
        tunnel.is_none_or(Tunnel::takes_data)
    }

    fn forget(&mut self, stream: TunnelId) {
        let Some(tunnel) = self.tunnel(stream).filter(|tunnel| !tunnel.is_ending()) else { return };
        if !tunnel.is_over() {
            drop(self.remove(stream.at));
        } else {
            self.linger(stream.at);
        }
    }

    fn send(&mut self, _: Instant, stream: TunnelId, _: &mut HostSockets, tcp: &mut Tcp) -> (u64, Progress) {
        let Some(tunnel) = self.tunnels.get_mut(stream.at).filter(|tunnel| tunnel.number == stream.number) else {
            return (0, Progress::StreamFailed(ResetReason::Aborted));
        };
        let (count, progress) = tunnel.send(&mut self.pipes, tcp);
        if count > 0 {
            tunnel.has_sent = true;
            tunnel.stall.on_sent();
        }
        if let Role::Stream(peer) = tunnel.role {
            self.peers[peer].sent += count;
        }
        (count, progress)
    }

    fn receive(&mut self, now: Instant, stream: TunnelId, _: &mut HostSockets, tcp: &mut Tcp) -> (u64, Progress) {
        let Some(tunnel) = self.tunnels.get_mut(stream.at).filter(|tunnel| tunnel.number == stream.number) else {
            return (0, Progress::StreamFailed(ResetReason::Aborted));
        };
        let (count, progress) = tunnel.receive(&mut self.pipes, tcp);
        if let (Progress::Ended, Some(reason)) = (progress, tunnel.reset_by_peer) {
            // It came behind the end.
            self.events.push_back(StreamEvent::Reset(stream, reason));
        }
        if let Role::Stream(peer) = tunnel.role {
            let peer = &mut self.peers[peer];
            peer.received += count;
            if count > 0 && !tunnel.is_direct {
                (peer.received_at, peer.has_received) = (now, true);
            }
        }
        (count, progress)
    }

    fn number(&self, stream: TunnelId) -> u64 {
        stream.number
    }
}

impl Tunnel {
    /// The far gateway's answer.
    pub(super) fn reply(&mut self) -> ConnectReply {
        let mut byte = [0];
        match self.read(&mut byte) {
            // A failure that has been looked at reads as an end.
            Ok(0) if self.tcp.is_cut_off() => ConnectReply::Failed(ResetReason::Aborted),
            Ok(0) => self.failed.map_or(ConnectReply::Ended, ConnectReply::Failed),
            Ok(_) if byte[0] == CONNECTED => ConnectReply::Connected,
            Ok(_) => ConnectReply::Failed(ResetReason::from_code(byte[0].into())),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                self.failed.map_or(ConnectReply::Waiting, ConnectReply::Failed)
            }
            Err(error) => ConnectReply::Failed(reason_of(&error)),
        }
    }
}

/// How long an outage may be that connections survive.
fn outage_limit(settings: &Settings) -> Duration {
    const USUAL: Duration = Duration::from_secs(600);
    settings.link.outage_limit.unwrap_or(USUAL)
}

/// How long a connection that has ended is kept without progress: an outage is none of the other end's making.
fn linger_limit(settings: &Settings) -> Duration {
    settings.user_timeout.max(outage_limit(settings))
}

fn random_number() -> Result<u64, StartError> {
    Ok(u64::from_be_bytes(*seed()?.first_chunk().expect("a seed has 32 bytes")))
}
