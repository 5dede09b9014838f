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

    /// The failures of several items as one error, of their kind if they are all of one; [`Error::Failed`] otherwise.
    #[must_use]
    pub fn of_items(failures: &[Self]) -> Self {
        let texts: Vec<_> = failures.iter().map(ToString::to_string).collect();
        let failed = if texts.len() == 1 { "an item".to_owned() } else { format!("{} items", texts.len()) };
        let text = format!("{failed} failed:\n{}", texts.join("\n"));
        if failures.iter().all(|error| matches!(error, Self::Missing(_))) {
            Self::Missing(text)
        } else if failures.iter().all(|error| matches!(error, Self::Input(_))) {
            Self::Input(text)
        } else {
            Self::Failed(text)
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
