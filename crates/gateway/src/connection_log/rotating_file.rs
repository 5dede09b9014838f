//! A file that lines are appended to. When it is full it is renamed, and a new one begins.

use crate::log_file;
use crate::privileges::directory_of;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use units::Bytes;

/// The largest [`Rotation::max_files`].
const MOST_FILES: u16 = 1000;

/// How large a log may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    /// The largest size of a file.
    pub max_size: Bytes,
    /// The most files there are: FILE, FILE.1 (the newest of those that are full), FILE.2, ….
    pub max_files: u16,
}

impl Default for Rotation {
    fn default() -> Self {
        Self { max_size: Bytes::new(16 << 20), max_files: 8 }
    }
}

/// A file that is renamed when it is full. A file that another process has renamed is left to that: during an upgrade two gateways
/// write to one log, and logrotate may be in charge.
#[derive(Debug)]
pub(super) struct RotatingFile {
    path: PathBuf,
    rotation: Rotation,
    file: File,
    /// The last line of the file has no end.
    is_torn: bool,
}

impl RotatingFile {
    /// Opens `path` to append to it.
    pub(super) fn open(path: &Path, rotation: Rotation) -> io::Result<Self> {
        let file = open(path)?;
        Ok(Self { path: path.to_owned(), rotation, is_torn: ends_in_a_line(&file)?, file })
    }

    /// Appends whole `lines`.
    ///
    /// # Errors
    /// If not all of it could be written.
    pub(super) fn append(&mut self, lines: &[u8]) -> Result<(), Incomplete> {
        self.make_room(lines.len() as u64)?;
        if self.is_torn {
            self.file.write_all(b"\n")?;
            self.is_torn = false;
        }
        let outcome = write_all(&mut self.file, lines);
        let bytes = outcome.as_ref().map_or_else(|incomplete| incomplete.bytes, |()| lines.len());
        self.is_torn = lines[..bytes].last().is_some_and(|last| *last != b'\n');
        outcome
    }

    fn make_room(&mut self, wanted: u64) -> io::Result<()> {
        let own = self.file.metadata()?;
        let is_there =
            std::fs::metadata(&self.path).is_ok_and(|found| (found.dev(), found.ino()) == (own.dev(), own.ino()));
        if is_there {
            if own.len() == 0 || own.len() + wanted <= self.rotation.max_size.as_u64() {
                return Ok(());
            }
            self.rename()?;
        }
        self.file = open(&self.path)?;
        self.is_torn = ends_in_a_line(&self.file)?;
        Ok(())
    }

    /// How many files have a higher number than the last. A higher `max_files` has left them, or another program, such as logrotate. Nothing
    /// shows which, so they stay.
    pub(super) fn beyond_last(&self) -> usize {
        (self.rotation.max_files.max(1)..=MOST_FILES).filter(|number| self.numbered(*number).exists()).count()
    }

    /// Moves every file to the next name; the oldest is overwritten. A file that is not there has been moved by another process.
    fn rename(&self) -> io::Result<()> {
        let unless_absent = |outcome: io::Result<()>| match outcome {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        let last = self.rotation.max_files.saturating_sub(1);
        if last == 0 {
            return unless_absent(std::fs::remove_file(&self.path));
        }
        for number in (1..last).rev() {
            unless_absent(std::fs::rename(self.numbered(number), self.numbered(number + 1)))?;
        }
        unless_absent(std::fs::rename(&self.path, self.numbered(1)))
    }

    fn numbered(&self, number: u16) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}

/// Not all could be written.
#[derive(Debug)]
pub(super) struct Incomplete {
    /// What was written.
    pub(super) bytes: usize,
    /// Why not more.
    pub(super) error: io::Error,
}

impl From<io::Error> for Incomplete {
    fn from(error: io::Error) -> Self {
        Self { bytes: 0, error }
    }
}

/// [`io::Write::write_all`] that says how far it has come.
fn write_all(file: &mut impl io::Write, lines: &[u8]) -> Result<(), Incomplete> {
    let mut bytes = 0;
    while bytes < lines.len() {
        match file.write(&lines[bytes..]) {
            Ok(0) => return Err(Incomplete { bytes, error: io::ErrorKind::WriteZero.into() }),
            Ok(count) => bytes += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Incomplete { bytes, error }),
        }
    }
    Ok(())
}

/// Whether the last line of `file` has no end: its disk was full, or its writer was killed.
fn ends_in_a_line(file: &File) -> io::Result<bool> {
    let found = file.metadata()?;
    let mut last = [b'\n'];
    if found.is_file() && found.len() > 0 {
        file.read_at(&mut last, found.len() - 1)?;
    }
    Ok(last != *b"\n")
}

/// Checks that `path` can be opened to append to it, or has a directory where it can be made.
pub(super) fn check(path: &Path) -> io::Result<()> {
    match OpenOptions::new().read(true).append(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            std::fs::metadata(directory_of(path).unwrap_or(path)).map(drop)
        }
        opened => opened.map(drop),
    }
}

fn open(path: &Path) -> io::Result<File> {
    log_file::open(OpenOptions::new().read(true).append(true), path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log_file::MODE;
    use std::collections::BTreeMap;
    use std::fs::Permissions;
    use std::os::fd::{AsRawFd as _, OwnedFd};
    use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};

    fn rotation(max_size: u64, max_files: u16) -> Rotation {
        Rotation { max_size: Bytes::new(max_size), max_files }
    }

    /// The files of a directory, by name.
    fn files(directory: &Path) -> BTreeMap<String, String> {
        let entries = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
        let of = |entry: std::fs::DirEntry| {
            (entry.file_name().into_string().unwrap(), std::fs::read_to_string(entry.path()).unwrap())
        };
        entries.map(of).collect()
    }

    fn expect(directory: &Path, expected: &[(&str, &str)]) {
        let expected = expected.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        assert_eq!(files(directory), expected);
    }

    #[test]
    fn a_full_file_is_renamed_and_the_oldest_goes() {
        let directory = tempfile::tempdir().unwrap();
        let mut file = RotatingFile::open(&directory.path().join("log"), rotation(8, 3)).unwrap();
        for line in ["one\n", "two\n", "three\n", "four\n", "five\n"] {
            file.append(line.as_bytes()).unwrap();
        }
        expect(directory.path(), &[("log", "five\n"), ("log.1", "four\n"), ("log.2", "three\n")]);
        let mode = std::fs::metadata(directory.path().join("log")).unwrap().mode();
        assert_eq!(mode & 0o007, 0, "others do not read it");
    }

    #[test]
    fn what_a_disk_took_before_it_was_full_is_known() {
        let mut disk = [0; 7];
        let incomplete = write_all(&mut &mut disk[..], b"one\ntwo\nthree\n").unwrap_err();
        assert_eq!((incomplete.bytes, &disk), (7, b"one\ntwo"));
        assert_eq!(incomplete.error.kind(), io::ErrorKind::WriteZero);
    }

    #[test]
    fn files_beyond_the_last_stay_when_one_is_renamed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        for name in ["log", "log.1", "log.2", "log.3", "log.5", "log.1000", "log.old"] {
            std::fs::write(directory.path().join(name), "before\n").unwrap();
        }
        let mut file = RotatingFile::open(&path, rotation(8, 3)).unwrap();
        file.append(b"one\n").unwrap();
        let all = ["log.1", "log.2", "log.3", "log.5", "log.1000", "log.old"].map(|name| (name, "before\n"));
        expect(directory.path(), &[&[("log", "one\n")][..], &all[..]].concat());
        assert_eq!(file.beyond_last(), 3);
    }

    #[test]
    fn a_single_file_begins_again() {
        let directory = tempfile::tempdir().unwrap();
        let mut file = RotatingFile::open(&directory.path().join("log"), rotation(8, 1)).unwrap();
        for line in ["one\n", "two\n", "three\n"] {
            file.append(line.as_bytes()).unwrap();
        }
        expect(directory.path(), &[("log", "three\n")]);
    }

    #[test]
    fn a_file_goes_on_after_a_restart_and_more_than_fits_is_written_nevertheless() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        std::fs::write(&path, "before\n").unwrap();
        let mut file = RotatingFile::open(&path, rotation(12, 2)).unwrap();
        file.append(b"on\n").unwrap();
        file.append(b"a line that is longer than a file\n").unwrap();
        expect(directory.path(), &[("log", "a line that is longer than a file\n"), ("log.1", "before\non\n")]);
    }

    #[test]
    fn what_another_process_has_renamed_is_left_to_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let [mut one, mut other] = [(); 2].map(|()| RotatingFile::open(&path, rotation(8, 4)).unwrap());
        one.append(b"one\n").unwrap();
        other.append(b"two\n").unwrap();
        one.append(b"three\n").unwrap();
        other.append(b"4\n").unwrap();
        expect(directory.path(), &[("log", "three\n4\n"), ("log.1", "one\ntwo\n")]);
        std::fs::remove_file(&path).unwrap();
        one.append(b"five\n").unwrap();
        expect(directory.path(), &[("log", "five\n"), ("log.1", "one\ntwo\n")]);
    }

    #[test]
    fn a_file_that_another_process_renames_meanwhile_is_left_to_it() {
        for max_files in [1, 3] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("log");
            let file = RotatingFile::open(&path, rotation(8, max_files)).unwrap();
            std::fs::rename(&path, directory.path().join("log.1")).unwrap();
            file.rename().unwrap();
        }
    }

    /// What a pipe holds that nobody reads.
    const FULL: usize = 64 << 10;

    /// A file that takes [`FULL`] bytes, as a disk that fills up, until they are read from the other end.
    fn that_fills_up() -> (RotatingFile, File) {
        let (reader, writer) = std::io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
        // Another description of the same pipe, whose writes fail where they would wait.
        let own = OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(&path).unwrap();
        let reader = OwnedFd::from(reader).into();
        // Through the name, which is that of the descriptor, the pipe is found as long as it is open.
        let path = format!("/proc/self/fd/{}", own.as_raw_fd()).into();
        (RotatingFile { path, rotation: rotation(1 << 30, 2), file: own, is_torn: false }, reader)
    }

    fn read(mut reader: &File, count: usize) -> String {
        let mut text = vec![0; count];
        std::io::Read::read_exact(&mut reader, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn after_a_line_that_was_torn_the_next_one_begins_on_a_line_of_its_own() {
        let (mut file, reader) = that_fills_up();
        let line = "x".repeat(FULL) + "lost\n";
        assert_eq!(file.append(line.as_bytes()).unwrap_err().bytes, FULL);
        assert_eq!(file.append(b"lost, too\n").unwrap_err().bytes, 0);
        assert_eq!(read(&reader, FULL), line[..FULL]);
        file.append(b"next\n").unwrap();
        file.append(b"last\n").unwrap();
        assert_eq!(read(&reader, 11), "\nnext\nlast\n");
    }

    #[test]
    fn where_nothing_or_whole_lines_were_written_no_empty_line_follows() {
        let (mut file, reader) = that_fills_up();
        let line = "x".repeat(FULL - 1) + "\n";
        file.append(line.as_bytes()).unwrap();
        assert_eq!(file.append(b"lost\n").unwrap_err().bytes, 0);
        assert_eq!(read(&reader, FULL), line);
        let lines = line.clone() + "lost\n";
        assert_eq!(file.append(lines.as_bytes()).unwrap_err().bytes, FULL);
        assert_eq!(read(&reader, FULL), line);
        file.append(b"next\n").unwrap();
        assert_eq!(read(&reader, 5), "next\n");
    }

    #[test]
    fn a_new_file_has_its_mode_whatever_the_umask_and_one_that_is_there_keeps_its_own() {
        const FILE: &str = "BENTPIPE_TEST_FILE";
        if let Some(path) = std::env::var_os(FILE) {
            return drop(open(Path::new(&path)).unwrap());
        }
        let directory = tempfile::tempdir().unwrap();
        let mode = |umask: &str, name: &str| {
            // The umask is of a process: this test again, in one of its own.
            let (_, module) = module_path!().split_once("::").unwrap();
            let test =
                format!("{module}::a_new_file_has_its_mode_whatever_the_umask_and_one_that_is_there_keeps_its_own");
            let command = format!("umask {umask}; exec \"$0\" --exact \"$1\"");
            let path = directory.path().join(name);
            let mut shell = std::process::Command::new("sh");
            shell.args(["-c", &command]).arg(std::env::current_exe().unwrap()).arg(test).env(FILE, &path);
            assert!(shell.output().unwrap().status.success());
            std::fs::metadata(path).unwrap().mode() & 0o777
        };
        assert_eq!((mode("077", "one"), mode("000", "other")), (MODE, MODE));
        std::fs::write(directory.path().join("old"), "").unwrap();
        std::fs::set_permissions(directory.path().join("old"), Permissions::from_mode(0o600)).unwrap();
        assert_eq!(mode("022", "old"), 0o600);
    }

    #[test]
    fn after_a_writer_that_was_killed_within_a_line_the_next_one_begins_on_a_line_of_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        std::fs::write(&path, "whole\nhal").unwrap();
        let mut file = RotatingFile::open(&path, rotation(1 << 20, 2)).unwrap();
        file.append(b"next\n").unwrap();
        expect(directory.path(), &[("log", "whole\nhal\nnext\n")]);
    }

    #[test]
    fn a_directory_that_is_away_for_a_while_costs_only_the_lines_of_that_while() {
        let directory = tempfile::tempdir().unwrap();
        let logs = directory.path().join("logs");
        std::fs::create_dir(&logs).unwrap();
        let mut file = RotatingFile::open(&logs.join("log"), rotation(1 << 20, 2)).unwrap();
        file.append(b"before\n").unwrap();
        std::fs::remove_dir_all(&logs).unwrap();
        assert_eq!(file.append(b"meanwhile\n").unwrap_err().error.kind(), io::ErrorKind::NotFound);
        std::fs::create_dir(&logs).unwrap();
        file.append(b"after\n").unwrap();
        expect(&logs, &[("log", "after\n")]);
    }

    #[test]
    fn a_log_whose_full_file_cannot_be_renamed_loses_no_line_that_it_has() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        std::fs::create_dir_all(directory.path().join("log.1/in the way")).unwrap();
        let mut file = RotatingFile::open(&path, rotation(8, 2)).unwrap();
        file.append(b"one two\n").unwrap();
        file.append(b"three\n").unwrap_err();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one two\n");
        std::fs::remove_dir_all(directory.path().join("log.1")).unwrap();
        file.append(b"four\n").unwrap();
        expect(directory.path(), &[("log", "four\n"), ("log.1", "one two\n")]);
    }
}
