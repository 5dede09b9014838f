//! The first bytes of a TCP connection between two gateways, for the satellite leg that is the kernel's own TCP.
//!
//! | bytes | session | opening | trial |
//! | --- | --- | --- | --- |
//! | 1 | version, 2 | version, 2 | version, 2 |
//! | 1 | 1 | 2 | 3 |
//! | | 32: the caller's public key | 8: the session, 8: a number used once in it | as an opening |
//! | | 32: the caller's nonce | 16: tag | 16: tag |
//! | | | 15 or 39: [`crate::preamble`] | 2: length of what follows, and comes back |
//!
//! One connection in each direction is the *session*: the called gateway answers with a [`Challenge`], the caller
//! proves with a tag of its own that it holds its private key, and from then on both say [`words`]. Every other connection
//! begins with an opening, whose tag is made with the session's key, and carries the data of one relayed connection; or with a
//! trial, which is there to see how large the packets may be ([`search`]): as many bytes follow as it says, and as many come
//! back.
//!
//! The opening may ride in a SYN (RFC 7413), and what rides there may be delivered twice, or recorded and sent again. So
//! each opening's number is taken once only ([`once::Window`]), whatever else it says; and a session's hello, which
//! anybody may repeat, leads to nothing but a challenge with a fresh nonce.

pub mod notices;
pub mod once;
pub mod search;
pub mod waiting;
pub mod words;

use crate::preamble::{self, MAX_LENGTH, Open, PreambleError};
use ring::hmac;
use satpep::{PrivateKey, PublicKey};
use subtle::ConstantTimeEq as _;

/// The version written and understood.
pub const VERSION: u8 = 2;
const SESSION: u8 = 1;
const OPENING: u8 = 2;
const TRIAL: u8 = 3;

/// Bytes of a nonce.
pub const NONCE: usize = 32;
/// Bytes of a tag: HMAC-SHA-256 cut to 128 bits.
pub const TAG: usize = 16;
/// Bytes of a session's hello.
pub const HELLO: usize = 2 + 32 + NONCE;
/// Bytes of the answer to it.
pub const CHALLENGE: usize = NONCE + 8 + 8 + TAG;
/// Bytes of an opening before its preamble.
const SEALED: usize = 2 + 8 + 8 + TAG;
/// Bytes of a trial before what comes back.
const TRIAL_LENGTH: usize = SEALED + 2;
/// Bytes of the longest greeting.
pub const LONGEST: usize = SEALED + MAX_LENGTH;

/// What a connection begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Greeting {
    /// The session's own connection.
    Session(Hello),
    /// A connection that carries a relayed one.
    Opening(Opening),
    /// A connection that sends what follows back.
    Trial(Trial),
}

/// A trial of the path, and the proof that the peer asks for it now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trial {
    /// The session whose key made the tag.
    pub session: u64,
    /// Used once, as that of an opening.
    pub number: u64,
    /// How many bytes follow, and come back.
    pub length: u16,
    tag: [u8; TAG],
}

/// The caller of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// Who it says it is.
    pub caller: PublicKey,
    /// Chosen anew for each session.
    pub nonce: [u8; NONCE],
}

/// The answer of the gateway that was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Challenge {
    /// Chosen anew for each session.
    pub nonce: [u8; NONCE],
    /// Names the session in openings.
    pub session: u64,
    /// Names the run of the gateway's process: another one means that it lost its connections.
    pub epoch: u64,
    /// Proves that the called gateway holds its private key.
    pub tag: [u8; TAG],
}

/// Which relayed connection a connection carries, and the proof that the peer says so now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    /// The session whose key made the tag.
    pub session: u64,
    /// Used once.
    pub number: u64,
    /// The relayed connection.
    pub open: Open,
    tag: [u8; TAG],
}

/// Why bytes are not a greeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GreetingError {
    /// The first byte names a version that is not ours.
    #[error("version {0} is unknown")]
    Version(u8),
    /// The second byte names no kind.
    #[error("kind {0} is neither a session, an opening nor a trial")]
    Kind(u8),
    /// The relayed connection is not described as it should be.
    #[error(transparent)]
    Preamble(#[from] PreambleError),
}

impl Hello {
    /// The bytes to send.
    pub fn encode(&self) -> [u8; HELLO] {
        let mut bytes = [0; HELLO];
        bytes[..2].copy_from_slice(&[VERSION, SESSION]);
        bytes[2..34].copy_from_slice(self.caller.as_bytes());
        bytes[34..].copy_from_slice(&self.nonce);
        bytes
    }
}

impl Challenge {
    /// The bytes to send.
    pub fn encode(&self) -> [u8; CHALLENGE] {
        let mut bytes = [0; CHALLENGE];
        bytes[..NONCE].copy_from_slice(&self.nonce);
        bytes[NONCE..NONCE + 8].copy_from_slice(&self.session.to_be_bytes());
        bytes[NONCE + 8..NONCE + 16].copy_from_slice(&self.epoch.to_be_bytes());
        bytes[NONCE + 16..].copy_from_slice(&self.tag);
        bytes
    }

    /// What [`Challenge::encode`] has written.
    pub fn decode(bytes: &[u8; CHALLENGE]) -> Self {
        Self {
            nonce: field(bytes, 0),
            session: u64::from_be_bytes(field(bytes, NONCE)),
            epoch: u64::from_be_bytes(field(bytes, NONCE + 8)),
            tag: field(bytes, NONCE + 16),
        }
    }
}

impl Opening {
    /// The bytes before the preamble, except for the tag: they are what the first byte of a connection says that is
    /// opened ahead of need.
    pub const PREFIX: [u8; 2] = [VERSION, OPENING];

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
    /// The opening's preamble, once its sealed part is complete.
    preamble: preamble::Parser,
    open: Option<Open>,
}

impl Parser {
    /// A parser that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many bytes the greeting has at least beyond those seen: whoever reads no more reads no data.
    pub fn missing(&self) -> usize {
        match *self.bytes {
            [] => 2,
            [_] => 1,
            [_, SESSION, ..] => HELLO - self.bytes.len(),
            [_, TRIAL, ..] => TRIAL_LENGTH - self.bytes.len(),
            _ if self.bytes.len() < SEALED + 3 => SEALED + 3 - self.bytes.len(),
            _ => SEALED + if self.bytes[SEALED + 2] == 4 { 15 } else { MAX_LENGTH } - self.bytes.len(),
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
                [version] if version != VERSION => return Err(GreetingError::Version(version)),
                [_, kind] if ![SESSION, OPENING, TRIAL].contains(&kind) => return Err(GreetingError::Kind(kind)),
                [_, OPENING, ..] if self.bytes.len() > SEALED => {
                    self.open = self.preamble.push(std::slice::from_ref(byte))?.1;
                }
                _ => {}
            }
        }
        Ok(self.greeting())
    }

    fn greeting(&self) -> Option<Greeting> {
        if let Some(open) = self.open {
            let (session, number) =
                (u64::from_be_bytes(field(&self.bytes, 2)), u64::from_be_bytes(field(&self.bytes, 10)));
            return Some(Greeting::Opening(Opening { session, number, open, tag: field(&self.bytes, 18) }));
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
        (self.bytes.len() == HELLO && self.bytes[1] == SESSION).then(|| {
            Greeting::Session(Hello {
                caller: PublicKey::from_bytes(field(&self.bytes, 2)),
                nonce: field(&self.bytes, 34),
            })
        })
    }
}

/// The key of a session, the same at both ends.
#[derive(Clone)]
pub struct SessionKey {
    session: u64,
    key: hmac::Key,
}

impl std::fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionKey").field("session", &self.session).finish_non_exhaustive()
    }
}

/// Which end makes a proof.
#[derive(Clone, Copy)]
enum End {
    Called,
    Caller,
}

impl SessionKey {
    /// The key for `hello` and the nonce, session and epoch of `challenge`, at the gateway that holds `own`; `peer` is at
    /// the other end and `called` is the one of the two that was called. `None` if the two keys make no shared secret.
    fn derive(
        own: &PrivateKey,
        peer: &PublicKey,
        called: &PublicKey,
        hello: &Hello,
        challenge: &Challenge,
    ) -> Option<Self> {
        let secret = own.shared_secret(peer)?;
        let mut transcript = b"bentpipe tcp leg 1".to_vec();
        transcript.extend_from_slice(hello.caller.as_bytes());
        transcript.extend_from_slice(called.as_bytes());
        transcript.extend_from_slice(&hello.nonce);
        transcript.extend_from_slice(&challenge.encode()[..CHALLENGE - TAG]);
        let key = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &secret), &transcript);
        Some(Self { session: challenge.session, key: hmac::Key::new(hmac::HMAC_SHA256, key.as_ref()) })
    }

    /// At the gateway that was called, which holds `own`: the challenge for `hello`, with a fresh `nonce` and `session`.
    /// `None` if the caller's key is none.
    pub fn challenge(
        own: &PrivateKey,
        hello: &Hello,
        nonce: [u8; NONCE],
        session: u64,
        epoch: u64,
    ) -> Option<(Self, Challenge)> {
        let mut challenge = Challenge { nonce, session, epoch, tag: [0; TAG] };
        let key = Self::derive(own, &hello.caller, &own.public_key(), hello, &challenge)?;
        challenge.tag = key.proof(End::Called);
        Some((key, challenge))
    }

    /// At the caller, which holds `own` and has sent `hello` to `called`: the key, and the proof to send, if the challenge
    /// is `called`'s.
    pub fn answer(
        own: &PrivateKey,
        called: &PublicKey,
        hello: &Hello,
        challenge: &Challenge,
    ) -> Option<(Self, [u8; TAG])> {
        let key = Self::derive(own, called, called, hello, challenge)?;
        let expected = key.proof(End::Called);
        let proof = key.proof(End::Caller);
        is_equal(&expected, &challenge.tag).then_some((key, proof))
    }

    /// At the gateway that was called, which holds `own`: the key of the session that began with `hello` and `challenge`, as
    /// another process of it has had it. `None` if the challenge is not this gateway's.
    pub fn resume(own: &PrivateKey, hello: &Hello, challenge: &Challenge) -> Option<Self> {
        let key = Self::derive(own, &hello.caller, &own.public_key(), hello, challenge)?;
        is_equal(&key.proof(End::Called), &challenge.tag).then_some(key)
    }

    /// The session's name.
    pub fn session(&self) -> u64 {
        self.session
    }

    /// Whether `proof` is the caller's.
    pub fn is_proof(&self, proof: &[u8; TAG]) -> bool {
        is_equal(&self.proof(End::Caller), proof)
    }

    fn proof(&self, end: End) -> [u8; TAG] {
        self.tag(match end {
            End::Called => b"called",
            End::Caller => b"caller",
        })
    }

    /// Writes the opening `number` of the session.
    ///
    /// # Errors
    /// As [`Open::encode`].
    pub fn open(&self, number: u64, open: &Open) -> Result<Vec<u8>, PreambleError> {
        let mut preamble = [0; MAX_LENGTH];
        let length = open.encode(&mut preamble)?;
        let preamble = &preamble[..length];
        let mut bytes = Opening::sealed(self.session, number, &self.seal(number, preamble)).to_vec();
        bytes.extend_from_slice(preamble);
        Ok(bytes)
    }

    /// Whether the peer has made `opening` in this session; the caller looks at its number.
    pub fn is_made_by_peer(&self, opening: &Opening) -> bool {
        let mut preamble = [0; MAX_LENGTH];
        let Ok(length) = opening.open.encode(&mut preamble) else { return false };
        let expected = self.seal(opening.number, &preamble[..length]);
        opening.session == self.session && is_equal(&expected, &opening.tag)
    }

    /// Writes the trial `number` of the session, which `length` bytes are to follow.
    pub fn trial(&self, number: u64, length: u16) -> Vec<u8> {
        let mut bytes = Opening::sealed(self.session, number, &self.seal_trial(number, length)).to_vec();
        bytes[1] = TRIAL;
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes
    }

    /// Whether the peer has made `trial` in this session; the caller looks at its number.
    pub fn is_tried_by_peer(&self, trial: &Trial) -> bool {
        trial.session == self.session && is_equal(&self.seal_trial(trial.number, trial.length), &trial.tag)
    }

    fn seal_trial(&self, number: u64, length: u16) -> [u8; TAG] {
        self.tag(&[b"trial", &number.to_be_bytes()[..], &length.to_be_bytes()].concat())
    }

    fn seal(&self, number: u64, preamble: &[u8]) -> [u8; TAG] {
        self.tag(&[b"opening", &number.to_be_bytes()[..], preamble].concat())
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

    /// The session's key at the caller and at the called gateway.
    fn session() -> (SessionKey, SessionKey) {
        let [near, far] = keys();
        let hello = Hello { caller: near.public_key(), nonce: [3; NONCE] };
        let (at_far, challenge) = SessionKey::challenge(&far, &hello, [4; NONCE], 77, 5).unwrap();
        let challenge = Challenge::decode(&challenge.encode());
        let (at_near, proof) = SessionKey::answer(&near, &far.public_key(), &hello, &challenge).unwrap();
        assert!(at_far.is_proof(&proof));
        assert!(!at_far.is_proof(&challenge.tag), "the challenge's own proof is not the caller's");
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

    fn open(source: &str, destination: &str) -> Open {
        Open::new(source.parse().unwrap(), destination.parse().unwrap())
    }

    #[test]
    fn both_ends_agree_and_an_opening_is_taken_for_the_peers() {
        let (near, far) = session();
        for open in [open("10.0.0.1:256", "192.0.2.9:80"), open("[2001:db8::1]:5", "[2001:db8::2]:443")] {
            let bytes = near.open(9, &open).unwrap();
            let Ok(Some(Greeting::Opening(opening))) = parse(&bytes) else { panic!("{bytes:?}") };
            assert_eq!((opening.session, opening.number, opening.open), (77, 9, open));
            assert!(far.is_made_by_peer(&opening));
            assert!(!far.is_made_by_peer(&Opening { number: 10, ..opening }), "the number is under the tag");
            let elsewhere = self::open("10.0.0.1:256", "192.0.2.9:81");
            assert!(!far.is_made_by_peer(&Opening { open: elsewhere, ..opening }), "and so is the destination");
            assert!(!far.is_made_by_peer(&Opening { session: 78, ..opening }));
        }
    }

    #[test]
    fn a_stranger_neither_calls_nor_is_called() {
        let [near, far] = keys();
        let stranger = PrivateKey::from_random([9; 32]);
        let hello = Hello { caller: near.public_key(), nonce: [3; NONCE] };
        let (at_far, challenge) = SessionKey::challenge(&far, &hello, [4; NONCE], 77, 5).unwrap();
        assert!(SessionKey::answer(&stranger, &far.public_key(), &hello, &challenge).is_none());
        let (_, forged) = SessionKey::challenge(&stranger, &hello, [4; NONCE], 77, 5).unwrap();
        assert!(SessionKey::answer(&near, &far.public_key(), &hello, &forged).is_none());
        let (_, other) = SessionKey::challenge(&far, &Hello { nonce: [8; NONCE], ..hello }, [4; NONCE], 77, 5).unwrap();
        assert!(SessionKey::answer(&near, &far.public_key(), &hello, &other).is_none(), "a challenge is for one hello");
        assert!(!at_far.is_proof(&[0; TAG]));
        let nobody = Hello { caller: PublicKey::from_bytes([0; 32]), ..hello };
        assert!(SessionKey::challenge(&far, &nobody, [4; NONCE], 77, 5).is_none(), "a key of small order");
    }

    #[test]
    fn what_is_no_greeting_is_refused_at_the_first_wrong_byte() {
        assert_eq!(parse(&[1]), Err(GreetingError::Version(1)));
        assert_eq!(parse(&[2, 4]), Err(GreetingError::Kind(4)));
        let mut bytes = session().0.open(1, &open("10.0.0.1:256", "192.0.2.9:80")).unwrap();
        bytes[SEALED] = 9;
        assert_eq!(parse(&bytes), Err(GreetingError::Preamble(PreambleError::Version(9))));
    }

    #[test]
    fn another_process_of_the_called_gateway_finds_the_key_again() {
        let [near, far] = keys();
        let hello = Hello { caller: near.public_key(), nonce: [3; NONCE] };
        let (_, challenge) = SessionKey::challenge(&far, &hello, [4; NONCE], 77, 5).unwrap();
        let (at_near, _) = SessionKey::answer(&near, &far.public_key(), &hello, &challenge).unwrap();
        let bytes = at_near.open(9, &open("10.0.0.1:256", "192.0.2.9:80")).unwrap();
        let Ok(Some(Greeting::Opening(opening))) = parse(&bytes) else { panic!("{bytes:?}") };
        assert!(SessionKey::resume(&far, &hello, &challenge).unwrap().is_made_by_peer(&opening));
        assert!(SessionKey::resume(&far, &hello, &Challenge { epoch: 6, ..challenge }).is_none());
        assert!(SessionKey::resume(&near, &hello, &challenge).is_none(), "it takes the gateway's private key");
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
        let hello = Hello { caller: keys()[0].public_key(), nonce: [3; NONCE] };
        assert_eq!(parse(&hello.encode()), Ok(Some(Greeting::Session(hello))));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_neither_panic_nor_pile_up(kind in 0u8..4, input: Vec<u8>) {
            let mut parser = Parser::new();
            for byte in [&[VERSION, kind], &input[..]].concat() {
                prop_assert!((1..=LONGEST).contains(&parser.missing()));
                match parser.push(&[byte]) {
                    Ok(None) => prop_assert!(parser.bytes.len() < LONGEST),
                    Ok(Some(_)) | Err(_) => break,
                }
            }
        }
    }
}
