//! The end that has the data.

use super::checksum::Digest;
use super::wire::{self, Header, Kind, PREFIX_LENGTH, REPORT_LENGTH, Report};
use super::{Checksum, Content, TransferError, broken};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use units::{Bytes, Duration};

/// Data handed to the kernel at once.
const CHUNK: usize = 256 * 1024;

/// A transfer that the receiver confirmed.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    /// Bytes of data.
    pub bytes: Bytes,
    /// As the receiver measured it: from its connect or accept to the last byte of data.
    pub receiver_time: Duration,
    /// Segments that this end's TCP sent more than once.
    pub retransmitted_segments: u32,
}

/// Waits until the receiver, which connected, asks for the data.
///
/// # Errors
/// If the connection fails or the other end is no receiver.
pub fn await_request(stream: &mut TcpStream) -> Result<(), TransferError> {
    let mut bytes = [0; PREFIX_LENGTH];
    stream.read_exact(&mut bytes).map_err(broken(stream, "before the receiver asked", Bytes::ZERO))?;
    match wire::read_prefix(&bytes)? {
        Kind::Request => Ok(()),
        Kind::Data => Err(TransferError::Protocol("wants to send, too")),
    }
}

/// Sends `content` and waits for the receiver's report. `progress` is called with the bytes of data that the kernel has taken.
///
/// # Errors
/// If the content cannot be read, the connection fails, or what the receiver got does not verify.
pub fn send(
    stream: &mut TcpStream,
    content: &mut Content,
    checksum: Checksum,
    progress: &mut dyn FnMut(Bytes),
) -> Result<Sent, TransferError> {
    let size = content.size();
    let written = write_all(stream, content, checksum, progress);
    if let Err(error @ (TransferError::File { .. } | TransferError::ContentEnded { .. })) = written {
        // The receiver must not take what it has for the whole.
        let _ = stream.shutdown(Shutdown::Both);
        return Err(error);
    }
    written?;
    stream.shutdown(Shutdown::Write).map_err(broken(stream, "after the last byte", size))?;
    let report = read_report(stream, size)?;
    if !report.verified || report.bytes != size {
        return Err(TransferError::NotVerified);
    }
    let retransmitted_segments = kernel::tcp::tcp_info(stream).map_or(0, |info| info.retransmitted_segments);
    Ok(Sent { bytes: size, receiver_time: report.time, retransmitted_segments })
}

fn write_all(
    stream: &mut TcpStream,
    content: &mut Content,
    checksum: Checksum,
    progress: &mut dyn FnMut(Bytes),
) -> Result<(), TransferError> {
    let size = content.size();
    let mut digest = Digest::new(checksum);
    let mut buffer = Vec::with_capacity(CHUNK + 64);
    // Header and first data leave together: a small first segment would cost its own packet.
    Header { checksum, size }.write(&mut buffer);
    let mut sent = Bytes::ZERO;
    loop {
        let start = buffer.len();
        let wanted = (size - sent).as_usize().min(CHUNK - start);
        buffer.resize(start + wanted, 0);
        let read = content.read(&mut buffer[start..])?;
        sent += Bytes::from(read);
        if read < wanted {
            return Err(TransferError::ContentEnded { read: sent, announced: size });
        }
        digest.update(&buffer[start..]);
        if sent == size {
            buffer.extend(digest.finish());
            stream.write_all(&buffer).map_err(broken(stream, "while sending", sent))?;
            progress(sent);
            return Ok(());
        }
        stream.write_all(&buffer).map_err(broken(stream, "while sending", sent))?;
        progress(sent);
        buffer.clear();
    }
}

fn read_report(stream: &mut TcpStream, size: Bytes) -> Result<Report, TransferError> {
    let mut bytes = [0; REPORT_LENGTH];
    stream.read_exact(&mut bytes).map_err(broken(stream, "before the receiver confirmed", size))?;
    Ok(Report::from_bytes(&bytes))
}
