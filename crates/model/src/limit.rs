//! The link's physical limit: no protocol is faster.

use units::{Bytes, Duration, Probability, Rate};

/// Share of a full IPv4 packet (1500 bytes) that is TCP payload, with timestamps.
pub const PAYLOAD_SHARE: f64 = 1448.0 / 1500.0;

/// Least time in which `size` bytes can cross a link of `rate` that loses a fraction `loss` of its packets, whatever
/// the protocol: `rounds x RTT + size x 8 / (rate x 1448/1500 x (1 - loss))`. Half a round if the client sends, one if it
/// asks and the server sends. [`Duration::MAX`] where nothing arrives.
pub fn time(rounds: f64, size: Bytes, rate: Rate, rtt: Duration, loss: Probability) -> Duration {
    time_at(rounds, size, rate.as_bps() as f64 * PAYLOAD_SHARE * (1.0 - loss.as_f64()), rtt)
}

/// The same over a link that carries `payload_bps` bits of payload per second, as packets of any size leave it.
pub(crate) fn time_at(rounds: f64, size: Bytes, payload_bps: f64, rtt: Duration) -> Duration {
    let sending = if size == Bytes::ZERO { 0.0 } else { size.bits() as f64 / payload_bps };
    Duration::from_secs_f64(rounds * rtt.as_secs_f64() + sending)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_megabyte_at_6_mbit_over_geo() {
        let of = |rounds, loss| {
            let loss = Probability::new(loss).unwrap();
            time(rounds, Bytes::new(1_000_000), Rate::from_bps(6_000_000), Duration::from_millis(550), loss)
                .as_secs_f64()
        };
        // 1.3812 s to send, and half a round trip or one.
        assert!((of(0.5, 0.0) - 1.6562).abs() < 1e-3);
        assert!((of(1.0, 0.0) - 1.9312).abs() < 1e-3);
        assert!((of(1.0, 1e-2) - 1.9452).abs() < 1e-3);
    }

    #[test]
    fn what_never_arrives_takes_for_ever() {
        let of = |rate, loss| time(1.0, Bytes::new(1), rate, Duration::ZERO, Probability::new(loss).unwrap());
        assert_eq!(of(Rate::ZERO, 0.0), Duration::MAX);
        assert_eq!(of(Rate::from_bps(1), 1.0), Duration::MAX);
        assert_eq!(time(1.0, Bytes::ZERO, Rate::ZERO, Duration::ZERO, Probability::ZERO), Duration::ZERO);
    }
}
