//! The link state, and the session with the modem.

use relay::link_state::{LinkState, Source};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use units::Instant;

/// The link state: reported or configured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Transmit rate.
    pub rate_bps: u64,
    /// Receive rate.
    pub receive_rate_bps: u64,
    /// Round-trip time.
    pub rtt_s: f64,
    /// Where it is from.
    pub source: Source,
    /// For how long it has been so.
    pub age_s: f64,
}

impl Link {
    /// Of the link state at `now`.
    pub fn new(state: &LinkState, now: Instant) -> Self {
        Self {
            rate_bps: state.rate.as_bps(),
            receive_rate_bps: state.receive_rate.as_bps(),
            rtt_s: state.rtt.as_secs_f64(),
            source: state.source,
            age_s: now.since(state.since).as_secs_f64(),
        }
    }
}

/// Outcomes of one source's updates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateCounts {
    /// The source.
    pub source: Source,
    /// Updates that were accepted.
    pub accepted: u64,
    /// Updates that were rejected.
    pub rejected: u64,
}

/// The session with the modem over DLEP (RFC 8175).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Modem {
    /// Where the modem is, while there is a session.
    pub address: Option<SocketAddr>,
    /// What it says it is.
    pub name: Option<String>,
    /// Whether the link's destination is up.
    pub link_is_up: bool,
    /// Resources that the modem has left, in per cent.
    pub resources: Option<u8>,
    /// Quality of what it transmits, in per cent.
    pub quality: Option<u8>,
    /// Largest packet that it takes.
    pub mtu: Option<u16>,
    /// Sessions so far.
    pub sessions: u64,
    /// Why the last one ended, or could not be had.
    pub last_end: Option<String>,
}

impl Modem {
    /// Whether there is a session with it.
    pub const fn has_session(&self) -> bool {
        self.address.is_some()
    }
}
