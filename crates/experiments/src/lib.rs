//! The experiments behind the documented figures: each module is one, with the claim that it checks (`CLAIM`), the typed rows
//! that it measures (`Row`) and the function that measures them (`run`). `bentpipe bench` prints them.
//!
//! | module | what is measured |
//! | --- | --- |
//! | [`proxies`] | the rows in which other proxies were measured |
//! | [`capacity`] | the estimate of the link's capacity, from any prior, over links that change |
//! | [`limit`] | the transport's targets as shares of the physical limit, simulated and for real |
//! | [`hub`] | fairness between terminals that share a forward link |
//! | [`stalled`] | what a reader that has stopped reading costs others |
//! | [`echo`] | latency of a new connection |
//! | [`throughput`] | what a gateway pair carries without a satellite, and its processor time |
//! | [`relay`] | the same for each satellite transport |
//! | [`connections`] | thousands of open connections, then new ones at a rate |
//! | [`cost`] | processor time and memory of a gateway pair, beside another build |
//!
//! All but simulations run in the private namespaces of the calling process (`kernel::namespace::enter_private`) and start the
//! program of the [`Setup`] as gateways and as ends of connections. Figures are medians over the setup's repeats.
#![allow(clippy::disallowed_methods, reason = "an IO shell: it reads clocks, starts threads and waits")]

pub mod capacity;
pub mod connections;
pub mod cost;
pub mod echo;
mod hosts;
pub mod hub;
pub mod limit;
pub mod proxies;
pub mod relay;
mod setup;
pub mod stalled;
pub mod throughput;

pub use lab::Error;
pub use setup::Setup;
