//! The cross-layer window (Kim et al.): what the link layer's allocation holds in a round trip, for each session.

use crate::estimate::Invalid;
use units::{Bytes, Duration, Rate};

/// The least window, in segments: it takes two to be acknowledged at once.
pub const LEAST: f64 = 2.0;

/// `max(2, floor(RTT R / (8 (1 + K) S N)))` segments: allocation `R`, payload `S` of a segment, `K` bytes of headers for
/// each byte of payload, `N` sessions (0 counts as 1). The round-trip time is that of propagation: one with queues in it
/// would make the window, and the queues, grow without bound.
pub fn segments(capacity: Rate, rtt: Duration, header_share: f64, payload: Bytes, sessions: u32) -> f64 {
    let bytes = share(capacity, header_share, sessions) * rtt.as_secs_f64();
    (bytes / payload.as_u64().max(1) as f64).floor().max(LEAST)
}

/// [`segments`] for one of the sessions: what is left of dividing whole segments, which the equation's rounding wastes, goes to
/// as many of them. Those of all ranks, from 0 to `sessions`, are together what one session alone would have.
pub fn segments_of(capacity: Rate, rtt: Duration, header_share: f64, payload: Bytes, sessions: u32, rank: u32) -> f64 {
    let all = (share(capacity, header_share, 1) * rtt.as_secs_f64() / payload.as_u64().max(1) as f64).floor();
    let sessions = sessions.max(1);
    let up_to = |rank: u32| (all * f64::from(rank) / f64::from(sessions)).floor();
    let rank = rank % sessions;
    (up_to(rank + 1) - up_to(rank)).max(LEAST)
}

/// Payload bytes per second of each session: `R / (8 (1 + K) N)`.
pub fn share(capacity: Rate, header_share: f64, sessions: u32) -> f64 {
    capacity.as_bps() as f64 / (8.0 * (1.0 + header_share) * f64::from(sessions.max(1)))
}

/// [`segments`] for parameters that nobody has checked.
///
/// # Errors
/// If the segment has no payload, the share of headers is negative, or there is no session.
pub fn checked(
    capacity: Rate,
    rtt: Duration,
    header_share: f64,
    payload: Bytes,
    sessions: u32,
) -> Result<f64, Invalid> {
    Invalid::unless(payload > Bytes::ZERO, "mss", payload, "above 0B")?;
    Invalid::unless(header_share >= 0.0, "header share", header_share, "0 or more")?;
    Invalid::unless(sessions > 0, "sessions", sessions, "1 or more")?;
    Ok(segments(capacity, rtt, header_share, payload, sessions))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_windows_of_the_paper() {
        let of = |mbit: u64, sessions| {
            let rate = Rate::from_bps(mbit * 1_000_000);
            checked(rate, Duration::from_millis(500), 0.0505, Bytes::new(1460), sessions).unwrap()
        };
        for (sessions, expected) in [(1, 326.0), (2, 163.0), (10, 32.0)] {
            assert_eq!(of(8, sessions), expected);
        }
        assert_eq!((of(4, 1), of(0, 1)), (163.0, 2.0));
    }

    #[test]
    fn what_rounding_leaves_is_shared_out() {
        let rate = Rate::from_bps(8_000_000);
        let rtt = Duration::from_millis(500);
        for sessions in 1..=100 {
            let of = |rank| segments_of(rate, rtt, 52.0 / 1448.0, Bytes::new(1448), sessions, rank);
            let parts: Vec<_> = (0..sessions).map(of).collect();
            let least = segments(rate, rtt, 52.0 / 1448.0, Bytes::new(1448), sessions);
            assert_eq!(parts.iter().sum::<f64>(), 333.0);
            assert!(parts.iter().all(|part| (least..=least + 1.0).contains(part)), "{parts:?}");
            assert_eq!(of(0), least);
        }
    }

    #[test]
    fn what_means_nothing_is_refused() {
        let of = |share, payload, sessions| {
            checked(Rate::from_bps(1), Duration::ZERO, share, Bytes::new(payload), sessions).unwrap_err().parameter
        };
        assert_eq!(of(0.05, 0, 1), "mss");
        assert_eq!(of(-0.1, 1460, 1), "header share");
        assert_eq!(of(0.05, 1460, 0), "sessions");
    }
}
