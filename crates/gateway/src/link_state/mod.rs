//! Link updates while the gateway runs: by the modem over DLEP, or by a program over a socket.
//!
//! All that follow the link's capacity read one [`tokio::sync::watch`] of [`LinkState`]. Without a valid update it
//! holds the configured link.
//!
//! | file | idea |
//! | --- | --- |
//! | `board.rs` | the link state that updates change and all read |
//! | `service.rs` | the thread that receives updates |
//! | `api.rs` | updates as JSON, over a Unix socket or HTTP |
//! | `modem.rs` | updates of a modem over DLEP |

pub(crate) mod api;
mod board;
mod modem;
mod service;

pub use relay::link_state::{LinkState, LinkUpdate, RateLimits, Rejection, Source};
pub use service::LinkUpdates;
