//! SaTPEP as its paper describes it (Velenis, Kalogeras, Maglaris 2003), errors resolved: a pair of gateways splits each TCP
//! connection in three, and the middle one, over the satellite, has windows that the receiving gateway assigns and
//! recovery by NACKs.
//!
//! The middle connection is [`tcp`]'s endpoint with [`tcp::Config::satpep`]. What divides the link belongs here rather than
//! there: it is of a gateway, not of a connection, and measures all that arrives over the link. The deployed transport has
//! an allocation of its own.

mod allocator;
mod meter;

pub use allocator::{Allocator, ConnectionId, Division};
pub use meter::Measurement;
