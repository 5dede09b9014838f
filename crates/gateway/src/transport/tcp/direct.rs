//! Without a far gateway: the connection runs to the server itself.

use super::TcpTransport;
use super::sockets::is_unavailable;
use super::tunnel::{Role, Tunnel, server_reason_of};
use crate::host_sockets::is_out_of_descriptors;
use crate::tcp_socket::Tcp;
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
            );
        let (role, server) = (Role::Stream(peer), request.destination.ip());
        let at = match socket {
            Ok(socket) => self.insert(role, socket, server).inspect(|_| self.count_opened("direct")).ok()?,
            // Others lack it as well: descriptors, or ports of this host's own address.
            Err(error) if is_out_of_descriptors(&error) || (!as_client && is_unavailable(&error)) => return None,
            // It concerns this client alone: those behind it are not to wait.
            Err(error) => {
                let at = self.put(Tcp::new(), role, server);
                let tunnel = &mut self.tunnels[at];
                (tunnel.awaits_reply, tunnel.failed) = (true, Some(server_reason_of(&error)));
                self.tell(at);
                at
            }
        };
        self.tunnels[at].is_direct = true;
        self.set_deadline(at, Some(now + self.connect_timeout));
        Some(at)
    }
}

impl Tunnel {
    /// Whether the server itself has accepted.
    pub(super) fn connection_to_server(&mut self) -> ConnectReply {
        let Some(socket) = &self.tcp.socket else {
            return ConnectReply::Failed(self.failed.unwrap_or(ResetReason::Aborted));
        };
        match (socket.take_error(), self.failed) {
            // It had accepted: a SYN is refused in other words. What came before the reset, with or without an end, is still read.
            (Ok(Some(error)), None) if matches!(error.raw_os_error(), Some(libc::ECONNRESET | libc::EPIPE)) => {
                self.tcp.note_failed_write();
                ConnectReply::Connected
            }
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
    use crate::transport::tcp::splice::Pipes;
    use crate::transport::tcp::tests::Hub;
    use crate::transport::{Progress, SatelliteTransport as _, StreamEvent};
    use relay::dscp::Dscp;
    use relay::engine::Transport as _;
    use socket2::{Domain, Type};
    use std::collections::BTreeSet;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use units::Duration;

    /// A gateway that is slow finds what the server has said and its reset at once.
    #[test]
    fn what_a_server_has_said_before_it_resets_is_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = Socket::from(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
        own.set_nonblocking(true).unwrap();
        let mut server = Socket::from(listener.accept().unwrap().0);
        server.write_all(b"answer").unwrap();
        server.set_linger(Some(std::time::Duration::ZERO)).unwrap();
        drop(server);
        let mut tunnel = Tunnel::new(1, Role::Stream(0), Tcp::connecting(own), [127, 0, 0, 1].into());
        (tunnel.is_direct, tunnel.awaits_reply) = (true, true);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while tunnel.is_connected() {
            assert!(std::time::Instant::now() < deadline, "the reset does not arrive");
            std::thread::yield_now();
        }
        assert_eq!(tunnel.connection_to_server(), ConnectReply::Connected);
        tunnel.awaits_reply = false;
        let (at_client, client) = Socket::pair(Domain::UNIX, Type::STREAM, None).unwrap();
        client.set_nonblocking(true).unwrap();
        let (mut client, mut pipes) = (Tcp::accepted(client), Pipes::new());
        assert_eq!(tunnel.receive(&mut pipes, &mut client), (6, Progress::More));
        assert_eq!(tunnel.receive(&mut pipes, &mut client), (0, Progress::StreamFailed(ResetReason::Aborted)));
        let mut received = [0; 6];
        (&at_client).read_exact(&mut received).unwrap();
        assert_eq!(&received, b"answer");
    }

    #[test]
    fn a_client_whose_server_cannot_be_called_learns_it_and_keeps_no_one_waiting() {
        let mut hub = Hub::new();
        let now = Instant::ZERO + Duration::from_secs(1000);
        // TCP does not broadcast.
        let [source, destination] = [([10, 0, 0, 1], 40_000), ([255; 4], 80)].map(SocketAddr::from);
        let request = ConnectRequest { source, destination, dscp: Dscp::default() };
        hub.transport.peers[0].settings.public_key = None;
        let id = hub.transport.open(now, 0, &request, None).expect("a stream that has failed");
        // A client whose SYN is held is looked at no sooner.
        assert_eq!(hub.transport.poll_event(now), Some(StreamEvent::Ready(id)));
        let ConnectReply::Failed(_) = hub.transport.read_reply(now, id) else { panic!("no failure") };
        hub.transport.reset(now, id, ResetReason::Aborted);
        assert_eq!((hub.transport.peers[0].streams, hub.transport.tunnels.len()), (0, 0));
    }

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
