//! Sealing and opening packets with the keys that a handshake gave.
//!
//! In [`Mode::Encrypted`] the frames are encrypted and authenticated; in [`Mode::Clear`] they travel readable and are
//! authenticated alone, for bands where encryption is forbidden: by AEGIS-128L as a MAC (RFC 10032), which takes about half
//! the time of AES-128-GCM, or as associated data of an empty message where the initiator chose ChaCha20-Poly1305, or the
//! version is 4. The mode and the version go into the derivation of the keys as well as into the handshake, so that a packet
//! of one mode or version never opens in the other.

use crate::packet_number::PacketNumber;
use crate::wire::packet::{DATA_HEADER, TAG};
use aegis::aegis128l::{self, Aegis128LMac};
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
    /// The first version whose packets in clear have a MAC of their own where AES is fast.
    const AEGIS_SINCE: u8 = 5;

    /// Whether packets are authenticated by AEGIS-128L.
    fn has_aegis(self) -> bool {
        self.mode == Mode::Clear && self.cipher == Cipher::Aes128Gcm && self.version >= Self::AEGIS_SINCE
    }

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
pub struct DataKey(Protection);

/// How a packet is protected.
enum Protection {
    /// The frames are encrypted, and the header is authenticated with them.
    Encryption(LessSafeKey),
    /// Nothing is encrypted: all is associated data of an empty message.
    AssociatedData(LessSafeKey),
    /// Nothing is encrypted, and the tag is AEGISMAC-128L of all (RFC 10032).
    Aegis(aegis128l::Key),
}

/// A packet that does not open: forged, damaged, or sealed with another key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAuthentic;

impl Sealing for DataKey {
    fn derive(secret: &[u8; 32], suite: Suite) -> Self {
        let key = suite.key(secret);
        if suite.has_aegis() {
            return Self(Protection::Aegis(key.try_into().expect("both algorithms of the code have keys of 16 bytes")));
        }
        let key = UnboundKey::new(suite.cipher.algorithm(), &key).expect("the length is the cipher's");
        let key = LessSafeKey::new(key);
        Self(match suite.mode {
            Mode::Encrypted => Protection::Encryption(key),
            Mode::Clear => Protection::AssociatedData(key),
        })
    }

    fn seal(&self, number: PacketNumber, datagram: &mut [u8], _head: usize) {
        let (message, tag_space) = datagram.split_at_mut(datagram.len() - TAG);
        let tag = match &self.0 {
            Protection::Encryption(key) => {
                let (head, frames) = message.split_at_mut(DATA_HEADER);
                key.seal_in_place_separate_tag(nonce(number), Aad::from(&*head), frames)
            }
            Protection::AssociatedData(key) => {
                key.seal_in_place_separate_tag(nonce(number), Aad::from(&*message), &mut [])
            }
            Protection::Aegis(key) => {
                tag_space.copy_from_slice(&aegis(key, number, message).finalize());
                return;
            }
        };
        tag_space.copy_from_slice(tag.expect("a datagram is shorter than an AEAD's limit").as_ref());
    }

    fn open<'a>(&self, number: PacketNumber, datagram: &'a mut [u8]) -> Result<&'a [u8], NotAuthentic> {
        let end = datagram.len().checked_sub(TAG).filter(|end| *end >= DATA_HEADER).ok_or(NotAuthentic)?;
        let is_authentic = match &self.0 {
            Protection::Encryption(key) => {
                let (head, sealed) = datagram.split_at_mut(DATA_HEADER);
                key.open_in_place(nonce(number), Aad::from(&*head), sealed).is_ok()
            }
            Protection::AssociatedData(key) => {
                let (message, tag) = datagram.split_at_mut(end);
                key.open_in_place(nonce(number), Aad::from(&*message), tag).is_ok()
            }
            Protection::Aegis(key) => datagram
                .split_last_chunk::<TAG>()
                .is_some_and(|(message, tag)| aegis(key, number, message).verify(tag).is_ok()),
        };
        if is_authentic { Ok(&datagram[DATA_HEADER..end]) } else { Err(NotAuthentic) }
    }
}

/// The nonce of a packet: the identifier of its path, which is 0 where a session has one, and its number on that
/// path (as in the multipath extension of QUIC, draft-ietf-quic-multipath).
fn nonce(number: PacketNumber) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&number.get().to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

/// The MAC of a packet's header and frames. Its nonce has 16 bytes: the same behind four zeros. It compares tags in constant time.
fn aegis(key: &aegis128l::Key, number: PacketNumber, message: &[u8]) -> Aegis128LMac<TAG> {
    let mut nonce = [0; 16];
    nonce[8..].copy_from_slice(&number.get().to_be_bytes());
    let mut mac = Aegis128LMac::new_with_nonce(key, &nonce);
    mac.update(message);
    mac
}

#[cfg(test)]
mod tests {
    use super::*;
    use peering::Versions;
    use proptest::prelude::*;

    fn sealed(key: &DataKey, number: PacketNumber, frames: &[u8]) -> Vec<u8> {
        let mut datagram = vec![4, 0, 0, 0, 1, 0, 0, 0, number.low_half() as u8];
        datagram.extend_from_slice(frames);
        datagram.extend_from_slice(&[0; TAG]);
        key.seal(number, &mut datagram, 0);
        datagram
    }

    /// Every way of protecting a packet.
    fn suites() -> impl Iterator<Item = Suite> {
        let ciphers = [Cipher::Aes128Gcm, Cipher::ChaCha20Poly1305];
        let of_version = move |version| {
            [Mode::Encrypted, Mode::Clear]
                .into_iter()
                .flat_map(move |mode| ciphers.map(|cipher| Suite { version, mode, cipher }))
        };
        (Versions::SPOKEN.oldest()..=Versions::SPOKEN.newest()).flat_map(of_version)
    }

    #[test]
    fn every_suite_opens_its_own_and_nothing_else() {
        for suite in suites() {
            let key = DataKey::derive(&[9; 32], suite);
            let datagram = sealed(&key, PacketNumber::new(7), b"frames");
            assert_eq!(key.open(PacketNumber::new(7), &mut datagram.clone()), Ok(&b"frames"[..]));
            assert_eq!(datagram.windows(6).any(|window| window == b"frames"), suite.mode == Mode::Clear);
            assert_eq!(key.open(PacketNumber::new(8), &mut datagram.clone()), Err(NotAuthentic));
            for length in 0..datagram.len() {
                assert_eq!(key.open(PacketNumber::new(7), &mut datagram.clone()[..length]), Err(NotAuthentic));
            }
            for other in suites().filter(|other| *other != suite) {
                let other = DataKey::derive(&[9; 32], other);
                assert_eq!(other.open(PacketNumber::new(7), &mut datagram.clone()), Err(NotAuthentic));
            }
        }
    }

    #[test]
    fn tags_differ_from_packet_to_packet() {
        for suite in suites() {
            let key = DataKey::derive(&[9; 32], suite);
            // The same header, so that only the nonce makes the difference.
            let tag = |number: u64| sealed(&key, PacketNumber::new(number << 32), b"frames").split_off(DATA_HEADER + 6);
            let tags: std::collections::BTreeSet<_> = (0..1000).map(tag).collect();
            assert_eq!(tags.len(), 1000, "{suite:?}");
        }
    }

    #[test]
    fn aegis_is_that_of_the_rfc() {
        // RFC 10032, test vectors of AEGISMAC-128L: key and nonce as there, and the bytes 0 to 34.
        let key = *b"\x10\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
        let nonce = *b"\x10\0\x02\0\0\0\0\0\0\0\0\0\0\0\0\0";
        let mut mac = Aegis128LMac::<TAG>::new_with_nonce(&key, &nonce);
        mac.update(&std::array::from_fn::<u8, 35, _>(|at| at as u8));
        assert_eq!(u128::from_be_bytes(mac.finalize()), 0xd3f0_9b28_42ad_3016_87d6_902c_921d_7818);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn no_packet_opens_with_a_bit_changed(
            frames in proptest::collection::vec(any::<u8>(), 0..1500), number in 0..1u64 << 40, bit in any::<proptest::sample::Index>()
        ) {
            for suite in suites() {
                let key = DataKey::derive(&[9; 32], suite);
                let number = PacketNumber::new(number);
                let mut datagram = sealed(&key, number, &frames);
                prop_assert!(key.open(number, &mut datagram.clone()) == Ok(&frames[..]));
                let bit = bit.index(datagram.len() * 8);
                datagram[bit / 8] ^= 1 << (bit % 8);
                prop_assert_eq!(key.open(number, &mut datagram), Err(NotAuthentic));
            }
        }
    }

    /// `cargo test -p bentpipe-satpep --release --lib time_of -- --ignored --nocapture`
    #[test]
    #[ignore = "prints times, which depend on the machine"]
    #[expect(clippy::disallowed_methods, reason = "measures how long calls take")]
    fn time_of_sealing_and_opening() {
        for length in [64, 1200, 32 << 10] {
            for suite in suites() {
                let key = DataKey::derive(&[9; 32], suite);
                let mut datagram = vec![7; length];
                let once = |number: u64, datagram: &mut [u8]| {
                    key.seal(PacketNumber::new(number), datagram, 0);
                    assert!(key.open(PacketNumber::new(number), datagram).is_ok());
                };
                let count = 20_000_000 / length as u64;
                let turn = |_| {
                    let begun = std::time::Instant::now();
                    (0..count).for_each(|number| once(number, &mut datagram));
                    begun.elapsed().as_nanos() as u64 / count
                };
                let best = (0..5).map(turn).min();
                println!("{length:6} bytes, {suite:?}: {} ns for both", best.unwrap_or_default());
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
