//! The gateway daemon: interception, relays, the satellite session, control and metrics.
//!
//! [`config::load`] reads the settings, [`Gateway::start`] sets a gateway up and [`Gateway::run`] relays until it is asked
//! to stop through its [`Handle`].
#![allow(clippy::disallowed_methods, reason = "an IO shell: sockets, clocks and threads are its job")]

mod build;
pub mod config;
pub mod connection_log;
mod conntrack;
mod control;
mod cross_traffic;
mod daemon;
pub mod doctor;
mod drain;
mod entropy;
mod error;
mod filtered_bridges;
#[cfg(fuzzing)]
pub mod fuzzing;
mod handle;
mod hold;
mod host_sockets;
#[cfg(test)]
mod http_limits;
mod late_listener;
pub mod link_state;
mod log_file;
mod measured;
mod metrics;
mod missing_interfaces;
mod other_clients;
mod page;
mod privileges;
mod relays;
mod reload;
mod reverse_path;
pub mod rules;
mod steering;
mod sysctls;
mod takeover;
mod tcp_socket;
mod transport;
mod trouble;
mod turns;
mod udp;
mod unix;
mod watch;

pub use build::Build;
pub use control::{Answer, drain, reload, snapshot, status};
pub use daemon::Gateway;
pub use error::StartError;
pub use handle::Handle;
pub use host_sockets::usable_descriptors;
pub use relay::engine::Intercepted;
pub use reload::ReloadError;
pub use status::{
    Capacity, Counters, CrossLayer, Draining, Link, Memory, MissingInterface, Modem, Peer, PeerState, Permits,
    Privileges, Satellite, Side, Snapshot, Stall, StallCause, Stream, Survey, Trouble, UpdateCounts,
};
