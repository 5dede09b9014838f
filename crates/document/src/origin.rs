//! Where something is written.

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A byte of the file.
    File(usize),
    /// An override such as `link.sat.loss=1e-3`, by its number among the overrides.
    Override(usize),
}
