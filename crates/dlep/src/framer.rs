//! Messages out of a stream of bytes.

use crate::message::{HEADER, Message};
use crate::parse_error::ParseError;

/// Collects bytes until they are a message: at most one message's worth and what came with its end.
#[derive(Debug, Default)]
pub struct Framer {
    buffer: Vec<u8>,
    /// Bytes of it that have been read.
    read: usize,
}

impl Framer {
    /// Takes bytes of the stream. Call [`Framer::next_message`] until there is none before the next call.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.read);
        self.read = 0;
        self.buffer.extend(bytes);
    }

    /// The next message that is complete.
    ///
    /// # Errors
    /// If it is malformed; what comes after it is read all the same.
    pub fn next_message(&mut self) -> Option<Result<Message, ParseError>> {
        let (header, rest) = self.buffer[self.read..].split_first_chunk::<HEADER>()?;
        let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let body = rest.get(..length)?;
        self.read += HEADER + length;
        Some(Message::parse(u16::from_be_bytes([header[0], header[1]]), body))
    }
}
