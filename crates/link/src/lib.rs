//! One direction of a link, sans-IO: packets go in with [`Link::enqueue`], and come out of [`Link::poll`] as departures
//! and drops at the times that the link's rate, delay, queue and random processes give them.
//!
//! ```text
//!  enqueue ──► queue ──► transmitter (rate) ──► propagation (delay) ──► poll: Departure
//!                │ full, or waited too long          │ lost, reordered, duplicated
//!                └──► poll: Drop(Queue…)             └──► poll: Drop(Loss)
//! ```
//!
//! - **Queue**: drop-tail, CoDel (RFC 8289), FQ-CoDel (RFC 8290), PIE (RFC 8033), FQ-PIE, RED or DualPI2 (RFC 9332), limited in
//!   packets or bytes; managed queues may mark packets instead of dropping them (ECN). The packet being sent
//!   has left the queue. Pure acknowledgements may be filtered or thinned out (RFC 3449). Drop-tail queues decide on arrival: what finds room is as good as on its way, and costs no
//!   further event.
//! - **Rate**: none, constant, in steps, drawn at each handover, or recorded delivery opportunities (mahimahi's format).
//!   A rate that changes while a packet is being sent holds for what is left of the packet.
//! - **A carrier on demand** instead of a rate: packets leave in the bursts that a [`dama::Carrier`] gives its terminals.
//! - **Delay**: constant, from the [`geometry`] of satellites and stations, in steps, or drawn at each handover. Where it
//!   falls, packets keep their order or overtake, as configured.
//! - **Losses** happen on the way, after the queue: a lost packet has used its time of transmission, and is reported when
//!   it would have arrived. A reordered packet arrives later by an extra delay, so that those behind it overtake; the
//!   copy of a duplicated packet arrives right behind it and uses no capacity (as from a link layer that lost its own
//!   acknowledgement).
//!
//! Nothing here reads a clock or a system generator. Which packets are lost, reordered and duplicated depends only on
//! the configured seed and stream and on the packet's number among those that were sent, not on time: two variants
//! compared under one seed meet the same losses. Processes that run in time (timed Gilbert-Elliott states, handovers,
//! steps) depend only on seed, stream and time.
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

mod acks;
mod aqm;
mod config;
mod counters;
pub mod dama;
mod discipline;
mod drop_tail;
mod error;
pub mod geometry;
mod in_transit;
mod link;
mod loss;
mod opportunities;
mod packet;
mod policer;
mod preset;
mod propagation;
mod steps;
mod trace;
mod transmitter;

pub use acks::{AckSerial, Acks};
pub use config::{GilbertElliott, Handover, LinkConfig, LossModel, Policer, QueueLimit, Reorder, TimedGilbertElliott};
pub use counters::{Counters, Tally};
pub use discipline::{Codel, Discipline, DualPi2, FqCodel, FqPie, Pie, Red};
pub use error::ConfigError;
pub use geometry::Geometry;
pub use link::Link;
pub use opportunities::Opportunities;
pub use packet::{DropReason, LoggedOutcome, Outcome, Packet};
pub use preset::{PRESETS, Preset, UnknownPreset};
pub use steps::Steps;
pub use trace::TraceError;
