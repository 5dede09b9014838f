//! A pair of gateways in network namespaces, with a client behind one and servers behind the other:
//!
//! ```text
//!  client ── terminal ══ link ══ hub ── servers
//! ```
//!
//! The tests of the daemon run it as a library on threads, those of the program as processes: a [`Runner`] says how. This crate
//! depends on no gateway; it knows the configuration and the control socket.
//!
//! | file | idea |
//! | --- | --- |
//! | `pair.rs` | the pair: its settings, its sites, its state |
//! | `program.rs` | gateways as processes |
//! | `programs.rs` | what ordinary TCP programs do and expect |
//! | `conversations.rs` | what every pair does for its hosts |
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "for tests: real sockets, threads and waiting")]
#![allow(clippy::missing_panics_doc, clippy::missing_errors_doc, reason = "for tests: a panic is a failed test")]

mod conversations;
mod pair;
mod program;
mod programs;

pub use conversations::{carries_both_directions, relays_both_families};
pub use pair::{CLEAR, End, Pair, Place, Runner, TLS, answer, skipped};
pub use program::{Executable, Program};
pub use programs::{PATIENCE, assert_reset, echo, echo_all, echoes, patient, pattern};
pub use sites::{Family, Site};
