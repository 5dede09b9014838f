//! Why a gateway could not be set up.

use std::io;

/// A gateway that could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The machine lacks a privilege, a kernel feature or a program; or it refused.
    #[error(transparent)]
    Kernel(#[from] kernel::Error),
    /// A socket or file could not be had.
    #[error("{doing}: {source}")]
    Io {
        /// What for.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
    /// A gateway with this control socket runs already.
    #[error(
        "gateway {name} runs already (pid {pid}{drain}): `bentpipe gateway reload` applies a changed file, --take-over replaces it, SIGTERM \
         ends it"
    )]
    Runs {
        /// Its name.
        name: String,
        /// Its process.
        pid: u64,
        /// How far its drain is, behind a comma; empty if it does not drain.
        drain: String,
    },
    /// A running gateway of another name has this one's nftables table.
    #[error(
        "gateway {name} (pid {pid}) has the nftables table {table} already: the names of gateways on one host must differ in more than - and _"
    )]
    TableTaken {
        /// The table, in the family `inet`.
        table: String,
        /// The name of the running gateway.
        name: String,
        /// Its process.
        pid: u64,
    },
    /// A running gateway of another name in this network namespace has the private key of this one.
    #[error(
        "gateway {name} (pid {pid}) has the private key of this one already: each gateway needs a key of its own, as peers know it by that"
    )]
    KeyTaken {
        /// The name of the running gateway.
        name: String,
        /// Its process.
        pid: u32,
    },
    /// A running gateway of another name in this network namespace has settings of interception that each needs for itself.
    #[error(
        "gateway {name} (pid {pid}) has the same [intercept] {settings} already: gateways on one host need a table and a rule_priority of their \
         own, and marks at least 16 apart"
    )]
    RoutingTaken {
        /// The settings in common.
        settings: String,
        /// The name of the running gateway.
        name: String,
        /// Its process.
        pid: u32,
    },
    /// There is no running gateway to take over from, or it hands nothing over.
    #[error("--take-over: {0}")]
    TakeOver(String),
    /// A peer's settings make no sense.
    #[error("peer {name}: {source}")]
    Peer {
        /// Its name.
        name: String,
        /// The reason.
        source: satpep::ConfigError,
    },
}

impl StartError {
    /// Whether the machine lacks something, rather than that something went wrong.
    pub fn is_missing(&self) -> bool {
        match self {
            StartError::Kernel(error) => error.is_missing(),
            StartError::Io { source, .. } => source.kind() == io::ErrorKind::PermissionDenied,
            StartError::Peer { .. }
            | StartError::TakeOver(_)
            | StartError::Runs { .. }
            | StartError::TableTaken { .. }
            | StartError::KeyTaken { .. }
            | StartError::RoutingTaken { .. } => false,
        }
    }
}

pub(crate) fn while_doing(doing: impl Into<String>) -> impl FnOnce(io::Error) -> StartError {
    move |source| StartError::Io { doing: doing.into(), source }
}
