//! The end that echoes.

use crate::Error;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use slab::Slab;
use socket2::{Domain, Socket, Type};
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;

/// Connections that may wait to be accepted, as far as `net.core.somaxconn` lets them.
const BACKLOG: i32 = 65_535;
/// Bytes read at once.
const CHUNK: usize = 64 << 10;

/// A connection, and what has been read of it and waits to be sent back.
struct Echo {
    stream: TcpStream,
    waiting: Vec<u8>,
}

/// Echoes whatever comes to `addresses`, for as long as the process lives; tells `ready` where that is once it listens.
///
/// # Errors
/// If it cannot listen, or the poll fails.
pub fn serve(addresses: &[SocketAddr], ready: impl FnOnce(&[SocketAddr])) -> Result<(), Error> {
    let mut poll = Poll::new().map_err(Error::failed)?;
    let listeners = addresses.iter().map(|address| listen(*address)).collect::<io::Result<Vec<_>>>();
    let mut listeners = listeners.map_err(Error::failed)?;
    for (at, listener) in listeners.iter_mut().enumerate() {
        poll.registry().register(listener, Token(at), Interest::READABLE).map_err(Error::failed)?;
    }
    let addresses = listeners.iter().map(TcpListener::local_addr).collect::<io::Result<Vec<_>>>();
    ready(&addresses.map_err(Error::failed)?);
    let first = listeners.len();
    let (mut echoes, mut events, mut chunk) = (Slab::<Echo>::new(), Events::with_capacity(1024), vec![0; CHUNK]);
    loop {
        match poll.poll(&mut events, None) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(Error::failed(error)),
            _ => {}
        }
        for event in &events {
            match event.token().0.checked_sub(first) {
                None => accept(&listeners[event.token().0], &poll, first, &mut echoes).map_err(Error::failed)?,
                // The event may be about one that is closed by now.
                Some(at) => {
                    if echoes.get_mut(at).is_some_and(|echo| !echo.advance(&mut chunk)) {
                        echoes.remove(at);
                    }
                }
            }
        }
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(TcpListener::from_std(socket.into()))
}

/// Accepts all that wait.
fn accept(listener: &TcpListener, poll: &Poll, first: usize, echoes: &mut Slab<Echo>) -> io::Result<()> {
    loop {
        match listener.accept() {
            Ok((mut stream, _)) => {
                stream.set_nodelay(true)?;
                let entry = echoes.vacant_entry();
                let token = Token(first + entry.key());
                poll.registry().register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
                entry.insert(Echo { stream, waiting: Vec::new() });
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
            Err(error) => return Err(error),
        }
    }
}

impl Echo {
    /// Reads and sends back what it can; returns whether the connection goes on.
    fn advance(&mut self, chunk: &mut [u8]) -> bool {
        loop {
            while !self.waiting.is_empty() {
                match self.stream.write(&self.waiting) {
                    Ok(count) => drop(self.waiting.drain(..count)),
                    Err(error) => return error.kind() == ErrorKind::WouldBlock,
                }
            }
            match self.stream.read(chunk) {
                Ok(0) => return false,
                Ok(count) => self.waiting.extend_from_slice(&chunk[..count]),
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
    }
}
