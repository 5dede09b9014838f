//! A return carrier that terminals share on demand (DAMA: demand-assigned multiple access), as in DVB-RCS and DVB-RCS2
//! (EN 301 790, EN 301 545-2). The network control centre (NCC) allocates the timeslots.
//!
//! ```text
//!  terminal: queue ──► bursts of the plan ──► hub            every `every`: request (CRA is never asked for)
//!                        ▲                                                    │ to_ncc
//!                        │ from_ncc, lead                                     ▼
//!                        └────── burst time plan ◄────── NCC: every superframe, CRA > RBDC > VBDC > FCA
//! ```
//!
//! - Time on the carrier is cut into **superframes** of equal slots. A packet is cut to fit slots and may go on in the next
//!   superframe; packets share slots. It has been sent when its last slot has. Slots that nobody fills are lost.
//! - **CRA** (constant rate assignment) is always there. **RBDC** (rate-based dynamic capacity) is asked for as a rate; each
//!   request replaces the one before and expires. **VBDC** (volume-based) is asked for in bytes, which add up at the
//!   NCC until they are served. **AVBDC** (absolute volume) replaces what they add up to, so that lost requests and
//!   capacity that was not used are forgotten. **FCA** (free capacity) is what is left, given without a request.
//! - Requests take the delay to the NCC, plans that back: a terminal that has nothing waits for at least that and
//!   the lead before its first byte leaves.
//!
//! Requests do not compete with data for capacity: each terminal has a place of its own for them, as in the sync bursts of
//! DVB-RCS. Nothing here reads a clock: a driver calls [`Carrier::handle_timeout`] at [`Carrier::next_timeout`], with the
//! [`Terminals`] whose queues the carrier looks at and to whom it gives bursts.

mod carrier;
mod config;
mod ncc;
mod plan;
mod request;
mod share;
mod terminal;
mod timeline;

pub use carrier::{Carrier, Member, Terminals};
pub use config::{CarrierConfig, Sharing, TerminalConfig};
pub use plan::{Burst, Grant};
pub use request::Backlog;
pub use timeline::{Sample, Totals};

pub(crate) use terminal::Granted;
