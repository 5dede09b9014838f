//! What the link is said to carry, by the modem, by a script, or by the configuration: whose word counts now, whether it is to be
//! believed, and for how long.

mod ledger;
mod teller;

pub use ledger::Ledger;
pub use teller::{Limits, Refusal, Word};

use units::{Duration, Instant, Rate};

/// What the link is said to carry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Told {
    /// What this gateway may send, counted as IP packets.
    pub up: Rate,
    /// What arrives here.
    pub down: Rate,
    /// Round-trip time.
    pub rtt: Duration,
    /// Whose word this is.
    pub source: Source,
    /// Since when it is so, by the adapter's clock.
    pub since: Instant,
}

/// Whose word counts, the later ones before the earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Nobody's: the configured link.
    Configured,
    /// A script's, over the feed's socket or HTTP.
    Feed,
    /// The modem's, over DLEP (RFC 8175).
    Dlep,
}

impl Source {
    /// As it is written in status and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Configured => "configured",
            Self::Feed => "feed",
            Self::Dlep => "dlep",
        }
    }
}
