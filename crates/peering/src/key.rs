//! Curve25519 keys, written as WireGuard writes them: 32 bytes in base64.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use snow::params::DHChoice;
use snow::resolvers::{CryptoResolver as _, DefaultResolver};

/// A gateway's secret. It is not shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct PrivateKey([u8; 32]);

/// A gateway's name to its peers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; 32]);

/// A key that is not 32 bytes in base64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a key: a key is 32 bytes in base64, 44 characters that end in `=`; make one with `bentpipe keygen`")]
pub struct KeyError;

impl PrivateKey {
    /// A key from 32 random bytes, clamped as RFC 7748, section 5, asks.
    pub fn from_random(mut bytes: [u8; 32]) -> Self {
        bytes[0] &= 0xf8;
        bytes[31] = bytes[31] & 0x7f | 0x40;
        Self(bytes)
    }

    /// The public key that belongs to this one.
    pub fn public_key(&self) -> PublicKey {
        let mut dh = DefaultResolver.resolve_dh(&DHChoice::Curve25519).expect("snow's default build has Curve25519");
        dh.set(&self.0);
        PublicKey(dh.pubkey().try_into().expect("Curve25519 public keys have 32 bytes"))
    }

    /// The secret that this key's holder and the holder of the key behind `peer` share (X25519, RFC 7748). `None` if `peer`
    /// is of small order, so that the secret would be known to all.
    pub fn shared_secret(&self, peer: &PublicKey) -> Option<[u8; 32]> {
        let mut dh = DefaultResolver.resolve_dh(&DHChoice::Curve25519)?;
        dh.set(&self.0);
        let mut secret = [0; 32];
        dh.dh(&peer.0, &mut secret).ok()?;
        (secret != [0; 32]).then_some(secret)
    }

    /// The key as text. Anyone who reads it can impersonate this gateway.
    pub fn to_base64(&self) -> String {
        BASE64_STANDARD.encode(self.0)
    }

    /// The 32 bytes. Anyone who reads them can impersonate this gateway.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl PublicKey {
    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The key with these bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

fn decode(text: &str) -> Result<[u8; 32], KeyError> {
    BASE64_STANDARD.decode(text.trim()).ok().and_then(|bytes| bytes.try_into().ok()).ok_or(KeyError)
}

impl std::str::FromStr for PrivateKey {
    type Err = KeyError;
    fn from_str(text: &str) -> Result<Self, KeyError> {
        decode(text).map(Self::from_random)
    }
}

impl std::str::FromStr for PublicKey {
    type Err = KeyError;
    fn from_str(text: &str) -> Result<Self, KeyError> {
        decode(text).map(Self)
    }
}

impl std::fmt::Display for PublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&BASE64_STANDARD.encode(self.0))
    }
}

impl std::fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl std::fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PrivateKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_public_key_is_that_of_rfc_7748() {
        // RFC 7748, section 6.1: Alice's keys.
        let secret: [u8; 32] = [
            0x77, 0x07, 0x6d, 0x0a, 0x73, 0x18, 0xa5, 0x7d, 0x3c, 0x16, 0xc1, 0x72, 0x51, 0xb2, 0x66, 0x45, 0xdf, 0x4c,
            0x2f, 0x87, 0xeb, 0xc0, 0x99, 0x2a, 0xb1, 0x77, 0xfb, 0xa5, 0x1d, 0xb9, 0x2c, 0x2a,
        ];
        let public = PrivateKey::from_random(secret).public_key();
        assert_eq!(public.as_bytes()[..4], [0x85, 0x20, 0xf0, 0x09]);
        assert_eq!(public.as_bytes()[28..], [0xaa, 0x9b, 0x4e, 0x6a]);
    }

    #[test]
    fn two_holders_share_a_secret_and_none_with_a_point_of_small_order() {
        let (a, b) = (PrivateKey::from_random([1; 32]), PrivateKey::from_random([2; 32]));
        let secret = a.shared_secret(&b.public_key());
        assert!(secret.is_some() && secret == b.shared_secret(&a.public_key()));
        assert_eq!(a.shared_secret(&PublicKey([0; 32])), None);
    }

    #[test]
    fn text_round_trips_and_secrets_stay_hidden() {
        let key = PrivateKey::from_random([7; 32]);
        assert_eq!(key.to_base64().parse(), Ok(key.clone()));
        assert_eq!(key.public_key().to_string().parse(), Ok(key.public_key()));
        assert_eq!(format!("{key:?}"), "PrivateKey(…)");
        assert_eq!("short=".parse::<PublicKey>(), Err(KeyError));
    }

    /// RFC 7748, section 6.1: Alice's private key, Bob's public one, and the secret that they share.
    #[test]
    fn the_shared_secret_is_that_of_rfc_7748() {
        let alice: PrivateKey = "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=".parse().expect("a key");
        let bob: PublicKey = "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=".parse().expect("a key");
        let secret = alice.shared_secret(&bob).map(|secret| BASE64_STANDARD.encode(secret));
        assert_eq!(secret.as_deref(), Some("Sl2dW6TOLeFyjjv0gDUPJeB+IclH0Z4zdvCbPB4WF0I="));
    }

    #[test]
    fn a_private_key_is_clamped_however_it_was_made() {
        for fill in [0x00, 0xff, 0x55] {
            let key = PrivateKey::from_random([fill; 32]);
            assert_eq!((key.as_bytes()[0] & 7, key.as_bytes()[31] & 0xc0), (0, 0x40), "RFC 7748, section 5");
            assert_eq!(key.to_base64().parse(), Ok(key), "and stays as it is");
        }
    }

    #[test]
    fn a_public_key_shows_as_its_text_and_a_wrong_one_says_what_to_do() {
        let key = PrivateKey::from_random([9; 32]).public_key();
        assert_eq!(format!("{key:?}"), key.to_string());
        assert_eq!(key.to_string().len(), 44);
        assert_eq!(PublicKey::from_bytes(*key.as_bytes()), key);
        let long = format!("AAAA{key}");
        for wrong in ["", "AAAA", "not base64!", long.as_str()] {
            let error = wrong.parse::<PublicKey>().expect_err(wrong).to_string();
            assert!(error.contains("44 characters") && error.contains("keygen"), "{error}");
            assert_eq!(wrong.parse::<PrivateKey>(), Err(KeyError));
        }
    }
}
