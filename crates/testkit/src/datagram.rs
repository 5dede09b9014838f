//! A UDP datagram.

use link::Packet;
use std::net::SocketAddr;
use units::Bytes;

/// Bytes of the IPv4 and UDP headers.
pub const HEADERS: usize = 28;

/// A UDP datagram on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Datagram {
    /// Who says that they sent it.
    pub from: SocketAddr,
    /// Whom it is for.
    pub to: SocketAddr,
    /// Its payload.
    pub bytes: Vec<u8>,
}

impl Packet for Datagram {
    fn size(&self) -> Bytes {
        Bytes::from(self.bytes.len() + HEADERS)
    }
}
