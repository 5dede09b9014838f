//! What links carry.

use crate::NodeId;
use crate::heads::DatagramId;
use crate::quic_packets::QuicPacketId;
use link::AckSerial;
use tcp::Flags;
use units::{Bytes, Ecn, Instant};

/// A packet in the network as links see it: what it says stays where it is ([`Parcels`]) and is looked up at the end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packet {
    pub(crate) parcel: ParcelId,
    /// Where in [`crate::wire::Wire`]'s table of paths its next link is written.
    pub(crate) hop: u32,
    /// IP bytes: no packet has more than 65,535.
    pub(crate) size: u16,
    pub(crate) ecn: Ecn,
    /// What [`link::Packet::acknowledgement`] says, if a link asks.
    pub(crate) acknowledgement: Option<AckSerial>,
    /// What packets of one flow in one direction have in common, and above that what [`link::Packet::acknowledged_marks`] says.
    pub(crate) flow: u32,
}

/// Bits of [`Packet::flow`] that are the flow's.
pub(crate) const FLOW_BITS: u32 = 29;

impl Packet {
    /// The number of its flow, which is that of the flow's agent.
    #[inline]
    pub(crate) fn agent(&self) -> usize {
        (self.flow & ((1 << FLOW_BITS) - 1)) as usize >> 1
    }

    /// The end of the flow to which it goes.
    #[inline]
    pub(crate) fn port(&self) -> u32 {
        self.flow & 1
    }
}

impl link::Packet for Packet {
    #[inline]
    fn size(&self) -> Bytes {
        Bytes::new(u64::from(self.size))
    }

    fn flow_hash(&self) -> u64 {
        units::mix(u64::from(self.flow & ((1 << FLOW_BITS) - 1)))
    }

    fn acknowledgement(&self) -> Option<AckSerial> {
        self.acknowledgement
    }

    fn acknowledged_marks(&self) -> u8 {
        (self.flow >> FLOW_BITS) as u8
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn mark(&mut self) {
        self.ecn = Ecn::CongestionExperienced;
    }
}

/// The port of a flow's client.
pub(crate) const CLIENT: u32 = 0;
/// The port of a flow's server.
pub(crate) const SERVER: u32 = 1;

/// To whom a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) agent: u32,
    pub(crate) port: u32,
}

/// What a packet says, and to whom.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parcel {
    /// The agent for which it is, and which of its ports.
    pub(crate) agent: u32,
    pub(crate) port: u32,
    pub(crate) body: Body,
}

/// Where a parcel is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ParcelId(u32);

impl ParcelId {
    /// Its place.
    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The parcels of all packets under way. A place given up is the next to be used, so that few are in use and those are in
/// the cache.
#[derive(Debug, Default)]
pub(crate) struct Parcels {
    places: Vec<Parcel>,
    free: Vec<ParcelId>,
}

impl Parcels {
    #[inline(always)]
    pub(crate) fn keep(&mut self, parcel: Parcel) -> ParcelId {
        if let Some(id) = self.free.pop() {
            self.places[id.0 as usize] = parcel;
            return id;
        }
        self.places.push(parcel);
        ParcelId(self.places.len() as u32 - 1)
    }

    #[inline]
    pub(crate) fn get(&self, id: ParcelId) -> &Parcel {
        &self.places[id.0 as usize]
    }

    /// Starts to load a parcel.
    #[inline]
    pub(crate) fn prefetch(&self, id: ParcelId) {
        prefetch::prefetch(self.get(id));
    }

    /// A packet that a queue has marked is where it was sent.
    #[cold]
    pub(crate) fn mark(&mut self, id: ParcelId) {
        self.places[id.0 as usize].body.mark();
    }

    #[inline]
    pub(crate) fn release(&mut self, id: ParcelId) {
        self.free.push(id);
    }

    /// How many are under way.
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Bytes that they occupy, roughly.
    pub(crate) fn memory(&self) -> usize {
        size_of::<Parcel>() * self.places.capacity() + size_of::<ParcelId>() * self.free.capacity()
    }
}

/// What a packet says.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Body {
    /// A TCP segment.
    Tcp(tcp::Segment),
    /// A datagram of the satellite transport, from a gateway to its peer.
    Datagram(DatagramId),
    /// A packet of QUIC.
    Quic {
        /// Which.
        id: QuicPacketId,
        /// The ECN field of its IP packet.
        ecn: Ecn,
    },
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

impl Body {
    /// The ECN field of its IP packet.
    #[inline]
    pub fn ecn(&self) -> Ecn {
        match self {
            Body::Tcp(segment) => segment.ecn,
            Body::Quic { ecn, .. } => *ecn,
            _ => Ecn::NotCapable,
        }
    }

    /// A queue has marked its packet.
    pub(crate) fn mark(&mut self) {
        match self {
            Body::Tcp(segment) => segment.ecn = Ecn::CongestionExperienced,
            Body::Quic { ecn, .. } => *ecn = Ecn::CongestionExperienced,
            _ => {}
        }
    }

    /// The next byte expected, if that is all it says.
    #[cold]
    pub(crate) fn acknowledgement(&self) -> Option<u64> {
        let Body::Tcp(segment) = self else { return None };
        let is_plain = segment.len == 0 && segment.sack.is_empty();
        let control = segment.flags.0 & ALL_CONTROL.0 & !ACE.0;
        // RFC 3168 has neither CWR nor AE in acknowledgements, so that one of them tells AccECN's counter (RFC 9768). ECE alone may be
        // the echo of a mark, which no acknowledgement takes the place of.
        let is_echo = segment.flags.0 & ACE.0 == Flags::ECE.0;
        (is_plain && control == Flags::ACK.0 && !is_echo).then_some(segment.ack)
    }

    /// What [`Packet::acknowledged_marks`] is of a packet that says this: AccECN's counter of three bits.
    #[cold]
    pub(crate) fn acknowledged_marks(&self) -> u8 {
        let Body::Tcp(segment) = self else { return 0 };
        ((segment.flags.0 & ACE.0) >> Flags::ECE.0.trailing_zeros()) as u8
    }
}

/// The bits of the header's field.
const ALL_CONTROL: Flags = Flags(0x1ff);
/// Those of AccECN's counter (RFC 9768, section 3.2.2).
const ACE: Flags = Flags(Flags::AE.0 | Flags::CWR.0 | Flags::ECE.0);

/// A packet as a node saw it: when it left an endpoint there, or came in over a link.
#[derive(Debug, Clone, Copy)]
pub struct PacketRecord {
    /// When.
    pub at: Instant,
    /// The node that saw it.
    pub node: NodeId,
    /// The flow to which it belongs, by number; of a datagram between gateways, their pair's number after those of flows.
    pub flow: u32,
    /// Whether it goes to the flow's server, not to its client; of a datagram between gateways, to the pair's second node.
    pub to_server: bool,
    /// IP bytes.
    pub size: Bytes,
    /// Of which of the flow's connections it is, if it is a TCP segment.
    pub part: Part,
    /// What it says.
    pub body: Body,
}

/// A connection of those into which gateways split a flow. One that is not split counts as the client's and the server's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// From the client to the gateway that faces it.
    Client,
    /// From one gateway to the other.
    Between,
    /// From the other gateway to the server.
    Server,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_small() {
        assert!(size_of::<Packet>() <= 16, "{}", size_of::<Packet>());
    }
}
