//! The control socket: whoever connects is sent the gateway's state as one JSON document.

use crate::daemon::{Handle, StartError, while_doing};
use crate::unix::{self, SocketFile};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
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
    file: SocketFile,
    stopped: Arc<AtomicBool>,
}

impl Drop for Control {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        // Wakes the thread. If somebody has removed the file, the thread stays asleep and the process ends without it.
        let _ = UnixStream::connect(self.file.path());
    }
}

/// Serves `handle`'s gateway at `path` on a thread of its own, for the owner only.
pub(crate) fn serve(path: &Path, handle: Handle) -> Result<Control, StartError> {
    let (listener, file) = unix::listen(path, "control socket")?;
    let control = Control { file, stopped: Arc::new(AtomicBool::new(false)) };
    let stopped = Arc::clone(&control.stopped);
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
        .map_err(while_doing(format!("control socket {}", path.display())))?;
    Ok(control)
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
