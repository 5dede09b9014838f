//! Packets: what they say, and how large they are.

use smallvec::SmallVec;
use std::ops::Range;
use units::Duration;

/// Bytes of an IPv4 header and a UDP header.
pub(crate) const HEADERS: u32 = 28;
/// Bytes of a short header, with a connection identifier of 8 bytes and a packet number of 4, and of the tag of the AEAD.
pub(crate) const PROTECTION: u32 = 13 + 16;
/// Bytes of the header of a STREAM frame: type and identifier, an offset of 8 bytes and a length of 2.
pub(crate) const STREAM_HEADER: u32 = 12;
/// Bytes of a MAX_DATA and a MAX_STREAM_DATA frame.
pub(crate) const LIMITS: u32 = 19;
/// Payload of UDP to which packets of the handshake are padded (RFC 9000, section 14.1).
pub(crate) const PADDED: u32 = 1200;
/// Bytes of the client's last message of the handshake, with its header and tag.
pub(crate) const FINISHED: u32 = 36 + PROTECTION;

/// A packet. The long headers of a handshake count as short ones: its packets are padded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// Its number, which no other packet of its sender has.
    pub number: u64,
    /// IP bytes.
    pub size: u16,
    /// It is sent before the handshake is complete, with the keys of an earlier connection.
    pub is_early: bool,
    /// A part of the handshake.
    pub message: Option<Message>,
    /// Payload.
    pub stream: Option<StreamFrame>,
    /// What its sender has received.
    pub ack: Option<AckFrame>,
    /// How far its sender lets its peer send.
    pub limits: Option<Limits>,
    /// It asks for an acknowledgement.
    pub has_ping: bool,
    /// Its sender gives the connection up.
    pub closes: bool,
}

/// A part of the handshake: a flight of an end, whatever it consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// The client begins.
    Hello,
    /// The server answers.
    Answer,
    /// The client is done.
    Finished,
    /// The server confirms (HANDSHAKE_DONE).
    Done,
}

/// A part of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamFrame {
    /// Its first byte.
    pub offset: u64,
    /// How many bytes there are.
    pub len: u32,
    /// The stream ends behind it.
    pub fin: bool,
}

/// How far an end lets its peer send: no byte from this offset on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// On the stream (MAX_STREAM_DATA).
    pub stream: u64,
    /// On the connection (MAX_DATA).
    pub connection: u64,
}

/// What was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AckFrame {
    /// Numbers of packets, from the highest range down.
    pub ranges: SmallVec<[Range<u64>; 4]>,
    /// How long the acknowledgement of the largest was kept back.
    pub delay: Duration,
    /// How many packets arrived marked, if the peer's packets are capable of ECN.
    pub marked: Option<u64>,
}

impl AckFrame {
    /// The largest number received.
    pub fn largest(&self) -> Option<u64> {
        self.ranges.first().map(|range| range.end - 1)
    }

    /// Its bytes in a packet: type, largest (4), delay (2), count and first range (2), for each further range a gap and a length of 2
    /// each, and three counts of 4 with ECN.
    pub(crate) fn size(&self) -> u32 {
        let further = self.ranges.len().saturating_sub(1) as u32;
        10 + 4 * further + if self.marked.is_some() { 12 } else { 0 }
    }
}

impl Packet {
    /// Whether it is to be acknowledged (RFC 9002, section 2).
    pub fn is_ack_eliciting(&self) -> bool {
        self.message.is_some() || self.stream.is_some() || self.limits.is_some() || self.has_ping
    }

    /// Whether it carries data of the stream, and not its end alone.
    pub(crate) fn has_data(&self) -> bool {
        self.stream.is_some_and(|stream| stream.len > 0)
    }

    /// Bytes that count as in flight: the payload of UDP, but for a packet that only acknowledges or closes.
    pub(crate) fn in_flight(&self) -> u32 {
        if self.is_ack_eliciting() { u32::from(self.size) - HEADERS } else { 0 }
    }

    /// The payload of UDP that what it carries takes.
    pub(crate) fn datagram_size(&self) -> u32 {
        let frames = self.stream.map_or(0, |stream| STREAM_HEADER + stream.len)
            + self.ack.as_ref().map_or(0, AckFrame::size)
            + self.limits.map_or(0, |_| LIMITS)
            + u32::from(self.has_ping)
            + if self.closes { 4 } else { 0 };
        match self.message {
            Some(Message::Hello | Message::Answer) => (PROTECTION + frames).max(PADDED),
            Some(Message::Finished) => FINISHED + frames + PROTECTION,
            Some(Message::Done) => 1 + frames + PROTECTION,
            None => frames + PROTECTION,
        }
    }
}
