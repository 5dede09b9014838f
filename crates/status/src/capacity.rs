//! The estimate of the link's transmit capacity.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use units::Rate;

/// The estimate of the link's transmit capacity, its basis and its confidence.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// The capacity.
    pub rate_bps: u64,
    /// The rate that is configured; null if none is.
    pub prior_bps: Option<u64>,
    /// What it rests on, one of [`Self::BASES`].
    pub basis: Cow<'static, str>,
    /// What the estimator is doing, one of [`Self::STATES`].
    pub state: Cow<'static, str>,
    /// How far it is trusted, from 0 to 1.
    pub confidence: f64,
    /// Whether the link drops what is beyond it without queueing it, as policers do.
    pub policed: bool,
    /// How often it has changed by a tenth or more, by what it then rested on.
    pub changes: BTreeMap<String, u64>,
}

impl Capacity {
    /// What it may rest on: the configuration or nothing yet; what an earlier run measured; a report; packets sent faster than the link; a queue that grew or stayed; a
    /// rate that was tried; losses that were fewer at a lower rate; force.
    pub const BASES: [&'static str; 8] =
        ["prior", "remembered", "reported", "trains", "queue", "trial", "losses", "fixed"];
    /// What the estimator may be doing: nothing is measured yet; it follows the link; it tries more; it tries less; reports are overdue;
    /// there are none.
    pub const STATES: [&'static str; 6] = ["guess", "track", "trial", "experiment", "quiet", "silent"];

    /// One that is not estimated; `prior` is the rate that is configured, if one is.
    pub fn fixed(rate: Rate, prior: Option<Rate>) -> Self {
        Self {
            rate_bps: rate.as_bps(),
            prior_bps: prior.map(Rate::as_bps),
            basis: "fixed".into(),
            state: "track".into(),
            confidence: 1.0,
            ..Self::default()
        }
    }
}
