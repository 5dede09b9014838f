//! `satpep`, the satellite transport between two gateways: sans-IO, many streams in one authenticated session, paced at
//! the link's own rate, repaired by reports of what is missing and never slowed down by loss.
//!
//! It descends from SaTPEP (Velenis, Kalogeras and Maglaris: a TCP performance enhancing proxy for satellite
//! links): know the link, assign its capacity, report gaps at once. What it changes: datagrams have numbers of
//! their own, capacity is paced and shared by the sender instead of assigned in windows by the receiver, and the
//! session is authenticated.
//!
//! # One packet's way
//! The driver reads from a TCP socket into a stream ([`Endpoint::write_with`]). When the link is free and it is the
//! peer's and the stream's turn ([`Endpoint::poll_transmit`]), the session puts a piece of the stream into a datagram,
//! notes in its ledger what the datagram carries, and the endpoint seals it under the datagram's number. At the other
//! side [`Endpoint::handle_datagram`] opens it, refuses numbers seen before, puts the piece in its place and tells the
//! driver that the stream is [`Event::Readable`]. The receiver's acknowledgement names the numbers that arrived; what it
//! covers and does not name is lost, and the pieces which that datagram carried go out again in a new one, first.
//!
//! # What is where
//! | module | idea |
//! | --- | --- |
//! | `endpoint` | all sessions of a link: handshakes, keys, whose turn it is |
//! | `session` | one pair of gateways: frames in, frames out, streams, credits |
//! | `stream` | the two halves of a stream and their pages of memory |
//! | `payload` | bytes stored, or elided for the simulator |
//! | `ledger` | datagrams under way and their fate |
//! | `reordering` | how late a datagram may be without counting as lost |
//! | `received` | datagrams that arrived: replay protection, acknowledgements |
//! | `repair` | erasure-coded repair in idle capacity |
//! | `capacity` | what the link carries, and what of it is ours |
//! | `survey` | what a path carries, found on request |
//! | `memory` | what sessions may hold, shared out among them |
//! | `pacer`, `scheduler`, `class` | when to send, and who |
//! | [`dscp`] | how datagrams are marked |
//! | `rtt`, `mtu` | what is learnt of the path |
//! | `handshake`, `seal`, `key`, `random` | Noise IK, data keys |
//! | `trouble` | why a peer is not up, and who else calls |
//! | `version` | which versions and services two gateways have in common |
//! | `key_log` | data keys for whoever reads recorded traffic |
//! | `wire` | datagrams and frames as bytes |

mod capacity;
mod class;
mod config;
#[cfg(test)]
mod documented;
pub mod dscp;
mod endpoint;
mod epoch;
mod event;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
mod key;
mod key_log;
mod ledger;
mod loss;
mod memory;
mod mtu;
mod pacer;
mod payload;
mod random;
mod received;
mod reordering;
mod repair;
pub mod routing;
mod rtt;
mod scheduler;
mod seal;
mod session;
mod stats;
mod stream;
mod survey;
mod trouble;
mod version;
mod wire;

pub use class::{Class, Priority};
pub use config::{ConfigError, EndpointConfig, Knowledge, PeerConfig, Share};
pub use endpoint::{Endpoint, Transmit};
pub use epoch::Run;
pub use event::{ClockSkew, Event, OpenError, PeerId, PeerState, ResetReason, StreamId, Violation};
pub use key::{KeyError, PrivateKey, PublicKey};
pub use key_log::LoggedKey;
pub use payload::{Elided, HEAD, Payload, Stored};
pub use seal::{Cipher, Mode};
pub use stats::{Drops, EndpointStats, MemoryStats, PeerStats, StreamStats};
pub use survey::{SurveyReport, survey_cost};
pub use trouble::{Stranger, StrangerFault, Trouble};
pub use version::{Capabilities, Versions};
