//! Sockets with the options that a transfer may set on them.

use super::TransferError;
use kernel::socket_option::{Buffer, set_buffer};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Instant;
use units::{Bytes, Duration};

/// Options of a transfer's socket. What is not given is left to the kernel.
#[derive(Debug, Clone)]
pub struct SocketOptions {
    /// `TCP_CONGESTION`: matters at the sender.
    pub congestion_control: Option<String>,
    /// `SO_SNDBUF`: switches the kernel's automatic tuning off. The kernel doubles it for its own use. One beyond the sysctl
    /// net.core.wmem_max needs `CAP_NET_ADMIN` on the host.
    pub send_buffer: Option<Bytes>,
    /// `SO_RCVBUF`: the same at the receiver, with net.core.rmem_max; it bounds the window from the handshake on.
    pub receive_buffer: Option<Bytes>,
    /// How long connect(), or a read or write, may take without any progress.
    pub timeout: Duration,
}

impl Default for SocketOptions {
    fn default() -> Self {
        Self { congestion_control: None, send_buffer: None, receive_buffer: None, timeout: Duration::from_secs(60) }
    }
}

impl SocketOptions {
    /// A socket for `address` with these options, set before any handshake so that they shape the window from its
    /// first packet on.
    fn socket(&self, address: SocketAddr) -> Result<Socket, TransferError> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))
            .map_err(refused("type", "TCP"))?;
        if let Some(name) = &self.congestion_control {
            socket.set_tcp_congestion(name.as_bytes()).map_err(refused("congestion control", name))?;
        }
        if let Some(size) = self.send_buffer {
            let given = set_buffer(&socket, Buffer::Send, size.as_usize()).map_err(refused("send buffer", size))?;
            check_buffer("send buffer", "net.core.wmem_max", size, Bytes::from(given))?;
        }
        if let Some(size) = self.receive_buffer {
            let given =
                set_buffer(&socket, Buffer::Receive, size.as_usize()).map_err(refused("receive buffer", size))?;
            check_buffer("receive buffer", "net.core.rmem_max", size, Bytes::from(given))?;
        }
        Ok(socket)
    }

    /// Bounds every wait on `stream`, and has it send what it is given at once.
    fn prepare(&self, stream: &TcpStream) -> Result<(), TransferError> {
        let timeout = Some(self.timeout.into());
        stream.set_read_timeout(timeout).map_err(refused("read timeout", self.timeout))?;
        stream.set_write_timeout(timeout).map_err(refused("write timeout", self.timeout))?;
        stream.set_nodelay(true).map_err(refused("TCP_NODELAY option", "on"))
    }
}

/// For `map_err`: `option` could not be set to `value`.
fn refused(option: &'static str, value: impl ToString) -> impl FnOnce(io::Error) -> TransferError {
    let value = value.to_string();
    move |source| TransferError::Option { option, value, source }
}

/// Refuses a buffer that is smaller than it was to be: what is measured with it would be another host's.
fn check_buffer(option: &'static str, sysctl: &'static str, size: Bytes, given: Bytes) -> Result<(), TransferError> {
    if given < size { Err(TransferError::Buffer { option, sysctl, size, given }) } else { Ok(()) }
}

/// Whether the kernel has the congestion control `name`, or can load it.
///
/// # Errors
/// If the kernel gives out no socket to ask with.
pub fn has_congestion_control(name: &str) -> io::Result<bool> {
    let scratch = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    // Any other answer than "not found" (or "no name") is about privileges, which a private namespace will have.
    let answer = scratch.set_tcp_congestion(name.as_bytes()).map_err(|error| error.kind());
    Ok(!matches!(answer, Err(io::ErrorKind::NotFound | io::ErrorKind::InvalidInput)))
}

/// Connects to `address`; returns the connection and the time just before connect().
///
/// # Errors
/// If an option is refused or nobody accepts the connection in time.
pub fn connect(address: SocketAddr, options: &SocketOptions) -> Result<(TcpStream, Instant), TransferError> {
    connect_within(options.timeout, address, options)
}

/// The same for an address beside others: nobody may accept the connection for `timeout` at most.
///
/// # Errors
/// Those of [`connect`].
pub fn connect_within(
    timeout: Duration,
    address: SocketAddr,
    options: &SocketOptions,
) -> Result<(TcpStream, Instant), TransferError> {
    let socket = options.socket(address)?;
    let start = Instant::now();
    socket
        .connect_timeout(&address.into(), timeout.into())
        .map_err(|source| TransferError::Connect { address, source })?;
    let stream = TcpStream::from(socket);
    options.prepare(&stream)?;
    Ok((stream, start))
}

/// Listens on `address`. Connections inherit the options, but are prepared only by [`accept`].
///
/// # Errors
/// If an option is refused or the address cannot be used.
pub fn listen(address: SocketAddr, options: &SocketOptions) -> Result<TcpListener, TransferError> {
    let error = |source| TransferError::Listen { address, source };
    let socket = options.socket(address)?;
    socket.set_reuse_address(true).map_err(error)?;
    socket.bind(&address.into()).map_err(error)?;
    socket.listen(4096).map_err(error)?;
    Ok(socket.into())
}

/// Waits for the next connection, for the listener's read timeout at most if it has one; returns the connection, who called
/// and when.
///
/// # Errors
/// If nobody connected in time, or the listener broke.
pub fn accept(
    listener: &TcpListener,
    options: &SocketOptions,
) -> Result<(TcpStream, SocketAddr, Instant), TransferError> {
    let (stream, from) = listener.accept().map_err(|source| match source.kind() {
        // accept() that SO_RCVTIMEO ends says EAGAIN.
        io::ErrorKind::WouldBlock => {
            let wait = socket2::SockRef::from(listener).read_timeout().ok().flatten();
            TransferError::NobodyConnected(wait.unwrap_or_default().into())
        }
        _ => TransferError::Broken { moment: "while waiting for a connection", bytes: Bytes::ZERO, source },
    })?;
    let now = Instant::now();
    options.prepare(&stream)?;
    Ok((stream, from, now))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No kernel gives as much.
    #[test]
    fn a_buffer_that_the_kernel_cuts_is_refused_with_the_limit() {
        let size = Bytes::new(1 << 30);
        let options = [
            ("wmem_max", SocketOptions { send_buffer: Some(size), ..SocketOptions::default() }),
            ("rmem_max", SocketOptions { receive_buffer: Some(size), ..SocketOptions::default() }),
        ];
        for (sysctl, options) in options {
            let error = listen(SocketAddr::from(([127, 0, 0, 1], 0)), &options).expect_err("it is less").to_string();
            assert!(error.contains(&format!("sysctl -w net.core.{sysctl}=1073741824")), "{error}");
        }
    }

    #[test]
    fn a_buffer_within_the_limit_is_given() {
        let size = Some(Bytes::new(100_000));
        let options = SocketOptions { send_buffer: size, receive_buffer: size, ..SocketOptions::default() };
        listen(SocketAddr::from(([127, 0, 0, 1], 0)), &options).expect("as every host allows");
    }
}
