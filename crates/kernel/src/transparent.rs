//! TCP sockets of a transparent proxy: a listener that accepts connections meant for others, and connections made in a
//! client's name.
//!
//! Every socket of a relayed connection is made so that closing it, by the program or by the kernel when the program is
//! killed, sends a reset; see [`allow_orderly_close`].

use crate::socket_option::set_int;
use socket2::{Domain, Protocol, SockAddr, Socket, TcpKeepalive, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// Connections that the kernel may complete before the program accepts them (it caps this at `net.core.somaxconn`).
const BACKLOG: i32 = 65_535;

/// A non-blocking listener at `address` for connections that the firewall's `tproxy` hands to it. The local address of
/// an accepted socket is the one that the client called; what is idle is probed after `keepalive`.
///
/// # Errors
/// If the process lacks `CAP_NET_ADMIN`, or the address is in use.
pub fn listen(address: SocketAddr, keepalive: Duration) -> io::Result<Socket> {
    let socket = stream_socket(address)?;
    set_transparent(&socket, address)?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    let (level, option) = received_class(address.is_ipv6());
    // Accepted sockets inherit all of it.
    set_int(&socket, level, option, 1)?;
    prepare(&socket)?;
    set_keepalive(&socket, keepalive)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// Has `listener` keep as many connections that wait to be accepted as `net.core.somaxconn` allows by now: the kernel looks at
/// that only when it is asked.
///
/// # Errors
/// None is expected.
pub fn follow_somaxconn(listener: &Socket) -> io::Result<()> {
    listener.listen(BACKLOG)
}

/// A connection that a client has made.
#[derive(Debug)]
pub struct Accepted {
    /// Its socket: non-blocking; closing it resets.
    pub socket: Socket,
    /// The client's address.
    pub client: SocketAddr,
    /// The address that it called.
    pub called: SocketAddr,
    /// The traffic class (type of service) of the client's packets when the connection was made.
    pub traffic_class: u8,
}

/// Accepts a connection from `listener`, which [`listen`] has made. `None` when no connection waits.
///
/// # Errors
/// Those of `accept(2)`; one connection's failure does not concern the next.
pub fn accept(listener: &Socket) -> io::Result<Option<Accepted>> {
    let Some((socket, client)) = accept_nonblocking(listener)? else { return Ok(None) };
    let (client, called) = (inet(&client)?, inet(&socket.local_addr()?)?);
    let traffic_class = traffic_class(&socket, called.is_ipv6())?;
    Ok(Some(Accepted { socket, client, called, traffic_class }))
}

/// Accepts a connection from `listener`; its socket is non-blocking, and has what else was set at the listener ([`prepare`] among
/// it). `None` when no connection waits.
///
/// # Errors
/// Those of `accept(2)`; one connection's failure does not concern the next.
pub fn accept_nonblocking(listener: &Socket) -> io::Result<Option<(Socket, SockAddr)>> {
    match listener.accept4(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) {
        Ok(accepted) => Ok(Some(accepted)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Begins a connection to `destination`, with a socket that `prepare` has set up, too; the socket becomes writable when the
/// connection is made or has failed ([`Socket::take_error`] tells which). With `source`, the server sees that address, and that
/// port where it is free (else another one); its answers must be routed through this host. `mark` is set on its packets, and it is
/// probed after it was idle for `keepalive`.
///
/// # Errors
/// Those of `connect(2)` that are known at once, an address that may not be used among them, and those of `prepare`.
pub fn connect(
    source: Option<SocketAddr>,
    destination: SocketAddr,
    mark: u32,
    keepalive: Duration,
    prepare: impl Fn(&Socket) -> io::Result<()>,
) -> io::Result<Socket> {
    let set_up = |socket: &Socket| {
        self::prepare(socket)?;
        prepare(socket)?;
        set_keepalive(socket, keepalive)
    };
    let attempt = |source| attempt(source, destination, mark, set_up);
    match source {
        None => attempt(None),
        Some(source) => match attempt(Some(source)) {
            // The same client port was used for the same server a moment ago (TIME-WAIT), or for another connection.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EADDRINUSE | libc::EADDRNOTAVAIL)) => {
                attempt(Some(SocketAddr::new(source.ip(), 0)))
            }
            other => other,
        },
    }
}

fn attempt(
    source: Option<SocketAddr>,
    destination: SocketAddr,
    mark: u32,
    prepare: impl Fn(&Socket) -> io::Result<()>,
) -> io::Result<Socket> {
    let socket = stream_socket(destination)?;
    prepare(&socket)?;
    socket.set_mark(mark)?;
    if let Some(source) = source {
        set_transparent(&socket, destination)?;
        socket.set_reuse_address(true)?;
        if source.port() == 0 {
            set_bind_address_no_port(&socket)?;
        }
        socket.bind(&source.into())?;
    }
    match socket.connect(&destination.into()) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(socket),
    }
}

/// Sets up `socket` for relaying: small writes leave at once, urgent data stay in their place in the stream (RFC 6093 section 5), and
/// closing resets. Sockets that are accepted from a listener inherit it.
///
/// # Errors
/// If the connection has already failed.
pub fn prepare(socket: &Socket) -> io::Result<()> {
    socket.set_linger(Some(Duration::ZERO))?;
    socket.set_out_of_band_inline(true)?;
    socket.set_tcp_nodelay(true)
}

/// Has the kernel probe a host from which nothing has come for `idle`, and give it up after nine probes without an answer, at
/// most 75 s apart: as patient as hosts are among themselves (RFC 9293 section 3.8.4 asks for two hours at least). Sockets that
/// are accepted from a listener inherit it.
///
/// # Errors
/// If it is not a TCP socket, or `idle` is longer than 32,767 s (`MAX_TCP_KEEPIDLE` in the kernel's include/net/tcp.h).
pub fn set_keepalive(socket: &Socket, idle: Duration) -> io::Result<()> {
    let interval = (idle / 4).clamp(Duration::from_secs(1), Duration::from_secs(75));
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(idle).with_interval(interval).with_retries(9))
}

/// Whether the next byte to read is one that the sender calls urgent: `splice(2)` does not move it, nor anything behind it.
///
/// # Errors
/// If it is not a TCP socket.
pub fn is_at_urgent_mark(socket: &Socket) -> io::Result<bool> {
    /// From asm-generic/sockios.h.
    const SIOCATMARK: libc::Ioctl = 0x8905;
    let mut is_at: libc::c_int = 0;
    // SAFETY: the descriptor is open, and the call writes one int.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), SIOCATMARK, &raw mut is_at) };
    if result == 0 { Ok(is_at != 0) } else { Err(io::Error::last_os_error()) }
}

/// Puts the code point `dscp` on what the new `socket` sends; where the host refuses, packets go without.
pub fn set_dscp(socket: &Socket, dscp: u8) {
    let traffic_class = u32::from(dscp) << 2;
    if traffic_class == 0 {
        // As it is from the start.
        return;
    }
    change_dscp(socket, dscp);
}

/// The same for a socket that may have another code point.
pub fn change_dscp(socket: &Socket, dscp: u8) {
    let traffic_class = u32::from(dscp) << 2;
    // Each of them has no meaning for sockets of the other family alone.
    let _ = socket.set_tos_v4(traffic_class);
    let _ = socket.set_tclass_v6(traffic_class);
}

/// Makes closing `socket` end the connection in order again, for when both directions have ended so.
///
/// # Errors
/// None is expected.
pub fn allow_orderly_close(socket: &Socket) -> io::Result<()> {
    socket.set_linger(None)
}

fn stream_socket(address: SocketAddr) -> io::Result<Socket> {
    Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), Some(Protocol::TCP))
}

fn set_transparent(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    match address.ip() {
        IpAddr::V4(_) => socket.set_ip_transparent_v4(true),
        IpAddr::V6(_) => socket.set_ip_transparent_v6(true),
    }
}

/// Leaves the choice of the port to `connect`, which knows the destination: the ports of one client's address then
/// suffice for every server (`IP_BIND_ADDRESS_NO_PORT`, ip(7); it serves IPv6, too).
fn set_bind_address_no_port(socket: &Socket) -> io::Result<()> {
    set_int(socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)
}

/// Gives `socket` buffers of these sizes in bytes, beyond the host's limits where the process may (`CAP_NET_ADMIN` on the
/// host), else as large as they allow.
///
/// # Errors
/// None is expected.
pub fn set_buffers(socket: &Socket, receive: usize, send: usize) -> io::Result<()> {
    let value = |bytes| libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    if set_int(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, value(receive)).is_err() {
        socket.set_recv_buffer_size(receive)?;
    }
    if set_int(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, value(send)).is_err() {
        socket.set_send_buffer_size(send)?;
    }
    Ok(())
}

/// Bounds what the kernel keeps for `socket` of what has arrived and is not read yet, and of what is written and has not been
/// sent, to about so many bytes each; with what it keeps them in, it may be twice as much. What has arrived is left to
/// `net.ipv4.tcp_rmem` if the process may not go beyond the host's limits (`CAP_NET_ADMIN` on the host): these are so low that
/// they would make long paths slow. Sockets that are accepted inherit it.
///
/// # Errors
/// If it is not a TCP socket.
pub fn bound_backlog(socket: &Socket, bytes: u32) -> io::Result<()> {
    let receive = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    match set_int(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, receive) {
        Err(error) if error.kind() != io::ErrorKind::PermissionDenied => Err(error),
        _ => crate::tcp::set_unsent_limit(socket, bytes),
    }
}

/// The option that has the kernel tell the traffic class of what arrives.
fn received_class(is_ipv6: bool) -> (libc::c_int, libc::c_int) {
    if is_ipv6 { (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS) } else { (libc::IPPROTO_IP, libc::IP_RECVTOS) }
}

/// The traffic class of the packet that completed a connection's handshake, which the kernel keeps with the socket; 0 if the
/// socket was not set to tell it.
///
/// # Errors
/// If it is not a TCP socket.
pub fn traffic_class(socket: &Socket, is_ipv6: bool) -> io::Result<u8> {
    #[repr(C)]
    struct Message {
        header: libc::cmsghdr,
        value: libc::c_int,
    }
    let (level, option, kind) = if is_ipv6 {
        (libc::IPPROTO_IPV6, libc::IPV6_2292PKTOPTIONS, libc::IPV6_TCLASS)
    } else {
        (libc::IPPROTO_IP, libc::IP_PKTOPTIONS, libc::IP_TOS)
    };
    // SAFETY: a control message is plain old data for which all zeros are valid.
    let mut message: Message = unsafe { std::mem::zeroed() };
    let mut length = size_of::<Message>() as libc::socklen_t;
    // SAFETY: `message` and `length` are valid, and the kernel writes no more than `length` says.
    let result =
        unsafe { libc::getsockopt(socket.as_fd().as_raw_fd(), level, option, (&raw mut message).cast(), &mut length) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let Message { header, value } = message;
    // None is sent where nothing is known.
    let is_it = header.cmsg_level == level && header.cmsg_type == kind;
    Ok(if is_it { value as u8 } else { 0 })
}

fn inet(address: &SockAddr) -> io::Result<SocketAddr> {
    address.as_socket().ok_or_else(|| io::Error::other("the address is not an internet address"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    const HOURS: Duration = Duration::from_secs(7200);

    /// The two ends of a connection over the loopback: one that a proxy makes, and a host's.
    fn connection() -> (Socket, std::net::TcpStream) {
        let host = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
        let socket = connect(None, host.local_addr().expect("an address"), 0, HOURS, |_| Ok(())).expect("a connection");
        let (peer, _) = host.accept().expect("the connection");
        socket.set_nonblocking(false).expect("blocking");
        (socket, peer)
    }

    #[test]
    fn hosts_are_as_patient_with_an_idle_connection_as_among_themselves() {
        let (socket, _peer) = connection();
        assert!(socket.keepalive().expect("keepalive"));
        assert_eq!(socket.tcp_keepalive_time().expect("time"), HOURS);
        assert_eq!(socket.tcp_keepalive_interval().expect("interval"), Duration::from_secs(75));
        assert_eq!(socket.tcp_keepalive_retries().expect("retries"), 9);
    }

    #[test]
    fn the_longest_idle_time_of_a_gateway_is_within_the_kernels_limit() {
        let (socket, _peer) = connection();
        let nine_hours = Duration::from_secs(9 * 3600);
        set_keepalive(&socket, nine_hours).expect("at most MAX_TCP_KEEPIDLE");
        assert_eq!(socket.tcp_keepalive_time().expect("time"), nine_hours);
        let beyond = set_keepalive(&socket, Duration::from_secs(32_768)).expect_err("longer than the kernel waits");
        assert_eq!(beyond.raw_os_error(), Some(libc::EINVAL));
    }

    #[test]
    fn urgent_data_stay_in_their_place_and_stop_what_is_read_before() {
        let (mut socket, peer) = connection();
        let peer = Socket::from(peer);
        (&peer).write_all(b"before").expect("sent");
        peer.send_out_of_band(b"!").expect("sent");
        (&peer).write_all(b"behind").expect("sent");
        let mut buffer = [0; 64];
        assert!(!is_at_urgent_mark(&socket).expect("a TCP socket"));
        let mut seen = Vec::new();
        while seen.len() < 13 {
            let count = socket.read(&mut buffer).expect("read");
            seen.extend_from_slice(&buffer[..count]);
            assert_eq!(is_at_urgent_mark(&socket).expect("a TCP socket"), seen.len() == 6);
        }
        assert_eq!(seen, b"before!behind");
    }
}
