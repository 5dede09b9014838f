//! The integration tests of the crate, as one program.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests: real sockets, threads and waiting")]

mod control;
mod dissector;
mod doctor;
mod interception;
mod logs;
mod marking;
mod modem;
mod monitoring_page;
mod mtu;
mod page;
mod pair;
mod relaying;
mod reload;
mod resets;
mod tcp;
mod tcp_strangers;
mod upgrade;
mod urgent;
mod workers;
