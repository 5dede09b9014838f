//! Unix sockets at a path.

use crate::error::{StartError, while_doing};
use crate::privileges::Plan;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Calls `operation` until no signal interrupts it: a stop and its end (SIGSTOP, SIGCONT) interrupt whatever waits with a time limit.
pub(crate) fn uninterrupted<T>(mut operation: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match operation() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

/// A socket file; removed when this is dropped.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Another process has put its own there.
    is_anothers: bool,
}

impl SocketFile {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the file to another process.
    pub(crate) fn disown(&mut self) {
        self.is_anothers = true;
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if !self.is_anothers {
            // It may have been removed by another process.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Listens at `path`, for the owner only, or as `plan` says; `what` says in errors what for. A socket that a killed
/// predecessor has left is replaced; one that a running gateway serves is not.
pub(crate) fn listen(path: &Path, plan: Option<&Plan>, what: &str) -> Result<(UnixListener, SocketFile), StartError> {
    let doing = || format!("{what} {}", path.display());
    if UnixStream::connect(path).is_ok() {
        let error = std::io::Error::new(
            std::io::ErrorKind::AddrInUse,
            "a running gateway uses it: one of this name, or one whose configuration names the same socket",
        );
        return Err(while_doing(doing())(error));
    }
    remove_leftover(path).map_err(while_doing(doing()))?;
    match (plan, path.parent()) {
        (Some(plan), _) => plan.prepare_directory(path),
        (None, Some(directory)) => std::fs::create_dir_all(directory),
        (None, None) => Ok(()),
    }
    .map_err(while_doing(doing()))?;
    let listener = UnixListener::bind(path).map_err(while_doing(doing()))?;
    let file = SocketFile { path: path.to_owned(), is_anothers: false };
    let mode = plan.map_or(Ok(0o600), |plan| plan.give(path)).map_err(while_doing(doing()))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).map_err(while_doing(doing()))?;
    Ok((listener, file))
}

/// Listens at `path` in the place of a gateway that leaves it to this process.
pub(crate) fn replace(path: &Path, plan: Option<&Plan>, what: &str) -> Result<(UnixListener, SocketFile), StartError> {
    let doing = || format!("{what} {}", path.display());
    let beside = path.with_extension("next");
    let (listener, mut file) = listen(&beside, plan, what)?;
    std::fs::rename(&beside, path).map_err(while_doing(doing()))?;
    file.path = path.to_owned();
    Ok((listener, file))
}

/// Removes the socket `path`; whatever else has that name stays, and is an error.
fn remove_leftover(path: &Path) -> std::io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(metadata) if metadata.file_type().is_socket() => std::fs::remove_file(path),
        Ok(_) => Err(std::io::Error::new(std::io::ErrorKind::AlreadyExists, "exists and is not a socket")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_socket_is_taken_for_a_leftover() {
        let directory = std::env::temp_dir().join(format!("bentpipe-unix-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let (file, socket) = (directory.join("file"), directory.join("socket"));
        std::fs::write(&file, "precious").unwrap();
        drop(UnixListener::bind(&socket).unwrap());

        assert!(listen(&file, None, "socket").unwrap_err().to_string().contains("not a socket"));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
        let (listener, guard) = listen(&socket, None, "socket").unwrap();
        assert!(listen(&socket, None, "socket").unwrap_err().to_string().contains("a running gateway uses it"));
        drop((listener, guard));
        assert!(!socket.exists());
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
