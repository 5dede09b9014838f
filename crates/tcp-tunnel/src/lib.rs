//! The first bytes of a TCP connection between two gateways, for the satellite transport that is the kernel's own TCP.
//!
//! | bytes | session | tunnel request | trial |
//! | --- | --- | --- | --- |
//! | 1 | format, 3 | format, 3 | format, 3 |
//! | 1 | 1 | 2 | 3 |
//! | | 2: oldest and newest version | 8: the session, 8: a number used once in it | as a tunnel request |
//! | | 4: capabilities | 16: tag | 16: tag |
//! | | 32: the initiator's public key | 15 to 104: [`relay::connect`] | 2: length of what follows, and comes back |
//! | | 32: the initiator's nonce | | |
//!
//! The format is that of this head, the same in all versions from 3 on. The version of a session is the highest one that both
//! gateways speak; the ranges of both are under the tags, so that nobody between them can lower it. Without a common version the
//! responder still answers, so that the initiator knows why nothing follows.
//!
//! One connection in each direction is the *session*: the responder answers with a [`Challenge`], the initiator
//! proves with a tag of its own that it holds its private key, and from then on both say messages ([`control`]). Every other connection
//! begins with a tunnel request, whose tag is made with the session's key, and carries the data of one relayed connection; or with a
//! trial, which is there to see how large the packets may be ([`search`]): as many bytes follow as it says, and as many come
//! back.
//!
//! The tunnel request may ride in a SYN (RFC 7413), and what rides there may be delivered twice, or recorded and sent again. So
//! each tunnel request's number is taken once only ([`replay::ReplayWindow`]), whatever else it says; and a session's hello, which
//! anybody may repeat, leads to nothing but a challenge with a fresh nonce.
//!
//! | file | idea |
//! | --- | --- |
//! | `control.rs` | the messages of the control connection |
//! | `handshakes.rs` | how many handshakes of strangers a gateway takes part in |
//! | `waiting.rs` | accepted connections that have sent no request yet |
//! | `replay.rs` | numbers that may be used once |
//! | `notices.rs` | ends of relayed connections that the other gateway has to know |
//! | `search.rs` | the largest packets that a path carries |

pub mod control;
pub mod handshakes;
pub mod notices;
pub mod replay;
pub mod search;
pub mod waiting;

use peering::{Capabilities, PrivateKey, PublicKey, Versions};
use relay::connect::{self, ConnectRequest, ConnectRequestError, MAX_LENGTH};
use ring::hmac;
use subtle::ConstantTimeEq as _;

/// The first byte of every connection.
pub const FORMAT: u8 = 3;
/// The versions that this build speaks.
pub const SPOKEN: Versions = Versions::new(3, 3).expect("3 is not above 3");
const SESSION: u8 = 1;
const TUNNEL: u8 = 2;
const TRIAL: u8 = 3;

/// Bytes of a nonce.
pub const NONCE: usize = 32;
/// Bytes of a tag: HMAC-SHA-256 cut to 128 bits.
pub const TAG: usize = 16;
/// Bytes of a session's hello.
pub const HELLO: usize = 2 + OFFER + 32 + NONCE;
/// Bytes of the answer to it.
pub const CHALLENGE: usize = OFFER + NONCE + 8 + 8 + TAG;
/// Bytes of what a gateway says that it speaks.
const OFFER: usize = 2 + 4;
/// Bytes of a tunnel request before its connect request.
const SEALED: usize = 2 + 8 + 8 + TAG;
/// Bytes of a trial before what comes back.
const TRIAL_LENGTH: usize = SEALED + 2;
/// Bytes of the longest greeting.
pub const LONGEST: usize = SEALED + MAX_LENGTH;

/// What a connection begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Greeting {
    /// A control connection.
    Session(Hello),
    /// A connection that carries a relayed one.
    Tunnel(TunnelRequest),
    /// A connection that sends what follows back.
    Trial(Trial),
}

/// A trial of the path, and the proof that the peer asks for it now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trial {
    /// The session whose key made the tag.
    pub session: u64,
    /// Used once, as that of a tunnel request.
    pub number: u64,
    /// How many bytes follow, and come back.
    pub length: u16,
    tag: [u8; TAG],
}

/// What a gateway speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// Its versions.
    pub versions: Versions,
    /// What it offers beyond them: the lowest 32 bits travel.
    pub capabilities: Capabilities,
}

impl Offer {
    /// That of this build.
    pub const SPOKEN: Self = Self { versions: SPOKEN, capabilities: Capabilities::NONE };

    fn encode(self) -> [u8; OFFER] {
        let [oldest, newest] = self.versions.encode();
        let [a, b, c, d] = (self.capabilities.bits() as u32).to_be_bytes();
        [oldest, newest, a, b, c, d]
    }

    fn decode([oldest, newest, capabilities @ ..]: [u8; OFFER]) -> Option<Self> {
        let capabilities = Capabilities::from_bits(u64::from(u32::from_be_bytes(capabilities)));
        Some(Self { versions: Versions::decode([oldest, newest])?, capabilities })
    }
}

/// The initiator's first message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// What it speaks.
    pub offer: Offer,
    /// Who it says it is.
    pub initiator: PublicKey,
    /// New for each session.
    pub nonce: [u8; NONCE],
}

/// The responder's answer to a hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Challenge {
    /// What the responder speaks.
    pub offer: Offer,
    /// New for each session.
    pub nonce: [u8; NONCE],
    /// Names the session in tunnel requests.
    pub session: u64,
    /// Names the run of the gateway's process: another one means that it lost its connections.
    pub epoch: u64,
    /// Proves that the responder holds its private key.
    pub tag: [u8; TAG],
}

/// Which relayed connection a connection carries, and the proof that the peer says so now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TunnelRequest {
    /// The session whose key made the tag.
    pub session: u64,
    /// Used once.
    pub number: u64,
    /// The relayed connection.
    pub connect: ConnectRequest,
    /// As it was read: fields that this version skips are under the tag, too.
    encoded: ([u8; MAX_LENGTH], usize),
    tag: [u8; TAG],
}

/// Why bytes are not a greeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GreetingError {
    /// The first byte is not that of this protocol since its version 3. Before that it was the version.
    #[error("it begins with {0}, where a gateway of this version begins with {FORMAT}")]
    Format(u8),
    /// The hello's versions are no range.
    #[error("versions {0} to {1} are no range")]
    Versions(u8, u8),
    /// The second byte names no kind.
    #[error("kind {0} is neither a session, a tunnel request nor a trial")]
    Kind(u8),
    /// The relayed connection is not described as it should be.
    #[error(transparent)]
    Request(#[from] ConnectRequestError),
}

impl Hello {
    /// That of an initiator of this build, with a fresh `nonce`.
    pub fn new(initiator: PublicKey, nonce: [u8; NONCE]) -> Self {
        Self { offer: Offer::SPOKEN, initiator, nonce }
    }

    /// The bytes to send.
    pub fn encode(&self) -> [u8; HELLO] {
        let mut bytes = [0; HELLO];
        bytes[..2].copy_from_slice(&[FORMAT, SESSION]);
        bytes[2..2 + OFFER].copy_from_slice(&self.offer.encode());
        bytes[2 + OFFER..34 + OFFER].copy_from_slice(self.initiator.as_bytes());
        bytes[34 + OFFER..].copy_from_slice(&self.nonce);
        bytes
    }
}

impl Challenge {
    /// The bytes to send.
    pub fn encode(&self) -> [u8; CHALLENGE] {
        const SESSION_AT: usize = OFFER + NONCE;
        let mut bytes = [0; CHALLENGE];
        bytes[..OFFER].copy_from_slice(&self.offer.encode());
        bytes[OFFER..SESSION_AT].copy_from_slice(&self.nonce);
        bytes[SESSION_AT..SESSION_AT + 8].copy_from_slice(&self.session.to_be_bytes());
        bytes[SESSION_AT + 8..SESSION_AT + 16].copy_from_slice(&self.epoch.to_be_bytes());
        bytes[SESSION_AT + 16..].copy_from_slice(&self.tag);
        bytes
    }

    /// What [`Challenge::encode`] has written; `None` if the versions are no range.
    pub fn decode(bytes: &[u8; CHALLENGE]) -> Option<Self> {
        Some(Self {
            offer: Offer::decode(field(bytes, 0))?,
            nonce: field(bytes, OFFER),
            session: u64::from_be_bytes(field(bytes, OFFER + NONCE)),
            epoch: u64::from_be_bytes(field(bytes, OFFER + NONCE + 8)),
            tag: field(bytes, OFFER + NONCE + 16),
        })
    }
}

impl TunnelRequest {
    /// The bytes before the connect request, except for the tag: they are what the first byte of a connection says that is
    /// opened ahead of need.
    pub const PREFIX: [u8; 2] = [FORMAT, TUNNEL];

    fn sealed(session: u64, number: u64, tag: &[u8; TAG]) -> [u8; SEALED] {
        let mut bytes = [0; SEALED];
        bytes[..2].copy_from_slice(&Self::PREFIX);
        bytes[2..10].copy_from_slice(&session.to_be_bytes());
        bytes[10..18].copy_from_slice(&number.to_be_bytes());
        bytes[18..].copy_from_slice(tag);
        bytes
    }
}

/// `N` bytes of a message that is longer than `at + N`.
fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    *bytes[at..].first_chunk().expect("the field lies inside the message")
}

/// In a time that does not tell where they differ.
fn is_equal(a: &[u8; TAG], b: &[u8; TAG]) -> bool {
    a[..].ct_eq(&b[..]).into()
}

/// Collects a greeting that arrives in pieces, and never a byte beyond it.
#[derive(Debug, Clone, Default)]
pub struct Parser {
    bytes: Vec<u8>,
    /// The tunnel request's connect request, once its sealed part is complete.
    parser: connect::Parser,
    connect: Option<ConnectRequest>,
}

impl Parser {
    /// A parser that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many bytes the greeting has at least beyond those seen: a caller that reads no more reads no data.
    pub fn missing(&self) -> usize {
        match *self.bytes {
            [] => 2,
            [_] => 1,
            [_, SESSION, ..] => HELLO - self.bytes.len(),
            [_, TRIAL, ..] => TRIAL_LENGTH - self.bytes.len(),
            _ => SEALED.saturating_sub(self.bytes.len()) + self.parser.missing(),
        }
    }

    /// Reads on in `input`, which holds at most [`Parser::missing`] bytes. Returns the greeting if it is complete.
    ///
    /// # Errors
    /// At the first byte that cannot be part of a greeting.
    pub fn push(&mut self, input: &[u8]) -> Result<Option<Greeting>, GreetingError> {
        for byte in input {
            self.bytes.push(*byte);
            match *self.bytes {
                [format] if format != FORMAT => return Err(GreetingError::Format(format)),
                [_, SESSION, oldest, newest] if Versions::decode([oldest, newest]).is_none() => {
                    return Err(GreetingError::Versions(oldest, newest));
                }
                [_, kind] if ![SESSION, TUNNEL, TRIAL].contains(&kind) => return Err(GreetingError::Kind(kind)),
                [_, TUNNEL, ..] if self.bytes.len() > SEALED => {
                    self.connect = self.parser.push(std::slice::from_ref(byte))?.1;
                }
                _ => {}
            }
        }
        Ok(self.greeting())
    }

    fn greeting(&self) -> Option<Greeting> {
        if let Some(connect) = self.connect {
            let (session, number) =
                (u64::from_be_bytes(field(&self.bytes, 2)), u64::from_be_bytes(field(&self.bytes, 10)));
            let mut encoded = ([0; MAX_LENGTH], self.bytes.len() - SEALED);
            encoded.0[..encoded.1].copy_from_slice(&self.bytes[SEALED..]);
            return Some(Greeting::Tunnel(TunnelRequest {
                session,
                number,
                connect,
                encoded,
                tag: field(&self.bytes, 18),
            }));
        }
        if self.bytes.len() == TRIAL_LENGTH && self.bytes[1] == TRIAL {
            let number = |at| u64::from_be_bytes(field(&self.bytes, at));
            let length = u16::from_be_bytes(field(&self.bytes, SEALED));
            return Some(Greeting::Trial(Trial {
                session: number(2),
                number: number(10),
                length,
                tag: field(&self.bytes, 18),
            }));
        }
        if self.bytes.len() != HELLO || self.bytes[1] != SESSION {
            return None;
        }
        Some(Greeting::Session(Hello {
            offer: Offer::decode(field(&self.bytes, 2))?,
            initiator: PublicKey::from_bytes(field(&self.bytes, 2 + OFFER)),
            nonce: field(&self.bytes, 34 + OFFER),
        }))
    }
}

/// The key of a session, the same at both ends.
#[derive(Clone)]
pub struct SessionKey {
    session: u64,
    version: Option<u8>,
    key: hmac::Key,
}

/// Why a challenge leads to no session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChallengeError {
    /// Who made it is not the responder, or it is for another hello.
    #[error("the challenge is not the responder's")]
    NotAuthentic,
    /// It is the responder's, which speaks these versions: none of the initiator's.
    #[error("it speaks {0}")]
    Versions(Versions),
}

impl std::fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionKey").field("session", &self.session).finish_non_exhaustive()
    }
}

/// Which end makes a proof.
#[derive(Clone, Copy)]
enum End {
    Responder,
    Initiator,
}

impl SessionKey {
    /// The key for `hello` and the nonce, session and epoch of `challenge`, at the gateway that holds `own`; `peer` is at
    /// the other end and `responder` is that of the two which responds. `None` if the two keys make no shared secret.
    fn derive(
        own: &PrivateKey,
        peer: &PublicKey,
        responder: &PublicKey,
        hello: &Hello,
        challenge: &Challenge,
    ) -> Option<Self> {
        let secret = own.shared_secret(peer)?;
        let mut transcript = b"bentpipe tcp tunnel".to_vec();
        transcript.extend_from_slice(&hello.encode());
        transcript.extend_from_slice(responder.as_bytes());
        transcript.extend_from_slice(&challenge.encode()[..CHALLENGE - TAG]);
        let key = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &secret), &transcript);
        let version = hello.offer.versions.common(challenge.offer.versions);
        Some(Self { session: challenge.session, version, key: hmac::Key::new(hmac::HMAC_SHA256, key.as_ref()) })
    }

    /// At the responder, which holds `own` and speaks what it offers: the challenge for `hello`, with a fresh
    /// `nonce` and `session`. `None` if the initiator's key is none.
    pub fn challenge(
        own: &PrivateKey,
        hello: &Hello,
        offer: Offer,
        nonce: [u8; NONCE],
        session: u64,
        epoch: u64,
    ) -> Option<(Self, Challenge)> {
        let mut challenge = Challenge { offer, nonce, session, epoch, tag: [0; TAG] };
        let key = Self::derive(own, &hello.initiator, &own.public_key(), hello, &challenge)?;
        challenge.tag = key.proof(End::Responder);
        Some((key, challenge))
    }

    /// At the initiator, which holds `own` and has sent `hello` to `responder`: the key, and the proof to send.
    ///
    /// # Errors
    /// If the challenge is not `responder`'s, or the two have no version in common.
    pub fn prove(
        own: &PrivateKey,
        responder: &PublicKey,
        hello: &Hello,
        challenge: &Challenge,
    ) -> Result<(Self, [u8; TAG]), ChallengeError> {
        let key = Self::derive(own, responder, responder, hello, challenge).ok_or(ChallengeError::NotAuthentic)?;
        if !is_equal(&key.proof(End::Responder), &challenge.tag) {
            return Err(ChallengeError::NotAuthentic);
        }
        key.version.ok_or(ChallengeError::Versions(challenge.offer.versions))?;
        let proof = key.proof(End::Initiator);
        Ok((key, proof))
    }

    /// At the responder, which holds `own`: the key of the session that began with `hello` and `challenge`, as
    /// another process of it has had it. `None` if the challenge is not this gateway's.
    pub fn resume(own: &PrivateKey, hello: &Hello, challenge: &Challenge) -> Option<Self> {
        let key = Self::derive(own, &hello.initiator, &own.public_key(), hello, challenge)?;
        is_equal(&key.proof(End::Responder), &challenge.tag).then_some(key)
    }

    /// The session's name.
    pub fn session(&self) -> u64 {
        self.session
    }

    /// The version that both gateways use; `None` if they have none in common, and so no session.
    pub fn version(&self) -> Option<u8> {
        self.version
    }

    /// Whether `proof` is the initiator's, and there can be a session.
    pub fn is_proof(&self, proof: &[u8; TAG]) -> bool {
        self.version.is_some() && is_equal(&self.proof(End::Initiator), proof)
    }

    fn proof(&self, end: End) -> [u8; TAG] {
        self.tag(match end {
            End::Responder => b"called",
            End::Initiator => b"caller",
        })
    }

    /// Writes the tunnel request `number` of the session.
    ///
    /// # Errors
    /// As [`ConnectRequest::encode`].
    pub fn open(&self, number: u64, connect: &ConnectRequest) -> Result<Vec<u8>, ConnectRequestError> {
        let mut encoded = [0; MAX_LENGTH];
        let length = connect.encode(&mut encoded)?;
        let encoded = &encoded[..length];
        let mut bytes = TunnelRequest::sealed(self.session, number, &self.seal(number, encoded)).to_vec();
        bytes.extend_from_slice(encoded);
        Ok(bytes)
    }

    /// Whether the peer has made `request` in this session; the caller checks its number.
    pub fn is_made_by_peer(&self, tunnel_request: &TunnelRequest) -> bool {
        let (encoded, length) = &tunnel_request.encoded;
        let expected = self.seal(tunnel_request.number, &encoded[..*length]);
        tunnel_request.session == self.session && is_equal(&expected, &tunnel_request.tag)
    }

    /// Writes the trial `number` of the session, which `length` bytes are to follow.
    pub fn trial(&self, number: u64, length: u16) -> Vec<u8> {
        let mut bytes = TunnelRequest::sealed(self.session, number, &self.seal_trial(number, length)).to_vec();
        bytes[1] = TRIAL;
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes
    }

    /// Whether the peer has made `trial` in this session; the caller checks its number.
    pub fn is_tried_by_peer(&self, trial: &Trial) -> bool {
        trial.session == self.session && is_equal(&self.seal_trial(trial.number, trial.length), &trial.tag)
    }

    fn seal_trial(&self, number: u64, length: u16) -> [u8; TAG] {
        self.tag(&[b"trial", &number.to_be_bytes()[..], &length.to_be_bytes()].concat())
    }

    fn seal(&self, number: u64, encoded: &[u8]) -> [u8; TAG] {
        self.tag(&[b"opening", &number.to_be_bytes()[..], encoded].concat())
    }

    fn tag(&self, message: &[u8]) -> [u8; TAG] {
        *hmac::sign(&self.key, message).as_ref().first_chunk().expect("HMAC-SHA256 gives 32 bytes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn keys() -> [PrivateKey; 2] {
        [1, 2].map(|byte| PrivateKey::from_random([byte; 32]))
    }

    /// The session's key at the initiator and at the responder.
    fn session() -> (SessionKey, SessionKey) {
        let [near, far] = keys();
        let hello = Hello::new(near.public_key(), [3; NONCE]);
        let (at_far, challenge) = SessionKey::challenge(&far, &hello, Offer::SPOKEN, [4; NONCE], 77, 5).unwrap();
        let challenge = Challenge::decode(&challenge.encode()).unwrap();
        let (at_near, proof) = SessionKey::prove(&near, &far.public_key(), &hello, &challenge).unwrap();
        assert!(at_far.is_proof(&proof));
        assert!(!at_far.is_proof(&challenge.tag), "the challenge's own proof is not the initiator's");
        (at_near, at_far)
    }

    fn parse(bytes: &[u8]) -> Result<Option<Greeting>, GreetingError> {
        let mut parser = Parser::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(parser.missing().min(rest.len()));
            rest = after;
            if let Some(greeting) = parser.push(piece)? {
                assert!(rest.is_empty());
                return Ok(Some(greeting));
            }
        }
        Ok(None)
    }

    fn open(source: &str, destination: &str) -> ConnectRequest {
        ConnectRequest::new(source.parse().unwrap(), destination.parse().unwrap())
    }

    #[test]
    fn both_ends_agree_and_a_tunnel_request_is_taken_for_the_peers() {
        let (near, far) = session();
        for open in [open("10.0.0.1:256", "192.0.2.9:80"), open("[2001:db8::1]:5", "[2001:db8::2]:443")] {
            let bytes = near.open(9, &open).unwrap();
            let Ok(Some(Greeting::Tunnel(tunnel_request))) = parse(&bytes) else { panic!("{bytes:?}") };
            assert_eq!((tunnel_request.session, tunnel_request.number, tunnel_request.connect), (77, 9, open));
            assert!(far.is_made_by_peer(&tunnel_request));
            assert!(
                !far.is_made_by_peer(&TunnelRequest { number: 10, ..tunnel_request }),
                "the number is under the tag"
            );
            let mut elsewhere = bytes.clone();
            *elsewhere.last_mut().unwrap() ^= 1;
            let Ok(Some(Greeting::Tunnel(elsewhere))) = parse(&elsewhere) else { panic!("{elsewhere:?}") };
            assert!(!far.is_made_by_peer(&elsewhere), "and so is the destination");
            assert!(!far.is_made_by_peer(&TunnelRequest { session: 78, ..tunnel_request }));
        }
    }

    #[test]
    fn a_stranger_neither_initiates_nor_responds() {
        let [near, far] = keys();
        let stranger = PrivateKey::from_random([9; 32]);
        let hello = Hello::new(near.public_key(), [3; NONCE]);
        let (at_far, challenge) = SessionKey::challenge(&far, &hello, Offer::SPOKEN, [4; NONCE], 77, 5).unwrap();
        assert!(SessionKey::prove(&stranger, &far.public_key(), &hello, &challenge).is_err());
        let (_, forged) = SessionKey::challenge(&stranger, &hello, Offer::SPOKEN, [4; NONCE], 77, 5).unwrap();
        assert!(SessionKey::prove(&near, &far.public_key(), &hello, &forged).is_err());
        let (_, other) =
            SessionKey::challenge(&far, &Hello { nonce: [8; NONCE], ..hello }, Offer::SPOKEN, [4; NONCE], 77, 5)
                .unwrap();
        assert!(SessionKey::prove(&near, &far.public_key(), &hello, &other).is_err(), "a challenge is for one hello");
        assert!(!at_far.is_proof(&[0; TAG]));
        let nobody = Hello { initiator: PublicKey::from_bytes([0; 32]), ..hello };
        assert!(
            SessionKey::challenge(&far, &nobody, Offer::SPOKEN, [4; NONCE], 77, 5).is_none(),
            "a key of small order"
        );
    }

    #[test]
    fn what_is_no_greeting_is_refused_at_the_first_wrong_byte() {
        assert_eq!(parse(&[2]), Err(GreetingError::Format(2)));
        assert_eq!(parse(&[3, 4]), Err(GreetingError::Kind(4)));
        assert_eq!(parse(&[3, 1, 4, 3]), Err(GreetingError::Versions(4, 3)));
        let mut bytes = session().0.open(1, &open("10.0.0.1:256", "192.0.2.9:80")).unwrap();
        bytes[SEALED] = 9;
        assert_eq!(parse(&bytes), Err(GreetingError::Request(ConnectRequestError::Kind(9))));
    }

    #[test]
    fn another_process_of_the_responder_finds_the_key_again() {
        let [near, far] = keys();
        let hello = Hello::new(near.public_key(), [3; NONCE]);
        let (_, challenge) = SessionKey::challenge(&far, &hello, Offer::SPOKEN, [4; NONCE], 77, 5).unwrap();
        let (at_near, _) = SessionKey::prove(&near, &far.public_key(), &hello, &challenge).unwrap();
        let bytes = at_near.open(9, &open("10.0.0.1:256", "192.0.2.9:80")).unwrap();
        let Ok(Some(Greeting::Tunnel(tunnel_request))) = parse(&bytes) else { panic!("{bytes:?}") };
        assert!(SessionKey::resume(&far, &hello, &challenge).unwrap().is_made_by_peer(&tunnel_request));
        assert!(SessionKey::resume(&far, &hello, &Challenge { epoch: 6, ..challenge }).is_none());
        assert!(SessionKey::resume(&near, &hello, &challenge).is_none(), "it takes the gateway's private key");
    }

    #[test]
    fn the_highest_common_version_is_used_and_nobody_between_can_lower_it() {
        let [near, far] = keys();
        let speaks = |oldest, newest| Offer { versions: Versions::new(oldest, newest).unwrap(), ..Offer::SPOKEN };
        let hello = Hello { offer: speaks(3, 5), ..Hello::new(near.public_key(), [3; NONCE]) };
        let (at_far, challenge) = SessionKey::challenge(&far, &hello, speaks(2, 4), [4; NONCE], 77, 5).unwrap();
        let (at_near, proof) = SessionKey::prove(&near, &far.public_key(), &hello, &challenge).unwrap();
        assert_eq!((at_near.version(), at_far.version(), at_far.is_proof(&proof)), (Some(4), Some(4), true));
        // Someone between them has altered the hello, or alters the challenge.
        let altered = Hello { offer: speaks(3, 3), ..hello };
        let (_, other) = SessionKey::challenge(&far, &altered, speaks(2, 4), [4; NONCE], 77, 5).unwrap();
        let lowered = Challenge { offer: speaks(3, 3), ..challenge };
        for challenge in [other, lowered] {
            let answer = SessionKey::prove(&near, &far.public_key(), &hello, &challenge);
            assert!(matches!(answer, Err(ChallengeError::NotAuthentic)));
        }
    }

    #[test]
    fn without_a_common_version_the_initiator_learns_which_there_are_and_no_proof_counts() {
        let [near, far] = keys();
        let hello = Hello::new(near.public_key(), [3; NONCE]);
        let versions = Versions::new(4, 6).unwrap();
        let offer = Offer { versions, ..Offer::SPOKEN };
        let (at_far, challenge) = SessionKey::challenge(&far, &hello, offer, [4; NONCE], 77, 5).unwrap();
        let answer = SessionKey::prove(&near, &far.public_key(), &hello, &challenge);
        assert!(matches!(answer, Err(ChallengeError::Versions(theirs)) if theirs == versions));
        let proof = at_far.proof(End::Initiator);
        assert!(!at_far.is_proof(&proof));
    }

    #[test]
    fn fields_that_are_skipped_are_under_the_tag() {
        let (near, far) = session();
        let bytes = near.open(9, &open("10.0.0.1:256", "192.0.2.9:80")).unwrap();
        let mut encoded = bytes[SEALED..].to_vec();
        encoded[1] |= connect::HAS_FIELDS;
        encoded.extend([3, 0x80, 1, 7]);
        let mut bytes = TunnelRequest::sealed(77, 9, &near.seal(9, &encoded)).to_vec();
        bytes.extend(&encoded);
        let Ok(Some(Greeting::Tunnel(tunnel_request))) = parse(&bytes) else { panic!("{bytes:?}") };
        assert!(far.is_made_by_peer(&tunnel_request));
        *bytes.last_mut().unwrap() ^= 1;
        let Ok(Some(Greeting::Tunnel(altered))) = parse(&bytes) else { panic!("{bytes:?}") };
        assert_eq!(altered.connect, tunnel_request.connect);
        assert!(!far.is_made_by_peer(&altered));
    }

    #[test]
    fn a_trial_is_taken_for_the_peers() {
        let (near, far) = session();
        let Ok(Some(Greeting::Trial(trial))) = parse(&near.trial(9, 2_800)) else { panic!() };
        assert_eq!((trial.session, trial.number, trial.length), (77, 9, 2_800));
        assert!(far.is_tried_by_peer(&trial));
        assert!(
            !far.is_tried_by_peer(&Trial { length: 65_535, ..trial })
                && !far.is_tried_by_peer(&Trial { number: 8, ..trial })
        );
    }

    #[test]
    fn a_hello_round_trips() {
        let hello = Hello::new(keys()[0].public_key(), [3; NONCE]);
        assert_eq!(parse(&hello.encode()), Ok(Some(Greeting::Session(hello))));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_neither_panic_nor_pile_up(kind in 0u8..4, input: Vec<u8>) {
            let mut parser = Parser::new();
            for byte in [&[FORMAT, kind], &input[..]].concat() {
                prop_assert!((1..=LONGEST).contains(&parser.missing()));
                match parser.push(&[byte]) {
                    Ok(None) => prop_assert!(parser.bytes.len() < LONGEST),
                    Ok(Some(_)) | Err(_) => break,
                }
            }
        }
    }
}
