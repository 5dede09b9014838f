//! The file to which data keys are written, to decrypt recorded traffic (`[debug] key_log`).

use satpep::Endpoint;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// Only its owner may read what reads the traffic.
const MODE: u32 = 0o600;

/// A key log, as long as it can be written.
#[derive(Debug)]
pub(super) struct KeyLog(Option<File>);

impl KeyLog {
    /// Opens `path` to append to it, and warns that it is done.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).mode(MODE).open(path)?;
        // It may have been there with another mode.
        file.set_permissions(Permissions::from_mode(MODE))?;
        tracing::warn!(
            file = %path.display(),
            "[debug] key_log: the keys of all sessions are written to a file; anyone who reads it can decrypt recorded traffic"
        );
        Ok(Self(Some(file)))
    }

    /// Writes the keys that the endpoint has made since the last time.
    pub(super) fn write(&mut self, endpoint: &mut Endpoint) {
        while let Some(key) = endpoint.poll_key() {
            let Some(file) = &mut self.0 else { continue };
            if let Err(error) = writeln!(file, "{key}") {
                tracing::warn!(%error, "[debug] key_log: no more keys are written");
                self.0 = None;
            }
        }
    }
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
        drop(KeyLog::open(&path).unwrap());
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_dir_all(&directory).unwrap();
        assert_eq!((mode & 0o777, text.as_str()), (MODE, "before\n"));
    }
}
