//! A TCP endpoint, sans-IO: the connection that simulations run, with every variant of the papers.
//!
//! Two axes make a variant. Loss recovery ([`recovery`]) decides when a segment counts as lost, what is sent again, and
//! how the window moves meanwhile; congestion control ([`control`]) sizes the window. Constants come from a [`Profile`]
//! and are data in [`Config`].
//!
//! ```text
//!  application                 Connection                          network
//!  write, finish ──► Sender ── Outstanding { Scoreboard, Window, RttEstimator, Control } ──► poll_transmit
//!                       ▲           ▲
//!                       │           └── Recovery: marks losses, names what to send again
//!  read ◄── Receiver ───┴──────────────────────────────────────── handle_segment
//! ```
//!
//! A segment carries 64-bit byte offsets and the length of its payload, nothing else: what runs the connection moves no
//! bytes. See [`Connection`] for how to drive one.
//! # Example
//! 80 kB from one end to the other, with half a satellite's round trip each way and nothing else between them. The loop is all
//! that a driver does.
//! ```
//! use std::collections::VecDeque;
//! use std::sync::Arc;
//! use tcp::{Config, Connection, Profile};
//! use units::{Duration, Instant};
//!
//! let config = Arc::new(Config::new(Profile::Rfc));
//! let mut now = Instant::ZERO;
//! let mut ends = [Connection::connect(Arc::clone(&config), now), Connection::listen(config)];
//! let mut under_way = VecDeque::new();
//! assert_eq!(ends[0].write(80_000), 80_000);
//! ends[0].finish();
//!
//! let mut received = 0;
//! while received < 80_000 {
//!     for from in 0..2 {
//!         while let Some(segment) = ends[from].poll_transmit(now) {
//!             under_way.push_back((now + Duration::from_millis(275), 1 - from, segment));
//!         }
//!     }
//!     let arrival = under_way.front().map(|(at, _, _)| *at);
//!     now = ends.iter().filter_map(Connection::next_timeout).chain(arrival).min().expect("something is to come");
//!     if arrival == Some(now) {
//!         let (_, to, segment) = under_way.pop_front().expect("it has arrived");
//!         ends[to].handle_segment(now, &segment);
//!     }
//!     for end in &mut ends {
//!         end.handle_timeout(now);
//!     }
//!     received += ends[1].read(now, u64::MAX);
//! }
//! // The handshake, and three flights of slow start: 10, up to 20, and the rest.
//! assert_eq!(now, Instant::ZERO + Duration::from_millis(550 + 2 * 550 + 275));
//! ```

mod autotune;
mod compression;
mod config;
mod connection;
pub mod control;
mod deferral;
mod filter;
mod handshake;
mod kinds;
mod marks;
mod metrics;
mod ns2;
mod outstanding;
mod profile;
mod receiver;
pub mod recovery;
mod rtt;
mod scoreboard;
mod segment;
mod sender;
mod sending;
mod timestamp;
mod usage;
mod validate;

pub use config::{
    AckPolicy, Allocation, Capacity, Config, HostDelays, NackRule, Options, ReceiveBuffer, SavedPath, SlowStartExit,
    Tuning, initial_window_rfc3390, initial_window_rfc6928,
};
pub use connection::{Connection, Event, Failure};
pub use control::{LossState, RateSample, Window};
pub use kinds::{ControlKind, RecoveryKind};
pub use metrics::Metrics;
pub use outstanding::Outstanding;
pub use profile::Profile;
pub use rtt::{MinRto, RttEstimator, RttRules, Sampling};
pub use scoreboard::{Change, Delivered, Newest, Overdue, Scoreboard};
pub use segment::{BARE_HEADER, EcnBytes, Flags, SackBlocks, Segment, TIMESTAMPS_OPTION, Timestamps};
pub use sender::Counters;
pub use validate::{ConfigError, ControlError, Fault};
