//! What a model says, and why it may not be believed.

use std::fmt::Display;
use units::{Duration, Rate};

/// A model's result.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct Estimate<T> {
    /// The result.
    pub value: T,
    /// Why the model does not hold here; `None` where it does.
    pub doubt: Option<String>,
}

impl<T> Estimate<T> {
    /// A result within the model's range.
    pub fn sound(value: T) -> Self {
        Self { value, doubt: None }
    }

    /// A result that holds if `reason` does not apply.
    pub fn unless(value: T, applies: bool, reason: impl FnOnce() -> String) -> Self {
        Self { value, doubt: applies.then(reason) }
    }

    /// Whether the model holds here.
    pub fn is_valid(&self) -> bool {
        self.doubt.is_none()
    }

    /// Another value under the same doubt.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Estimate<U> {
        Estimate { value: change(self.value), doubt: self.doubt }
    }
}

/// A parameter with which a model means nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{parameter} = {value}: allowed {allowed}")]
pub struct Invalid {
    /// Which.
    pub parameter: &'static str,
    /// What it was.
    pub value: String,
    /// What it may be.
    pub allowed: &'static str,
}

impl Invalid {
    /// Refuses `value` unless it `holds`.
    pub(crate) fn unless(
        holds: bool,
        parameter: &'static str,
        value: impl Display,
        allowed: &'static str,
    ) -> Result<(), Self> {
        if holds { Ok(()) } else { Err(Self { parameter, value: value.to_string(), allowed }) }
    }
}

/// A rate above zero.
pub(crate) fn require_rate(rate: Rate) -> Result<(), Invalid> {
    Invalid::unless(rate > Rate::ZERO, "rate", rate, "above 0bit/s")
}

/// A round-trip time above zero.
pub(crate) fn require_rtt(rtt: Duration) -> Result<(), Invalid> {
    Invalid::unless(rtt > Duration::ZERO, "rtt", rtt, "above 0s")
}

/// Bits per second as a rate, rounded.
pub(crate) fn rate_of(bps: f64) -> Rate {
    Rate::from_bps(bps.round() as u64)
}
