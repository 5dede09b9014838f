//! What measurements are compared with, and how they are summed up.

use crate::Direction;
use units::{Bytes, Duration, Probability, Rate};

/// Share of a full IPv4 packet (1500 bytes) that is TCP payload, with timestamps.
const PAYLOAD_SHARE: f64 = 1448.0 / 1500.0;

/// Least time in which `size` bytes can cross a link of `rate` that loses a fraction `loss` of its packets, whatever
/// the protocol: `rounds x RTT + size x 8 / (rate x 1448/1500 x (1 - loss))`.
pub fn limit(direction: Direction, size: Bytes, rate: Rate, rtt: Duration, loss: Probability) -> Duration {
    let capacity = rate.as_bps() as f64 * PAYLOAD_SHARE * (1.0 - loss.as_f64());
    Duration::from_secs_f64(direction.rounds() * rtt.as_secs_f64() + size.bits() as f64 / capacity)
}

/// Jain's index of fairness (Jain, Chiu and Hawe, DEC-TR-301, 1984): 1 if all shares are equal, 1/n if one has it all.
pub fn jain_index(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

/// The median of some numbers, the upper one of two in the middle; `None` of none.
pub fn median(numbers: &[f64]) -> Option<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_one_megabyte_at_6_mbit_over_geo() {
        let of = |direction, loss| {
            let loss = Probability::new(loss).unwrap();
            let limit =
                limit(direction, Bytes::new(1_000_000), Rate::from_bps(6_000_000), Duration::from_millis(550), loss);
            limit.as_secs_f64()
        };
        // 1.3812 s to send, and half a round trip or one.
        assert!((of(Direction::Up, 0.0) - 1.6562).abs() < 1e-3);
        assert!((of(Direction::Down, 0.0) - 1.9312).abs() < 1e-3);
        assert!((of(Direction::Down, 1e-2) - 1.9452).abs() < 1e-3);
    }

    #[test]
    fn jain_knows_equal_and_unequal_shares() {
        assert_eq!(jain_index(&[3.0, 3.0, 3.0]), 1.0);
        assert_eq!(jain_index(&[1.0, 0.0, 0.0, 0.0]), 0.25);
    }

    #[test]
    fn the_median_ignores_outliers() {
        assert_eq!(median(&[2.0, 90.0, 1.0]), Some(2.0));
        assert_eq!(median(&[]), None);
    }
}
