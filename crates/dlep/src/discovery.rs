//! How a router finds its modem, §7.1: it asks by multicast, and the modem answers where a session may be had.

use crate::{Item, PORT, Signal, SignalKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Where discovery is sent over IPv4.
pub const GROUP_V4: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 117);
/// Where discovery is sent over IPv6.
pub const GROUP_V6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 7);

/// Where a session may be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionPoint {
    /// Address and port.
    pub address: SocketAddr,
    /// Whether the modem wants TLS there.
    pub tls: bool,
}

/// The datagram with which the router `name` asks.
pub fn discovery(name: &str) -> Vec<u8> {
    let items = vec![Item::PeerType(false, name.to_owned())];
    Signal { kind: SignalKind::PeerDiscovery, items }.encode()
}

/// Whether `datagram` asks for an offer.
pub fn wants_offer(datagram: &[u8]) -> bool {
    Signal::parse(datagram).is_ok_and(|signal| signal.kind == SignalKind::PeerDiscovery)
}

/// The datagram with which the modem `name` answers.
pub fn offer(name: &str, points: &[ConnectionPoint]) -> Vec<u8> {
    let mut items = vec![Item::PeerType(false, name.to_owned())];
    items.extend(points.iter().map(|point| match point.address {
        SocketAddr::V4(address) => Item::Ipv4ConnectionPoint(point.tls, *address.ip(), Some(address.port())),
        SocketAddr::V6(address) => Item::Ipv6ConnectionPoint(point.tls, *address.ip(), Some(address.port())),
    }));
    Signal { kind: SignalKind::PeerOffer, items }.encode()
}

/// Where the offer `datagram` from `from` says that a session may be had, in its order; none if it is no offer. Without a
/// connection point that is where it came from.
pub fn connection_points(datagram: &[u8], from: IpAddr) -> Vec<ConnectionPoint> {
    let Ok(Signal { kind: SignalKind::PeerOffer, items }) = Signal::parse(datagram) else { return Vec::new() };
    let point = |tls: bool, address: IpAddr, port: Option<u16>| ConnectionPoint {
        address: SocketAddr::new(address, port.unwrap_or(PORT)),
        tls,
    };
    let mut points: Vec<_> = items
        .into_iter()
        .filter_map(|item| match item {
            Item::Ipv4ConnectionPoint(tls, address, port) => Some(point(tls, address.into(), port)),
            Item::Ipv6ConnectionPoint(tls, address, port) => Some(point(tls, address.into(), port)),
            _ => None,
        })
        .collect();
    if points.is_empty() {
        points.push(point(false, from, None));
    }
    points
}
