//! A file that has its name only when it is whole.

use crate::error::Error;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::TempPath;

/// A file that is being written. Until [`PartialFile::finish`] it has another name, and goes if it is dropped: half of it would be
/// taken for the whole. While it is written it is locked, so that other processes leave it alone.
#[derive(Debug)]
pub struct PartialFile {
    path: PathBuf,
    partial: TempPath,
    output: BufWriter<File>,
}

impl PartialFile {
    /// A file that will be `path`.
    ///
    /// # Errors
    /// If the directory takes no file.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        loop {
            let (file, partial) = tempfile::Builder::new()
                .prefix(".bentpipe-")
                .suffix(".part")
                // As for any new file; the umask takes away from it.
                .permissions(Permissions::from_mode(0o666))
                .tempfile_in(directory)
                .map_err(|source| failed(path, source))?
                .into_parts();
            // Between the two steps another process may have taken it for one that was left behind.
            if lock(&file) && is_at(&file.metadata().map_err(|source| failed(path, source))?, &partial) {
                return Ok(Self { path: path.to_owned(), partial, output: BufWriter::new(file) });
            }
        }
    }

    /// Whether a process is writing the partial file at `path`: what is not being written was left behind by one that was killed.
    pub fn is_being_written(path: &Path) -> bool {
        File::open(path).is_ok_and(|file| !lock(&file))
    }

    /// Completes the file and gives it its name, which it keeps if the power fails. A file of that name is replaced.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(mut self) -> Result<(), Error> {
        let mut complete = || {
            self.output.flush()?;
            // The name may be on the disk before the content.
            self.output.get_ref().sync_all()
        };
        complete().map_err(|error| failed(&self.path, error))?;
        self.partial.persist(&self.path).map_err(|error| failed(&self.path, error.error))
    }
}

impl Write for PartialFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// Locks `file`, or says that another process has. File systems without locks let everybody have them.
fn lock(file: &File) -> bool {
    flock(file, FlockOperation::NonBlockingLockExclusive) != Err(Errno::WOULDBLOCK)
}

/// Whether the file of `metadata` is still the one at `path`.
fn is_at(metadata: &Metadata, path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|now| (now.dev(), now.ino()) == (metadata.dev(), metadata.ino()))
}

fn failed(path: &Path, source: io::Error) -> Error {
    Error::File { file: path.display().to_string(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_file_is_being_written_until_it_has_its_name_or_is_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = PartialFile::create(&folder.path().join("flows.csv")).unwrap();
        let partial = file.partial.to_path_buf();
        file.write_all(b"time_s").unwrap();
        assert!(PartialFile::is_being_written(&partial));
        let behind = folder.path().join(".bentpipe-behind.part");
        fs::write(&behind, "half").unwrap();
        assert!(!PartialFile::is_being_written(&behind));
        file.finish().unwrap();
        assert!(!PartialFile::is_being_written(&partial) && !partial.exists());
    }
}
