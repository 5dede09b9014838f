//! Sealing and opening packets with the keys that a handshake gave.
//!
//! In [`Mode::Encrypted`] the frames are encrypted and authenticated; in [`Mode::Clear`] they travel readable, as
//! associated data of an empty message, and are authenticated alone, for bands where encryption is forbidden. The mode
//! and the version go into the derivation of the keys as well as into the handshake, so that a packet of one mode never
//! opens in the other.

use crate::packet_number::PacketNumber;
use crate::wire::packet::{DATA_HEADER, TAG};
use ring::aead::{AES_128_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether data is encrypted, or only authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Encrypted and authenticated.
    #[default]
    Encrypted,
    /// Readable by all, authenticated: for bands where encryption is forbidden.
    Clear,
}

/// The cipher of packets. The side that begins a handshake chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
pub enum Cipher {
    /// AES-128-GCM: the faster where the processor has AES instructions.
    #[default]
    #[serde(rename = "aes-128-gcm")]
    Aes128Gcm,
    /// ChaCha20-Poly1305 (RFC 8439): the faster elsewhere, as on small ARM boards.
    #[serde(rename = "chacha20-poly1305")]
    ChaCha20Poly1305,
}

impl Mode {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Mode::Encrypted => 1,
            Mode::Clear => 2,
        }
    }
}

impl Cipher {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Cipher::Aes128Gcm => 1,
            Cipher::ChaCha20Poly1305 => 2,
        }
    }

    pub(crate) const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Cipher::Aes128Gcm),
            2 => Some(Cipher::ChaCha20Poly1305),
            _ => None,
        }
    }

    fn algorithm(self) -> &'static Algorithm {
        match self {
            Cipher::Aes128Gcm => &AES_128_GCM,
            Cipher::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        }
    }
}

/// What two gateways have agreed on of the data keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Suite {
    pub(crate) version: u8,
    pub(crate) mode: Mode,
    pub(crate) cipher: Cipher,
}

/// The two halves of the Noise split, and what keys are derived from them.
#[derive(Clone)]
pub(crate) struct DataSecrets {
    pub(crate) suite: Suite,
    pub(crate) send: [u8; 32],
    pub(crate) receive: [u8; 32],
}

impl Suite {
    /// The key of one direction, from its half of the Noise split (HKDF-SHA-256, RFC 5869).
    pub(crate) fn key(self, secret: &[u8; 32]) -> Vec<u8> {
        let label: &[u8] = match self.mode {
            Mode::Encrypted => b"data, encrypted",
            Mode::Clear => b"data, in clear",
        };
        let mut key = vec![0; self.cipher.algorithm().key_len()];
        let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, b"bentpipe satpep").extract(secret);
        let info = [label, &[self.version]];
        let okm = prk.expand(&info, KeyLength(key.len())).expect("an AEAD key is shorter than HKDF's limit");
        okm.fill(&mut key).expect("the length is the same");
        key
    }
}

/// How many bytes HKDF is to give.
struct KeyLength(usize);

impl hkdf::KeyType for KeyLength {
    fn len(&self) -> usize {
        self.0
    }
}

/// How packets are sealed and opened, with one direction's key.
pub trait Sealing {
    /// Derives the key from one half of the Noise split.
    fn derive(secret: &[u8; 32], suite: Suite) -> Self;

    /// Seals `datagram` in place: head, frames, and [`TAG`] bytes of space for the tag. The head and the frames that are
    /// not elided take `head` bytes. `number` is never used twice with one key.
    fn seal(&self, number: PacketNumber, datagram: &mut [u8], head: usize);

    /// Opens `datagram` in place and returns its frames.
    ///
    /// # Errors
    /// If it does not open.
    fn open<'a>(&self, number: PacketNumber, datagram: &'a mut [u8]) -> Result<&'a [u8], NotAuthentic>;
}

/// Of [`Elided`](crate::Elided) datagrams: no key and no tag. Where a datagram has its tag, there is the length of its
/// head, for who takes it out of the buffer.
pub struct Unsealed;

impl Unsealed {
    /// The length of the head of a datagram that was "sealed".
    pub(crate) fn head(datagram: &[u8]) -> usize {
        let at = datagram.len() - TAG;
        usize::from(u16::from_be_bytes([datagram[at], datagram[at + 1]]))
    }
}

impl Sealing for Unsealed {
    fn derive(_secret: &[u8; 32], _suite: Suite) -> Self {
        Self
    }

    fn seal(&self, _number: PacketNumber, datagram: &mut [u8], head: usize) {
        let at = datagram.len() - TAG;
        datagram[at..at + 2].copy_from_slice(&(head as u16).to_be_bytes());
    }

    fn open<'a>(&self, _number: PacketNumber, datagram: &'a mut [u8]) -> Result<&'a [u8], NotAuthentic> {
        datagram.get(DATA_HEADER..).ok_or(NotAuthentic)
    }
}

/// One direction's key.
pub struct DataKey {
    key: LessSafeKey,
    mode: Mode,
}

/// A packet that does not open: forged, damaged, or sealed with another key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAuthentic;

impl Sealing for DataKey {
    fn derive(secret: &[u8; 32], suite: Suite) -> Self {
        let key = UnboundKey::new(suite.cipher.algorithm(), &suite.key(secret)).expect("the length is the cipher's");
        Self { key: LessSafeKey::new(key), mode: suite.mode }
    }

    fn seal(&self, number: PacketNumber, datagram: &mut [u8], _head: usize) {
        let (message, tag_space) = datagram.split_at_mut(datagram.len() - TAG);
        let tag = match self.mode {
            Mode::Encrypted => {
                let (head, frames) = message.split_at_mut(DATA_HEADER);
                self.key.seal_in_place_separate_tag(nonce(number), Aad::from(&*head), frames)
            }
            Mode::Clear => self.key.seal_in_place_separate_tag(nonce(number), Aad::from(&*message), &mut []),
        };
        tag_space.copy_from_slice(tag.expect("a datagram is shorter than an AEAD's limit").as_ref());
    }

    fn open<'a>(&self, number: PacketNumber, datagram: &'a mut [u8]) -> Result<&'a [u8], NotAuthentic> {
        match self.mode {
            Mode::Encrypted => {
                let (head, sealed) = datagram.split_at_mut_checked(DATA_HEADER).ok_or(NotAuthentic)?;
                let frames = self.key.open_in_place(nonce(number), Aad::from(&*head), sealed);
                frames.map(|frames| &*frames).map_err(|_| NotAuthentic)
            }
            Mode::Clear => {
                let end = datagram.len().checked_sub(TAG).filter(|end| *end >= DATA_HEADER).ok_or(NotAuthentic)?;
                let (message, tag) = datagram.split_at_mut(end);
                self.key.open_in_place(nonce(number), Aad::from(&*message), tag).map_err(|_| NotAuthentic)?;
                Ok(&message[DATA_HEADER..])
            }
        }
    }
}

/// The nonce of a packet: the identifier of its path, which is 0 where a session has one, and its number on that path
/// (as in the multipath extension of QUIC, draft-ietf-quic-multipath).
fn nonce(number: PacketNumber) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&number.get().to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(key: &DataKey, number: PacketNumber, frames: &[u8]) -> Vec<u8> {
        let mut datagram = vec![4, 0, 0, 0, 1, 0, 0, 0, number.low_half() as u8];
        datagram.extend_from_slice(frames);
        datagram.extend_from_slice(&[0; TAG]);
        key.seal(number, &mut datagram, 0);
        datagram
    }

    #[test]
    fn every_mode_and_cipher_opens_its_own_and_nothing_else() {
        for mode in [Mode::Encrypted, Mode::Clear] {
            for cipher in [Cipher::Aes128Gcm, Cipher::ChaCha20Poly1305] {
                let key = DataKey::derive(&[9; 32], Suite { version: 3, mode, cipher });
                let datagram = sealed(&key, PacketNumber::new(7), b"frames");
                assert_eq!(key.open(PacketNumber::new(7), &mut datagram.clone()), Ok(&b"frames"[..]));
                assert_eq!(datagram.windows(6).any(|window| window == b"frames"), mode == Mode::Clear);
                assert_eq!(key.open(PacketNumber::new(8), &mut datagram.clone()), Err(NotAuthentic));
                for at in 0..datagram.len() {
                    let mut forged = datagram.clone();
                    forged[at] ^= 1;
                    assert_eq!(key.open(PacketNumber::new(7), &mut forged), Err(NotAuthentic), "byte {at}");
                }
                for length in 0..datagram.len() {
                    assert_eq!(key.open(PacketNumber::new(7), &mut datagram.clone()[..length]), Err(NotAuthentic));
                }
            }
        }
    }

    #[test]
    fn modes_and_versions_have_different_keys() {
        let suite = Suite { version: 3, mode: Mode::Clear, cipher: Cipher::Aes128Gcm };
        let next = Suite { version: 4, ..suite };
        assert_ne!(suite.key(&[9; 32]), next.key(&[9; 32]));
        let clear = DataKey::derive(&[9; 32], suite);
        let encrypted = DataKey::derive(&[9; 32], Suite { mode: Mode::Encrypted, ..suite });
        // An empty message is authenticated alike in both modes, but for the key.
        assert_eq!(
            encrypted.open(PacketNumber::new(7), &mut sealed(&clear, PacketNumber::new(7), b"")),
            Err(NotAuthentic)
        );
    }
}
