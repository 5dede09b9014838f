//! Why runs could not be made.

/// A set of runs that was not made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The simulator refuses the scenario.
    #[error("{0}")]
    Scenario(String),
    /// Results could not be written.
    #[error("{0}")]
    Failed(String),
}

impl Error {
    /// Results could not be written.
    pub fn failed(problem: impl std::fmt::Display) -> Self {
        Self::Failed(problem.to_string())
    }
}
