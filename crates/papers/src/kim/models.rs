//! What closed forms say of sessions that share the satellite.

use model::cross_layer;
use model::prediction::{self, Control, Direction, Link, Transfer};
use units::{Bytes, Duration, Probability, Rate};

/// In bit/s.
const RATE: u64 = 8_000_000;
const RTT: Duration = Duration::from_millis(500);
/// Payload of a segment.
pub const SEGMENT: u64 = 1460;
const HEADER: u64 = 40;
/// The K of equation 1 with which it gives the 326 segments of table I.
const HEADER_SHARE: f64 = 0.0505;
/// The largest congestion window in segments.
const MAX: u64 = 326;

/// Equation 1: the window of each of `sessions`, in segments.
pub fn window(sessions: u32) -> f64 {
    cross_layer::segments(Rate::from_bps(RATE), RTT, HEADER_SHARE, Bytes::new(SEGMENT), sessions)
}

/// Throughput of `sessions` together in Mbit/s: one window of equation 1 in a round trip for each, of the others the least bound
/// of a transfer without end over their part of the link.
pub fn throughput(variant: &str, error_rate: f64, sessions: u32) -> Option<f64> {
    let control = match variant {
        "cross-layer" => {
            let bits = window(sessions) * f64::from(sessions) * SEGMENT as f64 * 8.0;
            return Some(bits / RTT.as_secs_f64() / 1e6);
        }
        "reno" => Control::Reno,
        "cubic" => Control::Cubic,
        "hybla" | "split-hybla" => Control::Hybla,
        _ => return None,
    };
    // The Hybla of Linux takes the round-trip time of the path, the split one that of the satellite: the same here.
    let loss = Probability::new(1.0 - (1.0 - error_rate).powf(((SEGMENT + HEADER) * 8) as f64)).ok()?;
    let queue = Some(Bytes::new(50 * (SEGMENT + HEADER) / u64::from(sessions)));
    let link = Link { rate: Rate::from_bps(RATE / u64::from(sessions)), rtt: RTT, loss, queue };
    let transfer = Transfer {
        size: Bytes::new(1_000_000_000),
        mss: Bytes::new(SEGMENT),
        header: Bytes::new(HEADER),
        window: Some(Bytes::new(MAX * SEGMENT)),
        initial_window: 10.0,
        ack_every: 2,
        rto: Duration::from_secs(1),
        control,
        direction: Direction::Up,
    };
    let bound = prediction::least_bound(&link, &transfer).ok()?;
    Some(bound.as_bps() as f64 * f64::from(sessions) / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equation_1_gives_the_printed_window_and_nearly_the_rate_of_the_link() {
        assert_eq!((window(1), window(2), window(10)), (326.0, 163.0, 32.0));
        let all = throughput("cross-layer", 1e-6, 1).expect("known");
        assert!((all - 8.0 / 1.0505).abs() < 0.01, "{all}");
        assert_eq!(throughput("cross-layer", 0.0, 1), Some(all));
    }

    #[test]
    fn errors_and_few_sessions_limit_the_others() {
        for variant in ["reno", "cubic", "hybla"] {
            let of = |rate, sessions| throughput(variant, rate, sessions).expect("known");
            assert!(of(0.0, 1) > 7.0 && of(1e-6, 1) < 0.5 * of(0.0, 1), "{variant}");
            assert!(of(1e-6, 10) > 1.5 * of(1e-6, 1) && of(1e-6, 10) < 8.0, "{variant}");
        }
    }
}
