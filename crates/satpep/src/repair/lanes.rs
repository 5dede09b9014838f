//! A symbol as the code's engine has it: in every 64 bytes, 32 low bytes of words and then their 32 high ones. The last words of
//! a symbol whose length is no multiple of 64 bytes stand at the beginning of each half.

use erasure::UNIT;
use reed_solomon_simd::engine::{Engine, GfElement};

const HALF: usize = UNIT / 2;

/// The units that a symbol of `length` bytes takes up.
pub(super) const fn units(length: usize) -> usize {
    length.div_ceil(UNIT)
}

/// Brings the last words of a symbol of `length` bytes, which stands in `units`, into the engine's form.
pub(super) fn spread(units: &mut [[u8; UNIT]], length: usize) {
    let rest = length % UNIT;
    if let Some(last) = units.last_mut().filter(|_| rest > 0) {
        last.copy_within(rest / 2..rest, HALF);
        last[rest / 2..HALF].fill(0);
        last[HALF + rest / 2..].fill(0);
    }
}

/// The bytes of a symbol of `length` bytes in the engine's form.
pub(super) fn gathered(units: &[[u8; UNIT]], length: usize) -> Vec<u8> {
    let rest = length % UNIT;
    let mut bytes = units.as_flattened()[..length - rest].to_vec();
    if let Some(last) = units.last().filter(|_| rest > 0) {
        bytes.extend_from_slice(&last[..rest / 2]);
        bytes.extend_from_slice(&last[HALF..][..rest / 2]);
    }
    bytes
}

/// A symbol of its own in the engine's form.
pub(super) struct Lanes(pub(super) Vec<[u8; UNIT]>);

impl Lanes {
    /// Words of a unit.
    pub(super) const WORDS: usize = HALF;

    pub(super) fn new(bytes: &[u8]) -> Self {
        let mut lanes = vec![[0; UNIT]; units(bytes.len())];
        lanes.as_flattened_mut()[..bytes.len()].copy_from_slice(bytes);
        spread(&mut lanes, bytes.len());
        Self(lanes)
    }

    /// Adds another symbol, which is to take one off as well.
    pub(super) fn add(&mut self, other: &[[u8; UNIT]]) {
        erasure::add(&mut self.0, other);
    }

    /// The sum of `symbols`, each times the factor whose logarithm is beside it, where there is one.
    pub(super) fn combined<'a>(
        engine: &impl Engine,
        length: usize,
        symbols: impl Iterator<Item = (Option<GfElement>, &'a Self)>,
    ) -> Self {
        let (mut sum, mut product) = (Self(vec![[0; UNIT]; length]), vec![[0; UNIT]; length]);
        for (log, symbol) in symbols {
            let Some(log) = log else { continue };
            product.copy_from_slice(&symbol.0);
            engine.mul(&mut product, log);
            sum.add(&product);
        }
        sum
    }

    pub(super) fn word(&self, at: usize) -> GfElement {
        let unit = &self.0[at / HALF];
        GfElement::from_le_bytes([unit[at % HALF], unit[HALF + at % HALF]])
    }

    pub(super) fn set_word(&mut self, at: usize, word: GfElement) {
        let unit = &mut self.0[at / HALF];
        [unit[at % HALF], unit[HALF + at % HALF]] = word.to_le_bytes();
    }
}
