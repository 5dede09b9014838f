//! Asks the network whether it leads to a peer's port, while the peer does not answer: a connected socket reports what ICMP
//! says, which the one socket for all peers is not.

use relay::dscp::Dscp;
use satpep::KNOCK;
use socket2::SockRef;
use status::Trouble;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use units::{Duration, Instant};

/// How long an answer may take, and how often to ask.
const PATIENCE: Duration = Duration::from_secs(4);
const PERIOD: Duration = Duration::from_secs(20);

/// What the network says of the way to one peer.
#[derive(Debug, Default)]
pub(crate) struct Knock {
    asked: Option<(Instant, UdpSocket)>,
    next: Instant,
    /// What it said last.
    pub(crate) seen: Option<Trouble>,
}

impl Knock {
    /// Asks, with a packet marked `dscp`, and listens, as is due.
    pub(crate) fn look(&mut self, now: Instant, address: SocketAddr, dscp: Dscp) {
        if let Some((at, socket)) = &self.asked {
            let heard = socket.take_error().ok().flatten();
            if heard.is_none() && now.since(*at) < PATIENCE {
                return;
            }
            self.seen = heard.as_ref().and_then(crate::trouble::of_way);
            self.asked = None;
        }
        if self.next <= now {
            self.next = now + PERIOD;
            match ask(address, dscp) {
                Ok(socket) => self.asked = Some((now, socket)),
                Err(error) => self.seen = crate::trouble::of_way(&error),
            }
        }
    }

    /// The peer is up.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}

/// A socket that has sent a probe and will report what ICMP says.
fn ask(address: SocketAddr, dscp: Dscp) -> io::Result<UdpSocket> {
    let any = if address.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
    socket.set_nonblocking(true)?;
    kernel::transparent::set_dscp(&SockRef::from(&socket), dscp.value());
    socket.connect(address)?;
    socket.send(&KNOCK)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_port_and_a_missing_route_are_told_and_an_open_port_is_not() {
        let Some(namespace) = kernel::testing::namespace() else { return };
        kernel::network::IpBatch::new(&namespace).add("link set lo up").run().unwrap();
        let seen = |address: &str, listens: bool| {
            let address: SocketAddr = address.parse().unwrap();
            let ask = || {
                let _listener = listens.then(|| UdpSocket::bind(address).unwrap());
                let mut knock = Knock::default();
                // On the loopback the answer is there when the datagram has been sent.
                knock.look(Instant::ZERO, address, Dscp::default());
                knock.look(Instant::ZERO + PATIENCE, address, Dscp::default());
                knock.seen.map(|trouble| trouble.reason)
            };
            namespace.run(ask).unwrap()
        };
        assert_eq!(seen("127.0.0.1:4500", false), Some("port_closed".into()));
        assert_eq!(seen("[::1]:4500", false), Some("port_closed".into()));
        assert_eq!(seen("127.0.0.1:4500", true), None);
        assert_eq!(seen("198.18.0.1:4500", false), Some("no_route".into()));
    }
}
