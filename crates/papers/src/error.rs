//! Why a study was not reproduced.

/// A reproduction that did not come to a report.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for is wrong: a name, a file of printed values, a scenario.
    #[error("{0}")]
    Input(String),
    /// The machine lacks a privilege, a kernel feature or a program; the text names it.
    #[error("{0}")]
    Missing(String),
    /// Something went wrong while it ran.
    #[error("{0}")]
    Failed(String),
    /// The user interrupted.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// The same, which says of what it is.
    #[must_use]
    pub(crate) fn within(self, what: &str) -> Self {
        match self {
            Self::Input(problem) => Self::Input(format!("{what}: {problem}")),
            Self::Missing(problem) => Self::Missing(format!("{what}: {problem}")),
            Self::Failed(problem) => Self::Failed(format!("{what}: {problem}")),
            Self::Interrupted => Self::Interrupted,
        }
    }

    /// Something went wrong.
    pub fn failed(problem: impl std::fmt::Display) -> Self {
        Self::Failed(problem.to_string())
    }
}

impl From<replicas::Error> for Error {
    fn from(error: replicas::Error) -> Self {
        match error {
            replicas::Error::Scenario(problem) => Self::Input(problem),
            replicas::Error::Failed(problem) => Self::Failed(problem),
        }
    }
}

impl From<lab::Error> for Error {
    fn from(error: lab::Error) -> Self {
        match error {
            lab::Error::Missing(problem) => Self::Missing(problem),
            lab::Error::Input(problem) => Self::Input(problem),
            lab::Error::Failed(problem) => Self::Failed(problem),
        }
    }
}

impl From<kernel::Error> for Error {
    fn from(error: kernel::Error) -> Self {
        lab::Error::from(error).into()
    }
}
