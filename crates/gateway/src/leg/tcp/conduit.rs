//! From one socket to another through a pipe, without copying.

use crate::leg::Tcp;
use kernel::pipe::Pipe;
use std::io;

/// Bytes of the pipes that busy connections use: one system call then moves what a fast link brings within a millisecond.
const LARGE: usize = 1 << 20;
/// How many of those there are; they are never given back.
const LARGE_PIPES: usize = 64;
/// Bytes of all other pipes, which exist only while a connection has bytes in one.
const SMALL: usize = 64 << 10;

/// Bytes that TLS takes at once: a few of its records.
const SCRATCH: usize = 64 << 10;

/// Pipes that hold nothing now.
#[derive(Debug)]
pub(super) struct Pipes {
    idle: Vec<Pipe>,
    large: usize,
    /// Where bytes are that TLS has to touch.
    pub(super) scratch: Vec<u8>,
}

impl Pipes {
    pub(super) fn new() -> Self {
        Self { idle: Vec::new(), large: 0, scratch: vec![0; SCRATCH] }
    }

    fn take(&mut self) -> io::Result<Pipe> {
        if let Some(pipe) = self.idle.pop() {
            return Ok(pipe);
        }
        if self.large < LARGE_PIPES {
            self.large += 1;
            return Pipe::new(LARGE);
        }
        Pipe::new(SMALL)
    }

    fn give_back(&mut self, pipe: Pipe) {
        debug_assert_eq!(pipe.filled(), 0);
        if self.idle.len() < LARGE_PIPES {
            self.idle.push(pipe);
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
pub(super) struct Conduit {
    pipe: Option<Pipe>,
}

impl Conduit {
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
            let mut pipe = match pipes.take() {
                Ok(pipe) => pipe,
                Err(error) => return (0, Moved::SourceFailed(error)),
            };
            match pipe.fill(from) {
                Ok(0) => {
                    pipes.give_back(pipe);
                    return (0, Moved::Ended);
                }
                Ok(_) => self.pipe = Some(pipe),
                Err(error) => {
                    pipes.give_back(pipe);
                    return (0, would_block(&error, &mut source.readable).unwrap_or(Moved::SourceFailed(error)));
                }
            }
        }
        let Some(pipe) = &mut self.pipe else { return (0, Moved::Blocked) };
        match pipe.drain(to) {
            Ok(count) => {
                if pipe.filled() == 0 {
                    self.pipe.take().into_iter().for_each(|pipe| pipes.give_back(pipe));
                }
                (count as u64, Moved::More)
            }
            Err(error) => {
                (0, would_block(&error, &mut destination.writable).unwrap_or(Moved::DestinationFailed(error)))
            }
        }
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
