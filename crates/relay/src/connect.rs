//! The connect request, which says which TCP connection a stream carries, and the far gateway's connect reply.
//!
//! | bytes | field |
//! | --- | --- |
//! | 1 | what the stream is for, [`CONNECT`] |
//! | 1 | DSCP of the client's packets, 0 to 63; [`HAS_FIELDS`] is added where fields follow (128 is reserved) |
//! | 1 | family, 4 or 6 |
//! | 4 or 16 | address of the client |
//! | 2 | port of the client, big-endian |
//! | 4 or 16 | address that the client called |
//! | 2 | port that the client called, big-endian |
//! | 1 | length of the fields, only where there are some |
//! | length | fields: a type (1), a length (1) and as many bytes |
//!
//! This version has no fields. Of a later one's, those of a type from [`SKIPPABLE`] on are skipped; others are refused, for the
//! connection would not be what the client's gateway asks for. The connection's data follow at once. In the other direction the first byte is [`CONNECTED`], sent when the far gateway
//! has reached the server; a failure is reported by resetting the stream with its reason, so that it cannot be mistaken for
//! an empty, clean end. A stream that begins with another byte may be an announcement ([`crate::reach`]).

use crate::dscp::Dscp;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// First byte of a stream that carries a connection.
pub const CONNECT: u8 = 1;
/// The bit beside the DSCP that says that fields follow.
pub const HAS_FIELDS: u8 = 0x40;
/// The lowest type of a field that a receiver skips if it does not know it.
pub const SKIPPABLE: u8 = 0x80;
/// Length of the longest fields.
pub const MAX_FIELDS: usize = 64;
/// Length of the longest connect request (IPv6, with fields).
pub const MAX_LENGTH: usize = ADDRESSES_V6 + 1 + MAX_FIELDS;
/// Bytes up to the end of the addresses.
const ADDRESSES_V4: usize = 3 + 2 * (4 + 2);
const ADDRESSES_V6: usize = 3 + 2 * (16 + 2);
/// First byte of the reverse direction: the server has accepted the connection, its data follow.
pub const CONNECTED: u8 = 0;

/// The connection that a stream carries: who called whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectRequest {
    /// The client's address and port.
    pub source: SocketAddr,
    /// The server's address and port, as the client called them; of the same family as `source`.
    pub destination: SocketAddr,
    /// DSCP of the client's packets.
    pub dscp: Dscp,
}

/// Why bytes are not a connect request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectRequestError {
    /// The first byte names no purpose that streams have in this version.
    #[error("a stream of kind {0} is unknown")]
    Kind(u8),
    /// The DSCP is none.
    #[error("DSCP {0} is above 63")]
    Dscp(u8),
    /// A field is unknown and must not be skipped.
    #[error("field {0} is unknown")]
    Field(u8),
    /// The fields are longer than [`MAX_FIELDS`], or one is cut off.
    #[error("the fields are malformed")]
    Fields,
    /// The family is neither IPv4 nor IPv6.
    #[error("family {0} is neither 4 nor 6")]
    Family(u8),
    /// A port is zero.
    #[error("port 0 is no port")]
    Port,
    /// `source` and `destination` are of different families (when encoding).
    #[error("client and server are of different families")]
    MixedFamilies,
}

impl ConnectRequest {
    /// A connection whose packets have DSCP 0.
    pub fn new(source: SocketAddr, destination: SocketAddr) -> Self {
        Self { source, destination, dscp: Dscp::default() }
    }

    /// Whether a far gateway can be asked for the connection: both addresses are of one family, and no port is zero.
    pub fn can_be_made(&self) -> bool {
        self.encode(&mut [0; MAX_LENGTH]).is_ok()
    }

    /// Writes the connect request into `buffer`; returns its length.
    ///
    /// # Errors
    /// If the two addresses are of different families, or a port is zero.
    pub fn encode(&self, buffer: &mut [u8; MAX_LENGTH]) -> Result<usize, ConnectRequestError> {
        if self.source.port() == 0 || self.destination.port() == 0 {
            return Err(ConnectRequestError::Port);
        }
        buffer[0] = CONNECT;
        buffer[1] = self.dscp.value();
        match (self.source.ip(), self.destination.ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                buffer[2] = 4;
                buffer[3..7].copy_from_slice(&source.octets());
                buffer[7..9].copy_from_slice(&self.source.port().to_be_bytes());
                buffer[9..13].copy_from_slice(&destination.octets());
                buffer[13..15].copy_from_slice(&self.destination.port().to_be_bytes());
                Ok(ADDRESSES_V4)
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                buffer[2] = 6;
                buffer[3..19].copy_from_slice(&source.octets());
                buffer[19..21].copy_from_slice(&self.source.port().to_be_bytes());
                buffer[21..37].copy_from_slice(&destination.octets());
                buffer[37..39].copy_from_slice(&self.destination.port().to_be_bytes());
                Ok(ADDRESSES_V6)
            }
            _ => Err(ConnectRequestError::MixedFamilies),
        }
    }
}

/// Collects a connect request that arrives in pieces. Holds at most [`MAX_LENGTH`] bytes, whatever comes.
#[derive(Debug, Clone, Default)]
pub struct Parser {
    bytes: Vec<u8>,
}

impl Parser {
    /// A parser that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether it has seen nothing.
    pub fn is_new(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Reads on in `input`: returns how many of its bytes belong to the connect request, and the connect request if it is complete.
    /// What follows those bytes is the connection's data.
    ///
    /// # Errors
    /// At the first byte that cannot be part of a connect request.
    pub fn push(&mut self, input: &[u8]) -> Result<(usize, Option<ConnectRequest>), ConnectRequestError> {
        for (at, byte) in input.iter().enumerate() {
            self.bytes.push(*byte);
            self.check_last()?;
            if self.missing() == 0 {
                return self.decode().map(|request| (at + 1, Some(request)));
            }
        }
        Ok((input.len(), None))
    }

    /// How many bytes the connect request has at least beyond those seen.
    pub fn missing(&self) -> usize {
        let seen = self.bytes.len();
        let [_, dscp, family, ..] = *self.bytes else { return 3 - seen };
        let addresses = addresses(family);
        let fields = match self.bytes.get(addresses) {
            Some(length) => 1 + usize::from(*length),
            None => usize::from(dscp & HAS_FIELDS != 0),
        };
        addresses + fields - seen
    }

    fn check_last(&self) -> Result<(), ConnectRequestError> {
        match *self.bytes {
            [kind] if kind != CONNECT => Err(ConnectRequestError::Kind(kind)),
            [_, dscp] if Dscp::new(dscp & !HAS_FIELDS).is_none() => Err(ConnectRequestError::Dscp(dscp)),
            [_, _, family] if family != 4 && family != 6 => Err(ConnectRequestError::Family(family)),
            [_, _, family, .., length]
                if self.bytes.len() == addresses(family) + 1 && usize::from(length) > MAX_FIELDS =>
            {
                Err(ConnectRequestError::Fields)
            }
            _ => Ok(()),
        }
    }

    fn decode(&self) -> Result<ConnectRequest, ConnectRequestError> {
        let (addresses, fields) = self.bytes.split_at(addresses(self.bytes[2]));
        let (source, destination) = addresses[3..].split_at((addresses.len() - 3) / 2);
        let dscp = self.bytes[1] & !HAS_FIELDS;
        let dscp = Dscp::new(dscp).ok_or(ConnectRequestError::Dscp(dscp))?;
        let request = ConnectRequest { source: endpoint(source), destination: endpoint(destination), dscp };
        if request.source.port() == 0 || request.destination.port() == 0 {
            return Err(ConnectRequestError::Port);
        }
        check_fields(fields.get(1..).unwrap_or_default())?;
        Ok(request)
    }
}

/// Bytes up to the end of the addresses of a family.
fn addresses(family: u8) -> usize {
    if family == 4 { ADDRESSES_V4 } else { ADDRESSES_V6 }
}

/// Finds a field that must not be skipped: this version has none that it knows.
fn check_fields(mut fields: &[u8]) -> Result<(), ConnectRequestError> {
    while let [kind, length, rest @ ..] = fields {
        fields = rest.get(usize::from(*length)..).ok_or(ConnectRequestError::Fields)?;
        if *kind < SKIPPABLE {
            return Err(ConnectRequestError::Field(*kind));
        }
    }
    if fields.is_empty() { Ok(()) } else { Err(ConnectRequestError::Fields) }
}

/// An address of 4 or 16 bytes followed by a port of 2.
fn endpoint(bytes: &[u8]) -> SocketAddr {
    let (address, port) = bytes.split_at(bytes.len() - 2);
    let ip = match <[u8; 4]>::try_from(address) {
        Ok(octets) => IpAddr::V4(Ipv4Addr::from(octets)),
        Err(_) => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(address).expect("the length is 6 or 18"))),
    };
    SocketAddr::new(ip, u16::from_be_bytes([port[0], port[1]]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn open(source: &str, destination: &str) -> ConnectRequest {
        ConnectRequest::new(source.parse().unwrap(), destination.parse().unwrap())
    }

    fn encoded(request: &ConnectRequest) -> Vec<u8> {
        let mut buffer = [0; MAX_LENGTH];
        let length = request.encode(&mut buffer).unwrap();
        buffer[..length].to_vec()
    }

    #[test]
    fn the_bytes_are_those_of_the_table() {
        let bytes = encoded(&open("10.0.0.1:256", "192.0.2.9:80"));
        assert_eq!(bytes, [1, 0, 4, 10, 0, 0, 1, 1, 0, 192, 0, 2, 9, 0, 80]);
        let voice = ConnectRequest { dscp: "ef".parse().unwrap(), ..open("10.0.0.1:256", "192.0.2.9:80") };
        assert_eq!(encoded(&voice)[..3], [1, 46, 4]);
        assert_eq!(encoded(&open("[2001:db8::1]:5", "[2001:db8::2]:443")).len(), ADDRESSES_V6);
    }

    #[test]
    fn what_is_not_a_request_is_refused_at_the_first_wrong_byte() {
        assert_eq!(Parser::new().push(&[2]), Err(ConnectRequestError::Kind(2)));
        assert_eq!(Parser::new().push(&[1, 128]), Err(ConnectRequestError::Dscp(128)));
        assert_eq!(Parser::new().push(&[1, 0, 5]), Err(ConnectRequestError::Family(5)));
        assert_eq!(
            Parser::new().push(&[1, 0, 4, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0, 0]),
            Err(ConnectRequestError::Port),
            "port zero"
        );
        let mixed = open("10.0.0.1:1", "[2001:db8::2]:2");
        assert_eq!(mixed.encode(&mut [0; MAX_LENGTH]), Err(ConnectRequestError::MixedFamilies));
        assert_eq!(open("10.0.0.1:0", "10.0.0.2:1").encode(&mut [0; MAX_LENGTH]), Err(ConnectRequestError::Port));
        assert!(!mixed.can_be_made() && open("10.0.0.1:1", "10.0.0.2:1").can_be_made());
    }

    /// A connect request with these fields.
    fn with_fields(request: &ConnectRequest, fields: &[u8]) -> Vec<u8> {
        let mut bytes = encoded(request);
        bytes[1] |= HAS_FIELDS;
        bytes.push(fields.len() as u8);
        bytes.extend(fields);
        bytes
    }

    #[test]
    fn fields_of_a_later_version_are_skipped_or_named() {
        let request = ConnectRequest { dscp: "ef".parse().unwrap(), ..open("10.0.0.1:256", "192.0.2.9:80") };
        for fields in [&[][..], &[0x80, 0], &[0xff, 2, 1, 2, 0x81, 1, 7]] {
            let mut bytes = with_fields(&request, fields);
            let length = bytes.len();
            bytes.extend(b"data");
            for cut in 0..length {
                let mut parser = Parser::new();
                assert_eq!(parser.push(&bytes[..cut]), Ok((cut, None)));
                assert!((1..=length - cut).contains(&parser.missing()));
                assert_eq!(parser.push(&bytes[cut..]), Ok((length - cut, Some(request))), "{fields:?}");
            }
        }
        for (fields, error) in [
            (&[0x80, 0, 7, 1, 0][..], ConnectRequestError::Field(7)),
            (&[0x80, 2, 0], ConnectRequestError::Fields),
            (&[0x80], ConnectRequestError::Fields),
            (&[0x80; 65], ConnectRequestError::Fields),
        ] {
            assert_eq!(Parser::new().push(&with_fields(&request, fields)), Err(error), "{fields:?}");
        }
    }

    proptest! {
        #[test]
        fn round_trips_in_any_pieces(v6: bool, a: u128, b: u128, p in 1u16.., q in 1u16.., dscp in 0u8..64, cut in 0usize..40, tail: Vec<u8>) {
            let ip = |n: u128| if v6 { IpAddr::V6(n.into()) } else { IpAddr::V4((n as u32).into()) };
            let (source, destination) = (SocketAddr::new(ip(a), p), SocketAddr::new(ip(b), q));
            let request = ConnectRequest { source, destination, dscp: Dscp::new(dscp).unwrap() };
            let mut bytes = encoded(&request);
            let length = bytes.len();
            bytes.extend(tail);
            let (first, second) = bytes.split_at(cut.min(bytes.len()));
            let mut parser = Parser::new();
            let (used, done) = parser.push(first).unwrap();
            if let Some(found) = done {
                prop_assert_eq!((used, found), (length, request));
            } else {
                prop_assert_eq!(used, first.len());
                prop_assert_eq!(parser.push(second), Ok((length - used, Some(request))));
            }
        }

        #[test]
        fn arbitrary_bytes_neither_panic_nor_pile_up(input: Vec<u8>) {
            let mut parser = Parser::new();
            for piece in input.chunks(3) {
                match parser.push(piece) {
                    Ok((used, None)) => prop_assert_eq!(used, piece.len()),
                    Ok((_, Some(_))) | Err(_) => break,
                }
                prop_assert!(parser.bytes.len() < MAX_LENGTH);
            }
        }
    }
}
