//! Where pins are: the BPF file system.

use crate::Control;
use kernel::Error;
use std::path::{Path, PathBuf};

/// Its place by convention.
const MOUNT_POINT: &str = "/sys/fs/bpf";
/// Ours in it.
const FOLDER: &str = "bentpipe";

/// What is pinned of a control.
pub(crate) struct Pins {
    folder: PathBuf,
}

impl Pins {
    pub(crate) fn of(control: &Control) -> Self {
        Self { folder: Path::new(MOUNT_POINT).join(FOLDER).join(control.name) }
    }

    /// The registration in the kernel's TCP.
    pub(crate) fn link(&self) -> PathBuf {
        self.folder.join("link")
    }

    /// The map of links of the cross-layer control.
    pub(crate) fn links(&self) -> PathBuf {
        self.folder.join("links")
    }

    /// Whether they are there.
    ///
    /// # Errors
    /// If the process may not look.
    pub(crate) fn exist(&self) -> Result<bool, Error> {
        self.link().try_exists().map_err(|error| {
            let place = self.folder.display();
            Error::Missing(format!("{place} cannot be looked at (root of this machine can): {error}"))
        })
    }

    /// Makes the folder, and mounts the file system if nobody has.
    pub(crate) fn make_folder(&self) -> Result<(), Error> {
        if !is_mounted()? {
            kernel::mount::mount_bpf(MOUNT_POINT)?;
        }
        std::fs::create_dir_all(&self.folder).map_err(|source| self.failed("making", source))
    }

    /// Removes whatever there is, halves of an earlier attempt included, and the folders that are empty then.
    pub(crate) fn remove(&self) -> Result<(), Error> {
        for pin in [self.link(), self.links()] {
            match std::fs::remove_file(&pin) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(self.failed("removing", error));
                }
                _ => {}
            }
        }
        // The outer folder goes with the last control.
        for folder in [Some(self.folder.as_path()), self.folder.parent()].into_iter().flatten() {
            let _ = std::fs::remove_dir(folder);
        }
        Ok(())
    }

    fn failed(&self, doing: &str, source: std::io::Error) -> Error {
        Error::Failed { doing: format!("{doing} {}", self.folder.display()), source }
    }
}

fn is_mounted() -> Result<bool, Error> {
    let path = "/proc/self/mounts";
    let mounts =
        std::fs::read_to_string(path).map_err(|source| Error::Failed { doing: format!("reading {path}"), source })?;
    Ok(mounts.lines().any(|line| {
        let mut words = line.split_whitespace().skip(1);
        words.next() == Some(MOUNT_POINT) && words.next() == Some("bpf")
    }))
}
