//! The live page of a gateway, for `[web] listen`.
//!
//! ```text
//!  gateway ──Source──▶ sampler ─Snapshot─▶ Board ──document each second──▶ browsers (server-sent events)
//!                      1/s                 history, events, tables
//! ```
//!
//! - A thread asks the gateway's event loop for its state once a second ([`Source`]). Relayed connections are asked for only
//!   while a page shows them: with 20,000 of them a sample takes the loop milliseconds.
//! - The [`Board`] keeps the history of the link (not of each peer or stream) in three resolutions, the latest events, and two
//!   samples, whose difference gives rates. It has no clock and no socket. The history has a fixed size: 140 kB.
//! - An event is a difference between two samples, so that nothing in the gateway has to report it.
//! - Each page gets one document a second, with one page of one table, filtered and sorted here. Pages that show the same share it.
//! - Another thread serves HTTP. Pages, connections and views are bounded; nothing can be changed through the page.
//! - All files are in the program. The content security policy allows nothing from elsewhere ([`assets`](self)); who may look, [`Access`] decides.
//! - A page that loses the gateway says so, and connects again by itself; so it does across restarts and upgrades, after which the history begins again.
//!
//! | file | idea |
//! | --- | --- |
//! | `source.rs` | where the state of the gateway, a [`status::Snapshot`], is from |
//! | `point.rs`, `history.rs` | the curves |
//! | `events.rs` | the events |
//! | `rows.rs` | the tables |
//! | `board.rs` | what pages receive |
//! | `http.rs`, `connection.rs`, `tls.rs` | HTTP with bounds, for the page and for other services of the gateway |
//! | `access.rs`, `assets.rs`, `server.rs` | the page over it |
//! | `losses.rs`, `end_to_end.rs` | the estimate of what connections would be without gateways |
//! | `replay.rs` | a finished run as a page in one file |
#![allow(clippy::disallowed_methods, reason = "an IO shell: sockets, clocks and threads are its job")]

mod access;
mod assets;
mod board;
mod connection;
mod end_to_end;
mod events;
mod history;
pub mod http;
mod losses;
mod point;
mod replay;
mod rows;
mod server;
mod source;
mod tls;

pub use access::{Access, MIN_TOKEN, Token};
pub use board::Board;
pub use events::{Event, Kind};
pub use history::{History, Span};
pub use point::Point;
pub use replay::{Course, MAX_COURSES, Replay, Table as ReplayTable, headline};
pub use rows::{Sort, Table, View};
pub use server::Server;
pub use source::{Detail, Source};
pub use tls::Tls;
