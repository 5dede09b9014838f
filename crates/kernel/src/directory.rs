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
    /// If the system refuses.
    pub fn write(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) -> io::Result<()> {
        fs::write(self.reachable().join(name), content)
    }
}
