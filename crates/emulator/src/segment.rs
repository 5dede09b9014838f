//! Cutting super-packets into packets of wire size, as a network card would (TCP segmentation offload, and UDP's
//! generic segmentation).

use crate::frame::{Frame, Pool};
use crate::headers::{self, ETHERNET_HEADER, IPV4, IPV6, IPV6_HEADER, NetworkLayer, TCP, UDP};
use kernel::packet::OffloadHeader;

pub(crate) const TCP_FLAGS: usize = 13;
pub(crate) const FIN_PSH: u8 = 0x09;
pub(crate) const CWR: u8 = 0x80;

/// A super-packet of a kind that is not known, or whose headers do not fit its offload header.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unsupported;

/// Gives `emit` the packets of wire size that `frame` stands for, in order. Checksums that were left to the card stay so:
/// the packets carry the pseudo-header's sum and the mark that the rest is to be computed.
pub(crate) fn segment(
    offload: &OffloadHeader,
    frame: &[u8],
    layer: NetworkLayer,
    pool: &mut Pool,
    mut emit: impl FnMut(&mut Pool, Frame),
) -> Result<(), Unsupported> {
    if offload.gso_type == OffloadHeader::GSO_NONE {
        let mut bytes = pool.take(frame.len());
        bytes.extend_from_slice(frame);
        emit(pool, Frame::new(*offload, bytes, layer));
        return Ok(());
    }
    let plan = Plan::new(offload, frame, layer).ok_or(Unsupported)?;
    let (head, payload) = frame.split_at(plan.payload);
    let last = payload.len().div_ceil(plan.segment_size).saturating_sub(1);
    for (index, chunk) in payload.chunks(plan.segment_size).enumerate() {
        let mut bytes = pool.take(head.len() + chunk.len());
        bytes.extend_from_slice(head);
        bytes.extend_from_slice(chunk);
        plan.rewrite(&mut bytes, index, index == last);
        emit(pool, Frame::new(plan.offload, bytes, layer));
    }
    Ok(())
}

/// How a super-packet is cut: offsets into the frame, checked against its length.
struct Plan {
    layer: NetworkLayer,
    transport: usize,
    protocol: u8,
    /// Where the transport checksum is.
    checksum: usize,
    payload: usize,
    segment_size: usize,
    /// The pseudo-header's sum but for the length, in which segments differ.
    pseudo_sum: u16,
    clears_cwr: bool,
    /// The offload header of each segment.
    offload: OffloadHeader,
}

impl Plan {
    fn new(offload: &OffloadHeader, frame: &[u8], layer: NetworkLayer) -> Option<Self> {
        let (protocol, transport) = headers::transport(frame, layer)?;
        let header_length = match (offload.gso_type & !OffloadHeader::GSO_ECN, layer.protocol, protocol) {
            (OffloadHeader::GSO_TCPV4, IPV4, TCP) | (OffloadHeader::GSO_TCPV6, IPV6, TCP) => {
                usize::from(frame.get(transport + 12)? >> 4) * 4
            }
            (OffloadHeader::GSO_UDP_L4, IPV4 | IPV6, UDP) => 8,
            _ => return None,
        };
        let (minimum, checksum_offset) = if protocol == TCP { (20, 16) } else { (8, 6) };
        let payload = transport + header_length;
        let is_whole = header_length >= minimum && offload.gso_size > 0 && payload < frame.len();
        if !is_whole || layer.offset < ETHERNET_HEADER {
            return None;
        }
        let left = OffloadHeader {
            flags: OffloadHeader::NEEDS_CHECKSUM,
            gso_type: OffloadHeader::GSO_NONE,
            header_length: 0,
            gso_size: 0,
            checksum_start: u16::try_from(transport).ok()?,
            checksum_offset,
        };
        let checksum = transport + usize::from(checksum_offset);
        let pseudo_sum = if offload.flags & OffloadHeader::NEEDS_CHECKSUM != 0 {
            // If the checksum started elsewhere, this would be a tunnel whose inner headers need rewriting too.
            let is_plain = (offload.checksum_start, offload.checksum_offset) == (left.checksum_start, checksum_offset);
            let stored = is_plain.then(|| get_u16(frame, checksum))?;
            add_ones_complement(stored, !((frame.len() - transport) as u16))
        } else {
            // A card that joins received segments (LRO) checks their checksums, and leaves none that fits the whole.
            (offload.flags & OffloadHeader::DATA_VALID != 0).then(|| joined_pseudo_sum(frame, layer, transport))??
        };
        Some(Self {
            layer,
            transport,
            protocol,
            checksum,
            payload,
            segment_size: usize::from(offload.gso_size),
            pseudo_sum,
            clears_cwr: offload.gso_type & OffloadHeader::GSO_ECN != 0,
            offload: left,
        })
    }

    /// Makes the copied headers those of segment `index`.
    fn rewrite(&self, frame: &mut [u8], index: usize, is_last: bool) {
        let transport_length = frame.len() - self.transport;
        match self.layer.protocol {
            IPV4 => {
                let length = frame.len() - self.layer.offset;
                rewrite_ipv4(&mut frame[self.layer.offset..self.transport], length, index as u16);
            }
            _ => {
                let payload_length = (frame.len() - self.layer.offset - IPV6_HEADER) as u16;
                put_u16(frame, self.layer.offset + 4, payload_length);
            }
        }
        if self.protocol == TCP {
            self.rewrite_tcp(&mut frame[self.transport..], index, is_last);
        } else {
            put_u16(frame, self.transport + 4, transport_length as u16);
        }
        put_u16(frame, self.checksum, add_ones_complement(self.pseudo_sum, transport_length as u16));
    }

    fn rewrite_tcp(&self, tcp: &mut [u8], index: usize, is_last: bool) {
        let sequence = u32::from(get_u16(tcp, 4)) << 16 | u32::from(get_u16(tcp, 6));
        let sequence = sequence.wrapping_add((index * self.segment_size) as u32);
        tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
        if !is_last {
            tcp[TCP_FLAGS] &= !FIN_PSH;
        }
        if index > 0 && self.clears_cwr {
            tcp[TCP_FLAGS] &= !CWR;
        }
    }
}

/// The sum of the pseudo-header of TCP, but for the length (RFC 9293, section 3.1; RFC 8200, section 8.1). `None` behind options,
/// which may change the destination: cards join no such segments.
fn joined_pseudo_sum(frame: &[u8], layer: NetworkLayer, transport: usize) -> Option<u16> {
    let (length, addresses) = if layer.protocol == IPV4 { (20, 12..20) } else { (IPV6_HEADER, 8..40) };
    let is_tcp = headers::transport(frame, layer) == Some((TCP, layer.offset + length));
    let addresses = frame.get(layer.offset..transport)?.get(addresses)?;
    is_tcp.then(|| add_ones_complement(sum_of(addresses), u16::from(TCP)))
}

/// Total length, identification and checksum of an IPv4 header.
pub(crate) fn rewrite_ipv4(header: &mut [u8], length: usize, index: u16) {
    put_u16(header, 2, length as u16);
    put_u16(header, 4, get_u16(header, 4).wrapping_add(index));
    put_u16(header, 10, 0);
    put_u16(header, 10, !sum_of(header));
}

/// The sum of 16-bit words.
pub(crate) fn sum_of(words: &[u8]) -> u16 {
    words.chunks_exact(2).fold(0, |sum, word| add_ones_complement(sum, get_u16(word, 0)))
}

pub(crate) fn get_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// The sum that the Internet checksum uses (RFC 1071).
pub(crate) fn add_ones_complement(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u16::from(carry)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    fn addresses(ip: &[u8], protocol: u16) -> &[u8] {
        if protocol == IPV4 { &ip[12..20] } else { &ip[8..40] }
    }

    /// The sum of the pseudo-header (RFC 9293, section 3.1; RFC 8200, section 8.1).
    fn pseudo_sum(ip: &[u8], ethertype: u16, transport: u8, length: usize) -> u16 {
        let fields = [addresses(ip, ethertype), &[0, transport], &(length as u16).to_be_bytes()].concat();
        sum_of(&fields)
    }

    /// A super-packet as the kernel hands it out, and its offload header.
    pub(crate) fn super_packet(
        ethertype: u16,
        protocol: u8,
        payload: &[u8],
        gso_size: u16,
    ) -> (OffloadHeader, Vec<u8>) {
        let mut transport = match protocol {
            // Ports, sequence number near the wrap, flags CWR, PSH, ACK and FIN, twelve bytes of options.
            TCP => [
                &[0x12, 0x34, 0, 80, 0xff, 0xff, 0xf0, 0, 0, 0, 0, 1, 0x80, 0x99, 0x10, 0, 0, 0, 0, 0][..],
                &[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2],
            ]
            .concat(),
            _ => [&[0x12, 0x34, 0, 53][..], &((payload.len() + 8) as u16).to_be_bytes(), &[0, 0]].concat(),
        };
        transport.extend_from_slice(payload);
        let mut ip = if ethertype == IPV4 {
            let length = (20 + transport.len()) as u16;
            [
                &[0x45, 0][..],
                &length.to_be_bytes(),
                &[0xff, 0xff, 0x40, 0, 64, protocol, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2],
            ]
            .concat()
        } else {
            let addresses = [[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]; 2].concat();
            [&[0x60, 0, 0, 0][..], &(transport.len() as u16).to_be_bytes(), &[protocol, 64], &addresses].concat()
        };
        let checksum_offset = if protocol == TCP { 16 } else { 6 };
        let sum = pseudo_sum(&ip, ethertype, protocol, transport.len());
        put_u16(&mut transport, checksum_offset, sum);
        let transport_offset = ETHERNET_HEADER + ip.len();
        ip.extend_from_slice(&transport);
        let gso_type = match (protocol, ethertype) {
            (TCP, IPV4) => OffloadHeader::GSO_TCPV4 | OffloadHeader::GSO_ECN,
            (TCP, _) => OffloadHeader::GSO_TCPV6 | OffloadHeader::GSO_ECN,
            _ => OffloadHeader::GSO_UDP_L4,
        };
        let offload = OffloadHeader {
            flags: OffloadHeader::NEEDS_CHECKSUM,
            gso_type,
            header_length: 0,
            gso_size,
            checksum_start: transport_offset as u16,
            checksum_offset: checksum_offset as u16,
        };
        (offload, [&[2; 12][..], &ethertype.to_be_bytes(), &ip].concat())
    }

    fn segments_of(offload: &OffloadHeader, frame: &[u8]) -> Result<Vec<Frame>, Unsupported> {
        let mut segments = Vec::new();
        let layer = headers::network_layer(frame).expect("an Ethernet frame");
        segment(offload, frame, layer, &mut Pool::default(), |_, frame| segments.push(frame))?;
        Ok(segments)
    }

    /// The same as a card delivers it that has joined received segments: with the checksum complete, and checked.
    fn joined_by_a_card((offload, mut frame): (OffloadHeader, Vec<u8>)) -> (OffloadHeader, Vec<u8>) {
        let transport = usize::from(offload.checksum_start);
        let sum = frame[transport..].chunks(2).fold(0, |sum, word| {
            add_ones_complement(sum, u16::from_be_bytes([word[0], word.get(1).copied().unwrap_or(0)]))
        });
        put_u16(&mut frame, transport + usize::from(offload.checksum_offset), !sum);
        let flags = OffloadHeader::DATA_VALID;
        (OffloadHeader { flags, checksum_start: 0, checksum_offset: 0, ..offload }, frame)
    }

    #[test]
    fn what_a_card_joined_is_cut_like_what_a_host_left_to_its_card() {
        for (ethertype, payload) in [(IPV4, 5000), (IPV6, 5000), (IPV4, 4321)] {
            let payload: Vec<u8> = (0..payload).map(|number| (number % 251) as u8).collect();
            let left = super_packet(ethertype, TCP, &payload, 1448);
            let expected = segments_of(&left.0, &left.1).expect("a known kind");
            let (offload, frame) = joined_by_a_card(left);
            let segments = segments_of(&offload, &frame).expect("a known kind");
            assert_eq!(segments.len(), expected.len());
            for (segment, expected) in segments.iter().zip(&expected) {
                check_segment(segment, ethertype, TCP);
                assert_eq!((&segment.bytes, segment.offload), (&expected.bytes, expected.offload));
            }
        }
    }

    fn check_segment(segment: &Frame, ethertype: u16, protocol: u8) {
        let ip = &segment.bytes[ETHERNET_HEADER..];
        assert_eq!(segment.packet_size.as_usize(), ip.len());
        assert_eq!(segment.offload.gso_type, OffloadHeader::GSO_NONE);
        if ethertype == IPV4 {
            assert_eq!(sum_of(&ip[..20]), 0xffff, "IPv4 header checksum");
        }
        let transport = usize::from(segment.offload.checksum_start) - ETHERNET_HEADER;
        // With the partial checksum the packet sums up to what the kernel will complete: pseudo-header and packet.
        let stored = get_u16(ip, transport + usize::from(segment.offload.checksum_offset));
        let expected = pseudo_sum(ip, ethertype, protocol, ip.len() - transport);
        assert_eq!(stored % 0xffff, expected % 0xffff, "the pseudo-header's sum");
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(4), ..ProptestConfig::default() })]

        #[test]
        fn segments_carry_the_payload_with_headers_of_their_own(
            is_ipv4 in any::<bool>(), is_tcp in any::<bool>(),
            payload in proptest::collection::vec(any::<u8>(), 1..9_000), gso_size in 100u16..3_000,
        ) {
            let (ethertype, protocol) = (if is_ipv4 { IPV4 } else { IPV6 }, if is_tcp { TCP } else { UDP });
            let (offload, frame) = super_packet(ethertype, protocol, &payload, gso_size);
            let segments = segments_of(&offload, &frame).expect("a known kind");
            let count = payload.len().div_ceil(usize::from(gso_size));
            prop_assert_eq!(segments.len(), count);
            let mut received = Vec::new();
            for (index, segment) in segments.iter().enumerate() {
                check_segment(segment, ethertype, protocol);
                let transport = usize::from(offload.checksum_start);
                let header = &segment.bytes[transport..];
                if is_ipv4 {
                    prop_assert_eq!(get_u16(&segment.bytes, 18), 0xffffu16.wrapping_add(index as u16));
                }
                if is_tcp {
                    let sequence = u32::from_be_bytes(header[4..8].try_into().expect("four bytes"));
                    prop_assert_eq!(sequence, 0xffff_f000u32.wrapping_add(received.len() as u32));
                    let is_last = index + 1 == count;
                    let flags = 0x10 | if is_last { FIN_PSH } else { 0 } | if index == 0 { CWR } else { 0 };
                    prop_assert_eq!(header[TCP_FLAGS], flags);
                } else {
                    prop_assert_eq!(usize::from(get_u16(header, 4)), header.len());
                }
                received.extend_from_slice(&header[if is_tcp { 32 } else { 8 }..]);
            }
            prop_assert_eq!(received, payload);
        }

        #[test]
        fn no_frame_and_no_offload_header_makes_it_panic(
            frame in proptest::collection::vec(any::<u8>(), 14..200), ethertype in prop_oneof![Just(IPV4), Just(IPV6)],
            gso_type in prop_oneof![Just(1u8), Just(4), Just(5), any::<u8>()], gso_size in any::<u16>(),
            checksum_start in 0u16..120, checksum_offset in prop_oneof![Just(6u16), Just(16)], flags in 0u8..4,
        ) {
            let mut frame = frame;
            put_u16(&mut frame, 12, ethertype);
            let offload =
                OffloadHeader { flags, gso_type, header_length: 0, gso_size, checksum_start, checksum_offset };
            let _ = segments_of(&offload, &frame);
        }
    }

    #[test]
    fn an_ordinary_packet_passes_unchanged() {
        let (_, frame) = super_packet(IPV4, UDP, b"hello", 1000);
        let offload = OffloadHeader { flags: 1, checksum_start: 34, checksum_offset: 6, ..OffloadHeader::default() };
        let segments = segments_of(&offload, &frame).expect("ordinary");
        assert_eq!(segments.len(), 1);
        assert_eq!((&segments[0].bytes, segments[0].offload), (&frame, offload));
    }

    #[test]
    fn tunnels_and_unknown_kinds_are_refused() {
        let (offload, frame) = super_packet(IPV4, TCP, &[7; 3000], 1448);
        for broken in [
            OffloadHeader { gso_type: 3, ..offload },
            OffloadHeader { gso_type: OffloadHeader::GSO_TCPV6, ..offload },
            OffloadHeader { gso_size: 0, ..offload },
            OffloadHeader { flags: 0, ..offload },
            OffloadHeader { checksum_start: offload.checksum_start + 50, ..offload },
        ] {
            assert_eq!(segments_of(&broken, &frame).err(), Some(Unsupported), "{broken:?}");
        }
        let (joined, datagrams) = joined_by_a_card(super_packet(IPV4, UDP, &[7; 3000], 1448));
        assert_eq!(segments_of(&joined, &datagrams).err(), Some(Unsupported), "cards join TCP alone");
    }
}
