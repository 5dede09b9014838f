//! The Dynamic Link Exchange Protocol, RFC 8175: how a modem reports the capacity of its links to the router beside it. Both roles,
//! without IO: bytes and the time come in as arguments, bytes and events are asked for.
//!
//! A driver connects (a router) or accepts (a modem) a TCP connection whose packets all have the TTL or hop limit 255, makes a
//! [`Router`] or [`Modem`] of it and then, as long as [`Participant::is_over`] is not said, hands over what it reads, calls
//! `handle_timeout` at `next_timeout`, writes what `poll_transmit` returns, and takes events from `poll_event`. A peer that breaks the protocol
//! ends its session and nothing else; memory is bounded whatever arrives.
//!
//! | file | idea |
//! | --- | --- |
//! | `item.rs`, `item_kind.rs` | data items and their types, §13 |
//! | `parse_error.rs` | why bytes are none of these |
//! | `printable.rs` | text of the peer as it may be shown |
//! | `message.rs` | messages and signals: which items they hold, §11 and §12 |
//! | `metrics.rs` | what is reported of a link: rates, latency, resources, quality, MTU |
//! | `mac.rs`, `status.rs` | addresses of destinations, status codes |
//! | `framer.rs` | messages out of a stream of bytes |
//! | `session.rs` | what both roles do: heartbeats, termination, §7 |
//! | `router.rs`, `modem.rs` | the two roles |
//! | `discovery.rs` | how a router finds its modem, §7.1 |
//!
//! No extensions (§9) are supported: whatever belongs to one is unknown, and ends the session as §12.1 asks.

mod discovery;
mod framer;
mod item;
mod item_kind;
mod mac;
mod message;
mod metrics;
mod modem;
mod parse_error;
mod printable;
mod router;
mod session;
mod status;

pub use discovery::{ConnectionPoint, GROUP_V4, GROUP_V6, connection_points, discovery, offer, wants_offer};
pub use framer::Framer;
pub use item::{Item, RateKind};
pub use item_kind::ItemKind;
pub use mac::Mac;
pub use message::{Message, MessageKind, Signal, SignalKind};
pub use metrics::Metrics;
pub use modem::{Modem, ModemEvent};
pub use parse_error::ParseError;
pub use printable::printable;
pub use router::{Router, RouterEvent};
pub use session::{End, Participant, PeerInfo, Settings};
pub use status::Status;

/// TCP and UDP port of DLEP, unless configured otherwise.
pub const PORT: u16 = 854;
/// TTL or hop limit of every packet of DLEP; one that has another has come through a router, and is refused (GTSM, RFC 5082).
pub const TTL: u8 = 255;
