//! The random processes that decide which packets are lost.

use crate::LossModel;
use units::{Bytes, CounterRandom};

/// A loss model with its draws.
#[derive(Debug)]
pub(crate) struct LossProcess {
    model: LossModel,
    draws: CounterRandom,
}

impl LossProcess {
    pub(crate) fn new(model: LossModel, draws: CounterRandom) -> Self {
        Self { model, draws }
    }

    /// Whether the `k`-th packet sent, of `size`, is lost.
    #[inline]
    pub(crate) fn loses(&self, k: u64, size: Bytes) -> bool {
        match self.model {
            LossModel::None => false,
            LossModel::Bernoulli(probability) => self.draws.unit_at(k) < probability.as_f64(),
            LossModel::BitErrorRate(rate) => self.draws.unit_at(k) < packet_error_rate(rate.as_f64(), size),
        }
    }
}

/// 1-(1-BER)^(8L), in a form that keeps its precision for the smallest rates.
fn packet_error_rate(bit_error_rate: f64, size: Bytes) -> f64 {
    -(size.bits() as f64 * (-bit_error_rate).ln_1p()).exp_m1()
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Probability;

    #[test]
    fn packet_error_rates_follow_from_bit_error_rates() {
        for (bit_error_rate, size, expected, tolerance) in [
            (1e-6, 1500, 0.011_928_29, 5e-9),
            (1e-6, 576, 0.004_597, 5e-7),
            (1e-6, 40, 0.000_320, 5e-7),
            (1e-7, 1500, 0.001_199_28, 5e-9),
            (1e-5, 1500, 0.113_08, 5e-6),
            (0.0, 1500, 0.0, 0.0),
            (1.0, 1500, 1.0, 0.0),
        ] {
            let rate = packet_error_rate(bit_error_rate, Bytes::new(size));
            assert!((rate - expected).abs() <= tolerance, "{bit_error_rate} {size}: {rate}");
        }
    }

    fn fraction_lost(model: LossModel, size: u64) -> f64 {
        let process = LossProcess::new(model, CounterRandom::new(11, 0));
        let n = 1_000_000;
        (0..n).filter(|&k| process.loses(k, Bytes::new(size))).count() as f64 / n as f64
    }

    #[test]
    fn the_fraction_lost_is_the_probability_within_four_sigma() {
        let probability = |p| Probability::new(p).expect("valid");
        for (model, p) in [
            (LossModel::None, 0.0),
            (LossModel::Bernoulli(probability(0.01)), 0.01),
            (LossModel::BitErrorRate(probability(1e-6)), 0.011_928_29),
            (LossModel::Bernoulli(probability(1.0)), 1.0),
        ] {
            let sigma = (p * (1.0 - p) / 1e6_f64).sqrt();
            let lost = fraction_lost(model, 1500);
            assert!((lost - p).abs() <= 4.0 * sigma, "{model:?}: {lost}");
        }
    }
}
