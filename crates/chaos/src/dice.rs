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
