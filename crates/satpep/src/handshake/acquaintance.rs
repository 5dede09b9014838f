//! What two gateways that know each other's static keys can say without a handshake: the secret that the keys share
//! authenticates it.
//!
//! An acquaintance's init proves by its `mac2` who sent it, at the price of a hash, and by its masked time that it was not
//! sent before: a flood of strangers, even from the acquaintance's own address, takes nothing from it. A notice tells the
//! initiator why its init led to nothing; one to an init that may be a replay carries a nonce, and an init that repeats
//! the nonce inside its encrypted message is fresh whatever the clocks say.

use super::cookie::{has_mac2_of, mac1_of, public_seal, seal_key};
use crate::random::SecureRandom;
use crate::seal::Mode;
use crate::wire::packet::{INIT_HEADER, MAC, NOTICE, NOTICE_BODY, NOTICE_LENGTH, SEAL_NONCE, TAG};
use peering::Versions;
use peering::{PrivateKey, PublicKey};
use ring::aead::{Aad, LessSafeKey, Nonce};
use ring::hmac;

/// A fresh value of the responder's that the initiator repeats; all zeros where there is none.
pub(crate) type Echo = [u8; 16];

/// The keys that the shared secret of two static keys gives.
pub(crate) struct Acquaintance {
    pub(super) own_mac2: hmac::Key,
    peer_mac2: hmac::Key,
    own_mask: hmac::Key,
    peer_mask: hmac::Key,
    own_seal: LessSafeKey,
    peer_seal: LessSafeKey,
}

/// Why an init led to nothing, as its receiver notifies its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notice {
    /// The init is not newer than another of the same sender: repeat the nonce. With the receiver's wall clock.
    Challenge { echo: Echo, unix_time: u64 },
    /// The receiver uses the other mode.
    OtherMode,
    /// The receiver speaks these versions, none of which the sender speaks.
    OtherVersions(Versions),
    /// The same where the receiver could not read the initiator's key. Anyone who knows the receiver's public key can forge it.
    UnprovenVersions(Versions),
}

const CHALLENGE: u8 = 1;
const OTHER_MODE: u8 = 2;
const UNPROVEN_VERSIONS: u8 = 3;
const OTHER_VERSIONS: u8 = 4;

impl Acquaintance {
    /// Of the holder of `own` with the holder of the key behind `peer`. `None` if that key is of small order.
    pub(crate) fn new(own: &PrivateKey, peer: &PublicKey) -> Option<Self> {
        let secret = hmac::Key::new(hmac::HMAC_SHA256, &own.shared_secret(peer)?);
        let derive = |label: &[u8], sender: &PublicKey| hmac::sign(&secret, &[label, sender.as_bytes()].concat());
        let own = own.public_key();
        let key = |label: &[u8], sender| hmac::Key::new(hmac::HMAC_SHA256, derive(label, sender).as_ref());
        let seal = |sender| seal_key(derive(b"bentpipe notice", sender).as_ref());
        Some(Self {
            own_mac2: key(b"bentpipe mac2", &own),
            peer_mac2: key(b"bentpipe mac2", peer),
            own_mask: key(b"bentpipe time", &own),
            peer_mask: key(b"bentpipe time", peer),
            own_seal: seal(&own),
            peer_seal: seal(peer),
        })
    }

    /// The time as the init says it in its head.
    pub(super) fn masked(&self, unix_time: u64, noise: &[u8]) -> u64 {
        unix_time ^ mask(&self.own_mask, noise)
    }

    /// The time in an init if it is this acquaintance's own and has no cookie.
    pub(crate) fn vouches(&self, init: &[u8]) -> Option<u64> {
        has_mac2_of(&self.peer_mac2, init).then(|| {
            let masked = u64::from_be_bytes(*init[8..].first_chunk().expect("an init is longer than its head"));
            masked ^ mask(&self.peer_mask, &init[INIT_HEADER..])
        })
    }

    /// Writes a notice in answer to `init`, authenticated.
    pub(crate) fn notice(&self, notice: &Notice, init: &[u8], random: &mut SecureRandom) -> Vec<u8> {
        seal(&self.own_seal, notice, init, random)
    }

    /// Reads a notice in answer to the init with this `mac1`.
    pub(super) fn read(&self, peer: &PublicKey, mac1: &[u8; MAC], datagram: &[u8]) -> Option<Notice> {
        let datagram: &[u8; NOTICE_LENGTH] = datagram.try_into().ok()?;
        let mut body = [0; NOTICE_BODY + TAG];
        body.copy_from_slice(&datagram[8 + SEAL_NONCE..]);
        let nonce = Nonce::try_assume_unique_for_key(&datagram[8..8 + SEAL_NONCE]).ok()?;
        let aad = Aad::from([&datagram[..8], mac1].concat());
        let opened = match datagram[1] {
            UNPROVEN_VERSIONS => public_seal(peer).open_in_place(nonce, aad, &mut body),
            _ => self.peer_seal.open_in_place(nonce, aad, &mut body),
        };
        let opened = opened.ok()?;
        let echo = *opened.first_chunk().expect("a notice has its body's length");
        let unix_time = u64::from_be_bytes(*opened[16..].first_chunk().expect("a notice has its body's length"));
        match datagram[1] {
            CHALLENGE => Some(Notice::Challenge { echo, unix_time }),
            OTHER_MODE => Some(Notice::OtherMode),
            // Version 2 says its own alone, with 0 behind it.
            UNPROVEN_VERSIONS if opened[1] == 0 => Versions::new(opened[0], opened[0]).map(Notice::UnprovenVersions),
            UNPROVEN_VERSIONS => Versions::decode([opened[0], opened[1]]).map(Notice::UnprovenVersions),
            OTHER_VERSIONS => Versions::decode([opened[0], opened[1]]).map(Notice::OtherVersions),
            _ => None,
        }
    }
}

/// Notifies the sender of an init that cannot be read of the versions that the holder of `own` speaks.
pub(crate) fn unproven_versions(init: &[u8], own: &PublicKey, ours: Versions, random: &mut SecureRandom) -> Vec<u8> {
    seal(&public_seal(own), &Notice::UnprovenVersions(ours), init, random)
}

fn seal(key: &LessSafeKey, notice: &Notice, init: &[u8], random: &mut SecureRandom) -> Vec<u8> {
    let mut body = [0; NOTICE_BODY];
    let kind = match notice {
        Notice::Challenge { echo, unix_time } => {
            body[..16].copy_from_slice(echo);
            body[16..].copy_from_slice(&unix_time.to_be_bytes());
            CHALLENGE
        }
        Notice::OtherMode => OTHER_MODE,
        Notice::OtherVersions(versions) => {
            body[..2].copy_from_slice(&versions.encode());
            OTHER_VERSIONS
        }
        Notice::UnprovenVersions(versions) => {
            body[..2].copy_from_slice(&versions.encode());
            UNPROVEN_VERSIONS
        }
    };
    let nonce: [u8; SEAL_NONCE] = random.bytes();
    let head = [&[NOTICE, kind, 0, 0], &init[4..8]].concat();
    let aad = Aad::from([&head, mac1_of(init)].concat());
    let tag = key
        .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), aad, &mut body)
        .expect("a notice is shorter than an AEAD's limit");
    [&head, &nonce[..], &body, tag.as_ref()].concat()
}

/// What hides the time of an init: a keyed hash of the ephemeral key that its Noise message begins with.
fn mask(key: &hmac::Key, noise: &[u8]) -> u64 {
    u64::from_be_bytes(*hmac::sign(key, &noise[..32]).as_ref().first_chunk().expect("HMAC-SHA256 gives 32 bytes"))
}

impl Mode {
    /// The mode with this code.
    pub(crate) const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Mode::Encrypted),
            2 => Some(Mode::Clear),
            _ => None,
        }
    }
}
