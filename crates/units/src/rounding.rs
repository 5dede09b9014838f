//! Floating point to whole numbers.

/// `value.round() as u64`, without the call of a function of the mathematics library: what is below the half is cut off, negative
/// values and not-a-number become zero, and what is too large [`u64::MAX`].
#[inline]
pub(crate) fn rounded(value: f64) -> u64 {
    let whole = value as u64;
    // The difference is exact: both are multiples of the value's last bit.
    whole.saturating_add(u64::from(value - whole as f64 >= 0.5))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn is_the_library_s(bits in any::<u64>(), whole in 0u64..1 << 54, fraction in 0.0f64..1.0) {
            for value in [f64::from_bits(bits), whole as f64 + fraction, whole as f64 / 2.0, fraction] {
                prop_assert_eq!(rounded(value), value.round() as u64, "{}", value);
            }
        }
    }

    #[test]
    fn halves_and_ends_are_the_library_s() {
        let below_half = 0.5_f64.next_down();
        for value in
            [0.0, -0.0, 0.5, below_half, -0.5, -1e300, 1.5, 2.5, 1e300, u64::MAX as f64, f64::INFINITY, f64::NAN]
        {
            assert_eq!(rounded(value), value.round() as u64, "{value}");
        }
    }
}
