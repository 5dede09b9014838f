//! A modem: waits for routers and reports one link to them.

use crate::discovery::Discovery;
use crate::drive::drive;
use dlep::{ConnectionPoint, Mac, Metrics, ModemEvent, Settings};
use kernel::{clock, gtsm};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

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
/// How long to leave a socket alone that fails.
const RESPITE: std::time::Duration = std::time::Duration::from_millis(100);

/// Sockets that wait for routers.
#[derive(Debug)]
pub struct Modem {
    settings: ModemSettings,
    listeners: Vec<std::net::TcpListener>,
}

impl Modem {
    /// Opens the sockets in the network namespace of the calling thread.
    ///
    /// # Errors
    /// If the interface does not exist, the port is in use, or the process may not bind to it.
    pub fn open(settings: ModemSettings) -> io::Result<Self> {
        // A host may have no IPv6; without IPv4, too, there is nothing to wait at.
        let v4 = gtsm::listen(false, settings.port, &settings.interface);
        let v6 = gtsm::listen(true, settings.port, &settings.interface);
        let listeners: Vec<std::net::TcpListener> = match (v4, v6) {
            (Ok(v4), Ok(v6)) => vec![v4.into(), v6.into()],
            (Ok(one), Err(_)) | (Err(_), Ok(one)) => vec![one.into()],
            (Err(error), Err(_)) => return Err(error),
        };
        Ok(Self { settings, listeners })
    }

    /// Sends every router that connects the latest of `reports`. Runs until its sender is gone. Call it on a thread of the namespace
    /// that the sockets were opened in.
    ///
    /// # Errors
    /// If the sockets cannot be watched.
    pub async fn run(self, reports: watch::Receiver<LinkReport>) -> io::Result<()> {
        let settings = Arc::new(self.settings);
        let places = Arc::new(Semaphore::new(SESSIONS));
        let mut tasks = tokio::task::JoinSet::new();
        for listener in self.listeners {
            let listener = TcpListener::from_std(listener)?;
            let is_ipv6 = listener.local_addr()?.is_ipv6();
            let (settings, places) = (Arc::clone(&settings), Arc::clone(&places));
            tasks.spawn(accept(listener, Arc::clone(&settings), places, reports.clone()));
            match Discovery::bind(is_ipv6, &settings.interface, settings.port, true) {
                Ok(discovery) => {
                    tasks.spawn(answer(discovery, settings));
                }
                Err(error) => tracing::warn!(%error, is_ipv6, "DLEP: routers cannot discover this modem"),
            }
        }
        let mut end = reports;
        while end.changed().await.is_ok() {}
        tasks.abort_all();
        // Sessions end in order.
        let all = u32::try_from(SESSIONS).unwrap_or(u32::MAX);
        let _ = tokio::time::timeout(RESPITE * 5, places.acquire_many(all)).await;
        Ok(())
    }
}

async fn accept(
    listener: TcpListener,
    settings: Arc<ModemSettings>,
    places: Arc<Semaphore>,
    reports: watch::Receiver<LinkReport>,
) {
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, router)) => {
                let (settings, reports) = (Arc::clone(&settings), reports.clone());
                tokio::spawn(async move {
                    serve(stream, router, &settings, reports).await;
                    drop(place);
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
) {
    if let Err(error) = gtsm::enforce(&stream).and_then(|()| stream.set_nodelay(true)) {
        tracing::debug!(%error, %router, "DLEP: connection");
        return;
    }
    let session = reports.borrow().session;
    let mut modem = dlep::Modem::new(clock::now(), settings.session.clone(), session);
    drive(&mut modem, stream, &mut reports, |modem, LinkReport { session, link }| {
        modem.set_session(clock::now(), session);
        modem.set_destination(settings.destination, link);
        while let Some(event) = modem.poll_event() {
            match event {
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
