//! Several sockets at one UDP port (`SO_REUSEPORT`), and a program that says whose a datagram is
//! (`SO_ATTACH_REUSEPORT_CBPF`, socket(7)).

use crate::socket_option::set_int;
use socket2::Socket;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Whether other sockets of the same user may be bound beside `socket`, where they ask for it, too. A socket must have been
/// bound with this set to be shared later; it may be cleared meanwhile, and then keeps others away.
///
/// # Errors
/// None is expected.
pub fn set_shared(socket: &Socket, is_shared: bool) -> io::Result<()> {
    set_int(socket, libc::SOL_SOCKET, libc::SO_REUSEPORT, is_shared.into())
}

/// One instruction of a classic BPF program: code, jumps if true and if false, and its constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction(pub u16, pub u8, pub u8, pub u32);

/// Has `program` choose among the sockets that share the port of `socket`, which is bound: it sees the UDP payload and returns
/// the number of a socket in the order in which they were bound. Where there is none of that number, a hash chooses.
///
/// # Errors
/// If the socket is not bound, was bound alone, or the program makes no sense to the kernel.
pub fn attach_selector(socket: &Socket, program: &[Instruction]) -> io::Result<()> {
    let mut filter: Vec<libc::sock_filter> =
        program.iter().map(|&Instruction(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k }).collect();
    let length = filter.len().try_into().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let program = libc::sock_fprog { len: length, filter: filter.as_mut_ptr() };
    // SAFETY: the descriptor is open; `program` and the instructions that it points to outlive the call, which copies them.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
