//! Socket options whose value is an int.

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
