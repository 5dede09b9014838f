//! What simulated gateways may lack, to show what it brings.

use satpep::{EstimatorPart, EstimatorParts};

/// What they lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Without {
    /// The estimator: the configured rate is kept by force.
    Estimation,
    /// One part of it.
    Part(EstimatorPart),
}

impl Without {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Estimation => "estimation",
            Self::Part(part) => part.name(),
        }
    }

    /// The parts of the estimator that are left without it, if anything is lacking.
    pub(super) fn rest(without: Option<Self>) -> EstimatorParts {
        match without {
            Some(Self::Part(part)) => EstimatorParts::ALL.without(part),
            Some(Self::Estimation) | None => EstimatorParts::ALL,
        }
    }
}
