//! What two gateways agree on, whichever satellite transport connects them: who they are, which versions they speak, why connections
//! end, and how connections are classed and marked.
//!
//! | module | idea |
//! | --- | --- |
//! | `key` | X25519 keys: a gateway's identity |
//! | `version` | which versions and services two gateways have in common |
//! | `reset` | why a relayed connection was given up |
//! | `class` | which connections share a session, and how |
//! | [`dscp`] | the DSCP of packets |

mod class;
pub mod dscp;
mod key;
mod reset;
mod version;

pub use class::{Class, Priority};
pub use key::{KeyError, PrivateKey, PublicKey};
pub use reset::ResetReason;
pub use version::{Capabilities, Versions};
