//! Pipes through which `splice(2)` moves bytes from one socket to another without copying them.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// A pipe. What is in it has left its source and not yet reached its destination.
#[derive(Debug)]
pub struct Pipe {
    read: OwnedFd,
    write: File,
    filled: usize,
    capacity: usize,
}

impl Pipe {
    /// A pipe that holds `capacity` bytes, or as many as the host lets it (`fs.pipe-max-size`).
    ///
    /// # Errors
    /// If the process is out of descriptors.
    pub fn new(capacity: usize) -> io::Result<Self> {
        let mut ends = [0; 2];
        // SAFETY: `ends` has room for the two descriptors that the call writes.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_NONBLOCK | libc::O_CLOEXEC) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made both descriptors, and nobody else owns them.
        let [read, write] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
        let write = File::from(write);
        let wanted = libc::c_int::try_from(capacity).unwrap_or(libc::c_int::MAX);
        // SAFETY: the descriptor is open; a refusal leaves the pipe at its default size.
        unsafe { libc::fcntl(write.as_raw_fd(), libc::F_SETPIPE_SZ, wanted) };
        // SAFETY: the descriptor is open.
        let capacity = unsafe { libc::fcntl(write.as_raw_fd(), libc::F_GETPIPE_SZ) };
        let capacity = usize::try_from(capacity).map_err(|_| io::Error::last_os_error())?;
        Ok(Self { read, write, filled: 0, capacity })
    }

    /// Bytes in the pipe.
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// Moves what `source` offers into the pipe, which must be empty; returns how many bytes, 0 at the source's end.
    ///
    /// # Errors
    /// Those of the source; of kind `WouldBlock` if it has nothing now.
    pub fn fill(&mut self, source: &impl AsFd) -> io::Result<usize> {
        debug_assert_eq!(self.filled, 0, "a full pipe and an empty source give the same error");
        let count = splice(source.as_fd(), self.write.as_fd(), self.capacity)?;
        self.filled += count;
        Ok(count)
    }

    /// Puts `bytes`, which were read from the source otherwise, into the pipe behind what it holds; returns how many.
    ///
    /// # Errors
    /// None is expected while they fit.
    pub fn push(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.write.write(bytes)?;
        self.filled += count;
        Ok(count)
    }

    /// Moves what is in the pipe to `destination`; returns how many bytes it has taken.
    ///
    /// # Errors
    /// Those of the destination; of kind `WouldBlock` if it takes nothing now.
    pub fn drain(&mut self, destination: &impl AsFd) -> io::Result<usize> {
        if self.filled == 0 {
            return Ok(0);
        }
        let count = splice(self.read.as_fd(), destination.as_fd(), self.filled)?;
        self.filled -= count;
        Ok(count)
    }
}

/// Moves up to `length` bytes without blocking. There is no `SPLICE_F_MORE`: with it a socket would hold back a small
/// write until more comes.
fn splice(from: BorrowedFd<'_>, to: BorrowedFd<'_>, length: usize) -> io::Result<usize> {
    // SAFETY: both descriptors are open, and no offsets are given.
    let count = unsafe {
        libc::splice(
            from.as_raw_fd(),
            std::ptr::null_mut(),
            to.as_raw_fd(),
            std::ptr::null_mut(),
            length,
            libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK,
        )
    };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;

    #[test]
    fn bytes_pass_in_order_and_the_end_is_reported() {
        let (mut from, source) = UnixStream::pair().expect("pair");
        let (destination, mut to) = UnixStream::pair().expect("pair");
        source.set_nonblocking(true).expect("nonblocking");
        let mut pipe = Pipe::new(1 << 16).expect("pipe");
        assert_eq!(pipe.fill(&source).map_err(|error| error.kind()), Err(io::ErrorKind::WouldBlock));
        from.write_all(b"through").expect("write");
        assert_eq!(pipe.fill(&source).expect("fill"), 7);
        assert_eq!((pipe.filled(), pipe.drain(&destination).expect("drain"), pipe.filled()), (7, 7, 0));
        let mut word = [0; 7];
        to.read_exact(&mut word).expect("read");
        assert_eq!(&word, b"through");
        // Closing does not do: a process that another test has just forked may still hold the socket, too.
        from.shutdown(Shutdown::Write).expect("shutdown");
        assert_eq!(pipe.fill(&source).expect("the end"), 0);
    }
}
