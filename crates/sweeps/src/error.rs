//! Why a sweep cannot go on.

use std::io;
use std::path::PathBuf;

/// What a sweep cannot do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An axis of a grid is none.
    #[error("{0}")]
    Axis(String),
    /// A file or folder cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Results cannot be read or written.
    #[error(transparent)]
    Results(#[from] results::Error),
    /// A shard was cut off or changed: which, and how that shows.
    #[error("{0}: the shard is damaged; delete it, and its runs are made again")]
    DamagedShard(String),
    /// A file is no shard.
    #[error("{}: it is no shard of a sweep; move it elsewhere", .0.display())]
    NoShard(PathBuf),
}
