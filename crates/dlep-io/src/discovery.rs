//! Asking and answering by multicast (§7.1).

use dlep::ConnectionPoint;
use kernel::{clock, gtsm};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use units::{Duration, Instant};

/// Longest signal that is read: a peer's description and some dozen connection points.
const LONGEST: usize = 2048;

/// How often the interface is looked at by those that wait for something to come from there.
pub(crate) const LOOK: std::time::Duration = std::time::Duration::from_secs(5);

/// Returns when `interface` is no longer the one with the number `scope`: sockets that are bound to it hear nothing any more.
pub(crate) async fn replaced(interface: &str, scope: Option<u32>) {
    loop {
        tokio::time::sleep(LOOK).await;
        if gtsm::index(interface).ok() != scope {
            return;
        }
    }
}

/// A socket of discovery, of one family.
pub(crate) struct Discovery {
    socket: UdpSocket,
    group: SocketAddr,
    scope: u32,
    strangers: Warnings,
    tls_only: Warnings,
}

/// A warning that anybody who sends datagrams may cause: once a minute, so that nobody fills the log.
#[derive(Default)]
struct Warnings(AtomicU64);

impl Warnings {
    const AGAIN: Duration = Duration::from_secs(60);

    fn are_due(&self, now: Instant) -> bool {
        let is_due = now.as_nanos() >= self.0.load(Ordering::Relaxed);
        if is_due {
            self.0.store((now + Self::AGAIN).as_nanos(), Ordering::Relaxed);
        }
        is_due
    }
}

impl Discovery {
    /// A modem's, which joins the group, or a router's, which does not. Both are at DLEP's port: some modems answer to that one,
    /// wherever the question came from.
    pub(crate) fn bind(is_ipv6: bool, interface: &str, port: u16, joins: bool) -> io::Result<Self> {
        let group: IpAddr = if is_ipv6 { dlep::GROUP_V6.into() } else { dlep::GROUP_V4.into() };
        let socket = gtsm::datagrams(is_ipv6, port, interface, joins.then_some(group))?;
        let scope = gtsm::index(interface)?;
        Ok(Self {
            socket: UdpSocket::from_std(socket.into())?,
            group: scoped(SocketAddr::new(group, port), scope),
            scope,
            strangers: Warnings::default(),
            tls_only: Warnings::default(),
        })
    }

    /// The number of its interface.
    pub(crate) fn scope(&self) -> u32 {
        self.scope
    }

    /// Sends `signal` to the group.
    pub(crate) async fn ask(&self, signal: &[u8]) -> io::Result<()> {
        self.socket.send_to(signal, self.group).await.map(|_| ())
    }

    /// Sends `signal` to `to`.
    pub(crate) async fn answer(&self, signal: &[u8], to: SocketAddr) -> io::Result<()> {
        self.socket.send_to(signal, to).await.map(|_| ())
    }

    /// `address` with the interface's scope, if it needs one.
    pub(crate) fn scoped(&self, address: SocketAddr) -> SocketAddr {
        scoped(address, self.scope)
    }

    /// The next datagram that a neighbour has sent.
    pub(crate) async fn receive(&self) -> io::Result<(Vec<u8>, SocketAddr)> {
        let mut buffer = vec![0; LONGEST];
        loop {
            let receive = || gtsm::receive(&self.socket, &mut buffer);
            match self.socket.async_io(Interest::READABLE, receive).await? {
                (Some(length), from) => return Ok((buffer[..length].to_vec(), from)),
                (None, from) if self.strangers.are_due(clock::now()) => {
                    tracing::warn!(%from, "DLEP: a signal that no neighbour has sent is ignored");
                }
                (None, _) => {}
            }
        }
    }

    /// Where the offer `datagram` says that sessions may be had without TLS, IPv6 first.
    pub(crate) fn offered(&self, datagram: &[u8], from: SocketAddr) -> Vec<SocketAddr> {
        let points = dlep::connection_points(datagram, from.ip());
        let (tls, clear): (Vec<ConnectionPoint>, Vec<ConnectionPoint>) =
            points.into_iter().partition(|point| point.tls);
        if clear.is_empty() && !tls.is_empty() && self.tls_only.are_due(clock::now()) {
            tracing::warn!(%from, "DLEP: the modem offers sessions over TLS only, which is not supported");
        }
        let mut addresses: Vec<_> = clear.into_iter().map(|point| scoped(point.address, self.scope)).collect();
        addresses.sort_by_key(|address| !address.is_ipv6());
        addresses
    }
}

/// With the scope that link-local addresses need.
pub(crate) fn scoped(mut address: SocketAddr, scope: u32) -> SocketAddr {
    if let SocketAddr::V6(address) = &mut address
        && (address.ip().is_unicast_link_local() || address.ip().is_multicast())
        && address.scope_id() == 0
    {
        address.set_scope_id(scope);
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_due_once_a_minute() {
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let warnings = Warnings::default();
        let due: Vec<u64> = (1_000..1_200).filter(|seconds| warnings.are_due(at(*seconds))).collect();
        assert_eq!(due, [1_000, 1_060, 1_120, 1_180]);
    }
}
