//! What simulated gateways may lack, so that a run shows its effect.

use satpep::{EstimatorPart, EstimatorParts};

/// What the gateways of a run lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOut {
    /// The estimator: the configured rate is kept by force.
    Estimation,
    /// One part of it.
    Part(EstimatorPart),
}

impl LeftOut {
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
