//! A gateway's key as a TLS identity: one key, the one that its peers have in their configuration, serves both transports.
//!
//! The keys are Curve25519's, which make shared secrets. For TLS they sign: the private scalar is also one of Ed25519, and
//! the peer's public key there follows from the one it has configured (T. Perrin, "The XEdDSA and VXEdDSA Signature
//! Schemes", revision 1, sections 2.3 and 4). What is signed verifies as an ordinary Ed25519 signature (RFC 8032).

use ::satpep::{PrivateKey, PublicKey};
use curve25519_dalek::{EdwardsPoint, MontgomeryPoint, Scalar};
use ring::digest::{SHA512, digest};

/// What stands before the 32 bytes of an Ed25519 key as X.509 writes it (RFC 8410, section 4).
const ED25519_KEY: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
/// The sign of a point's x coordinate, in the last byte of its encoding.
const SIGN: u8 = 0x80;

/// The key that verifies what the holder of the key behind `key` signs, as X.509 writes it; `None` if there is none.
pub(super) fn verification_key(key: &PublicKey) -> Option<Vec<u8>> {
    let point = MontgomeryPoint(*key.as_bytes()).to_edwards(0)?;
    Some([&ED25519_KEY[..], point.compress().as_bytes()].concat())
}

/// Signs with a gateway's key.
pub(super) struct SigningKey {
    /// The scalar whose public point has sign 0.
    scalar: Scalar,
    public: [u8; 32],
}

impl SigningKey {
    pub(super) fn new(key: &PrivateKey) -> Self {
        // `PrivateKey` is clamped.
        let scalar = Scalar::from_bytes_mod_order(*key.as_bytes());
        let public = EdwardsPoint::mul_base(&scalar).compress().to_bytes();
        let has_sign = public[31] & SIGN != 0;
        let mut positive = public;
        positive[31] &= !SIGN;
        Self { scalar: if has_sign { -scalar } else { scalar }, public: positive }
    }

    /// The key that verifies, as X.509 writes it.
    pub(super) fn verification_key(&self) -> Vec<u8> {
        [&ED25519_KEY[..], &self.public].concat()
    }

    /// The signature of `message`, made with 64 fresh random bytes.
    pub(super) fn sign(&self, message: &[u8], random: &[u8; 64]) -> [u8; 64] {
        // XEdDSA's hash_1: it differs from every hash that Ed25519 makes by its first 32 bytes.
        let mut prefix = [0xff; 32];
        prefix[0] = 0xfe;
        let nonce = hash(&[&prefix, self.scalar.as_bytes(), message, random]);
        let commitment = EdwardsPoint::mul_base(&nonce).compress();
        let challenge = hash(&[commitment.as_bytes(), &self.public, message]);
        let response = nonce + challenge * self.scalar;
        let mut signature = [0; 64];
        signature[..32].copy_from_slice(commitment.as_bytes());
        signature[32..].copy_from_slice(response.as_bytes());
        signature
    }
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SigningKey(…)")
    }
}

fn hash(parts: &[&[u8]]) -> Scalar {
    let digest = digest(&SHA512, &parts.concat());
    Scalar::from_bytes_mod_order_wide(digest.as_ref().try_into().expect("SHA-512 gives 64 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::signature::{ED25519, UnparsedPublicKey};

    #[test]
    fn signatures_verify_with_the_key_that_follows_from_the_configured_one() {
        for byte in 0..40 {
            let key = PrivateKey::from_random([byte; 32]);
            let (signing, verification) = (SigningKey::new(&key), verification_key(&key.public_key()).unwrap());
            assert_eq!(signing.verification_key(), verification, "{byte}");
            let public = UnparsedPublicKey::new(&ED25519, &verification[ED25519_KEY.len()..]);
            let signature = signing.sign(b"message", &[byte; 64]);
            assert!(public.verify(b"message", &signature).is_ok(), "{byte}");
            assert!(public.verify(b"another", &signature).is_err());
            assert_ne!(signature, signing.sign(b"message", &[byte ^ 1; 64]), "each is made with fresh randomness");
        }
    }

    #[test]
    fn another_key_does_not_verify() {
        let [a, b] = [1, 2].map(|byte| PrivateKey::from_random([byte; 32]));
        let other = verification_key(&b.public_key()).unwrap();
        let signature = SigningKey::new(&a).sign(b"message", &[0; 64]);
        assert!(UnparsedPublicKey::new(&ED25519, &other[ED25519_KEY.len()..]).verify(b"message", &signature).is_err());
    }
}
