//! A segment as the two ends exchange it: headers in full, the payload as a length.

use std::ops::Range;
use units::{Bytes, Ecn};

/// One TCP segment. Sequence numbers are byte offsets of 64 bits that never wrap; the SYN has number 0 in each
/// direction, and the first byte of data is 1. What writes real packets takes them modulo 2^32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number of the first byte, or of the SYN.
    pub seq: u64,
    /// The next byte expected; meaningless without [`Flags::ACK`].
    pub ack: u64,
    /// Payload bytes.
    pub len: u32,
    /// The advertised window in bytes, as far as the window field and its scale can say.
    pub window: u32,
    /// Timestamps in milliseconds: the sender's clock, and the echo (RFC 7323). Zero where the option is absent.
    pub timestamps: Timestamps,
    /// Selective acknowledgements, or a NACK.
    pub sack: SackBlocks,
    /// Control bits.
    pub flags: Flags,
    /// Bytes of the IP and TCP headers with all options.
    pub header: u8,
    /// The ECN field of its IP packet.
    pub ecn: Ecn,
    /// The AccECN option, where [`Flags::ACCECN0`] or [`Flags::ACCECN1`] is set.
    pub ecn_bytes: EcnBytes,
}

/// The counters of the AccECN option: bytes of payload that the receiver has had, modulo 2^24 (RFC 9768, section 3.2.3). A sender has one
/// ECT codepoint, so that the third counter never changes and is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EcnBytes {
    /// With the sender's codepoint: ECT(0) for [`Flags::ACCECN0`], ECT(1) for [`Flags::ACCECN1`].
    pub capable: u32,
    /// Marked: congestion experienced.
    pub marked: u32,
}

/// The timestamps option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timestamps {
    /// TSval: the sender's clock in milliseconds.
    pub value: u32,
    /// TSecr: the value echoed.
    pub echo: u32,
}

impl Segment {
    /// The size of its IP packet.
    pub fn size(&self) -> Bytes {
        Bytes::new(u64::from(self.len) + u64::from(self.header))
    }

    /// Sequence numbers that it takes: its payload, and one each for SYN and FIN.
    #[inline]
    pub fn span(&self) -> u64 {
        u64::from(self.len) + u64::from(self.has(Flags::SYN)) + u64::from(self.has(Flags::FIN))
    }

    /// Whether all bits of `flags` are set.
    pub fn has(&self, flags: Flags) -> bool {
        self.flags.0 & flags.0 == flags.0
    }

    /// The counters of its AccECN option.
    pub fn accurate_ecn(&self) -> Option<EcnBytes> {
        (self.has(Flags::ACCECN0) || self.has(Flags::ACCECN1)).then_some(self.ecn_bytes)
    }

    /// The maximum segment size in its SYN: what payload its sender takes at most in one segment.
    pub fn mss(&self) -> Option<u32> {
        self.sack.mss().filter(|_| self.has(Flags::SYN))
    }

    /// The blocks of its SACK option as ranges, in the order in which they stand.
    pub fn sack_blocks(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.sack.iter(self.ack)
    }
}

/// Control bits, with the values of the header's field, and some that tell options apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(pub u16);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Flags = Flags(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Flags = Flags(0x02);
    /// Reset the connection.
    pub const RST: Flags = Flags(0x04);
    /// Push.
    pub const PSH: Flags = Flags(0x08);
    /// Congestion experienced: the peer's packets arrive marked (RFC 3168).
    pub const ECE: Flags = Flags(0x40);
    /// Congestion window reduced, in answer to [`Flags::ECE`].
    pub const CWR: Flags = Flags(0x80);
    /// The acknowledgement number counts.
    pub const ACK: Flags = Flags(0x10);
    /// The highest bit of the counter of marked packets (RFC 9768).
    pub const AE: Flags = Flags(0x100);
    /// The first SACK block reports a duplicate (RFC 2883).
    pub const DSACK: Flags = Flags(0x2000);
    /// The block is a hole that the receiver wants filled (SaTPEP's NACK), not what it has.
    pub const NACK: Flags = Flags(0x200);
    /// A SACK-permitted option is there.
    pub const SACK_PERMITTED: Flags = Flags(0x800);
    /// A window scale option is there.
    pub const WINDOW_SCALE: Flags = Flags(0x1000);
    /// A timestamps option is there.
    pub const TIMESTAMPS: Flags = Flags(0x400);
    /// An AccECN option is there whose first counter is of ECT(0) (kind 172, RFC 9768).
    pub const ACCECN0: Flags = Flags(0x4000);
    /// An AccECN option is there whose first counter is of ECT(1) (kind 174, RFC 9768).
    pub const ACCECN1: Flags = Flags(0x8000);

    /// These, and `other` if `condition` holds.
    #[inline]
    pub(crate) const fn with_if(self, condition: bool, other: Flags) -> Flags {
        if condition { self.with(other) } else { self }
    }

    /// Both sets of bits.
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// Up to four ranges, kept relative to the acknowledgement number so that a segment stays small. A range further than
/// 2 GiB from it cannot be said, and no window reaches that far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SackBlocks {
    blocks: [(i32, i32); 4],
    count: u8,
}

impl SackBlocks {
    /// Without ranges, which a SYN has none of. The maximum segment size stands in their place, so that a segment stays small.
    pub(crate) const fn of_syn(mss: u32) -> Self {
        Self { blocks: [(mss as i32, 0), (0, 0), (0, 0), (0, 0)], count: 0 }
    }

    /// The maximum segment size, if it stands here.
    const fn mss(&self) -> Option<u32> {
        match self.blocks[0] {
            (mss, 0) if mss > 0 && self.count == 0 => Some(mss as u32),
            _ => None,
        }
    }

    /// Appends a range; a fifth, or one that is too far from `ack`, is left out.
    pub fn push(&mut self, ack: u64, range: Range<u64>) {
        let relative = |at: u64| i32::try_from(at as i64 - ack as i64).ok();
        if let (Some(start), Some(end), Some(slot)) =
            (relative(range.start), relative(range.end), self.blocks.get_mut(usize::from(self.count)))
        {
            *slot = (start, end);
            self.count += 1;
        }
    }

    /// How many ranges there are.
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The ranges, given the acknowledgement number that they are relative to.
    pub fn iter(&self, ack: u64) -> impl Iterator<Item = Range<u64>> + '_ {
        let absolute = move |at: i32| ack.saturating_add_signed(i64::from(at));
        self.blocks[..usize::from(self.count)].iter().map(move |&(start, end)| absolute(start)..absolute(end))
    }
}

/// Bytes of an IPv4 header and a TCP header without options.
pub const BARE_HEADER: u8 = 40;
/// Bytes of the timestamps option with its padding.
pub const TIMESTAMPS_OPTION: u8 = 12;

/// Bytes of an AccECN option with two counters (RFC 9768, section 3.2.3).
pub(crate) const ACCURATE_ECN_OPTION: u8 = 8;
/// Bytes of all options at most (RFC 9293, section 3.1).
pub(crate) const MAX_OPTIONS: u8 = 40;

/// Bytes of a SACK option of `blocks` ranges with its padding.
pub(crate) fn sack_option(blocks: usize) -> u8 {
    if blocks == 0 { 0 } else { 4 + 8 * blocks as u8 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_back_as_they_were_pushed() {
        let mut blocks = SackBlocks::default();
        let ack = 5_000_000_000;
        let ranges = [ack + 1448..ack + 2896, ack - 1448..ack, ack + 10_000..ack + 20_000, ack + 30_000..ack + 30_001];
        for range in ranges.clone().into_iter().chain(std::iter::once(ack..ack + 1)) {
            blocks.push(ack, range);
        }
        assert_eq!(blocks.iter(ack).collect::<Vec<_>>(), ranges);
        let mut far = SackBlocks::default();
        far.push(ack, ack + (1 << 32)..ack + (1 << 33));
        assert!(far.is_empty());
    }

    #[test]
    fn a_segment_is_small() {
        assert!(size_of::<Segment>() <= 80, "{}", size_of::<Segment>());
    }
}
