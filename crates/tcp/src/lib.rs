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

mod autotune;
mod compression;
mod config;
mod connection;
pub mod control;
mod deferral;
mod handshake;
mod ns2;
mod outstanding;
mod receiver;
pub mod recovery;
mod rtt;
mod scoreboard;
mod segment;
mod sender;
mod sending;
mod usage;
mod validate;

pub use config::{
    AckPolicy, Allocation, Capacity, Config, HostDelays, NackRule, Options, Profile, ReceiveBuffer, SavedPath,
    SlowStartExit, Tuning, initial_window_rfc3390, initial_window_rfc6928,
};
pub use connection::{Connection, Event, Failure, Metrics};
pub use control::{ControlKind, LossState, RateSample, Window};
pub use outstanding::Outstanding;
pub use recovery::RecoveryKind;
pub use rtt::{MinRto, RttEstimator, RttRules, Sampling};
pub use scoreboard::{Change, Delivered, Newest, Scoreboard};
pub use segment::{BARE_HEADER, Flags, SackBlocks, Segment, TIMESTAMPS_OPTION, Timestamps};
pub use sender::Counters;
pub use validate::{ConfigError, Fault};
