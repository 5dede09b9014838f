//! Unix sockets at a path.

use crate::error::{StartError, while_doing};
use crate::privileges::Plan;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::{OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Calls `operation` until no signal interrupts it: a stop and its end (SIGSTOP, SIGCONT) interrupt whatever waits with a time limit.
pub(crate) fn uninterrupted<T>(mut operation: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match operation() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

/// The time until `deadline`.
pub(crate) fn left_until(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// What is written at a time: within one call, the kernel may wait for room again and again.
pub(crate) const CHUNK: usize = 16 << 10;

/// Writes `bytes`, unless the reader takes longer than until `deadline`.
pub(crate) fn write_until(deadline: Instant, stream: &mut UnixStream, bytes: &[u8]) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        stream.set_write_timeout(Some(left_until(deadline)?))?;
        let next = &rest[..rest.len().min(CHUNK)];
        match uninterrupted(|| stream.write(next))? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => rest = &rest[count..],
        }
    }
    Ok(())
}

/// Reads what is there, unless nothing comes until `deadline`.
pub(crate) fn read_until(deadline: Instant, stream: &mut UnixStream, buffer: &mut [u8]) -> io::Result<usize> {
    stream.set_read_timeout(Some(left_until(deadline)?))?;
    uninterrupted(|| stream.read(buffer))
}

/// Whether the other end of `stream` reads no more. One that has ended only what it sends still does.
pub(crate) fn is_hung_up(stream: &UnixStream) -> io::Result<bool> {
    let mut polled = [PollFd::new(stream, PollFlags::empty())];
    uninterrupted(|| Ok(poll(&mut polled, Some(&Timespec::default()))?))?;
    Ok(polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR))
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
    give(path, plan).map_err(while_doing(doing()))?;
    Ok((listener, file))
}

/// Gives the socket file `path` to who is to use it.
fn give(path: &Path, plan: Option<&Plan>) -> io::Result<()> {
    // Who owns the directory may have put a link to somebody else's file there meanwhile.
    let entry = OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW).open(path)?;
    if !entry.metadata()?.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it is no longer the socket that was made there"));
    }
    let entry = format!("/proc/self/fd/{}", entry.as_raw_fd());
    let mode = plan.map_or(Ok(0o600), |plan| plan.give(Path::new(&entry)))?;
    std::fs::set_permissions(entry, Permissions::from_mode(mode))
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
    fn a_link_in_the_place_of_the_socket_leads_nowhere() {
        let directory = tempfile::tempdir().unwrap();
        let [other, link, socket] = ["other", "link", "socket"].map(|name| directory.path().join(name));
        std::fs::write(&other, "another's").unwrap();
        std::fs::set_permissions(&other, Permissions::from_mode(0o644)).unwrap();
        std::os::unix::fs::symlink(&other, &link).unwrap();
        assert!(give(&link, None).unwrap_err().to_string().contains("no longer the socket"));
        let _listener = UnixListener::bind(&socket).unwrap();
        give(&socket, None).unwrap();
        let modes = [other, socket].map(|path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777);
        assert_eq!(modes, [0o644, 0o600]);
    }

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
