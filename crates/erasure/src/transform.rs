//! The additive Fourier transforms of Lin, Al-Naffouri, Han and Chung (IEEE Transactions on Information Theory 62(11), 2016), layer
//! by layer, over any arithmetic.

use super::{UNIT, add};
use reed_solomon_simd::engine::{Engine, GF_MODULUS, GfElement, ShardsRefMut, tables};

/// What the transforms do with two symbols of the same length.
pub(crate) trait Arithmetic {
    /// Adds `y`, times the element whose logarithm is `log`, to `x`; then `x` to `y`.
    fn butterfly(&self, x: &mut [[u8; UNIT]], y: &mut [[u8; UNIT]], log: GfElement);

    /// Undoes [`Arithmetic::butterfly`].
    fn inverse_butterfly(&self, x: &mut [[u8; UNIT]], y: &mut [[u8; UNIT]], log: GfElement);

    /// Multiplies a symbol by the element whose logarithm is `log`.
    fn multiply(&self, symbol: &mut [[u8; UNIT]], log: GfElement);
}

/// An engine of the code over an arithmetic.
pub(crate) struct Transforms<A>(pub(crate) A);

impl<A: Arithmetic> Transforms<A> {
    /// One layer: each symbol of `0..truncated_size` from `pos` on with that `half` further, in groups of two times `half`.
    fn layer(
        &self,
        data: &mut ShardsRefMut<'_>,
        (pos, half, truncated_size, skew_delta): (usize, usize, usize, usize),
        butterfly: impl Fn(&A, &mut [[u8; UNIT]], &mut [[u8; UNIT]], GfElement),
    ) {
        let skew = tables::get_skew();
        for start in (0..truncated_size).step_by(2 * half) {
            let log = skew[start + half + skew_delta - 1];
            for at in start..start + half {
                let (x, y) = data.dist2_mut(pos + at, half);
                // The logarithm of zero: what is added to `x` is nothing.
                if log == GF_MODULUS {
                    add(y, x);
                } else {
                    butterfly(&self.0, x, y, log);
                }
            }
        }
    }
}

impl<A: Arithmetic> Engine for Transforms<A> {
    fn fft(&self, data: &mut ShardsRefMut<'_>, pos: usize, size: usize, truncated_size: usize, skew_delta: usize) {
        let mut half = size / 2;
        while half > 0 {
            self.layer(data, (pos, half, truncated_size, skew_delta), A::butterfly);
            half /= 2;
        }
    }

    fn ifft(&self, data: &mut ShardsRefMut<'_>, pos: usize, size: usize, truncated_size: usize, skew_delta: usize) {
        let mut half = 1;
        while half < size {
            self.layer(data, (pos, half, truncated_size, skew_delta), A::inverse_butterfly);
            half *= 2;
        }
    }

    fn mul(&self, symbol: &mut [[u8; UNIT]], log: GfElement) {
        self.0.multiply(symbol, log);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{transforms, transforms_as_the_plain_one};
    use proptest::prelude::*;
    use reed_solomon_simd::engine::NoSimd;

    /// Arithmetic by the library's plain multiplication.
    struct Plain(NoSimd);

    impl Plain {
        fn add_product(&self, x: &mut [[u8; UNIT]], y: &[[u8; UNIT]], log: GfElement) {
            let mut product = y.to_vec();
            self.0.mul(&mut product, log);
            add(x, &product);
        }
    }

    impl Arithmetic for Plain {
        fn butterfly(&self, x: &mut [[u8; UNIT]], y: &mut [[u8; UNIT]], log: GfElement) {
            self.add_product(x, y, log);
            add(y, x);
        }

        fn inverse_butterfly(&self, x: &mut [[u8; UNIT]], y: &mut [[u8; UNIT]], log: GfElement) {
            add(y, x);
            self.add_product(x, y, log);
        }

        fn multiply(&self, symbol: &mut [[u8; UNIT]], log: GfElement) {
            self.0.mul(symbol, log);
        }
    }

    proptest! {
        #[test]
        fn the_transforms_are_the_librarys(case in transforms()) {
            transforms_as_the_plain_one(&Transforms(Plain(NoSimd::new())), case)?;
        }
    }
}
