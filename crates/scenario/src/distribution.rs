//! Random sizes and times.

use schemars::JsonSchema;
use serde::Deserialize;
use units::{Bytes, CounterRandom, Duration};

/// A quantity that can be drawn at random.
pub trait Quantity: Copy + PartialOrd + std::fmt::Display {
    /// As a number, in the unit in which the type counts.
    fn to_f64(self) -> f64;
    /// From a number, rounded to the nearest that the type can hold.
    fn from_f64(value: f64) -> Self;
}

impl Quantity for Bytes {
    fn to_f64(self) -> f64 {
        self.as_u64() as f64
    }
    fn from_f64(value: f64) -> Self {
        Bytes::new(value.round() as u64)
    }
}

impl Quantity for Duration {
    fn to_f64(self) -> f64 {
        self.as_nanos() as f64
    }
    fn from_f64(value: f64) -> Self {
        Duration::from_nanos(value.round() as u64)
    }
}

/// A size or a time: constant, or random.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Distribution<T> {
    /// Constant.
    Constant(T),
    /// Random.
    Random(Random<T>),
}

/// The distribution of a random size or time. The values are times where a time is drawn, and sizes such as "64KiB" where a size is.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Random<T> {
    /// Uniform between two values.
    Uniform {
        /// The least.
        min: T,
        /// The largest.
        max: T,
    },
    /// Exponential.
    Exponential {
        /// The mean.
        mean: T,
    },
    /// Pareto, truncated at `max`: heavy-tailed, like the sizes of files on the web.
    Pareto {
        /// The least.
        min: T,
        /// The exponent of the tail.
        #[schemars(extend("exclusiveMinimum" = 0, "maximum" = 100))]
        shape: f64,
        /// The largest; larger draws become this.
        max: T,
    },
    /// Log-normal.
    LogNormal {
        /// The median.
        median: T,
        /// The standard deviation of the logarithm.
        #[schemars(range(min = 0, max = 10))]
        sigma: f64,
    },
}

impl<T: Copy> Distribution<T> {
    /// The same with other values.
    pub(crate) fn map<U>(&self, value: impl Fn(T) -> U) -> Distribution<U> {
        Distribution::Random(match *self {
            Distribution::Constant(constant) => return Distribution::Constant(value(constant)),
            Distribution::Random(Random::Uniform { min, max }) => Random::Uniform { min: value(min), max: value(max) },
            Distribution::Random(Random::Exponential { mean }) => Random::Exponential { mean: value(mean) },
            Distribution::Random(Random::Pareto { min, shape, max }) => {
                Random::Pareto { min: value(min), shape, max: value(max) }
            }
            Distribution::Random(Random::LogNormal { median, sigma }) => {
                Random::LogNormal { median: value(median), sigma }
            }
        })
    }
}

impl<T: Quantity> Distribution<T> {
    /// The next value: uses two draws of `random`, whatever the distribution.
    pub fn sample(&self, random: &mut CounterRandom) -> T {
        // In (0, 1], so that its logarithm is finite.
        let mut unit = || ((random.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        let (first, second) = (unit(), unit());
        match *self {
            Distribution::Constant(value) => value,
            Distribution::Random(Random::Uniform { min, max }) => {
                T::from_f64(min.to_f64() + (max.to_f64() - min.to_f64()) * first)
            }
            Distribution::Random(Random::Exponential { mean }) => T::from_f64(-mean.to_f64() * first.ln()),
            Distribution::Random(Random::Pareto { min, shape, max }) => {
                T::from_f64((min.to_f64() * first.powf(-1.0 / shape)).min(max.to_f64()))
            }
            Distribution::Random(Random::LogNormal { median, sigma }) => {
                // Box and Muller 1958.
                let normal = (-2.0 * first.ln()).sqrt() * (std::f64::consts::TAU * second).cos();
                T::from_f64(median.to_f64() * (sigma * normal).exp())
            }
        }
    }

    /// Checks what types cannot.
    ///
    /// # Errors
    /// Says what is wrong and what is allowed.
    pub fn validate(&self) -> Result<(), String> {
        match *self {
            Distribution::Random(Random::Uniform { min, max }) if max < min => {
                Err(format!("max {max} is below min {min}"))
            }
            Distribution::Random(Random::Pareto { min, max, .. }) if max < min => {
                Err(format!("max {max} is below min {min}"))
            }
            Distribution::Random(Random::Pareto { shape, .. }) if !(shape > 0.0 && shape.is_finite()) => {
                Err(format!("shape {shape} is not above 0"))
            }
            Distribution::Random(Random::LogNormal { sigma, .. }) if !(0.0..=10.0).contains(&sigma) => {
                Err(format!("sigma {sigma} is not between 0 and 10"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(distribution: Distribution<Bytes>) -> f64 {
        let mut random = CounterRandom::new(4, 2);
        let n = 200_000;
        (0..n).map(|_| distribution.sample(&mut random).to_f64()).sum::<f64>() / f64::from(n)
    }

    #[test]
    fn means_are_those_of_theory() {
        let kb = |n: u64| Bytes::new(n * 1000);
        for (distribution, expected) in [
            (Distribution::Constant(kb(7)), 7e3),
            (Distribution::Random(Random::Uniform { min: kb(2), max: kb(4) }), 3e3),
            (Distribution::Random(Random::Exponential { mean: kb(10) }), 10e3),
            // min * a/(a-1), less the tail cut off at max: 3/2 kB * (1 - (1/100)^2/3).
            (Distribution::Random(Random::Pareto { min: kb(1), shape: 3.0, max: kb(100) }), 1.5e3),
            (Distribution::Random(Random::LogNormal { median: kb(10), sigma: 0.5 }), 10e3 * 0.125f64.exp()),
        ] {
            let mean = mean(distribution);
            assert!((mean / expected - 1.0).abs() < 0.01, "{distribution:?}: {mean}, not {expected}");
        }
    }

    #[test]
    fn bounds_hold_and_nonsense_is_refused() {
        let mut random = CounterRandom::new(1, 1);
        let pareto = Distribution::Random(Random::Pareto { min: Bytes::new(10), shape: 0.5, max: Bytes::new(1000) });
        assert!((0..10_000).all(|_| (10..=1000).contains(&pareto.sample(&mut random).as_u64())));
        let (small, large) = (Bytes::new(1), Bytes::new(2));
        assert!(Distribution::Random(Random::Uniform { min: large, max: small }).validate().is_err());
        assert!(Distribution::Random(Random::Pareto { min: small, shape: 0.0, max: large }).validate().is_err());
        assert!(Distribution::Random(Random::Pareto { min: small, shape: f64::NAN, max: large }).validate().is_err());
        assert!(Distribution::Random(Random::LogNormal { median: small, sigma: -1.0 }).validate().is_err());
        assert!(pareto.validate().is_ok());
    }
}
