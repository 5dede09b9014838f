//! What the gateway is told of its satellite link while it runs: by the modem over DLEP, or by a script over a socket.
//!
//! Everybody who follows the link's capacity reads one [`tokio::sync::watch`] of [`Told`]. It always holds something to go
//! by: where nothing (any more) is told, the link as it is configured.
//!
//! | file | idea |
//! | --- | --- |
//! | `mod.rs` | what status shows of it; [`relay::told`] says whose word counts |
//! | `board.rs` | where sources leave their words |
//! | `service.rs` | the thread on which words come in |
//! | `plain.rs` | words as lines of JSON, over a Unix socket or HTTP |
//! | `modem.rs` | words of a modem over DLEP |

mod board;
mod modem;
pub(crate) mod plain;
mod service;

pub use relay::told::{Limits, Refusal, Source, Told, Word};
pub use service::Feed;

use serde::Serialize;
use std::net::SocketAddr;
use std::path::PathBuf;
use units::{Duration, Instant};

/// What is told, as status shows it.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Report {
    /// What this gateway may send.
    pub up_bps: u64,
    /// What arrives here.
    pub down_bps: u64,
    /// Round-trip time.
    pub rtt_s: f64,
    /// Whose word this is.
    pub source: Source,
    /// For how long it has been so.
    pub age_s: f64,
}

impl Report {
    /// Of what is told, for status and whoever told it.
    pub(crate) fn new(told: &Told, now: Instant) -> Self {
        Self {
            up_bps: told.up.as_bps(),
            down_bps: told.down.as_bps(),
            rtt_s: told.rtt.as_secs_f64(),
            source: told.source,
            age_s: now.since(told.since).as_secs_f64(),
        }
    }
}

/// What came of the words of one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// The source.
    pub source: Source,
    /// Words that were believed.
    pub taken: u64,
    /// Words that were not.
    pub refused: u64,
}

/// The session with the modem, as status shows it.
#[derive(Debug, Clone, Default, Serialize)]
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

/// `[feed]`: who may tell what.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedSettings {
    /// Unix socket that takes words.
    pub socket: Option<PathBuf>,
    /// Address that takes words by HTTP.
    pub http: Option<SocketAddr>,
    /// What is believed.
    pub limits: Limits,
    /// How long a word over the socket or HTTP counts at most, unless it is told again.
    pub max_age: Duration,
}

impl FeedSettings {
    /// Whether there is anybody to tell something.
    pub fn is_used(&self) -> bool {
        self.socket.is_some() || self.http.is_some()
    }
}
