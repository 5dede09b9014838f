//! What a queue shorter than the bandwidth-delay product leaves of a link, where nothing but its overflow is ever lost.

use crate::estimate::Invalid;

/// The share of its rate that a link carries for one connection which grows by a segment in a round trip and keeps `beta`
/// of its window when the queue overflows. `queue` is its length over the bandwidth-delay product. The window swings
/// between `beta (1 + queue)` and `1 + queue` times the product; the link idles while it is below one. For `beta = 1/2`,
/// 3/4 without a queue, all with a product of it (Villamizar and Song, CCR 24(5), 1994).
///
/// # Errors
/// If `queue` is negative or `beta` is not between 0 and 1.
pub fn utilisation(queue: f64, beta: f64) -> Result<f64, Invalid> {
    Invalid::unless(queue >= 0.0, "queue", format!("{queue} of the bandwidth-delay product"), "0 or more")?;
    Invalid::unless(beta > 0.0 && beta < 1.0, "beta", beta, "above 0, below 1")?;
    let (least, most) = (beta * (1.0 + queue), 1.0 + queue);
    if least >= 1.0 {
        return Ok(1.0);
    }
    // In round trips without queue, with a growth of one product each: the link idles, then it is full.
    let (filling, full) = (1.0 - least, (most * most - 1.0) / 2.0);
    let carried = (1.0 - least * least) / 2.0 + full;
    Ok(carried / (filling + full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_three_quarters_to_all() {
        assert_eq!(utilisation(0.0, 0.5).unwrap(), 0.75);
        assert_eq!(utilisation(1.0, 0.5).unwrap(), 1.0);
        assert!((utilisation(0.0, 0.7).unwrap() - 0.85).abs() < 1e-12);
        assert!(
            utilisation(-0.1, 0.5).is_err() && utilisation(f64::NAN, 0.5).is_err() && utilisation(0.0, 1.0).is_err()
        );
    }

    #[test]
    fn a_longer_queue_never_carries_less() {
        let shares: Vec<f64> = (0..=12).map(|tenths| utilisation(f64::from(tenths) / 10.0, 0.5).unwrap()).collect();
        assert!(shares.windows(2).all(|pair| pair[0] <= pair[1]), "{shares:?}");
    }
}
