//! The file to which data keys are written, to decrypt recorded traffic (`[debug] key_log`).

use crate::config::Settings;
use crate::error::{StartError, while_doing};
use crate::privileges::Plan;
use std::fmt::Display;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
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
        let plan = Plan::new(settings)?;
        Ok(Some(Self::open(path, &plan).map_err(while_doing(format!("key log {}", path.display())))?))
    }

    /// Opens `path` to append to it, gives it to the gateway's user, as whom the next start may open it, and warns that it is done.
    fn open(path: &Path, plan: &Plan) -> io::Result<Self> {
        // Who owns the directory may not be who starts the gateway: a link or a pipe there is not written to.
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let file = OpenOptions::new().append(true).create(true).mode(MODE).custom_flags(flags).open(path)?;
        let found = file.metadata()?;
        if !found.is_file() || found.nlink() != 1 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file, or has other names"));
        }
        // It may have been there with another mode.
        file.set_permissions(Permissions::from_mode(MODE))?;
        plan.give_file(&file)?;
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
    use crate::config::parse;
    use crate::config::tests::minimal;
    use kernel::privileges::Account;

    /// As a gateway does that stays who it is.
    fn open(path: &Path) -> io::Result<KeyLog> {
        KeyLog::open(path, &Plan::new(&parse(&minimal(), "x").unwrap()).unwrap().as_oneself())
    }

    #[test]
    fn the_file_is_its_owners_alone_whatever_it_was_before() {
        let directory = std::env::temp_dir().join(format!("bentpipe-key-log-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("keys");
        std::fs::write(&path, "before\n").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        open(&path).unwrap().write("after");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_dir_all(&directory).unwrap();
        assert_eq!((mode & 0o777, text.as_str()), (MODE, "before\nafter\n"));
    }

    #[test]
    fn a_link_or_a_pipe_in_its_place_is_not_written_to() {
        let directory = tempfile::tempdir().unwrap();
        let [other, link, pipe] = ["other", "link", "pipe"].map(|name| directory.path().join(name));
        std::fs::write(&other, "another's\n").unwrap();
        std::fs::set_permissions(&other, Permissions::from_mode(0o644)).unwrap();
        std::os::unix::fs::symlink(&other, &link).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        assert!(open(&link).is_err() && open(&pipe).is_err());
        let second = directory.path().join("second");
        std::fs::hard_link(&other, &second).unwrap();
        assert!(open(&second).is_err(), "another name of a file");
        let mode = std::fs::metadata(&other).unwrap().permissions().mode();
        assert_eq!((mode & 0o777, std::fs::read_to_string(&other).unwrap().as_str()), (0o644, "another's\n"));
    }

    #[test]
    fn a_new_file_is_its_owners_alone_and_has_lines_as_wireshark_reads_them() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keys");
        let log = open(&path).unwrap();
        rustls::KeyLog::log(&log, "CLIENT_TRAFFIC_SECRET_0", &[0x00, 0x0f, 0xff], &[0xa0]);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "CLIENT_TRAFFIC_SECRET_0 000fff a0\n");
    }

    /// Started by root, and then under systemd as that user.
    #[test]
    fn the_file_belongs_to_the_gateways_user() {
        let Some(nobody) = Account::find("nobody").unwrap().filter(|_| kernel::process::is_root()) else { return };
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keys");
        let text = minimal().replace("[gateway]\n", "[gateway]\nuser = \"nobody\"\n");
        let settings = parse(&(text + &format!("[debug]\nkey_log = \"{}\"\n", path.display())), "x").unwrap();
        // In a user namespace the host's users may be nobody's.
        if KeyLog::of(&settings).is_ok() {
            assert_eq!(std::fs::metadata(&path).unwrap().uid(), nobody.uid);
        }
    }

    /// `/dev/full` (full(4)) fails each write as a full disk does.
    #[test]
    fn a_full_disk_ends_the_key_log_and_nothing_else() {
        let log = KeyLog(Mutex::new(Some(OpenOptions::new().append(true).open("/dev/full").unwrap())));
        log.write("one");
        assert!(log.0.lock().unwrap().is_none(), "a log with gaps decrypts nothing");
        log.write("two");
    }

    #[test]
    fn there_is_no_key_log_unless_it_is_asked_for_and_one_that_cannot_be_had_is_named() {
        let settings = |debug: &str| parse(&(minimal() + debug), "x").unwrap();
        assert!(KeyLog::of(&settings("")).unwrap().is_none());
        let error = KeyLog::of(&settings("[debug]\nkey_log = \"/nonexistent/keys\"\n")).unwrap_err().to_string();
        assert!(error.starts_with("key log /nonexistent/keys: "), "{error}");
    }
}
