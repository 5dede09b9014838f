//! The square-root law (Mathis, Semke, Mahdavi and Ott, CCR 27(3), 1997): Reno in congestion avoidance with regular losses
//! that fast retransmit repairs.

use crate::estimate::{Estimate, Invalid};
use crate::lossy_path::LossyPath;
use units::Rate;

/// Above this share of losses timeouts, which the law leaves out, take over.
pub const MAX_LOSS: f64 = 0.02;

/// `8 MSS / RTT x sqrt(3 / (2 b p))`. The receiver's window does not enter.
///
/// # Errors
/// If a parameter is outside what [`LossyPath`] says, or nothing is lost.
pub fn throughput(path: &LossyPath) -> Result<Estimate<Rate>, Invalid> {
    path.check()?;
    let rate = path.rate(segments(path) / path.rtt.as_secs_f64());
    Ok(path.valid_below(MAX_LOSS, rate, "timeouts, which the square-root law leaves out, take over"))
}

/// The mean window in segments: `sqrt(3 / (2 b p))`.
pub(crate) fn segments(path: &LossyPath) -> f64 {
    (1.5 / (path.b() * path.p())).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lossy_path::geostationary;

    #[test]
    fn check_values() {
        for (ack_every, kbps) in [(1, [2600.9, 822.5, 260.1]), (2, [1839.1, 581.6, 183.9])] {
            for (loss, kbps) in [1e-4, 1e-3, 1e-2].into_iter().zip(kbps) {
                let found = throughput(&geostationary(loss, ack_every)).unwrap();
                assert!((found.value.as_bps() as f64 / 1e3 - kbps).abs() < 0.06, "{loss}: {:?}", found.value);
                assert!(found.is_valid());
            }
        }
    }

    #[test]
    fn outside_its_range_it_says_so() {
        assert!(throughput(&geostationary(0.03, 1)).unwrap().doubt.unwrap().contains("0.02"));
        assert_eq!(throughput(&geostationary(0.0, 1)).unwrap_err().parameter, "loss");
        assert_eq!(throughput(&geostationary(1.0, 1)).unwrap_err().parameter, "loss");
        assert_eq!(throughput(&geostationary(0.1, 0)).unwrap_err().parameter, "ack-every");
    }
}
