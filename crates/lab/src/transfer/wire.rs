//! What the two ends of a transfer say to each other besides the data. Every message begins with the same eight bytes, the
//! version and the message's kind. Numbers are big-endian.

use super::{Checksum, Refusal, TransferError};
use std::io::{self, Read};
use units::{Bytes, Duration};

const MAGIC: [u8; 8] = *b"bentpipe";
/// The version of all that follows it.
const VERSION: u8 = 3;

/// Length of what opens every message: magic, version and kind.
const PREFIX_LENGTH: usize = MAGIC.len() + 2;
/// Length of the digest of what a receiver has already: SHA-256.
pub const DIGEST_LENGTH: usize = ring::digest::SHA256_OUTPUT_LEN;

const ASK: u8 = b'A';
const REQUEST: u8 = b'R';
const DATA: u8 = b'S';
const WORKING: u8 = b'W';
const REPORT: u8 = b'V';
const REFUSAL: u8 = b'X';

/// What one end says to the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// A sender that connected wants to be asked for the data, because the receiver may have their beginning.
    Ask,
    /// A receiver asks for the data.
    Request(Request),
    /// The other end is to wait: a sender reads what the receiver has already in its own data, or a receiver brings the data to its disk.
    Working,
    /// A sender's header: data and digest follow.
    Data(Header),
    /// A receiver's last word.
    Report(Report),
    /// Either end's last word.
    Refusal(Refusal),
}

/// What a receiver asks for: everything after the beginning that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    pub(super) begin: Bytes,
    /// SHA-256 of the bytes before `begin`.
    pub(super) digest: [u8; DIGEST_LENGTH],
}

/// What a sender announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub checksum: Checksum,
    /// Where in the content the data begin.
    pub begin: Bytes,
    /// Size of the content, what comes before `begin` included.
    pub size: Bytes,
}

/// What a receiver answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    pub verified: bool,
    /// Bytes of the content that it has.
    pub bytes: Bytes,
    /// From the receiver's start (its connect, or its accept) to the last byte of data.
    pub time: Duration,
}

impl Message {
    /// Appends its bytes to `to`.
    pub fn write(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&MAGIC);
        let kind = match self {
            Self::Ask => ASK,
            Self::Request(_) => REQUEST,
            Self::Working => WORKING,
            Self::Data(_) => DATA,
            Self::Report(_) => REPORT,
            Self::Refusal(_) => REFUSAL,
        };
        to.extend_from_slice(&[VERSION, kind]);
        match self {
            Self::Ask | Self::Working => {}
            Self::Request(Request { begin, digest }) => {
                to.extend_from_slice(&begin.as_u64().to_be_bytes());
                to.extend_from_slice(digest);
            }
            Self::Data(Header { checksum, begin, size }) => {
                to.push(match checksum {
                    Checksum::LengthOnly => 0,
                    Checksum::Sha256 => 1,
                    Checksum::Xxh3 => 2,
                });
                to.extend_from_slice(&begin.as_u64().to_be_bytes());
                to.extend_from_slice(&size.as_u64().to_be_bytes());
            }
            Self::Report(Report { verified, bytes, time }) => {
                to.push(u8::from(*verified));
                to.extend_from_slice(&bytes.as_u64().to_be_bytes());
                to.extend_from_slice(&time.as_nanos().to_be_bytes());
            }
            Self::Refusal(refusal) => to.push(refusal.code()),
        }
    }

    /// Its bytes.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write(&mut bytes);
        bytes
    }

    /// Reads one message from `from`, and not a byte more.
    ///
    /// # Errors
    /// Those of `from`, outside; inside, why what was read is no message.
    pub fn read(from: &mut impl Read) -> io::Result<Result<Self, TransferError>> {
        let prefix: [u8; PREFIX_LENGTH] = read_array(from)?;
        let kind = match prefix.strip_prefix(&MAGIC) {
            Some([VERSION, kind]) => *kind,
            Some([theirs, _]) => return Ok(Err(TransferError::Version { theirs: *theirs, ours: VERSION })),
            _ => return Ok(Err(STRANGER)),
        };
        Ok(Ok(match kind {
            ASK => Self::Ask,
            REQUEST => Self::Request(Request { begin: Bytes::new(read_u64(from)?), digest: read_array(from)? }),
            WORKING => Self::Working,
            DATA => {
                let [checksum] = read_array(from)?;
                let checksum = match checksum {
                    0 => Checksum::LengthOnly,
                    1 => Checksum::Sha256,
                    2 => Checksum::Xxh3,
                    _ => return Ok(Err(TransferError::Protocol("announces a checksum of an unknown kind"))),
                };
                let (begin, size) = (Bytes::new(read_u64(from)?), Bytes::new(read_u64(from)?));
                if begin > size {
                    return Ok(Err(TransferError::Protocol("announces data that begin after their end")));
                }
                Self::Data(Header { checksum, begin, size })
            }
            REPORT => {
                let [verified] = read_array(from)?;
                let (bytes, time) = (Bytes::new(read_u64(from)?), Duration::from_nanos(read_u64(from)?));
                Self::Report(Report { verified: verified == 1, bytes, time })
            }
            REFUSAL => {
                let [code] = read_array(from)?;
                match Refusal::from_code(code) {
                    Some(refusal) => Self::Refusal(refusal),
                    None => return Ok(Err(TransferError::Protocol("refuses for a reason of an unknown kind"))),
                }
            }
            _ => return Ok(Err(STRANGER)),
        }))
    }
}

const STRANGER: TransferError = TransferError::Protocol("does not speak the protocol of `bentpipe send` and `receive`");

fn read_array<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::new(error.kind(), "the other end closed it"),
        _ => error,
    })?;
    Ok(bytes)
}

fn read_u64(from: &mut impl Read) -> io::Result<u64> {
    Ok(u64::from_be_bytes(read_array(from)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Message, TransferError> {
        let mut rest = bytes;
        let message = Message::read(&mut rest).unwrap();
        assert!(message.is_err() || rest.is_empty(), "{message:?} leaves {rest:?}");
        message
    }

    #[test]
    fn messages_round_trip() {
        let (begin, size) = (Bytes::new(1 << 33), Bytes::new(u64::MAX - 1));
        let data = |checksum| Message::Data(Header { checksum, begin, size });
        let report = Report { verified: true, bytes: Bytes::new(1 << 40), time: Duration::from_millis(1960) };
        let mut messages = vec![Message::Ask, Message::Working, Message::Report(report)];
        messages.push(Message::Request(Request { begin, digest: std::array::from_fn(|index| index as u8) }));
        messages.extend([Checksum::Sha256, Checksum::Xxh3, Checksum::LengthOnly].map(data));
        messages.extend(Refusal::ALL.map(Message::Refusal));
        for message in messages {
            assert_eq!(read(&message.to_bytes()).unwrap(), message);
        }
    }

    #[test]
    fn strangers_and_other_versions_are_told_apart() {
        assert!(matches!(read(b"GET / HTTP"), Err(TransferError::Protocol(_))));
        let mut bytes = Message::Ask.to_bytes();
        bytes[MAGIC.len()] = VERSION + 1;
        let other = read(&bytes).unwrap_err().to_string();
        let both = [VERSION + 1, VERSION].map(|version| format!("version {version}"));
        assert!(both.iter().all(|version| other.contains(version)), "{other}");
    }

    #[test]
    fn data_cannot_begin_after_their_end() {
        let header = Header { checksum: Checksum::Sha256, begin: Bytes::new(2), size: Bytes::new(1) };
        assert!(read(&Message::Data(header).to_bytes()).is_err());
    }
}
