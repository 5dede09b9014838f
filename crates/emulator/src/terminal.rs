//! Terminals: of a carrier, or with links of their own, and why settings of them make no way.

use ipnet::IpNet;
use link::dama::CarrierConfig;
use link::{ConfigError, LinkConfig};
use serde::{Deserialize, Serialize};
use units::Duration;

/// A carrier that terminals share on demand, each with a queue of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedCarrier {
    /// The carrier.
    #[serde(rename = "carrier")]
    pub config: CarrierConfig,
    /// Its terminals.
    pub terminals: Vec<Terminal>,
    /// How long the NCC's plans are on their way to them.
    pub from_ncc: Duration,
}

/// A terminal of a carrier, or with a link of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terminal {
    /// What it is called: not as another is, and so that tables can hold it.
    pub name: String,
    /// Whose packets are its own: those from (on a carrier) or to (over its own link) addresses in these networks. Of several
    /// that contain an address, the longest counts.
    pub networks: Vec<IpNet>,
    /// Its queue, its losses and its delay, and its part of the carrier ([`LinkConfig::dama`]) or its rate.
    pub link: LinkConfig,
}

/// Why settings make no way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// A value makes no link or no carrier.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A link is a terminal of a carrier that is not there.
    #[error("dama: the carrier and its other terminals are missing")]
    NoCarrier,
    /// A link that filters acknowledgements or thins them out.
    #[error("acks: only simulated links filter acknowledgements or thin them out: leave it out for real packets")]
    Acks,
    /// A carrier, or links, of no terminals.
    #[error("a carrier needs at least one terminal")]
    NoTerminal,
    /// A terminal does not say what it has of the carrier.
    #[error("terminal {0}: dama is missing: say what it has of the carrier")]
    NoShare(String),
    /// No packet would be a terminal's.
    #[error("terminal {0}: networks: give at least one")]
    NoNetwork(String),
    /// A terminal's name is another's, or would be several values in a table.
    #[error("terminal {0:?}: names must differ, and have no commas, quotation marks and control characters")]
    Name(String),
    /// Packets from there would be two terminals'.
    #[error("networks: {0} belongs to two terminals")]
    Ambiguous(IpNet),
}
