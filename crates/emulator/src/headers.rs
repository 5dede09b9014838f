//! The few header fields that the emulator reads.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use units::{Bytes, Ecn};

pub(crate) const ETHERNET_HEADER: usize = 14;
pub(crate) const IPV4: u16 = 0x0800;
pub(crate) const IPV6: u16 = 0x86dd;
pub(crate) const IPV6_HEADER: usize = 40;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
const ARP: u16 = 0x0806;
const ICMPV6: u8 = 58;
const VLAN_TAGS: [u16; 2] = [0x8100, 0x88a8];

/// The network-layer packet within a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NetworkLayer {
    /// Its EtherType.
    pub(crate) protocol: u16,
    /// Where it starts in the frame.
    pub(crate) offset: usize,
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// Finds the network layer behind the Ethernet header and up to two VLAN tags; `None` if the frame is too short.
pub(crate) fn network_layer(frame: &[u8]) -> Option<NetworkLayer> {
    let mut offset = ETHERNET_HEADER;
    for _ in 0..2 {
        let protocol = u16_at(frame, offset - 2)?;
        if !VLAN_TAGS.contains(&protocol) {
            return Some(NetworkLayer { protocol, offset });
        }
        offset += 4;
    }
    Some(NetworkLayer { protocol: u16_at(frame, offset - 2)?, offset })
}

/// The size of the IP packet in the frame, without the padding of short frames; for other protocols, of all behind the
/// Ethernet header.
pub(crate) fn packet_size(frame: &[u8], layer: NetworkLayer) -> Bytes {
    let rest = frame.len() - layer.offset.min(frame.len());
    let stated = match layer.protocol {
        IPV4 => u16_at(frame, layer.offset + 2).map(usize::from),
        IPV6 => u16_at(frame, layer.offset + 4).map(|payload| IPV6_HEADER + usize::from(payload)),
        _ => None,
    };
    Bytes::from(stated.map_or(rest, |stated| stated.min(rest)))
}

/// Whether the frame resolves addresses: ARP (RFC 826), or one of the five messages of neighbour discovery (RFC 4861).
pub(crate) fn is_address_resolution(frame: &[u8], layer: NetworkLayer) -> bool {
    let ip = frame.get(layer.offset..).unwrap_or_default();
    match layer.protocol {
        ARP => true,
        IPV6 => ip.get(6) == Some(&ICMPV6) && ip.get(IPV6_HEADER).is_some_and(|kind| (133..=137).contains(kind)),
        _ => false,
    }
}

/// The transport protocol of an IP packet and where in the frame its header starts, behind IPv4 options or IPv6
/// extension headers (RFC 8200, section 4). `None` for other packets, fragments and broken headers.
pub(crate) fn transport(frame: &[u8], layer: NetworkLayer) -> Option<(u8, usize)> {
    let ip = frame.get(layer.offset..)?;
    match layer.protocol {
        IPV4 => {
            let is_fragment = u16_at(ip, 6)? & 0x3fff != 0;
            let header = usize::from(ip.first()? & 0xf) * 4;
            (header >= 20 && !is_fragment).then_some((*ip.get(9)?, layer.offset + header))
        }
        IPV6 => {
            let (mut next, mut offset) = (*ip.get(6)?, IPV6_HEADER);
            // Hop-by-hop options, routing and destination options.
            while matches!(next, 0 | 43 | 60) {
                next = *ip.get(offset)?;
                offset += 8 + 8 * usize::from(*ip.get(offset + 1)?);
            }
            Some((next, layer.offset + offset))
        }
        _ => None,
    }
}

/// The address that an IP packet comes from.
pub(crate) fn source(frame: &[u8]) -> Option<IpAddr> {
    address(frame, 12, 8)
}

/// Whether an IP packet comes from an address that holds on its link only, or from none yet, or goes to all or a group.
pub(crate) fn is_link_local(frame: &[u8]) -> bool {
    let is_from_link = source(frame).is_some_and(|source| match source {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_unspecified(),
        IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.is_unspecified(),
    });
    let is_to_several = destination(frame).is_some_and(|to| match to {
        IpAddr::V4(v4) => v4.is_multicast() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_multicast(),
    });
    is_from_link || is_to_several
}

/// The address that an IP packet goes to.
pub(crate) fn destination(frame: &[u8]) -> Option<IpAddr> {
    address(frame, 16, 24)
}

/// The address at an offset of the IP header: one of its two for IPv4, the other for IPv6.
fn address(frame: &[u8], v4: usize, v6: usize) -> Option<IpAddr> {
    let layer = network_layer(frame)?;
    let ip = frame.get(layer.offset..)?;
    match layer.protocol {
        IPV4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(ip.get(v4..v4 + 4)?).ok()?).into()),
        IPV6 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(ip.get(v6..v6 + 16)?).ok()?).into()),
        _ => None,
    }
}

/// A number that the packets of one flow have in common: that of addresses, protocol and ports. Fragments, which have no
/// ports, go by addresses and protocol.
pub(crate) fn flow_hash(frame: &[u8]) -> u64 {
    let Some(layer) = network_layer(frame) else { return 0 };
    let Some(ip) = frame.get(layer.offset..) else { return 0 };
    let (addresses, protocol) = match layer.protocol {
        IPV4 => (ip.get(12..20), ip.get(9)),
        IPV6 => (ip.get(8..40), ip.get(6)),
        _ => (None, None),
    };
    let ports = transport(frame, layer)
        .filter(|(protocol, _)| matches!(*protocol, TCP | UDP))
        .and_then(|(_, offset)| frame.get(offset..offset + 4));
    [addresses, protocol.map(std::slice::from_ref), ports].into_iter().flatten().flat_map(|field| field.chunks(4)).fold(
        u64::from(layer.protocol),
        |hash, chunk| {
            let word = chunk.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
            units::mix(hash ^ word)
        },
    )
}

/// The ECN field of an IP packet (RFC 3168, section 5).
pub(crate) fn ecn(frame: &[u8]) -> Ecn {
    let Some(layer) = network_layer(frame) else { return Ecn::NotCapable };
    match (layer.protocol, frame.get(layer.offset + 1)) {
        (IPV4, Some(byte)) => Ecn::from_bits(*byte),
        (IPV6, Some(byte)) => Ecn::from_bits(byte >> 4),
        _ => Ecn::NotCapable,
    }
}

/// Marks an IP packet: congestion was experienced. The checksum of an IPv4 header stays right (RFC 1624).
pub(crate) fn mark(frame: &mut [u8]) {
    let Some(layer) = network_layer(frame) else { return };
    let Some(ip) = frame.get_mut(layer.offset..) else { return };
    match layer.protocol {
        IPV4 => {
            let (Some(before), Some(checksum)) = (u16_at(ip, 0), u16_at(ip, 10)) else { return };
            let after = before | 0b11;
            let sum = u32::from(!checksum) + u32::from(!before) + u32::from(after);
            let folded = (sum & 0xffff) + (sum >> 16);
            let checksum = !((folded & 0xffff) + (folded >> 16)) as u16;
            ip[..2].copy_from_slice(&after.to_be_bytes());
            ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
        IPV6 => {
            if let Some(byte) = ip.get_mut(1) {
                *byte |= 0b11 << 4;
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum of an IPv4 header's words, which is all ones where its checksum is right.
    fn sum(ip: &[u8]) -> u16 {
        let sum: u32 = ip.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        (folded + (folded >> 16)) as u16
    }

    #[test]
    fn marks_packets_and_keeps_their_checksums() {
        for tos in 0..=255_u8 {
            let mut ip = [0x45, tos, 0, 40, 0x1c, 0x46, 0x40, 0, 64, 6, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2];
            let checksum = !sum(&ip);
            ip[10..12].copy_from_slice(&checksum.to_be_bytes());
            let mut bytes = frame(IPV4, &ip);
            assert_eq!(ecn(&bytes), Ecn::from_bits(tos));
            mark(&mut bytes);
            assert_eq!(ecn(&bytes), Ecn::CongestionExperienced);
            assert_eq!((bytes[15], sum(&bytes[14..])), (tos | 3, 0xffff));
            assert_eq!(bytes[16..24], ip[2..10]);
        }
        let mut bytes = frame(IPV6, &[&[0x60, 0x2a, 0xbb, 0xcc][..], &[0; 36]].concat());
        assert_eq!(ecn(&bytes), Ecn::Ect0);
        mark(&mut bytes);
        assert_eq!(bytes[14..18], [0x60, 0x3a, 0xbb, 0xcc]);
        for short in [&[0; 3][..], &frame(IPV4, &[0x45, 2, 0])] {
            let mut bytes = short.to_vec();
            mark(&mut bytes);
            assert_eq!(bytes, short);
        }
    }

    fn frame(protocol: u16, packet: &[u8]) -> Vec<u8> {
        [&[0; 12][..], &protocol.to_be_bytes(), packet].concat()
    }

    #[test]
    fn finds_the_network_layer_behind_vlan_tags() {
        let layer = |bytes: &[u8]| network_layer(bytes).map(|layer| (layer.protocol, layer.offset));
        assert_eq!(layer(&frame(IPV4, &[])), Some((IPV4, 14)));
        assert_eq!(layer(&frame(0x8100, &[0, 5, 0x86, 0xdd])), Some((IPV6, 18)));
        assert_eq!(layer(&frame(0x88a8, &[0, 5, 0x81, 0, 0, 6, 8, 0])), Some((IPV4, 22)));
        assert_eq!(layer(&[0; 13]), None);
        assert_eq!(layer(&frame(0x8100, &[0, 5])), None);
    }

    #[test]
    fn sizes_leave_padding_out_and_survive_lies() {
        let size = |bytes: &[u8]| packet_size(bytes, network_layer(bytes).expect("long enough")).as_u64();
        let mut packet = [0; 46];
        packet[..4].copy_from_slice(&[0x45, 0, 0, 40]);
        assert_eq!(size(&frame(IPV4, &packet)), 40);
        packet[2] = 0xff;
        assert_eq!(size(&frame(IPV4, &packet)), 46);
        assert_eq!(size(&frame(0x1234, &packet)), 46);
    }

    #[test]
    fn only_address_resolution_is_exempt() {
        let exempt = |bytes: &[u8]| is_address_resolution(bytes, network_layer(bytes).expect("long enough"));
        assert!(exempt(&frame(ARP, &[0; 28])));
        let mut icmp = [0; 48];
        icmp[6] = ICMPV6;
        for (kind, expected) in [(128, false), (132, false), (133, true), (135, true), (137, true), (138, false)] {
            icmp[40] = kind;
            assert_eq!(exempt(&frame(IPV6, &icmp)), expected, "{kind}");
        }
        assert!(!exempt(&frame(IPV4, &icmp)));
        assert!(!exempt(&frame(IPV6, &[])));
    }

    #[test]
    fn addresses_of_the_link_are_told_from_those_of_networks() {
        let is_local = |source: &str, destination: &str| {
            let mut packet = [0; IPV6_HEADER];
            let [source, destination] = [source, destination].map(|address| address.parse().expect("an address"));
            match (source, destination) {
                (IpAddr::V4(from), IpAddr::V4(to)) => {
                    packet[12..20].copy_from_slice(&[from.octets(), to.octets()].concat());
                }
                (IpAddr::V6(from), IpAddr::V6(to)) => {
                    packet[8..40].copy_from_slice(&[from.octets(), to.octets()].concat());
                }
                _ => panic!("one family"),
            }
            is_link_local(&frame(if source.is_ipv4() { IPV4 } else { IPV6 }, &packet))
        };
        for (source, expected) in [
            ("::", true),
            ("fe80::1", true),
            ("2001:db8::1", false),
            ("0.0.0.0", true),
            ("169.254.1.1", true),
            ("198.18.1.1", false),
        ] {
            let to = if source.contains(':') { "2001:db8::2" } else { "198.18.2.1" };
            assert_eq!(is_local(source, to), expected, "{source}");
        }
        for (to, expected) in [
            ("ff02::fb", true),
            ("2001:db8::2", false),
            ("224.0.0.251", true),
            ("255.255.255.255", true),
            ("198.18.2.1", false),
        ] {
            let from = if to.contains(':') { "2001:db8::1" } else { "198.18.1.1" };
            assert_eq!(is_local(from, to), expected, "{to}");
        }
        assert!(!is_link_local(&frame(ARP, &[0; 28])));
    }

    #[test]
    fn finds_the_transport_behind_options_and_extension_headers() {
        let found = |bytes: &[u8]| transport(bytes, network_layer(bytes).expect("long enough"));
        let mut v4 = [0; 24];
        v4[0] = 0x46;
        v4[9] = UDP;
        assert_eq!(found(&frame(IPV4, &v4)), Some((UDP, 38)));
        v4[7] = 1;
        assert_eq!(found(&frame(IPV4, &v4)), None, "a fragment");
        let mut v6 = [0; 80];
        v6[6] = 0;
        v6[40] = 60;
        v6[41] = 1;
        v6[56] = TCP;
        assert_eq!(found(&frame(IPV6, &v6)), Some((TCP, 14 + 64)));
        assert_eq!(found(&frame(IPV6, &v6[..50])), None, "cut off");
    }
}
