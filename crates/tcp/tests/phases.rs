//! The states through which BBR goes over a path without loss: version 1 (Cardwell et al., ACM Queue 14(5), 2016, and `tcp_bbr.c` of
//! Linux 6.x) and version 3 (draft-ietf-ccwg-bbr).

use crate::path::Path;
use link::{LinkConfig, QueueLimit};
use tcp::{Config, ControlKind, Profile};
use units::{Bytes, Duration, Instant, Rate};

/// 10 Mbit/s and 60 ms: 75,000 bytes, or 50 packets.
const RATE: Rate = Rate::from_bps(10_000_000);
const RTT: Duration = Duration::from_millis(60);
const PACKETS: f64 = 50.0;

/// One stay in a state.
#[derive(Debug, Clone, Copy)]
struct Stay {
    phase: &'static str,
    from: Instant,
    until: Instant,
    /// The smallest and the largest window in it, in segments.
    windows: (f64, f64),
    /// The least in flight, in bytes.
    least_in_flight: u64,
}

impl Stay {
    fn millis(&self) -> f64 {
        self.until.since(self.from).as_millis_f64()
    }
}

/// The stays of `control` within `seconds`, the last of which is cut short.
fn stays(control: &str, seconds: u64) -> Vec<Stay> {
    let control = ControlKind::by_name(control).expect("known");
    let queue = QueueLimit::Bytes(Bytes::new(300_000));
    let link = LinkConfig { queue, ..LinkConfig::new(RATE, RTT / 2) };
    let mut path =
        Path::new(Config { control, seed: 3, ..Config::new(Profile::Linux) }, vec![link.clone()], vec![link]);
    path.client().write(1 << 40);
    let mut stays: Vec<Stay> = Vec::new();
    while path.now() < Instant::ZERO + Duration::from_secs(seconds) {
        path.step().expect("endless");
        let (metrics, now) = (path.metrics(), path.now());
        let cwnd = metrics.window.cwnd;
        match stays.last_mut().filter(|stay| stay.phase == metrics.phase) {
            Some(stay) => {
                stay.until = now;
                stay.windows = (stay.windows.0.min(cwnd), stay.windows.1.max(cwnd));
                stay.least_in_flight = stay.least_in_flight.min(metrics.in_flight);
            }
            None => stays.push(Stay {
                phase: metrics.phase,
                from: now,
                until: now,
                windows: (cwnd, cwnd),
                least_in_flight: metrics.in_flight,
            }),
        }
    }
    stays
}

fn names(stays: &[Stay]) -> Vec<&'static str> {
    stays.iter().map(|stay| stay.phase).collect()
}

/// Start-up ends when the bandwidth has stopped growing for three rounds, the drain when one bandwidth-delay product is in
/// flight, and the round-trip time is measured every 10 s, for 200 ms with four segments in flight.
#[test]
fn version_1_starts_drains_probes_bandwidth_and_every_ten_seconds_the_round_trip_time() {
    let stays = stays("bbr1", 32);
    let rest = ["probe-bw", "probe-rtt"].into_iter().cycle();
    let expected: Vec<_> = ["startup", "drain"].into_iter().chain(rest).take(stays.len()).collect();
    assert_eq!(names(&stays), expected);
    assert!(stays.len() >= 7, "three measurements: {stays:?}");
    // From 10 segments to 100, and three rounds more, of 60 to 150 ms.
    assert!((300.0..1_500.0).contains(&stays[0].millis()), "{:?}", stays[0]);
    assert!(stays[0].windows.1 > 2.0 * PACKETS, "{:?}", stays[0]);
    assert!(stays[1].millis() < 500.0, "{:?}", stays[1]);
    for stay in stays.iter().filter(|stay| stay.phase == "probe-rtt").take(2) {
        assert_eq!(stay.windows.0, 4.0, "{stay:?}");
        assert!((200.0..400.0).contains(&stay.millis()), "200 ms and a round: {stay:?}");
        assert!(stay.least_in_flight <= 4 * 1_448, "{stay:?}");
    }
    for stay in stays[2..].iter().filter(|stay| stay.phase == "probe-bw").take(2) {
        assert!((8_500.0..10_500.0).contains(&stay.millis()), "{stay:?}");
    }
}

/// A cycle is down, cruise, refill, up; the round-trip time is measured every 5 s, with half of the bandwidth-delay product in
/// flight, after which the cycle goes on down or with a cruise.
#[test]
fn version_3_goes_through_its_cycle_and_measures_the_round_trip_time_every_five_seconds() {
    let stays = stays("bbr3", 40);
    let names = names(&stays);
    // Down ends at once where the drain has left no more than the path holds.
    assert_eq!(names[..3], ["startup", "drain", "probe-bw-cruise"], "{names:?}");
    for pair in names.windows(2) {
        let may_follow: &[&str] = match pair[0] {
            "startup" => &["drain", "probe-rtt"],
            "drain" => &["probe-bw-down", "probe-bw-cruise", "probe-rtt"],
            "probe-bw-down" => &["probe-bw-cruise", "probe-bw-refill", "probe-rtt"],
            "probe-bw-cruise" => &["probe-bw-refill", "probe-rtt"],
            "probe-bw-refill" => &["probe-bw-up", "probe-rtt"],
            "probe-bw-up" => &["probe-bw-down", "probe-rtt"],
            "probe-rtt" => &["probe-bw-down", "probe-bw-cruise", "startup"],
            other => panic!("{other}"),
        };
        assert!(may_follow.contains(&pair[1]), "{pair:?}");
    }
    for phase in ["probe-bw-cruise", "probe-bw-refill", "probe-bw-up"] {
        assert!(names.iter().filter(|name| **name == phase).count() >= 4, "{phase}: {names:?}");
    }
    let probes: Vec<&Stay> = stays.iter().filter(|stay| stay.phase == "probe-rtt").collect();
    assert!((5..=8).contains(&probes.len()), "{}", probes.len());
    for stay in &probes[..probes.len() - 1] {
        assert!((200.0..450.0).contains(&stay.millis()), "{stay:?}");
        // The window of ProbeRTT is half of the estimated product, which is no less than the true one by much.
        assert!((0.4 * PACKETS..0.75 * PACKETS).contains(&stay.windows.0), "{stay:?}");
    }
    for pair in probes.windows(2) {
        let apart = pair[1].from.since(pair[0].until).as_millis_f64();
        assert!((4_500.0..5_800.0).contains(&apart), "{apart}");
    }
}
