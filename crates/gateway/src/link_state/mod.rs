//! Link updates while the gateway runs: by the modem over DLEP, or by a program over a socket.
//!
//! All that follow the link's capacity read one [`tokio::sync::watch`] of [`LinkState`]. Without a valid update it
//! holds the configured link.
//!
//! | file | idea |
//! | --- | --- |
//! | `mod.rs` | what status shows of it; [`relay::link_state`] selects the source |
//! | `board.rs` | the link state that updates change and all read |
//! | `service.rs` | the thread that receives updates |
//! | `api.rs` | updates as JSON, over a Unix socket or HTTP |
//! | `modem.rs` | updates of a modem over DLEP |

pub(crate) mod api;
mod board;
mod modem;
mod service;

pub use relay::link_state::{LinkState, LinkUpdate, PlausibleRange, Rejection, Source};
pub use service::LinkUpdates;

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use units::Instant;

/// The link state, as status shows it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Report {
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

impl Report {
    /// Of a link state, for status and for answers to updates.
    pub(crate) fn new(state: &LinkState, now: Instant) -> Self {
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateCounts {
    /// The source.
    pub source: Source,
    /// Updates that were accepted.
    pub accepted: u64,
    /// Updates that were rejected.
    pub rejected: u64,
}

/// The session with the modem, as status shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModemReport {
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
