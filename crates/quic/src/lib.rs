//! A QUIC endpoint without cryptography, sans-IO: the connection that simulations run beside TCP's.
//!
//! It has what decides how fast data arrive: packet numbers that are never used twice, acknowledgements of ranges, loss
//! detection and probes (RFC 9002), the congestion controls of the crate `tcp`, pacing, flow control of one stream and of the
//! connection (RFC 9000), and the round trips of the handshake, with early data (0-RTT) or without. Packets say what they carry
//! and how large they are; nothing is encrypted, and payloads are lengths.
//!
//! ```text
//!  application            Connection                                                  network
//!  write, finish ──► SendStream ──► Sender { SentPackets, Rtt, Congestion, Pacer } ──► poll_transmit
//!                        ▲              ▲ acknowledged or lost
//!  read ◄── ReceiveStream ◄── Received (acknowledgements) ◄────────────────────────── handle_packet
//! ```
//!
//! # Example
//! 80 kB from one end to the other, with half a satellite's round trip each way.
//! ```
//! use std::collections::VecDeque;
//! use std::sync::Arc;
//! use quic::{Config, Connection};
//! use units::{Duration, Ecn, Instant};
//!
//! let config = Arc::new(Config::default());
//! let mut now = Instant::ZERO;
//! let mut ends = [Connection::connect(Arc::clone(&config), now), Connection::listen(config)];
//! let mut under_way = VecDeque::new();
//! assert_eq!(ends[0].write(80_000), 80_000);
//! ends[0].finish();
//!
//! let mut received = 0;
//! while received < 80_000 {
//!     for from in 0..2 {
//!         while let Some(packet) = ends[from].poll_transmit(now) {
//!             under_way.push_back((now + Duration::from_millis(275), 1 - from, packet));
//!         }
//!     }
//!     let arrival = under_way.front().map(|(at, _, _)| *at);
//!     now = ends.iter().map(Connection::next_at).chain(arrival).min().expect("something is to come");
//!     if arrival == Some(now) {
//!         let (_, to, packet) = under_way.pop_front().expect("it has arrived");
//!         ends[to].handle_packet(now, &packet, Ecn::NotCapable);
//!     }
//!     for end in &mut ends {
//!         end.handle_timeout(now);
//!     }
//!     received += ends[1].read(u64::MAX);
//! }
//! // The handshake, and three flights of slow start, paced.
//! let rounds = now.as_secs_f64() / 0.55;
//! assert!((3.5..4.5).contains(&rounds), "{rounds}");
//! ```

mod acks;
mod config;
mod congestion;
mod connection;
mod handshake;
mod metrics;
mod pacer;
mod packet;
mod receive_stream;
mod rtt;
mod send_stream;
mod sender;
mod sent_packets;

pub use config::{Config, Fault, FlowWindow, MAX_DATAGRAM_OVERHEAD, SMALLEST_PACKET};
pub use connection::{Connection, Event, Failure};
pub use metrics::{Counters, Metrics};
pub use packet::{AckFrame, Limits, Message, Packet, StreamFrame};
