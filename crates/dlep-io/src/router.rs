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
use units::Instant;

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
    Down {
        /// Why.
        why: String,
        /// How many in a row ended early or could not be had, this one included: a session that lasts begins the count again.
        failures: u32,
    },
}

/// Between attempts at a session, at first and at most.
const PAUSE: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(30)];
/// How long a connection may take: the modem is a neighbour.
const PATIENCE: Duration = Duration::from_secs(3);
/// Signals that ask for a modem come so often at first, then half as often each time until a minute is reached.
const ASK: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

/// Attempts at a session, in a row, of which none has lasted.
#[derive(Debug, Default)]
struct Failures(u32);

impl Failures {
    /// A session lasts that is up for so long. One that comes up and ends at once, as a modem may end it that has too many, is no success.
    const LASTING: units::Duration = units::Duration::from_secs(30);

    /// Counts one more, of a session that was up since `up`, if at all.
    fn count(&mut self, now: Instant, up: Option<Instant>) -> u32 {
        let has_lasted = up.is_some_and(|up| up + Self::LASTING <= now);
        self.0 = if has_lasted { 1 } else { self.0.saturating_add(1) };
        self.0
    }

    /// The time until the next attempt.
    fn pause(&self) -> Duration {
        (PAUSE[0] * (1 << self.0.saturating_sub(1).min(16))).min(PAUSE[1])
    }
}

/// Keeps a session with the modem until the sender of `stop` is gone; then ends it in order.
pub async fn route(settings: &RouterSettings, mut stop: watch::Receiver<()>, mut on: impl FnMut(News)) {
    let mut failures = Failures::default();
    loop {
        let until_stopped = stop.clone();
        let connected = tokio::select! {
            connected = connect(settings) => connected,
            () = stopped(until_stopped.clone()) => return,
        };
        match connected {
            Ok((stream, modem)) => hold(settings, stream, modem, &mut stop, &mut failures, &mut on).await,
            Err(error) => {
                on(News::Down { why: error.to_string(), failures: failures.count(clock::now(), None) });
            }
        }
        tokio::select! {
            () = sleep(failures.pause()) => {}
            () = stopped(until_stopped) => return,
        }
    }
}

async fn stopped(mut stop: watch::Receiver<()>) {
    while stop.changed().await.is_ok() {}
}

/// Holds one session.
async fn hold(
    settings: &RouterSettings,
    stream: TcpStream,
    modem: SocketAddr,
    stop: &mut watch::Receiver<()>,
    failures: &mut Failures,
    on: &mut impl FnMut(News),
) {
    let mut router = Router::new(clock::now(), settings.session.clone(), settings.destination);
    let (mut link, mut up) = (None, None);
    drive(&mut router, stream, stop, |router, ()| {
        while let Some(event) = router.poll_event() {
            match event {
                RouterEvent::Up(peer) => {
                    up = Some(clock::now());
                    on(News::Up { modem, name: peer.name });
                }
                RouterEvent::Changed(_) => {
                    // Of several the first one stays the link until it goes down.
                    let is_up = |mac: &Mac| router.destination(mac).is_some();
                    link = link.filter(is_up).or_else(|| router.destinations().next().map(|(mac, _)| mac));
                    on(News::Link(link.and_then(|mac| router.destination(&mac))));
                }
                RouterEvent::Ended(end) => {
                    on(News::Down { why: end.to_string(), failures: failures.count(clock::now(), up) });
                }
            }
        }
    })
    .await;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + units::Duration::from_secs(seconds)
    }

    #[test]
    fn only_a_session_that_lasts_shortens_the_pause() {
        let mut failures = Failures::default();
        let pauses: Vec<u128> = (0..9)
            .map(|n| {
                // Up, and down a second later.
                assert_eq!(failures.count(at(n), Some(at(n.saturating_sub(1)))), n as u32 + 1);
                failures.pause().as_millis()
            })
            .collect();
        assert_eq!(pauses, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
        assert_eq!(failures.count(at(100), None), 10, "none at all");
        assert_eq!((failures.count(at(140), Some(at(110))), failures.pause()), (1, PAUSE[0]));
    }
}
