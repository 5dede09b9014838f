//! Without a far gateway: the connection runs to the server itself.

use super::TcpTransport;
use super::tunnel::{Role, Tunnel, server_reason_of};
use crate::transport::ConnectReply;
use ::satpep::ResetReason;
use kernel::transparent;
use relay::connect::ConnectRequest;
use socket2::Socket;
use std::net::SocketAddr;
use units::Instant;

impl TcpTransport {
    /// A connection to the server itself: there is no far gateway, or none can be reached now.
    pub(super) fn open_direct(&mut self, now: Instant, peer: usize, request: &ConnectRequest) -> Option<usize> {
        let known = &self.peers[peer];
        // A far gateway's `connect_from` is about the connections that it asks for.
        let as_client = known.settings.connect_as_client || !known.is_direct();
        let source = as_client.then(|| other_port(request.source));
        let prepared = |socket: &Socket| self.sockets.prepare(socket);
        let socket = transparent::connect(source, request.destination, self.mark, self.host_keepalive, prepared)
            .inspect_err(
                |error| tracing::debug!(destination = %request.destination, %error, "no connection to the server"),
            )
            .ok()?;
        let at = self.insert(Role::Stream(peer), socket, request.destination.ip()).ok()?;
        self.tunnels[at].is_direct = true;
        self.set_deadline(at, Some(now + self.connect_timeout));
        self.count_opened("direct");
        Some(at)
    }
}

impl Tunnel {
    /// Whether the server itself has accepted.
    pub(super) fn connection_to_server(&self) -> ConnectReply {
        let Some(socket) = &self.tcp.socket else { return ConnectReply::Failed(ResetReason::Aborted) };
        match (socket.take_error(), self.failed) {
            (Ok(Some(error)) | Err(error), _) => ConnectReply::Failed(server_reason_of(&error)),
            (Ok(None), Some(reason)) => ConnectReply::Failed(reason),
            (Ok(None), None) if socket.peer_addr().is_ok() => ConnectReply::Connected,
            (Ok(None), None) => ConnectReply::Waiting,
        }
    }
}

/// The client's address with another port. The connection that the client has made to this host already has both of its
/// ends, and the firewall would take a second one between them for the same.
///
/// Each unprivileged port has a partner half of their number away. The kernel could choose one instead, but for that it needs ports of
/// this host's, which may be used up.
fn other_port(client: SocketAddr) -> SocketAddr {
    const LEAST: u16 = 1 << 10;
    const HALF: u16 = (u16::MAX - LEAST) / 2 + 1;
    let port = match client.port() {
        // The kernel chooses for the few of privileged programs.
        ..LEAST => 0,
        port if port < LEAST + HALF => port + HALF,
        port => port - HALF,
    };
    SocketAddr::new(client.ip(), port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ports_of_one_client_stay_apart_and_none_is_privileged() {
        let mut seen = BTreeSet::new();
        for port in 1024..=u16::MAX {
            let other = other_port(SocketAddr::from(([10, 0, 0, 1], port))).port();
            assert!(other != port && other >= 1024 && seen.insert(other), "{port} {other}");
        }
        assert_eq!(other_port(SocketAddr::from(([10, 0, 0, 1], 1023))).port(), 0);
    }
}
