//! The event loop: one thread, one poll, bounded work per wake.
//!
//! Each wake goes through the same steps: timers, datagrams, new connections, the transport's events, the relays' turns,
//! datagrams to send, the next deadline. Each step is bounded, and what is left over makes the next wait a zero one, so
//! that no busy socket keeps the others waiting.

use crate::config::{Accept, Settings};
use crate::control;
use crate::hold::HeldSyns;
use crate::metrics;
use crate::outside::{self, OutsideTraffic};
use crate::relays::Relays;
use crate::snapshot::{Facts, Snapshot};
use crate::steering::Steering;
use crate::udp::Udp;
use kernel::timer::Timer;
use kernel::{clock, process, routes, transparent};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use satpep::{Endpoint, EndpointConfig, PeerConfig, Transmit};
use socket2::Socket;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, mpsc};
use units::{Duration, Instant};

const UDP: Token = Token(0);
const TIMER: Token = Token(1);
const WAKER: Token = Token(2);
const LISTENERS: Token = Token(3);
const HELD_SYNS: Token = Token(4);
const CONNECTIONS: usize = 5;

/// What one wake does at most: batches received, connections accepted, turns given, batches sent.
const RECEIVE_BATCHES: usize = 4;
const ACCEPTS: usize = 256;
const TURNS: usize = 64;
const SEND_BATCHES: usize = 64;
/// How often the transport's timers are served while the system takes no datagrams.
const BLOCKED_PERIOD: Duration = Duration::from_millis(1);
/// How long a stopping gateway goes on sending, so that its peers learn of it.
const FAREWELL: Duration = Duration::from_millis(200);

/// A gateway that has been set up and waits to [`run`](Gateway::run).
pub struct Gateway {
    settings: Settings,
    poll: Poll,
    waker: Arc<Waker>,
    requests: mpsc::Receiver<Request>,
    requester: mpsc::Sender<Request>,
    timer: Timer,
    timer_set_to: Option<Instant>,
    udp: Udp,
    udp_readable: bool,
    udp_writable: bool,
    /// What the socket would not take yet.
    unsent: Option<Transmit>,
    send_buffer: Vec<u8>,
    send_errors: u64,
    listeners: Vec<Socket>,
    accepting: bool,
    /// Whether SYNs may wait in the queue.
    syns_wait: bool,
    relays: Relays,
    steering: Option<Steering>,
    outside: Option<OutsideTraffic>,
    outside_bps: u64,
    public_key: String,
    started: Instant,
    next_tick: Instant,
    services: Vec<Box<dyn std::any::Any + Send>>,
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").field("name", &self.settings.name).finish_non_exhaustive()
    }
}

/// A gateway that could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The machine lacks a privilege, a kernel feature or a program; or it refused.
    #[error(transparent)]
    Kernel(#[from] kernel::Error),
    /// A socket or file could not be had.
    #[error("{doing}: {source}")]
    Io {
        /// What for.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
    /// A peer's settings make no sense.
    #[error("peer {name}: {source}")]
    Peer {
        /// Its name.
        name: String,
        /// The reason.
        source: satpep::ConfigError,
    },
}

impl StartError {
    /// Whether the machine lacks something, rather than that something went wrong.
    pub fn is_missing(&self) -> bool {
        match self {
            StartError::Kernel(error) => error.is_missing(),
            StartError::Io { source, .. } => source.kind() == io::ErrorKind::PermissionDenied,
            StartError::Peer { .. } => false,
        }
    }
}

pub(crate) fn while_doing(doing: impl Into<String>) -> impl FnOnce(io::Error) -> StartError {
    move |source| StartError::Io { doing: doing.into(), source }
}

/// What other threads ask of the loop.
enum Request {
    Snapshot(mpsc::SyncSender<Snapshot>),
    /// The host's addresses have changed.
    OwnAddresses(Vec<IpAddr>),
    Stop,
}

/// A way to a running gateway from other threads.
#[derive(Debug, Clone)]
pub struct Handle {
    requests: mpsc::Sender<Request>,
    waker: Arc<Waker>,
}

impl Handle {
    /// Has the gateway stop in order.
    pub fn stop(&self) {
        self.send(Request::Stop);
    }

    /// The gateway's state; `None` if it has stopped.
    pub fn snapshot(&self) -> Option<Snapshot> {
        let (answer, answered) = mpsc::sync_channel(1);
        self.send(Request::Snapshot(answer));
        answered.recv().ok()
    }

    fn send(&self, request: Request) {
        // Nobody listens any more only when the gateway has stopped.
        if self.requests.send(request).is_ok() {
            let _ = self.waker.wake();
        }
    }
}

impl Gateway {
    /// Sets a gateway up in the network namespace of the calling thread: sockets, rules, services. Nothing is
    /// intercepted before a peer answers.
    ///
    /// # Errors
    /// If the machine lacks or refuses something; nothing stays behind then.
    pub fn start(settings: Settings) -> Result<Self, StartError> {
        process::raise_open_files()?;
        warn_about_host(&settings);
        let now = clock::now();
        let poll = Poll::new().map_err(while_doing("creating a poll"))?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER).map_err(while_doing("creating a waker"))?);
        let (requester, requests) = mpsc::channel();
        let handle = Handle { requests: requester.clone(), waker: Arc::clone(&waker) };
        let timer = Timer::new().map_err(while_doing("creating a timer"))?;
        let udp = Udp::bind(settings.listen).map_err(while_doing(format!("UDP socket {}", settings.listen)))?;
        let (endpoint, peers) = endpoint(&settings, now)?;
        let public_key = endpoint.public_key().to_string();
        let own = routes::own_addresses()?;
        let registry = poll.registry().try_clone().map_err(while_doing("creating a poll"))?;
        let mut relays = Relays::new(endpoint, peers, &settings, &own, registry, CONNECTIONS);
        let outside = match &settings.link.interface {
            None => None,
            Some(name) => Some(OutsideTraffic::new(name).map_err(while_doing(format!("[link] interface {name}")))?),
        };
        let listeners = listeners(&settings)?;
        if settings.accept == Accept::Confirmed && !listeners.is_empty() {
            relays.held_syns = Some(HeldSyns::open(settings.rules.port, settings.rules.refused())?);
        }
        let mut services: Vec<Box<dyn std::any::Any + Send>> = Vec::new();
        services.push(Box::new(control::serve(&settings.control, handle.clone())?));
        if let Some(address) = settings.metrics {
            services.push(Box::new(metrics::serve(address, handle.clone())?));
        }
        // Last of all: a second gateway of the same name must fail before it touches the first one's rules.
        let steering = Some(Steering::new(settings.rules.clone(), own, move |addresses| {
            handle.send(Request::OwnAddresses(addresses));
        })?);
        let mut gateway = Self {
            poll,
            waker,
            requests,
            requester,
            timer,
            timer_set_to: None,
            send_buffer: vec![0; udp.batch_size(settings.link.mtu)],
            udp,
            udp_readable: true,
            udp_writable: true,
            unsent: None,
            send_errors: 0,
            listeners,
            accepting: false,
            syns_wait: false,
            relays,
            steering,
            outside,
            outside_bps: 0,
            public_key,
            started: now,
            next_tick: now,
            services,
            settings,
        };
        gateway.watch().map_err(while_doing("watching sockets"))?;
        Ok(gateway)
    }

    fn watch(&mut self) -> io::Result<()> {
        let registry = self.poll.registry();
        let watch = |fd: RawFd, token, interest| registry.register(&mut SourceFd(&fd), token, interest);
        watch(self.udp.as_raw_fd(), UDP, Interest::READABLE | Interest::WRITABLE)?;
        watch(self.timer.as_raw_fd(), TIMER, Interest::READABLE)?;
        if let Some(syns) = &self.relays.held_syns {
            watch(syns.as_raw_fd(), HELD_SYNS, Interest::READABLE)?;
        }
        self.listeners.iter().try_for_each(|listener| watch(listener.as_raw_fd(), LISTENERS, Interest::READABLE))
    }

    /// A way to the gateway from other threads.
    pub fn handle(&self) -> Handle {
        Handle { requests: self.requester.clone(), waker: Arc::clone(&self.waker) }
    }

    /// Relays until [`Handle::stop`]; then resets what it relays and removes its rules.
    ///
    /// # Errors
    /// If the poll fails.
    pub fn run(mut self) -> io::Result<()> {
        tracing::info!(name = self.settings.name, listen = %self.settings.listen, public_key = self.public_key, "started");
        let mut events = Events::with_capacity(1024);
        loop {
            let timeout = self.has_more().then_some(std::time::Duration::ZERO);
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            let now = clock::now();
            for event in &events {
                self.on_event(now, event);
            }
            if self.answer_requests(now) {
                break;
            }
            self.step(now);
        }
        self.stop();
        Ok(())
    }

    /// Whether something was left undone for the sake of the budget.
    fn has_more(&self) -> bool {
        self.udp_readable || self.accepting || self.syns_wait || self.relays.has_work()
    }

    fn on_event(&mut self, now: Instant, event: &mio::event::Event) {
        match event.token() {
            UDP => {
                self.udp_readable |= event.is_readable();
                self.udp_writable |= event.is_writable();
            }
            LISTENERS => self.accepting = true,
            HELD_SYNS => self.syns_wait = true,
            TIMER => {
                self.timer_set_to = None;
                // Whatever it says, `step` looks at the clock.
                let _ = self.timer.acknowledge();
            }
            WAKER => {}
            token => self.relays.on_socket_event(now, token, event),
        }
    }

    fn step(&mut self, now: Instant) {
        if self.relays.endpoint.next_timeout().is_some_and(|at| at <= now) {
            self.relays.endpoint.handle_timeout(now);
        }
        self.relays.handle_timeout(now);
        if self.next_tick <= now {
            self.tick(now);
        }
        self.receive(now);
        self.hold(now);
        self.accept(now);
        self.take_events(now);
        self.relays.run(now, TURNS);
        self.transmit(now);
        // What the relays did may have ended streams.
        self.take_events(now);
        self.set_timer(now);
    }

    fn tick(&mut self, now: Instant) {
        self.next_tick = now + outside::PERIOD;
        self.relays.sweep(now);
        // A listener that ran out of descriptors tries again.
        self.accepting |= !self.listeners.is_empty();
        if let Some(outside) = &mut self.outside {
            let rate = outside.update(now, self.relays.endpoint.stats().sent_ip_bytes);
            self.outside_bps = rate.as_bps();
            self.relays.endpoint.set_outside_traffic(now, rate);
        }
    }

    fn receive(&mut self, now: Instant) {
        for _ in 0..RECEIVE_BATCHES {
            if !self.udp_readable {
                return;
            }
            let endpoint = &mut self.relays.endpoint;
            match self.udp.receive(|from, datagram| endpoint.handle_datagram(now, from, datagram)) {
                // A batch that is not full has emptied the socket; what comes later raises a new event.
                Ok(filled) => self.udp_readable = filled == quinn_udp::BATCH_SIZE,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.udp_readable = false,
                // An ICMP message about an earlier datagram: the transport notices by itself what does not arrive.
                Err(error) => tracing::trace!(%error, "receive"),
            }
        }
    }

    fn accept(&mut self, now: Instant) {
        if !std::mem::take(&mut self.accepting) {
            return;
        }
        for listener in &self.listeners {
            for _ in 0..ACCEPTS {
                match transparent::accept(listener) {
                    Ok(Some(accepted)) => self.relays.accept(now, accepted),
                    Ok(None) => break,
                    Err(error) if is_out_of_descriptors(&error) => {
                        tracing::error!(%error, "clients wait for a free descriptor");
                        return;
                    }
                    // The client had gone before it was accepted.
                    Err(error) => tracing::debug!(%error, "accept"),
                }
                self.accepting = true;
            }
        }
    }

    fn hold(&mut self, now: Instant) {
        for _ in 0..ACCEPTS {
            let (true, Some(syns)) = (self.syns_wait, self.relays.held_syns.as_mut()) else { return };
            match syns.receive() {
                Ok(Some((held, open))) => self.relays.hold(now, held, open),
                Ok(None) => self.syns_wait = false,
                // Some SYNs did not fit into the socket; their clients send others.
                Err(error) => tracing::warn!(%error, "the queue of SYNs overflowed"),
            }
        }
    }

    /// Empties the transport's events.
    fn take_events(&mut self, now: Instant) {
        let mut peers_changed = false;
        while let Some(event) = self.relays.endpoint.poll_event() {
            match event {
                satpep::Event::PeerUp(peer) => {
                    tracing::info!(peer = self.relays.peer_name(peer), "peer is up");
                    peers_changed = true;
                }
                satpep::Event::PeerSilent(peer) => {
                    tracing::warn!(peer = self.relays.peer_name(peer), "peer does not answer");
                    peers_changed = true;
                }
                satpep::Event::PeerRestarted(peer) => {
                    tracing::warn!(peer = self.relays.peer_name(peer), "peer has restarted: its connections are reset");
                    peers_changed = true;
                }
                satpep::Event::PeerBroke(peer, violation) => {
                    tracing::warn!(
                        peer = self.relays.peer_name(peer),
                        "peer broke the protocol with {violation}: its connections are reset"
                    );
                    peers_changed = true;
                }
                event => self.relays.on_stream_event(now, event),
            }
        }
        match &self.steering {
            Some(steering) if peers_changed && self.listeners.is_empty() => steering.look_at_addresses(),
            Some(steering) if peers_changed => steering.intercept(self.relays.intercepted()),
            _ => {}
        }
    }

    fn transmit(&mut self, now: Instant) {
        for _ in 0..SEND_BATCHES {
            if !self.udp_writable {
                return;
            }
            // The system may turn out not to take batches.
            let size = self.udp.batch_size(self.settings.link.mtu).min(self.send_buffer.len());
            let buffer = &mut self.send_buffer[..size];
            let next = self.unsent.take().or_else(|| self.relays.endpoint.poll_transmit(now, buffer));
            let Some(transmit) = next else { return };
            match self.udp.send(transmit.to, &self.send_buffer[..transmit.size], transmit.segment_size) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.udp_writable = false;
                    self.unsent = Some(transmit);
                }
                // Lost like a datagram on the link; a probe that is too large for the interface is among them.
                Err(error) => {
                    self.send_errors += 1;
                    tracing::trace!(%error, to = %transmit.to, "send");
                }
            }
        }
    }

    fn set_timer(&mut self, now: Instant) {
        let mut transport = self.relays.endpoint.next_timeout();
        if !self.udp_writable {
            // What is overdue cannot be sent before the socket says so: no spinning until then.
            transport = transport.map(|at| at.max(now + BLOCKED_PERIOD));
        }
        let deadlines = [transport, self.relays.next_timeout(), Some(self.next_tick)];
        let deadline = deadlines.into_iter().flatten().min();
        // A timer that is set too early costs a wake; setting it anew each time costs more.
        let is_later = |set_to: Instant| deadline.is_none_or(|deadline| set_to <= deadline);
        if !self.timer_set_to.is_some_and(is_later) {
            if let Err(error) = self.timer.set(deadline) {
                tracing::error!(%error, "the timer could not be set");
            }
            self.timer_set_to = deadline;
        }
    }

    /// Answers other threads; returns whether one of them wants the gateway to stop.
    fn answer_requests(&mut self, now: Instant) -> bool {
        while let Ok(request) = self.requests.try_recv() {
            match request {
                Request::Stop => return true,
                Request::OwnAddresses(own) => self.relays.set_own_addresses(&own),
                Request::Snapshot(answer) => {
                    let facts = Facts {
                        name: &self.settings.name,
                        public_key: self.public_key.clone(),
                        started: self.started,
                        rate_bps: self.settings.link.rate.as_bps(),
                        outside_bps: self.outside_bps,
                        send_errors: self.send_errors,
                    };
                    // The asker may have gone.
                    let _ = answer.send(Snapshot::new(now, &facts, &self.relays));
                }
            }
        }
        false
    }

    /// Leaves in order: nothing new is intercepted, what is relayed is reset on both sides, the rules are removed.
    fn stop(&mut self) {
        tracing::info!("stopping");
        self.services.clear();
        if let Some(steering) = &self.steering {
            steering.stop();
        }
        let mut now = clock::now();
        let end = now + FAREWELL;
        self.relays.shut_down(now);
        let mut closing = false;
        while now < end {
            if self.relays.endpoint.next_timeout().is_some_and(|at| at <= now) {
                self.relays.endpoint.handle_timeout(now);
            }
            self.udp_writable = true;
            self.transmit(now);
            if !closing && end.since(now) < FAREWELL / 2 {
                closing = true;
                self.relays.endpoint.close(now);
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
            now = clock::now();
        }
        self.listeners.clear();
        self.steering = None;
        tracing::info!("stopped");
    }
}

fn endpoint(
    settings: &Settings,
    now: Instant,
) -> Result<(Endpoint, Vec<(satpep::PeerId, crate::config::Peer)>), StartError> {
    let link = &settings.link;
    let mut config = EndpointConfig::new(settings.private_key.clone(), link.rate, link.receive_rate, link.rtt);
    config.mode = settings.mode;
    config.cipher = settings.cipher;
    config.mtu = link.mtu;
    (config.learn, config.share) = (link.learn, link.share);
    config.pool = link.pool;
    config.outage_limit = link.outage_limit.unwrap_or(config.outage_limit);
    config.max_streams = link.max_streams.unwrap_or(config.max_streams);
    config.repair = link.repair.unwrap_or(config.repair);
    config.repair_share = link.repair_share.unwrap_or(config.repair_share);
    let mut endpoint = Endpoint::new(config, now, unix_time(), seed()?);
    let mut peers = Vec::new();
    for peer in &settings.peers {
        let PeerConfig { public_key, address, .. } = PeerConfig::new(peer.public_key, peer.address);
        let id = endpoint
            .add_peer(now, PeerConfig { public_key, address, weight: peer.weight, cap: peer.cap })
            .map_err(|source| StartError::Peer { name: peer.name.clone(), source })?;
        peers.push((id, peer.clone()));
    }
    Ok((endpoint, peers))
}

fn listeners(settings: &Settings) -> Result<Vec<Socket>, StartError> {
    if settings.rules.interfaces.is_empty() {
        return Ok(Vec::new());
    }
    let port = settings.rules.port;
    let listen =
        |address: SocketAddr| transparent::listen(address).map_err(while_doing(format!("listening at {address}")));
    let mut listeners = vec![listen((Ipv4Addr::LOCALHOST, port).into())?];
    if settings.rules.ipv6 {
        listeners.push(listen((Ipv6Addr::LOCALHOST, port).into())?);
    }
    Ok(listeners)
}

/// Nanoseconds since 1970: peers tell a repeated handshake from a new one by it.
fn unix_time() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn seed() -> Result<[u8; 32], StartError> {
    use ring::rand::{SecureRandom as _, SystemRandom};
    let mut seed = [0; 32];
    SystemRandom::new()
        .fill(&mut seed)
        .map_err(|_| while_doing("reading randomness")(io::Error::other("the system has none")))?;
    Ok(seed)
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

/// Settings of the host that keep connections from being relayed, or bypassed ones from being forwarded.
fn warn_about_host(settings: &Settings) {
    let is = |path: &str, value: &str| std::fs::read_to_string(path).is_ok_and(|text| text.trim() == value);
    for family in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
        if is(&format!("/proc/sys/net/{family}"), "0") {
            tracing::warn!(
                "net.{} is 0: connections that bypass the gateway are not forwarded",
                family.replace('/', ".")
            );
        }
    }
    if settings.accept == Accept::Confirmed && settings.rules.interfaces.is_empty() {
        tracing::warn!("accept = \"confirmed\" has no effect without [intercept] interfaces");
    }
    if routes::has_ipv6() && !settings.rules.ipv6 {
        tracing::warn!("this host has no address ::1: IPv6 connections are not relayed");
    }
    for interface in settings.rules.interfaces.iter().map(String::as_str).chain(["all"]) {
        let conf = format!("/proc/sys/net/ipv4/conf/{interface}");
        if is(&format!("{conf}/src_valid_mark"), "1") && !is(&format!("{conf}/rp_filter"), "0") {
            tracing::warn!(
                "net.ipv4.conf.{interface}: src_valid_mark with rp_filter drops intercepted packets; set one of them to 0"
            );
        }
    }
}
