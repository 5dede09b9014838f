//! Counters.

use crate::event::ClockSkew;
use crate::seal::Cipher;
use peering::Capabilities;
use units::{Duration, Rate};

/// An endpoint's counters. Every UDP datagram that arrives adds to one of the `received` or `dropped` fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointStats {
    /// UDP datagrams sent.
    pub sent_packets: u64,
    /// Their IP bytes (IP and UDP headers included).
    pub sent_ip_bytes: u64,
    /// UDP datagrams that were accepted.
    pub received_packets: u64,
    /// Their IP bytes.
    pub received_ip_bytes: u64,
    /// Handshakes completed.
    pub handshakes: u64,
    /// Cookies sent in place of answers while busy.
    pub cookies_sent: u64,
    /// Sessions that ended because the peer broke the protocol.
    pub violations: u64,
    /// UDP datagrams dropped, by reason.
    pub dropped: Drops,
}

/// UDP datagrams that led to nothing, by reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drops {
    /// Not of a known kind or length.
    pub malformed: u64,
    /// A byte 0 alone, with which a gateway asks the network whether this port is open.
    pub knock: u64,
    /// Not for this gateway, or from an unknown one.
    pub stranger: u64,
    /// The authentication failed.
    pub not_authentic: u64,
    /// Seen before, or too old to tell.
    pub replayed: u64,
    /// For a session that does not exist (any more).
    pub unknown_session: u64,
    /// The other side uses the other mode (encrypted or in clear).
    pub mode_mismatch: u64,
    /// A handshake without a cookie while busy, answered with one, or one too many.
    pub flood: u64,
    /// A handshake that may be a replay for all that its time says: its sender was asked to repeat a nonce.
    pub challenged: u64,
    /// A handshake of a gateway that speaks none of our versions.
    pub version_mismatch: u64,
}

impl Drops {
    /// All of them with their names.
    pub fn by_reason(&self) -> [(&'static str, u64); 10] {
        [
            ("malformed", self.malformed),
            ("knock", self.knock),
            ("stranger", self.stranger),
            ("not_authentic", self.not_authentic),
            ("replayed", self.replayed),
            ("unknown_session", self.unknown_session),
            ("mode_mismatch", self.mode_mismatch),
            ("flood", self.flood),
            ("challenged", self.challenged),
            ("version_mismatch", self.version_mismatch),
        ]
    }
}

/// A peer's counters, of all sessions with it since it was added, and what is measured in the session in which streams are opened.
/// Counters never go back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerStats {
    /// Packets sent and lost, as far as known.
    pub sent_packets: u64,
    /// Packets that the peer did not receive.
    pub lost_packets: u64,
    /// Stream bytes sent for the first time.
    pub sent_bytes: u64,
    /// Stream bytes sent again because they were lost.
    pub retransmitted_bytes: u64,
    /// Bytes of FEC repair symbols sent.
    pub repair_bytes: u64,
    /// Stream bytes recovered from the peer's repair symbols.
    pub recovered_bytes: u64,
    /// Stream bytes received, each counted once.
    pub received_bytes: u64,
    /// Stream bytes held for readers.
    pub receive_buffered: u64,
    /// Stream bytes held until acknowledged.
    pub send_buffered: u64,
    /// Packets from it that came with a congestion mark.
    pub congestion_received: u64,
    /// Packets to it that came with a congestion mark, by its reports.
    pub congestion_reported: u64,
    /// Reports of it that claim what cannot be true, and were ignored: more than was sent, less than before, or packets never
    /// sent.
    pub implausible_reports: u64,
    /// Migrations: how often it was validated at another address (RFC 9000, section 9).
    pub migrations: u64,
    /// Open streams, of all sessions.
    pub streams: u64,
    /// Smoothed round-trip time, if measured.
    pub rtt: Option<Duration>,
    /// Least round-trip time, if measured.
    pub min_rtt: Option<Duration>,
    /// The largest IP packet known to reach the peer.
    pub mtu: u16,
    /// Time since anything came from it, if anything did.
    pub since_last_heard: Option<Duration>,
    /// The rate that the link is paced at now.
    pub pacing_rate: Rate,
    /// Its wall clock against ours at the latest handshake, to within a round trip.
    pub clock: Option<ClockSkew>,
    /// The version that the session uses.
    pub version: Option<u8>,
    /// The cipher of the keys in use.
    pub cipher: Option<Cipher>,
    /// What both sides offer beyond it.
    pub capabilities: Capabilities,
    /// Frames from it that this side does not know and skipped.
    pub skipped_frames: u64,
}

impl PeerStats {
    /// Adds the counters of another session with the peer, and what that one holds.
    pub(crate) fn add(&mut self, session: &Self) {
        self.sent_packets += session.sent_packets;
        self.lost_packets += session.lost_packets;
        self.sent_bytes += session.sent_bytes;
        self.retransmitted_bytes += session.retransmitted_bytes;
        self.repair_bytes += session.repair_bytes;
        self.recovered_bytes += session.recovered_bytes;
        self.received_bytes += session.received_bytes;
        self.receive_buffered += session.receive_buffered;
        self.send_buffered += session.send_buffered;
        self.congestion_received += session.congestion_received;
        self.congestion_reported += session.congestion_reported;
        self.implausible_reports += session.implausible_reports;
        self.migrations += session.migrations;
        self.streams += session.streams;
        self.skipped_frames += session.skipped_frames;
    }
}

/// One stream's counters.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct StreamStats {
    /// Bytes written by the driver.
    pub written: u64,
    /// Bytes sent for the first time.
    pub sent: u64,
    /// Bytes acknowledged in order.
    pub acked: u64,
    /// Bytes consumed by the driver.
    pub read: u64,
    /// Bytes held for the driver, out-of-order ones included.
    pub receive_buffered: u64,
}

/// Memory for the data of streams, of all sessions together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStats {
    /// The most that peers may be granted, and the most that is kept of what is written; `None` without a limit.
    pub limit: Option<u64>,
    /// Bytes that peers may have us hold: what is held of theirs, and what they may still send.
    pub granted: u64,
    /// Bytes written and not acknowledged.
    pub send_buffered: u64,
    /// Bytes of packets from peers that are remembered to recover others with. The limit does not count them.
    pub repair: u64,
}
