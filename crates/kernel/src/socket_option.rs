//! Socket options whose value is an int, and the sizes of buffers.

use socket2::Socket;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Sets `option` of `level`.
pub(crate) fn set_int(socket: &Socket, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the descriptor is open and the option's value is an int that outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Which of a socket's buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffer {
    /// `SO_RCVBUF`.
    Receive,
    /// `SO_SNDBUF`.
    Send,
}

/// Gives `socket` a buffer of `bytes`, beyond the host's limit where the process may (`CAP_NET_ADMIN` on the host). Returns the
/// size that it has then: less where the limit, or the kernel's own of 1 GiB, is less.
///
/// # Errors
/// None is expected.
pub fn set_buffer(socket: &Socket, buffer: Buffer, bytes: usize) -> io::Result<usize> {
    let value = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    let forced = match buffer {
        Buffer::Receive => libc::SO_RCVBUFFORCE,
        Buffer::Send => libc::SO_SNDBUFFORCE,
    };
    let is_forced = set_int(socket, libc::SOL_SOCKET, forced, value).is_ok();
    let doubled = match buffer {
        Buffer::Receive => {
            if !is_forced {
                socket.set_recv_buffer_size(bytes)?;
            }
            socket.recv_buffer_size()?
        }
        Buffer::Send => {
            if !is_forced {
                socket.set_send_buffer_size(bytes)?;
            }
            socket.send_buffer_size()?
        }
    };
    // The kernel doubles it for its own use.
    Ok(doubled.div_ceil(2))
}
