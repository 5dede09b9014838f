//! What can go wrong when the settings of a host are read or changed, by who can correct it.

use std::path::PathBuf;

/// Settings that could not be read, made or put back.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No route leads to the target.
    #[error("{0}: no route leads there")]
    NoRoute(String),
    /// The target's route ends at this host.
    #[error("{target}: `{route}` is not a route to another host")]
    DeadEnd {
        /// The destination that was asked for.
        target: String,
        /// The route as `ip` prints it.
        route: String,
    },
    /// Router advertisements renew the route; named as `ip` prints it.
    #[error(
        "`{0}` is set by router advertisements, which would renew neither it nor this host's addresses once it is changed"
    )]
    Advertised(String),
    /// The journal exists, so settings are applied.
    #[error("{} says that settings are applied", .0.display())]
    AlreadyApplied(PathBuf),
    /// There is no journal.
    #[error("{}: no settings are applied", .0.display())]
    NotApplied(PathBuf),
    /// The journal has only changes that an undo has left, since others had changed the settings.
    #[error("{}: nothing of the settings is applied any more; what others had changed was left", .0.display())]
    OnlyLeft(PathBuf),
    /// The journal cannot be used here: damaged, of another format, another boot or another network namespace.
    #[error("{}: {problem}", file.display())]
    Journal {
        /// The journal.
        file: PathBuf,
        /// Why it cannot be used.
        problem: String,
    },
    /// Neither `$XDG_STATE_HOME` nor `$HOME` names a directory for the journal.
    #[error("no directory is known in which to record the present settings")]
    NoStateDirectory,
    /// The journal could not be written or removed.
    #[error("cannot record the present settings in {}: {source}", file.display())]
    Record {
        /// The journal.
        file: PathBuf,
        /// What the system answered.
        source: std::io::Error,
    },
    /// No other process is kept from the journal, as another one keeps it locked or its folder cannot be opened.
    #[error("cannot lock {}: {source}", file.display())]
    Lock {
        /// The journal.
        file: PathBuf,
        /// What the system answered, or that another process has it.
        source: std::io::Error,
    },
    /// A sysctl has a value that its documentation does not allow.
    #[error("{key} is `{value}`, not three numbers")]
    Unreadable {
        /// The sysctl.
        key: &'static str,
        /// Its value.
        value: String,
    },
    /// Linux refused or failed.
    #[error(transparent)]
    Kernel(#[from] kernel::Error),
    /// A change failed, and what has become of the others.
    #[error("{cause}; {consequence}")]
    Incomplete {
        /// Why the change failed.
        cause: kernel::Error,
        /// Which changes remain.
        consequence: String,
    },
}

/// Who can mend an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The caller: an argument or a file is wrong.
    Input,
    /// The machine lacks a privilege, a kernel feature or a program.
    Machine,
    /// Nobody: Linux refused or failed.
    Failure,
}

impl Error {
    /// Who can mend it.
    pub fn blame(&self) -> Blame {
        let of_kernel = |error: &kernel::Error| if error.is_missing() { Blame::Machine } else { Blame::Failure };
        match self {
            Self::Kernel(error) | Self::Incomplete { cause: error, .. } => of_kernel(error),
            Self::Record { source, .. } | Self::Lock { source, .. } => match source.kind() {
                std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => Blame::Machine,
                _ => Blame::Failure,
            },
            Self::Unreadable { .. } => Blame::Failure,
            Self::NoRoute(_)
            | Self::DeadEnd { .. }
            | Self::Advertised(_)
            | Self::AlreadyApplied(_)
            | Self::NotApplied(_)
            | Self::OnlyLeft(_)
            | Self::Journal { .. }
            | Self::NoStateDirectory => Blame::Input,
        }
    }
}
