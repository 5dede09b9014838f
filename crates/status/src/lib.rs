//! The state of a gateway as it reports it: on its control socket, on its live page, as metrics. Counters start at zero with the
//! process.
//!
//! The types serialise to the document of `bentpipe gateway status --json`, and read documents of other versions: fields that are
//! not known are skipped, those of later versions may be absent.
//!
//! | file | idea |
//! | --- | --- |
//! | `snapshot.rs` | the gateway |
//! | `capacity.rs` | the estimate of the link's capacity |
//! | `link.rs` | the link state and the modem |
//! | `satellite.rs` | the counters of the satellite link |
//! | `peer.rs` | a peer, and why it is not up |
//! | `stream.rs` | a relayed connection |

mod capacity;
mod link;
mod peer;
mod satellite;
mod snapshot;
mod stream;

pub use capacity::Capacity;
pub use link::{Link, Modem, UpdateCounts};
pub use peer::{Peer, PeerState, Permits, Survey, Trouble};
pub use relay::engine::{Counters, StallCause};
pub use relay::link_state::Source;
pub use satellite::{CrossLayer, Memory, Satellite};
pub use snapshot::{Draining, LogCounts, MissingInterface, Privileges, Snapshot};
pub use stream::{Side, Stall, Stream};
