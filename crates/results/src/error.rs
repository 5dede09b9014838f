//! Why results could not be written.

use std::io;

/// Writing results failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be written.
    #[error("{file}: {source}")]
    File {
        /// Which.
        file: String,
        /// The system's answer.
        source: io::Error,
    },
    /// Parquet could not be made.
    #[error("{file}: {source}")]
    Parquet {
        /// Which.
        file: String,
        /// Why.
        source: parquet::errors::ParquetError,
    },
    /// A capture could not be made.
    #[error("packet capture: {0}")]
    Capture(String),
    /// A picture could not be drawn.
    #[error("picture: {0}")]
    Picture(String),
}
