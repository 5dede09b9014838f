//! Closed-form models of TCP: what a link, a window, slow start and losses leave of its throughput.
//!
//! | module | model |
//! | --- | --- |
//! | [`limit`] | the link's physical limit, whatever the protocol |
//! | [`window`] | one window in a round trip |
//! | [`kruse`] | windows and slow start over a satellite (Kruse, equations 3.1 to 3.9) |
//! | [`mathis`], [`pftk`], [`cubic`] | what losses leave of a long transfer |
//! | [`cardwell`] | short transfers with losses |
//! | [`queue`] | what a short queue leaves |
//! | [`cross_layer`] | the window that the link layer's allocation makes (Kim et al.) |
//! | [`satpep`] | SaTPEP's division of a link (Velenis et al., equations 1 and 2) |
//! | [`prediction`] | all of them for one transfer, and which limit binds |
//! | [`tuning`] | the settings that they imply |
//!
//! Parameters that mean nothing are refused ([`Invalid`]); a result outside the range in which its model holds carries
//! the reason ([`Estimate::doubt`]).
//! # Example
//! One megabyte up over a geostationary satellite: what its physics allow, and what a window of 64 KiB makes of it.
//! ```
//! use model::{limit, window};
//! use units::{Bytes, Duration, Probability, Rate};
//!
//! let (rate, rtt) = (Rate::from_bps(6_000_000), Duration::from_millis(550));
//! let least = limit::time(0.5, Bytes::new(1_000_000), rate, rtt, Probability::ZERO);
//! assert_eq!(least.as_millis_f64().round(), 1656.0);
//!
//! let unscaled = window::throughput(window::UNSCALED, rtt)?;
//! assert_eq!(unscaled.as_bps() / 1000, 953, "kbit/s of the link's 6000");
//! assert!(window::throughput(window::UNSCALED, Duration::ZERO).is_err(), "a round trip takes time");
//! # Ok::<(), model::Invalid>(())
//! ```

mod estimate;
mod lossy_path;

pub mod cardwell;
pub mod cross_layer;
pub mod cubic;
pub mod kruse;
pub mod limit;
pub mod mathis;
pub mod pftk;
pub mod prediction;
pub mod queue;
pub mod satpep;
pub mod tuning;
pub mod window;

pub use estimate::{Estimate, Invalid};
pub use lossy_path::LossyPath;
