//! A directory that stays the same, whatever is mounted over its path later.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A directory opened by its path. After [`crate::namespace::enter_private`] the path may name another one, or none.
#[derive(Debug)]
pub struct OpenDirectory {
    path: PathBuf,
    open: File,
}

impl OpenDirectory {
    /// Makes the directory `path` with its parents, if it is not there, and opens it.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn create(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        Ok(Self { path: path.to_owned(), open: File::open(path)? })
    }

    /// The path by which it was opened: for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path by which this process, and no other, reaches it now (proc(5), `/proc/self/fd`).
    pub fn reachable(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.open.as_raw_fd()))
    }

    /// Whether another directory, or none, is at its path now.
    pub fn is_hidden(&self) -> bool {
        let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        self.open.metadata().map(identity).ok() != fs::metadata(&self.path).map(identity).ok()
    }

    /// Writes the file `name` in it.
    ///
    /// # Errors
    /// If the system refuses, or somebody has removed the directory.
    pub fn write(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) -> io::Result<()> {
        let removed = || io::Error::new(io::ErrorKind::NotFound, "the directory has been removed");
        fs::write(self.reachable().join(name), content).map_err(|error| match error.kind() {
            // The open directory is still there, but takes no files.
            io::ErrorKind::NotFound if self.reachable().exists() => removed(),
            _ => error,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_was_removed_is_named_as_the_cause() {
        let path = std::env::temp_dir().join(format!("bentpipe-removed-{}", std::process::id()));
        let directory = OpenDirectory::create(&path).unwrap();
        directory.write("first", "text").unwrap();
        fs::remove_dir_all(directory.path()).unwrap();
        let error = directory.write("second", "text").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert_eq!(error.to_string(), "the directory has been removed");
    }
}
