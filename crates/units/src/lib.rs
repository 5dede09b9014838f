//! Quantities as types, so that bits are never bytes and a delay is never an instant.
//!
//! | type | holds | written as |
//! | --- | --- | --- |
//! | [`Instant`] | nanoseconds since an origin that the caller chose | |
//! | [`Duration`] | nanoseconds | `550ms`, `1.5s`, `250us` |
//! | [`Rate`] | bits per second | `6Mbit/s`, `384kbit/s` |
//! | [`Bytes`] | bytes | `1MB` (10^6), `320KiB` (320 x 1024) |
//! | [`Probability`] | 0 to 1 | `1e-3`, `0` |
//! | [`Ecn`] | the ECN field of an IP header | |
//!
//! Text always carries a unit (but for probabilities): a bare number is refused, since the reader of a scenario cannot
//! know whether `6` was meant in bits or bytes, seconds or milliseconds. Rates count bits and volumes count bytes, both
//! in powers of ten, unless an IEC prefix (`Ki`, `Mi`, `Gi`) says otherwise.
//! # Example
//! ```
//! use units::{Bytes, Duration, Rate};
//!
//! let rate: Rate = "6Mbit/s".parse()?;
//! let rtt: Duration = "550ms".parse()?;
//! assert_eq!(rate.bytes_in(rtt), Bytes::new(412_500), "the bandwidth-delay product");
//! assert_eq!(rate.time_to_send(Bytes::new(1500)), Duration::from_millis(2));
//!
//! let fault = "6".parse::<Rate>().unwrap_err().to_string();
//! assert!(fault.contains("6Mbit/s"), "it shows how a rate is written: {fault}");
//! # Ok::<(), units::QuantityError>(())
//! ```

mod bytes;
mod ecn;
mod figure;
mod parse;
mod probability;
mod random;
mod range_tree;
mod ranges;
mod rate;
mod rounding;
mod time;

pub use bytes::Bytes;
pub use ecn::Ecn;
pub use figure::{Quantity, Unit, significant};
pub use parse::QuantityError;
pub use probability::Probability;
pub use random::{CounterRandom, mix};
pub use range_tree::RangeTree;
pub use ranges::RangeSet;
pub use rate::Rate;
pub use time::{Duration, Instant};
