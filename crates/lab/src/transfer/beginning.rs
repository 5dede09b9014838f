//! What a receiver has already of an interrupted transfer.

use super::checksum::Digest;
use super::wire::{DIGEST_LENGTH, Request};
use super::{Checksum, Content, TransferError};
use std::io::{self, Read};
use units::Bytes;

/// Read at once.
const CHUNK: usize = 256 * 1024;

/// The first bytes of some data, as a receiver keeps them of an interrupted transfer, with their SHA-256.
pub struct Beginning {
    bytes: Bytes,
    digest: Digest,
}

impl Beginning {
    /// Nothing yet.
    pub fn none() -> Self {
        Self { bytes: Bytes::ZERO, digest: Digest::new(Checksum::Sha256) }
    }

    /// All that `from` has.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(from: &mut impl Read) -> io::Result<Self> {
        let mut beginning = Self::none();
        let mut buffer = vec![0; CHUNK];
        loop {
            match from.read(&mut buffer) {
                Ok(0) => return Ok(beginning),
                Ok(read) => beginning.append(&buffer[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The first `bytes` of `content`, from which the rest is read next; `None` if it has fewer. `each` is called after every
    /// part of it.
    pub(super) fn of(
        content: &mut Content,
        bytes: Bytes,
        each: &mut dyn FnMut() -> Result<(), TransferError>,
    ) -> Result<Option<Self>, TransferError> {
        if bytes > content.size() {
            return Ok(None);
        }
        let mut beginning = Self::none();
        let mut buffer = vec![0; CHUNK];
        while beginning.bytes < bytes {
            let wanted = (bytes - beginning.bytes).as_usize().min(CHUNK);
            let read = content.read(&mut buffer[..wanted])?;
            if read == 0 {
                return Err(TransferError::ContentEnded { read: beginning.bytes, announced: content.size() });
            }
            beginning.append(&buffer[..read]);
            each()?;
        }
        Ok(Some(beginning))
    }

    fn append(&mut self, data: &[u8]) {
        self.bytes += Bytes::from(data.len());
        self.digest.update(data);
    }

    /// How many bytes there are.
    pub fn bytes(&self) -> Bytes {
        self.bytes
    }

    /// Asks for what comes after them.
    pub(super) fn request(&self) -> Request {
        let mut digest = [0; DIGEST_LENGTH];
        // SHA-256 has this length.
        digest.copy_from_slice(&self.digest.clone().finish());
        Request { begin: self.bytes, digest }
    }

    /// The digest, for what comes after them to be added.
    pub(super) fn into_digest(self) -> Digest {
        self.digest
    }
}
