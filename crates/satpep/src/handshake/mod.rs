//! The handshake: Noise IK between static keys, silent to strangers and cheap to refuse under a flood.
//!
//! The messages follow WireGuard's (Donenfeld, NDSS 2017, section 5): each ends in `mac1`, keyed by the receiver's
//! public key, so that a sender without that key gets no answer and costs one hash; and in `mac2`, keyed by a
//! cookie that the receiver hands to the sender's address when it is busy, so that a flood from forged addresses costs
//! no Diffie-Hellman. The initiator's message carries its wall clock: one that is newer than all before is no replay. One
//! that is not may be a replay or have a clock that was set back; its sender is asked to repeat a nonce.
//!
//! | file | idea |
//! | --- | --- |
//! | `mod.rs` | Noise: init, response, the keys that follow |
//! | `parameters.rs` | the transport parameters of each side |
//! | `cookie.rs` | the MACs that end a message, and cookies |
//! | `acquaintance.rs` | what gateways that know each other's keys can say without a handshake: proofs under load, notices |
//! | `tests.rs` | tests: handshakes without an endpoint |

mod acquaintance;
mod cookie;
mod parameters;
#[cfg(test)]
mod tests;

use crate::random::SecureRandom;
use crate::seal::{Cipher, DataSecrets, Mode, Sealing, Suite};
use crate::wire::packet::{
    INIT, INIT_HEADER, MAC, MIN_INIT, RESPONSE, RESPONSE_HEADER, noise_message, offered_versions, read_u32,
    set_noise_length, unpadded_length,
};
use peering::Versions;
use peering::{PrivateKey, PublicKey};
use ring::hmac;
use snow::resolvers::{CryptoResolver, DefaultResolver, FallbackResolver};

pub(crate) use acquaintance::{Acquaintance, Echo, Notice, unproven_versions};
#[cfg(any(test, fuzzing))]
pub(crate) use cookie::seal_cookie;
pub(crate) use cookie::{Cookie, CookieJar, mac1_of};
#[cfg(test)]
pub(crate) use cookie::{append_macs, mac1_key as mac1_key_of};
pub(crate) use parameters::TransportParameters;

const PATTERN: &str = "Noise_IK_25519_ChaChaPoly_BLAKE2s";
/// What the prologue begins with, before the versions and the mode.
const PROLOGUE: &[u8] = b"bentpipe satpep";

/// Handshakes pass wherever sessions work, with the headers of IPv6 and UDP.
const _: () = assert!(MIN_INIT + 48 <= crate::mtu::MIN as usize);

/// What a Noise message adds to its payload: an ephemeral key, an encrypted static key in the first, a tag.
const INIT_NOISE: usize = 32 + 48 + 16;
const RESPONSE_NOISE: usize = 32 + 16;

/// Who we are, for all handshakes.
pub(crate) struct Identity {
    private: PrivateKey,
    pub(crate) public: PublicKey,
    mac1_key: hmac::Key,
    pub(crate) mode: Mode,
    /// The cipher of sessions that we begin.
    cipher: Cipher,
    pub(crate) versions: Versions,
}

/// The keys and facts of a finished handshake.
pub(crate) struct Agreement<K> {
    pub(crate) send: K,
    pub(crate) receive: K,
    pub(crate) version: u8,
    /// What the keys were made of.
    pub(crate) secrets: DataSecrets,
    /// The index that the peer receives by.
    pub(crate) peer_index: u32,
    pub(crate) parameters: TransportParameters,
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
    /// The cookie that `mac2` was made with.
    pub(crate) cookie: Option<Cookie>,
    /// The length of the datagram, if it was padded.
    pub(crate) padded: Option<usize>,
}

/// An init that has been authenticated, before the answer to it.
pub(crate) struct Received {
    noise: Box<snow::HandshakeState>,
    pub(crate) initiator: PublicKey,
    pub(crate) parameters: TransportParameters,
    /// The mode that the initiator uses.
    pub(crate) mode: Mode,
    /// What it speaks.
    pub(crate) versions: Versions,
    /// What it repeats of ours.
    pub(crate) echo: Echo,
    /// The length of the init, if it was padded.
    pub(crate) padded: Option<usize>,
    cipher: Cipher,
    peer_index: u32,
}

impl Identity {
    pub(crate) fn new(private: PrivateKey, mode: Mode, cipher: Cipher, versions: Versions) -> Self {
        let public = private.public_key();
        Self { public, mac1_key: cookie::mac1_key(&public), private, mode, cipher, versions }
    }

    /// What the secret that we share with a peer gives; `None` if there is no such secret.
    pub(crate) fn acquaintance(&self, peer: &PublicKey) -> Option<Acquaintance> {
        Acquaintance::new(&self.private, peer)
    }

    /// The state of a handshake that offers `versions`. They and the mode are part of the prologue: a message of which someone
    /// has altered them does not authenticate.
    fn noise(
        &self,
        (mode, versions): (Mode, Versions),
        random: SecureRandom,
        remote: Option<&PublicKey>,
    ) -> Option<Box<snow::HandshakeState>> {
        let resolver = FallbackResolver::new(Box::new(Seeded::new(random)), Box::new(DefaultResolver));
        let prologue = [PROLOGUE, &versions.encode(), &[mode.code()]].concat();
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
        parameters: &TransportParameters,
        (local_index, padded, wanted): (u32, Option<usize>, u8),
        (cookie, echo): (Option<Cookie>, Echo),
        random: &mut SecureRandom,
    ) -> Option<(Vec<u8>, Pending)> {
        let mut noise = self.noise((self.mode, self.versions), random.fork(), Some(peer))?;
        let [oldest, newest] = self.versions.encode();
        let mut datagram = vec![INIT, oldest, newest, wanted];
        datagram.extend_from_slice(&local_index.to_be_bytes());
        let mut payload = Vec::new();
        parameters::write_init(&mut payload, self.cipher.code(), parameters, &echo);
        datagram.resize(INIT_HEADER + INIT_NOISE + payload.len(), 0);
        let length = noise.write_message(&payload, &mut datagram[INIT_HEADER..]).ok()?;
        let masked = acquaintance.masked(parameters.timestamp, &datagram[INIT_HEADER..]);
        datagram[8..16].copy_from_slice(&masked.to_be_bytes());
        datagram[16] = self.mode.code();
        set_noise_length(&mut datagram, length);
        let unpadded = (datagram.len() + 2 * MAC).max(MIN_INIT);
        let padded = padded.filter(|padded| *padded > unpadded);
        datagram.resize(padded.unwrap_or(unpadded) - 2 * MAC, 0);
        let by_cookie = cookie.as_ref().map(cookie::mac2_key);
        let mac2 = by_cookie.as_ref().unwrap_or(&acquaintance.own_mac2);
        let mac1 = cookie::append_macs(&mut datagram, &cookie::mac1_key(peer), Some(mac2));
        Some((datagram, Pending { noise, local_index, mac1, cookie, padded }))
    }

    /// Reads an init. `has_valid_mac1` and, where needed, `mac2` were checked before.
    pub(crate) fn receive(&self, datagram: &[u8], random: &mut SecureRandom) -> Result<Received, NotAuthentic> {
        let message = noise_message(datagram).ok_or(NotAuthentic)?;
        let mode = Mode::from_code(datagram[16]).ok_or(NotAuthentic)?;
        let versions = offered_versions(datagram).ok_or(NotAuthentic)?;
        let mut noise = self.noise((mode, versions), random.fork(), None).ok_or(NotAuthentic)?;
        let mut payload = vec![0; message.len()];
        let length = noise.read_message(message, &mut payload).map_err(|_| NotAuthentic)?;
        let initiator = noise.get_remote_static().and_then(|key| key.try_into().ok()).map(PublicKey::from_bytes);
        let (cipher, parameters, echo) = parameters::read_init(&payload[..length]).ok_or(NotAuthentic)?;
        let is_padded = unpadded_length(datagram).is_some_and(|unpadded| datagram.len() > unpadded);
        Ok(Received {
            initiator: initiator.ok_or(NotAuthentic)?,
            parameters,
            mode,
            versions,
            echo,
            padded: is_padded.then_some(datagram.len()),
            cipher: Cipher::from_code(cipher).ok_or(NotAuthentic)?,
            peer_index: read_u32(datagram, 4).ok_or(NotAuthentic)?,
            noise,
        })
    }

    /// Answers an init in the highest common version, by a larger datagram if it is to be `padded`.
    pub(crate) fn respond<K: Sealing>(
        &self,
        mut received: Received,
        parameters: &TransportParameters,
        (local_index, padded): (u32, Option<usize>),
    ) -> Option<(Vec<u8>, Agreement<K>)> {
        let version = self.versions.common(received.versions)?;
        let mut datagram = vec![RESPONSE, version, 0, 0];
        datagram.extend_from_slice(&local_index.to_be_bytes());
        datagram.extend_from_slice(&received.peer_index.to_be_bytes());
        let mut payload = Vec::new();
        parameters::write_response(&mut payload, self.versions, parameters);
        datagram.resize(RESPONSE_HEADER + RESPONSE_NOISE + payload.len(), 0);
        let length = received.noise.write_message(&payload, &mut datagram[RESPONSE_HEADER..]).ok()?;
        set_noise_length(&mut datagram, length);
        let unpadded = datagram.len() + 2 * MAC;
        datagram.resize(padded.unwrap_or(0).max(unpadded) - 2 * MAC, 0);
        cookie::append_macs(&mut datagram, &cookie::mac1_key(&received.initiator), None);
        let (initiator_sends, responder_sends) = received.noise.dangerously_get_raw_split();
        let suite = Suite { version, mode: self.mode, cipher: received.cipher };
        let agreement = Agreement {
            send: K::derive(&responder_sends, suite),
            receive: K::derive(&initiator_sends, suite),
            version,
            secrets: DataSecrets { suite, send: responder_sends, receive: initiator_sends },
            peer_index: received.peer_index,
            parameters: received.parameters,
        };
        Some((datagram, agreement))
    }

    /// Reads the answer to `pending`, which stays usable if the answer is a forgery.
    pub(crate) fn complete<K: Sealing>(
        &self,
        pending: &mut Pending,
        datagram: &[u8],
    ) -> Result<Agreement<K>, NotAuthentic> {
        let message = noise_message(datagram).ok_or(NotAuthentic)?;
        let mut payload = vec![0; message.len()];
        let length = pending.noise.read_message(message, &mut payload).map_err(|_| NotAuthentic)?;
        let (theirs, parameters) = parameters::read_response(&payload[..length]).ok_or(NotAuthentic)?;
        // Both ranges are authenticated; the version in clear is not, and is for observers.
        let version = self.versions.common(theirs).ok_or(NotAuthentic)?;
        let (initiator_sends, responder_sends) = pending.noise.dangerously_get_raw_split();
        let suite = Suite { version, mode: self.mode, cipher: self.cipher };
        Ok(Agreement {
            send: K::derive(&initiator_sends, suite),
            receive: K::derive(&responder_sends, suite),
            version,
            secrets: DataSecrets { suite, send: initiator_sends, receive: responder_sends },
            peer_index: read_u32(datagram, 4).ok_or(NotAuthentic)?,
            parameters,
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
