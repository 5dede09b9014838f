//! Choices at random from a seed.

use units::{CounterRandom, Duration};

/// A source of choices. The same seed and stream choose the same.
#[derive(Debug, Clone)]
pub struct Dice(CounterRandom);

impl Dice {
    /// The choices number `stream` of `seed`.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self(CounterRandom::new(seed, stream))
    }

    /// Any 64 bits.
    pub fn word(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Whether something of this probability happens.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.word() % (high - low + 1)
    }

    /// An index below `length`, which is not zero.
    pub fn index(&mut self, length: usize) -> usize {
        (self.word() % length as u64) as usize
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.index(of.len())]
    }

    /// A number between `low` (above 0) and `high` whose logarithm is uniform.
    pub fn spread(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.unit())
    }

    /// A time between two numbers of milliseconds (above 0) whose logarithm is uniform.
    pub fn millis(&mut self, low: f64, high: f64) -> Duration {
        Duration::from_secs_f64(self.spread(low, high) / 1000.0)
    }

    fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_and_stream_choose_the_same_and_others_do_not() {
        let words = |seed, stream| {
            let mut dice = Dice::new(seed, stream);
            [0; 8].map(|_| dice.word())
        };
        assert_eq!(words(1, 2), words(1, 2));
        assert_ne!(words(1, 2), words(1, 3));
        assert_ne!(words(1, 2), words(2, 2));
    }

    #[test]
    fn choices_stay_within_their_bounds_and_reach_both_ends() {
        let mut dice = Dice::new(7, 0);
        let drawn: Vec<u64> = (0..1000).map(|_| dice.between(3, 5)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&3), Some(&5)));
        assert!((0..1000).all(|_| dice.index(4) < 4 && [1, 9].contains(&dice.pick(&[1, 9]))));
        let millis = (0..1000).map(|_| dice.millis(1.0, 100.0));
        assert!(millis.into_iter().all(|time| time >= Duration::from_millis(1) && time <= Duration::from_millis(100)));
        assert!((0..100).all(|_| !dice.chance(0.0)) && (0..100).all(|_| dice.chance(1.0)));
        let heads = (0..10_000).filter(|_| dice.chance(0.25)).count();
        assert!((2_300..2_700).contains(&heads), "{heads} of 10,000 at 0.25");
    }
}
