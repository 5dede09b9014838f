//! The two MACs that end a handshake message, and cookies.
//!
//! `mac1` is keyed by the receiver's public key: its sender knows the responder. `mac2` is keyed by a cookie, which
//! proves that the sender receives at its address; or, without one, by the secret that the two static keys share, which
//! proves who the sender is to a receiver that guesses right by the address (see [`super::acquaintance`]).

use crate::random::SecureRandom;
use crate::wire::packet::{COOKIE, COOKIE_BYTES, COOKIE_REPLY, MAC, SEAL_NONCE, TAG};
use peering::PublicKey;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::{digest, hmac};
use std::net::SocketAddr;
use subtle::ConstantTimeEq as _;

/// What proves that we receive at an address.
pub(crate) type Cookie = [u8; COOKIE_BYTES];

/// The key of the `mac1` of messages to the holder of `receiver`.
pub(crate) fn mac1_key(receiver: &PublicKey) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, labelled(b"bentpipe mac1", receiver).as_ref())
}

/// Whether `mac1` of a message of at least two MACs is made with `key`.
pub(super) fn has_valid_mac1(key: &hmac::Key, datagram: &[u8]) -> bool {
    let (message, macs) = datagram.split_at(datagram.len() - 2 * MAC);
    truncated(hmac::sign(key, message)).ct_eq(&macs[..MAC]).into()
}

/// Ends a message with `mac1` and `mac2`; returns `mac1`.
pub(crate) fn append_macs(datagram: &mut Vec<u8>, receiver: &hmac::Key, mac2: Option<&hmac::Key>) -> [u8; MAC] {
    let mac1 = truncated(hmac::sign(receiver, datagram));
    datagram.extend_from_slice(&mac1);
    let mac2 = mac2.map_or([0; MAC], |key| truncated(hmac::sign(key, datagram)));
    datagram.extend_from_slice(&mac2);
    mac1
}

/// Whether `mac2` of a message is made with `key`.
pub(super) fn has_mac2_of(key: &hmac::Key, datagram: &[u8]) -> bool {
    let (message, mac2) = datagram.split_at(datagram.len() - MAC);
    truncated(hmac::sign(key, message)).ct_eq(mac2).into()
}

/// The key of `mac2` that a cookie is.
pub(super) fn mac2_key(cookie: &Cookie) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, cookie)
}

/// `mac1` of a message of at least two MACs.
pub(crate) fn mac1_of(datagram: &[u8]) -> &[u8] {
    &datagram[datagram.len() - 2 * MAC..datagram.len() - MAC]
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
    pub(crate) fn has_valid_mac2(&self, init: &[u8], from: &SocketAddr) -> bool {
        [&self.current, &self.previous].into_iter().any(|secret| has_mac2_of(&mac2_key(&cookie(secret, from)), init))
    }

    /// Answers an init with a cookie for the address that it came from.
    pub(crate) fn reply(&self, init: &[u8], from: &SocketAddr, own: &PublicKey, random: &mut SecureRandom) -> Vec<u8> {
        seal_cookie(&cookie(&self.current, from), init, own, random)
    }
}

/// A cookie reply to `init` as the holder of `own` sends it; anyone who knows that public key can make one.
pub(crate) fn seal_cookie(cookie: &Cookie, init: &[u8], own: &PublicKey, random: &mut SecureRandom) -> Vec<u8> {
    let nonce: [u8; SEAL_NONCE] = random.bytes();
    let mut sealed = cookie.to_vec();
    public_seal(own)
        .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(mac1_of(init)), &mut sealed)
        .expect("a cookie is shorter than an AEAD's limit");
    [&[COOKIE, 0, 0, 0], &init[4..8], &nonce, &sealed].concat()
}

/// Opens the reply of the holder of `peer` to the init of this `mac1`.
pub(super) fn open_cookie(peer: &PublicKey, mac1: &[u8; MAC], datagram: &[u8]) -> Option<Cookie> {
    let datagram: &[u8; COOKIE_REPLY] = datagram.try_into().ok()?;
    let nonce = Nonce::try_assume_unique_for_key(&datagram[8..8 + SEAL_NONCE]).ok()?;
    let mut cookie = [0; COOKIE_BYTES + TAG];
    cookie.copy_from_slice(&datagram[8 + SEAL_NONCE..]);
    let opened = public_seal(peer).open_in_place(nonce, Aad::from(mac1), &mut cookie).ok()?;
    (*opened).try_into().ok()
}

/// The key of messages from the holder of `owner` to senders who know its public key and nothing more.
pub(super) fn public_seal(owner: &PublicKey) -> LessSafeKey {
    seal_key(labelled(b"bentpipe cookie", owner).as_ref())
}

/// The key of 32 bytes for cookies and notices.
pub(super) fn seal_key(bytes: &[u8]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, bytes).expect("SHA-256 gives the 32 bytes of a key"))
}

fn cookie(secret: &hmac::Key, from: &SocketAddr) -> Cookie {
    truncated(hmac::sign(secret, from.to_string().as_bytes()))
}

fn labelled(label: &[u8], key: &PublicKey) -> digest::Digest {
    digest::digest(&digest::SHA256, &[label, key.as_bytes()].concat())
}

fn truncated(tag: hmac::Tag) -> [u8; MAC] {
    *tag.as_ref().first_chunk().expect("HMAC-SHA256 gives 32 bytes")
}
