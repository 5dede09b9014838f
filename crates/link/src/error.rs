//! What is wrong with a configuration.

/// A value that makes no link.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("link: `{key}`: {problem}")]
pub struct ConfigError {
    key: &'static str,
    problem: String,
}

impl ConfigError {
    pub(crate) fn new(key: &'static str, problem: &str) -> Self {
        Self { key, problem: problem.to_owned() }
    }

    /// The key of the configuration that holds the value.
    pub fn key(&self) -> &'static str {
        self.key
    }
}
