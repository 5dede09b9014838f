//! How much of the link other traffic takes, as the deployed gateway measures it: what enters the link, less what the
//! session has sent.

use crate::DirectionId;
use crate::wire::Wire;
use units::{Bytes, Duration, Instant, Rate};

/// How often the link's counter is read.
const PERIOD: Duration = Duration::from_millis(100);
/// Weight of the newest reading: the estimate follows a change within about half a second.
const GAIN: f64 = 0.3;

/// Reads the counter of the first link towards the other gateway, and keeps a smoothed rate.
#[derive(Debug)]
pub(super) struct OutsideTraffic {
    link: DirectionId,
    at: Instant,
    /// Bytes that had entered the link by then, and of them those of the session.
    offered: u64,
    own: u64,
    smoothed_bps: f64,
}

impl OutsideTraffic {
    /// Nothing has entered the link but what the session sent before the run began: `own` bytes, elsewhere.
    pub(super) fn new(link: DirectionId, own: u64) -> Self {
        Self { link, at: Instant::ZERO, offered: 0, own, smoothed_bps: 0.0 }
    }

    /// When the next reading is due.
    pub(super) fn due(&self) -> Instant {
        self.at + PERIOD
    }

    /// Takes the reading that is due, with `own` bytes sent by the session in all. Returns the rate of all other traffic.
    pub(super) fn update(&mut self, wire: &Wire, own: u64) -> Rate {
        let offered = wire.counters()[self.link.index()].offered.bytes;
        let others = (offered - self.offered).saturating_sub(own - self.own);
        let rate = Rate::from_transfer(Bytes::new(others), wire.now.since(self.at));
        self.smoothed_bps += GAIN * (rate.as_bps() as f64 - self.smoothed_bps);
        (self.at, self.offered, self.own) = (wire.now, offered, own);
        Rate::from_bps(self.smoothed_bps as u64)
    }
}
