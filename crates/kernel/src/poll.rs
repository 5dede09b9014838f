//! Waiting for several descriptors with a timeout in nanoseconds.

use crate::timer::timespec;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};
use units::Duration;

/// A descriptor and what to wait for on it; after [`wait`], whether that has come.
#[derive(Debug)]
#[repr(transparent)]
pub struct Interest<'fd> {
    poll: libc::pollfd,
    borrowed: PhantomData<BorrowedFd<'fd>>,
}

impl<'fd> Interest<'fd> {
    /// Waits until `fd` can be read.
    pub fn readable(fd: BorrowedFd<'fd>) -> Self {
        Self::new(fd, libc::POLLIN)
    }

    /// Waits until `fd` can be written.
    pub fn writable(fd: BorrowedFd<'fd>) -> Self {
        Self::new(fd, libc::POLLOUT)
    }

    fn new(fd: BorrowedFd<'fd>, events: libc::c_short) -> Self {
        let poll = libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 };
        Self { poll, borrowed: PhantomData }
    }

    /// Whether the last [`wait`] found it ready, in error, or hung up: in each case an operation on the descriptor
    /// would not block.
    pub fn is_ready(&self) -> bool {
        self.poll.revents != 0
    }
}

/// Waits until one of `interests` is ready, `timeout` has passed (`None`: for ever) or a signal came (`ppoll(2)`).
/// Returns how many are ready. Timeouts are late by the thread's slack ([`crate::timer::set_slack`]).
///
/// # Errors
/// Those of `ppoll(2)`, except for an interruption by a signal, which counts as none being ready.
pub fn wait(interests: &mut [Interest<'_>], timeout: Option<Duration>) -> io::Result<usize> {
    let timeout = timeout.map(timespec);
    let timeout = timeout.as_ref().map_or(std::ptr::null(), |time| time as *const libc::timespec);
    // SAFETY: `Interest` is a transparent pollfd, so the slice is an array of that many pollfds; the timeout is null
    // or points to a timespec that lives until after the call; the signal mask is null, which leaves it as it is.
    let ready = unsafe {
        libc::ppoll(interests.as_mut_ptr().cast(), interests.len() as libc::nfds_t, timeout, std::ptr::null())
    };
    if ready >= 0 {
        return Ok(ready as usize);
    }
    let error = io::Error::last_os_error();
    if error.kind() != io::ErrorKind::Interrupted {
        return Err(error);
    }
    interests.iter_mut().for_each(|interest| interest.poll.revents = 0);
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn tells_which_descriptor_is_ready() {
        let (quiet, _quiet_peer) = UnixStream::pair().expect("pair");
        let (spoken_to, mut peer) = UnixStream::pair().expect("pair");
        peer.write_all(b"x").expect("write");
        let mut interests = [Interest::readable(quiet.as_fd()), Interest::readable(spoken_to.as_fd())];
        assert_eq!(wait(&mut interests, None).expect("poll"), 1);
        assert!(!interests[0].is_ready());
        assert!(interests[1].is_ready());
        let mut write = [Interest::writable(quiet.as_fd())];
        assert_eq!(wait(&mut write, Some(Duration::ZERO)).expect("poll"), 1);
    }

    #[test]
    fn a_timeout_ends_the_wait_with_none_ready() {
        let (quiet, _peer) = UnixStream::pair().expect("pair");
        let mut interests = [Interest::readable(quiet.as_fd())];
        assert_eq!(wait(&mut interests, Some(Duration::from_millis(1))).expect("poll"), 0);
        assert!(!interests[0].is_ready());
    }
}
