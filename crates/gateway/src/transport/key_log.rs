//! The file to which data keys are written, to decrypt recorded traffic (`[debug] key_log`).

use crate::config::Settings;
use crate::error::{StartError, while_doing};
use std::fmt::Display;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Only its owner may read what reads the traffic.
const MODE: u32 = 0o600;

/// A key log, as long as it can be written.
#[derive(Debug)]
pub(super) struct KeyLog(Mutex<Option<File>>);

impl KeyLog {
    /// The key log that the settings ask for.
    pub(super) fn of(settings: &Settings) -> Result<Option<Self>, StartError> {
        let Some(path) = &settings.debug.key_log else { return Ok(None) };
        Ok(Some(Self::open(path).map_err(while_doing(format!("key log {}", path.display())))?))
    }

    /// Opens `path` to append to it, and warns that it is done.
    fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).mode(MODE).open(path)?;
        // It may have been there with another mode.
        file.set_permissions(Permissions::from_mode(MODE))?;
        tracing::warn!(
            file = %path.display(),
            "[debug] key_log: the keys of all sessions are written to a file; anyone who reads it can decrypt recorded traffic"
        );
        Ok(Self(Mutex::new(Some(file))))
    }

    /// Appends a line.
    pub(super) fn write(&self, line: impl Display) {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(file) = &mut *open else { return };
        // In one call, so that the lines of two processes do not mix during an upgrade.
        if let Err(error) = file.write_all(format!("{line}\n").as_bytes()) {
            tracing::warn!(%error, "[debug] key_log: no more keys are written");
            *open = None;
        }
    }
}

/// Secrets of TLS, in the format that Wireshark reads as `tls.keylog_file` (draft-ietf-tls-keylogfile).
impl rustls::KeyLog for KeyLog {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        self.write(format_args!("{label} {} {}", hex(client_random), hex(secret)));
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_its_owners_alone_whatever_it_was_before() {
        let directory = std::env::temp_dir().join(format!("bentpipe-key-log-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("keys");
        std::fs::write(&path, "before\n").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        KeyLog::open(&path).unwrap().write("after");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_dir_all(&directory).unwrap();
        assert_eq!((mode & 0o777, text.as_str()), (MODE, "before\nafter\n"));
    }
}
