//! A file that has its name only when it is whole.

use crate::error::Error;
use std::fs::{File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempPath;

/// A file that is being written. Until [`PartialFile::finish`] it has another name, and goes if it is dropped: half of it would be
/// taken for the whole.
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
        let (file, partial) = tempfile::Builder::new()
            .prefix(".bentpipe-")
            .suffix(".part")
            // As for any new file; the umask takes away from it.
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(directory)
            .map_err(|source| failed(path, source))?
            .into_parts();
        Ok(Self { path: path.to_owned(), partial, output: BufWriter::new(file) })
    }

    /// Completes the file and gives it its name. A file of that name is replaced.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(mut self) -> Result<(), Error> {
        self.output.flush().map_err(|error| failed(&self.path, error))?;
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

fn failed(path: &Path, source: io::Error) -> Error {
    Error::File { file: path.display().to_string(), source }
}
