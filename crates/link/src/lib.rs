//! One direction of a link, sans-IO: packets go in with [`Link::enqueue`], and come out of [`Link::poll`] as departures
//! and drops at the times that the link's rate, delay, queue and random processes give them.
//!
//! ```text
//!  enqueue ──► drop-tail queue ──► transmitter (rate) ──► propagation (delay) ──► poll: Departure
//!                  │ full                                      │ lost, reordered, duplicated
//!                  └──► poll: Drop(QueueFull)                  └──► poll: Drop(Loss)
//! ```
//!
//! Losses happen on the way, after the queue: a lost packet has used its time of transmission, and is reported when it
//! would have arrived. A reordered packet arrives later by an extra delay, so that those behind it overtake; the copy of
//! a duplicated packet arrives right behind it and uses no capacity (as from a link layer that lost its own
//! acknowledgement).
//!
//! Nothing here reads a clock or a system generator. Which packets are lost, reordered and duplicated depends only on
//! the configured seed and stream and on the packet's number among those that were sent, not on time: two variants
//! compared under one seed meet the same losses.
//!
//! ```
//! use link::{Link, LinkConfig, Outcome, Packet};
//! use units::{Bytes, Duration, Instant, Rate};
//!
//! #[derive(Clone)]
//! struct Datagram(u64);
//! impl Packet for Datagram {
//!     fn size(&self) -> Bytes {
//!         Bytes::new(self.0)
//!     }
//! }
//!
//! let mut link = Link::new(LinkConfig::new(Rate::from_bps(6_000_000), Duration::from_millis(275)))?;
//! link.enqueue(Instant::ZERO, Datagram(1500));
//! let arrival = link.next_timeout().expect("a packet is on its way");
//! assert_eq!(arrival, Instant::ZERO + Duration::from_millis(277)); // 2 ms to send, 275 ms to propagate
//! assert!(matches!(link.poll(arrival), Some(Outcome::Departure { at, .. }) if at == arrival));
//! # Ok::<(), link::ConfigError>(())
//! ```

mod config;
mod counters;
mod drop_tail;
pub mod geometry;
mod link;
mod loss;
mod managed;
mod opportunities;
mod preset;
mod propagation;
mod steps;
mod trace;
mod transmitter;
mod way;

pub use config::{
    Codel, ConfigError, Discipline, FqCodel, GilbertElliott, Handover, LinkConfig, LossModel, QueueLimit, Reorder,
    TimedGilbertElliott,
};
pub use counters::{Counters, Tally};
pub use geometry::Geometry;
pub use link::{DropReason, Link, Outcome, Packet};
pub use opportunities::Opportunities;
pub use preset::{PRESETS, Preset, UnknownPreset};
pub use steps::Steps;
pub use trace::TraceError;
