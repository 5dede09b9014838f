//! Requests to the kernel's route subsystem (rtnetlink(7)) and to its firewall, and their answers, as far as [`crate::interfaces`],
//! [`crate::route`] and [`crate::nftables`] need them.
//! Attributes are picked out one by one, so that those which newer kernels add do no harm.

use netlink_packet_core::{NetlinkBuffer, NlasIterator};
use netlink_sys::{
    Socket, SocketAddr,
    protocols::{NETLINK_NETFILTER, NETLINK_ROUTE},
};
use socket2::{SockFilter, SockRef};
use std::io;

/// Bytes of the header of every message (`nlmsghdr`), and of a request about links (`ifinfomsg`).
pub(crate) const HEADER: usize = 16;
pub(crate) const LINK_HEADER: usize = 16;
/// Bytes of the header of a message about an address (`ifaddrmsg`).
pub(crate) const ADDRESS_HEADER: usize = 8;
/// Bytes of the header of a message about a route (`rtmsg`).
pub(crate) const ROUTE_HEADER: usize = 12;
/// The kernel fills at most 32 KiB at once (NLMSG_GOODSIZE and what `recvmsg` offers).
const ANSWER: usize = 65_536;

/// A socket to a subsystem of the network namespace that the calling thread was in.
#[derive(Debug)]
pub(crate) struct NetlinkSocket {
    socket: Socket,
    sequence: u32,
    buffer: Vec<u8>,
}

/// One message of an answer: its type and what follows its header.
pub(crate) type Message<'a> = (u16, &'a [u8]);

impl NetlinkSocket {
    /// To the route subsystem. With `groups`, it receives changes instead of answering.
    pub(crate) fn new(groups: &[u32]) -> io::Result<Self> {
        Self::open(NETLINK_ROUTE, groups)
    }

    /// To the firewall. With `groups`, it receives changes instead of answering.
    pub(crate) fn of_firewall(groups: &[u32]) -> io::Result<Self> {
        Self::open(NETLINK_NETFILTER, groups)
    }

    fn open(protocol: isize, groups: &[u32]) -> io::Result<Self> {
        let mut socket = Socket::new(protocol)?;
        socket.bind(&SocketAddr::new(0, 0))?;
        groups.iter().try_for_each(|group| socket.add_membership(*group))?;
        // An answer is there when `send` returns: waiting would mean that none comes.
        socket.set_non_blocking(true)?;
        Ok(Self { socket, sequence: 0, buffer: Vec::with_capacity(ANSWER) })
    }

    /// Dumps are filtered by what the request says, so that of a million routes few are read. Kernels before 4.20 do not know this.
    pub(crate) fn filter_dumps(&self) {
        let _ = self.socket.set_netlink_get_strict_chk(true);
    }

    /// Lets the kernel drop the messages that `program` does not accept (bpf(2), classic), so that they wake nobody. Its offsets begin at
    /// the message's header, and its loads are in network byte order.
    pub(crate) fn filter_news(&self, program: &[SockFilter]) -> io::Result<()> {
        SockRef::from(&self.socket).attach_filter(program)
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Sends the request `kind` with `payload` and hands each message of the answer to `take`.
    ///
    /// # Errors
    /// What the kernel answers, `ENODEV` for an interface that does not exist among it.
    pub(crate) fn ask(
        &mut self,
        kind: u16,
        is_dump: bool,
        payload: &[u8],
        take: impl FnMut(Message<'_>),
    ) -> io::Result<()> {
        self.request(kind, if is_dump { libc::NLM_F_DUMP } else { 0 }, payload, take)
    }

    /// As [`Self::ask`], with flags: `NLM_F_ACK` where a change has no other answer.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub(crate) fn request(
        &mut self,
        kind: u16,
        flags: i32,
        payload: &[u8],
        mut take: impl FnMut(Message<'_>),
    ) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let is_dump = flags & libc::NLM_F_DUMP == libc::NLM_F_DUMP;
        let flags = flags | libc::NLM_F_REQUEST;
        let mut request = vec![0; HEADER + payload.len()];
        let length = request.len() as u32;
        let mut header = NetlinkBuffer::new(&mut request);
        header.set_length(length);
        header.set_message_type(kind);
        header.set_flags(flags as u16);
        header.set_sequence_number(self.sequence);
        request[HEADER..].copy_from_slice(payload);
        self.socket.send_to(&request, &SocketAddr::new(0, 0), 0)?;
        while !self.receive(Some(is_dump), &mut take)? {}
        Ok(())
    }

    /// Takes in all changes of the socket's groups; returns whether there were any that are `looked_for`, or that were lost for want of
    /// room.
    pub(crate) fn receive_all(&mut self, looked_for: impl Fn(Message<'_>) -> bool) -> bool {
        let mut found = false;
        loop {
            match self.receive(None, &mut |message| found |= looked_for(message)) {
                Ok(_) => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => found = true,
                Err(_) => return found,
            }
        }
    }

    /// Takes in one datagram; `is_dump` says what was asked, if anything. Returns whether the answer is complete.
    pub(crate) fn receive(&mut self, is_dump: Option<bool>, take: &mut impl FnMut(Message<'_>)) -> io::Result<bool> {
        self.buffer.clear();
        self.socket.recv(&mut self.buffer, 0)?;
        let mut rest = self.buffer.as_slice();
        while rest.len() >= HEADER {
            let message = NetlinkBuffer::new_checked(rest).map_err(malformed)?;
            let payload = message.payload();
            let is_ours = is_dump.is_none() || message.sequence_number() == self.sequence;
            match i32::from(message.message_type()) {
                _ if !is_ours => {}
                libc::NLMSG_DONE => return Ok(true),
                libc::NLMSG_ERROR => match i32_at(payload, 0).unwrap_or(-libc::EIO) {
                    0 => return Ok(true),
                    code => return Err(io::Error::from_raw_os_error(code.saturating_neg())),
                },
                _ => {
                    take((message.message_type(), payload));
                    if is_dump == Some(false) {
                        return Ok(true);
                    }
                }
            }
            let length = (message.length() as usize).max(HEADER).next_multiple_of(4);
            rest = rest.get(length..).unwrap_or_default();
        }
        Ok(false)
    }
}

/// The attributes of a message, whose own header has `header` bytes: their kinds and values.
pub(crate) fn attributes(payload: &[u8], header: usize) -> impl Iterator<Item = (u16, Vec<u8>)> {
    let attributes = NlasIterator::new(payload.get(header..).unwrap_or_default());
    // What does not parse ends the iteration.
    attributes.map_while(Result::ok).map(|attribute| (attribute.kind(), attribute.value().to_vec()))
}

pub(crate) fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    bytes.get(at..)?.first_chunk().map(|chunk| i32::from_ne_bytes(*chunk))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|chunk| u64::from_ne_bytes(*chunk))
}

/// An attribute for a request, padded.
pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = 4 + value.len();
    let mut bytes = [&(length as u16).to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
    bytes.resize(length.next_multiple_of(4), 0);
    bytes
}

fn malformed(error: netlink_packet_core::DecodeError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
}
