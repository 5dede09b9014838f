//! `[connection_log]`: a line for each connection that has ended.

use super::format;
use crate::connection_log::Rotation;
use document::Document;
use std::path::PathBuf;

/// `[connection_log]`: where it is written, and how large it may become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionLogSettings {
    /// The file.
    pub file: PathBuf,
    /// When it is renamed, and how many files there are.
    pub rotation: Rotation,
}

/// Reads `[connection_log]`; without `file`, there is no log.
pub(super) fn read(document: &mut Document<'_>) -> Option<Option<ConnectionLogSettings>> {
    let written: format::ConnectionLog = document.section("connection_log")?;
    let Some(file) = written.file.map(|file| PathBuf::from(file.0)) else {
        for key in ["max_size", "max_files"] {
            if document.node(&["connection_log", key]).is_some() {
                document.fault(&["connection_log", key], " has no effect without file");
            }
        }
        return Some(None);
    };
    let usual = Rotation::default();
    let rotation = Rotation {
        max_size: written.max_size.map_or(usual.max_size, |size| size.0),
        max_files: written.max_files.unwrap_or(usual.max_files),
    };
    Some(Some(ConnectionLogSettings { file, rotation }))
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::super::tests::{faults, minimal};
    use super::*;
    use units::Bytes;

    fn settings(log: &str) -> Option<ConnectionLogSettings> {
        parse(&(minimal() + "[connection_log]\n" + log), "x").unwrap().connection_log
    }

    #[test]
    fn there_is_a_log_only_if_it_has_a_file() {
        assert_eq!(settings(""), None);
        let file = "file = \"/var/log/bentpipe/connections.jsonl\"\n";
        let usual = settings(file).unwrap();
        assert_eq!(
            (usual.file.to_str(), usual.rotation),
            (Some("/var/log/bentpipe/connections.jsonl"), Rotation::default())
        );
        let other = settings(&format!("{file}max_size = \"1MiB\"\nmax_files = 2\n")).unwrap();
        assert_eq!(other.rotation, Rotation { max_size: Bytes::new(1 << 20), max_files: 2 });
    }

    #[test]
    fn keys_without_effect_and_values_out_of_range_are_faults() {
        for (log, expected) in [
            ("max_size = \"1MiB\"\n", "connection_log.max_size has no effect without file"),
            ("max_files = 3\n", "connection_log.max_files has no effect without file"),
            ("file = \"/l\"\nmax_files = 0\n", "connection_log.max_files = 0"),
            ("file = \"/l\"\nmax_size = \"1kB\"\n", "connection_log.max_size"),
        ] {
            let found = faults(&(minimal() + "[connection_log]\n" + log));
            assert!(found.iter().any(|fault| fault.contains(expected)), "{expected}: {found:?}");
        }
    }
}
