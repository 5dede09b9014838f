//! What the two ends of a transfer say to each other besides the data. Numbers are big-endian.

use super::{Checksum, TransferError};
use units::{Bytes, Duration};

/// First bytes in either direction, with the version of what follows.
const MAGIC: [u8; 9] = *b"bentpipe\x01";
const REQUEST: u8 = b'R';
const DATA: u8 = b'S';

/// Length of what opens either direction: magic, version and kind.
pub const PREFIX_LENGTH: usize = MAGIC.len() + 1;
/// Length of the rest of a sender's header: the checksum's kind and the number of bytes of data.
pub const HEADER_REST_LENGTH: usize = 1 + 8;
/// Length of a receiver's report: verified or not, bytes of data, nanoseconds.
pub const REPORT_LENGTH: usize = 1 + 8 + 8;

/// What a connection begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A receiver asks for data.
    Request,
    /// A sender's header, the rest of which follows.
    Data,
}

/// What a sender announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub checksum: Checksum,
    pub size: Bytes,
}

/// What a receiver answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    pub verified: bool,
    pub bytes: Bytes,
    /// From the receiver's start (its connect, or its accept) to the last byte of data.
    pub time: Duration,
}

/// The bytes of a request.
pub fn request() -> [u8; PREFIX_LENGTH] {
    prefix(REQUEST)
}

fn prefix(kind: u8) -> [u8; PREFIX_LENGTH] {
    let mut bytes = [kind; PREFIX_LENGTH];
    bytes[..MAGIC.len()].copy_from_slice(&MAGIC);
    bytes
}

/// Reads what opens a direction.
pub fn read_prefix(bytes: &[u8; PREFIX_LENGTH]) -> Result<Kind, TransferError> {
    match bytes.strip_prefix(&MAGIC) {
        Some([REQUEST]) => Ok(Kind::Request),
        Some([DATA]) => Ok(Kind::Data),
        _ => Err(TransferError::Protocol("does not speak the protocol of `bentpipe send` and `receive`")),
    }
}

impl Header {
    pub fn write(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&prefix(DATA));
        to.push(match self.checksum {
            Checksum::LengthOnly => 0,
            Checksum::Sha256 => 1,
            Checksum::Xxh3 => 2,
        });
        to.extend_from_slice(&self.size.as_u64().to_be_bytes());
    }

    pub fn read_rest(bytes: &[u8; HEADER_REST_LENGTH]) -> Result<Self, TransferError> {
        let [checksum, size @ ..] = *bytes;
        let checksum = match checksum {
            0 => Checksum::LengthOnly,
            1 => Checksum::Sha256,
            2 => Checksum::Xxh3,
            _ => return Err(TransferError::Protocol("announces a checksum of an unknown kind")),
        };
        Ok(Self { checksum, size: Bytes::new(u64::from_be_bytes(size)) })
    }
}

impl Report {
    pub fn to_bytes(self) -> [u8; REPORT_LENGTH] {
        let mut bytes = [u8::from(self.verified); REPORT_LENGTH];
        bytes[1..9].copy_from_slice(&self.bytes.as_u64().to_be_bytes());
        bytes[9..].copy_from_slice(&self.time.as_nanos().to_be_bytes());
        bytes
    }

    pub fn from_bytes(bytes: &[u8; REPORT_LENGTH]) -> Self {
        let number = |at: usize| bytes[at..at + 8].iter().fold(0, |n, &byte| n << 8 | u64::from(byte));
        Self { verified: bytes[0] == 1, bytes: Bytes::new(number(1)), time: Duration::from_nanos(number(9)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_round_trips() {
        for checksum in [Checksum::Sha256, Checksum::Xxh3, Checksum::LengthOnly] {
            let header = Header { checksum, size: Bytes::new(u64::MAX - 1) };
            let mut bytes = Vec::new();
            header.write(&mut bytes);
            let (prefix, rest) = bytes.split_first_chunk().unwrap();
            assert_eq!(read_prefix(prefix).unwrap(), Kind::Data);
            assert_eq!(Header::read_rest(rest.try_into().unwrap()).unwrap(), header);
        }
    }

    #[test]
    fn a_report_round_trips() {
        let report = Report { verified: true, bytes: Bytes::new(1 << 40), time: Duration::from_millis(1960) };
        assert_eq!(Report::from_bytes(&report.to_bytes()), report);
    }

    #[test]
    fn strangers_are_told_apart() {
        assert_eq!(read_prefix(&request()).unwrap(), Kind::Request);
        assert!(read_prefix(b"GET / HTTP").is_err());
        assert!(read_prefix(b"bentpipe\x02S").is_err());
    }
}
