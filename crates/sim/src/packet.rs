//! What links carry.

use crate::NodeId;
use units::{Bytes, Instant};

/// A packet in the network: plain data, copied from link to link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packet {
    /// The agent for which it is, and which of its ports.
    pub(crate) agent: u32,
    pub(crate) port: u32,
    /// Where in [`crate::wire::Wire`]'s table of paths its next link is written.
    pub(crate) hop: u32,
    /// IP bytes.
    pub(crate) size: u32,
    pub(crate) body: Body,
}

impl link::Packet for Packet {
    #[inline]
    fn size(&self) -> Bytes {
        Bytes::new(u64::from(self.size))
    }
}

/// What a packet says.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Body {
    /// A TCP segment.
    Tcp(tcp::Segment),
    /// A UDP datagram, by number.
    Udp {
        /// From 0.
        number: u64,
    },
    /// An ICMP echo request.
    EchoRequest {
        /// From 0.
        number: u64,
        /// When it was sent.
        sent: Instant,
    },
    /// The answer to it.
    EchoReply {
        /// The request's number.
        number: u64,
        /// When the request was sent.
        sent: Instant,
    },
}

/// A packet as a node saw it: when it left an endpoint there, or came in over a link.
#[derive(Debug, Clone, Copy)]
pub struct PacketRecord {
    /// When.
    pub at: Instant,
    /// The node that saw it.
    pub node: NodeId,
    /// The flow to which it belongs, by number.
    pub flow: u32,
    /// Whether it goes to the flow's server, not to its client.
    pub to_server: bool,
    /// IP bytes.
    pub size: Bytes,
    /// What it says.
    pub body: Body,
}
