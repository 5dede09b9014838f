//! Trains: segments that leave together, sent as the super-packet that the host cuts into just these (TCP segmentation offload).
//! Sending one costs little more than sending a packet.

use crate::frame::Frame;
use crate::headers::{self, ETHERNET_HEADER, IPV4, IPV6, IPV6_HEADER, NetworkLayer, TCP};
use crate::segment::{FIN_PSH, TCP_FLAGS, add_ones_complement, get_u16, put_u16, rewrite_ipv4, sum_of};
use kernel::packet::OffloadHeader;
use std::ops::Range;

/// Room for the headers of a train: Ethernet with two tags, IPv4 and TCP with all their options, or IPv6 with few extensions.
const HEADERS_MAX: usize = 22 + 60 + 60;
/// The longest IP packet, with some room for what the kernel counts.
const LENGTH_MAX: usize = 65_000;
const TCP_CHECKSUM: usize = 16;
/// The EtherType of a tag (IEEE 802.1Q), and its length.
const VLAN: u16 = 0x8100;
const VLAN_TAG: usize = 4;
const ACK: u8 = 0x10;
const ECE: u8 = 0x40;

/// Frames that leave as one: a frame as it is, or a train.
#[derive(Debug)]
pub(crate) struct Train {
    /// Their numbers among those that leave.
    pub(crate) frames: Range<usize>,
    /// The headers of several frames.
    joint: Option<Joint>,
}

#[derive(Debug)]
struct Joint {
    offload: OffloadHeader,
    headers: [u8; HEADERS_MAX],
    /// How long the headers are: each frame's own are as long.
    length: usize,
}

impl Train {
    /// One frame as it is.
    pub(crate) fn single(number: usize) -> Self {
        Self { frames: number..number + 1, joint: None }
    }

    /// The first of `frames` from number `first` on, and those behind it that it can take along, if an interface of this
    /// MTU takes each of them.
    pub(crate) fn couple(frames: &[Frame], first: usize, mtu: usize) -> Self {
        let Some(head) = Segment::of(&frames[first]).filter(|head| head.fits(mtu)) else {
            return Self::single(first);
        };
        let (mut last, mut end, mut length) = (head, first + 1, head.packet_length());
        while let Some(next) = frames.get(end).and_then(Segment::of) {
            if length + next.payload_length() > LENGTH_MAX || !head.is_continued(&last, &next, end - first) {
                break;
            }
            length += next.payload_length();
            (last, end) = (next, end + 1);
        }
        match end - first {
            1 => Self::single(first),
            _ => Self { frames: first..end, joint: Some(head.join(&last, length)) },
        }
    }

    /// What to send, given all `frames`.
    pub(crate) fn message<'a>(&'a self, frames: &'a [Frame]) -> (&'a OffloadHeader, impl Iterator<Item = &'a [u8]>) {
        let frames = &frames[self.frames.clone()];
        let (offload, headers, from) = match &self.joint {
            Some(joint) => (&joint.offload, &joint.headers[..joint.length], joint.length),
            None => (&frames[0].offload, &[][..], 0),
        };
        let payloads = frames.iter().map(move |frame| &frame.bytes[from..]);
        (offload, std::iter::once(headers).filter(|headers| !headers.is_empty()).chain(payloads))
    }
}

/// A frame that could be a segment of a super-packet: TCP whose checksum is left to the host, with nothing that only one packet
/// may have.
#[derive(Debug, Clone, Copy)]
struct Segment<'a> {
    frame: &'a Frame,
    layer: NetworkLayer,
    transport: usize,
    payload: usize,
}

impl<'a> Segment<'a> {
    fn of(frame: &'a Frame) -> Option<Self> {
        let Frame { offload, bytes, .. } = frame;
        if (offload.gso_type, offload.flags) != (OffloadHeader::GSO_NONE, OffloadHeader::NEEDS_CHECKSUM) {
            return None;
        }
        let layer = headers::network_layer(bytes)?;
        let (protocol, transport) = headers::transport(bytes, layer)?;
        let payload = transport + usize::from(bytes.get(transport + 12)? >> 4) * 4;
        let is_tcp = protocol == TCP
            && usize::from(offload.checksum_start) == transport
            && usize::from(offload.checksum_offset) == TCP_CHECKSUM
            && payload >= transport + 20
            && payload < bytes.len().min(HEADERS_MAX + 1)
            && bytes[transport + TCP_FLAGS] & !(FIN_PSH | ECE) == ACK;
        let ip = &bytes[layer.offset..];
        let is_whole = match layer.protocol {
            IPV4 => usize::from(get_u16(ip, 2)) == ip.len() && sum_of(&ip[..transport - layer.offset]) == 0xffff,
            IPV6 => usize::from(get_u16(ip, 4)) + IPV6_HEADER == ip.len(),
            _ => false,
        };
        (is_tcp && is_whole).then_some(Self { frame, layer, transport, payload })
    }

    fn bytes(&self) -> &'a [u8] {
        &self.frame.bytes
    }

    fn packet_length(&self) -> usize {
        self.bytes().len() - self.layer.offset
    }

    /// Whether an interface of this MTU takes the frame: its tags count, but for one of IEEE 802.1Q.
    fn fits(&self, mtu: usize) -> bool {
        let tag = if get_u16(self.bytes(), ETHERNET_HEADER - 2) == VLAN { VLAN_TAG } else { 0 };
        self.bytes().len() <= mtu + ETHERNET_HEADER + tag
    }

    fn payload_length(&self) -> usize {
        self.bytes().len() - self.payload
    }

    fn flags(&self) -> u8 {
        self.bytes()[self.transport + TCP_FLAGS]
    }

    fn sequence(&self) -> u32 {
        let tcp = &self.bytes()[self.transport..];
        u32::from(get_u16(tcp, 4)) << 16 | u32::from(get_u16(tcp, 6))
    }

    /// The pseudo-header's sum without the length; the sums zero and minus zero are the same.
    fn pseudo_sum(&self) -> u16 {
        let length = (self.bytes().len() - self.transport) as u16;
        add_ones_complement(get_u16(self.bytes(), self.transport + TCP_CHECKSUM), !length) % 0xffff
    }

    /// Whether the host would cut `next` as number `index` of the super-packet that begins with this segment, behind `last`.
    fn is_continued(&self, last: &Self, next: &Self, index: usize) -> bool {
        let size = self.payload_length();
        let is_in_place = (next.layer, next.transport, next.payload) == (self.layer, self.transport, self.payload)
            && last.payload_length() == size
            && last.flags() & FIN_PSH == 0
            && next.payload_length() <= size
            && next.sequence() == self.sequence().wrapping_add((index * size) as u32)
            && next.flags() & !FIN_PSH == self.flags()
            && next.pseudo_sum() == self.pseudo_sum();
        is_in_place && self.has_equal_headers(next, index)
    }

    /// Compares what cutting copies; only sums, lengths and numbers differ.
    fn has_equal_headers(&self, next: &Self, index: usize) -> bool {
        let (ip, tcp) = (self.layer.offset, self.transport);
        let are_equal = |range: Range<usize>| self.bytes()[range.clone()] == next.bytes()[range];
        let is_ip_equal = match self.layer.protocol {
            IPV4 => {
                let identification = |segment: &Self| get_u16(segment.bytes(), ip + 4);
                identification(next) == identification(self).wrapping_add(index as u16)
                    && are_equal(0..ip + 2)
                    && are_equal(ip + 6..ip + 10)
                    && are_equal(ip + 12..tcp + 4)
            }
            _ => are_equal(0..ip + 4) && are_equal(ip + 6..tcp + 4),
        };
        is_ip_equal
            && are_equal(tcp + 8..tcp + TCP_FLAGS)
            && are_equal(tcp + TCP_FLAGS + 1..tcp + TCP_CHECKSUM)
            && are_equal(tcp + TCP_CHECKSUM + 2..self.payload)
    }

    /// The headers of the super-packet of `length` from this segment to `last`.
    fn join(&self, last: &Self, length: usize) -> Joint {
        let (ip, tcp) = (self.layer.offset, self.transport);
        let mut headers = [0; HEADERS_MAX];
        headers[..self.payload].copy_from_slice(&self.bytes()[..self.payload]);
        let gso_type = match self.layer.protocol {
            IPV4 => {
                rewrite_ipv4(&mut headers[ip..tcp], length, 0);
                OffloadHeader::GSO_TCPV4
            }
            _ => {
                put_u16(&mut headers, ip + 4, (length - IPV6_HEADER) as u16);
                OffloadHeader::GSO_TCPV6
            }
        };
        headers[tcp + TCP_FLAGS] = last.flags();
        let transport_length = (length - (tcp - ip)) as u16;
        put_u16(&mut headers, tcp + TCP_CHECKSUM, add_ones_complement(self.pseudo_sum(), transport_length));
        let offload = OffloadHeader {
            gso_type,
            gso_size: self.payload_length() as u16,
            header_length: self.payload as u16,
            ..self.frame.offload
        };
        Joint { offload, headers, length: self.payload }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Pool;
    use crate::segment::{segment, tests::super_packet};
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    const MTU: usize = 9_100;

    /// The segments of a super-packet of TCP that a host sends.
    fn segments(ethertype: u16, payload: &[u8], gso_size: u16) -> Vec<Frame> {
        let (mut offload, mut frame) = super_packet(ethertype, TCP, payload, gso_size);
        // CWR is on no more than one packet of a window: those that have it leave alone.
        offload.gso_type &= !OffloadHeader::GSO_ECN;
        let (_, transport) =
            headers::transport(&frame, headers::network_layer(&frame).expect("Ethernet")).expect("TCP");
        frame[transport + TCP_FLAGS] &= !crate::segment::CWR;
        cut(&offload, &frame)
    }

    fn cut(offload: &OffloadHeader, frame: &[u8]) -> Vec<Frame> {
        let (layer, mut frames) = (headers::network_layer(frame).expect("Ethernet"), Vec::new());
        segment(offload, frame, layer, &mut Pool::default(), |_, frame| frames.push(frame)).expect("a known kind");
        frames
    }

    fn trains(frames: &[Frame], mtu: usize) -> Vec<Train> {
        let (mut trains, mut next) = (Vec::new(), 0);
        while next < frames.len() {
            let train = Train::couple(frames, next, mtu);
            next = train.frames.end;
            trains.push(train);
        }
        trains
    }

    fn lengths(frames: &[Frame]) -> Vec<usize> {
        trains(frames, MTU).iter().map(|train| train.frames.len()).collect()
    }

    /// What comes of `frames` that leave as trains, once the host has cut these.
    fn sent(frames: &[Frame]) -> Vec<(OffloadHeader, Vec<u8>)> {
        let cut_again = |train: &Train| {
            let (offload, pieces) = train.message(frames);
            cut(offload, &pieces.collect::<Vec<_>>().concat())
        };
        trains(frames, MTU).iter().flat_map(cut_again).map(|frame| (frame.offload, frame.bytes)).collect()
    }

    fn originals(frames: &[Frame]) -> Vec<(OffloadHeader, Vec<u8>)> {
        frames.iter().map(|frame| (frame.offload, frame.bytes.clone())).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(5), ..ProptestConfig::default() })]

        #[test]
        fn a_train_is_cut_into_just_the_packets_that_it_is_made_of(
            is_ipv4 in any::<bool>(), payload in proptest::collection::vec(any::<u8>(), 1..9_000), gso_size in 100u16..3_000,
            missing in proptest::option::of(0usize..90), marked in proptest::option::of(0usize..90),
        ) {
            let mut frames = segments(if is_ipv4 { IPV4 } else { IPV6 }, &payload, gso_size);
            if let Some(frame) = marked.and_then(|number| frames.get_mut(number)) {
                headers::mark(&mut frame.bytes);
            }
            if let Some(number) = missing.filter(|number| *number < frames.len()) {
                frames.remove(number);
            }
            // Two super-packets that do not follow one another.
            frames.extend(frames.clone());
            for (sent, original) in sent(&frames).iter().zip(originals(&frames)) {
                // Zero and minus zero are the same sum, and the hint is the host's.
                let checksum = usize::from(original.0.checksum_start + original.0.checksum_offset);
                prop_assert_eq!(get_u16(&sent.1, checksum) % 0xffff, get_u16(&original.1, checksum) % 0xffff);
                prop_assert_eq!(&sent.1[..checksum], &original.1[..checksum]);
                prop_assert_eq!(&sent.1[checksum + 2..], &original.1[checksum + 2..]);
                prop_assert_eq!(OffloadHeader { header_length: 0, ..sent.0 }, original.0);
            }
            prop_assert_eq!(sent(&frames).len(), frames.len());
        }
    }

    #[test]
    fn segments_that_follow_one_another_leave_as_one_whatever_they_came_in() {
        for ethertype in [IPV4, IPV6] {
            let frames = segments(ethertype, &[7; 10_000], 1_000);
            assert_eq!(lengths(&frames), [10]);
            assert_eq!(lengths(&frames[3..]), [7]);
            let long = segments(ethertype, &[7; 64_000], 1_000);
            assert_eq!(lengths(&[&frames[..4], &long[..]].concat()), [4, 64], "the same numbers come again");
        }
    }

    #[test]
    fn a_train_has_no_gap_no_other_mark_and_nothing_behind_its_end() {
        let frames = || segments(IPV4, &[7; 5_500], 1_000);
        assert_eq!(lengths(&frames()), [6]);
        let tcp = 34;
        type Change = fn(&mut Vec<Frame>, usize);
        let changes: [(Change, &[usize], &str); 10] = [
            (|frames, _| drop(frames.remove(2)), &[2, 3], "a packet was lost"),
            (|frames, _| frames.swap(2, 3), &[2, 1, 1, 2], "packets were overtaken"),
            (|frames, _| headers::mark(&mut frames[2].bytes), &[2, 1, 3], "a packet is marked"),
            (|frames, tcp| frames[2].bytes[tcp + TCP_FLAGS] |= 0x08, &[3, 3], "a packet is pushed"),
            (|frames, tcp| frames[2].bytes[tcp + TCP_FLAGS] |= 0x80, &[2, 1, 3], "a packet has CWR"),
            (|frames, tcp| frames[2].bytes[tcp + 15] ^= 1, &[2, 1, 3], "another window"),
            (|frames, tcp| frames[2].bytes[tcp + 25] ^= 1, &[2, 1, 3], "another timestamp"),
            (|frames, tcp| frames[2].bytes[tcp + TCP_CHECKSUM] ^= 1, &[2, 1, 3], "a wrong checksum"),
            (|frames, _| frames[2].bytes[24] ^= 1, &[2, 1, 3], "a wrong IPv4 checksum"),
            (|frames, _| frames[2].offload.flags = 0, &[2, 1, 3], "a complete checksum, which may be wrong"),
        ];
        for (change, expected, what) in changes {
            let mut frames = frames();
            change(&mut frames, tcp);
            assert_eq!(lengths(&frames), expected, "{what}");
        }
    }

    #[test]
    fn segments_longer_than_the_mtu_leave_alone_for_the_host_to_refuse() {
        let tag = |mut frames: Vec<Frame>, ethertype: u16| {
            for Frame { bytes, offload, .. } in &mut frames {
                bytes.splice(12..12, [&ethertype.to_be_bytes()[..], &[0, 5]].concat());
                offload.checksum_start += 4;
            }
            frames
        };
        let plain = segments(IPV4, &[7; 5_500], 1_000);
        let tagged = tag(plain.clone(), VLAN);
        let twice = tag(tagged.clone(), 0x88a8);
        for (frames, mtu) in [(plain, 1_052), (tagged, 1_052), (twice, 1_060)] {
            assert_eq!((trains(&frames, mtu).len(), trains(&frames, mtu - 1).len()), (1, 6));
        }
    }

    #[test]
    fn other_packets_leave_as_they_are() {
        let (offload, frame) = super_packet(IPV4, crate::headers::UDP, &[7; 3_000], 1_000);
        let datagrams = cut(&offload, &frame);
        assert_eq!(lengths(&datagrams), [1, 1, 1]);
        assert_eq!(sent(&datagrams), originals(&datagrams));
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(6), ..ProptestConfig::default() })]

        #[test]
        fn no_frame_makes_it_panic(
            bytes in proptest::collection::vec(any::<u8>(), 14..200), ethertype in prop_oneof![Just(IPV4), Just(IPV6)],
            checksum_start in 0u16..120, protocol in prop_oneof![Just(TCP), any::<u8>()],
        ) {
            let mut bytes = bytes;
            put_u16(&mut bytes, 12, ethertype);
            for at in [20, 23] {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = protocol;
                }
            }
            let offload = OffloadHeader { flags: 1, checksum_start, checksum_offset: 16, ..OffloadHeader::default() };
            let layer = headers::network_layer(&bytes).expect("long enough");
            let frame = Frame::new(offload, bytes, layer);
            trains(&[frame.clone(), frame], MTU);
        }
    }
}
