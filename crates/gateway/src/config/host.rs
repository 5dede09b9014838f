//! What settings name of the host that they are for.

use super::Settings;
use super::document::suggestion;
use kernel::interfaces::Interfaces;
use std::io;

/// An interface that the settings name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// The key that names it, such as `[link] interface`.
    pub key: &'static str,
    /// Its line in the file.
    pub line: usize,
    /// The interface's name.
    pub name: String,
}

/// Compares the interfaces that `settings` name with those in the network namespace of the calling thread. Returns a line for
/// each that is missing.
///
/// # Errors
/// If the host's interfaces cannot be read.
pub fn missing_interfaces(settings: &Settings) -> io::Result<Vec<String>> {
    let found = Interfaces::new().map_err(io::Error::other)?.all()?;
    let names: Vec<String> = found.into_iter().map(|interface| interface.name).collect();
    let file = settings.file.as_ref().map_or_else(String::new, |file| file.display().to_string());
    let missing = settings.interfaces.iter().filter(|named| !names.contains(&named.name));
    let fault = |named: &Named| {
        let Named { key, line, name } = named;
        let near = suggestion(name, &names);
        format!("{file}:{line}: {key} = {name:?}: this machine has no such interface{near}")
    };
    Ok(missing.map(fault).collect())
}
