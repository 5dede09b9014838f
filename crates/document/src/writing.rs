//! Settings as TOML.

use serde::Serialize;

/// `settings` as a TOML document that reads as the same settings.
///
/// # Errors
/// If they have something that TOML cannot say, such as a list in which one item is not set.
pub fn to_toml<T: Serialize>(settings: &T) -> Result<String, toml::ser::Error> {
    toml::to_string(settings)
}
