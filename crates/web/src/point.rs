//! One point of the history: what happened between two samples.

use status::{Peer, PeerState, Snapshot, Source};
use std::collections::{BTreeMap, HashMap};

/// The values of one point: rates, times, shares and counts of one second. What is not known is NaN, null in JSON.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point(
    /// In the order of [`FIELDS`].
    pub(crate) [f32; FIELDS.len()],
);

/// The names of a point's values.
pub(crate) const FIELDS: [&str; 15] = [
    "capacity_bps",
    "sent_bps",
    "received_bps",
    "cross_traffic_bps",
    "rtt_s",
    "link_rtt_s",
    "loss",
    "retransmitted",
    "repair",
    "waiting_bytes",
    "peers_up",
    "streams",
    "configured_bps",
    "estimated_bps",
    "reported_bps",
];

impl Point {
    /// A point of which nothing is known.
    pub(crate) const UNKNOWN: Self = Self([f32::NAN; FIELDS.len()]);
    /// Of less than a full packet, a share says nothing of the link.
    const FEWEST_BYTES: f64 = 1500.0;

    /// What happened from `before` to `now`, `seconds` apart. Counters of another process say nothing of it.
    pub(crate) fn between(before: &Snapshot, now: &Snapshot, seconds: f64) -> Self {
        let rate =
            |before: u64, now: u64| now.checked_sub(before).map_or(f64::NAN, |bytes| bytes as f64 * 8.0 / seconds);
        let sum = |of: fn(&Peer) -> u64| growth(before, now, of).map_or(f64::NAN, |count| count as f64);
        // The `tcp` transport counts no packets, and knows neither what is sent again nor what waits.
        let counts_packets = now.satellite.sent_packets > 0;
        // Losses are known a round trip after the packets were sent, when fewer may be.
        let share = |part: f64, of: f64| match (counts_packets && part.is_finite(), of > 0.0) {
            (false, _) => f64::NAN,
            (true, false) => 0.0,
            (true, true) => (part / of).min(1.0),
        };
        let (sent_bps, received_bps) = if counts_packets {
            let (before, now) = (&before.satellite, &now.satellite);
            (rate(before.sent_ip_bytes, now.sent_ip_bytes), rate(before.received_ip_bytes, now.received_ip_bytes))
        } else {
            [sum(|peer| peer.sent_bytes), sum(|peer| peer.received_bytes)].map(|bytes| bytes * 8.0 / seconds).into()
        };
        let waiting = now.peers.iter().map(|peer| peer.send_buffered_bytes).sum::<u64>() as f64;
        let sent = sum(|peer| peer.sent_bytes);
        let retransmitted = sum(|peer| peer.retransmitted_bytes);
        let repair = sum(|peer| peer.repair_bytes);
        let all = sent + retransmitted + repair;
        let share_of_bytes =
            |part: f64| if part > 0.0 && all < Self::FEWEST_BYTES { f64::NAN } else { share(part, all) };
        let capacity_from = |source| if source == capacity_kind(now) { now.rate_bps as f64 } else { f64::NAN };
        Self(
            [
                now.rate_bps as f64,
                sent_bps,
                received_bps,
                now.cross_traffic_bps.map_or(f64::NAN, |bps| bps as f64),
                median_rtt(&now.peers),
                now.link.rtt_s,
                share(sum(|peer| peer.lost_packets), sum(|peer| peer.sent_packets)),
                share_of_bytes(retransmitted),
                share_of_bytes(repair),
                if counts_packets { waiting } else { f64::NAN },
                now.peers.iter().filter(|peer| peer.state == PeerState::Up).count() as f64,
                now.peers.iter().map(|peer| peer.streams).sum::<u64>() as f64,
                capacity_from("configured"),
                capacity_from("estimated"),
                capacity_from("reported"),
            ]
            .map(|value| value as f32),
        )
    }

    /// The values by name.
    pub(crate) fn named(&self) -> BTreeMap<&'static str, f32> {
        FIELDS.into_iter().zip(self.0).collect()
    }

    /// The mean of `points`, value by value, of those that are known.
    pub(crate) fn mean(points: &[Self]) -> Self {
        let mut mean = Self::UNKNOWN;
        for (at, mean) in mean.0.iter_mut().enumerate() {
            let known = points.iter().map(|point| f64::from(point.0[at])).filter(|value| !value.is_nan());
            let (sum, count) = known.fold((0.0, 0u32), |(sum, count), value| (sum + value, count + 1));
            if count > 0 {
                *mean = (sum / f64::from(count)) as f32;
            }
        }
        mean
    }
}

/// By how much the peers' counter `of` has grown, all in all. That of a peer that was removed and added again begins at zero. One that
/// `before` does not name counts for nothing: it is new, or an old one with its whole past under another name. `None` if `now` is another
/// process's.
pub(crate) fn growth(before: &Snapshot, now: &Snapshot, of: fn(&Peer) -> u64) -> Option<u64> {
    let counted: HashMap<&str, u64> = before.peers.iter().map(|peer| (peer.name.as_str(), of(peer))).collect();
    let grown = |peer: &Peer| counted.get(peer.name.as_str()).map_or(0, |before| of(peer).saturating_sub(*before));
    (now.uptime_s >= before.uptime_s).then(|| now.peers.iter().map(grown).sum())
}

/// Where the capacity in use is from. What a source has reported counts on when it reports no more, until something else is known.
pub(crate) fn capacity_kind(now: &Snapshot) -> &'static str {
    match &*now.capacity.basis {
        "reported" => "reported",
        "fixed" | "" if now.link.source != Source::Configured => "reported",
        "prior" | "fixed" | "" => "configured",
        _ => "estimated",
    }
}

/// The median round-trip time of the peers that are up; NaN if none is.
fn median_rtt(peers: &[Peer]) -> f64 {
    let mut rtts: Vec<f64> =
        peers.iter().filter(|peer| peer.state == PeerState::Up).filter_map(|peer| peer.rtt_s).collect();
    if rtts.is_empty() {
        return f64::NAN;
    }
    let middle = rtts.len() / 2;
    *rtts.select_nth_unstable_by(middle, f64::total_cmp).1
}

#[cfg(test)]
mod tests {
    use super::*;
    use status::Satellite;

    fn value(point: &Point, name: &str) -> f32 {
        point.0[FIELDS.iter().position(|field| *field == name).unwrap_or_else(|| panic!("{name}"))]
    }

    fn peer(rtt_s: f64, sent_packets: u64, lost_packets: u64) -> Peer {
        let name = format!("{rtt_s}");
        Peer { name, state: PeerState::Up, rtt_s: Some(rtt_s), sent_packets, lost_packets, ..Peer::default() }
    }

    fn sent(sent_ip_bytes: u64) -> Satellite {
        Satellite { sent_ip_bytes, sent_packets: sent_ip_bytes.div_ceil(1000), ..Satellite::default() }
    }

    #[test]
    fn counters_become_rates_and_shares() {
        let before =
            Snapshot { satellite: sent(1000), peers: vec![peer(0.6, 100, 5), peer(0.7, 0, 0)], ..Snapshot::default() };
        let mut now =
            Snapshot { satellite: sent(251_000), peers: vec![peer(0.6, 180, 9), peer(0.7, 20, 0)], ..before.clone() };
        now.peers[0].sent_bytes = 9000;
        now.peers[1].repair_bytes = 1000;
        let point = Point::between(&before, &now, 2.0);
        assert_eq!(value(&point, "sent_bps"), 1_000_000.0);
        assert_eq!(value(&point, "loss"), 0.04);
        assert_eq!(value(&point, "repair"), 0.1);
        assert_eq!(value(&point, "rtt_s"), 0.7);
        assert_eq!(value(&point, "peers_up"), 2.0);
    }

    /// As at the start of a session, when each end announces what the other may reach.
    #[test]
    fn the_repair_of_a_few_bytes_is_no_share_of_traffic() {
        let before = Snapshot { satellite: sent(1000), peers: vec![peer(0.6, 0, 0)], ..Snapshot::default() };
        let mut now = Snapshot { satellite: sent(2000), ..before.clone() };
        now.peers[0].sent_bytes = 21;
        assert_eq!(value(&Point::between(&before, &now, 1.0), "repair"), 0.0);
        now.peers[0].repair_bytes = 46;
        let point = Point::between(&before, &now, 1.0);
        assert!(value(&point, "repair").is_nan(), "{point:?}");
        assert_eq!(value(&point, "retransmitted"), 0.0);
    }

    #[test]
    fn capacity_is_told_by_its_source() {
        let mut now = Snapshot { rate_bps: 6_000_000, ..Snapshot::default() };
        now.capacity.basis = "prior".into();
        let known = |now: &Snapshot| {
            let point = Point::between(&Snapshot::default(), now, 1.0);
            ["configured_bps", "estimated_bps", "reported_bps"].map(|name| value(&point, name) == 6e6)
        };
        assert_eq!(known(&now), [true, false, false], "nothing is reported yet");
        now.link.source = Source::Dlep;
        now.capacity.basis = "reported".into();
        assert_eq!(known(&now), [false, false, true]);
        now.capacity.basis = "queue".into();
        assert_eq!(known(&now), [false, true, false]);
    }

    #[test]
    fn counters_of_another_process_are_not_compared() {
        let peers = vec![peer(0.6, 100, 5)];
        let before = Snapshot { satellite: sent(2000), peers, uptime_s: 9.0, ..Snapshot::default() };
        let now = Snapshot { satellite: sent(1000), peers: vec![peer(0.6, 1, 0)], ..Snapshot::default() };
        let point = Point::between(&before, &now, 1.0);
        assert!(value(&point, "sent_bps").is_nan() && value(&point, "loss").is_nan(), "{point:?}");
        assert_eq!(serde_json::to_value(point.named()).unwrap()["sent_bps"], serde_json::Value::Null);
    }

    #[test]
    fn a_session_that_begins_again_says_nothing_of_the_losses_of_others() {
        let peers = vec![peer(0.5, 200, 20), peer(0.6, 1000, 0)];
        let before = Snapshot { satellite: sent(1000), peers, ..Snapshot::default() };
        let now = Snapshot { peers: vec![peer(0.5, 10, 0), peer(0.6, 2000, 10)], ..before.clone() };
        assert_eq!(value(&Point::between(&before, &now, 1.0), "loss"), 0.01);
    }

    #[test]
    fn a_peer_that_is_renamed_has_not_moved_its_past_in_one_second() {
        let named = |name: &str, sent_bytes| Peer { name: name.into(), sent_bytes, ..peer(0.6, 0, 0) };
        let before = Snapshot { peers: vec![named("uno", 100_000_000_000)], ..Snapshot::default() };
        let now = Snapshot { peers: vec![named("one", 100_000_125_000)], ..Snapshot::default() };
        assert_eq!(value(&Point::between(&before, &now, 1.0), "sent_bps"), 0.0);
    }

    #[test]
    fn a_transport_that_counts_no_packets_has_the_rates_of_its_peers_and_no_losses() {
        let transfers = |sent_bytes, lost_packets| Peer { sent_bytes, lost_packets, ..peer(0.6, 0, 0) };
        let before = Snapshot { peers: vec![transfers(1000, 0)], ..Snapshot::default() };
        let now = Snapshot { peers: vec![transfers(251_000, 7)], ..Snapshot::default() };
        let point = Point::between(&before, &now, 2.0);
        assert_eq!((value(&point, "sent_bps"), value(&point, "received_bps")), (1_000_000.0, 0.0));
        for unknown in ["loss", "retransmitted", "repair", "waiting_bytes"] {
            assert!(value(&point, unknown).is_nan(), "{unknown}");
        }
    }

    #[test]
    fn a_mean_is_that_of_what_is_known() {
        let mut known = Point::UNKNOWN;
        known.0[0] = 3.0;
        let other = Point([1.0; FIELDS.len()]);
        let mean = Point::mean(&[known, other, Point::UNKNOWN]);
        assert_eq!((mean.0[0], mean.0[1]), (2.0, 1.0));
        assert!(Point::mean(&[]).0[0].is_nan());
    }
}
