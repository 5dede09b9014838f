//! The files that a document names.

/// Gives the content of a file that a scenario names.
pub type Reader<'a> = &'a dyn Fn(&str) -> Result<String, String>;
