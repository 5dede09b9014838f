//! The headers around a datagram.

use std::net::SocketAddr;

/// Bytes of the IP and UDP headers of a datagram to or from an address.
pub(super) fn ip_overhead(address: &SocketAddr) -> usize {
    if address.ip().to_canonical().is_ipv4() { 28 } else { 48 }
}
