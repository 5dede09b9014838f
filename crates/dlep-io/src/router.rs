//! A router: finds its modem and keeps a session with it.

use crate::discovery::{Discovery, replaced, scoped};
use crate::drive::drive;
use dlep::{Mac, Metrics, Router, RouterEvent, Settings};
use kernel::{clock, gtsm};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// How a router is set up.
#[derive(Debug, Clone, PartialEq)]
pub struct RouterSettings {
    /// Where the modem is.
    pub interface: String,
    /// The modem's address; it is looked for by multicast without.
    pub modem: Option<SocketAddr>,
    /// UDP port of discovery.
    pub port: u16,
    /// The destination that is the link; whatever comes up first without.
    pub destination: Option<Mac>,
    /// The session: heartbeat and name.
    pub session: Settings,
}

/// What happens, for the router's owner.
#[derive(Debug, Clone, PartialEq)]
pub enum News {
    /// A session with the modem is up.
    Up {
        /// Its address.
        modem: SocketAddr,
        /// What it says it is.
        name: String,
    },
    /// What the link carries now, or that it is down.
    Link(Option<Metrics>),
    /// The session is over, or could not be had.
    Down(String),
}

/// Between attempts at a session, at first and at most.
const PAUSE: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(30)];
/// How long a connection may take: the modem is a neighbour.
const PATIENCE: Duration = Duration::from_secs(3);
/// Signals that ask for a modem come so often at first, then half as often each time until a minute is reached.
const ASK: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

/// Keeps a session with the modem until the sender of `stop` is gone; then ends it in order.
pub async fn route(settings: &RouterSettings, mut stop: watch::Receiver<()>, mut on: impl FnMut(News)) {
    let mut pause = PAUSE[0];
    loop {
        let until_stopped = stop.clone();
        let connected = tokio::select! {
            connected = connect(settings) => connected,
            () = stopped(until_stopped.clone()) => return,
        };
        match connected {
            Ok((stream, modem)) => {
                let was_up = hold(settings, stream, modem, &mut stop, &mut on).await;
                pause = if was_up { PAUSE[0] } else { pause };
            }
            Err(error) => on(News::Down(error.to_string())),
        }
        tokio::select! {
            () = sleep(pause) => pause = (pause * 2).min(PAUSE[1]),
            () = stopped(until_stopped) => return,
        }
    }
}

async fn stopped(mut stop: watch::Receiver<()>) {
    while stop.changed().await.is_ok() {}
}

/// Holds one session; returns whether it came up.
async fn hold(
    settings: &RouterSettings,
    stream: TcpStream,
    modem: SocketAddr,
    stop: &mut watch::Receiver<()>,
    on: &mut impl FnMut(News),
) -> bool {
    let mut router = Router::new(clock::now(), settings.session.clone(), settings.destination);
    let (mut link, mut was_up) = (None, false);
    drive(&mut router, stream, stop, |router, ()| {
        while let Some(event) = router.poll_event() {
            match event {
                RouterEvent::Up(peer) => {
                    was_up = true;
                    on(News::Up { modem, name: peer.name });
                }
                RouterEvent::Changed(_) => {
                    // Of several the first one stays the link until it goes down.
                    let is_up = |mac: &Mac| router.destination(mac).is_some();
                    link = link.filter(is_up).or_else(|| router.destinations().next().map(|(mac, _)| mac));
                    on(News::Link(link.and_then(|mac| router.destination(&mac))));
                }
                RouterEvent::Ended(end) => on(News::Down(end.to_string())),
            }
        }
    })
    .await;
    was_up
}

/// A connection to the modem.
async fn connect(settings: &RouterSettings) -> io::Result<(TcpStream, SocketAddr)> {
    let candidates = match settings.modem {
        Some(modem) => vec![scoped(modem, gtsm::index(&settings.interface)?)],
        None => discover(settings).await?,
    };
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the modem offers no session without TLS");
    for address in candidates {
        match timeout(PATIENCE, connect_to(settings, address)).await {
            Ok(Ok(stream)) => return Ok((stream, address)),
            Ok(Err(error)) => last = io::Error::new(error.kind(), format!("modem {address}: {error}")),
            Err(_) => {
                last = io::Error::new(io::ErrorKind::TimedOut, format!("modem {address}: no answer"));
            }
        }
    }
    Err(last)
}

async fn connect_to(settings: &RouterSettings, address: SocketAddr) -> io::Result<TcpStream> {
    let socket = gtsm::stream(address.is_ipv6(), &settings.interface)?;
    let stream = TcpSocket::from_std_stream(socket.into()).connect(address).await?;
    gtsm::enforce(&stream)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Where modems offer a session: asks until one does.
async fn discover(settings: &RouterSettings) -> io::Result<Vec<SocketAddr>> {
    let bind = |is_ipv6| Discovery::bind(is_ipv6, &settings.interface, settings.port, false);
    let (v4, v6) = (bind(false), bind(true));
    if let (Err(error), Err(_)) = (&v4, &v6) {
        return Err(io::Error::new(error.kind(), format!("looking for a modem at {}: {error}", settings.interface)));
    }
    let sockets = [v4.ok(), v6.ok()];
    let scope = sockets.iter().flatten().next().map(Discovery::scope);
    tokio::select! {
        offered = ask(settings, &sockets) => offered,
        () = replaced(&settings.interface, scope) => Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("looking for a modem at {}: the interface was removed", settings.interface),
        )),
    }
}

/// Asks by `sockets` until a modem offers a session.
async fn ask(settings: &RouterSettings, sockets: &[Option<Discovery>; 2]) -> io::Result<Vec<SocketAddr>> {
    let signal = dlep::discovery(&settings.session.name);
    let mut period = ASK[0];
    loop {
        for socket in sockets.iter().flatten() {
            // A family that the interface has no address of.
            let _ = socket.ask(&signal).await;
        }
        let listen = async {
            loop {
                let offered = tokio::select! {
                    offered = first_offer(sockets[0].as_ref()) => offered,
                    offered = first_offer(sockets[1].as_ref()) => offered,
                }?;
                if !offered.is_empty() {
                    return Ok(offered);
                }
            }
        };
        match timeout(period, listen).await {
            Ok(offered) => return offered,
            Err(_) => period = (period * 2).min(ASK[1]),
        }
    }
}

async fn first_offer(socket: Option<&Discovery>) -> io::Result<Vec<SocketAddr>> {
    let Some(socket) = socket else { return std::future::pending().await };
    let (datagram, from) = socket.receive().await?;
    Ok(socket.offered(&datagram, from))
}
