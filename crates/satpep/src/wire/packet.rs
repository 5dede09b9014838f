//! UDP payloads: four kinds of the handshake, and packets.
//!
//! ```text
//! init      1 | oldest | newest | wanted | sender (4) | masked time (8) | mode | 0 | length (2) | Noise message 1
//!             | zeros | mac1 (16) | mac2 (16)
//! response  2 | version | length (2) | sender (4) | receiver (4) | Noise message 2 | zeros | mac1 (16) | mac2 (16)
//! cookie    3 | 0    | 0 | 0 | receiver (4) | nonce (12) | sealed cookie (16 + 16)
//! notice    5 | kind | 0 | 0 | receiver (4) | nonce (12) | sealed notice (24 + 16)
//! data      4 | receiver (4) | number, low half (4) | frames, sealed or in clear | tag (16)
//! ```
//! Integers are big-endian. Receiver indices are chosen by the receiver, as in WireGuard; the length is that of
//! the Noise message. Whatever the versions, an init has their range and its sender at these places, ends in the two MACs, and
//! has a `mac1` that is made alike; cookies and notices are alike too. So gateways without a common version can say so.

use crate::packet_number::PacketNumber;
use peering::Versions;

/// All of a knock: it asks the network whether the receiver's port is open, and the receiver nothing.
pub const KNOCK: [u8; 1] = [0];
/// The first byte of an init.
pub const INIT: u8 = 1;
/// The first byte of a response.
pub const RESPONSE: u8 = 2;
/// The first byte of a cookie reply.
pub const COOKIE: u8 = 3;
/// The first byte of what belongs to a session.
pub const DATA: u8 = 4;
/// The first byte of a notice.
pub const NOTICE: u8 = 5;

/// Bytes before the frames of a packet.
pub(crate) const DATA_HEADER: usize = 9;
/// Bytes of the authentication tag after them.
pub(crate) const TAG: usize = 16;
/// Bytes of a packet that are not frames.
pub(crate) const DATA_OVERHEAD: usize = DATA_HEADER + TAG;

/// Bytes before the Noise message of an init and of a response.
pub(crate) const INIT_HEADER: usize = 20;
pub(crate) const RESPONSE_HEADER: usize = 12;
/// Bytes of a response at least.
pub(crate) const MIN_RESPONSE: usize = RESPONSE_HEADER + 2 * MAC;
/// Where the length of the Noise message is.
const INIT_LENGTH_AT: usize = 18;
const RESPONSE_LENGTH_AT: usize = 2;
/// Bytes of an init at least, zeros included: every answer is shorter.
pub(crate) const MIN_INIT: usize = 198;
/// Bytes of each of the two message authentication codes that end a handshake message.
pub(crate) const MAC: usize = 16;

/// Bytes of the nonce that seals a cookie or a notice.
pub(crate) const SEAL_NONCE: usize = 12;
/// Bytes of a cookie, and of the whole cookie reply.
pub(crate) const COOKIE_BYTES: usize = 16;
pub(crate) const COOKIE_REPLY: usize = 8 + SEAL_NONCE + COOKIE_BYTES + TAG;
/// Bytes of what a notice says, and of the whole notice.
pub(crate) const NOTICE_BODY: usize = 24;
pub(crate) const NOTICE_LENGTH: usize = 8 + SEAL_NONCE + NOTICE_BODY + TAG;
const _: () = assert!(NOTICE_LENGTH < MIN_INIT && COOKIE_REPLY < MIN_INIT);

/// The clear head of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DataHeader {
    pub(crate) receiver: u32,
    pub(crate) number_low: u32,
}

impl DataHeader {
    pub(crate) fn write(self, out: &mut [u8]) {
        out[0] = DATA;
        out[1..5].copy_from_slice(&self.receiver.to_be_bytes());
        out[5..9].copy_from_slice(&self.number_low.to_be_bytes());
    }

    /// Reads the head of a datagram of `size` bytes; `None` if it cannot hold head and tag.
    pub(crate) fn read(datagram: &[u8], size: usize) -> Option<Self> {
        if size < DATA_OVERHEAD {
            return None;
        }
        Some(Self { receiver: read_u32(datagram, 1)?, number_low: read_u32(datagram, 5)? })
    }
}

/// The versions that the sender of an init speaks; `None` if they are no range.
pub(crate) fn offered_versions(init: &[u8]) -> Option<Versions> {
    Versions::decode([*init.get(1)?, *init.get(2)?])
}

/// The Noise message of an init or a response; `None` if it does not lie between the header and the MACs.
pub(crate) fn noise_message(datagram: &[u8]) -> Option<&[u8]> {
    let (header, length_at) = layout(*datagram.first()?);
    let length = u16::from_be_bytes(*datagram.get(length_at..)?.first_chunk()?);
    datagram.get(header..datagram.len().checked_sub(2 * MAC)?)?.get(..usize::from(length))
}

/// The length that an init or a response has without padding beyond the least.
pub(crate) fn unpadded_length(datagram: &[u8]) -> Option<usize> {
    let (header, _) = layout(*datagram.first()?);
    let least = if datagram[0] == INIT { MIN_INIT } else { 0 };
    Some((header + noise_message(datagram)?.len() + 2 * MAC).max(least))
}

/// Notes in the header how long the Noise message is that follows it.
pub(crate) fn set_noise_length(datagram: &mut [u8], length: usize) {
    let (_, at) = layout(datagram[0]);
    let length = u16::try_from(length).expect("a handshake message fits into a datagram");
    datagram[at..at + 2].copy_from_slice(&length.to_be_bytes());
}

/// Where the Noise message begins, and where its length is.
const fn layout(kind: u8) -> (usize, usize) {
    if kind == INIT { (INIT_HEADER, INIT_LENGTH_AT) } else { (RESPONSE_HEADER, RESPONSE_LENGTH_AT) }
}

/// The big-endian integer at `at`.
pub(crate) fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The full number whose low half is `low` and which lies nearest to `expected`.
pub(crate) fn expand_number(low: u32, expected: PacketNumber) -> PacketNumber {
    const SPAN: u64 = 1 << 32;
    let expected = expected.get();
    let candidate = (expected & !(SPAN - 1)) | u64::from(low);
    PacketNumber::new(if candidate + SPAN / 2 < expected {
        candidate + SPAN
    } else if candidate > expected + SPAN / 2 && candidate >= SPAN {
        candidate - SPAN
    } else {
        candidate
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_expand_to_the_nearest() {
        for (number, expected) in [
            (5, 3),
            (3, 5),
            ((1 << 32) + 1, (1 << 32) - 1),
            ((1 << 32) - 1, (1 << 32) + 1),
            (7 << 32, (7 << 32) + 70_000),
            (0, 0),
        ] {
            assert_eq!(expand_number(number as u32, PacketNumber::new(expected)).get(), number);
        }
    }
}
