//! Randomness as an argument: a generator whose draw number k depends only on (seed, stream, k).

/// A counter-based generator: draw `k` of a stream is a fixed function of (seed, stream, `k`), whatever was drawn
/// before, so two variants compared under one seed meet the same losses packet by packet.
///
/// Not for cryptography.
#[derive(Debug, Clone)]
pub struct CounterRandom {
    key: u64,
    next: u64,
}

impl CounterRandom {
    /// The stream `stream` of the generator seeded with `seed`.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self { key: mix(mix(seed) ^ stream.wrapping_mul(0xd6e8_feb8_6659_fd93)), next: 0 }
    }

    /// Draw `k`, uniform over all 64-bit values.
    pub fn at(&self, k: u64) -> u64 {
        mix(self.key ^ mix(k.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// Draw `k` as a number in [0, 1).
    pub fn unit_at(&self, k: u64) -> f64 {
        (self.at(k) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// The next draw in order.
    pub fn next_u64(&mut self) -> u64 {
        let draw = self.at(self.next);
        self.next += 1;
        draw
    }
}

/// A bijection on 64-bit values in which every input bit affects every output bit (the finaliser of SplitMix64:
/// Steele, Lea and Flood, OOPSLA 2014).
pub const fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_do_not_depend_on_their_order() {
        let mut random = CounterRandom::new(7, 1);
        let in_order: Vec<_> = (0..8).map(|_| random.next_u64()).collect();
        let backwards: Vec<_> = (0..8).rev().map(|k| CounterRandom::new(7, 1).at(k)).rev().collect();
        assert_eq!(in_order, backwards);
    }

    #[test]
    fn streams_and_seeds_differ_and_the_mean_is_a_half() {
        assert_ne!(CounterRandom::new(1, 0).at(0), CounterRandom::new(1, 1).at(0));
        assert_ne!(CounterRandom::new(1, 0).at(0), CounterRandom::new(2, 0).at(0));
        let random = CounterRandom::new(3, 9);
        let n = 100_000;
        let mean = (0..n).map(|k| random.unit_at(k)).sum::<f64>() / n as f64;
        // The mean of n uniform draws has a standard deviation of 1/sqrt(12 n); five of them.
        assert!((mean - 0.5).abs() < 5.0 / (12.0 * n as f64).sqrt(), "{mean}");
    }
}
