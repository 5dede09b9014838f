//! Where pins are: the BPF file system.

use crate::Control;
use kernel::Error;
use std::path::{Path, PathBuf};

/// Its place by convention.
const MOUNT_POINT: &str = "/sys/fs/bpf";
/// The same place among the mounts of the first process, for a process whose own mounts end with it.
const LASTING_MOUNT_POINT: &str = "/proc/1/root/sys/fs/bpf";
/// Ours in it.
const FOLDER: &str = "bentpipe";

/// What is pinned of a control.
pub(crate) struct Pins {
    folder: PathBuf,
}

impl Pins {
    pub(crate) fn of(control: &Control) -> Self {
        let mount_point = if kernel::mount::is_private() { LASTING_MOUNT_POINT } else { MOUNT_POINT };
        Self { folder: Path::new(mount_point).join(FOLDER).join(control.name) }
    }

    /// The registration in the kernel's TCP.
    pub(crate) fn link(&self) -> PathBuf {
        self.folder.join("link")
    }

    /// The map of links of the cross-layer control.
    pub(crate) fn links(&self) -> PathBuf {
        self.folder.join("links")
    }

    /// The map in which the cross-layer control counts connections.
    pub(crate) fn accounts(&self) -> PathBuf {
        self.folder.join("accounts")
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
    ///
    /// # Errors
    /// [`Error::Missing`] if it is not mounted and a mount would end with this process.
    pub(crate) fn make_folder(&self) -> Result<(), Error> {
        if kernel::mount::is_private() {
            check_lasting()?;
        } else if !kernel::mount::is_bpf(Path::new(MOUNT_POINT)).map_err(|source| self.failed("looking at", source))? {
            kernel::mount::mount_bpf(MOUNT_POINT)?;
        }
        std::fs::create_dir_all(&self.folder).map_err(|source| self.failed("making", source))
    }

    /// Removes the registration alone.
    pub(crate) fn remove_link(&self) -> Result<(), Error> {
        self.remove_files(&[self.link()])
    }

    /// Removes whatever there is, halves of an earlier attempt included, and the folders that are empty then.
    pub(crate) fn remove(&self) -> Result<(), Error> {
        self.remove_files(&[self.link(), self.links(), self.accounts()])?;
        // The outer folder goes with the last control.
        for folder in [Some(self.folder.as_path()), self.folder.parent()].into_iter().flatten() {
            let _ = std::fs::remove_dir(folder);
        }
        Ok(())
    }

    fn remove_files(&self, pins: &[PathBuf]) -> Result<(), Error> {
        for pin in pins {
            match std::fs::remove_file(pin) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(self.failed("removing", error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn failed(&self, doing: &str, source: std::io::Error) -> Error {
        Error::Failed { doing: format!("{doing} {}", self.folder.display()), source }
    }
}

/// Whether a process with mounts of its own reaches a BPF file system that outlives it.
fn check_lasting() -> Result<(), Error> {
    let problem = match kernel::mount::is_bpf(Path::new(LASTING_MOUNT_POINT)) {
        Ok(true) => return Ok(()),
        Ok(false) => "the machine has none at".to_owned(),
        Err(error) => format!("{error} at"),
    };
    Err(Error::Missing(format!(
        "this process has mounts of its own (as under `ip netns exec`), and what it pins in a BPF file system of its own ends with \
         it: {problem} {MOUNT_POINT} (outside: mount -t bpf bpf {MOUNT_POINT}, or load the control outside, which serves all \
         network namespaces; --run keeps it for as long as a command runs)"
    )))
}
