//! SaTPEP as its paper describes it (Velenis, Kalogeras, Maglaris 2003), errors resolved: a pair of gateways splits each TCP
//! connection in three, and the middle one, over the satellite, has windows that the receiving gateway assigns and
//! recovery by NACKs.
//!
//! The middle connection is [`tcp`]'s endpoint with [`tcp::Config::satpep`]. What divides the link belongs here rather than
//! there: it is of a gateway, not of a connection, and measures all that arrives over the link. The deployed transport has
//! an allocation of its own.

mod allocator;
mod meter;

pub use allocator::{Allocator, ConnectionId, Division};
pub use meter::Measurement;

use crate::DirectionId;
use units::{Bytes, Duration, Rate};

/// How a pair of gateways runs the paper's protocol.
#[derive(Debug, Clone, PartialEq)]
pub struct Satpep2003 {
    /// When a gateway answers a SYN.
    pub opening: Opening,
    /// How the receiving gateway divides the link.
    pub profile: Profile,
    /// By how much all windows together may exceed the bandwidth-delay product, c of the paper's equation (2), from 0 to 1;
    /// `None` for the profile's.
    pub headroom: Option<f64>,
    /// Throughput is measured by packet pairs, as the paper says, rather than over whole epochs.
    pub packet_pair: bool,
    /// The connections between the gateways. Buffers are set by `buffer`.
    pub hop: tcp::Config,
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
pub enum Opening {
    /// Once the server has: what it refuses is refused, and opening takes a round trip over the satellite.
    Transparent,
    /// At once: data wait at the gateway for the connection further on.
    Spoof,
}

/// Constants of the division of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// [`Division::paper`].
    Paper,
    /// [`Division::deploy`].
    Deploy,
}

impl Default for Satpep2003 {
    /// The paper's constants, transparent.
    fn default() -> Self {
        Self {
            opening: Opening::Transparent,
            profile: Profile::Paper,
            headroom: None,
            packet_pair: false,
            hop: tcp::Config::satpep(),
            buffer: None,
            via: [None; 2],
        }
    }
}

impl Satpep2003 {
    /// The division of a link of this capacity and round trip of propagation.
    pub(crate) fn division(&self, capacity: Rate, rtt: Duration) -> Division {
        let division = match self.profile {
            Profile::Paper => Division::paper(capacity, rtt),
            Profile::Deploy => Division::deploy(capacity, rtt),
        };
        let pair = Measurement::PacketPair { idle: division.epoch.mul_f64(0.25) };
        Division {
            measurement: if self.packet_pair { pair } else { division.measurement },
            headroom: self.headroom.unwrap_or(division.headroom),
            ..division
        }
    }

    /// The connections between the gateways, with buffers for a hop of this bandwidth-delay product.
    pub(crate) fn buffered(&self, product: Bytes) -> tcp::Config {
        let buffer = self.buffer.unwrap_or(Bytes::new((4 * product.as_u64()).max(256 << 10)));
        tcp::Config { send_buffer: buffer, receive_buffer: tcp::ReceiveBuffer::plain(buffer), ..self.hop.clone() }
    }
}
