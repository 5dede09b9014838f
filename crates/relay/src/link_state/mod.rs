//! The link state: its capacity and round-trip time by the modem, by a program, or by the configuration; which source counts now,
//! which updates are accepted, and how long they are valid.

mod reporter;
mod source_selector;

pub use reporter::{LinkUpdate, PlausibleRange, RateLimits, Rejection};
pub use source_selector::SourceSelector;

use units::{Duration, Instant, Rate};

/// The link's parameters in force.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkState {
    /// Transmit rate, counted as IP packets.
    pub rate: Rate,
    /// Whether `source` reports that rate: what it leaves out is configured.
    pub rate_is_reported: bool,
    /// Receive rate.
    pub receive_rate: Rate,
    /// Round-trip time.
    pub rtt: Duration,
    /// Where it is from.
    pub source: Source,
    /// Since when it is so, by the adapter's clock.
    pub since: Instant,
}

/// Sources of the link state; later ones come before earlier ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The configuration.
    #[default]
    Configured,
    /// A program's updates, over the Unix socket or HTTP of `[updates]`.
    Api,
    /// The modem's updates, over DLEP (RFC 8175).
    Dlep,
}

impl Source {
    /// As it is written in status and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Configured => "configured",
            Self::Api => "api",
            Self::Dlep => "dlep",
        }
    }
}
