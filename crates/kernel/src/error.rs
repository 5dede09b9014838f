//! What can go wrong when Linux is asked for something, told apart by who can mend it.

/// A request to Linux that was not granted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The machine lacks a privilege, a kernel feature or a program; the text names it.
    #[error("{0}")]
    Missing(String),
    /// Linux refused or failed.
    #[error("{doing}: {source}")]
    Failed {
        /// What was being done.
        doing: String,
        /// What the system answered.
        source: std::io::Error,
    },
}

impl Error {
    /// Whether the machine lacks something, rather than that something went wrong.
    pub fn is_missing(&self) -> bool {
        matches!(self, Error::Missing(_))
    }

    /// The last system call failed while `doing` something.
    pub(crate) fn last(doing: impl Into<String>) -> Self {
        Self::Failed { doing: doing.into(), source: std::io::Error::last_os_error() }
    }

    /// For `map_err`: a failure while `doing` something.
    pub(crate) fn while_doing(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Failed { doing: doing.into(), source }
    }
}
