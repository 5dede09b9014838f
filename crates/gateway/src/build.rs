//! The program that the gateway is part of.

/// What program the gateway runs in. The library does not know the commit that it is built from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Build {
    /// Its version.
    pub version: &'static str,
    /// The commit that it is built from.
    pub commit: &'static str,
    /// Its features, separated by commas.
    pub features: &'static str,
}

impl Default for Build {
    fn default() -> Self {
        Self { version: env!("CARGO_PKG_VERSION"), commit: "unknown", features: "" }
    }
}
