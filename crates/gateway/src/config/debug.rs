//! `[debug]`: files that help to understand a session.

use super::{Choice, format};
use document::Document;
use std::path::PathBuf;
use units::Bytes;

/// `[debug]`: what is written for debugging.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DebugSettings {
    /// The file for the keys of sessions, to decrypt recorded traffic.
    pub key_log: Option<PathBuf>,
    /// Traces of sessions.
    pub qlog: Option<QlogSettings>,
}

/// Where qlog files are written, and how large they may become together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QlogSettings {
    /// The directory.
    pub directory: PathBuf,
    /// The most that one process writes.
    pub max_size: Bytes,
}

/// Reads `[debug]`.
pub(super) fn read(document: &mut Document<'_>, choice: Choice) -> Option<DebugSettings> {
    let written: Option<format::Debugging> = document.section("debug");
    choice.refuse_others(document, &["debug"], &["qlog", "qlog_size"]);
    let written = written?;
    if written.qlog.is_none() && written.qlog_size.is_some() {
        document.fault(&["debug", "qlog_size"], " has no effect without qlog");
    }
    let max_size = written.qlog_size.map_or(Bytes::new(256 << 20), |size| size.0);
    Some(DebugSettings {
        key_log: written.key_log.map(|path| PathBuf::from(path.0)),
        qlog: written.qlog.map(|path| QlogSettings { directory: PathBuf::from(path.0), max_size }),
    })
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::super::tests::{faults, minimal};
    use super::*;

    #[test]
    fn nothing_is_written_unless_a_place_is_named() {
        let read = |debug: &str| parse(&(minimal() + "[debug]\n" + debug), "x").unwrap().debug;
        assert_eq!(read(""), DebugSettings::default());
        let qlog = |debug: &str| read(debug).qlog.unwrap();
        let expected = |size| QlogSettings { directory: "/var/log/bentpipe".into(), max_size: Bytes::new(size) };
        assert_eq!(qlog("qlog = \"/var/log/bentpipe\"\n"), expected(256 << 20));
        assert_eq!(qlog("qlog = \"/var/log/bentpipe\"\nqlog_size = \"1MiB\"\n"), expected(1 << 20));
    }

    #[test]
    fn a_size_without_traces_and_a_transport_without_any_are_faults() {
        let found = faults(&(minimal() + "[debug]\nqlog_size = \"1MiB\"\n"));
        assert!(found[0].contains("debug.qlog_size has no effect without qlog"), "{found:?}");
        let tcp = minimal().replace("[link]", "transport = \"tcp\"\n[link]") + "[debug]\nqlog = \"/tmp\"\n";
        assert!(faults(&tcp)[0].contains("debug.qlog has no effect with transport = \"tcp\""), "{:?}", faults(&tcp));
    }
}
