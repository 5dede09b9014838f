//! What needs Linux, behind safe functions: the one crate of bentpipe whose system calls are `unsafe`.
#![allow(clippy::disallowed_methods, reason = "an IO shell: the clock, threads and sockets are its job")]
#![allow(unsafe_code, reason = "system calls; each block states why it is sound")]

pub mod clock;
pub mod datagram;
pub mod directory;
mod error;
pub mod gtsm;
pub mod interfaces;
pub mod memory;
pub mod mount;
pub mod namespace;
mod netlink;
pub mod network;
pub mod nfqueue;
pub mod nftables;
pub mod packet;
pub mod pipe;
pub mod poll;
pub mod priority;
pub mod privileges;
pub mod process;
pub mod processor;
pub mod program;
pub mod qdisc;
pub mod removals;
pub mod reuseport;
pub mod route;
mod route_text;
pub mod routes;
pub mod routing_rules;
pub mod sandbox;
pub mod socket_option;
pub mod sysctl;
pub mod tcp;
#[doc(hidden)]
pub mod testing;
pub mod text_file;
pub mod timer;
pub mod transparent;

pub use error::Error;
pub use namespace::Namespace;
