//! `accept = "confirmed"`: SYNs held by the firewall until the server has answered.

use kernel::Error;
use kernel::nfqueue::{Held, Queue, Verdict};
use relay::connect::ConnectRequest;
use relay::dscp::Dscp;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};

/// The queue of held SYNs.
#[derive(Debug)]
pub(crate) struct HeldSyns {
    queue: Queue,
    refused_mark: u32,
}

impl HeldSyns {
    /// Serves queue `number`; a refused SYN goes on with `refused_mark`, for which the firewall answers with a reset.
    pub(crate) fn open(number: u16, refused_mark: u32) -> Result<Self, Error> {
        Ok(Self { queue: Queue::open(number)?, refused_mark })
    }

    /// The next SYN and the connection that it asks for. One that is not understood is let go and not returned.
    pub(crate) fn receive(&mut self) -> io::Result<Option<(Held, ConnectRequest)>> {
        while let Some(held) = self.queue.receive()? {
            match parse(&held.headers) {
                Some(request) => return Ok(Some((held, request))),
                None => self.decide(&held, Verdict::Accept),
            }
        }
        Ok(None)
    }

    /// Lets the SYN go on to the listener.
    pub(crate) fn release(&mut self, held: &Held) {
        self.decide(held, Verdict::Accept);
    }

    /// Has the SYN answered with a reset.
    pub(crate) fn refuse(&mut self, held: &Held) {
        self.decide(held, Verdict::AcceptMarked(self.refused_mark));
    }

    /// Forgets a repeated SYN: the first is still held.
    pub(crate) fn forget(&mut self, held: &Held) {
        self.decide(held, Verdict::Drop);
    }

    fn decide(&mut self, held: &Held, verdict: Verdict) {
        if let Err(error) = self.queue.decide(held, verdict) {
            tracing::warn!(%error, "a held SYN is lost; its client will send another");
        }
    }
}

impl AsRawFd for HeldSyns {
    fn as_raw_fd(&self) -> RawFd {
        self.queue.as_raw_fd()
    }
}

/// Source, destination and DSCP of a TCP packet; `None` if it is another one, or too short.
pub(crate) fn parse(packet: &[u8]) -> Option<ConnectRequest> {
    const TCP: u8 = 6;
    let (source, destination, traffic_class, tcp): (IpAddr, IpAddr, u8, &[u8]) = match packet.first()? >> 4 {
        4 if *packet.get(9)? == TCP => {
            let octets = |at: usize| <[u8; 4]>::try_from(packet.get(at..at + 4)?).ok();
            let header = usize::from(packet[0] & 0xf) * 4;
            (Ipv4Addr::from(octets(12)?).into(), Ipv4Addr::from(octets(16)?).into(), packet[1], packet.get(header..)?)
        }
        6 if *packet.get(6)? == TCP => {
            let octets = |at: usize| <[u8; 16]>::try_from(packet.get(at..at + 16)?).ok();
            let traffic_class = packet[0] << 4 | packet[1] >> 4;
            (Ipv6Addr::from(octets(8)?).into(), Ipv6Addr::from(octets(24)?).into(), traffic_class, packet.get(40..)?)
        }
        _ => return None,
    };
    let [a, b, c, d, ..] = *tcp else { return None };
    Some(ConnectRequest {
        source: SocketAddr::new(source, u16::from_be_bytes([a, b])),
        destination: SocketAddr::new(destination, u16::from_be_bytes([c, d])),
        dscp: Dscp::of_traffic_class(traffic_class),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_ports_and_markings_are_read_from_both_families() {
        let mut v4 = vec![0x46, 0xb8, 0, 0, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 192, 0, 2, 9, 1, 1, 1, 1];
        v4.extend([0x30, 0x39, 0, 80]);
        let request = parse(&v4).unwrap();
        assert_eq!(
            (request.source.to_string(), request.destination.to_string()),
            ("10.0.0.1:12345".into(), "192.0.2.9:80".into())
        );
        assert_eq!(request.dscp.value(), 46);
        let mut v6 = vec![0x62, 0x80, 0, 0, 0, 20, 6, 64];
        v6.extend("2001:db8::1".parse::<Ipv6Addr>().unwrap().octets());
        v6.extend("2001:db8::2".parse::<Ipv6Addr>().unwrap().octets());
        v6.extend([0, 5, 0, 7]);
        let request = parse(&v6).unwrap();
        assert_eq!(
            (request.source.to_string(), request.destination.to_string()),
            ("[2001:db8::1]:5".into(), "[2001:db8::2]:7".into())
        );
        assert_eq!(request.dscp.value(), 10);
        for packet in [v4, v6] {
            assert!((0..packet.len()).all(|cut| parse(&packet[..cut]).is_none()));
        }
    }

    #[test]
    fn other_packets_are_not_understood() {
        let mut udp = vec![0; 28];
        (udp[0], udp[9]) = (0x45, 17);
        assert_eq!(parse(&udp), None);
        assert_eq!(parse(&[0x50; 60]), None);
    }
}
