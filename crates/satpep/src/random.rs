//! Cryptographic randomness from a seed that the driver took from the system.

use ring::hmac;

/// An HMAC-SHA256 generator that forgets its past: each output is followed by a step of the key that cannot be undone,
/// so a key read out of memory tells nothing of the ephemeral keys made before.
pub(crate) struct SecureRandom {
    key: hmac::Key,
}

impl SecureRandom {
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, &seed) }
    }

    /// 32 random bytes.
    pub(crate) fn block(&mut self) -> [u8; 32] {
        let output = hmac::sign(&self.key, b"output");
        let next = hmac::sign(&self.key, b"next key");
        self.key = hmac::Key::new(hmac::HMAC_SHA256, next.as_ref());
        output.as_ref().try_into().expect("HMAC-SHA256 gives 32 bytes")
    }

    /// `N` random bytes, at most 32.
    pub(crate) fn bytes<const N: usize>(&mut self) -> [u8; N] {
        *self.block().first_chunk().expect("at most 32 bytes are asked for")
    }

    /// A random 32-bit number.
    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.bytes())
    }

    /// An independent generator.
    pub(crate) fn fork(&mut self) -> Self {
        Self::new(self.block())
    }
}

impl snow::types::Random for SecureRandom {
    fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), snow::Error> {
        for chunk in dest.chunks_mut(32) {
            chunk.copy_from_slice(&self.block()[..chunk.len()]);
        }
        Ok(())
    }
}
