//! Sending UDP datagrams with a traffic class for each call (`IP_TOS`, `IPV6_TCLASS`) and a source (`IP_PKTINFO`,
//! `IPV6_PKTINFO`), several in one call where the system cuts them (`UDP_SEGMENT`, udp(7)).

use socket2::{SockAddr, Socket};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};

/// Control messages: a traffic class, a source and a segment size, each behind a header, aligned as the kernel wants it.
#[repr(C, align(8))]
struct Control([u8; Control::ROOM]);

impl Control {
    const ROOM: usize = 128;

    /// Appends a message to the first `length` bytes, and returns how long they are then.
    fn put<T: Copy>(&mut self, length: usize, level: libc::c_int, kind: libc::c_int, value: T) -> usize {
        let size = size_of::<T>() as libc::c_uint;
        // SAFETY: these only compute with sizes.
        let (bare, padded) = unsafe { (libc::CMSG_LEN(size) as usize, libc::CMSG_SPACE(size) as usize) };
        let space = &mut self.0[length..length + padded];
        // SAFETY: plain old data for which all zeros are valid; C libraries differ in its padding.
        let mut header: libc::cmsghdr = unsafe { std::mem::zeroed() };
        (header.cmsg_len, header.cmsg_level, header.cmsg_type) = (bare as _, level, kind);
        // SAFETY: `space` has room for the header and the value behind it, by its length; neither has to be aligned for these
        // writes.
        unsafe {
            space.as_mut_ptr().cast::<libc::cmsghdr>().write_unaligned(header);
            let data = space.as_mut_ptr().add(bare - size as usize);
            data.cast::<T>().write_unaligned(value);
        }
        length + padded
    }
}

/// Where datagrams go, and which address of the host they come from, if the kernel does not choose.
#[derive(Debug, Clone, Copy)]
pub struct Way {
    /// Where to.
    pub to: SocketAddr,
    /// Where from: of the family of `to`.
    pub from: Option<IpAddr>,
}

/// Sends `contents` over `way` as datagrams of `segment_size` bytes, of which the last may be shorter, with `traffic_class` (code
/// point and congestion bits). If there is more than one datagram, the system must take batches.
///
/// # Errors
/// Those of sendmsg(2), of which `EINVAL` may say that the host has no such address any more; `EIO` and `EINVAL` of a batch say
/// that the system cannot cut this one.
pub fn send(
    socket: &Socket,
    Way { to, from }: Way,
    contents: &[u8],
    segment_size: usize,
    traffic_class: u8,
) -> io::Result<()> {
    let address = SockAddr::from(to);
    let class = libc::c_int::from(traffic_class);
    let mut control = Control([0; Control::ROOM]);
    let mut length = if to.ip().to_canonical().is_ipv4() {
        control.put(0, libc::IPPROTO_IP, libc::IP_TOS, class)
    } else {
        control.put(0, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, class)
    };
    match from {
        Some(IpAddr::V4(from)) => {
            let from = libc::in_addr { s_addr: u32::from(from).to_be() };
            let info = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: from, ipi_addr: from };
            length = control.put(length, libc::IPPROTO_IP, libc::IP_PKTINFO, info);
        }
        Some(IpAddr::V6(from)) => {
            let info = libc::in6_pktinfo { ipi6_addr: libc::in6_addr { s6_addr: from.octets() }, ipi6_ifindex: 0 };
            length = control.put(length, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info);
        }
        None => {}
    }
    if contents.len() > segment_size {
        let segment_size = u16::try_from(segment_size).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        length = control.put(length, libc::SOL_UDP, libc::UDP_SEGMENT, segment_size);
    }
    let mut slice = libc::iovec { iov_base: contents.as_ptr().cast_mut().cast(), iov_len: contents.len() };
    // SAFETY: a message header is plain old data for which all zeros are valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = address.as_ptr().cast_mut().cast();
    message.msg_namelen = address.len();
    message.msg_iov = &raw mut slice;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = length as _;
    loop {
        // SAFETY: the descriptor is open; the header points to an address, a slice and control messages that outlive the call,
        // which only reads them.
        if unsafe { libc::sendmsg(socket.as_fd().as_raw_fd(), &raw const message, 0) } >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Domain, Protocol, Type};
    use std::time::Duration;

    fn bound(address: &str) -> Socket {
        let address: SocketAddr = address.parse().unwrap();
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP)).unwrap();
        socket.bind(&address.into()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        socket
    }

    /// Sends a batch of 2,500 bytes in pieces of 1,000 between two sockets, and returns their lengths as they arrive.
    fn lengths(from: &str, to: &str, destination: &str) -> Vec<usize> {
        let (sender, receiver) = (bound(from), bound(to));
        let port = receiver.local_addr().unwrap().as_socket().unwrap().port();
        let destination = SocketAddr::new(destination.parse().unwrap(), port);
        send(&sender, Way { to: destination, from: None }, &[7; 2500], 1000, 46 << 2 | 2).unwrap();
        let receiver = std::net::UdpSocket::from(receiver);
        (0..3).map(|_| receiver.recv(&mut [0; 3000]).unwrap()).collect()
    }

    #[test]
    fn a_batch_is_cut_in_both_families_and_between_them() {
        for (from, to, destination) in [
            ("127.0.0.1:0", "127.0.0.1:0", "127.0.0.1"),
            ("[::1]:0", "[::1]:0", "::1"),
            ("[::]:0", "127.0.0.1:0", "::ffff:127.0.0.1"),
        ] {
            assert_eq!(lengths(from, to, destination), [1000, 1000, 500], "{from}");
        }
    }
}
