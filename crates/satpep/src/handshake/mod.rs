//! The handshake: Noise IK between static keys, silent to strangers and cheap to refuse under a flood.
//!
//! The messages follow WireGuard's (Donenfeld, NDSS 2017, section 5): each ends in `mac1`, keyed by the receiver's
//! public key, so that whoever does not know that key gets no answer and costs one hash; and in `mac2`, keyed by a
//! cookie that the receiver hands to the sender's address when it is busy, so that a flood from forged addresses costs
//! no Diffie-Hellman. The initiator's message carries its wall clock: one that is newer than all before is no replay. One
//! that is not may be a replay or have a clock that was set back; its sender is asked to repeat a nonce.
//!
//! | file | idea |
//! | --- | --- |
//! | `mod.rs` | Noise: init, response, the keys that follow |
//! | `cookie.rs` | the MACs that end a message, and cookies |
//! | `acquaintance.rs` | what gateways that know each other's keys can say without a handshake: proofs under load, notices |

mod acquaintance;
mod cookie;
#[cfg(test)]
mod tests;

use crate::key::{PrivateKey, PublicKey};
use crate::random::SecureRandom;
use crate::seal::{Cipher, Mode, Sealing};
use crate::wire::packet::{
    COOKIE_REPLY, INIT, INIT_HEADER, INIT_LENGTHS, MAC, NOTICE_LENGTH, RESPONSE, RESPONSE_HEADER, VERSION, read_u32,
};
use ring::hmac;
use snow::resolvers::{CryptoResolver, DefaultResolver, FallbackResolver};

pub(crate) use acquaintance::{Acquaintance, Echo, Notice, other_version};
#[cfg(any(test, fuzzing))]
pub(crate) use cookie::seal_cookie;
pub(crate) use cookie::{Cookie, CookieJar, mac1_of};

const PATTERN: &str = "Noise_IK_25519_ChaChaPoly_BLAKE2s";

/// What each side tells the other about itself, inside the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hello {
    /// Names the run of the gateway's process: another epoch from a known peer means that it lost its streams.
    pub(crate) epoch: u64,
    /// Its wall clock: nanoseconds since 1970.
    pub(crate) timestamp: u64,
    pub(crate) cipher: Cipher,
    /// Stream bytes that the session's receiver takes before its first credit.
    pub(crate) session_credit: u64,
    /// Bytes that it takes on a new stream.
    pub(crate) stream_credit: u64,
    /// Streams that the other side may have open at once.
    pub(crate) max_streams: u32,
}

const HELLO: usize = 1 + 1 + 8 + 8 + 8 + 8 + 4;
const INIT_PAYLOAD: usize = HELLO + size_of::<Echo>();
const INIT_NOISE: usize = 32 + 48 + INIT_PAYLOAD + 16;
const RESPONSE_NOISE: usize = 32 + HELLO + 16;
/// Bytes of an init datagram that is not padded; longer than every answer to it. Padding goes before the MACs.
pub(crate) const INIT_LENGTH: usize = INIT_HEADER + INIT_NOISE + 2 * MAC;
pub(crate) const RESPONSE_LENGTH: usize = RESPONSE_HEADER + RESPONSE_NOISE + 2 * MAC;
const _: () = assert!(RESPONSE_LENGTH < INIT_LENGTH && COOKIE_REPLY < INIT_LENGTH && NOTICE_LENGTH < INIT_LENGTH);
/// Handshakes pass wherever sessions work, with the headers of IPv6 and UDP.
const _: () = assert!(INIT_LENGTH + 48 <= crate::mtu::LEAST as usize);
const _: () = assert!(INIT_LENGTHS.start <= INIT_LENGTH);

impl Hello {
    fn encode(&self) -> [u8; HELLO] {
        let mut out = [0; HELLO];
        out[0] = VERSION;
        out[1] = self.cipher.code();
        out[2..10].copy_from_slice(&self.epoch.to_be_bytes());
        out[10..18].copy_from_slice(&self.timestamp.to_be_bytes());
        out[18..26].copy_from_slice(&self.session_credit.to_be_bytes());
        out[26..34].copy_from_slice(&self.stream_credit.to_be_bytes());
        out[34..38].copy_from_slice(&self.max_streams.to_be_bytes());
        out
    }

    fn decode(bytes: &[u8; HELLO]) -> Option<Self> {
        let long = |at: usize| u64::from_be_bytes(*bytes[at..].first_chunk().expect("the field lies inside the array"));
        let in_varint_range = |value: u64| (value <= crate::wire::varint::MAX).then_some(value);
        (bytes[0] == VERSION).then_some(())?;
        Some(Self {
            cipher: Cipher::from_code(bytes[1])?,
            epoch: long(2),
            timestamp: long(10),
            session_credit: in_varint_range(long(18))?,
            stream_credit: in_varint_range(long(26))?,
            max_streams: read_u32(bytes, 34)?,
        })
    }
}

/// Who we are, for all handshakes.
pub(crate) struct Identity {
    private: PrivateKey,
    pub(crate) public: PublicKey,
    mac1_key: hmac::Key,
    pub(crate) mode: Mode,
}

/// The keys and facts of a finished handshake.
pub(crate) struct Agreement<K> {
    pub(crate) send: K,
    pub(crate) receive: K,
    /// The index that the peer receives by.
    pub(crate) peer_index: u32,
    pub(crate) hello: Hello,
}

/// A Noise message that does not authenticate, or whose content is not ours to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotAuthentic;

/// An init that we sent and whose answer we wait for.
pub(crate) struct Pending {
    noise: Box<snow::HandshakeState>,
    pub(crate) local_index: u32,
    /// `mac1` of the init: cookie replies and notices are bound to it.
    mac1: [u8; MAC],
    cipher: Cipher,
    /// The cookie that `mac2` was made with.
    pub(crate) cookie: Option<Cookie>,
    /// The length of the datagram, if it was padded.
    pub(crate) padded: Option<usize>,
}

/// An init that has been authenticated, before the answer to it.
pub(crate) struct Received {
    noise: Box<snow::HandshakeState>,
    pub(crate) initiator: PublicKey,
    pub(crate) hello: Hello,
    /// The mode that the initiator uses.
    pub(crate) mode: Mode,
    /// What it repeats of ours.
    pub(crate) echo: Echo,
    peer_index: u32,
}

impl Identity {
    pub(crate) fn new(private: PrivateKey, mode: Mode) -> Self {
        let public = private.public_key();
        Self { public, mac1_key: cookie::mac1_key(&public), private, mode }
    }

    /// What the secret that we share with a peer gives; `None` if there is no such secret.
    pub(crate) fn acquaintance(&self, peer: &PublicKey) -> Option<Acquaintance> {
        Acquaintance::new(&self.private, peer)
    }

    fn noise(&self, mode: Mode, random: SecureRandom, remote: Option<&PublicKey>) -> Option<Box<snow::HandshakeState>> {
        let resolver = FallbackResolver::new(Box::new(Seeded::new(random)), Box::new(DefaultResolver));
        let prologue = [b"bentpipe satpep 2, mode ".as_slice(), &[mode.code()]].concat();
        let params = PATTERN.parse().ok()?;
        let builder = snow::Builder::with_resolver(params, Box::new(resolver));
        let builder = builder.local_private_key(self.private.as_bytes()).ok()?.prologue(&prologue).ok()?;
        let state = match remote {
            Some(key) => builder.remote_public_key(key.as_bytes()).ok()?.build_initiator(),
            None => builder.build_responder(),
        };
        state.ok().map(Box::new)
    }

    /// Writes an init to `peer`, of a larger length if it is to be `padded`, meant for its process that is `wanted`
    /// ([`crate::routing`]); `None` if its key is not a point that a shared secret can be made with.
    pub(crate) fn initiate(
        &self,
        (peer, acquaintance): (&PublicKey, &Acquaintance),
        hello: &Hello,
        (local_index, padded, wanted): (u32, Option<usize>, u8),
        (cookie, echo): (Option<Cookie>, Echo),
        random: &mut SecureRandom,
    ) -> Option<(Vec<u8>, Pending)> {
        let mut noise = self.noise(self.mode, random.fork(), Some(peer))?;
        let mut datagram = vec![INIT, self.mode.code(), VERSION, wanted];
        datagram.extend_from_slice(&local_index.to_be_bytes());
        datagram.resize(INIT_LENGTH - 2 * MAC, 0);
        let mut payload = [0; INIT_PAYLOAD];
        payload[..HELLO].copy_from_slice(&hello.encode());
        payload[HELLO..].copy_from_slice(&echo);
        noise.write_message(&payload, &mut datagram[INIT_HEADER..]).ok()?;
        let masked = acquaintance.masked(hello.timestamp, &datagram[INIT_HEADER..]);
        datagram[8..INIT_HEADER].copy_from_slice(&masked.to_be_bytes());
        datagram.resize(padded.unwrap_or(INIT_LENGTH) - 2 * MAC, 0);
        let by_cookie = cookie.as_ref().map(cookie::mac2_key);
        let mac2 = by_cookie.as_ref().unwrap_or(&acquaintance.own_mac2);
        let mac1 = cookie::append_macs(&mut datagram, &cookie::mac1_key(peer), Some(mac2));
        Some((datagram, Pending { noise, local_index, mac1, cipher: hello.cipher, cookie, padded }))
    }

    /// Reads an init. `has_valid_mac1` and, where needed, `mac2` were checked before.
    pub(crate) fn receive(&self, datagram: &[u8], random: &mut SecureRandom) -> Result<Received, NotAuthentic> {
        let mode = Mode::from_code(datagram[1]).ok_or(NotAuthentic)?;
        let mut noise = self.noise(mode, random.fork(), None).ok_or(NotAuthentic)?;
        let mut payload = [0; INIT_PAYLOAD];
        let message = &datagram[INIT_HEADER..INIT_LENGTH - 2 * MAC];
        match noise.read_message(message, &mut payload) {
            Ok(INIT_PAYLOAD) => {}
            _ => return Err(NotAuthentic),
        }
        let initiator = noise.get_remote_static().and_then(|key| key.try_into().ok()).map(PublicKey::from_bytes);
        let (hello, echo) = payload.split_first_chunk().ok_or(NotAuthentic)?;
        Ok(Received {
            initiator: initiator.ok_or(NotAuthentic)?,
            hello: Hello::decode(hello).ok_or(NotAuthentic)?,
            mode,
            echo: echo.try_into().map_err(|_| NotAuthentic)?,
            peer_index: read_u32(datagram, 4).ok_or(NotAuthentic)?,
            noise,
        })
    }

    /// Answers an init, by a larger datagram if it is to be `padded`.
    pub(crate) fn respond<K: Sealing>(
        &self,
        mut received: Received,
        hello: &Hello,
        (local_index, padded): (u32, Option<usize>),
    ) -> Option<(Vec<u8>, Agreement<K>)> {
        let mut datagram = vec![RESPONSE, self.mode.code(), VERSION, 0];
        datagram.extend_from_slice(&local_index.to_be_bytes());
        datagram.extend_from_slice(&received.peer_index.to_be_bytes());
        datagram.resize(RESPONSE_LENGTH - 2 * MAC, 0);
        received.noise.write_message(&hello.encode(), &mut datagram[RESPONSE_HEADER..]).ok()?;
        datagram.resize(padded.unwrap_or(RESPONSE_LENGTH) - 2 * MAC, 0);
        cookie::append_macs(&mut datagram, &cookie::mac1_key(&received.initiator), None);
        let (initiator_sends, responder_sends) = received.noise.dangerously_get_raw_split();
        let cipher = received.hello.cipher;
        let agreement = Agreement {
            send: K::derive(&responder_sends, self.mode, cipher),
            receive: K::derive(&initiator_sends, self.mode, cipher),
            peer_index: received.peer_index,
            hello: received.hello,
        };
        Some((datagram, agreement))
    }

    /// Reads the answer to `pending`, which stays usable if the answer is a forgery.
    pub(crate) fn complete<K: Sealing>(
        &self,
        pending: &mut Pending,
        datagram: &[u8],
    ) -> Result<Agreement<K>, NotAuthentic> {
        let mut hello = [0; HELLO];
        let message = &datagram[RESPONSE_HEADER..RESPONSE_LENGTH - 2 * MAC];
        match pending.noise.read_message(message, &mut hello) {
            Ok(HELLO) => {}
            _ => return Err(NotAuthentic),
        }
        let hello = Hello::decode(&hello).ok_or(NotAuthentic)?;
        let (initiator_sends, responder_sends) = pending.noise.dangerously_get_raw_split();
        Ok(Agreement {
            send: K::derive(&initiator_sends, self.mode, pending.cipher),
            receive: K::derive(&responder_sends, self.mode, pending.cipher),
            peer_index: read_u32(datagram, 4).ok_or(NotAuthentic)?,
            hello,
        })
    }

    /// Whether a handshake message, of at least two MACs, is meant for us.
    pub(crate) fn has_valid_mac1(&self, datagram: &[u8]) -> bool {
        cookie::has_valid_mac1(&self.mac1_key, datagram)
    }
}

impl Pending {
    /// Reads a cookie reply to this init, with which the next init may be sent.
    pub(crate) fn read_cookie(&self, peer: &PublicKey, datagram: &[u8]) -> Option<Cookie> {
        cookie::open_cookie(peer, &self.mac1, datagram)
    }

    /// Reads a notice in answer to this init.
    pub(crate) fn read_notice(&self, peer: &PublicKey, with: &Acquaintance, datagram: &[u8]) -> Option<Notice> {
        with.read(peer, &self.mac1, datagram)
    }
}

/// Gives snow our seeded generator in place of the system's.
struct Seeded(std::sync::Mutex<SecureRandom>);

impl Seeded {
    fn new(random: SecureRandom) -> Self {
        Self(std::sync::Mutex::new(random))
    }
}

impl CryptoResolver for Seeded {
    fn resolve_rng(&self) -> Option<Box<dyn snow::types::Random>> {
        Some(Box::new(self.0.lock().ok()?.fork()))
    }
    fn resolve_dh(&self, _: &snow::params::DHChoice) -> Option<Box<dyn snow::types::Dh>> {
        None
    }
    fn resolve_hash(&self, _: &snow::params::HashChoice) -> Option<Box<dyn snow::types::Hash>> {
        None
    }
    fn resolve_cipher(&self, _: &snow::params::CipherChoice) -> Option<Box<dyn snow::types::Cipher>> {
        None
    }
}
