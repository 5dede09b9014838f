//! Why an experiment did not come to a result.

/// An experiment that could not be set up or did not end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The machine lacks a privilege, a kernel feature or a program; the text names it.
    #[error("{0}")]
    Missing(String),
    /// The experiment makes no sense as it was asked for.
    #[error("{0}")]
    Input(String),
    /// Something went wrong while it ran.
    #[error("{0}")]
    Failed(String),
}

impl Error {
    /// Something went wrong.
    pub fn failed(problem: impl std::fmt::Display) -> Self {
        Self::Failed(problem.to_string())
    }

    /// The same, with `text` before it.
    pub(crate) fn preceded_by(self, text: impl std::fmt::Display) -> Self {
        match self {
            Self::Missing(problem) => Self::Missing(format!("{text}: {problem}")),
            Self::Input(problem) => Self::Input(format!("{text}: {problem}")),
            Self::Failed(problem) => Self::Failed(format!("{text}: {problem}")),
        }
    }
}

impl From<kernel::Error> for Error {
    fn from(error: kernel::Error) -> Self {
        if error.is_missing() { Self::Missing(error.to_string()) } else { Self::failed(error) }
    }
}

impl From<emulator::Error> for Error {
    fn from(error: emulator::Error) -> Self {
        match error {
            emulator::Error::Config { .. } => Self::Input(error.to_string()),
            _ => Self::failed(error),
        }
    }
}

impl From<crate::transfer::TransferError> for Error {
    fn from(error: crate::transfer::TransferError) -> Self {
        match error {
            crate::transfer::TransferError::Buffer { .. } => Self::Missing(error.to_string()),
            _ => Self::failed(error),
        }
    }
}
