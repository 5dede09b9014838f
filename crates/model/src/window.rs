//! One window in a round trip, whatever the rate (RFC 2488): without window scaling, 900 kbit/s over a geostationary path.

use crate::estimate::{Invalid, rate_of, require_rtt};
use units::{Bytes, Duration, Rate};

/// The greatest window that TCP advertises without window scaling (RFC 9293).
pub const UNSCALED: Bytes = Bytes::new(65_535);

/// No more than `window` leaves in a round trip: `8 W / RTT`.
///
/// # Errors
/// If the window or the round-trip time is zero.
pub fn throughput(window: Bytes, rtt: Duration) -> Result<Rate, Invalid> {
    require_rtt(rtt)?;
    Invalid::unless(window > Bytes::ZERO, "window", window, "above 0B")?;
    Ok(rate_of(window.bits() as f64 / rtt.as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_scaling_a_geostationary_path_carries_900_kbit() {
        for (millis, bps) in [(580, 903_931), (560, 936_214)] {
            assert_eq!(throughput(UNSCALED, Duration::from_millis(millis)).unwrap(), Rate::from_bps(bps));
        }
    }

    #[test]
    fn nothing_in_no_time_is_refused() {
        assert_eq!(throughput(UNSCALED, Duration::ZERO).unwrap_err().to_string(), "rtt = 0s: allowed above 0s");
        assert_eq!(throughput(Bytes::ZERO, Duration::from_secs(1)).unwrap_err().parameter, "window");
    }
}
