//! Whole frames from and to a network interface (`packet(7)`), in batches, with the offload state of each.

use crate::clock;
use std::ffi::CString;
use std::io;
use std::mem::{MaybeUninit, size_of, size_of_val};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use units::{Bytes, Duration, Instant};

/// How many frames one call receives or sends at most.
pub const BATCH: usize = 64;

/// The longest frame that is received whole: an IP packet of 65,535 bytes behind an Ethernet header with two VLAN tags,
/// rounded up.
const FRAME_MAX: usize = 65_600;

/// Bytes of a VLAN tag: EtherType and tag control information (IEEE 802.1Q).
const VLAN_TAG: usize = 4;
/// Where a tag is in a frame: behind the two addresses.
const VLAN_TAG_OFFSET: usize = 12;

/// What a host and its network card leave undone on a frame: the checksum, and the cutting of a super-packet into
/// segments. The layout is the kernel's (`struct virtio_net_hdr` of `linux/virtio_net.h`), integers in host order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct OffloadHeader {
    /// [`OffloadHeader::NEEDS_CHECKSUM`] and others.
    pub flags: u8,
    /// What kind of super-packet it is; [`OffloadHeader::GSO_NONE`] if none.
    pub gso_type: u8,
    /// Length of the headers that each segment repeats: a hint.
    pub header_length: u16,
    /// Payload bytes of each segment but the last.
    pub gso_size: u16,
    /// From where in the frame the checksum is to be computed.
    pub checksum_start: u16,
    /// Where the checksum is to be stored, counted from `checksum_start`; the pseudo-header's sum is there already.
    pub checksum_offset: u16,
}

impl OffloadHeader {
    /// Flag: the transport checksum is yet to be computed.
    pub const NEEDS_CHECKSUM: u8 = 1;
    /// Flag: the card has checked the transport checksum.
    pub const DATA_VALID: u8 = 2;
    /// An ordinary packet.
    pub const GSO_NONE: u8 = 0;
    /// A super-packet of TCP over IPv4.
    pub const GSO_TCPV4: u8 = 1;
    /// A super-packet of TCP over IPv6.
    pub const GSO_TCPV6: u8 = 4;
    /// A super-packet of UDP datagrams of equal size.
    pub const GSO_UDP_L4: u8 = 5;
    /// Bit in `gso_type`: the first segment alone carries CWR (RFC 3168).
    pub const GSO_ECN: u8 = 0x80;

    /// The same for a frame with a VLAN tag more.
    fn behind_tag(self) -> Self {
        let header_length = self.header_length.saturating_add(VLAN_TAG as u16);
        match self.flags & Self::NEEDS_CHECKSUM {
            0 => Self { header_length, ..self },
            _ => {
                let checksum_start = self.checksum_start.saturating_add(VLAN_TAG as u16);
                Self { header_length, checksum_start, ..self }
            }
        }
    }
}

/// A frame of a [`ReceiveBatch`].
#[derive(Debug, Clone, Copy)]
pub struct Received<'a> {
    /// What is left undone on it.
    pub offload: &'a OffloadHeader,
    /// The frame from its Ethernet header on.
    pub frame: &'a [u8],
    /// How long it had waited when it was received.
    pub waited: Duration,
}

/// How many pieces the frames of one [`PacketSocket::send`] may have in all, a piece for each offload header included: as many
/// as the kernel takes for one message.
const PIECES: usize = libc::UIO_MAXIOV as usize;

/// A socket for all frames that come in on one interface, and for frames to go out on it. It stays in the network
/// namespace in which it was opened.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
    interface: String,
    index: libc::c_int,
}

impl PacketSocket {
    /// Opens `interface` of the calling thread's network namespace, in promiscuous mode: every frame that arrives is
    /// received, none that the host sends on it. Frames are sent past the queueing discipline. Up to `buffer` bytes of
    /// frames wait in the kernel each way; without `CAP_NET_ADMIN` on the host, `net.core.rmem_max` (`wmem_max`) if less.
    ///
    /// # Errors
    /// `NotFound` if there is no such interface, `PermissionDenied` without `CAP_NET_RAW` in the namespace, others of
    /// `socket(2)` and `setsockopt(2)`; each names the interface.
    pub fn open(interface: &str, buffer: Bytes) -> io::Result<Self> {
        Self::open_unnamed(interface, buffer)
            .map_err(|error| io::Error::new(error.kind(), format!("interface {interface}: {error}")))
    }

    fn open_unnamed(interface: &str, buffer: Bytes) -> io::Result<Self> {
        let index = interface_index(interface)?;
        // Protocol 0: nothing is received until the socket is set up and bound.
        // SAFETY: no pointer is passed.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just returned this descriptor and nothing else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let socket = Self { fd, interface: interface.to_owned(), index };
        let yes: libc::c_int = 1;
        socket.set_option(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &yes)?;
        let (offload, auxiliary) = (libc::PACKET_VNET_HDR, libc::PACKET_AUXDATA);
        for option in [offload, auxiliary, libc::PACKET_IGNORE_OUTGOING, libc::PACKET_QDISC_BYPASS] {
            socket.set_option(libc::SOL_PACKET, option, &yes)?;
        }
        let membership = libc::packet_mreq {
            mr_ifindex: index,
            mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        socket.set_option(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)?;
        // The kernel doubles the value, to allow for its own overhead.
        let buffer = libc::c_int::try_from(buffer.as_u64()).unwrap_or(libc::c_int::MAX / 2);
        socket
            .set_option(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &buffer)
            .or_else(|_| socket.set_option(libc::SOL_SOCKET, libc::SO_RCVBUF, &buffer))?;
        socket
            .set_option(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &buffer)
            .or_else(|_| socket.set_option(libc::SOL_SOCKET, libc::SO_SNDBUF, &buffer))?;
        socket.bind()?;
        Ok(socket)
    }

    fn bind(&self) -> io::Result<()> {
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as libc::c_ushort,
            sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
            sll_ifindex: self.index,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        // SAFETY: the pointer and the length describe `address`, which lives until after the call.
        let result = unsafe {
            libc::bind(self.fd.as_raw_fd(), (&raw const address).cast(), size_of_val(&address) as libc::socklen_t)
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    fn set_option<T: Copy>(&self, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
        // SAFETY: the pointer and the length describe `value`, which lives until after the call.
        let result = unsafe {
            libc::setsockopt(
                self.fd.as_raw_fd(),
                level,
                option,
                std::ptr::from_ref(value).cast(),
                size_of::<T>() as libc::socklen_t,
            )
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// The interface's name.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Receives the frames that wait, at most [`BATCH`] of them, into `batch` (which forgets those it held). No frame
    /// is no error. Does not block. A VLAN tag that the kernel took out of a frame is in it again.
    ///
    /// # Errors
    /// `InvalidInput` if the next frame is a super-packet of a kind that cannot be described; that frame is gone.
    /// `NetworkDown` once when the interface goes down; others of `recvmmsg(2)`.
    pub fn receive(&self, batch: &mut ReceiveBatch) -> io::Result<usize> {
        batch.received = 0;
        let mut vectors: [[MaybeUninit<libc::iovec>; 2]; BATCH] =
            [const { [const { MaybeUninit::uninit() }; 2] }; BATCH];
        let mut messages: [MaybeUninit<libc::mmsghdr>; BATCH] = [const { MaybeUninit::uninit() }; BATCH];
        let slots = batch.headers.iter_mut().zip(batch.frames.chunks_exact_mut(FRAME_MAX)).zip(&mut batch.controls);
        for (((header, frame), control), (vector, message)) in slots.zip(vectors.iter_mut().zip(&mut messages)) {
            // A tag may have to go before the rest.
            let frame = &mut frame[VLAN_TAG..];
            vector[0].write(libc::iovec { iov_base: (&raw mut *header).cast(), iov_len: size_of::<OffloadHeader>() });
            vector[1].write(libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() });
            let mut description = message_of(vector);
            description.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
            description.msg_hdr.msg_controllen = size_of_val(&control.0) as _;
            message.write(description);
        }
        // SAFETY: all BATCH messages were initialised above (the batch holds BATCH headers and BATCH frames), each with
        // two vectors and a control buffer that point to distinct writable memory of the stated lengths in `batch`, which
        // is borrowed mutably until after the call. Any bytes are valid for `OffloadHeader`, `u8` and `Control`.
        let received = unsafe {
            libc::recvmmsg(
                self.fd.as_raw_fd(),
                messages.as_mut_ptr().cast(),
                BATCH as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        if received < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
                _ => Err(error),
            };
        }
        batch.received = received as usize;
        // The kernel's stamps are by the system clock. If that is set in between, frames seem to have waited for long, or not.
        let (at, unix_time) = clock::now_by_both();
        let now = Duration::from_nanos(unix_time);
        batch.received_at = at;
        for (index, message) in messages.iter().enumerate().take(batch.received) {
            // SAFETY: initialised above.
            let message = unsafe { message.assume_init_ref() };
            let is_whole = message.msg_hdr.msg_flags & libc::MSG_TRUNC == 0;
            let length = (message.msg_len as usize).saturating_sub(size_of::<OffloadHeader>());
            let (stamp, tag) = annotations(&message.msg_hdr);
            batch.waited[index] = stamp.map_or(Duration::ZERO, |stamp| now.saturating_sub(stamp));
            batch.ranges[index] = is_whole.then(|| batch.place(index, length, tag));
        }
        Ok(batch.received)
    }

    /// Takes the error that ended a [`PacketSocket::receive`] of some frames before it had [`BATCH`] of them: that of the frame behind them,
    /// as from `receive`. It would be the next call's, whatever that is.
    ///
    /// # Errors
    /// None is expected.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        socket2::SockRef::from(&self.fd).take_error()
    }

    /// Sends the first of `frames`, at most [`BATCH`], in order; returns how many were sent. Does not block. A frame is what is
    /// left undone on it and, from its Ethernet header on, one or more pieces.
    ///
    /// # Errors
    /// Why the first frame was not sent: it is longer than the interface's MTU allows, the interface is down or gone, or cannot
    /// cut such a super-packet, or the kernel is out of memory. `InvalidInput` if there is none, or it has a thousand pieces.
    pub fn send<'a, P>(&self, frames: impl IntoIterator<Item = (&'a OffloadHeader, P)>) -> io::Result<usize>
    where
        P: IntoIterator<Item = &'a [u8]>,
    {
        let mut vectors = [const { MaybeUninit::<libc::iovec>::uninit() }; PIECES];
        let mut messages = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; BATCH];
        let (mut free, mut count) = (&mut vectors[..], 0);
        for ((offload, pieces), message) in frames.into_iter().zip(&mut messages) {
            // The kernel does not write to what it sends.
            let offload = std::ptr::from_ref(offload).cast_mut();
            let header = libc::iovec { iov_base: offload.cast(), iov_len: size_of::<OffloadHeader>() };
            let pieces = pieces.into_iter();
            let pieces =
                pieces.map(|piece| libc::iovec { iov_base: piece.as_ptr().cast_mut().cast(), iov_len: piece.len() });
            let mut used = 0;
            let mut pieces = std::iter::once(header).chain(pieces);
            for (piece, vector) in pieces.by_ref().zip(free.iter_mut()) {
                vector.write(piece);
                used += 1;
            }
            if used == free.len() {
                break;
            }
            let (own, rest) = free.split_at_mut(used);
            message.write(message_of(own));
            (free, count) = (rest, count + 1);
        }
        if count == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: the first `count` messages were initialised above, each with vectors that describe memory of `frames`, which
        // is borrowed until after the call and only read by it.
        let sent = unsafe {
            libc::sendmmsg(
                self.fd.as_raw_fd(),
                messages.as_mut_ptr().cast(),
                count as libc::c_uint,
                libc::MSG_DONTWAIT as _,
            )
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
    }

    /// Whether the interface was removed: nothing will ever come from it or go to it again. (Receiving does not tell.)
    ///
    /// # Errors
    /// Those of `getsockname(2)`; none is expected.
    pub fn is_interface_gone(&self) -> io::Result<bool> {
        Ok(self.address()?.sll_ifindex < 0)
    }

    /// Whether frames begin with an Ethernet header: those of tunnels at the network layer (tun, WireGuard, ipip) have none.
    ///
    /// # Errors
    /// Those of `getsockname(2)`; none is expected.
    pub fn is_ethernet(&self) -> io::Result<bool> {
        Ok(self.address()?.sll_hatype == libc::ARPHRD_ETHER)
    }

    /// What the socket is bound to now.
    fn address(&self) -> io::Result<libc::sockaddr_ll> {
        let mut address = MaybeUninit::<libc::sockaddr_ll>::zeroed();
        let mut length = size_of_val(&address) as libc::socklen_t;
        // SAFETY: both pointers are valid for writing, and `length` is the size of `address`.
        let result = unsafe { libc::getsockname(self.fd.as_raw_fd(), address.as_mut_ptr().cast(), &mut length) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: all-zero bytes are a valid address, and the kernel has written another over them.
        Ok(unsafe { address.assume_init() })
    }

    /// The longest network-layer packet that the interface sends now. The kernel sends super-packets whatever their segments'
    /// size.
    ///
    /// # Errors
    /// Those of `netdevice(7)`: the interface was removed.
    pub fn mtu(&self) -> io::Result<usize> {
        // SAFETY: all-zero bytes are a valid request.
        let mut request: libc::ifreq = unsafe { MaybeUninit::zeroed().assume_init() };
        request.ifr_ifru.ifru_ifindex = self.index;
        // It may have got another name since it was opened.
        for query in [libc::SIOCGIFNAME, libc::SIOCGIFMTU] {
            // SAFETY: both queries read and write one `ifreq`, which lives until after the call.
            if unsafe { libc::ioctl(self.fd.as_raw_fd(), query as _, &raw mut request) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        // SAFETY: the last query wrote this member of the union.
        Ok(usize::try_from(unsafe { request.ifr_ifru.ifru_mtu }).unwrap_or(0))
    }

    /// How many frames the kernel dropped because too many waited to be received, since this was last asked.
    ///
    /// # Errors
    /// Those of `getsockopt(2)`; none is expected.
    pub fn take_overruns(&self) -> io::Result<u64> {
        let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut length = size_of_val(&statistics) as libc::socklen_t;
        // SAFETY: both pointers are valid for writing, and `length` is the size of `statistics`.
        let result = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut statistics).cast(),
                &mut length,
            )
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(u64::from(statistics.tp_drops)) }
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Whether [`PacketSocket::send`] failed because the first frame is longer than the interface's MTU allows.
pub fn is_too_long(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMSGSIZE)
}

/// The frames of one [`PacketSocket::receive`]; its memory (some four megabytes) is reused by the next.
#[derive(Debug)]
pub struct ReceiveBatch {
    headers: Box<[OffloadHeader]>,
    /// One slot of `FRAME_MAX` bytes for each frame.
    frames: Box<[u8]>,
    controls: Box<[Control]>,
    /// Where in its slot each frame is; `None` if it did not fit.
    ranges: [Option<Range<usize>>; BATCH],
    waited: [Duration; BATCH],
    received_at: Instant,
    received: usize,
}

/// Room for the control messages of one frame, a `struct timespec` and a `struct tpacket_auxdata`, aligned as control messages
/// are.
#[derive(Debug, Clone, Copy, Default)]
struct Control([u64; 10]);

impl ReceiveBatch {
    /// An empty batch.
    pub fn new() -> Self {
        Self {
            headers: vec![OffloadHeader::default(); BATCH].into(),
            frames: vec![0; BATCH * FRAME_MAX].into(),
            controls: vec![Control::default(); BATCH].into(),
            ranges: [const { None }; BATCH],
            waited: [Duration::ZERO; BATCH],
            received_at: Instant::ZERO,
            received: 0,
        }
    }

    /// Where in its slot the received frame number `index` of `length` is, once its `tag` has been put back.
    fn place(&mut self, index: usize, length: usize, tag: Option<[u8; VLAN_TAG]>) -> Range<usize> {
        let (start, end) = (VLAN_TAG, VLAN_TAG + length);
        let Some(tag) = tag.filter(|_| length >= VLAN_TAG_OFFSET) else { return start..end };
        let slot = &mut self.frames[index * FRAME_MAX..][..FRAME_MAX];
        slot.copy_within(start..start + VLAN_TAG_OFFSET, 0);
        slot[VLAN_TAG_OFFSET..VLAN_TAG_OFFSET + VLAN_TAG].copy_from_slice(&tag);
        self.headers[index] = self.headers[index].behind_tag();
        0..end
    }

    /// When the frames were received: what [`Received::waited`] ends at.
    pub fn received_at(&self) -> Instant {
        self.received_at
    }

    /// Each frame in order of arrival; `None` for a frame that was too long.
    pub fn iter(&self) -> impl Iterator<Item = Option<Received<'_>>> {
        let slots = self.headers.iter().zip(self.frames.chunks_exact(FRAME_MAX)).zip(&self.ranges).zip(&self.waited);
        slots.take(self.received).map(|(((offload, slot), range), waited)| {
            Some(Received { offload, frame: slot.get(range.clone()?)?, waited: *waited })
        })
    }
}

impl Default for ReceiveBatch {
    fn default() -> Self {
        Self::new()
    }
}

/// A message without address and control data whose payload is described by `vector`.
fn message_of(vector: &mut [MaybeUninit<libc::iovec>]) -> libc::mmsghdr {
    // SAFETY: all-zero bytes are a valid mmsghdr: null pointers and zero lengths.
    let mut message: libc::mmsghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_hdr.msg_iov = vector.as_mut_ptr().cast();
    message.msg_hdr.msg_iovlen = vector.len() as _;
    message
}

/// When a frame came, by the system clock, and the tag that the kernel took out of it, as the control messages of `message` have
/// them.
fn annotations(message: &libc::msghdr) -> (Option<Duration>, Option<[u8; VLAN_TAG]>) {
    let (mut stamp, mut tag) = (None, None);
    // SAFETY: the kernel has filled the control buffer that `message` describes; its caller still borrows it.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(message).as_ref() };
    while let Some(control) = next {
        // SAFETY: it is a message of that buffer.
        let data = unsafe { libc::CMSG_DATA(control) };
        match (control.cmsg_level, control.cmsg_type) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                // SAFETY: a message of this type has this structure of plain numbers, which needs no alignment for this.
                let time = unsafe { data.cast::<libc::timespec>().read_unaligned() };
                stamp = Some(Duration::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64));
            }
            (libc::SOL_PACKET, libc::PACKET_AUXDATA) => {
                // SAFETY: as above.
                tag = vlan_tag(unsafe { data.cast::<libc::tpacket_auxdata>().read_unaligned() });
            }
            _ => {}
        }
        // SAFETY: as for the first.
        next = unsafe { libc::CMSG_NXTHDR(message, control).as_ref() };
    }
    (stamp, tag)
}

/// The tag that `struct tpacket_auxdata` has (`packet_recvmsg` of net/packet/af_packet.c).
fn vlan_tag(auxiliary: libc::tpacket_auxdata) -> Option<[u8; VLAN_TAG]> {
    if auxiliary.tp_status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let ethertype = match auxiliary.tp_status & libc::TP_STATUS_VLAN_TPID_VALID {
        0 => libc::ETH_P_8021Q as u16,
        _ => auxiliary.tp_vlan_tpid,
    };
    let ([a, b], [c, d]) = (ethertype.to_be_bytes(), auxiliary.tp_vlan_tci.to_be_bytes());
    Some([a, b, c, d])
}

/// The number of the interface named `interface` in the calling thread's network namespace.
pub(crate) fn interface_index(interface: &str) -> io::Result<libc::c_int> {
    let not_found = || io::Error::new(io::ErrorKind::NotFound, "there is none of this name");
    let name = CString::new(interface).map_err(|_| not_found())?;
    // SAFETY: `name` is a C string that lives until after the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 { Err(not_found()) } else { libc::c_int::try_from(index).map_err(|_| not_found()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offload_header_has_the_kernels_layout() {
        assert_eq!(size_of::<OffloadHeader>(), 10);
        assert_eq!(std::mem::offset_of!(OffloadHeader, checksum_offset), 8);
    }

    #[test]
    fn an_interface_that_is_not_there_is_named() {
        let error = PacketSocket::open("nosuchif0", Bytes::new(1)).expect_err("no such interface");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains("nosuchif0"), "{error}");
    }

    #[test]
    fn tunnels_at_the_network_layer_have_no_ethernet_headers() {
        let Some(namespace) = crate::testing::namespace() else { return };
        let mut batch = crate::network::IpBatch::new(&namespace);
        batch.add("link add wire type veth peer name far").add("tuntap add name tunnel mode tun");
        if let Err(error) = batch.run() {
            eprintln!("SKIPPED: {error}");
            return;
        }
        let is_ethernet = |name| PacketSocket::open(name, Bytes::new(4096)).unwrap().is_ethernet().unwrap();
        assert_eq!(namespace.run(|| ["wire", "tunnel", "lo"].map(is_ethernet)).unwrap(), [true, false, false]);
    }

    #[test]
    fn a_fresh_batch_is_empty() {
        assert_eq!(ReceiveBatch::new().iter().count(), 0);
    }
}
