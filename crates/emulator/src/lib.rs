//! A satellite link in real time: frames that arrive on one interface leave by another when [`link::Link`] says so.
//!
//! The two interfaces are like two ports of a bridge: frames keep their addresses, and hosts on both sides see each
//! other on the link layer. Each direction has a [`link::LinkConfig`] of its own.
//!
//! - **Sizes are those of the wire.** A super-packet that the sending host left to its network card is cut into
//!   segments first, each a packet with an outcome of its own.
//! - **Address resolution is exempt**: ARP and IPv6 neighbour discovery (RFC 4861) cross at once, so that one lost
//!   request does not cost a transfer a second.
//! - **What is due at nearly the same time leaves together**, consecutive TCP segments as the super-packet that the host or its
//!   network card cuts into just these; no packet leaves early.
//! - **Time is measured.** The report says how much later than the model packets were really sent.
//! - **A run can be repeated**: the log of arrivals, replayed through the links and carriers in virtual time, gives
//!   every packet the same outcome ([`ArrivalLog`]).
//! - **Terminals may share a carrier on demand** ([`SharedCarrier`], [`link::dama`]): each has a queue of its own, chosen
//!   by where packets come from, and what each is given follows what it asks for.
//! - **Memory is bounded**, whatever the queue limit allows; every packet is accounted for by outcome and reason.
//! - **VLAN tags stay**, also those that the kernel or the network card has taken out of a frame.
#![allow(clippy::disallowed_methods, reason = "an IO shell: it reads the clock and moves packets")]

mod apart;
mod arrival_log;
mod direction;
mod emulator;
mod frame;
mod headers;
mod monitor;
mod path;
mod replay;
mod report;
mod rest;
mod segment;
mod terminal;
mod train;

pub use arrival_log::{LoggedOutcome, Record};
pub use emulator::{Config, Emulator, Error, open};
pub use monitor::Monitor;
pub use path::PathModel;
pub use replay::{ArrivalLog, Difference, LogError};
pub use report::{DirectionReport, Dropped, Lateness, Report, TerminalReport, Transit};
pub use terminal::{PathError, SharedCarrier, Terminal};
