//! The throughput that a connection would have without the gateways: an estimate by CUBIC's mean window over the link (RFC 9438, section 5.1).

use crate::losses::Losses;
use model::{LossyPath, cubic, limit};
use serde::Serialize;
use status::Snapshot;
use units::{Bytes, Duration, Probability, Rate};

/// Payload of a segment with timestamps in a packet of 1500 bytes (RFC 7323).
const MSS: Bytes = Bytes::new(1448);
/// RFC 6298: the first timeout. CUBIC's mean window does not depend on it.
const RTO: Duration = Duration::from_secs(1);

/// One connection from end to end with CUBIC, alone on the link.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct EndToEndEstimate {
    /// Its goodput, once it runs.
    throughput_bps: u64,
    /// The round trip of the link, without queues.
    rtt_s: f64,
    /// The losses of the last five minutes, without those of outages.
    loss: f64,
}

impl EndToEndEstimate {
    /// By the link's capacity and RTT of `now` and by `losses`; `None` if one of them is not known.
    pub(crate) fn estimate(now: &Snapshot, losses: &Losses) -> Option<Self> {
        let (loss, rtt) = (losses.share()?, Duration::from_secs_f64(now.link.rtt_s));
        let line = Rate::from_bps((now.rate_bps as f64 * limit::PAYLOAD_SHARE * (1.0 - loss.as_f64())) as u64);
        let path = LossyPath { mss: MSS, rtt, loss, ack_every: 2, rto: RTO, window: None };
        let throughput = if loss > Probability::ZERO { cubic::throughput(&path).ok()?.value.min(line) } else { line };
        (now.rate_bps > 0 && !rtt.is_zero()).then(|| Self {
            throughput_bps: throughput.as_bps(),
            rtt_s: now.link.rtt_s,
            loss: loss.as_f64(),
        })
    }

    /// In how many seconds it would move `bytes` at least: half a round trip more than its goodput needs, without its
    /// handshake and slow start.
    pub(crate) fn time_s(&self, bytes: u64) -> f64 {
        0.5 * self.rtt_s + 8.0 * bytes as f64 / (self.throughput_bps as f64).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use status::{Link, Peer, PeerState};

    fn state(sent_packets: u64, lost_packets: u64) -> Snapshot {
        Snapshot {
            rate_bps: 6_000_000,
            link: Link { rtt_s: 0.55, ..Link::default() },
            peers: vec![Peer { state: PeerState::Up, sent_packets, lost_packets, ..Peer::default() }],
            ..Snapshot::default()
        }
    }

    fn estimate(states: &[Snapshot]) -> Option<EndToEndEstimate> {
        let mut losses = Losses::default();
        states.windows(2).for_each(|pair| losses.take(&pair[0], &pair[1]));
        EndToEndEstimate::estimate(states.last()?, &losses)
    }

    #[test]
    fn losses_leave_cubics_mean_window_in_a_round_trip() {
        // RFC 9438, section 5.1, with C = 0.4 and beta = 0.7.
        let found = estimate(&[state(0, 0), state(100_000, 1000)]).unwrap();
        let window = (0.4f64 * 3.7 / (4.0 * 0.3)).powf(0.25) * (0.55f64 / 0.01).powf(0.75);
        let expected = window * 1448.0 * 8.0 / 0.55;
        assert!((found.throughput_bps as f64 / expected - 1.0).abs() < 1e-3, "{found:?}, {expected}");
        assert!((found.time_s(1_000_000) - (0.275 + 8e6 / expected)).abs() < 0.02);
    }

    #[test]
    fn without_losses_the_link_is_the_limit() {
        let found = estimate(&[state(0, 0), state(100_000, 0)]).unwrap();
        assert_eq!(found.throughput_bps, (6e6 * 1448.0 / 1500.0) as u64);
    }

    #[test]
    fn too_few_packets_and_unknown_links_are_no_estimate() {
        assert_eq!(estimate(&[state(0, 0), state(500, 10)]), None);
        assert_eq!(estimate(&[state(0, 0), Snapshot { link: Link::default(), ..state(100_000, 10) }]), None);
        let later = |uptime_s: f64, packets| Snapshot { uptime_s, ..state(packets, 0) };
        assert!(estimate(&[later(7.0, 0), later(8.0, 50_000)]).is_some());
        assert_eq!(estimate(&[later(7.0, 0), later(8.0, 50_000), later(0.0, 100)]), None, "another process");
    }

    /// A hub whose terminals come and go has an estimate all the same.
    #[test]
    fn a_session_that_begins_again_leaves_what_was_counted_before() {
        assert!(estimate(&[state(0, 0), state(5000, 50), state(10, 0)]).is_some());
    }
}
