//! Why a section makes no link or carrier.

use link::ConfigError;

/// What is wrong with a section.
pub(crate) struct Problem {
    /// The key that is wrong, if it is one.
    pub(crate) key: Option<&'static str>,
    /// What is wrong.
    pub(crate) text: String,
}

impl Problem {
    /// What the crate `link` finds wrong.
    pub(crate) fn of(error: &ConfigError) -> Self {
        let text = error.to_string();
        Self { key: Some(error.key()), text: text.strip_prefix("link: ").unwrap_or(&text).to_owned() }
    }
}
