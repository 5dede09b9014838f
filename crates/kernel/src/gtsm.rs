//! Sockets on one interface that talk to neighbours only: what they send has the TTL (or hop limit) 255, and what has come
//! through a router, and so has less, is not taken (RFC 5082).
//!
//! Some programs raise the TTL of a connection only once it is made. So the handshake may have another, but no byte of data
//! ever; and once [`enforce`] is called, nothing may.

use crate::packet::interface_index;
use crate::socket_option::set_int;
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, SockAddr, SockRef, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};

/// As it is sent, and as it must arrive.
const TTL: u32 = 255;
const BACKLOG: i32 = 16;

/// A non-blocking TCP socket that is not connected yet. The kernel drops data that a neighbour has not sent.
///
/// # Errors
/// If there is no such interface, or the process lacks `CAP_NET_RAW` for it.
pub fn stream(is_ipv6: bool, interface: &str) -> io::Result<Socket> {
    let socket = socket(is_ipv6, Type::STREAM, Protocol::TCP, interface)?;
    refuse_distant_data(&socket, is_ipv6)?;
    Ok(socket)
}

/// From now on the kernel drops every segment of the connection `socket` that a neighbour has not sent.
///
/// # Errors
/// If it is no TCP socket.
pub fn enforce(socket: &impl AsFd) -> io::Result<()> {
    let socket = SockRef::from(socket);
    let is_ipv6 = socket.domain()? == Domain::IPV6;
    let (level, option) =
        if is_ipv6 { (libc::IPPROTO_IPV6, libc::IPV6_MINHOPCOUNT) } else { (libc::IPPROTO_IP, libc::IP_MINTTL) };
    set_int(&socket, level, option, TTL as libc::c_int)
}

/// Has the kernel drop segments with data and another TTL; sockets that are accepted from this one inherit that.
fn refuse_distant_data(socket: &Socket, is_ipv6: bool) -> io::Result<()> {
    /// A classic BPF instruction: a filter sees the segment from its TCP header on.
    const fn op(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
        libc::sock_filter { code: code as u16, jt, jf, k }
    }
    const LOAD_BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
    let ttl_at = libc::SKF_NET_OFF.cast_unsigned() + if is_ipv6 { 7 } else { 8 };
    let mut program = [
        op(LOAD_BYTE, 0, 0, ttl_at),
        op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 6, 0, TTL),
        // The header's length in 32-bit words is the upper half of byte 12.
        op(LOAD_BYTE, 0, 0, 12),
        op(libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K, 0, 0, 2),
        op(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, 0x3c),
        op(libc::BPF_MISC | libc::BPF_TAX, 0, 0, 0),
        op(libc::BPF_LD | libc::BPF_W | libc::BPF_LEN, 0, 0, 0),
        op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_X, 0, 1, 0),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
    ];
    let filter = libc::sock_fprog { len: program.len() as libc::c_ushort, filter: program.as_mut_ptr() };
    // SAFETY: the descriptor is open; filter and program are valid and outlive the call, which copies them.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const filter).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A non-blocking listener at `port` of all addresses of the interface; call [`enforce`] for what it accepts.
///
/// # Errors
/// As [`stream`], and if the port is in use.
pub fn listen(is_ipv6: bool, port: u16, interface: &str) -> io::Result<Socket> {
    let socket = stream(is_ipv6, interface)?;
    socket.set_reuse_address(true)?;
    socket.bind(&any(is_ipv6, port))?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// A non-blocking UDP socket at `port` (0: any) of all addresses of the interface; with those that are sent to `group`.
///
/// # Errors
/// As [`stream`], and if the port is in use or the interface has no multicast.
pub fn datagrams(is_ipv6: bool, port: u16, interface: &str, group: Option<IpAddr>) -> io::Result<Socket> {
    let socket = socket(is_ipv6, Type::DGRAM, Protocol::UDP, interface)?;
    let index = index(interface)?;
    if is_ipv6 {
        set_int(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, 1)?;
        socket.set_multicast_hops_v6(TTL)?;
        socket.set_multicast_if_v6(index)?;
    } else {
        set_int(&socket, libc::IPPROTO_IP, libc::IP_RECVTTL, 1)?;
        socket.set_multicast_ttl_v4(TTL)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&any(is_ipv6, port))?;
    match group {
        Some(IpAddr::V4(group)) => socket.join_multicast_v4_n(&group, &InterfaceIndexOrAddress::Index(index))?,
        Some(IpAddr::V6(group)) => socket.join_multicast_v6(&group, index)?,
        None => {}
    }
    Ok(socket)
}

/// Receives a datagram from a socket that [`datagrams`] has made; the length is `None` for one that no neighbour has sent.
///
/// # Errors
/// Those of `recvmsg(2)`; `WouldBlock` if none waits.
pub fn receive(socket: &impl AsFd, buffer: &mut [u8]) -> io::Result<(Option<usize>, SocketAddr)> {
    #[repr(C)]
    struct Control {
        header: libc::cmsghdr,
        value: libc::c_int,
        padding: [u64; 4],
    }
    // SAFETY: both are plain old data for which all zeros are valid.
    let (mut message, mut control): (libc::msghdr, Control) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    let mut slice = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let fill = |name: *mut socket2::SockAddrStorage, length: *mut libc::socklen_t| {
        message.msg_name = name.cast();
        // SAFETY: `try_init` passes valid pointers.
        message.msg_namelen = unsafe { *length };
        (message.msg_iov, message.msg_iovlen) = (&raw mut slice, 1);
        message.msg_control = (&raw mut control).cast();
        message.msg_controllen = size_of::<Control>() as _;
        // SAFETY: the descriptor is open; name, buffer and control are valid for the lengths given.
        let received = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &mut message, libc::MSG_DONTWAIT) };
        // SAFETY: as above.
        unsafe { *length = message.msg_namelen };
        usize::try_from(received).map_err(|_| io::Error::last_os_error())
    };
    // SAFETY: on success the kernel has written an address of the length that is returned.
    let (received, from) = unsafe { SockAddr::try_init(fill) }?;
    let from = from.as_socket().ok_or_else(|| io::Error::other("a datagram without an internet address"))?;
    let (level, kind) = match from {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TTL),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT),
    };
    let is_ttl = (control.header.cmsg_level, control.header.cmsg_type) == (level, kind);
    let is_near = is_ttl && u32::try_from(control.value) == Ok(TTL);
    Ok((is_near.then_some(received), from))
}

fn socket(is_ipv6: bool, kind: Type, protocol: Protocol, interface: &str) -> io::Result<Socket> {
    let domain = if is_ipv6 { Domain::IPV6 } else { Domain::IPV4 };
    let socket = Socket::new(domain, kind, Some(protocol))?;
    socket.set_nonblocking(true)?;
    socket.bind_device(Some(interface.as_bytes()))?;
    if is_ipv6 {
        socket.set_only_v6(true)?;
        socket.set_unicast_hops_v6(TTL)?;
    } else {
        socket.set_ttl_v4(TTL)?;
    }
    Ok(socket)
}

fn any(is_ipv6: bool, port: u16) -> SockAddr {
    let address: IpAddr = if is_ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    SocketAddr::new(address, port).into()
}

/// The interface's number, which the scope of a link-local address needs.
///
/// # Errors
/// If there is no such interface.
pub fn index(interface: &str) -> io::Result<u32> {
    interface_index(interface).map(libc::c_int::cast_unsigned)
}
