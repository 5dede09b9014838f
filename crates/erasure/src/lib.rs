//! The arithmetic of the erasure code: Reed-Solomon over GF(2^16), as reed-solomon-simd has it, whose engines have vector
//! instructions for x86_64 and aarch64. [`CodeEngine`] is the library's best engine there, and on 32-bit Arm one of this crate with
//! NEON, where the processor has it.
//!
//! A symbol is a number of units of 64 bytes, each of 32 elements of the field: first their low bytes, then their high ones.

#[cfg(all(target_arch = "arm", target_endian = "little"))]
mod neon;
#[cfg(any(test, all(target_arch = "arm", target_endian = "little")))]
mod transform;

use reed_solomon_simd::engine::{DefaultEngine, Engine, GF_ORDER, GfElement, ShardsRefMut};

/// The bytes of a unit, which engines work on at once.
pub const UNIT: usize = 64;

/// The fastest engine for the processor that the program runs on.
pub struct CodeEngine(Box<dyn Engine + Send + Sync>);

impl CodeEngine {
    /// Chooses the engine. The first one of a process makes tables of 8 MiB, which takes tens of milliseconds.
    pub fn new() -> Self {
        #[cfg(all(target_arch = "arm", target_endian = "little"))]
        if let Some(neon) = neon::Neon::detect() {
            return Self(Box::new(transform::Transforms(neon)));
        }
        Self(Box::new(DefaultEngine::new()))
    }
}

impl Default for CodeEngine {
    fn default() -> Self {
        Self::new()
    }
}

impl Engine for CodeEngine {
    fn fft(&self, data: &mut ShardsRefMut<'_>, pos: usize, size: usize, truncated_size: usize, skew_delta: usize) {
        self.0.fft(data, pos, size, truncated_size, skew_delta);
    }

    fn ifft(&self, data: &mut ShardsRefMut<'_>, pos: usize, size: usize, truncated_size: usize, skew_delta: usize) {
        self.0.ifft(data, pos, size, truncated_size, skew_delta);
    }

    fn mul(&self, symbol: &mut [[u8; UNIT]], log: GfElement) {
        self.0.mul(symbol, log);
    }

    fn eval_poly(erasures: &mut [GfElement; GF_ORDER], truncated_size: usize) {
        DefaultEngine::eval_poly(erasures, truncated_size);
    }
}

/// Adds `symbol` to `sum`; in this field that takes it off as well.
pub fn add(sum: &mut [[u8; UNIT]], symbol: &[[u8; UNIT]]) {
    let words = symbol.as_flattened().as_chunks::<8>().0;
    // A word at a time: without vector instructions, compilers leave sums of bytes as they are.
    for (sum, word) in sum.as_flattened_mut().as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *sum = (u64::from_ne_bytes(*sum) ^ u64::from_ne_bytes(*word)).to_ne_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use reed_solomon_simd::engine::{GF_MODULUS, NoSimd};
    use units::CounterRandom;

    /// Symbols of random bytes, all units side by side.
    fn symbols(count: usize, units: usize, seed: u64) -> Vec<[u8; UNIT]> {
        let random = CounterRandom::new(seed, 0);
        let unit = |at: usize| std::array::from_fn(|byte| random.at((at * UNIT + byte) as u64) as u8);
        (0..count * units).map(unit).collect()
    }

    /// A transform there and back.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Case {
        size: usize,
        units: usize,
        skew: usize,
        /// Symbols of the chunk that hold anything.
        filled: usize,
        /// Symbols that are wanted back.
        wanted: usize,
        seed: u64,
    }

    pub(crate) fn transforms() -> impl Strategy<Value = Case> {
        (0u32..9, 1usize..4, 0usize..8, any::<bool>(), any::<u64>()).prop_map(
            |(log_size, units, skew, is_whole, seed)| {
                let size = 1 << log_size;
                let filled = if is_whole { size } else { 1 + seed as usize % size };
                let wanted = if is_whole { 1 + (seed >> 32) as usize % size } else { 0 };
                Case { size, units, skew: skew * size, filled, wanted, seed }
            },
        )
    }

    /// That `engine` gives what the library's plain one gives.
    pub(crate) fn transforms_as_the_plain_one(engine: &impl Engine, case: Case) -> Result<(), TestCaseError> {
        let Case { size, units, skew, filled, wanted, seed } = case;
        let mut data = symbols(size, units, seed);
        data[filled * units..].fill([0; UNIT]);
        let plain = NoSimd::new();
        let mut expected = data.clone();
        engine.ifft(&mut ShardsRefMut::new(size, units, &mut data), 0, size, filled, skew);
        plain.ifft(&mut ShardsRefMut::new(size, units, &mut expected), 0, size, filled, skew);
        prop_assert_eq!(&data[..filled * units], &expected[..filled * units]);
        if wanted > 0 {
            engine.fft(&mut ShardsRefMut::new(size, units, &mut data), 0, size, wanted, skew);
            plain.fft(&mut ShardsRefMut::new(size, units, &mut expected), 0, size, wanted, skew);
            prop_assert_eq!(&data[..wanted * units], &expected[..wanted * units]);
        }
        Ok(())
    }

    proptest! {
        /// On every processor an engine gives what the library's plain one gives.
        #[test]
        fn the_engine_multiplies_as_the_plain_one_does(units in 0usize..24, log in 0..=GF_MODULUS, seed in any::<u64>()) {
            let mut product = symbols(1, units, seed);
            let mut expected = product.clone();
            CodeEngine::new().mul(&mut product, log);
            NoSimd::new().mul(&mut expected, log);
            prop_assert_eq!(product, expected);
        }

        #[test]
        fn the_engine_transforms_as_the_plain_one_does(case in transforms()) {
            transforms_as_the_plain_one(&CodeEngine::new(), case)?;
        }

        #[test]
        fn a_symbol_added_twice_is_taken_off(units in 0usize..24, seed in any::<u64>()) {
            let (one, other) = (symbols(1, units, seed), symbols(1, units, seed ^ 1));
            let mut sum = one.clone();
            add(&mut sum, &other);
            let expected: Vec<u8> = one.as_flattened().iter().zip(other.as_flattened()).map(|(one, other)| one ^ other).collect();
            prop_assert_eq!(sum.as_flattened(), &expected[..]);
            add(&mut sum, &other);
            prop_assert_eq!(sum, one);
        }
    }
}
