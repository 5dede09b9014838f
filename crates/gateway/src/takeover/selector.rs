//! Which of two processes a datagram of the satellite link is for, while both serve one port: classic BPF for the kernel.

use kernel::reuseport::Instruction;
use satpep::routing;

// Of linux/filter.h.
const LOAD_BYTE: u16 = 0x30;
const JUMP_IF_EQUAL: u16 = 0x15;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const RETURN: u16 = 0x06;

/// The socket that was bound first, and the one that was bound beside it.
const OLDER: u32 = 0;
const NEWER: u32 = 1;

/// Everything is for the process that was there first.
pub(crate) fn first() -> Vec<Instruction> {
    vec![Instruction(RETURN, 0, 0, OLDER)]
}

/// What belongs to a session is for the process of its generation, an init for the one that it names, or for the newer, whose
/// generation is `newer`.
pub(crate) fn by_generation(newer: u32) -> Vec<Instruction> {
    let load = |offset: usize| Instruction(LOAD_BYTE, 0, 0, offset as u32);
    let is_kind = |kind: u8, skip: u8| Instruction(JUMP_IF_EQUAL, skip, 0, kind.into());
    let to_the_generation = |skip| Instruction(JUMP, 0, 0, skip);
    vec![
        load(0),
        is_kind(routing::DATA, 4),
        is_kind(routing::RESPONSE, 5),
        is_kind(routing::INIT, 6),
        // Cookies and whatever else answers an init.
        load(routing::generation_at(routing::COOKIE)),
        to_the_generation(6),
        load(routing::generation_at(routing::DATA)),
        to_the_generation(4),
        load(routing::generation_at(routing::RESPONSE)),
        to_the_generation(2),
        load(routing::WANTED_AT),
        Instruction(JUMP_IF_EQUAL, 3, 2, routing::wanted(1 - (newer & 1)).into()),
        Instruction(AND, 0, 0, 1),
        Instruction(JUMP_IF_EQUAL, 0, 1, newer & 1),
        Instruction(RETURN, 0, 0, NEWER),
        Instruction(RETURN, 0, 0, OLDER),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::reuseport::{attach_selector, set_shared};
    use socket2::{Domain, Socket, Type};
    use std::io::Read;
    use std::net::{SocketAddr, UdpSocket};
    use std::time::{Duration, Instant};

    fn bound(address: SocketAddr) -> Socket {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
        set_shared(&socket, true).unwrap();
        socket.bind(&address.into()).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    }

    /// The second bytes of what has arrived.
    fn marks(mut socket: &Socket) -> Vec<u8> {
        let mut buffer = [0; 64];
        std::iter::from_fn(|| socket.read(&mut buffer).ok().map(|_| buffer[63])).collect()
    }

    fn datagram(kind: u8, at: usize, value: u8, mark: u8) -> [u8; 64] {
        let mut bytes = [0; 64];
        (bytes[0], bytes[at], bytes[63]) = (kind, value, mark);
        bytes
    }

    #[test]
    fn each_datagram_finds_its_process() {
        for newer in [0, 1] {
            let older = bound("127.0.0.1:0".parse().unwrap());
            let address = older.local_addr().unwrap().as_socket().unwrap();
            set_shared(&older, false).unwrap();
            let stranger = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
            set_shared(&stranger, true).unwrap();
            assert!(stranger.bind(&address.into()).is_err(), "nobody comes beside it unless it agrees");
            set_shared(&older, true).unwrap();
            attach_selector(&older, &first()).unwrap();
            let beside = bound(address);
            // Each from a port of its own: without the program a hash of it would choose.
            let send = |bytes: &[u8]| UdpSocket::bind("127.0.0.1:0").unwrap().send_to(bytes, address).unwrap();
            for mark in 0..16 {
                send(&datagram(routing::DATA, routing::generation_at(routing::DATA), 1, mark));
            }
            assert_eq!((marks(&older).len(), marks(&beside).len()), (16, 0), "nothing is lost before it is ready");

            attach_selector(&beside, &by_generation(newer)).unwrap();
            let mut mark = 0;
            let (mut to_older, mut to_newer) = (Vec::new(), Vec::new());
            for kind in [routing::DATA, routing::RESPONSE, routing::COOKIE, routing::NOTICE] {
                // The generation is the lowest bit; the others are anything.
                for value in [0, 1, 0xfe, 0xff] {
                    mark += 1;
                    send(&datagram(kind, routing::generation_at(kind), value, mark));
                    if u32::from(value & 1) == newer { to_newer.push(mark) } else { to_older.push(mark) }
                }
            }
            for wanted in [0, routing::wanted(0), routing::wanted(1)] {
                mark += 1;
                send(&datagram(routing::INIT, routing::WANTED_AT, wanted, mark));
                if wanted == routing::wanted(1 - newer) { to_older.push(mark) } else { to_newer.push(mark) }
            }
            assert_eq!((marks(&older), marks(&beside)), (to_older, to_newer), "newer generation {newer}");
            drop(older);
            // A program that another thread starts just now has a copy of the socket until it executes.
            let begun = Instant::now();
            let finds_the_other = || {
                send(&datagram(routing::INIT, routing::WANTED_AT, routing::wanted(1 - newer), 99));
                marks(&beside) == [99]
            };
            while !finds_the_other() {
                assert!(
                    begun.elapsed() < Duration::from_secs(10),
                    "what was for a process that has ended finds the other"
                );
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}
