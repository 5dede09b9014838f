//! Handshakes under attack, in virtual time.
//!
//! | file | idea |
//! | --- | --- |
//! | `net.rs` | a hub, terminals and someone between them |
//! | `attacker.rs` | whatever bytes say, for the fuzzer |
//! | `cookies.rs` | forged cookies |
//! | `floods.rs` | more handshakes than the hub can answer |
//! | `clocks.rs` | wrong clocks, and replays |
//! | `versions.rs` | gateways of different versions |

pub(crate) mod attacker;
#[cfg(test)]
mod clocks;
#[cfg(test)]
mod cookies;
#[cfg(test)]
mod floods;
#[cfg_attr(not(test), allow(dead_code, reason = "the fuzzer needs a part of it"))]
mod net;
#[cfg(test)]
mod versions;
