//! Asking and answering by multicast (§7.1).

use dlep::ConnectionPoint;
use kernel::gtsm;
use std::io;
use std::net::{IpAddr, SocketAddr};
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// Longest signal that is read: a peer's description and some dozen connection points.
const LONGEST: usize = 2048;

/// A socket of discovery, of one family.
pub(crate) struct Discovery {
    socket: UdpSocket,
    group: SocketAddr,
    scope: u32,
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
                (None, from) => tracing::warn!(%from, "DLEP: a signal that no neighbour has sent is ignored"),
            }
        }
    }

    /// Where the offer `datagram` says that sessions may be had without TLS, IPv6 first.
    pub(crate) fn offered(&self, datagram: &[u8], from: SocketAddr) -> Vec<SocketAddr> {
        let points = dlep::connection_points(datagram, from.ip());
        let (tls, clear): (Vec<ConnectionPoint>, Vec<ConnectionPoint>) =
            points.into_iter().partition(|point| point.tls);
        if clear.is_empty() && !tls.is_empty() {
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
