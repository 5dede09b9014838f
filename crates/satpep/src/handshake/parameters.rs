//! Transport parameters: the limits that the two sides exchange inside the handshake.
//!
//! | message | fields of fixed length | then |
//! | --- | --- | --- |
//! | init | cipher (1), limits (36) | parameters |
//! | response | versions (2), limits (36) | parameters |
//!
//! The limits are the epoch (8), the wall clock (8), the session's credit (8), a stream's credit (8) and the streams that may
//! be open (4). A parameter is a type, a length and as many bytes, type and length as variable-length integers; one whose
//! type is not known is skipped, as RFC 9000, section 7.4.2, has it.

use super::Echo;
use crate::credit::Credit;
use crate::wire::packet::read_u32;
use crate::wire::varint;
use peering::{Capabilities, Versions};

/// Repeats a nonce of the responder's.
pub(crate) const ECHO: u64 = 1;
/// What the sender offers beyond its versions.
pub(crate) const CAPABILITIES: u64 = 2;
/// Which epoch of the receiver's the sender's session is with.
pub(crate) const SESSION: u64 = 3;

/// Bytes of the limits.
pub(crate) const LIMITS: usize = 8 + 8 + 8 + 8 + 4;

/// The transport parameters of one side, sent inside the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TransportParameters {
    /// Names the run of the gateway's process: another epoch from a known peer means that it lost its streams.
    pub(crate) epoch: u64,
    /// Its wall clock: nanoseconds since 1970.
    pub(crate) timestamp: u64,
    /// Stream bytes that the session's receiver takes before its first credit.
    pub(crate) session_credit: Credit,
    /// Bytes that it takes on a new stream.
    pub(crate) stream_credit: Credit,
    /// Streams that the other side may have open at once.
    pub(crate) max_streams: u32,
    /// What it offers.
    pub(crate) capabilities: Capabilities,
    /// The epoch of the other side's in the session that it has with it, if it has one.
    pub(crate) session: Option<u64>,
}

#[cfg(any(test, fuzzing))]
impl TransportParameters {
    /// What a peer without ambition says of itself.
    pub(crate) fn modest() -> Self {
        Self {
            epoch: 1,
            timestamp: 1,
            session_credit: Credit::new(1 << 20),
            stream_credit: Credit::new(1 << 16),
            max_streams: 20,
            capabilities: Capabilities::NONE,
            session: None,
        }
    }
}

/// Appends what an init says.
pub(super) fn write_init(out: &mut Vec<u8>, cipher: u8, parameters: &TransportParameters, echo: &Echo) {
    out.push(cipher);
    write_parameters(out, parameters);
    if *echo != Echo::default() {
        write_parameter(out, ECHO, echo);
    }
}

/// Reads what an init says: the cipher's code, the transport parameters, and what is repeated. `None` if it is malformed.
pub(super) fn read_init(payload: &[u8]) -> Option<(u8, TransportParameters, Echo)> {
    let (cipher, rest) = payload.split_first()?;
    let (parameters, echo) = read_parameters(rest)?;
    Some((*cipher, parameters, echo))
}

/// Appends what a response says.
pub(super) fn write_response(out: &mut Vec<u8>, versions: Versions, parameters: &TransportParameters) {
    out.extend_from_slice(&versions.encode());
    write_parameters(out, parameters);
}

/// Reads what a response says. `None` if it is malformed.
pub(super) fn read_response(payload: &[u8]) -> Option<(Versions, TransportParameters)> {
    let (versions, rest) = payload.split_first_chunk()?;
    Some((Versions::decode(*versions)?, read_parameters(rest)?.0))
}

fn write_parameters(out: &mut Vec<u8>, parameters: &TransportParameters) {
    for field in
        [parameters.epoch, parameters.timestamp, parameters.session_credit.bytes(), parameters.stream_credit.bytes()]
    {
        out.extend_from_slice(&field.to_be_bytes());
    }
    out.extend_from_slice(&parameters.max_streams.to_be_bytes());
    if parameters.capabilities != Capabilities::NONE {
        let mut value = [0; 8];
        let length = varint::write(parameters.capabilities.bits() & varint::MAX, &mut value);
        write_parameter(out, CAPABILITIES, &value[..length]);
    }
    if let Some(epoch) = parameters.session {
        write_parameter(out, SESSION, &epoch.to_be_bytes());
    }
}

fn write_parameter(out: &mut Vec<u8>, kind: u64, value: &[u8]) {
    for field in [kind, value.len() as u64] {
        let mut bytes = [0; 8];
        let length = varint::write(field, &mut bytes);
        out.extend_from_slice(&bytes[..length]);
    }
    out.extend_from_slice(value);
}

fn read_parameters(bytes: &[u8]) -> Option<(TransportParameters, Echo)> {
    let (limits, fields) = bytes.split_first_chunk::<LIMITS>()?;
    let long = |at: usize| u64::from_be_bytes(*limits[at..].first_chunk().expect("the field lies inside the array"));
    let in_varint_range = |value: u64| (value <= varint::MAX).then_some(value);
    let mut parameters = TransportParameters {
        epoch: long(0),
        timestamp: long(8),
        session_credit: Credit::new(in_varint_range(long(16))?),
        stream_credit: Credit::new(in_varint_range(long(24))?),
        max_streams: read_u32(limits, 32)?,
        capabilities: Capabilities::NONE,
        session: None,
    };
    let mut echo = Echo::default();
    read_fields(fields, |kind, mut value| {
        match kind {
            ECHO => echo = value.try_into().ok()?,
            CAPABILITIES => parameters.capabilities = Capabilities::from_bits(varint::read(&mut value)?),
            SESSION => parameters.session = Some(u64::from_be_bytes(value.try_into().ok()?)),
            _ => {}
        }
        Some(())
    })?;
    Some((parameters, echo))
}

/// Hands each parameter to `take`; `None` if one is cut off, or `take` says so.
fn read_fields<'a>(mut input: &'a [u8], mut take: impl FnMut(u64, &'a [u8]) -> Option<()>) -> Option<()> {
    while !input.is_empty() {
        let kind = varint::read(&mut input)?;
        let length = usize::try_from(varint::read(&mut input)?).ok()?;
        let (value, rest) = input.split_at_checked(length)?;
        take(kind, value)?;
        input = rest;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters() -> TransportParameters {
        TransportParameters {
            epoch: 1 << 63,
            timestamp: 5,
            session_credit: Credit::new(1 << 40),
            stream_credit: Credit::new(1 << 20),
            max_streams: 9,
            capabilities: Capabilities::from_bits(1 << 40 | 1),
            session: Some(3 << 62 | 5),
        }
    }

    #[test]
    fn what_is_said_is_read_and_what_is_unknown_is_skipped() {
        let mut init = Vec::new();
        write_init(&mut init, 2, &parameters(), &[7; 16]);
        assert_eq!(read_init(&init), Some((2, parameters(), [7; 16])));
        // A type of two bytes, and one that has no value.
        init.extend([0x7f, 0xff, 3, 1, 2, 3, 0x3f, 0]);
        assert_eq!(read_init(&init), Some((2, parameters(), [7; 16])));
        let mut response = Vec::new();
        let versions = Versions::new(3, 4).expect("a range");
        write_response(&mut response, versions, &parameters());
        assert_eq!(read_response(&response), Some((versions, parameters())));
    }

    #[test]
    fn what_is_cut_off_is_refused() {
        let mut init = Vec::new();
        let plain = TransportParameters { capabilities: Capabilities::NONE, session: None, ..parameters() };
        write_init(&mut init, 2, &plain, &[0; 16]);
        assert_eq!(init.len(), 1 + LIMITS, "nothing optional");
        for length in 0..init.len() {
            assert_eq!(read_init(&init[..length]), None, "{length}");
        }
        for tail in [&[3][..], &[3, 2, 0], &[1, 2, 0, 0], &[0x40], &[2, 0], &[3, 1, 7]] {
            assert_eq!(read_init(&[&init, tail].concat()), None, "{tail:?}");
        }
    }
}
