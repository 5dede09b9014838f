//! Whether what the kernel has taken goes on to arrive.

use std::io::{self, Write};
use std::net::TcpStream;

/// What the kernel has yet to bring to the other end, as it was last looked at. A connection whose send buffer holds more than the link
/// carries in the time that a write may wait is slow, and does not stand still.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    /// Bytes that have never been sent, and segments that have not been acknowledged.
    outstanding: (u32, u32),
}

impl Delivery {
    /// Looks again; returns whether anything has changed.
    pub(super) fn goes_on(&mut self, stream: &TcpStream) -> bool {
        let Ok(info) = kernel::tcp::tcp_info(stream) else { return false };
        let outstanding = (info.unsent_bytes, info.unacknowledged_segments);
        std::mem::replace(&mut self.outstanding, outstanding) != outstanding
    }

    /// Writes all of `bytes`. That fails only if nothing has moved for as long as one write may take.
    pub(super) fn write_all(&mut self, stream: &mut TcpStream, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match stream.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    bytes = &bytes[written..];
                    self.goes_on(stream);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && self.goes_on(stream) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits until something can be read, or nothing has moved for as long as one read may take: the read says what there is.
    pub(super) fn await_answer(&mut self, stream: &TcpStream) {
        loop {
            match stream.peek(&mut [0]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && self.goes_on(stream) => {}
                _ => return,
            }
        }
    }
}
