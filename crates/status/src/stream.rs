//! A relayed connection.

use relay::engine::StallCause;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// One relayed connection.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Stream {
    /// Its number in the session with the peer.
    pub stream: u64,
    /// The peer's name.
    pub peer: String,
    /// Whether this is its near or its far gateway.
    pub side: Side,
    /// The client, once known.
    pub client: Option<SocketAddr>,
    /// The server, once known.
    pub server: Option<SocketAddr>,
    /// Its class at this gateway, once its ends are known.
    pub class: Option<String>,
    /// Where the connection stands.
    pub state: String,
    /// Seconds since it began.
    pub age_s: f64,
    /// Bytes taken from TCP at this gateway.
    pub from_tcp_bytes: u64,
    /// Bytes given to TCP at this gateway.
    pub to_tcp_bytes: u64,
    /// With the `satpep` transport: bytes from TCP that wait for the peer's acknowledgement.
    #[serde(default)]
    pub send_buffered_bytes: Option<u64>,
    /// With the `satpep` transport: received bytes that wait for TCP, or for bytes before them.
    #[serde(default)]
    pub receive_buffered_bytes: Option<u64>,
    /// What its bytes wait for, if none have moved for a second; null if they move or there are none.
    #[serde(default)]
    pub stall: Option<Stall>,
}

/// Bytes of a connection that do not move.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Stall {
    /// What they wait for.
    pub cause: StallCause,
    /// For how long, in seconds.
    pub time_s: f64,
}

/// Which of the two gateways of a relayed connection one is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The gateway at the client's end.
    #[default]
    Near,
    /// The gateway at the server's end.
    Far,
}

impl Side {
    /// As it is written in status.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Near => "near",
            Self::Far => "far",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_is_the_same_word_in_documents_and_in_text() {
        for side in [Side::Near, Side::Far] {
            assert_eq!(serde_json::to_value(side).unwrap(), side.name());
        }
    }
}
