//! Resets behind data: what a host has sent before it resets its connection arrives first, as end to end. The kernel drops what waits in a
//! socket that is closed by a reset, so the socket is kept until the other gateway's kernel has acknowledged everything.

use super::TcpTransport;
use super::tunnel::Tunnel;
use units::{Duration, Instant};

/// How soon the socket is looked at for the first time. The kernel raises no event when all is acknowledged.
const FIRST_LOOK: Duration = Duration::from_millis(10);
const LONGEST_LOOK: Duration = Duration::from_secs(1);

impl TcpTransport {
    /// Resets stream `at` once everything sent has arrived.
    pub(super) fn reset_behind(&mut self, now: Instant, at: usize) {
        self.tunnels[at].resets_since = Some(now);
        self.on_resetting(now, at);
    }

    /// Sends on what stream `at` has to say before it is reset.
    pub(super) fn on_resetting(&mut self, now: Instant, at: usize) {
        let tunnel = &mut self.tunnels[at];
        let waited = tunnel.resets_since.map_or(Duration::ZERO, |since| now.since(since));
        match tunnel.drain(&mut self.pipes) {
            Ok(false) if tunnel.is_connected() => {
                self.set_deadline(at, Some(now + (waited / 4).max(FIRST_LOOK).min(LONGEST_LOOK)));
            }
            _ => drop(self.remove(at)),
        }
    }
}

impl Tunnel {
    /// Whether it is to be reset as soon as everything sent has arrived.
    pub(super) fn is_resetting(&self) -> bool {
        self.resets_since.is_some()
    }

    /// Whether what the peer has sent before its connection failed is still to be read: the relayed connection is open, and the end has
    /// not been read.
    pub(super) fn is_read_on(&self) -> bool {
        let is_open = match self.request {
            Some(_) => self.has_replied,
            // The answer may have come together with all that follows.
            None => !self.awaits_reply || (!self.is_direct && self.has_unread()),
        };
        is_open && !self.has_ended && self.failed.is_none()
    }

    /// Whether bytes that have arrived wait in the socket.
    fn has_unread(&self) -> bool {
        self.tcp.socket.as_ref().is_some_and(|socket| rustix::io::ioctl_fionread(socket).is_ok_and(|count| count > 0))
    }

    /// Whether what is sent to the peer can still arrive.
    pub(super) fn takes_data(&self) -> bool {
        !self.tcp.has_write_failed() && self.reset_by_peer.is_none()
    }

    /// How much the other end has not acknowledged, about, while it is to be reset.
    pub(super) fn undelivered(&self) -> Option<u64> {
        self.unacknowledged().filter(|_| self.is_resetting())
    }

    /// How much the other end has not acknowledged, about; `None` if that is not known.
    pub(super) fn unacknowledged(&self) -> Option<u64> {
        let socket = self.tcp.socket.as_ref()?;
        let info = kernel::tcp::tcp_info(socket).ok()?;
        let in_flight = u64::from(info.unacknowledged_segments) * u64::from(info.segment.max(1));
        Some(in_flight + u64::from(info.unsent_bytes) + self.pending() as u64 + self.to_tunnel.filled() as u64)
    }

    /// Sends what waits; returns whether the other end has acknowledged everything.
    fn drain(&mut self, pipes: &mut super::splice::Pipes) -> std::io::Result<bool> {
        Ok(self.flush()? && self.to_tunnel.drain(pipes, &mut self.tcp)? && self.is_acknowledged())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp_socket::Tcp;
    use crate::transport::tcp::buffers::Buffers;
    use crate::transport::tcp::splice::Pipes;
    use crate::transport::tcp::tests::settings;
    use crate::transport::tcp::tls::Configs;
    use crate::transport::tcp::tunnel::Role;
    use crate::transport::{ConnectReply, Progress};
    use relay::connect::CONNECTED;
    use satpep::ResetReason;
    use socket2::{Domain, Socket, Type};
    use std::io::{Read, Write};
    use std::net::SocketAddr;

    /// A gateway that is slow finds the answer, the server's bytes and the reset behind them all at once, and may meet the reset first.
    #[test]
    fn an_answer_that_has_come_with_a_reset_is_read_first() {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).expect("socket");
        listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("bind");
        listener.listen(1).expect("listen");
        let own = Socket::new(Domain::IPV4, Type::STREAM, None).expect("socket");
        own.connect(&listener.local_addr().expect("address")).expect("connect");
        own.set_nonblocking(true).expect("nonblocking");
        let (mut peer, _) = listener.accept().expect("accept");
        peer.write_all(&[CONNECTED, 1, 2, 3]).expect("the answer goes");
        peer.set_linger(Some(std::time::Duration::ZERO)).expect("linger");
        drop(peer);
        let mut tunnel = Tunnel::new(1, Role::Stream(0), Tcp::connecting(own), [127, 0, 0, 1].into());
        tunnel.awaits_reply = true;
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while tunnel.is_connected() {
            assert!(std::time::Instant::now() < deadline, "the reset does not arrive");
            std::thread::yield_now();
        }
        let (mut at_client, client) = Socket::pair(Domain::UNIX, Type::STREAM, None).expect("sockets");
        for socket in [&at_client, &client] {
            socket.set_nonblocking(true).expect("nonblocking");
        }
        at_client.write_all(b"more").expect("the client sends");
        let (mut client, mut pipes) = (Tcp::accepted(client), Pipes::new());
        assert_eq!(tunnel.send(&mut pipes, &mut client), (0, Progress::Blocked));
        assert!(tunnel.failed.is_none() && !tunnel.takes_data());
        assert_eq!(tunnel.reply(), ConnectReply::Connected);
        tunnel.awaits_reply = false;
        assert_eq!(tunnel.receive(&mut pipes, &mut client), (3, Progress::More));
        assert_eq!(tunnel.receive(&mut pipes, &mut client), (0, Progress::StreamFailed(ResetReason::Aborted)));
        let mut received = [0; 8];
        assert_eq!(at_client.read(&mut received).expect("bytes"), 3);
        assert_eq!(received[..3], [1, 2, 3]);
    }

    /// The two ends of a TCP connection whose handshake of TLS is over. The first one's socket holds little.
    fn protected_ends() -> [Tunnel; 2] {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).expect("socket");
        listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("bind");
        listener.listen(1).expect("listen");
        let near = Socket::new(Domain::IPV4, Type::STREAM, None).expect("socket");
        near.set_send_buffer_size(4096).expect("a buffer");
        near.connect(&listener.local_addr().expect("address")).expect("connect");
        let (far, _) = listener.accept().expect("accept");
        let mut ends = [near, far].map(|socket| {
            socket.set_nonblocking(true).expect("nonblocking");
            Tunnel::new(1, Role::Stream(0), Tcp::connecting(socket), [127, 0, 0, 1].into())
        });
        let configs = |own, peer| Configs::new(&settings(own, peer, "", "")).expect("configurations");
        ends[0].tls = Some(Box::new(configs(1, 2).connect(0).expect("the client's side")));
        ends[1].tls = Some(Box::new(configs(2, 1).accept().expect("the server's side")));
        for _ in 0..10_000 {
            if ends.iter().all(Tunnel::is_ready) {
                return ends;
            }
            for end in &mut ends {
                end.tcp.readable = true;
                end.flush().expect("the handshake goes on");
            }
        }
        panic!("the handshake does not end");
    }

    /// Takes what the socket of `near` has to say, until its host has no more.
    fn empty_socket(near: &Tunnel, far: &Tunnel) {
        let [near, mut far] = [near, far].map(|end| end.tcp.socket.as_ref().expect("a socket"));
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        let waits = || {
            let info = kernel::tcp::tcp_info(near).expect("it is open");
            info.unacknowledged_segments > 0 || info.unsent_bytes > 0
        };
        while waits() {
            assert!(std::time::Instant::now() < deadline, "the socket keeps bytes");
            let _ = far.read(&mut [0; 65_536]);
        }
    }

    #[test]
    fn what_waits_in_tls_is_not_delivered_and_only_becomes_less() {
        let [mut near, far] = protected_ends();
        let (mut at_client, client) = Socket::pair(Domain::UNIX, Type::STREAM, None).expect("sockets");
        for socket in [&at_client, &client] {
            socket.set_nonblocking(true).expect("nonblocking");
        }
        let (mut client, mut buffers) = (Tcp::accepted(client), Buffers::new());
        at_client.write_all(&[7; 100_000]).expect("the client sends");
        while near.encrypt(&mut buffers, &mut client).1 == Progress::More {
            empty_socket(&near, &far);
        }
        near.resets_since = Some(Instant::ZERO);
        empty_socket(&near, &far);
        let mut left = near.undelivered().expect("it is to be reset");
        assert!(left > 0 && !near.is_acknowledged(), "TLS has bytes that the socket has not taken");
        while left > 0 {
            near.flush().expect("the socket takes more");
            empty_socket(&near, &far);
            let before = std::mem::replace(&mut left, near.undelivered().expect("it is to be reset"));
            assert!(left < before, "{before}, then {left}");
        }
        assert!(near.is_acknowledged());
    }
}
