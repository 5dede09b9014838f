//! A modem: waits for routers and reports one link to them.

use crate::discovery::{Discovery, LOOK, replaced};
use crate::drive::drive;
use dlep::{ConnectionPoint, Mac, Metrics, ModemEvent, Settings};
use kernel::{clock, gtsm};
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};

/// How a modem is set up.
#[derive(Debug, Clone, PartialEq)]
pub struct ModemSettings {
    /// Where the router is.
    pub interface: String,
    /// TCP and UDP port.
    pub port: u16,
    /// The destination behind the link.
    pub destination: Mac,
    /// The session: heartbeat and name.
    pub session: Settings,
}

/// Metrics that routers receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkReport {
    /// What holds for the session, whatever the destination: all rates and the latency at least, and every other metric that
    /// the destination ever has.
    pub session: Metrics,
    /// What the link to the destination carries; `None` while it is down.
    pub link: Option<Metrics>,
}

/// Sessions at a time.
const SESSIONS: usize = 4;
/// Connections at a time that have not become sessions yet.
const WAITING: usize = 16;
/// How long to leave a socket alone that fails.
const RESPITE: std::time::Duration = std::time::Duration::from_millis(100);

/// Sockets that wait for routers.
#[derive(Debug)]
pub struct Modem {
    settings: ModemSettings,
    listeners: Vec<std::net::TcpListener>,
    /// The number of the interface that they are bound to.
    scope: u32,
}

impl Modem {
    /// Opens the sockets in the network namespace of the calling thread.
    ///
    /// # Errors
    /// If the interface does not exist, the port is in use, or the process may not bind to it.
    pub fn open(settings: ModemSettings) -> io::Result<Self> {
        let scope = gtsm::index(&settings.interface)?;
        let listeners = listeners(&settings)?;
        Ok(Self { settings, listeners, scope })
    }

    /// Sends every router that connects the latest of `reports`. Runs until its sender is gone. If the interface is removed, it
    /// waits at the next one of that name. Call it on a thread of the namespace that the sockets were opened in.
    ///
    /// # Errors
    /// If the sockets cannot be watched.
    pub async fn run(self, reports: watch::Receiver<LinkReport>) -> io::Result<()> {
        let places = Arc::new(Places::default());
        tokio::select! {
            failed = listen(self, &places, &reports) => return failed,
            () = ended(reports.clone()) => {}
        }
        // Sessions end in order.
        let all = u32::try_from(SESSIONS).unwrap_or(u32::MAX);
        let _ = tokio::time::timeout(RESPITE * 5, places.sessions.acquire_many(all)).await;
        Ok(())
    }
}

/// A listener of each family that the host has.
fn listeners(settings: &ModemSettings) -> io::Result<Vec<std::net::TcpListener>> {
    let (mut listeners, mut lacking) = (Vec::new(), None);
    for (is_ipv6, family) in [(false, "IPv4"), (true, "IPv6")] {
        match gtsm::listen(is_ipv6, settings.port, &settings.interface) {
            Ok(listener) => listeners.push(listener.into()),
            Err(error) if lacks_family(&error) => lacking = Some(error),
            Err(error) => {
                let text = format!("TCP port {} over {family}: {error}", settings.port);
                return Err(io::Error::new(error.kind(), text));
            }
        }
    }
    match lacking {
        Some(error) if listeners.is_empty() => Err(error),
        _ => Ok(listeners),
    }
}

/// Whether the host, or the interface, has no addresses of the family: the other one may do. Any other error means that routers of this
/// family would reach another program, or none.
fn lacks_family(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT | libc::EADDRNOTAVAIL))
}

async fn ended(mut reports: watch::Receiver<LinkReport>) {
    while reports.changed().await.is_ok() {}
}

/// Waits for routers at the interface, and at the one that takes its place. Returns only if it fails.
async fn listen(mut modem: Modem, places: &Arc<Places>, reports: &watch::Receiver<LinkReport>) -> io::Result<()> {
    loop {
        let Modem { settings, listeners, scope } = modem;
        let shared = Arc::new(settings.clone());
        let mut tasks = tokio::task::JoinSet::new();
        for listener in listeners {
            let listener = TcpListener::from_std(listener)?;
            let is_ipv6 = listener.local_addr()?.is_ipv6();
            tasks.spawn(accept(listener, Arc::clone(&shared), Arc::clone(places), reports.clone()));
            match Discovery::bind(is_ipv6, &shared.interface, shared.port, true) {
                Ok(discovery) => {
                    tasks.spawn(answer(discovery, Arc::clone(&shared)));
                }
                Err(error) => tracing::warn!(%error, is_ipv6, "DLEP: routers cannot discover this modem"),
            }
        }
        replaced(&shared.interface, Some(scope)).await;
        tasks.shutdown().await;
        tracing::info!(interface = shared.interface, "DLEP: the interface was removed");
        modem = reopened(settings).await;
    }
}

/// A modem at the interface, once there is one of that name again.
async fn reopened(settings: ModemSettings) -> Modem {
    let mut has_warned = false;
    loop {
        let interface = &settings.interface;
        match Modem::open(settings.clone()) {
            Ok(modem) => return modem,
            // The interface is there: what keeps the modem from it may stay.
            Err(error) if !has_warned && gtsm::index(interface).is_ok() => {
                tracing::warn!(%error, interface, "DLEP: routers cannot reach this modem; it tries again");
                has_warned = true;
            }
            Err(error) => tracing::debug!(%error, interface, "DLEP: no sockets yet"),
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Connections that a modem serves at a time.
struct Places {
    sessions: Arc<Semaphore>,
    /// What closes connections that are no sessions yet, the oldest first.
    waiting: Mutex<VecDeque<Arc<Notify>>>,
}

impl Default for Places {
    fn default() -> Self {
        Self { sessions: Arc::new(Semaphore::new(SESSIONS)), waiting: Mutex::default() }
    }
}

impl Places {
    /// A place for a connection that is no session yet; the oldest of too many is closed. Returns what closes this one.
    fn wait(&self) -> Arc<Notify> {
        let close = Arc::new(Notify::new());
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= WAITING {
            waiting.pop_front().iter().for_each(|oldest| oldest.notify_one());
        }
        waiting.push_back(Arc::clone(&close));
        close
    }

    /// Gives back the place of a connection that has become a session, or is over.
    fn leave(&self, close: &Arc<Notify>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|other| !Arc::ptr_eq(other, close));
    }

    /// A session's place instead of the one that `close` stands for; `None` if there are too many. A connection without one keeps its
    /// place among those that wait: its router may leave it open.
    fn enter(&self, close: &Arc<Notify>) -> Option<OwnedSemaphorePermit> {
        let place = Arc::clone(&self.sessions).try_acquire_owned().ok()?;
        self.leave(close);
        Some(place)
    }
}

async fn accept(
    listener: TcpListener,
    settings: Arc<ModemSettings>,
    places: Arc<Places>,
    reports: watch::Receiver<LinkReport>,
) {
    loop {
        match listener.accept().await {
            Ok((stream, router)) => {
                let (settings, places, reports) = (Arc::clone(&settings), Arc::clone(&places), reports.clone());
                tokio::spawn(async move {
                    let close = places.wait();
                    tokio::select! {
                        () = serve(stream, router, &settings, reports, &places, &close) => {}
                        () = close.notified() => {
                            tracing::debug!(%router, "DLEP: closed, newer connections wait for a session");
                        }
                    }
                    places.leave(&close);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "DLEP: accept");
                tokio::time::sleep(RESPITE).await;
            }
        }
    }
}

async fn serve(
    stream: TcpStream,
    router: SocketAddr,
    settings: &ModemSettings,
    mut reports: watch::Receiver<LinkReport>,
    places: &Places,
    close: &Arc<Notify>,
) {
    if let Err(error) = gtsm::enforce(&stream).and_then(|()| stream.set_nodelay(true)) {
        tracing::debug!(%error, %router, "DLEP: connection");
        return;
    }
    let session = reports.borrow().session;
    let mut modem = dlep::Modem::new(clock::now(), settings.session.clone(), session);
    let mut place = None;
    drive(&mut modem, stream, &mut reports, |modem, LinkReport { session, link }| {
        modem.set_session(clock::now(), session);
        modem.set_destination(settings.destination, link);
        while let Some(event) = modem.poll_event() {
            match event {
                ModemEvent::Requested => {
                    place = places.enter(close);
                    match &place {
                        Some(_) => modem.accept(clock::now()),
                        None => {
                            modem.decline(clock::now(), &format!("{SESSIONS} routers have sessions, as many as may"))
                        }
                    }
                }
                ModemEvent::Up(peer) => tracing::info!(%router, name = peer.name, "DLEP: session"),
                ModemEvent::Ended(end) => tracing::info!(%router, "DLEP: {end}"),
            }
        }
    })
    .await;
}

/// Answers routers that look for a modem.
async fn answer(discovery: Discovery, settings: Arc<ModemSettings>) {
    loop {
        match discovery.receive().await {
            Ok((datagram, router)) if dlep::wants_offer(&datagram) => {
                let point = own_address(&settings.interface, router)
                    .map(|ip| ConnectionPoint { address: SocketAddr::new(ip, settings.port), tls: false });
                let offer = dlep::offer(&settings.session.name, point.as_slice());
                // Some routers wait at DLEP's port, wherever they ask from.
                let at_port = SocketAddr::new(router.ip(), settings.port);
                let others = Some(router).filter(|router| router.port() != settings.port);
                for to in others.into_iter().chain([discovery.scoped(at_port)]) {
                    if let Err(error) = discovery.answer(&offer, to).await {
                        tracing::debug!(%error, %to, "DLEP: offer");
                    }
                }
            }
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(%error, "DLEP: discovery");
                tokio::time::sleep(RESPITE).await;
            }
        }
    }
}

/// The address from which `router` is reached: a datagram socket that is connected to it knows.
fn own_address(interface: &str, router: SocketAddr) -> Option<IpAddr> {
    let socket = gtsm::datagrams(router.is_ipv6(), 0, interface, None).ok()?;
    socket.connect(&router.into()).ok()?;
    Some(socket.local_addr().ok()?.as_socket()?.ip())
}
