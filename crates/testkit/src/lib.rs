//! Nodes on virtual paths: what tests of sans-IO protocols share.
//!
//! | file | what is in it |
//! | --- | --- |
//! | `path.rs` | two nodes and the links between them, run from event to event |
//! | `channel.rs` | one direction that loses, duplicates, corrupts, delays and cuts off, by a seed |
//! | `datagram.rs` | a UDP datagram with its addresses |
//! | `agenda.rs` | what is due when, in order |
//! | `clock.rs` | virtual time, and clocks of nodes that differ from it |
//! | `pattern.rs` | the bytes of transfers |
//! | `dice.rs` | choices at random from a seed |
//! | `vectors.rs` | test vectors in a file |
//! | `table.rs` | recorded results, as CSV |
//! | `made.rs` | files and parts of pages that code makes |
//!
//! Everything is deterministic: the same seeds and inputs give the same run. Nodes come in as
//! [neqo's simulator](https://github.com/mozilla/neqo/tree/main/test-fixture/src/sim) has them: one trait for all that sends and
//! receives.

mod agenda;
mod channel;
mod clock;
mod datagram;
mod dice;
pub mod made;
mod path;
pub mod pattern;
pub mod table;
mod vectors;

pub use agenda::Agenda;
pub use channel::{Channel, Fault};
pub use clock::{LocalClock, VirtualTime};
pub use datagram::{Datagram, HEADERS};
pub use dice::Dice;
pub use path::{Node, Path};
pub use vectors::{Vectors, bytes, hex};
