//! SaTPEP as its paper describes it (Velenis, Kalogeras, Maglaris 2003), as data.

use crate::DirectionId;
use units::Bytes;

/// How a pair of gateways runs the paper's protocol.
#[derive(Debug, Clone, PartialEq)]
pub struct Satpep2003 {
    /// When a gateway answers a SYN.
    pub accept: Accept,
    /// How the receiving gateway divides the link.
    pub profile: Profile,
    /// By how much all windows together may exceed the bandwidth-delay product, c of the paper's equation (2), from 0 to 1;
    /// `None` for the profile's.
    pub headroom: Option<f64>,
    /// Throughput is measured by packet pairs, as the paper says, rather than over whole epochs.
    pub packet_pair: bool,
    /// The connections between the gateways. Buffers are set by `buffer`.
    pub satellite: tcp::Config,
    /// Bytes that each connection between the gateways may have waiting at either, each way; `None` for four
    /// bandwidth-delay products, at least 256 KiB. With less than two, windows can be smaller than granted while losses are
    /// repaired.
    pub buffer: Option<Bytes>,
    /// The link that packets take from the pair's first node to its second, and back, where that is not the network's
    /// [path](crate::Network::path): a satellite's forward link beside a terrestrial reverse path, say.
    pub via: [Option<DirectionId>; 2],
}

/// When a gateway answers a SYN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accept {
    /// Once the server has: what it refuses is refused, and opening takes a round trip over the satellite.
    Confirmed,
    /// At once: data wait at the gateway for the connection further on.
    Immediate,
}

/// Constants of the division of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// The paper's.
    Paper,
    /// Those of a deployed gateway.
    Deploy,
}

impl Default for Satpep2003 {
    /// The paper's constants, confirmed.
    fn default() -> Self {
        Self {
            accept: Accept::Confirmed,
            profile: Profile::Paper,
            headroom: None,
            packet_pair: false,
            satellite: tcp::Config::satpep(),
            buffer: None,
            via: [None; 2],
        }
    }
}

impl Satpep2003 {
    /// The connections between the gateways, with buffers for a satellite of this bandwidth-delay product.
    pub fn buffered(&self, product: Bytes) -> tcp::Config {
        let buffer = self.buffer.unwrap_or(Bytes::new((4 * product.as_u64()).max(256 << 10)));
        tcp::Config { send_buffer: buffer, receive_buffer: tcp::ReceiveBuffer::plain(buffer), ..self.satellite.clone() }
    }
}
