//! Packets that the firewall holds until a program has decided about them: netfilter's queue, over its netlink protocol
//! (linux/netfilter/nfnetlink_queue.h).

use crate::Error;
use crate::socket_option::{Buffer, set_buffer};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};

const SUBSYSTEM_QUEUE: u16 = 3;
const MESSAGE_PACKET: u16 = SUBSYSTEM_QUEUE << 8;
const MESSAGE_VERDICT: u16 = SUBSYSTEM_QUEUE << 8 | 1;
const MESSAGE_CONFIG: u16 = SUBSYSTEM_QUEUE << 8 | 2;

const ATTRIBUTE_PACKET_HEADER: u16 = 1;
const ATTRIBUTE_PAYLOAD: u16 = 10;
const ATTRIBUTE_VERDICT: u16 = 2;
const ATTRIBUTE_MARK: u16 = 3;
const CONFIG_COMMAND: u16 = 1;
const CONFIG_PARAMETERS: u16 = 2;
const CONFIG_MAX_LENGTH: u16 = 3;

const COMMAND_BIND: u8 = 1;
const COPY_PACKET: u8 = 2;
const VERDICT_DROP: u32 = 0;
const VERDICT_ACCEPT: u32 = 1;

/// Bytes of nlmsghdr and nfgenmsg.
const HEADERS: usize = 20;
/// Bytes of a packet that are wanted: the IP and TCP headers.
const COPY_RANGE: u32 = 128;
/// Packets held at once; the firewall drops what comes on top.
const MAX_LENGTH: u32 = 16_384;
/// Memory that the kernel counts for a packet that waits to be read, at most.
const PACKET_MEMORY: usize = 1536;

/// A queue of packets that wait for a verdict. Those that wait when it is dropped are lost, like on a congested link.
#[derive(Debug)]
pub struct Queue {
    socket: Socket,
    number: u16,
    buffer: Vec<u8>,
    room: usize,
}

/// A held packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    id: u32,
    /// The packet's first bytes, from the IP header on.
    pub headers: Vec<u8>,
}

/// The verdict on a held packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is gone.
    Drop,
    /// It goes on to the next chain of the firewall.
    Accept,
    /// It goes on with this mark.
    AcceptMarked(u32),
}

impl Queue {
    /// Takes over queue `number` in the network namespace of the calling thread; never blocks afterwards.
    ///
    /// # Errors
    /// If the kernel has no such queues, the process lacks `CAP_NET_ADMIN`, or another program serves the queue.
    pub fn open(number: u16) -> Result<Self, Error> {
        let doing = || format!("netfilter queue {number}");
        let socket =
            Socket::new(Domain::from(libc::AF_NETLINK), Type::RAW, Some(Protocol::from(libc::NETLINK_NETFILTER)))
                .map_err(|error| Error::Missing(format!("{}: {error}", doing())))?;
        // With the usual buffer, all but some 150 packets that wait to be read are lost.
        let granted = set_buffer(&socket, Buffer::Receive, MAX_LENGTH as usize * PACKET_MEMORY)
            .map_err(Error::while_doing(doing()))?;
        let mut queue = Self { socket, number, buffer: vec![0; 65_536], room: granted / PACKET_MEMORY };
        let pf = [COMMAND_BIND, 0, 0, 0];
        let [a, b, c, d] = COPY_RANGE.to_be_bytes();
        for (kind, value) in [
            (CONFIG_COMMAND, &pf[..]),
            (CONFIG_PARAMETERS, &[a, b, c, d, COPY_PACKET]),
            (CONFIG_MAX_LENGTH, &MAX_LENGTH.to_be_bytes()),
        ] {
            queue.configure(kind, value).map_err(|error| match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    Error::Missing(format!("{}: not permitted, or another program serves it", doing()))
                }
                _ => Error::Failed { doing: doing(), source: error },
            })?;
        }
        queue.socket.set_nonblocking(true).map_err(Error::while_doing(doing()))?;
        Ok(queue)
    }

    /// Sends one setting and waits for the kernel's answer.
    fn configure(&mut self, kind: u16, value: &[u8]) -> io::Result<()> {
        const REQUEST_AND_ANSWER: u16 = 1 | 4;
        let message = message(MESSAGE_CONFIG, REQUEST_AND_ANSWER, self.number, &[(kind, value)]);
        (&self.socket).write_all(&message)?;
        loop {
            let length = (&self.socket).read(&mut self.buffer)?;
            if let Some(answer) = parse_error(&self.buffer[..length]) {
                return if answer == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-answer)) };
            }
        }
    }

    /// How many packets can wait to be read at least: fewer than the firewall holds where `net.core.rmem_max` bounds the socket's
    /// buffer, as in a user namespace.
    pub fn room(&self) -> usize {
        self.room
    }

    /// The next held packet; `None` when none waits.
    ///
    /// # Errors
    /// Those of `recv(2)`; packets may have been lost, the queue goes on.
    pub fn receive(&mut self) -> io::Result<Option<Held>> {
        loop {
            match (&self.socket).read(&mut self.buffer) {
                // Other messages, such as the answer to a failed verdict, do not say that the socket is empty.
                Ok(length) => {
                    if let Some(held) = parse_packet(&self.buffer[..length]) {
                        return Ok(Some(held));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// Lets `held` go, or not.
    ///
    /// # Errors
    /// If the kernel no longer holds it.
    pub fn decide(&mut self, held: &Held, verdict: Verdict) -> io::Result<()> {
        const REQUEST: u16 = 1;
        let code = if verdict == Verdict::Drop { VERDICT_DROP } else { VERDICT_ACCEPT };
        let header = [code.to_be_bytes(), held.id.to_be_bytes()].concat();
        let message = match verdict {
            Verdict::AcceptMarked(mark) => {
                let attributes = [(ATTRIBUTE_VERDICT, &header[..]), (ATTRIBUTE_MARK, &mark.to_be_bytes())];
                message(MESSAGE_VERDICT, REQUEST, self.number, &attributes)
            }
            _ => message(MESSAGE_VERDICT, REQUEST, self.number, &[(ATTRIBUTE_VERDICT, &header)]),
        };
        (&self.socket).write_all(&message)
    }
}

impl AsRawFd for Queue {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// A netlink message of this type to queue `number`.
fn message(kind: u16, flags: u16, number: u16, attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; HEADERS];
    for (kind, value) in attributes {
        bytes.extend((4 + value.len() as u16).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(*value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    let length = bytes.len() as u32;
    bytes[..4].copy_from_slice(&length.to_ne_bytes());
    bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
    bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
    bytes[18..20].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// The code in the kernel's answer to a request (0: done, else a negative errno), if `bytes` are one.
fn parse_error(bytes: &[u8]) -> Option<i32> {
    const ANSWER: u16 = 2;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let code = i32::from_ne_bytes(bytes.get(16..20)?.try_into().ok()?);
    (kind == ANSWER).then_some(code)
}

/// The held packet that `bytes` tell of, if they do.
fn parse_packet(bytes: &[u8]) -> Option<Held> {
    if u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?) != MESSAGE_PACKET {
        return None;
    }
    let (mut id, mut headers) = (None, None);
    let mut rest = bytes.get(HEADERS..)?;
    while let [a, b, c, d, ..] = *rest {
        let length = usize::from(u16::from_ne_bytes([a, b]));
        let value = rest.get(4..length)?;
        // The two highest bits of an attribute's type are flags.
        match u16::from_ne_bytes([c, d]) & 0x3fff {
            ATTRIBUTE_PACKET_HEADER => id = Some(u32::from_be_bytes(value.get(..4)?.try_into().ok()?)),
            ATTRIBUTE_PAYLOAD => headers = Some(value.to_vec()),
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(Held { id: id?, headers: headers? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_read_from_its_attributes() {
        let header = [7u32.to_be_bytes(), [8, 0, 0, 0]].concat();
        let bytes = message(
            MESSAGE_PACKET,
            0,
            5,
            &[(99, b"x"), (ATTRIBUTE_PACKET_HEADER, &header), (ATTRIBUTE_PAYLOAD, b"E...5")],
        );
        assert_eq!(parse_packet(&bytes), Some(Held { id: 7, headers: b"E...5".to_vec() }));
        for cut in 0..bytes.len() {
            // Truncated messages are read as far as they go, or not at all.
            let _ = parse_packet(&bytes[..cut]);
        }
        assert_eq!(parse_packet(&message(MESSAGE_CONFIG, 0, 5, &[])), None);
    }

    #[test]
    fn the_kernels_answer_is_told_from_a_packet() {
        let mut answer = message(2, 0, 0, &[]);
        answer[16..20].copy_from_slice(&(-1i32).to_ne_bytes());
        assert_eq!(parse_error(&answer), Some(-1));
        assert_eq!(parse_error(&message(MESSAGE_PACKET, 0, 5, &[])), None);
    }
}
