//! From one socket to another through a pipe, without copying.

use super::buffers::Buffers;
use crate::tcp_socket::Tcp;
use kernel::pipe::Pipe;
use kernel::transparent;
use rustix::net::RecvFlags;
use socket2::Socket;
use std::io::{self, Read, Write};

/// Bytes of the pipes that busy connections use: one system call then moves what a fast link brings within a millisecond.
const LARGE: usize = 1 << 20;
/// How many of those there are.
const LARGE_PIPES: usize = 64;
/// Bytes of all other pipes.
const SMALL: usize = 64 << 10;
/// Bytes that are copied at once where there is no descriptor for a pipe.
const COPIED: usize = 16 << 10;
/// How many of each size are kept while they hold nothing.
const IDLE_PIPES: usize = 64;

/// The pipes of all connections.
#[derive(Debug)]
pub(super) struct Pipes {
    /// Those that hold nothing now: the small and the large ones.
    idle: [Vec<Pipe>; 2],
    /// Large ones, in use or not.
    large: usize,
    /// Instead of pipes, for bytes that TLS has to touch.
    pub(super) buffers: Buffers,
}

/// A pipe in use.
#[derive(Debug)]
struct Lent {
    pipe: Pipe,
    is_large: bool,
}

impl Pipes {
    pub(super) fn new() -> Self {
        Self { idle: [Vec::new(), Vec::new()], large: 0, buffers: Buffers::new() }
    }

    fn take(&mut self) -> io::Result<Lent> {
        let [small, large] = &mut self.idle;
        if let Some(pipe) = large.pop() {
            return Ok(Lent { pipe, is_large: true });
        }
        if self.large < LARGE_PIPES {
            let pipe = Pipe::new(LARGE)?;
            self.large += 1;
            return Ok(Lent { pipe, is_large: true });
        }
        let pipe = small.pop().map_or_else(|| Pipe::new(SMALL), Ok)?;
        Ok(Lent { pipe, is_large: false })
    }

    fn give_back(&mut self, lent: Lent) {
        let idle = &mut self.idle[usize::from(lent.is_large)];
        // What it holds is for nobody else.
        if lent.pipe.filled() == 0 && idle.len() < IDLE_PIPES {
            idle.push(lent.pipe);
        } else {
            self.large -= usize::from(lent.is_large);
        }
    }
}

/// How far one direction has come.
#[derive(Debug)]
pub(super) enum Moved {
    /// There is more to move.
    More,
    /// Nothing can move until an event says so.
    Blocked,
    /// The source has ended, and every byte before is at the destination.
    Ended,
    /// The source has failed.
    SourceFailed(io::Error),
    /// The destination has failed.
    DestinationFailed(io::Error),
}

/// One direction of a connection: the pipe, while there is something in it.
#[derive(Debug, Default)]
pub(super) struct Splice {
    pipe: Option<Lent>,
}

impl Splice {
    /// Nothing more will be moved.
    pub(super) fn close(&mut self, pipes: &mut Pipes) {
        self.pipe.take().into_iter().for_each(|lent| pipes.give_back(lent));
    }

    /// Moves what the pipe holds to `destination`; returns whether nothing is left.
    pub(super) fn drain(&mut self, pipes: &mut Pipes, destination: &mut Tcp) -> io::Result<bool> {
        let (Some(Lent { pipe, .. }), Some(to)) = (&mut self.pipe, &destination.socket) else { return Ok(true) };
        while pipe.filled() > 0 {
            if let Err(error) = pipe.drain(to) {
                return would_block(&error, &mut destination.writable).map(|_| false).ok_or(error);
            }
        }
        self.close(pipes);
        Ok(true)
    }

    /// Bytes that wait in the pipe.
    pub(super) fn filled(&self) -> usize {
        self.pipe.as_ref().map_or(0, |lent| lent.pipe.filled())
    }

    /// Moves what one pipe holds; returns how many bytes have reached the destination.
    pub(super) fn relay(&mut self, pipes: &mut Pipes, source: &mut Tcp, destination: &mut Tcp) -> (u64, Moved) {
        let (Some(from), Some(to)) = (&source.socket, &destination.socket) else { return (0, Moved::Blocked) };
        // A pipe is filled only when it can be drained: what it holds is held by nobody's window.
        if !destination.writable {
            return (0, Moved::Blocked);
        }
        if self.pipe.is_none() {
            if !source.readable {
                return (0, Moved::Blocked);
            }
            // Without descriptors for a pipe.
            let Ok(mut lent) = pipes.take() else { return copy(source, destination) };
            match fill(&mut lent.pipe, from, source.urgent) {
                Ok(0) => {
                    pipes.give_back(lent);
                    return (0, Moved::Ended);
                }
                Ok(_) => self.pipe = Some(lent),
                Err(error) => {
                    pipes.give_back(lent);
                    source.urgent &= error.kind() != io::ErrorKind::WouldBlock;
                    return (0, would_block(&error, &mut source.readable).unwrap_or(Moved::SourceFailed(error)));
                }
            }
        }
        let Some(Lent { pipe, .. }) = &mut self.pipe else { return (0, Moved::Blocked) };
        match pipe.drain(to) {
            Ok(count) => {
                if pipe.filled() == 0 {
                    self.close(pipes);
                }
                (count as u64, Moved::More)
            }
            Err(error) => {
                (0, would_block(&error, &mut destination.writable).unwrap_or(Moved::DestinationFailed(error)))
            }
        }
    }
}

/// Moves some bytes without a pipe: what the destination takes of them leaves the source.
fn copy(source: &mut Tcp, destination: &mut Tcp) -> (u64, Moved) {
    let (Some(mut from), Some(mut to)) = (source.socket.as_ref(), destination.socket.as_ref()) else {
        return (0, Moved::Blocked);
    };
    let mut bytes = [0; COPIED];
    let waiting = match rustix::net::recv(from, &mut bytes[..], RecvFlags::PEEK) {
        Ok((0, _)) => return (0, Moved::Ended),
        Ok((count, _)) => count,
        Err(error) => {
            let error = error.into();
            return (0, would_block(&error, &mut source.readable).unwrap_or(Moved::SourceFailed(error)));
        }
    };
    let taken = match to.write(&bytes[..waiting]) {
        Ok(count) => count,
        Err(error) => {
            return (0, would_block(&error, &mut destination.writable).unwrap_or(Moved::DestinationFailed(error)));
        }
    };
    match from.read_exact(&mut bytes[..taken]) {
        Ok(()) => (taken as u64, Moved::More),
        Err(error) => (taken as u64, Moved::SourceFailed(error)),
    }
}

/// Fills the empty `pipe` with what `from` offers. The kernel's splice stops at urgent data, as if there were nothing more or, at
/// the end of the stream, as if that were reached: the urgent byte is read instead.
fn fill(pipe: &mut Pipe, from: &Socket, is_urgent: bool) -> io::Result<usize> {
    let result = pipe.fill(from);
    let may_hide_more = match &result {
        Ok(count) => *count == 0,
        Err(error) => is_urgent && error.kind() == io::ErrorKind::WouldBlock,
    };
    // What is no TCP socket has no mark.
    if !may_hide_more || !transparent::is_at_urgent_mark(from).unwrap_or(false) {
        return result;
    }
    let (mut byte, mut source) = ([0], from);
    match source.read(&mut byte)? {
        0 => Ok(0),
        _ => pipe.push(&byte),
    }
}

/// What an error that is none means.
fn would_block(error: &io::Error, is_ready: &mut bool) -> Option<Moved> {
    match error.kind() {
        io::ErrorKind::WouldBlock => {
            *is_ready = false;
            Some(Moved::Blocked)
        }
        io::ErrorKind::Interrupted => Some(Moved::More),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Domain, Socket, Type};

    fn pair() -> [Tcp; 2] {
        let (one, other) = Socket::pair(Domain::UNIX, Type::STREAM, None).expect("sockets");
        [one, other].map(|socket| {
            socket.set_nonblocking(true).expect("nonblocking");
            Tcp::accepted(socket)
        })
    }

    #[test]
    fn connections_that_end_with_bytes_in_a_pipe_leave_their_places_to_others() {
        let mut pipes = Pipes::new();
        for _ in 0..2 * LARGE_PIPES {
            let ([from, mut source], [mut destination, _to]) = (pair(), pair());
            let mut from = from.socket.expect("a socket");
            // More than the other end takes unread.
            while from.write(&[7; 4096]).is_ok() {}
            destination.socket.as_ref().expect("a socket").set_send_buffer_size(4096).expect("a buffer");
            let mut splice = Splice::default();
            while destination.writable {
                splice.relay(&mut pipes, &mut source, &mut destination);
            }
            assert!(splice.pipe.as_ref().is_some_and(|lent| lent.is_large && lent.pipe.filled() > 0));
            splice.close(&mut pipes);
        }
        assert_eq!((pipes.large, pipes.idle.each_ref().map(Vec::len)), (0, [0, 0]));
    }

    #[test]
    fn without_a_pipe_bytes_are_copied_and_what_does_not_fit_stays_where_it_is() {
        let ([from, mut source], [mut destination, to]) = (pair(), pair());
        let (mut from, mut to) = (from.socket.expect("a socket"), to.socket.expect("a socket"));
        destination.socket.as_ref().expect("a socket").set_send_buffer_size(4096).expect("a buffer");
        let sent: Vec<u8> = (0..100_000u32).map(|byte| (byte % 251) as u8).collect();
        let (mut offered, mut copied, mut received) = (0, 0, Vec::new());
        let ended = loop {
            if offered < sent.len() {
                offered += from.write(&sent[offered..]).unwrap_or(0);
            } else {
                let _ = from.shutdown(std::net::Shutdown::Write);
            }
            (source.readable, destination.writable) = (true, true);
            let (count, moved) = copy(&mut source, &mut destination);
            copied += count as usize;
            if !matches!(moved, Moved::More) {
                let mut bytes = [0; 8192];
                while let Ok(count @ 1..) = to.read(&mut bytes) {
                    received.extend_from_slice(&bytes[..count]);
                }
            }
            if !matches!(moved, Moved::More | Moved::Blocked) {
                break moved;
            }
        };
        assert!(matches!(ended, Moved::Ended), "{ended:?}");
        assert_eq!(copied, sent.len());
        assert!(received == sent, "{} bytes in another order", received.len());
    }

    #[test]
    fn what_the_large_pipes_do_not_reach_for_gets_small_ones() {
        let mut pipes = Pipes::new();
        let lent: Vec<_> = (0..LARGE_PIPES + 2).map(|_| pipes.take().expect("a pipe")).collect();
        assert_eq!(lent.iter().filter(|lent| lent.is_large).count(), LARGE_PIPES);
        lent.into_iter().for_each(|lent| pipes.give_back(lent));
        assert_eq!((pipes.large, pipes.idle.each_ref().map(Vec::len)), (LARGE_PIPES, [2, LARGE_PIPES]));
        assert!(pipes.take().expect("a pipe").is_large);
    }
}
