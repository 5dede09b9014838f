//! From one socket to another through TLS.

use super::Tunnel;
use crate::tcp_socket::Tcp;
use crate::transport::Progress;
use crate::transport::tcp::buffers::Buffers;
use std::io::{self, Read, Write};

impl Tunnel {
    /// One read from `client`, encrypted and sent.
    pub(in crate::transport::tcp) fn encrypt(&mut self, buffers: &mut Buffers, client: &mut Tcp) -> (u64, Progress) {
        let (Some(tls), Some(mut socket)) = (&mut self.tls, client.socket.as_ref().filter(|_| client.readable)) else {
            return (0, Progress::Blocked);
        };
        let count = match socket.read(&mut buffers.arrived) {
            Ok(0) => return (0, Progress::Ended),
            Ok(count) => count,
            Err(error) => return (0, client.read_failed(&error)),
        };
        let progress = match tls.write(&buffers.arrived[..count]).and_then(|()| self.flush()) {
            Ok(true) => Progress::More,
            Ok(false) => Progress::Blocked,
            Err(error) => self.write_failed(&error),
        };
        (count as u64, progress)
    }

    /// What has been decrypted, written to `client`.
    pub(super) fn decrypt(&mut self, buffers: &mut Buffers, client: &mut Tcp) -> (u64, Progress) {
        let Some(mut socket) = client.socket.as_ref().filter(|_| client.writable) else {
            return (0, Progress::Blocked);
        };
        let result = if self.decrypted.is_empty() {
            match self.read_records(buffers) {
                Ok(0) => {
                    self.has_ended = true;
                    return (0, Progress::Ended);
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return (0, Progress::Blocked),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return (0, Progress::More),
                Err(error) => return (0, self.fail(&error)),
            }
            let result = socket.write(&buffers.decrypted);
            self.decrypted = buffers.decrypted[written(&result)..].to_vec();
            result
        } else {
            let result = socket.write(&self.decrypted);
            self.decrypted.drain(..written(&result));
            if self.decrypted.is_empty() {
                // A connection that does not stall keeps no memory for it.
                self.decrypted = Vec::new();
            }
            result
        };
        match result {
            Ok(count) => (count as u64, Progress::More),
            Err(error) => (0, client.write_failed(&error)),
        }
    }

    /// Has the buffers hold what one read from the peer brings; returns how many bytes that is, 0 at the end.
    fn read_records(&mut self, buffers: &mut Buffers) -> io::Result<usize> {
        self.advance()?;
        let (Some(tls), Some(socket)) = (&mut self.tls, self.tcp.socket.as_ref().filter(|_| self.tcp.readable)) else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        buffers.decrypted.clear();
        let result = tls.read_records(socket, &mut buffers.arrived, &mut buffers.decrypted);
        if let Err(error) = &result {
            let _ = self.tcp.read_failed(error);
        }
        result
    }
}

fn written(result: &io::Result<usize>) -> usize {
    *result.as_ref().unwrap_or(&0)
}

#[cfg(test)]
mod tests {
    use super::super::Role;
    use super::*;
    use crate::transport::tcp::tls::Configs;
    use ::satpep::{PrivateKey, ResetReason};
    use socket2::{Domain, Socket, Type};
    use std::net::{IpAddr, Ipv4Addr};

    fn pair() -> [Socket; 2] {
        let (one, other) = Socket::pair(Domain::UNIX, Type::STREAM, None).expect("sockets");
        [one, other].map(|socket| {
            socket.set_nonblocking(true).expect("nonblocking");
            socket
        })
    }

    fn tcp(socket: Socket) -> Tcp {
        Tcp::accepted(socket)
    }

    /// What the holder of `own` speaks with the holder of `peer`.
    fn configs(own: u8, peer: u8) -> Configs {
        let [own, peer] = [own, peer].map(|byte| PrivateKey::from_random([byte; 32]));
        let text = format!(
            "[gateway]\nprivate_key = \"{}\"\nlisten = \"198.18.0.1:4500\"\ntransport = \"tcp\"\n\
             [link]\ninterface = \"sat\"\nrate = \"1Gbit/s\"\nrtt = \"4ms\"\n\
             [intercept]\ninterfaces = [\"lan\"]\n\
             [[peer]]\nname = \"peer\"\npublic_key = \"{}\"\naddress = \"198.18.0.2:4500\"\n",
            own.to_base64(),
            peer.public_key(),
        );
        let settings = crate::config::parse(&text, "gateway.toml").unwrap_or_else(|faults| panic!("{faults}"));
        Configs::new(&settings).expect("configurations")
    }

    /// More than anything here takes.
    const MAX_TURNS: usize = 1_000;

    /// Two ends of a connection whose handshake is over, with data of this length that wait at the first one's client.
    struct Ends {
        near: Tunnel,
        far: Tunnel,
        client: Tcp,
        server: Tcp,
        at_client: Socket,
        at_server: Socket,
        buffers: Buffers,
        received: Vec<u8>,
    }

    impl Ends {
        fn new() -> Self {
            let [one, other] = pair();
            let tunnel =
                |socket| Tunnel::new(1, Role::Stream(0), Tcp::connecting(socket), IpAddr::V4(Ipv4Addr::LOCALHOST));
            let (mut near, mut far) = (tunnel(one), tunnel(other));
            near.tls = Some(Box::new(configs(1, 2).connect(0).expect("the client's side")));
            far.tls = Some(Box::new(configs(2, 1).accept().expect("the server's side")));
            let ([client, at_client], [server, at_server]) = (pair(), pair());
            let (client, server) = (tcp(client), tcp(server));
            let mut ends =
                Self { near, far, client, server, at_client, at_server, buffers: Buffers::new(), received: Vec::new() };
            for _ in 0..MAX_TURNS {
                if ends.near.is_ready() && ends.far.is_ready() {
                    return ends;
                }
                ends.wake();
                ends.near.flush().expect("the client's side's handshake");
                ends.far.flush().expect("the server's side's handshake");
            }
            panic!("the handshake does not end");
        }

        /// Every socket may be ready.
        fn wake(&mut self) {
            for tcp in [&mut self.near.tcp, &mut self.far.tcp, &mut self.client, &mut self.server] {
                (tcp.readable, tcp.writable) = (true, true);
            }
        }

        /// Moves what can be moved, once; returns what the far gateway has come to.
        fn turn(&mut self) -> Progress {
            self.wake();
            if self.near.flush().expect("the tunnel takes bytes") {
                self.near.encrypt(&mut self.buffers, &mut self.client);
            }
            let (_, progress) = self.far.decrypt(&mut self.buffers, &mut self.server);
            let mut buffer = [0; 10_000];
            while let Ok(count @ 1..) = self.at_server.read(&mut buffer) {
                self.received.extend_from_slice(&buffer[..count]);
            }
            progress
        }

        /// Sends `data`, as the sockets take them, until the server has them.
        fn send(&mut self, mut data: &[u8]) {
            let all = self.received.len() + data.len();
            for _ in 0..MAX_TURNS {
                if self.received.len() == all {
                    return;
                }
                if let Ok(count) = self.at_client.write(data) {
                    data = &data[count..];
                }
                self.turn();
            }
            panic!("{} of {all} bytes have come", self.received.len());
        }

        /// What follows when nothing more is sent.
        fn outcome(&mut self) -> Progress {
            (0..10).map(|_| self.turn()).find(|progress| !matches!(progress, Progress::More)).expect("an outcome")
        }
    }

    fn data(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at % 251) as u8).collect()
    }

    #[test]
    fn bytes_pass_in_order_through_sockets_that_take_little_and_the_end_is_told() {
        let mut ends = Ends::new();
        ends.server.socket.as_ref().expect("a socket").set_send_buffer_size(4096).expect("a buffer");
        let data = data(3 * crate::transport::tcp::buffers::TURN + 5);
        ends.send(&data);
        assert!(ends.received == data);
        assert_eq!(ends.outcome(), Progress::Blocked);
        ends.near.finish();
        assert_eq!(ends.outcome(), Progress::Ended);
    }

    #[test]
    fn what_comes_with_the_end_of_the_handshake_waits_for_no_further_word_of_the_socket() {
        let [one, other] = pair();
        let tunnel = |socket| Tunnel::new(1, Role::Stream(0), Tcp::connecting(socket), IpAddr::V4(Ipv4Addr::LOCALHOST));
        let (mut near, mut far) = (tunnel(one), tunnel(other));
        near.tls = Some(Box::new(configs(1, 2).connect(0).expect("the client's side")));
        far.tls = Some(Box::new(configs(2, 1).accept().expect("the server's side")));
        near.say(b"opening").expect("the hello goes");
        assert!(!far.flush().expect("the answer goes"));
        near.flush().expect("the end of the handshake goes, and what is behind it");
        // The event was that the socket takes bytes.
        far.tcp.readable = false;
        far.flush().expect("the handshake ends");
        let mut said = [0; 10];
        assert_eq!(far.read(&mut said).expect("what came with it"), 7);
        assert_eq!(&said[..7], b"opening");
    }

    #[test]
    fn an_end_that_the_other_side_has_not_told_is_a_failure() {
        let mut ends = Ends::new();
        ends.send(&data(100));
        let tunnel = ends.near.tcp.socket.as_ref().expect("a socket");
        tunnel.shutdown(std::net::Shutdown::Write).expect("an end");
        assert_eq!(ends.outcome(), Progress::StreamFailed(ResetReason::Aborted));
    }

    #[test]
    fn what_comes_before_a_record_that_is_not_the_other_sides_is_delivered_and_nothing_behind_it() {
        let mut ends = Ends::new();
        let data = data(100);
        ends.at_client.write_all(&data).expect("the client sends");
        ends.wake();
        ends.near.encrypt(&mut ends.buffers, &mut ends.client);
        let mut tunnel = ends.near.tcp.socket.as_ref().expect("a socket");
        tunnel.write_all(&[&[23, 3, 3, 0, 40][..], &[7; 40]].concat()).expect("a forged record");
        ends.at_client.write_all(&data).expect("the client sends more");
        ends.wake();
        ends.near.encrypt(&mut ends.buffers, &mut ends.client);
        assert_eq!(ends.outcome(), Progress::StreamFailed(ResetReason::Aborted));
        assert!(ends.received == data);
    }
}
