//! What metrics show beside the gateway's state: what each class sent, and distributions of the peers' delays, sampled each second
//! while a peer is up.

use crate::transport::PathDelay;
use relay::engine::ClassAccount;
use relay::histogram::Histogram;
use std::collections::BTreeMap;
use units::Duration;

/// What is measured for metrics.
#[derive(Debug, Clone, Default)]
pub(crate) struct Measured {
    /// Connections relayed now: the snapshot for metrics has no line for each.
    pub(crate) connections_open: usize,
    pub(crate) classes: Vec<ClassAccount>,
    pub(crate) delays: Delays,
}

/// Narrow where round trips over satellites are: 20 to 100 ms in low orbits, 120 to 200 ms in medium ones, 500 to 700 ms in the
/// geostationary one.
const RTTS: &[Duration] = &[
    Duration::from_millis(20),
    Duration::from_millis(40),
    Duration::from_millis(60),
    Duration::from_millis(80),
    Duration::from_millis(100),
    Duration::from_millis(150),
    Duration::from_millis(200),
    Duration::from_millis(300),
    Duration::from_millis(500),
    Duration::from_millis(550),
    Duration::from_millis(600),
    Duration::from_millis(650),
    Duration::from_millis(700),
    Duration::from_millis(800),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
];

/// From a queue as it should be to a modem that buffers for seconds.
const QUEUEING: &[Duration] = &[
    Duration::from_millis(2),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(20),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
];

/// The delays of one peer.
#[derive(Debug, Clone, PartialEq)]
pub struct PeerDelays {
    pub(crate) rtt: Histogram,
    pub(crate) queueing: Histogram,
}

/// The delays of all peers, by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Delays(pub(crate) BTreeMap<String, PeerDelays>);

impl Delays {
    /// Counts a sample of the path to the peer `name`.
    pub(crate) fn sample(&mut self, name: &str, delay: PathDelay) {
        if !self.0.contains_key(name) {
            let empty = PeerDelays { rtt: Histogram::new(RTTS), queueing: Histogram::new(QUEUEING) };
            self.0.insert(name.to_owned(), empty);
        }
        if let Some(delays) = self.0.get_mut(name) {
            delays.rtt.record(delay.smoothed);
            delays.queueing.record(delay.smoothed.saturating_sub(delay.min));
        }
    }

    /// Forgets peers that are none any more.
    pub(crate) fn retain(&mut self, is_peer: impl Fn(&str) -> bool) {
        self.0.retain(|name, _| is_peer(name));
    }
}
