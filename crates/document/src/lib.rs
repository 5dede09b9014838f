//! Strict TOML: every file that a person writes is read by this crate, and every fault in it is reported at once, with its
//! place, its key, what was expected, the nearest name that is known and, where there is one, the remedy.
//!
//! The types that a file is deserialised into are its format: [`Format::of`] derives the JSON Schema from them (and from
//! their documentation), [`check`] holds a text against it, and [`reference()`] writes it down for people.
//!
//! | type | what it is |
//! | --- | --- |
//! | [`Node`], [`Value`], [`Entry`] | a document as a tree in which each value and key has its [`Origin`] |
//! | [`Format`], [`Schema`] | what a document may say, derived from types; the texts in it have [`Form`]s |
//! | [`Fault`], [`Found`], [`Faults`] | what is wrong: one fault, those found so far, the lines for people |
//! | [`Change`] | one setting changed, as by `--set` or by a variant |
//! | [`Document`] | all of these for a file without variants: read it, take its sections, report late faults, finish |
//!
//! # The way of one faulty setting
//! `queue = "1BDP"` stands in line 7 of a link that has no rate. [`parse`] makes it a [`Node`] whose origin is the byte at
//! which the value begins. [`check`] finds nothing wrong: the text has the form that the schema asks for. The reader of
//! links deserialises the table, looks for the rate that a bandwidth-delay product needs, and finds none. It still has the
//! node, and reports [`Fault::new`] with the node's origin. [`Found::say`] turns the origin into line and column:
//! `link.toml:7:9: down.queue = "1BDP": without a rate there is no bandwidth-delay product`. Had a command line set the
//! value, its origin would be an override, and the place `--set link.sat.queue=1BDP`.
//!
//! ```
//! use document::{Document, Format, Interval, Name};
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//!
//! /// A file with one section.
//! #[derive(Deserialize, JsonSchema)]
//! struct File {
//!     /// Who is asked.
//!     ping: Ping,
//! }
//!
//! /// Echo requests.
//! #[derive(Deserialize, JsonSchema)]
//! struct Ping {
//!     /// The host.
//!     to: Name,
//!     /// From one request to the next.
//!     interval: Option<Interval>,
//!     /// How long an answer may take.
//!     timeout: Option<Interval>,
//! }
//!
//! let format = Format::of::<File>();
//! let text = "[ping]\nto = \"moon\"\nintervall = \"0s\"\ntimeout = 5\n";
//! let faults = Document::read(text, "ping.toml", &format).expect("it is TOML").finish::<File>(None).err().expect("faults");
//! assert_eq!(faults.0, [
//!     "ping.toml:3:1: ping.intervall: unknown key; did you mean interval?",
//!     "ping.toml:4:11: ping.timeout = 5: expected a time above 0s, such as \"100ms\"",
//! ]);
//! ```
//!
//! A text may have [`MAX_BYTES`] bytes; tables and lists may lie [`MAX_DEPTH`] deep in one another.

mod change;
mod check;
mod fault;
mod form;
mod format;
mod origin;
mod quantity;
mod reading;
mod reference;
mod syntax;
mod tree;
mod writing;

pub use change::Change;
pub use check::{check, shown};
pub use fault::{Fault, Faults, Found, cut, nearest, suggestion};
pub use form::Form;
pub use format::{Format, Schema};
pub use origin::Origin;
pub use quantity::{AnyRate, AnySize, Interval, Line, Name, PositiveRate, RateLimit, Size, Time};
pub use reading::Document;
pub use reference::{Section, reference};
pub use tree::{Entry, MAX_BYTES, MAX_DEPTH, Node, Value, item_name, parse};
pub use writing::to_toml;

/// What the code of [`form!`] needs.
#[doc(hidden)]
pub mod external {
    pub use {schemars, serde};
}
