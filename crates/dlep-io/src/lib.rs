//! The Dynamic Link Exchange Protocol (RFC 8175) over sockets: a router's side and a modem's.
//!
//! Everything is sent with the TTL or hop limit 255, and nothing else is taken (GTSM, RFC 5082): the kernel drops TCP segments
//! that no neighbour has sent, and datagrams of discovery tell theirs. All sockets are bound to one interface.
//!
//! | file | idea |
//! | --- | --- |
//! | `drive.rs` | a session over one TCP connection |
//! | `discovery.rs` | asking and answering by multicast |
//! | `router.rs` | find the modem, keep a session with it |
//! | `modem.rs` | serve routers: report one link to them |
#![allow(clippy::disallowed_methods, reason = "an IO shell: sockets and clocks are its job")]

mod discovery;
mod drive;
mod modem;
mod router;

pub use modem::{LinkReport, Modem, ModemSettings};
pub use router::{News, RouterSettings, route};
