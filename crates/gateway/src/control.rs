//! The control socket: whoever connects is sent the gateway's state as one JSON document.

use crate::daemon::{Handle, StartError, while_doing};
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A client that does not read for this long is given up.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long to leave a listener alone that cannot accept, for want of descriptors.
const RESPITE: Duration = Duration::from_millis(100);

/// Serves until it is dropped; then the socket file is removed, too.
#[derive(Debug)]
pub(crate) struct Control {
    path: PathBuf,
    stopped: Arc<AtomicBool>,
}

impl Drop for Control {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        // Wakes the thread. If somebody has removed the file, the thread stays asleep and the process ends without it.
        let _ = UnixStream::connect(&self.path);
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Serves `handle`'s gateway at `path` on a thread of its own, for the owner only. A socket that a killed predecessor
/// has left is replaced; one that a running gateway serves is not.
pub(crate) fn serve(path: &Path, handle: Handle) -> Result<Control, StartError> {
    let doing = || format!("control socket {}", path.display());
    if UnixStream::connect(path).is_ok() {
        let error = std::io::Error::new(std::io::ErrorKind::AddrInUse, "a gateway of this name is running");
        return Err(while_doing(doing())(error));
    }
    remove_leftover(path).map_err(while_doing(doing()))?;
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(while_doing(doing()))?;
    }
    let listener = UnixListener::bind(path).map_err(while_doing(doing()))?;
    let control = Control { path: path.to_owned(), stopped: Arc::new(AtomicBool::new(false)) };
    let stopped = Arc::clone(&control.stopped);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(while_doing(doing()))?;
    std::thread::Builder::new()
        .name("control".into())
        .spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let answered = stream.inspect_err(|_| std::thread::sleep(RESPITE)).and_then(|s| answer(s, &handle));
                if let Err(error) = answered {
                    tracing::debug!(%error, "control socket");
                }
            }
        })
        .map_err(while_doing(doing()))?;
    Ok(control)
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

fn answer(mut stream: UnixStream, handle: &Handle) -> std::io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let Some(snapshot) = handle.snapshot() else { return Ok(()) };
    let mut document = serde_json::to_vec(&snapshot).map_err(std::io::Error::other)?;
    document.push(b'\n');
    stream.write_all(&document)
}

/// Asks the gateway behind the control socket `path` for its state.
///
/// # Errors
/// If no gateway serves it, or its answer cannot be read.
pub fn status(path: &Path) -> std::io::Result<serde_json::Value> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut document = Vec::new();
    stream.read_to_end(&mut document)?;
    serde_json::from_slice(&document).map_err(std::io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_socket_is_taken_for_a_leftover() {
        let directory = std::env::temp_dir().join(format!("bentpipe-control-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let (file, socket) = (directory.join("file"), directory.join("socket"));
        std::fs::write(&file, "precious").unwrap();
        drop(UnixListener::bind(&socket).unwrap());

        assert!(remove_leftover(&file).unwrap_err().to_string().contains("not a socket"));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
        remove_leftover(&socket).unwrap();
        assert!(!socket.exists());
        remove_leftover(&socket).unwrap();
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
