//! What the RFCs ask of a TCP endpoint, rule by rule, of a lone [`tcp::Connection`] that is fed segments at given times
//! (as packetdrill does), and of two of them over random networks.

mod acknowledging;
mod clock;
mod closing;
mod growth;
mod handshake;
pub mod lone;
mod lying;
mod options;
mod probing;
mod recovering;
mod reneging;
mod reordering;
mod retransmitting;
mod scoreboard;
mod stretching;
mod synchronized;
mod timer;
mod transfers;
mod windows;
