//! How measurements are summed up.

/// Jain's index of fairness (Jain, Chiu and Hawe, DEC-TR-301, 1984): 1 if all shares are equal, 1/n if one has it all.
pub fn jain_index(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    // Equal shares may exceed 1 by a rounding error.
    if squares == 0.0 { 1.0 } else { (sum * sum / (shares.len() as f64 * squares)).min(1.0) }
}

/// The median of some numbers: the one in the middle, or the mean of the two there; `None` of none.
pub fn median(numbers: &[f64]) -> Option<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 { upper } else { (sorted[middle - 1] + upper) / 2.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain_knows_equal_and_unequal_shares() {
        assert_eq!(jain_index(&[3.0, 3.0, 3.0]), 1.0);
        assert!((1..100).all(|n| jain_index(&vec![0.1 * f64::from(n); n as usize]) <= 1.0));
        assert_eq!(jain_index(&[1.0, 0.0, 0.0, 0.0]), 0.25);
    }

    #[test]
    fn the_median_ignores_outliers() {
        assert_eq!(median(&[2.0, 90.0, 1.0]), Some(2.0));
        assert_eq!(median(&[3.0, 1.0]), Some(2.0));
        assert_eq!(median(&[]), None);
    }
}
