//! `satpep`, the satellite transport between two gateways: sans-IO, many streams in one authenticated session, paced at
//! the link's own rate, repaired by reports of what is missing and never slowed down by loss.
//!
//! It descends from SaTPEP (Velenis, Kalogeras and Maglaris: a TCP performance enhancing proxy for satellite
//! links): know the link, assign its capacity, report gaps at once. What it changes: packets have numbers of
//! their own, capacity is paced and shared by the sender instead of assigned in windows by the receiver, and the
//! session is authenticated.
//!
//! # The path of one packet
//! The driver reads from a TCP socket into a stream ([`Endpoint::write_with`]). When the link is free and the
//! scheduler picks the peer and the stream ([`Endpoint::poll_transmit`]), the session puts a piece of the stream into a packet,
//! notes in its record of sent packets what the packet carries, and the endpoint seals it under the packet number. At the other
//! side [`Endpoint::handle_datagram`] opens it, refuses numbers seen before, puts the piece in its place and tells the
//! driver that the stream is [`Event::Readable`]. The receiver's ACK reports the numbers that arrived; what it
//! covers and does not report is lost, and the pieces which that packet carried go out again in a new one, first.
//!
//! # What is where
//! | module | idea |
//! | --- | --- |
//! | `endpoint` | all sessions of a link: handshakes, keys, scheduling |
//! | `config`, `event`, `stats` | the endpoint's configuration, its events for the driver, its counters |
//! | `session` | one pair of gateways: frames in, frames out, streams, credits |
//! | `stream` | the two halves of a stream and their pages of memory |
//! | `credit` | what a receiver lets its peer send |
//! | `payload` | bytes stored, or elided for the simulator |
//! | `packet_number`, `sequence` | numbers of packets, and positions in a sequence, as types |
//! | `sent_packets` | packets in flight and their outcomes |
//! | `reordering` | how late a packet may be without counting as lost |
//! | `received` | packets that arrived: replay protection, acknowledgements |
//! | `loss` | how packets are lost, as measured: one by one or in bursts |
//! | `repair` | erasure-coded repair in idle capacity |
//! | `capacity` | the capacity of the link, and what of it is ours |
//! | `survey` | what a path carries, found on request |
//! | `memory` | what sessions may hold, shared out among them |
//! | `pacer`, `scheduler` | when to send, and who |
//! | [`dscp`] | the DSCP of packets |
//! | `rtt`, `mtu` | the round-trip time and the MTU of the path, as measured |
//! | `offload` | packets sealed and opened in other threads |
//! | `handshake`, `seal`, `random` | Noise IK, data keys |
//! | `epoch` | one run of a gateway's process, as the peer names it |
//! | [`routing`] | which of two processes of a gateway a datagram is for |
//! | `trouble` | why a peer is not up, and who else initiates |
//! | [`Versions`], [`Capabilities`] | which versions and services two gateways have in common |
//! | `trace`, `qlog` | what happened to packets, and its form for qvis |
//! | `key_log` | data keys, to decrypt recorded traffic |
//! | `wire` | packets and frames as bytes |
//! | `documented` | tests: docs/protocol.md against the code |
//! | `fuzzing` | what tests and fuzz targets enter past the cipher |
//! # Example
//! Two gateways without a link between them: a handshake, then a stream with five bytes. What moves datagrams here are sockets or
//! a simulated link elsewhere.
//! ```
//! use satpep::{Endpoint, EndpointConfig, Event, PeerConfig, PeerState, PrivateKey};
//! use std::io::IoSlice;
//! use std::net::SocketAddr;
//! use units::{Duration, Instant, Rate};
//!
//! let mut now = Instant::from_nanos(1_000_000_000);
//! let rate = Rate::from_bps(100_000_000);
//! let key = |gateway: u8| PrivateKey::from_random([gateway + 1; 32]);
//! let address = |gateway: usize| SocketAddr::from(([198, 18, 0, gateway as u8 + 1], 4500));
//! let mut ends = [0, 1].map(|gateway| {
//!     let config = EndpointConfig::new(key(gateway), rate, rate, Duration::from_millis(20));
//!     Endpoint::new(config, now, 1 << 60, [gateway; 32])
//! });
//! let hub = ends[0].add_peer(now, PeerConfig::new(key(1).public_key(), Some(address(1))))?;
//! let terminal = ends[1].add_peer(now, PeerConfig::new(key(0).public_key(), None))?;
//!
//! let mut buffer = vec![0; 65_536];
//! let mut run = |ends: &mut [Endpoint; 2], millis: u32| {
//!     for _ in 0..millis {
//!         now += Duration::from_millis(1);
//!         for from in 0..2 {
//!             ends[from].handle_timeout(now);
//!             while let Some(transmit) = ends[from].poll_transmit(now, &mut buffer) {
//!                 for datagram in buffer[..transmit.size].chunks_mut(transmit.segment_size) {
//!                     ends[1 - from].handle_datagram(now, address(from), datagram);
//!                 }
//!             }
//!         }
//!     }
//!     now
//! };
//! let now = run(&mut ends, 50);
//! assert_eq!((ends[0].peer_state(hub), ends[1].peer_state(terminal)), (PeerState::Up, PeerState::Up));
//!
//! let stream = ends[0].open(now, hub)?;
//! assert_eq!(ends[0].write(now, stream, b"hello"), 5);
//! run(&mut ends, 5);
//! let opened = std::iter::from_fn(|| ends[1].poll_event()).find_map(|event| match event {
//!     Event::Opened(stream) => Some(stream),
//!     _ => None,
//! });
//! let mut slices = [IoSlice::new(&[])];
//! assert_eq!(ends[1].readable(opened.expect("it has arrived"), &mut slices), 1);
//! assert_eq!(&*slices[0], b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod capacity;
mod config;
mod credit;
#[cfg(test)]
mod documented;
mod endpoint;
mod epoch;
mod event;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
mod key_log;
mod loss;
mod memory;
mod mtu;
mod offload;
mod pacer;
mod packet_number;
mod payload;
pub mod qlog;
mod random;
mod received;
mod reordering;
mod repair;
pub mod routing;
mod rtt;
mod scheduler;
mod seal;
mod sent_packets;
mod sequence;
mod session;
mod stats;
mod stream;
mod survey;
mod trace;
mod trouble;
mod wire;

pub use capacity::{Estimate, EstimateSource, EstimatorPart, EstimatorParts, EstimatorState, Mark, Prior};
pub use config::{CapacityMode, ConfigError, CrossTrafficPolicy, EndpointConfig, PeerConfig, RateConfidence};
pub use endpoint::{Arrival, Endpoint, Transmit};
pub use epoch::Run;
pub use event::{ClockSkew, Event, OpenError, PeerId, PeerState, StreamId, Violation};
pub use key_log::LoggedKey;
pub use offload::{Opened, Opener, Opening, OpeningKey, Seal};
pub use payload::{Elided, HEAD, Payload, Stored};
pub use peering::{Capabilities, Class, KeyError, Priority, PrivateKey, PublicKey, ResetReason, Versions, dscp};
pub use seal::{Cipher, Mode};
pub use stats::{Drops, EndpointStats, MemoryStats, PeerStats, StreamStats};
pub use survey::{SurveyReport, survey_cost};
pub use trace::{TraceEvent, TraceKind, TracedMetrics, TracedPacket, TracedPiece, TracedSession};
pub use trouble::{Stranger, StrangerFault, Trouble};
pub use wire::packet::KNOCK;
