//! The handshake: Noise IK between static keys, silent to strangers and cheap to refuse under a flood.
//!
//! The messages follow WireGuard's (Donenfeld, NDSS 2017, section 5): each ends in `mac1`, keyed by the receiver's
//! public key, so that whoever does not know that key gets no answer and costs one hash; and in `mac2`, keyed by a
//! cookie that the receiver hands to the sender's address when it is busy, so that a flood from forged addresses costs
//! no Diffie-Hellman. The initiator's message carries a timestamp that only rises, so that none is accepted twice.

use crate::key::{PrivateKey, PublicKey};
use crate::random::SecureRandom;
use crate::seal::{Cipher, Mode, Sealing};
use crate::wire::packet::{
    COOKIE, COOKIE_BYTES, COOKIE_NONCE, COOKIE_REPLY, INIT, INIT_HEADER, MAC, RESPONSE, RESPONSE_HEADER, TAG, read_u32,
};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::{digest, hmac};
use snow::resolvers::{CryptoResolver, DefaultResolver, FallbackResolver};
use subtle::ConstantTimeEq as _;

const PATTERN: &str = "Noise_IK_25519_ChaChaPoly_BLAKE2s";
const VERSION: u8 = 1;

/// What each side tells the other about itself, inside the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hello {
    /// Names the run of the gateway's process: another epoch from a known peer means that it lost its streams.
    pub(crate) epoch: u64,
    /// Rises with every handshake that this gateway begins (nanoseconds of wall-clock time).
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
const INIT_NOISE: usize = 32 + 48 + HELLO + 16;
const RESPONSE_NOISE: usize = 32 + HELLO + 16;
/// Bytes of an init datagram; longer than both answers to it.
pub(crate) const INIT_LENGTH: usize = INIT_HEADER + INIT_NOISE + 2 * MAC;
pub(crate) const RESPONSE_LENGTH: usize = RESPONSE_HEADER + RESPONSE_NOISE + 2 * MAC;
const _: () = assert!(RESPONSE_LENGTH < INIT_LENGTH && COOKIE_REPLY < INIT_LENGTH);

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

/// Why a handshake message led to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The other side is configured for the other [`Mode`].
    ModeMismatch,
    /// The Noise message does not authenticate, or its content is not ours to read.
    NotAuthentic,
}

/// An init that we sent and whose answer we wait for.
pub(crate) struct Pending {
    noise: Box<snow::HandshakeState>,
    pub(crate) local_index: u32,
    /// `mac1` of the init: a cookie reply is bound to it.
    mac1: [u8; MAC],
    cipher: Cipher,
}

/// An init that has been authenticated, before the answer to it.
pub(crate) struct Received {
    noise: Box<snow::HandshakeState>,
    pub(crate) initiator: PublicKey,
    pub(crate) hello: Hello,
    peer_index: u32,
}

impl Identity {
    pub(crate) fn new(private: PrivateKey, mode: Mode) -> Self {
        Self { public: private.public_key(), private, mode }
    }

    fn noise(&self, random: SecureRandom, remote: Option<&PublicKey>) -> Option<Box<snow::HandshakeState>> {
        let resolver = FallbackResolver::new(Box::new(Seeded::new(random)), Box::new(DefaultResolver));
        let prologue = [b"bentpipe satpep 1, mode ".as_slice(), &[self.mode.code()]].concat();
        let params = PATTERN.parse().ok()?;
        let builder = snow::Builder::with_resolver(params, Box::new(resolver));
        let builder = builder.local_private_key(self.private.as_bytes()).ok()?.prologue(&prologue).ok()?;
        let state = match remote {
            Some(key) => builder.remote_public_key(key.as_bytes()).ok()?.build_initiator(),
            None => builder.build_responder(),
        };
        state.ok().map(Box::new)
    }

    /// Writes an init to `peer`; `None` if its key is not a point that a shared secret can be made with.
    pub(crate) fn initiate(
        &self,
        peer: &PublicKey,
        hello: &Hello,
        local_index: u32,
        cookie: Option<&[u8; COOKIE_BYTES]>,
        random: &mut SecureRandom,
    ) -> Option<(Vec<u8>, Pending)> {
        let mut noise = self.noise(random.fork(), Some(peer))?;
        let mut datagram = vec![INIT, self.mode.code(), 0, 0];
        datagram.extend_from_slice(&local_index.to_be_bytes());
        datagram.resize(INIT_LENGTH - 2 * MAC, 0);
        noise.write_message(&hello.encode(), &mut datagram[INIT_HEADER..]).ok()?;
        let mac1 = append_macs(&mut datagram, peer, cookie);
        Some((datagram, Pending { noise, local_index, mac1, cipher: hello.cipher }))
    }

    /// Reads an init. `has_valid_mac1` and, where needed, the cookie were checked before.
    pub(crate) fn receive(&self, datagram: &[u8], random: &mut SecureRandom) -> Result<Received, Refusal> {
        if datagram[1] != self.mode.code() {
            return Err(Refusal::ModeMismatch);
        }
        let mut noise = self.noise(random.fork(), None).ok_or(Refusal::NotAuthentic)?;
        let mut hello = [0; HELLO];
        let message = &datagram[INIT_HEADER..INIT_LENGTH - 2 * MAC];
        match noise.read_message(message, &mut hello) {
            Ok(HELLO) => {}
            _ => return Err(Refusal::NotAuthentic),
        }
        let initiator = noise.get_remote_static().and_then(|key| key.try_into().ok()).map(PublicKey::from_bytes);
        Ok(Received {
            initiator: initiator.ok_or(Refusal::NotAuthentic)?,
            hello: Hello::decode(&hello).ok_or(Refusal::NotAuthentic)?,
            peer_index: read_u32(datagram, 4).ok_or(Refusal::NotAuthentic)?,
            noise,
        })
    }

    /// Answers an init.
    pub(crate) fn respond<K: Sealing>(
        &self,
        mut received: Received,
        hello: &Hello,
        local_index: u32,
    ) -> Option<(Vec<u8>, Agreement<K>)> {
        let mut datagram = vec![RESPONSE, self.mode.code(), 0, 0];
        datagram.extend_from_slice(&local_index.to_be_bytes());
        datagram.extend_from_slice(&received.peer_index.to_be_bytes());
        datagram.resize(RESPONSE_LENGTH - 2 * MAC, 0);
        received.noise.write_message(&hello.encode(), &mut datagram[RESPONSE_HEADER..]).ok()?;
        append_macs(&mut datagram, &received.initiator, None);
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
    pub(crate) fn complete<K: Sealing>(&self, pending: &mut Pending, datagram: &[u8]) -> Result<Agreement<K>, Refusal> {
        let mut hello = [0; HELLO];
        let message = &datagram[RESPONSE_HEADER..RESPONSE_LENGTH - 2 * MAC];
        match pending.noise.read_message(message, &mut hello) {
            Ok(HELLO) => {}
            _ => return Err(Refusal::NotAuthentic),
        }
        let hello = Hello::decode(&hello).ok_or(Refusal::NotAuthentic)?;
        let (initiator_sends, responder_sends) = pending.noise.dangerously_get_raw_split();
        Ok(Agreement {
            send: K::derive(&initiator_sends, self.mode, pending.cipher),
            receive: K::derive(&responder_sends, self.mode, pending.cipher),
            peer_index: read_u32(datagram, 4).ok_or(Refusal::NotAuthentic)?,
            hello,
        })
    }

    /// Whether a handshake message of `length` bytes is meant for us.
    pub(crate) fn has_valid_mac1(&self, datagram: &[u8], length: usize) -> bool {
        if datagram.len() != length {
            return false;
        }
        let (message, macs) = datagram.split_at(length - 2 * MAC);
        mac1(&self.public, message).ct_eq(&macs[..MAC]).into()
    }
}

impl Pending {
    /// Reads a cookie reply to this init, with which the next init may be sent.
    pub(crate) fn read_cookie(&self, peer: &PublicKey, datagram: &[u8]) -> Option<[u8; COOKIE_BYTES]> {
        let sealed: &[u8; COOKIE_REPLY] = datagram.try_into().ok()?;
        let nonce = Nonce::try_assume_unique_for_key(&sealed[8..8 + COOKIE_NONCE]).ok()?;
        let mut cookie = [0; COOKIE_BYTES + TAG];
        cookie.copy_from_slice(&sealed[8 + COOKIE_NONCE..]);
        let opened = cookie_key(peer).open_in_place(nonce, Aad::from(self.mac1), &mut cookie).ok()?;
        (*opened).try_into().ok()
    }
}

/// Hands out cookies and knows them again: a keyed hash of the sender's address, under a secret that changes.
pub(crate) struct CookieJar {
    current: hmac::Key,
    previous: hmac::Key,
}

impl CookieJar {
    pub(crate) fn new(random: &mut SecureRandom) -> Self {
        let mut key = || hmac::Key::new(hmac::HMAC_SHA256, &random.block());
        Self { current: key(), previous: key() }
    }

    /// Changes the secret; cookies of the one before are still known.
    pub(crate) fn rotate(&mut self, random: &mut SecureRandom) {
        let fresh = hmac::Key::new(hmac::HMAC_SHA256, &random.block());
        self.previous = std::mem::replace(&mut self.current, fresh);
    }

    /// Whether `mac2` of the init proves that its sender receives at `from`.
    pub(crate) fn has_valid_mac2(&self, init: &[u8], from: &std::net::SocketAddr) -> bool {
        let (message, mac2) = init.split_at(init.len() - MAC);
        [&self.current, &self.previous].into_iter().any(|secret| {
            let expected = truncated(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &cookie(secret, from)), message));
            expected.ct_eq(mac2).into()
        })
    }

    /// Answers an init with a cookie for the address that it came from.
    pub(crate) fn reply(
        &self,
        init: &[u8],
        from: &std::net::SocketAddr,
        own: &PublicKey,
        random: &mut SecureRandom,
    ) -> Vec<u8> {
        let nonce: [u8; COOKIE_NONCE] = random.bytes();
        let mut sealed = cookie(&self.current, from).to_vec();
        let mac1 = &init[init.len() - 2 * MAC..init.len() - MAC];
        cookie_key(own)
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(mac1), &mut sealed)
            .expect("a cookie is shorter than an AEAD's limit");
        [&[COOKIE, 0, 0, 0], &init[4..8], &nonce, &sealed].concat()
    }
}

fn cookie(secret: &hmac::Key, from: &std::net::SocketAddr) -> [u8; COOKIE_BYTES] {
    truncated(hmac::sign(secret, from.to_string().as_bytes()))
}

fn cookie_key(owner: &PublicKey) -> LessSafeKey {
    let key = labelled(b"bentpipe cookie", owner);
    LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, key.as_ref()).expect("SHA-256 gives the 32 bytes of a key"))
}

fn mac1(receiver: &PublicKey, message: &[u8]) -> [u8; MAC] {
    let key = hmac::Key::new(hmac::HMAC_SHA256, labelled(b"bentpipe mac1", receiver).as_ref());
    truncated(hmac::sign(&key, message))
}

fn labelled(label: &[u8], key: &PublicKey) -> digest::Digest {
    digest::digest(&digest::SHA256, &[label, key.as_bytes()].concat())
}

fn truncated(tag: hmac::Tag) -> [u8; MAC] {
    *tag.as_ref().first_chunk().expect("HMAC-SHA256 gives 32 bytes")
}

fn append_macs(datagram: &mut Vec<u8>, receiver: &PublicKey, cookie: Option<&[u8; COOKIE_BYTES]>) -> [u8; MAC] {
    let mac1 = mac1(receiver, datagram);
    datagram.extend_from_slice(&mac1);
    let mac2 = match cookie {
        Some(cookie) => truncated(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, cookie), datagram)),
        None => [0; MAC],
    };
    datagram.extend_from_slice(&mac2);
    mac1
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seal::DataKey;

    fn identity(byte: u8, mode: Mode) -> Identity {
        Identity::new(PrivateKey::from_random([byte; 32]), mode)
    }

    fn hello(epoch: u64) -> Hello {
        Hello {
            epoch,
            timestamp: 5,
            cipher: Cipher::ChaCha20Poly1305,
            session_credit: 1 << 20,
            stream_credit: 1 << 16,
            max_streams: 100,
        }
    }

    #[test]
    fn both_sides_agree() {
        let (near, far) = (identity(1, Mode::Encrypted), identity(2, Mode::Encrypted));
        let mut random = SecureRandom::new([3; 32]);
        let (init, mut pending) = near.initiate(&far.public, &hello(10), 77, None, &mut random).expect("init");
        assert!(far.has_valid_mac1(&init, INIT_LENGTH));
        let received = far.receive(&init, &mut random).expect("authentic");
        assert_eq!((received.initiator, received.hello), (near.public, hello(10)));
        let (response, at_far) = far.respond::<DataKey>(received, &hello(20), 88).expect("response");
        assert!(near.has_valid_mac1(&response, RESPONSE_LENGTH));
        let at_near: Agreement<DataKey> = near.complete(&mut pending, &response).expect("authentic");
        assert_eq!((at_near.peer_index, at_far.peer_index, at_near.hello), (88, 77, hello(20)));
        let mut datagram = vec![0; 40];
        at_near.send.seal(1, &mut datagram, 0);
        assert!(at_far.receive.open(1, &mut datagram).is_ok());
        at_far.send.seal(1, &mut datagram, 0);
        assert!(at_near.receive.open(1, &mut datagram).is_ok());
    }

    #[test]
    fn a_forged_answer_leaves_the_handshake_usable() {
        let (near, far) = (identity(1, Mode::Encrypted), identity(2, Mode::Encrypted));
        let mut random = SecureRandom::new([3; 32]);
        let (init, mut pending) = near.initiate(&far.public, &hello(10), 77, None, &mut random).expect("init");
        let received = far.receive(&init, &mut random).expect("authentic");
        let (response, _) = far.respond::<DataKey>(received, &hello(20), 88).expect("response");
        let mut forged = response.clone();
        forged[RESPONSE_HEADER + 40] ^= 1;
        assert!(near.complete::<DataKey>(&mut pending, &forged).is_err());
        assert!(near.complete::<DataKey>(&mut pending, &response).is_ok());
    }

    #[test]
    fn modes_do_not_mix_even_if_the_clear_byte_is_changed() {
        let (near, far) = (identity(1, Mode::Encrypted), identity(2, Mode::Clear));
        let mut random = SecureRandom::new([3; 32]);
        let (mut init, _) = near.initiate(&far.public, &hello(10), 77, None, &mut random).expect("init");
        assert!(matches!(far.receive(&init, &mut random), Err(Refusal::ModeMismatch)));
        init[1] = Mode::Clear.code();
        assert!(matches!(far.receive(&init, &mut random), Err(Refusal::NotAuthentic)));
    }

    #[test]
    fn strangers_cannot_address_us_and_cookies_bind_the_address() {
        let (near, far, other) = (identity(1, Mode::Encrypted), identity(2, Mode::Encrypted), identity(3, Mode::Clear));
        let mut random = SecureRandom::new([3; 32]);
        let (init, pending) = near.initiate(&far.public, &hello(10), 77, None, &mut random).expect("init");
        assert!(!other.has_valid_mac1(&init, INIT_LENGTH));
        let mut jar = CookieJar::new(&mut random);
        let from = "198.18.0.1:4500".parse().expect("address");
        assert!(!jar.has_valid_mac2(&init, &from));
        let reply = jar.reply(&init, &from, &far.public, &mut random);
        let cookie = pending.read_cookie(&far.public, &reply).expect("cookie");
        let (second, _) = near.initiate(&far.public, &hello(11), 78, Some(&cookie), &mut random).expect("init");
        jar.rotate(&mut random);
        assert!(jar.has_valid_mac2(&second, &from));
        assert!(!jar.has_valid_mac2(&second, &"198.18.0.2:4500".parse().expect("address")));
        jar.rotate(&mut random);
        assert!(!jar.has_valid_mac2(&second, &from));
    }
}
